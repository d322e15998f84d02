//! What people format reaches the model on the wire: the real binary between a fake platform and a fake model.

use satchel_fake_discord::DiscordRules;

use crate::day::{
    discord::DiscordChat,
    harness::{DayHarness, TestChat},
    telegram::TelegramChat,
    text_reply,
};

/// Sends something, waits for the reply, and returns what the model has read.
async fn read_by_model<C: TestChat>(harness: &DayHarness<C>, reply: &str, send: impl FnOnce(&C)) -> String {
    harness.model.reply(text_reply(reply));
    send(&harness.chat);
    harness.wait_for_text(reply).await;
    harness.model.last().user_text()
}

#[tokio::test(flavor = "multi_thread")]
async fn model_reads_what_is_formatted_on_telegram() {
    let mut harness = DayHarness::new(TelegramChat::open().await).await;
    harness.start().await;
    let struck_out = "buy <s>milk</s> eggs bread, see __init__.py";
    let read = read_by_model(&harness, "Noted.", |chat| chat.send_formatted(struck_out)).await;
    assert!(read.contains("buy ~~milk~~ eggs bread, see __init__.py"), "{read}");
    let code = "run <code>rm *_old_*</code>, then\n<pre><code class=\"language-sh\">ls *_new_*</code></pre>";
    let read = read_by_model(&harness, "Understood.", |chat| chat.send_formatted(code)).await;
    assert!(read.contains("run `rm *_old_*`, then\n```sh\nls *_new_*\n```"), "{read}");

    harness.chat.send_formatted("<b>/remind in 2h buy <s>milk</s></b>");
    harness.wait_for_text("I'll remind you on").await;
    harness.chat.send_formatted("<code>/schedules</code>");
    harness.wait_for_text("buy milk").await;
    assert_eq!(harness.model.requests().len(), 2, "commands are none of the model's");
}

#[tokio::test(flavor = "multi_thread")]
async fn model_reads_what_is_formatted_on_discord() {
    let mut harness = DayHarness::new(DiscordChat::open(DiscordRules::unpaced()).await).await;
    harness.start().await;
    let text = "buy ~~milk~~ eggs bread, run `rm *_old_*` at <t:1700000000:R> ||soon||";
    let read = read_by_model(&harness, "Noted.", |chat| chat.send(text)).await;
    assert!(read.contains("buy ~~milk~~ eggs bread, run `rm *_old_*` at 2023-11-14T22:13Z ||soon||"), "{read}");
}
