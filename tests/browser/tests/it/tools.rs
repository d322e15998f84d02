//! What tools did for an answer, folded above it or between its texts.

use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, ReplyPiece, ScriptedCall};
use satchel_requirements::required;
use serde_json::json;

/// A tool that failed is seen without unfolding anything; its arguments and its reason behind a click.
#[tokio::test(flavor = "multi_thread")]
async fn failed_tool_is_seen_above_the_answer() {
    let server = SatchelServer::start(&[]).await;
    server.say("a", "write notes.txt: buy milk").await;
    server.say("a", "read missing.txt").await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.visit(&server.url("/#/a")).await;
    page.wait_for_reply(2).await;
    let lines =
        "return [...document.querySelectorAll('details.used-tools summary')].map(line => line.innerText.trim())";
    wait_until("both lines are there", async || {
        let lines = page.browser.run_script(lines, vec![]).await;
        (lines == serde_json::json!(["Used 2 tools", "Used 2 tools, 1 failed"])).then_some(())
    })
    .await;
    assert!(!page.is_visible("details.used-tools li").await, "it is folded");
    page.click_on("details.has-failed summary").await;
    let told = page.text("details.has-failed li.tool-failed").await;
    assert!(told.contains("file_read") && told.contains("missing.txt") && told.contains("does not exist"), "{told}");
    assert!(told.contains("failed in "), "{told}");
    page.reload().await;
    page.wait_for_reply(2).await;
    page.find("details.has-failed summary").await;
    page.assert_no_page_errors().await;
}

/// What is written before a tool stays where the reader saw it, and the tool stands below it.
#[tokio::test(flavor = "multi_thread")]
async fn texts_before_and_after_a_tool_stay() {
    let model = FakeModelServer::start().await.expect("a loopback port is free");
    let call = ScriptedCall::new("file_write", r#"{"path": "list.txt", "content": "Milk"}"#);
    model.reply(ModelReply::pieces([ReplyPiece::Text("Milk and bread.".to_owned()), ReplyPiece::Call(call)]));
    model.reply(ModelReply::pieces([ReplyPiece::Text("Saved.".to_owned()), ReplyPiece::Hang]));
    let settings = [
        "models.real.provider=openai".to_owned(),
        format!("models.real.model={}", ModelWire::OpenAiChat.model()),
        format!("models.real.base_url={}", model.base_url(ModelWire::OpenAiChat)),
        format!("models.real.api_key={}", FakeModelServer::KEY),
        "model=real".to_owned(),
    ];
    let server = SatchelServer::start(&settings.each_ref().map(String::as_str)).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.send_message("save the list").await;
    let lines = "return [...document.querySelectorAll('.answer .prose, .answer .activity code, .answer summary')]
        .map(line => line.innerText.trim())";
    let shows = async |expected: serde_json::Value| {
        wait_until(&format!("the answer is {expected}"), async || {
            (page.browser.run_script(lines, vec![]).await == expected).then_some(())
        })
        .await;
    };
    shows(json!(["Milk and bread.", "file_write", "Saved."])).await;
    page.click_on("[aria-label='Stop the answer']").await;
    let answer = json!(["Milk and bread.", "Used 1 tool", "Saved.\n\nStopped, as you asked."]);
    shows(answer.clone()).await;
    page.reload().await;
    shows(answer).await;
    page.assert_no_page_errors().await;
}
