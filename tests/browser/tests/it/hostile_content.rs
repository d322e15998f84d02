//! Hostile files and foreign pages: no script runs and no message is posted.

use satchel_browser::{
    browser::Viewport,
    http,
    page::Page,
    samples::{HTML, SVG},
    server::SatchelServer,
    wait::wait_until,
};
use satchel_requirements::required;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

#[tokio::test(flavor = "multi_thread")]
async fn sent_drawings_and_pages_never_run() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let svg = server.home().write_file("drawing.svg", SVG);
    let html = server.home().write_file("page.html", HTML);
    page.upload(&[&svg, &html]).await;
    page.send_message("send everything").await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].reply_files, ["drawing.svg", "page.html"]);
    let pictures = "return document.querySelectorAll('article img, iframe, object, embed').length";
    assert_eq!(page.browser.run_script(pictures, vec![]).await, 0);
    let links = "return [...document.querySelectorAll('[role=log] a[download]')].map(link => link.href.replace('&download=1', ''))";
    let links = page.browser.run_script(links, vec![]).await;
    let here = page.browser.tab.current_url().await.expect("a tab has an address");
    for link in links.as_array().into_iter().flatten().filter_map(Value::as_str) {
        // Opened by itself it is a download; a browser that would show it is told to lock it in.
        let _becomes_a_download = page.browser.tab.goto(link).await;
        let frame = "const frame = document.createElement('a'); frame.href = arguments[0]; return location.pathname";
        assert_eq!(page.browser.run_script(frame, vec![json!(link)]).await, "/");
        let answer = server.get(link).await;
        let header =
            |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        assert!(header("content-disposition").starts_with("attachment"), "{answer:?}");
        assert!(header("content-security-policy").contains("sandbox"), "{answer:?}");
        assert_eq!(header("x-content-type-options"), "nosniff");
    }
    assert_eq!(page.browser.tab.current_url().await.expect("a tab has an address"), here);
    assert_eq!(page.browser.run_script("return localStorage.getItem('acted')", vec![]).await, Value::Null);
    assert_eq!(list_conversations(&server).await.len(), 1);
    page.assert_no_page_errors().await;
}

/// Markup that a person writes, and that a model repeats, stays words.
#[tokio::test(flavor = "multi_thread")]
async fn markup_in_text_stays_text() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let hostile = "<img src=x onerror=localStorage.setItem('acted','img')><script>localStorage.setItem('acted','script')</script>\n\n\
                   [a](javascript:localStorage.setItem('acted','link')) ![b](https://example.com/b.png)";
    let file = server.home().write_file("notes.md", hostile);
    page.upload(&[&file]).await;
    page.send_message("read notes.md and read <b>bold</b>.txt").await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].person_texts, ["read notes.md and read <b>bold</b>.txt"]);
    assert!(turns[0].reply.contains("onerror"), "{turns:?}");
    let alive = "return document.querySelectorAll('.prose img, .prose script, .prose b, .prose a[href^=\"javascript\"]').length";
    assert_eq!(page.browser.run_script(alive, vec![]).await, 0);
    assert_eq!(page.browser.run_script("return localStorage.getItem('acted')", vec![]).await, Value::Null);
    page.assert_no_page_errors().await;
}

