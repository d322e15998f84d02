//! Logins: what the server on another port can do with what the browser sends it, and how they are ended.

use std::sync::{Arc, Mutex, PoisonError};

use satchel_browser::{browser::Viewport, http, page::Page, samples::PNG, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// A server on another port of the page's host, as somebody else on the machine runs it. It keeps the cookies that it gets.
struct OtherPort {
    address: String,
    cookies: Arc<Mutex<Vec<String>>>,
}

impl OtherPort {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are free ports");
        let port = listener.local_addr().expect("a listener has an address").port();
        let cookies = Arc::<Mutex<Vec<String>>>::default();
        let received = Arc::clone(&cookies);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 8192];
                let length = stream.read(&mut request).await.unwrap_or_default();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let headers = request.lines().filter_map(|line| line.split_once(": "));
                let cookie = headers.filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
                let cookie = cookie.map(|(_, value)| value.to_owned());
                received.lock().unwrap_or_else(PoisonError::into_inner).extend(cookie);
                let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\nConnection: close\r\n\r\n\
                              <!doctype html>";
                let _cut_off = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { address: format!("http://127.0.0.1:{port}/"), cookies }
    }

    fn take_cookie(&self) -> Option<String> {
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// A browser sends a cookie to every port of a host. A server there can neither read nor write anything with it.
#[tokio::test(flavor = "multi_thread")]
async fn cookie_alone_is_refused_from_another_port() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let picture = server.home().write_file("cat.png", PNG);
    page.upload(&[&picture]).await;
    page.send_message("send everything").await;
    page.wait_for_reply(1).await;
    let file = "return document.querySelector('.answer a[download]').href.split('?')[0]";
    let file = page.browser.run_script(file, vec![]).await;
    let file = file.as_str().expect("a link has an address").to_owned();

    let other = OtherPort::start().await;
    page.visit(&other.address).await;
    let cookie = wait_until("the browser sends its cookie to the other port", async || other.take_cookie()).await;
    assert!(cookie.contains("satchel-"), "{cookie}");
    for url in [server.url("/api/conversations"), server.url("/api/logins"), server.url("/api/system"), file] {
        let answer = http::client().get(&url).header("cookie", &cookie).send().await.expect("the server answers");
        assert_eq!(answer.status(), 401, "{url}");
    }
    let say = http::client().post(server.url("/api/conversations/stolen/messages")).header("cookie", &cookie);
    let said = say.json(&json!({ "key": "k", "text": "stolen" })).send().await.expect("the server answers");
    assert_eq!(said.status(), 401);

    // And by a script of that origin, in the browser that is logged in.
    let tries = "const [base, done] = arguments; (async () => {
        const found = [localStorage.getItem('satchel.login')];
        for (const path of ['/api/session', '/api/conversations']) {
            try { found.push(await (await fetch(base + path, { credentials: 'include' })).text()); } catch { found.push('unread'); }
        }
        done(found);
    })()";
    let found = page.browser.tab.execute_async(tries, vec![json!(server.url(""))]).await.expect("the attack runs");
    assert_eq!(found, json!([null, "unread", "unread"]));

    page.visit(&server.url("/")).await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].reply_files, ["cat.png"], "the page is logged in as before");
    wait_until("the picture is shown", async || {
        let width = "return document.querySelector('.answer .picture img')?.naturalWidth ?? 0";
        page.browser.run_script(width, vec![]).await.as_u64().filter(|width| *width > 0)
    })
    .await;
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_logins_lock_their_browsers_out() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let link = server.login_link();
    let (_, secret) = link.split_once("#login=").expect("a link has a secret");
    let other = http::client().post(server.url("/api/login")).json(&json!({ "link": secret })).send().await;
    assert_eq!(other.expect("the server answers").status(), 200);
    page.click("Settings").await;
    page.click("Logins").await;
    page.find("section[aria-label=Browsers] li:nth-child(2)").await;
    let shown = page.text("section[aria-label=Browsers]").await;
    for expected in ["Chrome on Linux", "This browser", "unknown program"] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    page.click("Log out unknown program").await;
    page.click_on("dialog[open] [type=submit]").await;
    wait_until("one login is left", async || {
        (!page.is_visible("section[aria-label=Browsers] li:nth-child(2)").await).then_some(())
    })
    .await;
    let listed = server.run_command(&["web", "logins", "--json"]).json();
    let clients: Vec<&Value> =
        listed["logins"].as_array().into_iter().flatten().map(|login| &login["client"]).collect();
    assert_eq!(clients, ["Chrome on Linux"]);
    page.assert_no_page_errors().await;

    server.run_command(&["web", "logout", "--all"]);
    page.click("Refresh").await;
    page.find("dialog[open] input[type=password]").await;
    assert_eq!(server.run_command(&["web", "logins"]).stdout, "no browser is logged in\n");
}
