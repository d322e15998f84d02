//! The settings as an owner sees and works them.

use std::sync::Arc;

use fantoccini::{Locator, elements::Element, key::Key};
use satchel_browser::{
    axe::Axe, browser::Viewport, page::Page, samples::bytes, server::SatchelServer, wait::wait_until,
};
use satchel_domain::{ChannelName, Sender};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Pairings,
    ledger::{PairingRequest, PairingRules},
};
use satchel_requirements::required;

use crate::{accessibility::assert_no_findings, delivery::find_only_file, narrow::assert_fits};

const VIEWS: [&str; 6] = ["Overview", "Checks", "Configuration", "People", "Logins", "Outbox"];

const PHONE: Viewport = Viewport { width: 390, height: 844, touch: true, dark: false };

/// A name that would act if it were taken for HTML.
const HOSTILE: &str = "<img src=x onerror=document.body.remove()>";

/// The secret of a model that nobody uses.
const SECRET: &str = "canary-of-the-spare-model";

async fn start() -> SatchelServer {
    let key = format!("models.spare.api_key={SECRET}");
    SatchelServer::start(&["models.spare.provider=openai", &key]).await
}

/// The server's ledger, as another process opens it.
async fn open_ledger(server: &SatchelServer) -> SqliteLedger {
    let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
    let ledger = SqliteLedger::open(&server.home().data_directory(), Settings::default(), clock, ids).await;
    ledger.expect("a second process can open it")
}

/// Lets a stranger ask to talk on a platform.
async fn ask_to_talk(ledger: &SqliteLedger, id: &str, name: &str) {
    let conversation = format!("telegram:{id}").parse().expect("it is a conversation");
    let request = PairingRequest { person: Sender::new(id, name), conversation };
    let issued = ledger.issue_pairing_code(&request, &PairingRules::default()).await;
    issued.expect("the ledger works").expect("a stranger gets a code");
}

async fn open_view(page: &Page, view: &str) {
    page.click(view).await;
    wait_for_view(page, view).await;
}

/// Waits until a view is open and complete.
async fn wait_for_view(page: &Page, view: &str) {
    wait_until(&format!("the view {view} is open"), async || {
        let script = "return document.querySelector('main h2').textContent === arguments[0]
            && document.querySelector('#content:not([aria-busy]) > *') !== null";
        (page.browser.run_script(script, vec![view.into()]).await == true).then_some(())
    })
    .await;
}

async fn open_settings(page: &Page) {
    page.click("Settings").await;
    wait_for_view(page, "Overview").await;
}

async fn press(element: &Element, key: Key) {
    element.send_keys(&char::from(key).to_string()).await.expect("it takes keys");
}

async fn focused(page: &Page) -> Element {
    page.browser.tab.active_element().await.expect("something has the focus")
}

