//! The page on a small telephone.

use satchel_browser::{
    browser::Viewport,
    page::Page,
    samples::{PNG, bytes},
    server::SatchelServer,
    wait::wait_until,
};
use satchel_requirements::required;
use serde_json::Value;

/// What is wider than the window although nothing around it scrolls.
const OVERFLOW_SCRIPT: &str = "const scrolls = element => {
        for (let at = element.parentElement; at; at = at.parentElement)
            if (['auto', 'scroll'].includes(getComputedStyle(at).overflowX) && at.getAttribute('role') !== 'log') return true;
        return false;
    };
    const wide = [...document.querySelectorAll('body *')].filter(element => {
        const box = element.getBoundingClientRect();
        return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5) && !element.closest('[aria-label=Conversations]')
            && !element.matches('.sr-only, .skip') && !scrolls(element);
    });
    const found = wide.map(element => element.outerHTML.slice(0, 120));
    if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} wide`);
    if (innerWidth > 390) found.push(`the window is ${innerWidth} wide`);
    return found";

/// Controls that are too small for a finger, or that something covers.
const SMALL_CONTROLS_SCRIPT: &str = "return [...document.querySelectorAll('button, a[href], summary, input:not([type=file])')].flatMap(element => {
        const box = element.getBoundingClientRect();
        const inline = element.closest('.prose p, .prose li');
        if (!element.checkVisibility({ visibilityProperty: true }) || element.matches('.skip, .sr-only') || inline) return [];
        return box.width < 43.5 || box.height < 43.5 ? [`${box.width} x ${box.height}: ${element.outerHTML.slice(0, 120)}`] : [];
    })";

#[tokio::test(flavor = "multi_thread")]
async fn everything_fits_and_is_reachable_at_360_pixels() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::NARROW).await) else { return };
    page.find("main h2").await;
    assert_fits(&page, "the empty page").await;
    let long_name = format!("{}.png", "a-very-long-name-without-any-place-to-break".repeat(3));
    let picture = server.home().write_file(&long_name, PNG);
    let data = server.home().write_file("data.bin", bytes(9_000));
    let code = format!("```rust\nfn main() {{ println!(\"{}\"); }}\n```\n", "wide ".repeat(60));
    let notes = server.home().write_file("notes.md", code);
    page.upload(&[&picture, &data, &notes]).await;
    assert_fits(&page, "a message that is being written").await;
    page.type_text(&"a-word-that-goes-on-and-on".repeat(8)).await;
    page.send_message(" send everything").await;
    page.wait_for_reply(1).await;
    page.send_message("read notes.md").await;
    page.wait_for_reply(2).await;
    page.send_message("help").await;
    page.wait_for_reply(3).await;
    assert_fits(&page, "a conversation").await;

    page.click("Conversations").await;
    page.find("nav a[aria-current=page]").await;
    wait_until("the drawer is open", async || {
        let left =
            page.browser.run_script("return document.querySelector('nav').getBoundingClientRect().left", vec![]).await;
        (left == 0).then_some(())
    })
    .await;
    assert_fits(&page, "the list of conversations").await;
    page.click("More for").await;
    page.find("[role=menu]").await;
    assert_fits(&page, "the menu of a conversation").await;
    page.click("Rename").await;
    page.find("dialog[open] input").await;
    assert_fits(&page, "renaming").await;
    page.click("Cancel").await;
    page.send_keys("input[type=search]", "data").await;
    page.find("nav mark").await;
    assert_fits(&page, "what a search found").await;
    page.click("New conversation").await;
    page.find("main h2").await;
    let title = page.text("h1").await;
    assert_eq!(title, "New conversation");
    page.click("Conversations").await;
    page.click("Keyboard shortcuts").await;
    page.find("dialog[open] h2").await;
    assert_fits(&page, "the shortcuts").await;
    page.click("Close").await;
    wait_until("the shortcuts are closed", async || (!page.is_visible("dialog[open]").await).then_some(())).await;
    page.assert_no_page_errors().await;
}

pub(crate) async fn assert_fits(page: &Page, what: &str) {
    let nothing = Value::Array(Vec::new());
    assert_eq!(page.browser.run_script(OVERFLOW_SCRIPT, vec![]).await, nothing, "{what}");
    assert_eq!(page.browser.run_script(SMALL_CONTROLS_SCRIPT, vec![]).await, nothing, "{what}");
}
