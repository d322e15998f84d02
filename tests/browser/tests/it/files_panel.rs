//! The panel of a conversation's files.

use fantoccini::key::Key;
use satchel_browser::{axe::Axe, browser::Viewport, page::Page, samples::PNG, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;
use serde_json::json;

use crate::{accessibility::assert_no_findings, narrow::assert_fits};

/// The names that the panel lists.
const NAMES_SCRIPT: &str = "return [...document.querySelectorAll('dialog[open] [aria-label=Files] li')]
    .map(row => row.querySelector('p').innerText)";

const FOCUSED_LABEL_SCRIPT: &str =
    "const at = document.activeElement; return at.getAttribute('aria-label') ?? at.innerText";

const OPENER: &str = "Files of this conversation";

async fn wait_for_names(page: &Page, names: &[&str]) {
    wait_until(&format!("the panel lists {names:?}"), async || {
        (page.browser.run_script(NAMES_SCRIPT, vec![]).await == json!(names)).then_some(())
    })
    .await;
}

/// Presses a key where the focus is.
pub(crate) async fn press(page: &Page, key: Key) {
    let focused = page.browser.tab.active_element().await.expect("something has the focus");
    focused.send_keys(&char::from(key).to_string()).await.expect("it takes keys");
}

async fn wait_for_focus(page: &Page, label: &str) {
    wait_until(&format!("{label} has the focus"), async || {
        (page.browser.run_script(FOCUSED_LABEL_SCRIPT, vec![]).await == label).then_some(())
    })
    .await;
}

async fn choose(page: &Page, label: &str, option: &str) {
    let script = "const field = [...document.querySelectorAll('dialog[open] label')]
            .find(label => label.innerText.startsWith(arguments[0])).querySelector('select, input');
        field.value = field.tagName === 'INPUT' ? arguments[1] : [...field.options].find(one => one.text === arguments[1]).value;
        field.dispatchEvent(new Event('change', { bubbles: true }));";
    page.browser.run_script(script, vec![json!(label), json!(option)]).await;
}

/// A page with #1 `beach.png` and #2 `notes.md` of the person, and #3 `plan.txt` of the assistant.
async fn open_with_files(server: &SatchelServer) -> Result<Page, String> {
    let page = Page::open(server, Viewport::WIDE).await?;
    let picture = server.home().write_file("beach.png", PNG);
    let notes = server.home().write_file("notes.md", "# Notes\n");
    page.upload(&[&picture, &notes]).await;
    page.send_message("write plan.txt: go to the coast").await;
    page.wait_for_reply(1).await;
    Ok(page)
}

#[tokio::test(flavor = "multi_thread")]
async fn panel_filters_opens_and_downloads_files() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(open_with_files(&server).await) else { return };
    page.click(OPENER).await;
    wait_for_names(&page, &["plan.txt", "notes.md", "beach.png"]).await;
    for (label, option, names) in [
        ("Kind", "Pictures", &["beach.png"][..]),
        ("Kind", "Documents and data", &["plan.txt", "notes.md"]),
        ("From", "Satchel", &["plan.txt"]),
        ("Kind", "All kinds", &["plan.txt"]),
        ("From", "You", &["notes.md", "beach.png"]),
        ("Since", "2999-01-01", &[]),
        ("Since", "2020-01-01", &["notes.md", "beach.png"]),
        ("Until", "2020-01-02", &[]),
        ("Until", "", &["notes.md", "beach.png"]),
    ] {
        choose(&page, label, option).await;
        wait_for_names(&page, names).await;
    }
    page.click_on("dialog[open] a[download='notes.md']").await;
    assert_eq!(page.wait_for_download("notes.md").await, b"# Notes\n");
    page.click_on("dialog[open] [aria-label='Open beach.png']").await;
    page.find(".lightbox[open] img").await;
    press(&page, Key::Escape).await;
    wait_for_focus(&page, "Open beach.png").await;
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_forgotten_in_panel_by_keys_alone() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(open_with_files(&server).await) else { return };
    let opener = page.find(&format!("[aria-label='{OPENER}']")).await;
    opener.send_keys(&char::from(Key::Enter).to_string()).await.expect("a button takes keys");
    wait_for_focus(&page, "Close the files").await;
    wait_for_names(&page, &["plan.txt", "notes.md", "beach.png"]).await;
    let forget = page.find("[aria-label='Forget plan.txt']").await;
    forget.send_keys(&char::from(Key::Down).to_string()).await.expect("a button takes keys");
    wait_for_focus(&page, "Forget notes.md").await;
    press(&page, Key::Enter).await;
    wait_for_focus(&page, "Cancel").await;
    press(&page, Key::Escape).await;
    wait_for_focus(&page, "Forget notes.md").await;
    press(&page, Key::Enter).await;
    wait_for_focus(&page, "Cancel").await;
    press(&page, Key::Tab).await;
    wait_for_focus(&page, "Forget").await;
    press(&page, Key::Enter).await;
    wait_for_names(&page, &["plan.txt", "beach.png"]).await;
    wait_for_focus(&page, "Forget beach.png").await;
    press(&page, Key::Escape).await;
    wait_for_focus(&page, OPENER).await;
    wait_until("the message shows what is left of it", async || {
        page.turns().await.first()?.full_text.contains("Removed file").then_some(())
    })
    .await;
    page.click(OPENER).await;
    wait_for_names(&page, &["plan.txt", "beach.png"]).await;
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_files_than_a_page_has() {
    let server = SatchelServer::start(&[]).await;
    for number in 1..=65 {
        server.say("a", &format!("write n{number}.txt: {number}")).await;
    }
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.find("main article").await;
    page.click(OPENER).await;
    let rows = "return document.querySelectorAll('dialog[open] li').length";
    wait_until("sixty are listed", async || (page.browser.run_script(rows, vec![]).await == 60).then_some(())).await;
    page.click("Show older files").await;
    wait_until("all are listed", async || (page.browser.run_script(rows, vec![]).await == 65).then_some(())).await;
    wait_for_focus(&page, "Download n5.txt").await;
    let names = page.browser.run_script(NAMES_SCRIPT, vec![]).await;
    assert_eq!((&names[0], &names[64]), (&json!("n65.txt"), &json!("n1.txt")));
    assert!(!page.is_visible("dialog[open] .quiet-button").await, "there is nothing older");
}

#[tokio::test(flavor = "multi_thread")]
async fn panel_fits_and_has_no_accessibility_findings() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(open_with_files(&server).await) else { return };
    let Some(axe) = required(Axe::load()) else { return };
    page.click(OPENER).await;
    wait_for_names(&page, &["plan.txt", "notes.md", "beach.png"]).await;
    assert_no_findings(&page, &axe, "the files").await;
    page.browser.resize(Viewport::NARROW).await;
    assert_fits(&page, "the files").await;
    page.browser.resize(Viewport::WIDE).await;
    page.click("Forget plan.txt").await;
    page.find(".sheet[open] h2").await;
    assert_no_findings(&page, &axe, "forgetting a file").await;
    page.assert_no_page_errors().await;
}
