//! Encodes the events of the event stream.

use bytes::Bytes;
use serde::Serialize;

/// The comment that keeps an idle stream alive.
pub(crate) const KEEP_ALIVE: &[u8] = b": still here\n\n";

pub(crate) fn event_frame(name: &str, content: &impl Serialize) -> Bytes {
    write_frame(&format!("event: {name}\ndata: "), content)
}

/// Encodes the first event, with the reconnect delay.
pub(crate) fn first_frame(name: &str, content: &impl Serialize) -> Bytes {
    write_frame(&format!("retry: 1000\nevent: {name}\ndata: "), content)
}

fn write_frame(head: &str, content: &impl Serialize) -> Bytes {
    let mut frame = head.as_bytes().to_vec();
    // JSON has no line breaks but escaped ones, so it is one line of the event stream.
    serde_json::to_writer(&mut frame, content).expect("what is shown is plain data");
    frame.extend_from_slice(b"\n\n");
    frame.into()
}
