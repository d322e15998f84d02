//! What axe-core finds: nothing serious, at both widths, light and dark.

use satchel_browser::{
    axe::Axe,
    browser::Viewport,
    page::Page,
    samples::{PNG, bytes},
    server::SatchelServer,
};
use satchel_requirements::required;

#[tokio::test(flavor = "multi_thread")]
async fn page_has_no_accessibility_findings() {
    let server = SatchelServer::start(&["attachments.max_inbound_file_bytes=1MB"]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let Some(axe) = required(Axe::load()) else { return };
    page.find(".idea").await;
    assert_no_findings(&page, &axe, "the empty page").await;
    let picture = server.home().write_file("beach.png", PNG);
    let notes = server
        .home()
        .write_file("notes.md", "# Notes\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n");
    let large = server.home().write_file("film.mov", bytes(2_000_000));
    page.attach(&[&picture, &notes, &large]).await;
    page.find(".upload-lost").await;
    assert_no_findings(&page, &axe, "files that go with a message, one refused").await;
    page.send_message("send everything and read notes.md").await;
    page.wait_for_reply(1).await;
    page.send_message("help").await;
    page.wait_for_reply(2).await;
    page.assert_no_page_errors().await;
    assert_no_findings(&page, &axe, "a conversation").await;
    page.click("Open beach.png").await;
    page.find("dialog[open] img").await;
    assert_no_findings(&page, &axe, "a picture").await;
    page.click("Close the picture").await;
    page.browser.resize(Viewport::WIDE).await;
    page.click("Keyboard shortcuts").await;
    page.find("dialog[open] h2").await;
    assert_no_findings(&page, &axe, "the shortcuts").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn list_of_conversations_has_no_accessibility_findings() {
    let server = SatchelServer::start(&[]).await;
    server.say("a", "list my files").await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let Some(axe) = required(Axe::load()) else { return };
    page.find("nav section a").await;
    page.click("More for list my files").await;
    page.find("[role=menu]").await;
    assert_eq!(axe.find_violations(&page.browser).await, Vec::<String>::new(), "the menu of a conversation");
    page.click("Rename").await;
    page.find("dialog[open] input").await;
    assert_no_findings(&page, &axe, "renaming").await;
    page.click("Cancel").await;
    page.click("More for list my files").await;
    page.click("Delete").await;
    page.find("dialog[open] h2").await;
    assert_no_findings(&page, &axe, "deleting").await;
    page.click("Cancel").await;
    page.send_keys("input[type=search]", "files").await;
    page.find("nav mark").await;
    assert_no_findings(&page, &axe, "what a search found").await;
}

pub(crate) async fn assert_no_findings(page: &Page, axe: &Axe, what: &str) {
    for window in [Viewport::WIDE, Viewport::WIDE.in_dark_mode(), Viewport::NARROW, Viewport::NARROW.in_dark_mode()] {
        page.browser.resize(window).await;
        assert_eq!(axe.find_violations(&page.browser).await, Vec::<String>::new(), "{what} in {window:?}");
    }
    page.browser.resize(Viewport::WIDE).await;
}
