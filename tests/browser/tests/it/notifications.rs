//! A long answer is announced to people who look at another tab.

use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;
use serde_json::json;

/// Records notifications instead of showing them, hides the tab, and lets its clock be moved.
const STAGE_SCRIPT: &str = "window.shown = [];
    window.Notification = class extends EventTarget {
        static permission = 'default';
        static async requestPermission() { return (this.permission = 'granted'); }
        constructor(title, { body }) { super(); window.shown.push([title, body]); }
        close() {}
    };
    const now = Date.now;
    window.late = 0;
    Date.now = () => now() + window.late;
    window.away = false;
    Object.defineProperty(document, 'hidden', { get: () => window.away });";

const STATE_SCRIPT: &str = "return [document.title.startsWith('● '), window.shown.length]";

async fn answer(page: &Page, turns: usize, seconds: u64, is_away: bool) {
    // The moment at which the turn begins is taken before the clock is moved: the button to stop is shown with it.
    let script = "const [late, away] = arguments;
        new MutationObserver((_, observer) => {
            if (document.querySelector('#stop').hidden) return;
            observer.disconnect();
            window.late += late * 1000;
            window.away = away;
        }).observe(document.querySelector('#stop'), { attributes: true });";
    page.browser.run_script(script, vec![json!(seconds), json!(is_away)]).await;
    page.send_message("help").await;
    page.wait_for_reply(turns).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_answer_is_announced_in_a_hidden_tab() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.browser.run_script(STAGE_SCRIPT, vec![]).await;
    // Short, or before the reader's eyes: nothing is said. Without a permission, only the title says it.
    for (turns, seconds, is_away, expected) in
        [(1, 2, true, json!([false, 0])), (2, 11, false, json!([false, 0])), (3, 11, true, json!([true, 0]))]
    {
        answer(&page, turns, seconds, is_away).await;
        assert_eq!(page.browser.run_script(STATE_SCRIPT, vec![]).await, expected, "turn {turns}");
        page.browser
            .run_script("window.away = false; document.dispatchEvent(new Event('visibilitychange'))", vec![])
            .await;
        assert_eq!(page.browser.run_script("return document.title.startsWith('●')", vec![]).await, false);
    }
    page.click_on("#notifications").await;
    page.find("[aria-label='Notifications: on']").await;
    answer(&page, 4, 11, true).await;
    wait_until("a notification is shown", async || {
        let shown = page.browser.run_script("return window.shown", vec![]).await;
        (shown[0][0] == "Satchel has answered").then_some(())
    })
    .await;
    page.assert_no_page_errors().await;
}
