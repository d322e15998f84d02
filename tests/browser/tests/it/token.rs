//! The page's login: a link works once, the token always, nothing else.

use fantoccini::key::Key;
use satchel_browser::{browser::Viewport, http, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;

/// Waits for the reason why a person isn't logged in.
async fn wait_for_complaint(page: &Page, words: &str) {
    page.wait_for_text("dialog[open] [role=alert]", words).await;
}

async fn wait_until_unlocked(page: &Page) {
    wait_until("the page is open", async || {
        let address = page.browser.run_script("return location.hash", vec![]).await;
        let is_open = address.as_str().is_some_and(|address| address.starts_with("#/"));
        (is_open && !page.is_visible("dialog[open]").await).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_token_unlocks_page() {
    let server = SatchelServer::start(&["web.token=correct-horse-battery-staple"]).await;
    let refused = http::get(&server.url("/api/conversations")).await.expect("the server answers");
    assert_eq!(refused.status().as_u16(), 401);
    let Some(page) = required(Page::open_locked(&server, Viewport::WIDE).await) else { return };
    let enter = char::from(Key::Enter);
    let field = page.find("input[type=password]").await;
    field.send_keys(&format!("wrong{enter}")).await.expect("the field takes text");
    wait_for_complaint(&page, "That token is wrong.").await;
    field.clear().await.expect("the field can be emptied");
    field.send_keys(&format!("correct-horse-battery-staple{enter}")).await.expect("the field takes text");
    wait_until_unlocked(&page).await;
    page.send_message("help").await;
    let turns = page.wait_for_reply(1).await;
    page.reload().await;
    assert_eq!(page.wait_for_reply(1).await, turns);
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn login_link_opens_page_once() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open_locked(&server, Viewport::NARROW).await) else { return };
    let advice = page.text("dialog[open]").await;
    assert!(advice.contains("satchel web link") && advice.contains("web-token"), "{advice}");

    let link = server.login_link();
    let (_, secret) = link.split_once("#login=").expect("the secret is in the fragment, which no server is sent");
    page.visit(&link).await;
    wait_until_unlocked(&page).await;
    page.send_message("help").await;
    page.wait_for_reply(1).await;
    let address = page.browser.tab.current_url().await.expect("a tab has an address").to_string();
    assert!(!address.contains(secret), "{address}");
    page.reload().await;
    page.wait_for_reply(1).await;

    page.browser.tab.delete_all_cookies().await.expect("the browser forgets");
    page.visit(&server.url("/page/icon.svg")).await;
    page.visit(&link).await;
    wait_for_complaint(&page, "This login link was already used or has expired.").await;
    let command = page.text("dialog[open] [role=alert] code").await;
    assert_eq!(command, "satchel web link");
    page.visit(&server.login_link()).await;
    wait_until_unlocked(&page).await;
    page.wait_for_reply(1).await;
    page.assert_no_page_errors().await;
}
