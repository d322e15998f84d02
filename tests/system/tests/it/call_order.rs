//! The order of the calls in one answer, as a person has the result: a file that one call writes and the next one attaches.

use satchel_domain::Sha256;
use serde_json::json;
use sha2::Digest;

use crate::{
    day::{
        call_reply,
        harness::{DayHarness, TestChat},
        telegram::TelegramChat,
        text_reply,
    },
    tool_result::tool_results,
};

fn digest(content: &str) -> Sha256 {
    Sha256(sha2::Sha256::digest(content).into())
}

/// Mutation: all calls of an answer start at once, so that the file is attached before it is there, or after it was
/// replaced.
#[tokio::test(flavor = "multi_thread")]
async fn file_is_written_attached_and_replaced_in_one_answer() {
    let mut harness = DayHarness::new(TelegramChat::open().await).await;
    harness.start().await;
    let path = "/shared/packing.txt";
    harness.model.reply(call_reply(
        "packing list",
        &[
            ("file_write", json!({ "path": path, "content": "socks\n" })),
            ("attachment_add", json!({ "path": path })),
            ("file_write", json!({ "path": path, "content": "socks\nboots\n", "overwrite": true })),
            ("file_read", json!({ "path": path })),
        ],
    ));
    harness.model.reply(text_reply("Here is the packing list."));
    harness.chat.send("Write me a packing list.");
    harness.wait_for_file("packing.txt", 1).await;
    harness.wait_for_text("Here is the packing list.").await;
    assert_eq!(harness.chat.files(), [("packing.txt".to_owned(), digest("socks\n"))], "as it was when it was attached");
    assert_eq!(harness.stored_files(""), [digest("socks\nboots\n")]);
    let results = tool_results(&harness.model);
    assert!(results[3].raw.contains("boots"), "what reads waits for what changes: {results:?}");
}