/// The sanitiser of the page stands by itself: the server's HTML is clean, so it is asked directly. The
/// Content-Security-Policy, the third lock, speaks up here: it sees the handlers and styles that are being taken out.
#[tokio::test(flavor = "multi_thread")]
async fn page_sanitizes_html_the_server_never_sends() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let ask = "const [html, done] = arguments;
        import('/page/sanitise.js').then(({ sanitised }) => {
            const place = document.createElement('div');
            place.append(sanitised(html));
            document.body.append(place);
            const made = place.innerHTML;
            setTimeout(() => { place.remove(); done(made); }, 50);
        })";
    for (html, wanted) in [
        ("<p>kept <em>as it is</em></p>", "<p>kept <em>as it is</em></p>"),
        ("<script>localStorage.setItem('acted',1)</script>a", "a"),
        ("<img src=x onerror=\"localStorage.setItem('acted',1)\">b", "b"),
        ("<p onclick=\"x()\" style=\"position:fixed\" id=\"message\" class=\"backdrop\">c</p>", "<p>c</p>"),
        ("<a href=\"javascript:localStorage.setItem('acted',1)\">d</a>", "<a>d</a>"),
        ("<a href=\" java\nscript:alert(1)\">e</a>", "<a>e</a>"),
        ("<a href=\"data:text/html,x\">f</a>", "<a>f</a>"),
        ("<a href=\"/api/login\">g</a>", "<a>g</a>"),
        (
            "<a href=\"https://example.com/\" target=\"_self\" rel=\"opener\">h</a>",
            "<a href=\"https://example.com/\" target=\"_blank\" rel=\"noopener noreferrer\">h</a>",
        ),
        ("<svg><script>alert(1)</script><foreignObject><p>i</p></foreignObject></svg>j", "j"),
        ("<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>", "<math><mtext></mtext></math>"),
        (
            "<math href=\"javascript:x\" onclick=\"x()\" style=\"x\" display=\"block\"><mi class=\"menv-align x\">a</mi></math>",
            "<math display=\"block\"><mi class=\"menv-align\">a</mi></math>",
        ),
        (
            "<math><annotation-xml encoding=\"text/html\"><img src=x onerror=alert(1)></annotation-xml></math>",
            "<math></math>",
        ),
        (
            "<math><maction actiontype=\"statusline\"><mi>b</mi></maction><mi width=\"url(x)\">c</mi></math>",
            "<math><mi>c</mi></math>",
        ),
        (
            "<sup class=\"footnote-ref\" id=\"message\">1</sup><sup class=\"backdrop\">2</sup>",
            "<sup class=\"footnote-ref\">1</sup><sup>2</sup>",
        ),
        (
            "<span class=\"spoiler\" id=\"message\">p</span><span class=\"spoiler-text\" hidden>q</span>",
            "<span class=\"spoiler\">p</span><span>q</span>",
        ),
        ("<iframe srcdoc=\"<script>parent.x=1</script>\"></iframe><form action=\"/\"><input name=a></form>k", "k"),
        ("<section><div>l<span style=\"x\">m</span></div></section>", "l<span>m</span>"),
        (
            "<code class=\"language-rust x\">n</code><code class=\"language-rust\">o</code>",
            "<code>n</code><code class=\"language-rust\">o</code>",
        ),
        ("<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">", "<p></p>"),
    ] {
        let made = page.browser.tab.execute_async(ask, vec![json!(html)]).await.expect("the module can be asked");
        assert_eq!(made, wanted, "{html}");
    }
    let deep = format!("{}deep{}", "<em>".repeat(5000), "</em>".repeat(5000));
    let made = page.browser.tab.execute_async(ask, vec![json!(deep)]).await.expect("the module can be asked");
    assert!(made.as_str().is_some_and(|made| made.contains("deep")));
    assert_eq!(page.browser.run_script("return localStorage.getItem('acted')", vec![]).await, Value::Null);
}

/// A page of somebody else's, open in the same browser, tries all that a page can try without being asked.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_page_cannot_post_read_or_frame() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.find("textarea").await;
    let attack = format!(
        "<!doctype html><form id=f method=post enctype=text/plain target=t action=\"{0}/api/conversations/x/messages\">\
         <input name='{{\"key\":\"a\",\"text\":\"' value='stolen\",\"uploads\":[]}}'></form><iframe name=t></iframe>\
         <iframe id=framed src=\"{0}/\"></iframe>",
        server.url("")
    );
    let elsewhere = serve_foreign_page(attack).await;
    page.visit(&elsewhere).await;
    let tries = "const [base, done] = arguments; (async () => {
        const body = JSON.stringify({ key: 'b', text: 'stolen', uploads: [] });
        const url = `${base}/api/conversations/x/messages`;
        const found = [];
        for (const options of [
            { mode: 'no-cors', headers: { 'Content-Type': 'text/plain' } },
            { mode: 'no-cors' },
            { headers: { 'Content-Type': 'application/json' } },
            { mode: 'no-cors', credentials: 'include', headers: { 'Content-Type': 'application/octet-stream' } },
        ]) {
            try { found.push((await fetch(url, { method: 'POST', body, ...options })).type); } catch { found.push('refused'); }
        }
        try { found.push(await (await fetch(`${base}/api/conversations`)).text()); } catch { found.push('unread'); }
        document.getElementById('f').submit();
        await new Promise(resolve => setTimeout(resolve, 500));
        done(found);
    })()";
    let found = page.browser.tab.execute_async(tries, vec![json!(server.url(""))]).await.expect("the attack runs");
    let found: Vec<&str> = found.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // "opaque" means that something came back which the page may not see; that nothing was done is seen below.
    assert!(found.iter().all(|answer| ["opaque", "refused", "unread"].contains(answer)), "{found:?}");
    assert_eq!(found.last(), Some(&"unread"));
    assert_eq!(list_conversations(&server).await, Vec::<Value>::new());
}

async fn list_conversations(server: &SatchelServer) -> Vec<Value> {
    let answer = server.get(&server.url("/api/conversations")).await;
    let answer: Value = answer.json().await.expect("it answers in JSON");
    answer["conversations"].as_array().cloned().expect("there is a list")
}

/// A server of one page at an address of its own: another port is another origin, another name another site.
async fn serve_foreign_page(html: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are free ports");
    let port = listener.local_addr().expect("a listener has an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _cut_off = stream.read(&mut request).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                html.len()
            );
            let _cut_off = stream.write_all(format!("{head}{html}").as_bytes()).await;
        }
    });
    wait_until("the other page is there", async || http::get(&format!("http://127.0.0.1:{port}/")).await).await;
    format!("http://localhost:{port}/")
}
