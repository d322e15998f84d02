//! The page with the built-in model and with a real one: what it offers, and what it says of a failure.

use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer};
use satchel_requirements::required;

/// A model that only its settings tell from the built-in one; nobody answers at its address.
const REAL_MODEL: [&str; 5] = [
    "models.real.provider=openai",
    "models.real.model=offline-llama",
    "models.real.base_url=http://127.0.0.1:9/v1/",
    "models.real.api_key=never-used",
    "model=real",
];

/// Presses each idea in turn; answers with what the message field then holds.
const IDEAS_SCRIPT: &str = "document.querySelector('input[type=file]').click = () => {};
    return [...document.querySelectorAll('.idea')].map(idea => {
        idea.click();
        return document.querySelector('textarea').value;
    });";

async fn collect_ideas(page: &Page) -> Vec<String> {
    page.find(".idea").await;
    let offered = page.browser.run_script(IDEAS_SCRIPT, vec![]).await;
    offered.as_array().into_iter().flatten().filter_map(|idea| idea.as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_model_understands_every_offered_idea() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let offered = collect_ideas(&page).await;
    assert!(offered.len() > 2, "{offered:?}");
    for (turns, idea) in (1..).zip(&offered) {
        let field = page.find("textarea").await;
        field.clear().await.expect("the field can be emptied");
        page.send_message(idea).await;
        let answer = page.wait_for_reply(turns).await.pop().expect("there is a turn").reply;
        assert!(!answer.contains("I didn't understand"), "{idea}: {answer}");
    }
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_model_is_not_offered_offline_phrases() {
    let offline = SatchelServer::start(&[]).await;
    let real = SatchelServer::start(&REAL_MODEL).await;
    let Some(page) = required(Page::open(&offline, Viewport::WIDE).await) else { return };
    let phrases = collect_ideas(&page).await;
    page.visit(&real.login_link()).await;
    let offered = collect_ideas(&page).await;
    assert!(offered.len() > 2, "{offered:?}");
    let same: Vec<_> = offered.iter().filter(|idea| phrases.contains(idea)).collect();
    assert!(same.is_empty(), "{same:?}");
    let words = page.text("#empty").await;
    assert!(words.contains("offline-llama") && !words.contains("isn't an AI"), "{words}");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_seeing_model_is_offered_pictures() {
    let blind =
        SatchelServer::start(&[&REAL_MODEL[..1], &["models.real.model=gpt-3.5-turbo"], &REAL_MODEL[2..]].concat())
            .await;
    let seeing =
        SatchelServer::start(&[&REAL_MODEL[..1], &["models.real.model=gpt-4o-mini"], &REAL_MODEL[2..]].concat()).await;
    let Some(page) = required(Page::open(&seeing, Viewport::WIDE).await) else { return };
    let offered = collect_ideas(&page).await;
    assert!(offered.iter().any(|idea| idea == "What is in this picture?"), "{offered:?}");
    page.visit(&blind.login_link()).await;
    let offered = collect_ideas(&page).await;
    assert!(offered.len() > 2 && !offered.iter().any(|idea| idea.contains("What is in")), "{offered:?}");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_turn_is_not_called_delivered() {
    let server = SatchelServer::start(&REAL_MODEL).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.send_message("hello").await;
    let turns = page.wait_for_reply(1).await;
    assert!(turns[0].full_text.contains("The model failed") && !turns[0].full_text.contains("Delivered"), "{turns:?}");
    page.assert_no_page_errors().await;
}
