//! The page is locked: a link opens it once, the token always, nothing else does.

use fantoccini::key::Key;
use satchel_browser::{browser::Window, http, page::Page, server::Server, wait::until};
use satchel_requirements::required;

/// Waits for the reason why a person isn't logged in.
async fn complaint(page: &Page, start: &str) {
    let complaint = page.find("dialog[open] [role=alert]").await;
    until(start, async || complaint.text().await.ok()?.starts_with(start).then_some(())).await;
}

async fn unlocked(page: &Page) {
    until("the page is open", async || {
        let address = page.browser.run("return location.hash", vec![]).await;
        let is_open = address.as_str().is_some_and(|address| address.starts_with("#/"));
        (is_open && !page.shows("dialog[open]").await).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_lets_in_and_nothing_else_does() {
    let server = Server::start(&["web.token=correct-horse-battery-staple"]).await;
    let refused = http::get(&server.url("/api/conversations")).await.expect("the server answers");
    assert_eq!(refused.status().as_u16(), 401);
    let Some(page) = required(Page::open_locked(&server, Window::WIDE).await) else { return };
    let enter = char::from(Key::Enter);
    let field = page.find("input[type=password]").await;
    field.send_keys(&format!("wrong{enter}")).await.expect("the field takes text");
    complaint(&page, "That token is wrong.").await;
    field.clear().await.expect("the field can be emptied");
    field.send_keys(&format!("correct-horse-battery-staple{enter}")).await.expect("the field takes text");
    unlocked(&page).await;
    page.say("help").await;
    let turns = page.answered(1).await;
    page.reload().await;
    assert_eq!(page.answered(1).await, turns);
    page.assert_nothing_refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_link_opens_the_page_once() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open_locked(&server, Window::NARROW).await) else { return };
    let advice = page.find("dialog[open]").await.text().await.expect("the dialog has a text");
    assert!(advice.contains("satchel web link") && advice.contains("web-token"), "{advice}");

    let link = server.login_link();
    let (_, secret) = link.split_once("#login=").expect("the secret is in the fragment, which no server is sent");
    page.visit(&link).await;
    unlocked(&page).await;
    page.say("help").await;
    page.answered(1).await;
    let address = page.browser.tab.current_url().await.expect("a tab has an address").to_string();
    assert!(!address.contains(secret), "{address}");
    page.reload().await;
    page.answered(1).await;

    page.browser.tab.delete_all_cookies().await.expect("the browser forgets");
    page.visit(&server.url("/page/icon.svg")).await;
    page.visit(&link).await;
    complaint(&page, "This login link was already used or has expired.").await;
    let command = page.find("dialog[open] [role=alert] code").await.text().await.expect("it has words");
    assert_eq!(command, "satchel web link");
    page.visit(&server.login_link()).await;
    unlocked(&page).await;
    page.answered(1).await;
    page.assert_nothing_refused().await;
}
