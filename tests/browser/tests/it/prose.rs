//! Rich replies: code in colours, formulas and footnotes, at both widths and in both themes.

use satchel_browser::{axe::Axe, browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire};
use satchel_requirements::required;
use serde_json::json;

const VIEWPORTS: [Viewport; 4] =
    [Viewport::WIDE, Viewport::WIDE.in_dark_mode(), Viewport::NARROW, Viewport::NARROW.in_dark_mode()];

/// A page that shows this reply.
async fn open_with_reply(text: &str) -> (SatchelServer, FakeModelServer, Result<Page, String>) {
    let model = FakeModelServer::start().await.expect("a loopback port is free");
    model.reply(ModelReply::text(text));
    let settings = [
        "models.real.provider=openai".to_owned(),
        format!("models.real.model={}", ModelWire::OpenAiChat.model()),
        format!("models.real.base_url={}", model.base_url(ModelWire::OpenAiChat)),
        format!("models.real.api_key={}", FakeModelServer::KEY),
        "model=real".to_owned(),
    ];
    let server = SatchelServer::start(&settings.each_ref().map(String::as_str)).await;
    let page = Page::open(&server, Viewport::WIDE).await;
    if let Ok(page) = &page {
        page.send_message("show me").await;
        page.wait_for_reply(1).await;
    }
    (server, model, page)
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_coloured_and_wrapped_and_keeps_its_button() {
    let lines: String =
        (0..60).map(|n| format!("    let value_{n} = \"a <b>long</b> text\"; // {}\n", "word ".repeat(40))).collect();
    let code = format!("fn main() {{\n{lines}}}\n");
    let (_server, _model, page) = open_with_reply(&format!("Here:\n\n```rust\n{code}```\n")).await;
    let Some(page) = required(page) else { return };
    let Some(axe) = required(Axe::load()) else { return };
    page.find(".hljs-keyword").await;
    page.browser.run_script("navigator.clipboard.writeText = async text => { window.copied = text }", vec![]).await;
    for viewport in VIEWPORTS {
        page.browser.resize(viewport).await;
        let state = "const pre = document.querySelector('.code pre');
            const log = document.querySelector('[role=log]');
            const ink = node => getComputedStyle(node).color;
            pre.scrollIntoView({ block: 'center' });
            const { top, bottom } = document.querySelector('.copy-button').getBoundingClientRect();
            const frame = log.getBoundingClientRect();
            return {
                isWrapped: pre.scrollWidth <= pre.clientWidth,
                isColoured: ink(pre.querySelector('.hljs-keyword')) !== ink(pre) && ink(pre.querySelector('.hljs-string')) !== ink(pre),
                hasButton: top >= frame.top && bottom <= frame.bottom,
                elements: pre.querySelectorAll('b').length,
            };";
        let expected = json!({ "isWrapped": true, "isColoured": true, "hasButton": true, "elements": 0 });
        assert_eq!(page.browser.run_script(state, vec![]).await, expected, "{viewport:?}");
        assert_eq!(axe.find_violations(&page.browser).await, Vec::<String>::new(), "{viewport:?}");
    }
    page.browser.run_script("document.querySelector('.copy-button').focus()", vec![]).await;
    let button = page.find("[aria-label='Copy code']").await;
    button.send_keys("\u{e007}").await.expect("a button takes keys");
    wait_until("it says that it copied", async || {
        let said = "return [document.querySelector('#announcer').textContent, window.copied ?? '']";
        let said = page.browser.run_script(said, vec![]).await;
        (said == json!(["Copied to the clipboard.", code])).then_some(())
    })
    .await;
    page.assert_no_page_errors().await;
}

/// What grows is drawn with each piece of the reply; colours wait until a block is complete.
#[tokio::test(flavor = "multi_thread")]
async fn code_gets_its_colours_once_it_grows_no_more() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let draw = "return import('/page/prose.js').then(({ growingProse, prose }) => {
            const code = end => `<pre><code class=\"language-rust\">fn main() {${end}}</code></pre>`;
            const isColoured = node => node.querySelector('.hljs-keyword') !== null;
            window.complete = prose(code(''));
            window.growing = growingProse();
            document.body.append(window.complete);
            const loaded = new Promise(done => {
                const observer = new MutationObserver(() => isColoured(window.complete) && done(observer.disconnect()));
                observer.observe(window.complete, { childList: true, subtree: true });
            });
            return loaded.then(() => {
                const seen = [];
                const patch = (from, blocks) => { growing.patch(from, blocks); seen.push(isColoured(growing.body)); };
                patch(0, [code('')]);
                patch(0, [code(' let x = 1; ')]);
                patch(1, ['<p>That is all.</p>']);
                return seen;
            });
        });";
    assert_eq!(page.browser.run_script(draw, vec![]).await, json!([false, false, true]));
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn formulas_and_footnotes_are_read_by_key() {
    let text = "It costs $5 and $6[^price], and $a^2$.\n\n$$\\frac{1}{2}$$\n\nHostile: $\\text{<img src=x onerror=alert(1)>}$ \
                $\\unknown{x}$\n\n[^price]: Of *last* year.";
    let (_server, _model, page) = open_with_reply(text).await;
    let Some(page) = required(page) else { return };
    let Some(axe) = required(Axe::load()) else { return };
    let shown = "const prose = document.querySelector('.answer .prose');
        return { formulas: [...prose.querySelectorAll('math')].map(math => math.textContent),
            source: [...prose.querySelectorAll('code')].map(code => code.textContent),
            first: prose.firstChild.textContent, images: prose.querySelectorAll('img').length,
            drawn: prose.querySelector('mfrac').getBoundingClientRect().height > 20 };";
    let expected = json!({
        "formulas": ["a2", "12", "<img src=x onerror=alert(1)>"],
        "source": ["$\\unknown{x}$"],
        "first": "It costs $5 and $61, and a2.",
        "images": 0,
        "drawn": true,
    });
    assert_eq!(page.browser.run_script(shown, vec![]).await, expected);
    for viewport in VIEWPORTS {
        page.browser.resize(viewport).await;
        assert_eq!(axe.find_violations(&page.browser).await, Vec::<String>::new(), "{viewport:?}");
    }
    let focused = "return document.activeElement.textContent.trim()";
    page.send_keys("[aria-label='Footnote 1']", "\u{e007}").await;
    assert_eq!(page.browser.run_script(focused, vec![]).await, "Of last year. ↩");
    page.send_keys("[aria-label='Back to the text']", "\u{e007}").await;
    assert_eq!(page.browser.run_script(focused, vec![]).await, "1");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spoilers_are_hidden_until_they_are_pressed() {
    let text = "The murderer is ||the *butler*||, see ||https://a.example/end||.";
    let (_server, _model, page) = open_with_reply(text).await;
    let Some(page) = required(page) else { return };
    let Some(axe) = required(Axe::load()) else { return };
    let read = "return document.querySelector('.answer .prose').innerText";
    let hidden = json!("The murderer is Show spoiler, see Show spoiler.");
    assert_eq!(page.browser.run_script(read, vec![]).await, hidden);
    for viewport in VIEWPORTS {
        page.browser.resize(viewport).await;
        assert_eq!(axe.find_violations(&page.browser).await, Vec::<String>::new(), "{viewport:?}");
    }
    page.send_keys(".spoiler-button", "\u{e007}").await;
    let shown = json!("The murderer is the butler, see Show spoiler.");
    assert_eq!(page.browser.run_script(read, vec![]).await, shown);
    let focused = "return document.activeElement.textContent";
    assert_eq!(page.browser.run_script(focused, vec![]).await, "the butler");
    page.send_keys(".spoiler-button", "\u{e007}").await;
    let link = "return document.querySelector('.spoiler-text a').checkVisibility()";
    assert_eq!(page.browser.run_script(link, vec![]).await, true);
    page.assert_no_page_errors().await;
}
