//! A page that is locked with a token.

use fantoccini::key::Key;
use satchel_browser::{browser::Window, http, page::Page, server::Server, wait::until};
use satchel_requirements::required;

#[tokio::test(flavor = "multi_thread")]
async fn the_token_lets_in_and_nothing_else_does() {
    let server = Server::start(&["web.token=correct-horse-battery-staple"]).await;
    let refused = http::get(&server.url("/api/conversations")).await.expect("the server answers");
    assert_eq!(refused.status().as_u16(), 401);
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let enter = char::from(Key::Enter);
    let field = page.find("input[type=password]").await;
    field.send_keys(&format!("wrong{enter}")).await.expect("the field takes text");
    let complaint = page.find("dialog[open] [role=alert]").await;
    until("it is told", async || (complaint.text().await.ok()? == "That is not the token.").then_some(())).await;
    field.clear().await.expect("the field can be emptied");
    field.send_keys(&format!("correct-horse-battery-staple{enter}")).await.expect("the field takes text");
    until("the page is open", async || (!page.shows("dialog[open]").await).then_some(())).await;
    page.say("help").await;
    let turns = page.answered(1).await;
    page.reload().await;
    assert_eq!(page.answered(1).await, turns);
    page.assert_nothing_refused().await;
}
