//! Files that are too large or too many are reported with their name and the reason.

use satchel_browser::{browser::Viewport, page::Page, samples::bytes, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;

#[tokio::test(flavor = "multi_thread")]
async fn oversized_file_is_refused_before_upload() {
    let server = SatchelServer::start(&["attachments.max_inbound_file_bytes=1MB"]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    // The page knows the limit when it shows who answers.
    wait_until("the page is ready", async || page.browser.tab.find(css_locator(".idea")).await.ok()).await;
    let large = server.home().write_file("film.mov", bytes(2_400_000));
    let small = server.home().write_file("small.bin", bytes(1_000));
    page.attach(&[&large, &small]).await;
    let tray = "[aria-label='Files that go with the message']";
    page.wait_for_text(tray, "film.mov is 2.4 MB; the limit here is 1 MB.").await;
    let uploads =
        "return performance.getEntriesByType('resource').filter(entry => entry.name.includes('film.mov')).length";
    assert_eq!(page.browser.run_script(uploads, vec![]).await, 0);
    page.find("[aria-label='Remove small.bin']").await;
    page.send_message("what did I send").await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].sent_files, ["small.bin"]);
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_files_per_message_are_refused() {
    let server = SatchelServer::start(&["attachments.max_inbound_files_per_turn=2"]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    wait_until("the page is ready", async || page.browser.tab.find(css_locator(".idea")).await.ok()).await;
    let long = format!("{}.txt", "a-name-that-goes-on".repeat(8));
    let mut names: Vec<String> = (0..9).map(|at| format!("{at}.txt")).collect();
    names.insert(3, long);
    let files: Vec<_> = names.iter().map(|name| server.home().write_file(name, name)).collect();
    let files: Vec<_> = files.iter().map(std::path::PathBuf::as_path).collect();
    page.attach(&files).await;
    let words = page.text("[role=alert]").await;
    let expected = "8 files were not added: 2.txt, a-name-that-goes-on…that-goes-on.txt, 3.txt, 4.txt, 5.txt and 3 more. \
        At most 2 files go with one message; send the rest with the next.";
    assert_eq!(words, expected);
}

/// A file whose bytes are gone when its turn comes is named in the message that it came with.
#[tokio::test(flavor = "multi_thread")]
async fn refused_file_is_listed_with_its_reason() {
    let mut server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let large = server.home().write_file("film.mov", bytes(2_400_000));
    page.upload(&[&large]).await;
    // The owner lowers the limit between the upload and the message.
    server.kill();
    server.replace_setting("attachments.max_inbound_file_bytes", "1MB");
    server.restart().await;
    page.send_message("what did I send").await;
    let turns = page.wait_for_reply(1).await;
    assert!(turns[0].sent_files.is_empty(), "{turns:?}");
    assert!(turns[0].full_text.contains("film.mov") && turns[0].full_text.contains("not taken"), "{turns:?}");
    page.assert_no_page_errors().await;
}

fn css_locator(css: &str) -> fantoccini::Locator<'_> {
    fantoccini::Locator::Css(css)
}
