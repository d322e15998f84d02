//! Reloads, lost connections and killed servers: nothing is lost and nothing comes twice.

use satchel_browser::{
    browser::Window,
    page::{Page, ShownTurn},
    samples::long_text,
    server::Server,
    wait::until,
};
use satchel_requirements::required;

/// A conversation in which an answer has just begun to grow.
async fn in_mid_answer(server: &Server, page: &Page) {
    let text = server.household().file("long.txt", long_text(60));
    page.upload(&[&text]).await;
    page.say("read long.txt").await;
    page.growing().await;
}

fn assert_answered_once(turns: &[ShownTurn]) {
    assert_eq!(turns[0].said, ["read long.txt"]);
    assert_eq!(turns[0].sent, ["long.txt"]);
    for line in ["line 1 of", "line 7 of", "line 20 of"] {
        assert_eq!(turns[0].answer.matches(line).count(), 1, "{line} in {turns:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_mid_reply_loses_and_duplicates_nothing() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    in_mid_answer(&server, &page).await;
    page.reload().await;
    let again = page.growing().await;
    assert_eq!(again.said, ["read long.txt"]);
    let turns = page.answered(1).await;
    assert_answered_once(&turns);
    page.reload().await;
    assert_eq!(page.answered(1).await, turns);
    page.assert_nothing_refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_finishes_reply_after_restart() {
    let mut server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    in_mid_answer(&server, &page).await;
    page.write("a draft").await;
    server.kill();
    let notice = page.find("main [role=status]").await;
    assert!(notice.text().await.is_ok_and(|words| words.contains("Reconnecting")));
    server.start_again().await;
    let turns = page.answered(1).await;
    assert_answered_once(&turns);
    until("nothing speaks of reconnecting any more", async || (!page.shows("main [role=status]").await).then_some(()))
        .await;
    let draft = page.browser.run("return document.querySelector('textarea').value", vec![]).await;
    assert_eq!(draft, "a draft");
    page.reload().await;
    assert_eq!(page.answered(1).await, turns);
    page.assert_nothing_refused().await;
}

/// The request arrives, its answer doesn't: the page asks again under the same key.
#[tokio::test(flavor = "multi_thread")]
async fn message_with_lost_response_is_accepted_once() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    page.find("textarea").await;
    let lose = "window.asked = [];
        const ask = window.fetch;
        window.fetch = async (path, options) => {
            const answer = await ask(path, options);
            if (options?.method === 'POST' && asked.push(JSON.parse(options.body).key) <= 2) throw new TypeError('lost');
            return answer;
        };";
    page.browser.run(lose, vec![]).await;
    page.say("write once.txt: once").await;
    let asked = until("it is asked three times", async || {
        let asked = page.browser.run("return window.asked", vec![]).await;
        (asked.as_array()?.len() == 3).then_some(asked)
    })
    .await;
    assert!(asked[0] == asked[1] && asked[1] == asked[2], "{asked}");
    let turns = page.answered(1).await;
    assert_eq!(turns[0].said, ["write once.txt: once"]);
    page.reload().await;
    assert_eq!(page.answered(1).await, turns);
}

#[tokio::test(flavor = "multi_thread")]
async fn message_to_unreachable_server_is_sent_once_later() {
    let mut server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    page.say("help").await;
    page.answered(1).await;
    server.kill();
    page.say("list my files").await;
    until("it is told that it isn't sent", async || {
        let last = page.turns().await.pop()?;
        (last.state == "unsent" && last.all.contains("can't be reached")).then_some(())
    })
    .await;
    server.start_again().await;
    let turns = page.answered(2).await;
    assert_eq!(turns[1].said, ["list my files"]);
    page.reload().await;
    assert_eq!(page.answered(2).await, turns);
    page.assert_nothing_refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draft_and_files_survive_reload_per_conversation() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    page.say("help").await;
    page.answered(1).await;
    let notes = server.household().file("notes.txt", "buy milk");
    page.upload(&[&notes]).await;
    page.write("read this, but not yet").await;
    page.click("New conversation").await;
    let field = "return document.querySelector('textarea').value";
    until("the new one is empty", async || (page.browser.run(field, vec![]).await == "").then_some(())).await;
    assert!(!page.shows("[aria-label='Remove notes.txt']").await);
    page.browser.tab.back().await.expect("there is a page before");
    until("the draft is back", async || {
        (page.browser.run(field, vec![]).await == "read this, but not yet").then_some(())
    })
    .await;
    page.reload().await;
    until("the draft is back", async || {
        (page.browser.run(field, vec![]).await == "read this, but not yet").then_some(())
    })
    .await;
    page.find("[aria-label='Remove notes.txt']").await;
    page.browser.run("const field = document.querySelector('textarea'); field.value = 'read notes.txt'; field.dispatchEvent(new Event('input'))", vec![]).await;
    page.click("Send").await;
    let turns = page.answered(2).await;
    assert_eq!(turns[1].sent, ["notes.txt"]);
    assert!(turns[1].answer.contains("buy milk"), "{turns:?}");
    page.assert_nothing_refused().await;
}

/// Of a long conversation the end comes first, and the rest when one reads up to it.
#[tokio::test(flavor = "multi_thread")]
async fn older_messages_come_when_they_are_scrolled_to() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    page.find("textarea").await;
    let fill = "const done = arguments[arguments.length - 1];
        (async () => {
            for (let at = 0; at < 45; at += 1)
                await fetch(`/api/conversations/long/messages`, { method: 'POST', headers: { 'Content-Type': 'application/json' },
                    body: JSON.stringify({ key: `k${at}`, text: `/resend ${at + 1}`, uploads: [] }) });
            done();
        })()";
    page.browser.tab.execute_async(fill, vec![]).await.expect("the conversation is filled");
    page.visit(&server.url("/#/long")).await;
    page.reload().await;
    until("the end is there", async || (page.turns().await.len() >= 30).then_some(())).await;
    until("all is there", async || {
        page.browser.run("document.querySelector('[role=log]').scrollTop = 0", vec![]).await;
        (page.turns().await.len() == 45).then_some(())
    })
    .await;
    let said: Vec<String> = page.turns().await.into_iter().flat_map(|turn| turn.said).collect();
    let wanted: Vec<String> = (0..45).map(|at| format!("/resend {}", at + 1)).collect();
    assert_eq!(said, wanted);
}
