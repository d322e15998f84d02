//! What a person chooses: the theme, and the conversation.

use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;

/// The colour behind everything, as light or dark.
const THEME_SCRIPT: &str = "const [red] = getComputedStyle(document.body).backgroundColor.match(/\\d+/);
    return Number(red) > 128 ? 'light' : 'dark'";

#[tokio::test(flavor = "multi_thread")]
async fn theme_follows_system_until_choice_is_remembered() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE.in_dark_mode()).await) else { return };
    page.find("[aria-label='Theme: system']").await;
    assert_eq!(page.browser.run_script(THEME_SCRIPT, vec![]).await, "dark");
    page.click("Theme: system").await;
    page.find("[aria-label='Theme: light']").await;
    assert_eq!(page.browser.run_script(THEME_SCRIPT, vec![]).await, "light");
    page.reload().await;
    page.find("[aria-label='Theme: light']").await;
    assert_eq!(page.browser.run_script(THEME_SCRIPT, vec![]).await, "light");
    page.click("Theme: light").await;
    page.browser.resize(Viewport::WIDE).await;
    assert_eq!(page.browser.run_script(THEME_SCRIPT, vec![]).await, "dark");
    page.click("Theme: dark").await;
    assert_eq!(page.browser.run_script(THEME_SCRIPT, vec![]).await, "light");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_are_listed_and_kept_apart() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.send_message("write first.txt: one").await;
    page.wait_for_reply(1).await;
    page.click("New conversation").await;
    wait_until("it is empty", async || page.turns().await.is_empty().then_some(())).await;
    page.send_message("write second.txt: two").await;
    let second = page.wait_for_reply(1).await;
    assert_eq!(second[0].reply_files, ["second.txt"]);
    let list = "return [...document.querySelectorAll('nav li')].map(row => row.querySelector('span').innerText)";
    wait_until("both are listed, the last used first", async || {
        let listed = page.browser.run_script(list, vec![]).await;
        (listed == serde_json::json!(["write second.txt: two", "write first.txt: one"])).then_some(())
    })
    .await;
    page.click_on("nav li:nth-child(2) a").await;
    wait_until("the first is shown", async || {
        let shown = page.turns().await;
        (shown.len() == 1 && shown[0].reply_files == ["first.txt"]).then_some(())
    })
    .await;
    assert_eq!(page.text("h1").await, "write first.txt: one");
    page.reload().await;
    assert_eq!(page.wait_for_reply(1).await[0].reply_files, ["first.txt"]);
    page.assert_no_page_errors().await;
}
