//! Reloads, lost connections and killed servers: nothing is lost and nothing comes twice.

use satchel_browser::{
    browser::Viewport,
    page::{Page, VisibleTurn},
    samples::long_text,
    server::SatchelServer,
    wait::wait_until,
};
use satchel_requirements::required;

/// A conversation in which an answer has just begun to grow.
async fn start_growing_reply(server: &SatchelServer, page: &Page) {
    let text = server.home().write_file("long.txt", long_text(60));
    page.upload(&[&text]).await;
    page.send_message("read long.txt").await;
    page.wait_for_growing_reply().await;
}

fn assert_single_reply(turns: &[VisibleTurn]) {
    assert_eq!(turns[0].person_texts, ["read long.txt"]);
    assert_eq!(turns[0].sent_files, ["long.txt"]);
    for line in ["line 1 of", "line 7 of", "line 20 of"] {
        assert_eq!(turns[0].reply.matches(line).count(), 1, "{line} in {turns:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_mid_reply_loses_and_duplicates_nothing() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    start_growing_reply(&server, &page).await;
    page.reload().await;
    let again = page.wait_for_growing_reply().await;
    assert_eq!(again.person_texts, ["read long.txt"]);
    let turns = page.wait_for_reply(1).await;
    assert_single_reply(&turns);
    page.reload().await;
    assert_eq!(page.wait_for_reply(1).await, turns);
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_finishes_reply_after_restart() {
    let mut server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    start_growing_reply(&server, &page).await;
    page.type_text("a draft").await;
    server.kill();
    page.wait_for_text("main [role=status]", "Reconnecting").await;
    server.restart().await;
    let turns = page.wait_for_reply(1).await;
    assert_single_reply(&turns);
    wait_until("nothing speaks of reconnecting any more", async || {
        (!page.is_visible("main [role=status]").await).then_some(())
    })
    .await;
    let draft = page.browser.run_script("return document.querySelector('textarea').value", vec![]).await;
    assert_eq!(draft, "a draft");
    page.reload().await;
    assert_eq!(page.wait_for_reply(1).await, turns);
    page.assert_no_page_errors().await;
}

/// The request arrives, its answer doesn't: the page asks again under the same key.
#[tokio::test(flavor = "multi_thread")]
async fn message_with_lost_response_is_accepted_once() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.find("textarea").await;
    let lose = "window.asked = [];
        const ask = window.fetch;
        window.fetch = async (path, options) => {
            const answer = await ask(path, options);
            if (options?.method === 'POST' && asked.push(JSON.parse(options.body).key) <= 2) throw new TypeError('lost');
            return answer;
        };";
    page.browser.run_script(lose, vec![]).await;
    page.send_message("write once.txt: once").await;
    let asked = wait_until("it is asked three times", async || {
        let asked = page.browser.run_script("return window.asked", vec![]).await;
        (asked.as_array()?.len() == 3).then_some(asked)
    })
    .await;
    assert!(asked[0] == asked[1] && asked[1] == asked[2], "{asked}");
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].person_texts, ["write once.txt: once"]);
    page.reload().await;
    assert_eq!(page.wait_for_reply(1).await, turns);
}

#[tokio::test(flavor = "multi_thread")]
async fn message_to_unreachable_server_is_sent_once_later() {
    let mut server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.send_message("help").await;
    page.wait_for_reply(1).await;
    server.kill();
    page.send_message("list my files").await;
    wait_until("it is told that it isn't sent", async || {
        let last = page.turns().await.pop()?;
        (last.state == "unsent" && last.full_text.contains("can't be reached")).then_some(())
    })
    .await;
    server.restart().await;
    let turns = page.wait_for_reply(2).await;
    assert_eq!(turns[1].person_texts, ["list my files"]);
    page.reload().await;
    assert_eq!(page.wait_for_reply(2).await, turns);
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draft_and_files_survive_reload_per_conversation() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.send_message("help").await;
    page.wait_for_reply(1).await;
    let notes = server.home().write_file("notes.txt", "buy milk");
    page.upload(&[&notes]).await;
    page.type_text("read this, but not yet").await;
    page.click("New conversation").await;
    let field = "return document.querySelector('textarea').value";
    wait_until("the new one is empty", async || (page.browser.run_script(field, vec![]).await == "").then_some(()))
        .await;
    assert!(!page.is_visible("[aria-label='Remove notes.txt']").await);
    page.browser.tab.back().await.expect("there is a page before");
    wait_until("the draft is back", async || {
        (page.browser.run_script(field, vec![]).await == "read this, but not yet").then_some(())
    })
    .await;
    page.reload().await;
    wait_until("the draft is back", async || {
        (page.browser.run_script(field, vec![]).await == "read this, but not yet").then_some(())
    })
    .await;
    page.find("[aria-label='Remove notes.txt']").await;
    page.browser.run_script("const field = document.querySelector('textarea'); field.value = 'read notes.txt'; field.dispatchEvent(new Event('input'))", vec![]).await;
    page.click("Send").await;
    let turns = page.wait_for_reply(2).await;
    assert_eq!(turns[1].sent_files, ["notes.txt"]);
    assert!(turns[1].reply.contains("buy milk"), "{turns:?}");
    page.assert_no_page_errors().await;
}

/// Of a long conversation the end comes first, and the rest when one reads up to it.
#[tokio::test(flavor = "multi_thread")]
async fn older_messages_load_on_scroll() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.find("textarea").await;
    let fill = "const done = arguments[arguments.length - 1];
        (async () => {
            for (let at = 0; at < 45; at += 1)
                await fetch(`/api/conversations/long/messages`, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Satchel-Login': localStorage.getItem('satchel.login') },
                    body: JSON.stringify({ key: `k${at}`, text: `/resend ${at + 1}`, uploads: [] }) });
            done();
        })()";
    page.browser.tab.execute_async(fill, vec![]).await.expect("the conversation is filled");
    page.visit(&server.url("/#/long")).await;
    page.reload().await;
    wait_until("the end is there", async || (page.turns().await.len() >= 30).then_some(())).await;
    wait_until("all is there", async || {
        page.browser.run_script("document.querySelector('[role=log]').scrollTop = 0", vec![]).await;
        (page.turns().await.len() == 45).then_some(())
    })
    .await;
    let said: Vec<String> = page.turns().await.into_iter().flat_map(|turn| turn.person_texts).collect();
    let wanted: Vec<String> = (0..45).map(|at| format!("/resend {}", at + 1)).collect();
    assert_eq!(said, wanted);
}
