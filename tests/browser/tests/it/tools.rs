//! What tools did for an answer, folded above it.

use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;

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
