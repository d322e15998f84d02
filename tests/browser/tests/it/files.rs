//! Uploads, downloads, and replies that grow while the model writes them.

use satchel_browser::{
    browser::Viewport,
    page::Page,
    samples::{PNG, bytes, long_text},
    server::SatchelServer,
    wait::wait_until,
};
use satchel_requirements::required;

#[tokio::test(flavor = "multi_thread")]
async fn two_uploaded_files_are_returned_byte_identical() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let data = bytes(300_000);
    let picture = server.home().write_file("Sommer am Meer.png", PNG);
    let archive = server.home().write_file("data.bin", &data);
    page.upload(&[&picture, &archive]).await;
    page.send_message("send everything").await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].sent_files, ["Sommer am Meer.png", "data.bin"]);
    assert_eq!(turns[0].reply_files, ["Sommer am Meer.png", "data.bin"]);
    assert_eq!(turns[0].person_texts, ["send everything"]);
    assert!(!turns[0].full_text.contains("Delivered"), "{turns:?}");
    page.click("Download data.bin").await;
    assert!(page.wait_for_download("data.bin").await == data);
    page.click("Download Sommer am Meer.png").await;
    assert!(page.wait_for_download("Sommer am Meer.png").await == PNG);
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_reply_keeps_reader_at_its_end() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let text = server.home().write_file("long.txt", long_text(60));
    page.upload(&[&text]).await;
    page.send_message("read long.txt").await;
    let early = page.wait_for_growing_reply().await;
    let later = wait_until("it has grown further", async || {
        let later = page.turns().await.pop()?;
        (later.state == "running" && later.reply.len() > early.reply.len()).then_some(later)
    })
    .await;
    assert!(later.reply.starts_with(early.reply.trim_end_matches(['…', ' '])), "{early:?}\n{later:?}");
    let done = page.wait_for_reply(1).await;
    assert!(done[0].reply.len() > later.reply.len());
    let below = "const log = document.querySelector('[role=log]');
        return log.scrollHeight - log.clientHeight - log.scrollTop";
    let below_the_window = page.browser.run_script(below, vec![]).await;
    assert!(below_the_window.as_f64().is_some_and(|pixels| pixels < 2.0), "{below_the_window} pixels below the window");
    page.assert_no_page_errors().await;
}

/// A growing reply does not move a reader who has scrolled up; a button leads back to the end.
#[tokio::test(flavor = "multi_thread")]
async fn scrolled_up_reader_is_not_moved() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport { height: 500, ..Viewport::WIDE }).await) else { return };
    let text = server.home().write_file("long.txt", long_text(60));
    page.upload(&[&text]).await;
    page.send_message("read long.txt").await;
    page.wait_for_reply(1).await;
    page.send_message("read long.txt").await;
    page.wait_for_growing_reply().await;
    // The reader scrolls at the moment when more of the reply comes in, before the browser has painted it.
    let scroll_up = "const parse = JSON.parse;
        JSON.parse = (text) => {
            JSON.parse = parse;
            document.querySelector('[role=log]').scrollTop = 40;
            return parse(text);
        };";
    page.browser.run_script(scroll_up, vec![]).await;
    page.wait_for_reply(2).await;
    let top = page.browser.run_script("return document.querySelector('[role=log]').scrollTop", vec![]).await;
    assert_eq!(top, 40);
    page.click("Latest").await;
    let below = "const log = document.querySelector('[role=log]');
        return log.scrollHeight - log.clientHeight - log.scrollTop < 2";
    assert_eq!(page.browser.run_script(below, vec![]).await, true);
}

#[tokio::test(flavor = "multi_thread")]
async fn early_message_is_sent_after_its_uploads() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let slow = server.home().write_file("slow.bin", bytes(1_500_000));
    page.browser.slow_uploads(60_000).await;
    page.attach(&[&slow]).await;
    page.find("progress[aria-label='Upload of slow.bin']").await;
    page.send_message("what did I send").await;
    let waiting = page.turns().await;
    assert!(waiting[0].full_text.contains("Sent once the files are uploaded"), "{waiting:?}");
    page.browser.restore_upload_speed().await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].sent_files, ["slow.bin"]);
    assert!(turns[0].reply.contains("slow.bin"), "{turns:?}");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_upload_can_be_cancelled() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let slow = server.home().write_file("slow.bin", bytes(5_000_000));
    page.browser.slow_uploads(200_000).await;
    page.attach(&[&slow]).await;
    page.click("Cancel slow.bin").await;
    assert!(!page.is_visible("[aria-label='Files that go with the message']").await);
    page.browser.restore_upload_speed().await;
    page.send_message("what did I send").await;
    let turns = page.wait_for_reply(1).await;
    assert!(turns[0].sent_files.is_empty() && !turns[0].reply.contains("slow.bin"), "{turns:?}");
}

/// What is dropped or pasted is taken like what was chosen.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_and_pasted_files_are_taken() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.find("textarea").await;
    let drop = "const files = new DataTransfer();
        files.items.add(new File(['dropped'], 'dropped.txt', { type: 'text/plain' }));
        for (const kind of ['dragenter', 'dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: files }));";
    let paste = "const files = new DataTransfer();
        files.items.add(new File(['pasted'], 'pasted.txt', { type: 'text/plain' }));
        document.querySelector('textarea').dispatchEvent(
            new ClipboardEvent('paste', { bubbles: true, cancelable: true, clipboardData: files }));";
    page.browser.run_script(drop, vec![]).await;
    page.browser.run_script(paste, vec![]).await;
    page.find("[aria-label='Remove dropped.txt']").await;
    page.find("[aria-label='Remove pasted.txt']").await;
    page.send_message("read dropped.txt and read pasted.txt").await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].sent_files, ["dropped.txt", "pasted.txt"]);
    assert!(turns[0].reply.contains("dropped") && turns[0].reply.contains("pasted"), "{turns:?}");
    page.assert_no_page_errors().await;
}
