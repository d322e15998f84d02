//! Tool confirmation on the page: the question survives a reload and is answered by a button.

use satchel_browser::{axe::Axe, browser::Viewport, page::Page, server::SatchelServer};
use satchel_requirements::required;

const CONFIRM_SETTINGS: [&str; 1] = ["tools.confirm=side_effecting"];

#[tokio::test(flavor = "multi_thread")]
async fn approved_tool_runs_even_after_reload() {
    let server = SatchelServer::start(&CONFIRM_SETTINGS).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.send_message("write notes.txt: buy milk").await;
    page.find(".question").await;
    page.reload().await;
    page.find(".question").await;
    if let Some(axe) = required(Axe::load()) {
        for window in [Viewport::WIDE, Viewport::NARROW.in_dark_mode()] {
            page.browser.resize(window).await;
            assert_eq!(axe.find_violations(&page.browser).await, Vec::<String>::new(), "a question in {window:?}");
        }
        page.browser.resize(Viewport::WIDE).await;
    }
    page.click("Allow").await;
    let turns = page.wait_for_reply(1).await;
    let reply = &turns[0].reply;
    assert!(reply.contains("Wrote /shared/notes.txt") && reply.contains("Allowed by"), "{reply}");
    assert!(!reply.contains("May I use") && !page.is_visible(".question").await, "{reply}");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_tool_does_not_run() {
    let server = SatchelServer::start(&CONFIRM_SETTINGS).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.send_message("write notes.txt: buy milk").await;
    page.find(".question").await;
    page.click("Refuse").await;
    let turns = page.wait_for_reply(1).await;
    assert!(turns[0].reply.contains("refused"), "{}", turns[0].reply);
    page.send_message("list my files").await;
    let turns = page.wait_for_reply(2).await;
    assert!(!turns[1].reply.contains("notes.txt"), "{}", turns[1].reply);
}
