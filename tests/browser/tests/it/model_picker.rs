//! Choosing the model of a conversation on the page.

use fantoccini::key::Key;
use satchel_browser::{axe::Axe, browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;
use serde_json::json;

use crate::{accessibility::assert_no_findings, files_panel::press};

const USUAL: &str = "Offline model · no key needed";

async fn wait_for_model(page: &Page, text: &str) {
    wait_until(&format!("{text} answers"), async || (page.text("#model").await == text).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn model_of_a_conversation_is_chosen_by_keys() {
    let server = SatchelServer::start(&["models.other.provider=offline"]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    wait_for_model(&page, USUAL).await;
    let button = page.find("[aria-label='Choose the model']").await;
    let open = async || button.send_keys(&char::from(Key::Enter).to_string()).await.expect("a button takes keys");
    let entries = "return [...document.querySelectorAll('[role=menuitem]')].map(entry => entry.innerText.trim())";
    open().await;
    assert_eq!(page.browser.run_script(entries, vec![]).await, json!(["here (answers here)", "other"]));
    press(&page, Key::Escape).await;
    let focused = "return document.activeElement.getAttribute('aria-label')";
    assert_eq!(page.browser.run_script(focused, vec![]).await, "Choose the model");
    open().await;
    press(&page, Key::Down).await;
    press(&page, Key::Enter).await;
    let turns = page.wait_for_reply(1).await;
    assert!(turns[0].reply.contains("other answers here from now on."), "{turns:?}");
    wait_for_model(&page, "other").await;
    page.reload().await;
    wait_for_model(&page, "other").await;
    page.click("Choose the model").await;
    wait_until("the menu shows it", async || {
        (page.browser.run_script(entries, vec![]).await == json!(["here", "other (answers here)"])).then_some(())
    })
    .await;
    press(&page, Key::Escape).await;
    page.click("New conversation").await;
    wait_for_model(&page, USUAL).await;
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn picker_is_shown_where_there_is_a_choice() {
    let alone = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&alone, Viewport::WIDE).await) else { return };
    wait_for_model(&page, USUAL).await;
    // Commands are loaded with the first connection.
    page.type_text("/").await;
    page.find("#suggestions").await;
    assert!(!page.is_visible("[aria-label='Choose the model']").await);
    let several = SatchelServer::start(&["models.other.provider=offline"]).await;
    page.visit(&several.login_link()).await;
    page.find("[aria-label='Choose the model']").await;
    let Some(axe) = required(Axe::load()) else { return };
    assert_no_findings(&page, &axe, "a choice of models").await;
}
