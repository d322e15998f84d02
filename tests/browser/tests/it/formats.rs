//! What the page writes reads as it was typed, and as the server would write it.

use fantoccini::key::Key;
use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_domain::size;
use satchel_requirements::required;
use serde_json::{Value, json};

/// Types a text of several lines and sends it.
async fn send_lines(page: &Page, text: &str) {
    let line_break = format!("{}{}{}", char::from(Key::Shift), char::from(Key::Enter), char::from(Key::Null));
    page.send_message(&text.replace('\n', &line_break)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fenced_code_is_rendered_and_rest_is_verbatim() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let text = "see **this**:\n```html\n<b>*a*</b>\n\n  indented\n```\n~~~~\n~~~\n~~~~\nand `that`\n```\nnot closed";
    send_lines(&page, text).await;
    page.wait_for_reply(1).await;
    let shown = "const bubble = document.querySelector('.bubble');
        const code = [...bubble.querySelectorAll('pre')].map(block => block.textContent);
        const words = [...bubble.childNodes].filter(node => node.nodeType === Node.TEXT_NODE).map(node => node.data);
        return { code, words, marked: bubble.querySelectorAll('b, strong, em').length,
            copies: bubble.querySelectorAll(\"[aria-label='Copy code']\").length };";
    let expected = json!({
        "code": ["<b>*a*</b>\n\n  indented\n", "~~~\n"],
        "words": ["see **this**:", "and `that`\n```\nnot closed"],
        "marked": 0,
        "copies": 2,
    });
    assert_eq!(page.browser.run_script(shown, vec![]).await, expected);
    page.reload().await;
    page.wait_for_reply(1).await;
    assert_eq!(page.browser.run_script(shown, vec![]).await, expected);
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn title_of_leading_code_omits_the_fence() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    send_lines(&page, "```python\nprint(6 * 7)\n```").await;
    page.wait_for_reply(1).await;
    for place in ["h1", "nav li span"] {
        let is_code = async || (page.text(place).await == "print(6 * 7)").then_some(());
        wait_until(&format!("{place} is the code"), is_code).await;
    }
    page.assert_no_page_errors().await;
}

/// The page gets numbers and says sizes itself; the words must be those of replies and errors.
#[tokio::test(flavor = "multi_thread")]
async fn sizes_read_as_the_server_writes_them() {
    let mut sizes: Vec<u64> = vec![0, 1, 245_000, 2_147_483_648, 10_485_760, 146_540_000, 9_007_199_254_740];
    for unit in [1_000, 1_000_000, 1_000_000_000, 1_000_000_000_000] {
        let hundredths = [99, 100, 109, 110, 124, 125, 199, 949, 950, 995, 999, 1_000, 1_049, 9_950, 99_949, 99_999];
        sizes.extend(hundredths.map(|hundredths| unit / 100 * hundredths));
        sizes.extend([unit - 1, unit + 1]);
    }
    let expected: Vec<String> = sizes.iter().copied().map(size::format_bytes).collect();
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let script = "const [sizes, done] = arguments;
        import('/page/format.js').then(({ size }) => done([sizes.map(size), [0.4, 999.9, 1999.9].map(size)]), error => done(`${error}`));";
    let shown = page.browser.tab.execute_async(script, vec![json!(sizes)]).await.expect("a script of the test runs");
    assert_eq!(shown[0], json!(expected));
    // An upload's speed is no whole number.
    assert_eq!(shown[1], Value::from([0, 999, 1_999].map(size::format_bytes).to_vec()));
}
