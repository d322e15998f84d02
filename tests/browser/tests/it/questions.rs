//! A tool that needs a person's word: asked on the page, still asked after a reload, allowed by a button or refused.

use satchel_browser::{axe::Axe, browser::Window, page::Page, server::Server};
use satchel_requirements::required;

const CONFIRMED: [&str; 1] = ["tools.confirm=side_effecting"];

#[tokio::test(flavor = "multi_thread")]
async fn approved_tool_runs_even_after_reload() {
    let server = Server::start(&CONFIRMED).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    page.say("write notes.txt: buy milk").await;
    page.find(".question").await;
    page.reload().await;
    page.find(".question").await;
    if let Some(axe) = required(Axe::get()) {
        for window in [Window::WIDE, Window::NARROW.dark()] {
            page.browser.look_through(window).await;
            assert_eq!(axe.findings(&page.browser).await, Vec::<String>::new(), "a question in {window:?}");
        }
        page.browser.look_through(Window::WIDE).await;
    }
    page.click("Allow").await;
    let turns = page.answered(1).await;
    assert!(turns[0].answer.contains("Wrote /shared/notes.txt"), "{}", turns[0].answer);
    assert!(!page.shows(".question").await);
    page.assert_nothing_refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_tool_does_not_run() {
    let server = Server::start(&CONFIRMED).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    page.say("write notes.txt: buy milk").await;
    page.find(".question").await;
    page.click("Refuse").await;
    let turns = page.answered(1).await;
    assert!(turns[0].answer.contains("refused"), "{}", turns[0].answer);
    page.say("list my files").await;
    let turns = page.answered(2).await;
    assert!(!turns[1].answer.contains("notes.txt"), "{}", turns[1].answer);
}
