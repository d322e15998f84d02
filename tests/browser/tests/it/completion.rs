//! Commands that are completed while a person types.

use fantoccini::key::Key;
use satchel_browser::{axe::Axe, browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;
use serde_json::{Value, json};

/// An agent, and tasks with a description that would act if it were shown as HTML.
const PLAYBOOK: &str = "\
agents:
  - id: cook
    description: <img src=x onerror=alert(1)>
    instructions: You cook.
    actions: [{ id: plan, prompt: 'A menu for {{ input.guests }} on {{ input.day }}' }]
tasks:
  - { id: menu, agent: cook, action: plan, description: plans a menu }
  - { id: market, agent: cook, action: plan, description: <b>buys</b>, input: { guests: '2', day: today } }
";

/// The field's text and role, and the suggestions; the chosen one ends with a star.
const STATE_SCRIPT: &str = "const field = document.querySelector('#message');
    const options = [...document.querySelectorAll('#suggestions [role=option]')];
    const label = option => option.firstChild.textContent
        + (option.getAttribute('aria-selected') === 'true' ? '*' : '');
    const chosen = field.getAttribute('aria-activedescendant');
    const marked = options.find(option => option.getAttribute('aria-selected') === 'true');
    if ((marked?.id ?? null) !== chosen) return `the field names ${chosen}`;
    return [field.value, field.getAttribute('role'), ...options.map(label)];";

async fn wait_for_state(page: &Page, expected: Value) {
    let mut last = Value::Null;
    let waited = tokio::time::timeout(std::time::Duration::from_secs(10), async {
        while last != expected {
            last = page.browser.run_script(STATE_SCRIPT, vec![]).await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    let _timed_out = waited.await;
    assert_eq!(last, expected);
}

async fn press(page: &Page, key: Key) {
    page.type_text(&char::from(key).to_string()).await;
}

async fn open_with_tasks(viewport: Viewport) -> (SatchelServer, Result<Page, String>) {
    let mut server = SatchelServer::start(&[]).await;
    server.home().write_file("satchel.yaml", PLAYBOOK);
    server.kill();
    server.restart().await;
    let page = Page::open(&server, viewport).await;
    if let Ok(page) = &page {
        wait_until("the commands are loaded", async || {
            page.browser.run_script(OFFERED_SCRIPT, vec![]).await.as_bool().filter(|offered| *offered)
        })
        .await;
    }
    (server, page)
}

/// Types a slash; whether something is suggested then. Leaves the field empty.
const OFFERED_SCRIPT: &str = "const field = document.querySelector('#message');
    const type = text => { field.value = text; field.dispatchEvent(new Event('input')); };
    type('/');
    const offered = !document.querySelector('#suggestions').hidden;
    type('');
    return offered;";

#[tokio::test(flavor = "multi_thread")]
async fn choice_of_a_suggestion_survives_a_new_connection() {
    let (mut server, page) = open_with_tasks(Viewport::WIDE).await;
    let Some(page) = required(page) else { return };
    page.type_text("/task ").await;
    press(&page, Key::Down).await;
    wait_for_state(&page, json!(["/task ", "combobox", "menu", "market*"])).await;
    server.kill();
    server.restart().await;
    wait_until("the commands are loaded again", async || {
        let script = "return document.querySelector('#announcer').textContent === 'Connected again.'
            && performance.getEntriesByType('resource').filter(({ name, responseEnd }) =>
                name.endsWith('/api/commands') && responseEnd > 0).length > 1";
        (page.browser.run_script(script, vec![]).await == true).then_some(())
    })
    .await;
    wait_for_state(&page, json!(["/task ", "combobox", "menu", "market*"])).await;
    press(&page, Key::Enter).await;
    wait_for_state(&page, json!(["/task market ", null])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_names_and_inputs_are_completed_by_key() {
    let (_server, page) = open_with_tasks(Viewport::WIDE).await;
    let Some(page) = required(page) else { return };
    page.type_text("/ta").await;
    wait_for_state(&page, json!(["/ta", "combobox", "/task*"])).await;
    press(&page, Key::Enter).await;
    wait_for_state(&page, json!(["/task ", "combobox", "menu*", "market"])).await;
    press(&page, Key::Down).await;
    wait_for_state(&page, json!(["/task ", "combobox", "menu", "market*"])).await;
    press(&page, Key::Down).await;
    wait_for_state(&page, json!(["/task ", "combobox", "menu*", "market"])).await;
    press(&page, Key::Escape).await;
    wait_for_state(&page, json!(["/task ", null])).await;
    page.type_text("me").await;
    press(&page, Key::Tab).await;
    // A task runs without its inputs, so Enter would send it.
    wait_for_state(&page, json!(["/task menu ", "combobox", "day=", "guests="])).await;
    press(&page, Key::Up).await;
    press(&page, Key::Enter).await;
    wait_for_state(&page, json!(["/task menu guests=", null])).await;
    page.type_text("6 ").await;
    wait_for_state(&page, json!(["/task menu guests=6 ", "combobox", "day="])).await;
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn complete_command_is_sent_with_one_key() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.find("textarea").await;
    page.send_message("/files").await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].person_texts, ["/files"]);
    wait_for_state(&page, json!(["", null])).await;
    // Without tasks and other agents, there is nothing to choose among them.
    for command in ["/task ", "/agent "] {
        page.type_text(command).await;
        wait_for_state(&page, json!([command, null])).await;
        page.browser.run_script("document.querySelector('#message').value = ''", vec![]).await;
    }
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suggestion_is_accepted_by_touch_and_shown_as_text() {
    let (_server, page) = open_with_tasks(Viewport::NARROW).await;
    let Some(page) = required(page) else { return };
    page.type_text("/agent ").await;
    wait_for_state(&page, json!(["/agent ", "combobox", "default*", "cook"])).await;
    let acting = "return document.querySelectorAll('#suggestions img, #suggestions b').length";
    assert_eq!(page.browser.run_script(acting, vec![]).await, 0);
    let words = "return document.querySelector('#suggestions').textContent";
    let words = page.browser.run_script(words, vec![]).await;
    assert!(words.as_str().is_some_and(|words| words.contains("<img src=x onerror=alert(1)>")), "{words}");
    let width = "return document.documentElement.scrollWidth <= 360
        && document.querySelector('#suggestions').getBoundingClientRect().right <= 360";
    assert_eq!(page.browser.run_script(width, vec![]).await, true);
    page.click_on("#suggestion-1").await;
    wait_for_state(&page, json!(["/agent cook ", null])).await;
    assert_eq!(page.browser.run_script("return document.activeElement.id", vec![]).await, "message");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_list_has_no_accessibility_findings() {
    let (_server, page) = open_with_tasks(Viewport::WIDE).await;
    let Some(page) = required(page) else { return };
    let Some(axe) = required(Axe::load()) else { return };
    page.type_text("/task ").await;
    page.find("#suggestion-1").await;
    for viewport in [Viewport::WIDE, Viewport::WIDE.in_dark_mode(), Viewport::NARROW, Viewport::NARROW.in_dark_mode()] {
        page.browser.resize(viewport).await;
        page.find("#suggestion-1").await;
        assert_eq!(axe.find_violations(&page.browser).await, Vec::<String>::new(), "{viewport:?}");
    }
}
