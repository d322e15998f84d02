//! The list of conversations: found, named, pinned, archived, deleted; more of them than fit.

use fantoccini::key::Key;
use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;
use serde_json::{Value, json};

/// The groups of the list, each as its name and the titles in it.
const LIST_SCRIPT: &str = "return [...document.querySelectorAll('nav section')].map(group => [
    group.querySelector('h2').innerText, [...group.querySelectorAll('a > span')].map(title => title.innerText)])";

const FOCUSED_SCRIPT: &str =
    "const at = document.activeElement; return at.getAttribute('aria-label') ?? at.innerText ?? at.tagName";

async fn wait_for_list(page: &Page, expected: &Value) {
    wait_until(&format!("the list is {expected}"), async || {
        (page.browser.run_script(LIST_SCRIPT, vec![]).await == *expected).then_some(())
    })
    .await;
}

/// Types into whatever has the focus.
async fn press(page: &Page, keys: &[Key]) {
    let keys: String = keys.iter().map(|key| char::from(*key)).collect();
    let focused = page.browser.tab.active_element().await.expect("something has the focus");
    focused.send_keys(&keys).await.expect("it takes keys");
}

/// Chooses an entry of the menu of a conversation.
async fn choose(page: &Page, title: &str, entry: &str) {
    page.click(&format!("More for {title}")).await;
    page.find("[role=menu]").await;
    page.click(entry).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_are_named_pinned_archived_and_deleted() {
    let server = SatchelServer::start(&[]).await;
    for (conversation, text) in [("a", "list my files"), ("b", "write plan.txt: secret"), ("c", "help")] {
        server.say(conversation, text).await;
    }
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    wait_for_list(&page, &json!([["Today", ["help", "write plan.txt: secret", "list my files"]]])).await;
    choose(&page, "list my files", "Pin").await;
    wait_for_list(&page, &json!([["Pinned", ["list my files"]], ["Today", ["help", "write plan.txt: secret"]]])).await;

    choose(&page, "list my files", "Rename").await;
    let field = page.find("dialog[open] input").await;
    field.clear().await.expect("a field can be emptied");
    field.send_keys(&format!("My <b>list</b>{}", char::from(Key::Enter))).await.expect("the field takes text");
    wait_for_list(&page, &json!([["Pinned", ["My <b>list</b>"]], ["Today", ["help", "write plan.txt: secret"]]])).await;

    choose(&page, "help", "Archive").await;
    wait_for_list(&page, &json!([["Pinned", ["My <b>list</b>"]], ["Today", ["write plan.txt: secret"]]])).await;
    page.click("Archived conversations").await;
    wait_for_list(&page, &json!([["Archived", ["help"]]])).await;
    choose(&page, "help", "Move back to the list").await;
    page.click("Back to all conversations").await;
    wait_for_list(&page, &json!([["Pinned", ["My <b>list</b>"]], ["Today", ["help", "write plan.txt: secret"]]])).await;

    page.visit(&server.url("/#/b")).await;
    page.wait_for_reply(1).await;
    choose(&page, "write plan.txt: secret", "Delete").await;
    page.find("dialog[open] h2").await;
    page.click("Cancel").await;
    assert_eq!(page.wait_for_reply(1).await.len(), 1, "nothing is deleted unasked");
    choose(&page, "write plan.txt: secret", "Delete").await;
    page.click_on("dialog[open] [type=submit]").await;
    wait_for_list(&page, &json!([["Pinned", ["My <b>list</b>"]], ["Today", ["help"]]])).await;
    wait_until("what was open is gone", async || page.turns().await.is_empty().then_some(())).await;
    let found = server.get(&server.url("/api/search?q=secret")).await.json::<Value>().await.expect("it is JSON");
    assert_eq!(found["hits"], json!([]));
    page.assert_no_page_errors().await;
}

/// What a pointer can do, keys can.
#[tokio::test(flavor = "multi_thread")]
async fn list_is_worked_by_keys_alone() {
    let server = SatchelServer::start(&[]).await;
    server.say("a", "list my files").await;
    server.say("b", "help").await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    wait_for_list(&page, &json!([["Today", ["help", "list my files"]]])).await;
    page.browser.run_script("document.querySelector('[aria-label=\"More for help\"]').focus()", vec![]).await;
    press(&page, &[Key::Enter]).await;
    page.find("[role=menu]").await;
    press(&page, &[Key::Escape]).await;
    wait_until("the menu is closed", async || (!page.is_visible("[role=menu]").await).then_some(())).await;
    assert_eq!(page.browser.run_script(FOCUSED_SCRIPT, vec![]).await, "More for help");
    press(&page, &[Key::Enter]).await;
    page.find("[role=menu]").await;
    press(&page, &[Key::Down]).await;
    press(&page, &[Key::Enter]).await;
    wait_for_list(&page, &json!([["Pinned", ["help"]], ["Today", ["list my files"]]])).await;
    assert_eq!(page.browser.run_script(FOCUSED_SCRIPT, vec![]).await, "More for help", "the focus stays in its row");
    press(&page, &[Key::Enter]).await;
    page.find("[role=menu]").await;
    press(&page, &[Key::Up]).await;
    assert_eq!(page.browser.run_script(FOCUSED_SCRIPT, vec![]).await, "Delete", "upwards from the first is the last");
    press(&page, &[Key::Enter]).await;
    page.find("dialog[open]").await;
    assert_eq!(page.browser.run_script(FOCUSED_SCRIPT, vec![]).await, "Cancel", "what is harmless comes first");
    press(&page, &[Key::Tab]).await;
    press(&page, &[Key::Enter]).await;
    wait_for_list(&page, &json!([["Today", ["list my files"]]])).await;

    let search = format!("{}s{}", char::from(Key::Alt), char::from(Key::Null));
    let focused = page.browser.tab.active_element().await.expect("something has the focus");
    focused.send_keys(&search).await.expect("it takes keys");
    wait_until("the search has the focus", async || {
        (page.browser.run_script(FOCUSED_SCRIPT, vec![]).await == "Search messages and files").then_some(())
    })
    .await;
    let field = page.find("input[type=search]").await;
    field.send_keys("files").await.expect("the field takes text");
    page.find("nav mark").await;
    press(&page, &[Key::Down]).await;
    press(&page, &[Key::Enter]).await;
    page.wait_for_reply(1).await;
    assert_eq!(page.text("h1").await, "list my files");
    page.assert_no_page_errors().await;
}

/// Found is what was said weeks ago, in a part of a conversation that isn't loaded.
#[tokio::test(flavor = "multi_thread")]
async fn search_leads_to_where_it_was_said() {
    let server = SatchelServer::start(&[]).await;
    server.say("long", "write lease.txt: the lighthouse contract").await;
    for number in 0..70 {
        server.say("long", &format!("read page {number}")).await;
    }
    server.say("other", "help").await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.visit(&server.url("/#/other")).await;
    page.wait_for_reply(1).await;
    let field = page.find("input[type=search]").await;
    field.send_keys("LIGHTH").await.expect("the field takes text");
    assert_eq!(page.text("nav mark").await, "lighthouse");
    page.click_on("nav mark").await;
    let in_view = "const turn = document.activeElement.closest('article');
        const box = turn?.getBoundingClientRect();
        return turn && box.top >= 0 && box.top < innerHeight / 2 ? turn.querySelector('.bubble').innerText : null";
    wait_until("the turn is shown", async || {
        let shown = page.browser.run_script(in_view, vec![]).await;
        (shown == "write lease.txt: the lighthouse contract").then_some(())
    })
    .await;
    let field = page.find("input[type=search]").await;
    field.send_keys(&char::from(Key::Escape).to_string()).await.expect("the field takes keys");
    page.find("nav section").await;
    field.send_keys("\"xyzzy OR *").await.expect("the field takes text");
    wait_until("nothing is found", async || {
        let status = page.text("#search-status").await;
        (status == "Nothing has “\"xyzzy OR *”.").then_some(())
    })
    .await;
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_conversations_than_a_page_has() {
    let server = SatchelServer::start(&[]).await;
    for number in 0..65 {
        server.say(&format!("c{number}"), &format!("read page {number}")).await;
    }
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let rows = "return document.querySelectorAll('nav section a').length";
    wait_until("the first sixty are listed", async || {
        (page.browser.run_script(rows, vec![]).await == 60).then_some(())
    })
    .await;
    page.visit(&server.url("/#/c0")).await;
    wait_until("its title is known, though it isn't listed", async || {
        (page.text("h1").await == "read page 0").then_some(())
    })
    .await;
    page.click("Show older conversations").await;
    wait_until("all are listed", async || (page.browser.run_script(rows, vec![]).await == 65).then_some(())).await;
    assert!(!page.is_visible("#older-conversations").await);
    choose(&page, "read page 1", "Archive").await;
    wait_until("one far down is archived", async || (page.browser.run_script(rows, vec![]).await == 64).then_some(()))
        .await;
    choose(&page, "read page 2", "Rename").await;
    let field = page.find("dialog[open] input").await;
    field.clear().await.expect("a field can be emptied");
    field.send_keys(&format!("Second{}", char::from(Key::Enter))).await.expect("the field takes text");
    wait_until("one far down is renamed", async || {
        page.is_visible("[aria-label='More for Second']").await.then_some(())
    })
    .await;
    server.say("c64", "help").await;
    page.send_message("help").await;
    page.wait_for_reply(2).await;
    wait_until("the one that was used comes first, and none is lost", async || {
        let list = page.browser.run_script(LIST_SCRIPT, vec![]).await;
        let titles = list[0][1].as_array()?;
        (titles[0] == "read page 0" && titles.len() == 64).then_some(())
    })
    .await;
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_is_exported_from_its_menu() {
    let server = SatchelServer::start(&[]).await;
    server.say("a", "write plan.txt: go to the coast").await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    wait_for_list(&page, &json!([["Today", ["write plan.txt: go to the coast"]]])).await;
    choose(&page, "write plan.txt: go to the coast", "Export").await;
    let archive = page.wait_for_download("write plan.txt_ go to the coast.zip").await;
    let contains = |words: &str| archive.windows(words.len()).any(|found| found == words.as_bytes());
    assert!(contains("conversation.md") && contains("files/1-plan.txt") && contains("go to the coast"));
    page.assert_no_page_errors().await;
}
