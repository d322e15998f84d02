//! What a person chooses: the theme, and the conversation.

use satchel_browser::{browser::Window, page::Page, server::Server, wait::until};
use satchel_requirements::required;

/// The colour behind everything, as light or dark.
const LOOK: &str = "const [red] = getComputedStyle(document.body).backgroundColor.match(/\\d+/);
    return Number(red) > 128 ? 'light' : 'dark'";

#[tokio::test(flavor = "multi_thread")]
async fn theme_follows_system_until_choice_is_remembered() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE.dark()).await) else { return };
    page.find("[aria-label='Theme: system']").await;
    assert_eq!(page.browser.run(LOOK, vec![]).await, "dark");
    page.click("Theme: system").await;
    page.find("[aria-label='Theme: light']").await;
    assert_eq!(page.browser.run(LOOK, vec![]).await, "light");
    page.reload().await;
    page.find("[aria-label='Theme: light']").await;
    assert_eq!(page.browser.run(LOOK, vec![]).await, "light");
    page.click("Theme: light").await;
    page.browser.look_through(Window::WIDE).await;
    assert_eq!(page.browser.run(LOOK, vec![]).await, "dark");
    page.click("Theme: dark").await;
    assert_eq!(page.browser.run(LOOK, vec![]).await, "light");
    page.assert_nothing_refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_are_begun_listed_and_kept_apart() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    page.say("write first.txt: one").await;
    page.answered(1).await;
    page.click("New conversation").await;
    until("it is empty", async || page.turns().await.is_empty().then_some(())).await;
    page.say("write second.txt: two").await;
    let second = page.answered(1).await;
    assert_eq!(second[0].files, ["second.txt"]);
    let list = "return [...document.querySelectorAll('nav li')].map(row => row.querySelector('span').innerText)";
    until("both are listed, the last used first", async || {
        let listed = page.browser.run(list, vec![]).await;
        (listed == serde_json::json!(["write second.txt: two", "write first.txt: one"])).then_some(())
    })
    .await;
    page.find("nav li:nth-child(2) a").await.click().await.expect("a link can be clicked");
    until("the first is shown", async || {
        let shown = page.turns().await;
        (shown.len() == 1 && shown[0].files == ["first.txt"]).then_some(())
    })
    .await;
    assert_eq!(page.find("h1").await.text().await.expect("it has words"), "write first.txt: one");
    page.reload().await;
    assert_eq!(page.answered(1).await[0].files, ["first.txt"]);
    page.assert_nothing_refused().await;
}
