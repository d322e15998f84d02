//! What was written before is brought back into an empty message field.

use fantoccini::key::Key;
use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;

async fn wait_for_text(page: &Page, expected: &str) {
    let field = "return document.querySelector('#message').value";
    wait_until(&format!("the field holds {expected:?}"), async || {
        (page.browser.run_script(field, vec![]).await == expected).then_some(())
    })
    .await;
}

async fn press(page: &Page, key: Key) {
    page.type_text(&char::from(key).to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arrow_up_recalls_earlier_messages() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.send_message("write a.txt: one").await;
    page.wait_for_reply(1).await;
    page.send_message("list my files").await;
    page.wait_for_reply(2).await;
    page.reload().await;
    page.wait_for_reply(2).await;
    press(&page, Key::Up).await;
    wait_for_text(&page, "list my files").await;
    press(&page, Key::Up).await;
    wait_for_text(&page, "write a.txt: one").await;
    // There is nothing before it.
    press(&page, Key::Up).await;
    wait_for_text(&page, "write a.txt: one").await;
    press(&page, Key::Down).await;
    press(&page, Key::Down).await;
    wait_for_text(&page, "").await;
    // What is being written isn't replaced.
    page.type_text("half a sentence").await;
    press(&page, Key::Up).await;
    wait_for_text(&page, "half a sentence").await;
    page.assert_no_page_errors().await;
}
