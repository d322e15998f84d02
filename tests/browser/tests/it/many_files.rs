//! Many files in one message.

use std::path::{Path, PathBuf};

use fantoccini::key::Key;
use satchel_browser::{
    axe::Axe,
    browser::Viewport,
    page::Page,
    samples::{PNG, bytes},
    server::SatchelServer,
    wait::wait_until,
};
use satchel_requirements::required;
use serde_json::Value;

use crate::{accessibility::assert_no_findings, files_panel::press, narrow::assert_fits};

/// Twenty files in one message: more than one column, few rows, all reachable.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_files_of_a_message_are_a_grid() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let name = |number| if number % 3 == 0 { format!("data-{number}.bin") } else { format!("photo-{number}.png") };
    let content = |number| if number % 3 == 0 { bytes(number) } else { PNG.to_vec() };
    let files: Vec<PathBuf> = (1..=20).map(|number| server.home().write_file(name(number), content(number))).collect();
    page.upload(&files.iter().map(PathBuf::as_path).collect::<Vec<&Path>>()).await;
    page.send_message("what did I send").await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].sent_files, (1..=20).map(name).collect::<Vec<_>>(), "in their order");
    let columns = "return new Set([...document.querySelectorAll('.said figure')]
        .map(tile => Math.round(tile.getBoundingClientRect().left))).size";
    assert!(page.browser.run_script(columns, vec![]).await.as_u64() >= Some(3));
    page.click_on("[aria-label='Open photo-1.png']").await;
    let shown = "return document.querySelector('dialog[open] img').alt";
    for (key, name) in [(Key::Right, "photo-2.png"), (Key::Right, "photo-4.png"), (Key::Left, "photo-2.png")] {
        press(&page, key).await;
        wait_until("the next picture is shown", async || {
            (page.browser.run_script(shown, vec![]).await == name).then_some(())
        })
        .await;
    }
    press(&page, Key::Escape).await;
    page.browser.resize(Viewport::NARROW).await;
    assert_eq!(page.browser.run_script(columns, vec![]).await, Value::from(2), "on a telephone");
    assert_fits(&page, "twenty files").await;
    let Some(axe) = required(Axe::load()) else { return };
    assert_no_findings(&page, &axe, "twenty files").await;
    page.assert_no_page_errors().await;
}
