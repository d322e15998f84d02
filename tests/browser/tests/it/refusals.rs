//! What is too large or can't be taken is told, by name and with the reason.

use satchel_browser::{browser::Window, page::Page, samples::bytes, server::Server, wait::until};
use satchel_requirements::required;

#[tokio::test(flavor = "multi_thread")]
async fn oversized_file_is_refused_before_upload() {
    let server = Server::start(&["attachments.max_inbound_file_bytes=1MB"]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    // The page knows the limit when it shows who answers.
    until("the page is ready", async || page.browser.tab.find(fantoccini_css(".idea")).await.ok()).await;
    let large = server.household().file("film.mov", bytes(2_400_000));
    let small = server.household().file("small.bin", bytes(1_000));
    page.attach(&[&large, &small]).await;
    let tray = page.find("[aria-label='Files that go with the message']").await;
    until("it is refused in words", async || {
        let words = tray.text().await.ok()?;
        words.contains("film.mov is 2.4 MB; the limit here is 1 MB.").then_some(())
    })
    .await;
    let uploads =
        "return performance.getEntriesByType('resource').filter(entry => entry.name.includes('film.mov')).length";
    assert_eq!(page.browser.run(uploads, vec![]).await, 0);
    page.find("[aria-label='Remove small.bin']").await;
    page.say("what did I send").await;
    let turns = page.answered(1).await;
    assert_eq!(turns[0].sent, ["small.bin"]);
    page.assert_nothing_refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_files_per_message_are_refused() {
    let server = Server::start(&["attachments.max_inbound_files_per_turn=2"]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    until("the page is ready", async || page.browser.tab.find(fantoccini_css(".idea")).await.ok()).await;
    let long = format!("{}.txt", "a-name-that-goes-on".repeat(8));
    let mut names: Vec<String> = (0..9).map(|at| format!("{at}.txt")).collect();
    names.insert(3, long);
    let files: Vec<_> = names.iter().map(|name| server.household().file(name, name)).collect();
    let files: Vec<_> = files.iter().map(std::path::PathBuf::as_path).collect();
    page.attach(&files).await;
    let complaint = page.find("[role=alert]").await;
    let words = complaint.text().await.expect("it has words");
    let expected = "8 files were not added: 2.txt, a-name-that-goes-on…that-goes-on.txt, 3.txt, 4.txt, 5.txt and 3 more. \
        At most 2 files go with one message; send the rest with the next.";
    assert_eq!(words, expected);
}

/// A file whose bytes are gone when its turn comes is named in the message that it came with.
#[tokio::test(flavor = "multi_thread")]
async fn refused_file_is_listed_with_its_reason() {
    let mut server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let large = server.household().file("film.mov", bytes(2_400_000));
    page.upload(&[&large]).await;
    // The owner lowers the limit between the upload and the message.
    server.kill();
    server.set("attachments.max_inbound_file_bytes", "1MB");
    server.start_again().await;
    page.say("what did I send").await;
    let turns = page.answered(1).await;
    assert!(turns[0].sent.is_empty(), "{turns:?}");
    assert!(turns[0].all.contains("film.mov") && turns[0].all.contains("not taken"), "{turns:?}");
    page.assert_nothing_refused().await;
}

fn fantoccini_css(css: &str) -> fantoccini::Locator<'_> {
    fantoccini::Locator::Css(css)
}
