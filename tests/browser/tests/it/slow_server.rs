//! What a person does on the page before the server has answered.

use fantoccini::key::Key;
use satchel_browser::{
    browser::{Browser, Viewport},
    page::Page,
    server::SatchelServer,
    wait::wait_until,
};
use satchel_requirements::required;
use serde_json::{Value, json};

/// Opens the page, which gets no answer from a path of the API until [`release`].
async fn open_without_answer(server: &SatchelServer, path: &str) -> Result<Page, String> {
    let browser = Browser::start(Viewport::WIDE).await?;
    let script = format!(
        "const fetchNow = window.fetch;
        const released = new Promise(resolve => (window.release = resolve));
        window.fetch = async (path, init) => {{
            if (path !== '{path}') return fetchNow(path, init);
            window.isHeld = true;
            await released;
            const response = await fetchNow(path, init);
            const text = response.text.bind(response);
            response.text = async () => {{
                const answer = await text();
                // In a later task the page has dealt with the answer.
                setTimeout(() => (window.isAnswered = true));
                return answer;
            }};
            return response;
        }};"
    );
    browser.send_cdp_command("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await;
    let page = Page { browser };
    page.visit(&server.login_link()).await;
    wait_until("the page waits for the answer", async || {
        (page.browser.run_script("return window.isHeld === true", vec![]).await == true).then_some(())
    })
    .await;
    Ok(page)
}

async fn release(page: &Page) {
    page.browser.run_script("window.release()", vec![]).await;
}

async fn message(page: &Page) -> Value {
    page.browser.run_script("return document.querySelector('#message').value", vec![]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_come_late_are_suggested_for_what_was_typed() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(open_without_answer(&server, "/api/commands").await) else { return };
    page.type_text("/fi").await;
    assert!(!page.is_visible("#suggestions").await, "no command is known");
    release(&page).await;
    page.find("#suggestions").await;
    page.type_text(&char::from(Key::Enter).to_string()).await;
    assert_eq!(message(&page).await, "/files ");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_come_late_open_nothing_that_was_left() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(open_without_answer(&server, "/api/commands").await) else { return };
    page.type_text("/fi").await;
    page.click_on("#search").await;
    release(&page).await;
    wait_until("the commands are there", async || {
        (page.browser.run_script("return window.isAnswered === true", vec![]).await == true).then_some(())
    })
    .await;
    assert_eq!(message(&page).await, "/fi");
    assert!(!page.is_visible("#suggestions").await, "the list opens for nobody");
    page.type_text("l").await;
    page.find("#suggestions").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_and_added_before_the_session_is_known_is_kept() {
    let server = SatchelServer::start(&[]).await;
    let file = server.home().write_file("early.txt", "early\n");
    let Some(page) = required(open_without_answer(&server, "/api/session").await) else { return };
    page.send_message("send everything").await;
    let complaint = page.text("#complaint").await;
    assert_eq!(complaint, "Still connecting. Your message stays here; send it in a moment.");
    page.attach(&[&file]).await;
    wait_until("the file is announced", async || {
        let complaint = page.text("#complaint").await;
        (complaint == "Still connecting. 1 file is added in a moment.").then_some(())
    })
    .await;
    assert_eq!(message(&page).await, "send everything");
    release(&page).await;
    page.find("#tray .upload-done").await;
    assert!(!page.is_visible("#complaint").await);
    assert_eq!(message(&page).await, "send everything");
    page.type_text(&char::from(Key::Enter).to_string()).await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(
        (&turns[0].sent_files, &turns[0].reply_files),
        (&vec!["early.txt".to_owned()], &vec!["early.txt".to_owned()])
    );
    page.assert_no_page_errors().await;
}
