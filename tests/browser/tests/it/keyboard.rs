//! The page without a pointer.

use fantoccini::key::Key;
use satchel_browser::{
    browser::Viewport,
    page::Page,
    samples::{PNG, long_text},
    server::SatchelServer,
    wait::wait_until,
};
use satchel_requirements::required;

const FOCUSED_LABEL_SCRIPT: &str =
    "const at = document.activeElement; return at.getAttribute('aria-label') ?? at.tagName";

#[tokio::test(flavor = "multi_thread")]
async fn enter_sends_and_shift_enter_breaks_the_line() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.type_text(&format!(
        "what did{}{}{}I send",
        char::from(Key::Shift),
        char::from(Key::Enter),
        char::from(Key::Null)
    ))
    .await;
    page.send_message("").await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].person_texts, ["what did\nI send"]);
    assert_eq!(page.browser.run_script(FOCUSED_LABEL_SCRIPT, vec![]).await, "Message");
}

#[tokio::test(flavor = "multi_thread")]
async fn escape_stops_reply() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let text = server.home().write_file("long.txt", long_text(60));
    page.upload(&[&text]).await;
    page.send_message("read long.txt").await;
    page.wait_for_growing_reply().await;
    page.find("[aria-label='Stop the answer']").await;
    page.type_text(&char::from(Key::Escape).to_string()).await;
    let stopped = wait_until("the turn is stopped", async || {
        let first = page.turns().await.into_iter().next()?;
        (first.state == "done").then_some(first)
    })
    .await;
    assert_eq!(stopped.full_text.matches("Stopped").count(), 1, "{stopped:?}");
    assert_eq!(stopped.person_texts, ["read long.txt"]);
    assert!(!stopped.full_text.contains("Delivered"), "{stopped:?}");
    wait_until("there is nothing to stop", async || {
        (!page.is_visible("[aria-label='Stop the answer']").await).then_some(())
    })
    .await;
    page.assert_no_page_errors().await;
}

/// What opens takes the focus, what closes gives it back.
#[tokio::test(flavor = "multi_thread")]
async fn dialogs_and_pictures_open_and_close_by_key() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let first = server.home().write_file("first.png", PNG);
    let second = server.home().write_file("second.png", PNG);
    page.upload(&[&first, &second]).await;
    page.send_message("what did I send").await;
    page.wait_for_reply(1).await;
    let picture = page.find("[aria-label='Open first.png']").await;
    picture.send_keys(&char::from(Key::Enter).to_string()).await.expect("a button takes keys");
    let close = page.find("[aria-label='Close the picture']").await;
    assert_eq!(page.browser.run_script(FOCUSED_LABEL_SCRIPT, vec![]).await, "Close the picture");
    close.send_keys(&char::from(Key::Right).to_string()).await.expect("the dialog takes keys");
    let shown = "return document.querySelector('dialog[open] img').alt";
    wait_until("the next picture is shown", async || {
        (page.browser.run_script(shown, vec![]).await == "second.png").then_some(())
    })
    .await;
    close.send_keys(&char::from(Key::Escape).to_string()).await.expect("the dialog takes keys");
    wait_until("the picture is closed", async || (!page.is_visible("dialog[open]").await).then_some(())).await;
    assert_eq!(page.browser.run_script(FOCUSED_LABEL_SCRIPT, vec![]).await, "Open first.png");
    picture.send_keys("?").await.expect("a button takes keys");
    assert_eq!(page.text("dialog[open] h2").await, "Keyboard shortcuts");
    page.assert_no_page_errors().await;
}

/// Those who listen hear that something is done and then the whole answer, not every word as it comes.
#[tokio::test(flavor = "multi_thread")]
async fn reply_is_announced_once() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.find("textarea").await;
    let listen = "window.announced = [];
        for (const place of document.querySelectorAll('[aria-live=polite]'))
            new MutationObserver(() => announced.push(place.textContent)).observe(place, { childList: true, characterData: true, subtree: true });";
    page.browser.run_script(listen, vec![]).await;
    page.send_message("help").await;
    page.wait_for_reply(1).await;
    let announced = wait_until("the answer is announced", async || {
        let announced = page.browser.run_script("return window.announced", vec![]).await;
        let last = announced.as_array()?.last()?.as_str()?.to_owned();
        last.contains("offline model").then_some(announced)
    })
    .await;
    assert!(announced.as_array().is_some_and(|all| all.len() <= 3), "{announced}");
}