/// Presses Tab until the focus is on what has this label or these words.
async fn tab_to(page: &Page, label: &str) -> Element {
    let name = "return arguments[0].getAttribute('aria-label') ?? arguments[0].textContent";
    let mut at = focused(page).await;
    let mut presses = 0;
    while page.browser.run_script(name, vec![serde_json::to_value(&at).expect("it has an id")]).await != label {
        assert!(presses < 60, "{label} can't be reached with Tab");
        presses += 1;
        press(&at, Key::Tab).await;
        at = focused(page).await;
    }
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_open_settings_by_key_and_return() {
    let server = start().await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.find("[aria-label=Settings]").await;
    let link = tab_to(&page, "Settings").await;
    press(&link, Key::Enter).await;
    wait_for_view(&page, "Overview").await;
    let overview = page.text("#content").await;
    for expected in ["Satchel", "Web page", "Started", "Answers", "free", "No schedules", "Nobody has a reminder"] {
        assert!(overview.contains(expected), "{expected} in {overview}");
    }
    press(&tab_to(&page, "Configuration").await, Key::Enter).await;
    wait_for_view(&page, "Configuration").await;
    press(&focused(&page).await, Key::Escape).await;
    page.find("textarea[aria-label=Message]").await;
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_tells_origins_and_no_secrets() {
    let server = start().await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    open_settings(&page).await;
    open_view(&page, "Configuration").await;
    let set = page.text("#content section[aria-label=Set]").await;
    assert!(set.contains("models.spare.api_key") && set.contains("********") && set.contains("--set"), "{set}");
    assert!(!page.is_visible("section[aria-label=Defaults] li").await, "defaults are folded");
    let field = page.find("main input[type=search]").await;
    field.send_keys("delivery.max_age").await.expect("the field takes text");
    let found = page.text("section[aria-label=Defaults] li").await;
    assert!(found.contains("delivery.max_age") && found.contains("SATCHEL_DELIVERY__MAX_AGE"), "{found}");
    field.send_keys(" no such words").await.expect("the field takes text");
    wait_until("nothing is found", async || {
        page.text("#content").await.contains("No setting has these words").then_some(())
    })
    .await;
    for path in ["/api/system/settings", "/api/system"] {
        let body = server.get(&server.url(path)).await.text().await.expect("it has a body");
        assert!(!body.contains(SECRET), "{body}");
    }
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_approved_refused_and_revoked() {
    let server = start().await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let ledger = open_ledger(&server).await;
    ask_to_talk(&ledger, "5", HOSTILE).await;
    ask_to_talk(&ledger, "6", "Bob").await;
    open_settings(&page).await;
    open_view(&page, "People").await;
    let telegram = ChannelName::new("telegram").expect("it is a name");
    page.click(&format!("Approve {HOSTILE}")).await;
    page.find("dialog[open]").await;
    page.click("Cancel").await;
    assert!(!ledger.is_approved(&telegram, "5").await.expect("the ledger works"), "a question was cancelled");
    page.click(&format!("Approve {HOSTILE}")).await;
    confirm(&page).await;
    wait_until("the person may talk", async || {
        let people = page.text("section[aria-label=People]").await;
        (people.contains(HOSTILE) && people.contains("Approved by operator")).then_some(())
    })
    .await;
    assert!(ledger.is_approved(&telegram, "5").await.expect("the ledger works"));
    page.click("Refuse Bob").await;
    confirm(&page).await;
    wait_until("nobody waits", async || {
        page.text("section[aria-label='Waiting for approval']").await.contains("No one is waiting").then_some(())
    })
    .await;
    assert!(!ledger.is_approved(&telegram, "6").await.expect("the ledger works"));
    page.click(&format!("Revoke {HOSTILE}")).await;
    confirm(&page).await;
    wait_until("nobody may talk", async || {
        (!page.text("section[aria-label=People]").await.contains(HOSTILE)).then_some(())
    })
    .await;
    assert!(!ledger.is_approved(&telegram, "5").await.expect("the ledger works"));
    page.assert_no_page_errors().await;
}

/// Presses the button of the dialog that is open.
async fn confirm(page: &Page) {
    let button = page.find("dialog[open] [type=submit]").await;
    button.click().await.expect("it can be clicked");
    wait_until("the dialog is closed", async || (!page.is_visible("dialog[open]").await).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_failed_part_are_resent_once() {
    let server = start().await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let data = bytes(50_000);
    let file = server.home().write_file("data.bin", &data);
    page.upload(&[&file]).await;
    page.send_message("what did I send").await;
    page.wait_for_reply(1).await;
    // The disk loses the bytes for a while.
    let blob = find_only_file(&server.home().data_directory().join("blobs"), data.len());
    let hidden = server.home().root().join("hidden");
    std::fs::rename(&blob, &hidden).expect("a file can be moved");
    page.send_message("/resend 1").await;
    page.wait_for_reply(2).await;
    std::fs::rename(&hidden, &blob).expect("a file can be moved");
    open_settings(&page).await;
    open_view(&page, "Outbox").await;
    let failed = page.text("section[aria-label=Failed]").await;
    assert!(failed.contains("data.bin") && failed.contains("can't be read"), "{failed}");
    assert!(!page.is_visible("section[aria-label=Failed] li:nth-child(2)").await, "{failed}");
    page.click("Send again").await;
    confirm(&page).await;
    page.click("Back to the conversations").await;
    let turns = page.wait_for_reply(3).await;
    assert_eq!(turns[2].reply_files, ["data.bin"]);
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_run_on_request() {
    let server = start().await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    open_settings(&page).await;
    open_view(&page, "Checks").await;
    page.click("Run the checks").await;
    page.find("#content .summary").await;
    let script = "document.querySelectorAll('details').forEach(fold => fold.open = true);
        return document.querySelector('#content').innerText";
    let found = page.browser.run_script(script, vec![]).await;
    let found = found.as_str().expect("it has a text");
    assert!(found.contains("is healthy") && found.contains("is served by Satchel"), "{found}");
    assert!(found.contains("no other process has the data directory open"), "{found}");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_fit_every_window_and_are_accessible() {
    let server = start().await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let Some(axe) = required(Axe::load()) else { return };
    let ledger = open_ledger(&server).await;
    ask_to_talk(&ledger, "5", &"a-name-without-any-place-to-break".repeat(4)).await;
    open_settings(&page).await;
    for view in VIEWS {
        open_view(&page, view).await;
        let unfold = "document.querySelectorAll('details').forEach(fold => fold.open = true)";
        page.browser.run_script(unfold, vec![]).await;
        assert_no_findings(&page, &axe, view).await;
        for window in [PHONE, Viewport::NARROW] {
            page.browser.resize(window).await;
            assert_fits(&page, view).await;
        }
        page.browser.resize(Viewport::WIDE).await;
    }
    open_view(&page, "People").await;
    page.click("Approve").await;
    page.find("dialog[open]").await;
    assert_no_findings(&page, &axe, "a question").await;
    let current = page.browser.tab.find_all(Locator::Css("nav [aria-current=page]")).await;
    assert_eq!(current.expect("the page can be searched").len(), 1);
}
