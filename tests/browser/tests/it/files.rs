//! Files go in and come out, and an answer grows before the reader's eyes.

use satchel_browser::{
    browser::Window,
    page::Page,
    samples::{PNG, bytes, long_text},
    server::Server,
    wait::until,
};
use satchel_requirements::required;

#[tokio::test(flavor = "multi_thread")]
async fn two_uploaded_files_are_returned_byte_identical() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let data = bytes(300_000);
    let picture = server.household().file("Sommer am Meer.png", PNG);
    let archive = server.household().file("data.bin", &data);
    page.upload(&[&picture, &archive]).await;
    page.say("send everything").await;
    let turns = page.answered(1).await;
    assert_eq!(turns[0].sent, ["Sommer am Meer.png", "data.bin"]);
    assert_eq!(turns[0].files, ["Sommer am Meer.png", "data.bin"]);
    assert_eq!(turns[0].said, ["send everything"]);
    assert!(turns[0].all.contains("Delivered"), "{turns:?}");
    page.click("Download data.bin").await;
    assert!(page.downloaded("data.bin").await == data);
    page.click("Download Sommer am Meer.png").await;
    assert!(page.downloaded("Sommer am Meer.png").await == PNG);
    page.assert_nothing_refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_reply_keeps_reader_at_its_end() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let text = server.household().file("long.txt", long_text(60));
    page.upload(&[&text]).await;
    page.say("read long.txt").await;
    let early = page.growing().await;
    let later = until("it has grown further", async || {
        let later = page.turns().await.pop()?;
        (later.state == "running" && later.answer.len() > early.answer.len()).then_some(later)
    })
    .await;
    assert!(later.answer.starts_with(early.answer.trim_end_matches(['…', ' '])), "{early:?}\n{later:?}");
    let done = page.answered(1).await;
    assert!(done[0].answer.len() > later.answer.len());
    let below = "const log = document.querySelector('[role=log]');
        return log.scrollHeight - log.clientHeight - log.scrollTop";
    let below_the_window = page.browser.run(below, vec![]).await;
    assert!(below_the_window.as_f64().is_some_and(|pixels| pixels < 2.0), "{below_the_window} pixels below the window");
    page.assert_nothing_refused().await;
}

/// Whoever reads further up is not torn away, and finds the way back.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_further_up_is_left_in_peace() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window { height: 500, ..Window::WIDE }).await) else { return };
    let text = server.household().file("long.txt", long_text(60));
    page.upload(&[&text]).await;
    page.say("read long.txt").await;
    page.answered(1).await;
    page.say("read long.txt").await;
    page.growing().await;
    page.browser.run("document.querySelector('[role=log]').scrollTop = 40", vec![]).await;
    page.answered(2).await;
    let top = page.browser.run("return document.querySelector('[role=log]').scrollTop", vec![]).await;
    assert_eq!(top, 40);
    page.click("Latest").await;
    let below = "const log = document.querySelector('[role=log]');
        return log.scrollHeight - log.clientHeight - log.scrollTop < 2";
    assert_eq!(page.browser.run(below, vec![]).await, true);
}

#[tokio::test(flavor = "multi_thread")]
async fn early_message_is_sent_after_its_uploads() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let slow = server.household().file("slow.bin", bytes(1_500_000));
    page.browser.slow_uploads(60_000).await;
    page.attach(&[&slow]).await;
    page.find("progress[aria-label='Upload of slow.bin']").await;
    page.say("what did I send").await;
    let waiting = page.turns().await;
    assert!(waiting[0].all.contains("Sent once the files are uploaded"), "{waiting:?}");
    page.browser.full_speed().await;
    let turns = page.answered(1).await;
    assert_eq!(turns[0].sent, ["slow.bin"]);
    assert!(turns[0].answer.contains("slow.bin"), "{turns:?}");
    page.assert_nothing_refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_can_be_cancelled_while_it_runs() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let slow = server.household().file("slow.bin", bytes(5_000_000));
    page.browser.slow_uploads(200_000).await;
    page.attach(&[&slow]).await;
    page.click("Cancel slow.bin").await;
    assert!(!page.shows("[aria-label='Files that go with the message']").await);
    page.browser.full_speed().await;
    page.say("what did I send").await;
    let turns = page.answered(1).await;
    assert!(turns[0].sent.is_empty() && !turns[0].answer.contains("slow.bin"), "{turns:?}");
}

/// What is dropped or pasted is taken like what was chosen.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_and_pasted_files_are_taken() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    page.find("textarea").await;
    let drop = "const files = new DataTransfer();
        files.items.add(new File(['dropped'], 'dropped.txt', { type: 'text/plain' }));
        for (const kind of ['dragenter', 'dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: files }));";
    let paste = "const files = new DataTransfer();
        files.items.add(new File(['pasted'], 'pasted.txt', { type: 'text/plain' }));
        document.querySelector('textarea').dispatchEvent(
            new ClipboardEvent('paste', { bubbles: true, cancelable: true, clipboardData: files }));";
    page.browser.run(drop, vec![]).await;
    page.browser.run(paste, vec![]).await;
    page.find("[aria-label='Remove dropped.txt']").await;
    page.find("[aria-label='Remove pasted.txt']").await;
    page.say("read dropped.txt and read pasted.txt").await;
    let turns = page.answered(1).await;
    assert_eq!(turns[0].sent, ["dropped.txt", "pasted.txt"]);
    assert!(turns[0].answer.contains("dropped") && turns[0].answer.contains("pasted"), "{turns:?}");
    page.assert_nothing_refused().await;
}
