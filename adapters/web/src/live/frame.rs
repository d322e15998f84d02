//! One event of the stream as the text that carries it.

use bytes::Bytes;
use serde::Serialize;

/// Sent while nothing happens, so that everything on the way knows that the stream is alive.
pub(crate) const KEEP_ALIVE: &[u8] = b": still here\n\n";

pub(crate) fn event_frame(name: &str, content: &impl Serialize) -> Bytes {
    write(&format!("event: {name}\ndata: "), content)
}

/// Writes the first event, and how soon to come back when the stream ends.
pub(crate) fn first_frame(name: &str, content: &impl Serialize) -> Bytes {
    write(&format!("retry: 1000\nevent: {name}\ndata: "), content)
}

fn write(head: &str, content: &impl Serialize) -> Bytes {
    let mut frame = head.as_bytes().to_vec();
    // JSON has no line breaks but escaped ones, so it is one line of the event stream.
    serde_json::to_writer(&mut frame, content).expect("what is shown is plain data");
    frame.extend_from_slice(b"\n\n");
    frame.into()
}
