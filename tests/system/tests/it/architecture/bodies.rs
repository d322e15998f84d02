//! Where bodies are read: each place has a limit, for a server or a client may send one without end.

use super::{assert_no_complaints, names::production_files};

/// Each file that reads bodies of responses, and what ends a body that has no end.
const BODY_READERS: &[(&str, &str)] = &[
    ("adapters/blobs-s3/src/connector.rs", "64 KB of an error, 8 MB of any other answer; a file by its listed size"),
    ("adapters/blobs-s3/src/unfinished.rs", "the limits of the connector"),
    ("adapters/http-server/src/body.rs", "the size and the time of its caller"),
    ("adapters/http/src/body.rs", "the size that the caller takes, before and after unpacking"),
    ("adapters/models/src/body.rs", "64 KB of an error, the caller's limit of anything else"),
    ("adapters/models/src/relay.rs", "8 MB of a frame, 64 MB of an answer"),
    ("adapters/platform-http/src/exchange.rs", "64 KB of an error, 16 MB of any other answer"),
    ("adapters/speech/src/server.rs", "16 KB of an error, 1 MB of a transcription, 1 GB and an hour of sound"),
    ("adapters/telegram/src/bot.rs", "the limit of the store, which is given the stream"),
    ("apps/satchel/src/platforms.rs", "256 KB of the answer to a check of a token"),
];

/// Calls that read a body chunk by chunk, or up to a size, and the trait without which there are others.
const CHUNK_CALLS: [&str; 5] = [".chunk()", ".bytes_stream()", ".frame()", "body::to_bytes", "BodyExt"];

/// Calls that read a body to its end, whatever its length.
const WHOLE_CALLS: [&str; 4] = [".text().await", ".bytes().await", ".json().await", ".json::<"];

#[test]
fn each_response_body_is_read_within_a_limit() {
    let files = production_files();
    let mut complaints = Vec::new();
    let mut counted = 0;
    for file in &files {
        let text: String = file.text.split_whitespace().collect();
        for call in WHOLE_CALLS.iter().filter(|call| text.contains(**call)) {
            complaints.push(format!("{} reads a body without a limit: `{call}`", file.path));
        }
        if CHUNK_CALLS.iter().any(|call| text.contains(call)) {
            counted += 1;
            if !BODY_READERS.iter().any(|(path, _)| *path == file.path) {
                complaints.push(format!("{} reads bodies: add it to BODY_READERS with its limit", file.path));
            }
        }
    }
    assert_eq!(counted, BODY_READERS.len(), "each of them still reads bodies");
    assert_no_complaints(&complaints);
}
