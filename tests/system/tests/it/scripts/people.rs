//! What scripts make, as people get it on Telegram and Discord, byte for byte; and a script that is cut off.

use std::time::Duration;

use satchel_domain::{Sha256, script::to_script_message};
use satchel_fake_discord::DiscordRules;
use serde_json::json;
use sha2::Digest;

use crate::day::{
    call_reply,
    discord::DiscordChat,
    harness::{DayHarness, TestChat},
    telegram::TelegramChat,
    text_reply,
};

/// A picture of one pixel, in the letters by which a script can write it down.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async fn start_harness<C: TestChat>(chat: C) -> DayHarness<C> {
    let mut harness = DayHarness::new(chat).await;
    harness.start().await;
    harness
}

/// The script and what is in its files, by name.
fn three_file_script() -> (String, Vec<(String, Sha256)>) {
    let script = format!(
        r##"
rows = ["name,count"]
for n in range(5000):
    rows.append(f"row {{n}} ä🎒,{{n * 2:>6}}")
attachment_create(content="\n".join(rows), filename="table.csv", mime_type="text/csv")
attachment_create(content="{PIXEL}", filename="pixel.png", mime_type="image/png", encoding="base64")
attachment_create(content="hidden", filename="hidden.txt", visibility="internal")
attachment_create(content="# Отчёт\n", filename="report.md", mime_type="text/markdown")
return "Three files."
"##
    );
    let rows = (0..5000).map(|n| format!("row {n} ä🎒,{:>6}", n * 2));
    let table = std::iter::once("name,count".to_owned()).chain(rows).collect::<Vec<_>>().join("\n");
    // As `base64 -d | sha256sum` has it.
    let pixel = Sha256(sha2::Sha256::digest(pixel()).into());
    let digest = |text: &str| Sha256(sha2::Sha256::digest(text.as_bytes()).into());
    let files = vec![
        ("table.csv".to_owned(), digest(&table)),
        ("pixel.png".to_owned(), pixel),
        ("report.md".to_owned(), digest("# Отчёт\n")),
    ];
    (script, files)
}

fn pixel() -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let sextet = |letter: u8| LETTERS.iter().position(|known| *known == letter).unwrap_or(0) as u32;
    let groups = PIXEL.as_bytes().chunks(4).flat_map(|group| {
        let bits = group.iter().fold(0, |bits, letter| bits << 6 | sextet(*letter));
        let bytes = group.iter().filter(|letter| **letter != b'=').count() - 1;
        bits.to_be_bytes()[1..=bytes].to_vec()
    });
    groups.collect()
}

async fn assert_every_byte_arrives<C: TestChat>(chat: C) {
    let harness = start_harness(chat).await;
    let (script, mut files) = three_file_script();
    harness.chat.send(&to_script_message(&script));
    harness.wait_for_file("report.md", 1).await;
    harness.wait_for_text("Three files.").await;
    let mut came = harness.chat.files();
    came.sort();
    files.sort();
    assert_eq!(came, files, "{}", harness.chat.transcript());
    assert_eq!(harness.model.requests().len(), 0, "no model was needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn script_files_arrive_complete_on_telegram() {
    assert_every_byte_arrives(TelegramChat::open().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn script_files_arrive_complete_on_discord() {
    assert_every_byte_arrives(DiscordChat::open(DiscordRules::unpaced()).await).await;
}

/// A long answer is no flood of messages: people get its beginning, and every byte as a file.
#[tokio::test(flavor = "multi_thread")]
async fn overlong_script_result_arrives_as_complete_file() {
    let harness = start_harness(DiscordChat::open(DiscordRules::unpaced()).await).await;
    harness.chat.send(&to_script_message("return \"x\" * 150000\n"));
    harness.wait_for_file("answer.txt", 1).await;
    let full_text = format!("Script result: {}", "x".repeat(150_000));
    let digest = Sha256(sha2::Sha256::digest(full_text.as_bytes()).into());
    assert_eq!(harness.chat.files(), [("answer.txt".to_owned(), digest)], "{}", harness.chat.transcript());
    let texts = harness.chat.texts();
    let [said] = texts.as_slice() else { panic!("{texts:?}") };
    assert!(full_text.starts_with(&said[..1_000]) && said.contains("the whole answer is in `answer.txt`"), "{said}");
    assert_eq!(harness.model.requests().len(), 0, "no model was needed");
}

/// The integration part of the design's list: the model hears of the files, sees the pictures, and uses them later.
#[tokio::test(flavor = "multi_thread")]
async fn model_views_script_picture_and_reuses_its_file() {
    let harness = start_harness(DiscordChat::open(DiscordRules::unpaced()).await).await;
    let script = format!(
        "attachment_create(content=\"{PIXEL}\", filename=\"pixel.png\", mime_type=\"image/png\", encoding=\"base64\")\nreturn \"Drawn\""
    );
    harness.model.reply(call_reply("draw", &[("execute_script", json!({ "script": script }))]));
    harness.model.reply(text_reply("Here is the picture."));
    harness.chat.send("Please draw something.");
    harness.wait_for_file("pixel.png", 1).await;
    harness.wait_for_text("Here is the picture.").await;
    let asked = harness.last_request();
    assert!(asked.contains("Script result: Drawn"), "{asked}");
    assert!(asked.contains(&PIXEL[..60]), "the picture itself: {asked}");

    harness.model.reply(text_reply("You are welcome."));
    harness.chat.send("Thanks.");
    harness.wait_for_text("You are welcome.").await;
    let asked = harness.last_request();
    let id = asked.split("[attachment ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a reference");
    let script = format!("return {{\"text\": \"again\", \"attachment_id\": \"{id}\"}}");
    harness.model.reply(call_reply("again", &[("execute_script", json!({ "script": script }))]));
    harness.model.reply(text_reply("And once more."));
    harness.chat.send("Send it again.");
    harness.wait_for_file("pixel.png", 2).await;
}

/// The attack: the power fails while a script runs that has called a tool already.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_script_repeats_no_tool_and_reports_files() {
    let mut harness = start_harness(TelegramChat::open().await).await;
    let script = "attachment_create(content=\"made before\", filename=\"before.txt\")\n\
                  file_write(path=\"/shared/once/note.txt\", content=\"written once\")\n\
                  for i in range(2000000000):\n    pass\n";
    harness.chat.send(&to_script_message(script));
    let written = async {
        while !harness.has_file("once/note.txt") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), written).await.expect("the tool runs");
    harness.kill().await;
    harness.remove_file("once/note.txt");
    harness.start().await;
    harness.wait_for_text("outcome unknown").await;
    assert!(!harness.has_file("once/note.txt"), "the tool is not run again");
    let told = harness.chat.texts().join("\n");
    assert!(told.contains("before.txt"), "{told}");
    assert_eq!(harness.chat.files(), [], "what a script that failed has made is not sent");
}
