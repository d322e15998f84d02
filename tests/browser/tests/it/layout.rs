//! Everything stays in its place, at a desk and on a telephone.

use satchel_browser::{browser::Viewport, page::Page, samples::PNG, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;
use serde_json::{Value, json};

/// How far each end of a line is from where it should be.
const MAX_OFFSET_PIXELS: f64 = 0.5;

/// Scrolls to every heading that only screen readers have, then finds the first message as find-in-page does. Answers
/// with what moved the bar at the top away.
const SCROLL_SCRIPT: &str = "const top = () => document.querySelector('header').getBoundingClientRect().top;
    const log = document.querySelector('[role=log]');
    const strays = [];
    for (const heading of document.querySelectorAll('.sr-only')) {
        heading.scrollIntoView();
        if (top() !== 0) strays.push(heading.outerHTML.slice(0, 80));
    }
    log.scrollTop = log.scrollHeight;
    getSelection().removeAllRanges();
    if (!window.find('You, ')) strays.push('find-in-page finds no heading');
    if (top() !== 0) strays.push('find-in-page');
    return strays;";

#[tokio::test(flavor = "multi_thread")]
async fn top_bar_stays_when_scrolling_to_headings() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    for turns in 1..=3 {
        page.send_message("help").await;
        page.wait_for_reply(turns).await;
    }
    for window in [Viewport { height: 500, ..Viewport::WIDE }, Viewport::NARROW] {
        page.browser.resize(window).await;
        assert_eq!(page.browser.run_script(SCROLL_SCRIPT, vec![]).await, json!([]), "{window:?}");
    }
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn picture_is_centered_with_one_or_two_arrows() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let pictures: Vec<_> =
        ["first.png", "second.png", "third.png"].iter().map(|name| server.home().write_file(name, PNG)).collect();
    let pictures: Vec<_> = pictures.iter().map(std::path::PathBuf::as_path).collect();
    page.upload(&pictures).await;
    page.send_message("what did I send").await;
    page.wait_for_reply(1).await;
    let beside = "const box = document.querySelector('dialog[open] img').getBoundingClientRect();
        return (box.left + box.right - innerWidth) / 2";
    for (name, arrows) in [("first.png", 1), ("second.png", 2), ("third.png", 1)] {
        page.click(&format!("Open {name}")).await;
        for window in [Viewport::WIDE, Viewport::NARROW] {
            page.browser.resize(window).await;
            wait_until(&format!("{name} is loaded"), async || {
                let loaded =
                    page.browser.run_script("return document.querySelector('dialog[open] img').complete", vec![]).await;
                (loaded == true).then_some(())
            })
            .await;
            let shown = "return document.querySelectorAll('.lightbox-step:not([hidden])').length";
            assert_eq!(page.browser.run_script(shown, vec![]).await, arrows);
            assert_near_zero(&page.browser.run_script(beside, vec![]).await, &format!("{name} in {window:?}"));
        }
        page.browser.resize(Viewport::WIDE).await;
        page.click("Close the picture").await;
        wait_until("the picture is closed", async || (!page.is_visible("dialog[open]").await).then_some(())).await;
    }
    page.assert_no_page_errors().await;
}

/// The window's width decides whether the column fills the place or stands in the middle of it; a scrollbar takes room
/// in both.
#[tokio::test(flavor = "multi_thread")]
async fn messages_and_input_share_edges_beside_scrollbar() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport { height: 500, ..Viewport::WIDE }).await) else { return };
    page.send_message("help").await;
    page.wait_for_reply(1).await;
    let edges = "const place = selector => {
            const element = document.querySelector(selector);
            const box = element.getBoundingClientRect();
            const style = getComputedStyle(element);
            return [box.left + parseFloat(style.paddingLeft), box.right - parseFloat(style.paddingRight)];
        };
        const log = document.querySelector('[role=log]');
        const [messages, field] = [place('#column'), place('.composer-inner')];
        return { bar: log.offsetWidth - log.clientWidth, left: messages[0] - field[0], right: messages[1] - field[1] }";
    for width in [1280, 920, 700] {
        page.browser.resize(Viewport { width, height: 500, ..Viewport::WIDE }).await;
        let found = page.browser.run_script(edges, vec![]).await;
        assert!(
            found["bar"].as_f64().is_some_and(|width| width > 0.0),
            "there is no scrollbar to make room for: {found}"
        );
        assert_near_zero(&found["left"], &format!("the left edges at {width}: {found}"));
        assert_near_zero(&found["right"], &format!("the right edges at {width}: {found}"));
    }
    page.assert_no_page_errors().await;
}

fn assert_near_zero(pixels: &Value, what: &str) {
    assert!(pixels.as_f64().is_some_and(|pixels| pixels.abs() <= MAX_OFFSET_PIXELS), "{pixels} pixels off: {what}");
}
