//! The last answer, tried again with the same words or with others.

use fantoccini::key::Key;
use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;

/// Types into whatever has the focus.
async fn press(page: &Page, keys: &str) {
    let focused = page.browser.tab.active_element().await.expect("something has the focus");
    focused.send_keys(keys).await.expect("it takes keys");
}

/// Waits for so many turns of which the last but one is folded away, and returns the reply of the last.
async fn wait_for_replaced(page: &Page, turns: usize) -> String {
    wait_until("the earlier answer is folded away", async || {
        let folded = "return document.querySelectorAll('.turn.replaced details.earlier').length";
        (page.browser.run_script(folded, vec![]).await == 1).then_some(())
    })
    .await;
    page.wait_for_reply(turns).await.pop().expect("there is a turn").reply
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_is_tried_again_by_a_button() {
    for viewport in [Viewport::WIDE, Viewport::NARROW] {
        let server = SatchelServer::start(&[]).await;
        server.say("a", "write notes.txt: buy milk").await;
        server.say("a", "read notes.txt").await;
        let Some(page) = required(Page::open(&server, viewport).await) else { return };
        page.visit(&server.url("/#/a")).await;
        page.wait_for_reply(2).await;
        let buttons = "return [...document.querySelectorAll('[aria-label=\"Try again\"]')].filter(one => one.checkVisibility()).length";
        assert_eq!(page.browser.run_script(buttons, vec![]).await, 1, "only the last answer can be tried again");
        page.click("Try again").await;
        let reply = wait_for_replaced(&page, 3).await;
        assert!(reply.contains("buy milk"), "{reply}");
        assert!(!page.is_visible(".turn.replaced .answer").await, "it is folded");
        page.click_on(".turn.replaced summary").await;
        let earlier = page.text(".turn.replaced .answer").await;
        assert!(earlier.contains("buy milk"), "it is still there: {earlier}");
        page.reload().await;
        wait_for_replaced(&page, 3).await;
        page.assert_no_page_errors().await;
    }
}

/// With the keyboard alone.
#[tokio::test(flavor = "multi_thread")]
async fn message_is_edited_and_sent_again() {
    let server = SatchelServer::start(&[]).await;
    server.say("a", "write notes.txt: buy milk").await;
    server.say("a", "read note.txt").await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.visit(&server.url("/#/a")).await;
    page.wait_for_reply(2).await;
    let focus = "document.querySelector('.turn.last [aria-label=\"Edit and send again\"]').focus()";
    page.browser.run_script(focus, vec![]).await;
    press(&page, &char::from(Key::Enter).to_string()).await;
    press(&page, &format!("thing else{}", char::from(Key::Escape))).await;
    assert!(!page.is_visible(".message-editor").await);
    let shown = page.turns().await.pop().expect("there is a turn").person_texts;
    assert_eq!(shown, ["read note.txt"], "it stays as it was");

    press(&page, &char::from(Key::Enter).to_string()).await;
    let replacing =
        format!("{}read notes.txt{}", char::from(Key::Backspace).to_string().repeat(13), char::from(Key::Enter));
    press(&page, &replacing).await;
    let reply = wait_for_replaced(&page, 3).await;
    assert!(reply.contains("buy milk"), "{reply}");
    let shown = page.turns().await.pop().expect("there is a turn").person_texts;
    assert_eq!(shown, ["read notes.txt"]);
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_turn_offers_another_attempt() {
    let settings = [
        "models.real.provider=openai",
        "models.real.model=some-model",
        "models.real.base_url=http://127.0.0.1:9/v1/",
        "models.real.api_key=never-used",
        "model=real",
    ];
    let mut server = SatchelServer::start(&settings).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.send_message("help").await;
    page.wait_for_reply(1).await;
    let words = page.text(".turn.last .meta .quiet-button").await;
    assert_eq!(words, "Try again");
    server.kill();
    server.replace_setting("model", "offline");
    server.restart().await;
    page.reload().await;
    page.wait_for_reply(1).await;
    page.click_on(".turn.last .meta .quiet-button").await;
    let reply = wait_for_replaced(&page, 2).await;
    assert!(!reply.is_empty());
    page.assert_no_page_errors().await;
}
