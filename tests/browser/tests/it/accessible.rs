//! What axe-core finds: nothing serious, at both widths, light and dark.

use satchel_browser::{
    axe::Axe,
    browser::Window,
    page::Page,
    samples::{PNG, bytes},
    server::Server,
};
use satchel_requirements::required;

#[tokio::test(flavor = "multi_thread")]
async fn page_has_no_accessibility_findings() {
    let server = Server::start(&["attachments.max_inbound_file_bytes=1MB"]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let Some(axe) = required(Axe::get()) else { return };
    page.find(".idea").await;
    assert_no_findings(&page, &axe, "the empty page").await;
    let picture = server.household().file("beach.png", PNG);
    let notes = server
        .household()
        .file("notes.md", "# Notes\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n");
    let large = server.household().file("film.mov", bytes(2_000_000));
    page.attach(&[&picture, &notes, &large]).await;
    page.find(".upload-lost").await;
    assert_no_findings(&page, &axe, "files that go with a message, one refused").await;
    page.say("send everything and read notes.md").await;
    page.answered(1).await;
    page.say("help").await;
    page.answered(2).await;
    page.assert_nothing_refused().await;
    assert_no_findings(&page, &axe, "a conversation").await;
    page.click("Open beach.png").await;
    page.find("dialog[open] img").await;
    assert_no_findings(&page, &axe, "a picture").await;
    page.click("Close the picture").await;
    page.browser.look_through(Window::WIDE).await;
    page.click("Keyboard shortcuts").await;
    page.find("dialog[open] h2").await;
    assert_no_findings(&page, &axe, "the shortcuts").await;
}

async fn assert_no_findings(page: &Page, axe: &Axe, what: &str) {
    for window in [Window::WIDE, Window::WIDE.dark(), Window::NARROW, Window::NARROW.dark()] {
        page.browser.look_through(window).await;
        assert_eq!(axe.findings(&page.browser).await, Vec::<String>::new(), "{what} in {window:?}");
    }
    page.browser.look_through(Window::WIDE).await;
}
