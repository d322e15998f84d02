//! Attacks, each spelled out: other pages, other names, other people.

use std::{net::SocketAddr, sync::Arc};

use reqwest::Method;
use satchel_files::DirectoryBlobs;
use satchel_ledger_sqlite::SqliteLedger;
use satchel_local::{LocalBus, SystemClock, UuidV7};
use satchel_ports::{Clock, InboundError};
use satchel_web::{WebChannel, WebError, WebPorts, WebServer, WebSettings};
use serde_json::{Value, json};

use crate::{
    logins::{Browser, log_in, login_secret},
    stage::{BEARER, Stage, TOKEN, header, problem, raw, read, settings},
};

/// A request as a browser, or somebody who isn't one, writes it.
fn request(line: &str, headers: &[(&str, &str)], body: &str) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{line} HTTP/1.1\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

#[tokio::test]
async fn a_name_that_is_not_ours_is_misdirected() {
    let stage = Stage::new().await;
    let port = stage.address.port();
    let own = stage.address.to_string();
    let localhost = format!("localhost:{port}");
    let six = format!("[::1]:{port}");
    let rebound = format!("evil.example:{port}");
    let dotted = format!("127.0.0.1.evil.example:{port}");
    let other_port = format!("localhost:{}", port ^ 1);
    let rebound_other_port = format!("evil.example:{}", port ^ 1);
    let with_name = format!("{own}@evil.example");
    for (hosts, expected) in [
        (vec![own.as_str()], "200"),
        (vec![&localhost], "200"),
        (vec![&six], "200"),
        (vec![&rebound], "421"),
        (vec!["evil.example"], "421"),
        (vec![&dotted], "421"),
        (vec![&other_port], "200"),
        (vec!["localhost"], "200"),
        (vec!["[::1]:9000"], "200"),
        (vec![&rebound_other_port], "421"),
        (vec![&with_name], "421"),
        (vec!["localhost:99999"], "421"),
        (vec!["192.168.1.5:9000"], "421"),
        (vec!["0.0.0.0"], "421"),
        (vec![""], "421"),
        (vec![], "421"),
        (vec![&own, &rebound], "421"),
        (vec![&rebound, &own], "421"),
    ] {
        for path in ["/", "/api/session", "/healthz", "/links/x.y"] {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            let answer = raw(&stage, &request(&format!("GET {path}"), &headers, "")).await;
            let expected = if expected == "200" && path == "/links/x.y" { "404" } else { expected };
            assert_eq!(status(&answer), expected, "{path} of {hosts:?}");
        }
    }
    let line = format!("GET http://evil.example:{port}/api/session");
    assert_eq!(status(&raw(&stage, &request(&line, &[("host", &own)], "")).await), "421");
    let line = format!("GET http://{own}/api/session");
    assert_eq!(status(&raw(&stage, &request(&line, &[("host", &own)], "")).await), "200");
}

#[tokio::test]
async fn cross_site_requests_are_rejected() {
    let stage = Stage::new().await;
    let own = format!("http://{}", stage.address);
    let https = format!("https://{}", stage.address);
    let localhost = format!("http://localhost:{}", stage.address.port());
    let longer = format!("{own}.evil.example");
    let message = json!({"key": "k", "text": "x"}).to_string();
    let path = "/api/conversations/a/messages";
    let json = "application/json";
    for (name, value, kind, expected) in [
        ("origin", own.as_str(), json, "202"),
        ("sec-fetch-site", "same-origin", json, "202"),
        ("sec-fetch-site", "none", json, "202"),
        ("x-nothing", "", json, "202"),
        ("x-nothing", "", "application/json; charset=utf-8", "202"),
        ("origin", "https://evil.example", json, "403"),
        ("origin", "null", json, "403"),
        ("origin", &https, json, "403"),
        ("origin", &localhost, json, "403"),
        ("origin", &longer, json, "403"),
        ("origin", "", json, "403"),
        ("sec-fetch-site", "cross-site", json, "403"),
        ("sec-fetch-site", "same-site", json, "403"),
        ("sec-fetch-site", "whatever", json, "403"),
        ("x-nothing", "", "text/plain", "403"),
        ("x-nothing", "", "application/x-www-form-urlencoded", "403"),
        ("x-nothing", "", "multipart/form-data; boundary=x", "403"),
        ("x-nothing", "", "text/plain; x=application/json", "403"),
        ("x-nothing", "", "", "403"),
    ] {
        let host = stage.address.to_string();
        let headers = [("host", host.as_str()), ("authorization", BEARER), ("content-type", kind), (name, value)];
        let answer = raw(&stage, &request(&format!("POST {path}"), &headers, &message)).await;
        assert_eq!(status(&answer), expected, "{name}: {value}, {kind}");
        assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
    }
    for (method, path, name, value, expected) in [
        ("DELETE", "/api/conversations/a/files/x/link", "origin", "https://evil.example", "403"),
        ("DELETE", "/api/conversations/a/files/x/link", "x-nothing", "", "404"),
        ("POST", "/api/login", "origin", "https://evil.example", "403"),
        ("POST", "/api/conversations/a/uploads?filename=x", "sec-fetch-site", "cross-site", "403"),
        ("GET", "/api/conversations", "sec-fetch-site", "cross-site", "403"),
        ("GET", "/api/conversations/a/events", "sec-fetch-site", "same-site", "403"),
        ("OPTIONS", "/api/conversations/a/messages", "origin", "https://evil.example", "403"),
        ("GET", "/metrics", "sec-fetch-site", "cross-site", "403"),
        ("GET", "/metrics", "sec-fetch-site", "same-origin", "404"),
        ("GET", "/", "sec-fetch-site", "cross-site", "200"),
        ("TRACE", "/", "x-nothing", "", "403"),
    ] {
        let host = stage.address.to_string();
        let kind = "application/octet-stream";
        let kind = if method == "TRACE" { "text/plain" } else { kind };
        let headers = [("host", host.as_str()), ("authorization", BEARER), ("content-type", kind), (name, value)];
        let answer = raw(&stage, &request(&format!("{method} {path}"), &headers, "")).await;
        assert_eq!(status(&answer), expected, "{method} {path} {name}: {value}");
    }
    assert_eq!(stage.taken().len(), 5);
}

#[tokio::test]
async fn every_answer_is_closed_to_other_pages() {
    let stage = Stage::new().await;
    for path in ["/", "/page/index.html", "/api/session", "/api/nothing", "/healthz", "/nowhere", "/links/x.y"] {
        let answer = stage.get(path).await;
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(header(&answer, name), value, "{path}");
        }
        let policy = header(&answer, "content-security-policy");
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' blob:",
            "media-src 'self' blob:",
            "connect-src 'self'",
            "form-action 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|known| known == rule), "{path}: {rule} of {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let misdirected = raw(&stage, &request("GET /", &[("host", "evil.example")], "")).await;
    assert!(misdirected.contains("content-security-policy: default-src 'none'"), "{misdirected}");
    assert_eq!(header(&stage.get("/api/session").await, "cache-control"), "no-store");
}

#[tokio::test]
async fn without_the_token_there_is_nothing_to_see() {
    let figures = || "satchel_turns 3\n".to_owned();
    let stage = Stage::with(|settings| settings.metrics = Some(Arc::new(figures))).await;
    for path in [
        "/api/conversations",
        "/api/conversations/a/turns",
        "/api/conversations/a/events",
        "/api/conversations/a/files/x",
        "/api/conversations/a/voices/x",
        "/api/conversations/a/uploads/x",
        "/api/logins",
        "/api/openapi.json",
        "/api/nothing",
        "/metrics",
    ] {
        let answer = stage.visit(path).await;
        assert_eq!(header(&answer, "www-authenticate"), "Bearer");
        problem(answer, 401, "unauthorized").await;
        let wrong = stage.visitor.get(stage.url(path)).header("authorization", "Basic b3BlbiBzZXNhbWU=");
        problem(wrong.send().await.unwrap(), 401, "unauthorized").await;
        let forged =
            stage.visitor.get(stage.url(path)).header("cookie", format!("satchel-{}=e30.e30", stage.address.port()));
        problem(forged.send().await.unwrap(), 401, "unauthorized").await;
    }
    for path in ["/api/conversations/a/messages", "/api/conversations/a/uploads?filename=x"] {
        let answer = stage.visitor.post(stage.url(path)).json(&json!({"key": "k", "text": "x"})).send().await.unwrap();
        problem(answer, 401, "unauthorized").await;
    }
    assert_eq!((stage.taken(), stage.stored()), (Vec::new(), Vec::new()));
    for path in ["/", "/page/index.html", "/healthz", "/readyz"] {
        assert_eq!(stage.visit(path).await.status(), 200, "{path}");
    }
    let session = read(stage.visit("/api/session").await).await;
    assert_eq!((&session["authorized"], &session["token_required"]), (&json!(false), &json!(true)));
    assert_eq!(session["model"], json!(null), "it is nobody else's business");
    assert_eq!(stage.get("/metrics").await.text().await.unwrap(), "satchel_turns 3\n");
}

/// A container's port is published as another one, and a tunnel ends at another one, than that on which the server listens.
#[tokio::test]
async fn page_works_on_the_port_to_which_the_client_connects() {
    let stage = Stage::new().await;
    let (_, file) = stage.file("a.txt", "x").await;
    let message = json!({ "key": "published", "text": "x" }).to_string();
    let link = json!({ "hours": 24 }).to_string();
    let own = stage.address.to_string();
    let post = async |host: &str, origin: &str, path: &str, body: &str| {
        let origin = format!("http://{origin}");
        let kind = ("content-type", "application/json");
        let headers = [("host", host), ("authorization", BEARER), ("origin", origin.as_str()), kind];
        raw(&stage, &request(&format!("POST {path}"), &headers, body)).await
    };
    let messages = "/api/conversations/a/messages";
    for host in ["127.0.0.1:9000", "localhost:9000", "[::1]:9000", "localhost"] {
        assert_eq!(status(&post(host, host, messages, &message).await), "202", "{host}");
        // The page of another port is another page, ours on the port where the server listens included.
        for origin in [own.as_str(), "127.0.0.1:9001", "localhost:9001", "127.0.0.1", "evil.example:9000"] {
            let refused = post(host, origin, messages, &message).await;
            assert_eq!(status(&refused), "403", "{origin} to {host}");
        }
        let made = post(host, host, &format!("{file}/link"), &link).await;
        assert!(made.contains(&format!("http://{host}/links/")), "{made}");
        let login = post(host, host, "/api/login", &json!({ "token": TOKEN }).to_string()).await;
        let port = host.rsplit_once(':').map_or("80", |(_, port)| port);
        assert!(
            login.contains(&format!("set-cookie: satchel-{port}=")),
            "of two pages on a host both stay logged in: {login}"
        );
    }
}

/// What neither logs in nor says why would leave people and programs without a way on.
#[tokio::test]
async fn refusal_names_token_file_and_link_command() {
    let stage = Stage::new().await;
    let refused = problem(stage.visit("/api/conversations").await, 401, "unauthorized").await;
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("`web-token`") && detail.contains("`satchel web link`"), "{detail}");
}

#[tokio::test]
async fn another_page_can_not_use_a_login_link() {
    let stage = Stage::new().await;
    let secret = login_secret(&stage);
    let body = json!({ "link": secret }).to_string();
    let login = stage.visitor.post(stage.url("/api/login")).header("content-type", "application/json").body(body);
    let foreign = login.try_clone().unwrap().header("origin", "https://evil.example");
    problem(foreign.send().await.unwrap(), 403, "cross_origin").await;
    assert_eq!(login.send().await.unwrap().status(), 200, "it was not used up");
}

/// Gives wrong tokens until they are told to wait.
async fn exhaust_guesses(stage: &Stage) {
    for attempt in 0..1_000 {
        let answer =
            stage.visitor.post(stage.url("/api/login")).json(&json!({ "token": "guess" })).send().await.unwrap();
        if answer.status() == 429 {
            assert!(header(&answer, "retry-after").parse::<u64>().is_ok_and(|seconds| (1..=60).contains(&seconds)));
            assert!(attempt >= 10, "after {attempt} wrong tokens");
            problem(answer, 429, "too_many_attempts").await;
            return;
        }
        problem(answer, 401, "wrong_token").await;
    }
    panic!("nobody is told to wait");
}

#[tokio::test]
async fn valid_secret_is_accepted_while_guesses_are_throttled() {
    let figures = || "satchel_turns 3\n".to_owned();
    let stage = Stage::with(|settings| settings.metrics = Some(Arc::new(figures))).await;
    let login = async |body: Value| log_in(&stage, &body).await;
    exhaust_guesses(&stage).await;
    for path in ["/api/conversations", "/metrics", "/api/session"] {
        let wrong = stage.visitor.get(stage.url(path)).header("authorization", "Bearer guess");
        problem(wrong.send().await.unwrap(), 429, "too_many_attempts").await;
        let cookie = format!("satchel-{}=e30.e30", stage.address.port());
        let forged = Browser { cookie, proof: "e30".to_owned() }.request(&stage, Method::GET, path);
        problem(forged.send().await.unwrap(), 429, "too_many_attempts").await;
        assert_eq!(stage.get(path).await.status(), 200, "{path} with the token");
    }
    problem(login(json!({ "link": "guess" })).await, 429, "too_many_attempts").await;
    problem(stage.visit("/api/conversations").await, 401, "unauthorized").await;
    for right in [json!({ "token": TOKEN }), json!({ "link": login_secret(&stage) })] {
        let browser = Browser::from_answer(login(right).await).await;
        for path in ["/api/conversations", "/metrics"] {
            let request = browser.request(&stage, Method::GET, path);
            assert_eq!(request.send().await.unwrap().status(), 200, "{path} with a login");
        }
    }
}

#[tokio::test]
async fn failed_logins_count_against_client_behind_trusted_proxy() {
    let guess = async |stage: &Stage, forwarded: &str| {
        let login = stage.visitor.post(stage.url("/api/login")).header("x-forwarded-for", forwarded);
        login.json(&json!({ "token": "guess" })).send().await.unwrap().status().as_u16()
    };
    let trusting = |settings: &mut WebSettings| {
        settings.trusted_proxies = vec!["127.0.0.1".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
    };
    let behind = Stage::with(trusting).await;
    // What the guesser writes into the header stands before what the proxies add.
    for number in 0..10 {
        assert_eq!(guess(&behind, &format!("198.51.100.{number}, 203.0.113.7, 10.1.2.3")).await, 401);
    }
    assert_eq!(guess(&behind, "203.0.113.7").await, 429);
    assert_eq!(guess(&behind, "203.0.113.7, 203.0.113.8").await, 401);
    for number in 0..10 {
        assert_eq!(guess(&behind, &format!("2001:db8:1:2::{number}")).await, 401);
    }
    assert_eq!(guess(&behind, "2001:db8:1:2:ffff::1").await, 429, "a network is one peer");
    assert_eq!(guess(&behind, "2001:db8:1:3::1").await, 401);
    // Who trusts no proxy takes the header for anybody's, also where others come through one.
    for public_url in [None, Some("https://satchel.example.org".into())] {
        let alone = Stage::with(|settings| settings.public_url = public_url).await;
        for number in 0..10 {
            assert_eq!(guess(&alone, &format!("203.0.113.{number}")).await, 401);
        }
        assert_eq!(guess(&alone, "203.0.113.77").await, 429);
    }
}

#[tokio::test]
async fn wrong_tokens_of_many_peers_are_throttled_together() {
    let stage = Stage::with(|settings| settings.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]).await;
    let login = async |number: u32, token: &str| {
        let forwarded = std::net::Ipv4Addr::from_bits(0xCB00_7100 + number).to_string();
        let login = stage.visitor.post(stage.url("/api/login")).header("x-forwarded-for", forwarded);
        login.json(&json!({ "token": token })).send().await.unwrap().status().as_u16()
    };
    let mut statuses = Vec::new();
    for number in 0..250 {
        statuses.push(login(number, "guess").await);
    }
    assert_eq!((statuses[0], statuses[249]), (401, 429), "{statuses:?}");
    assert_eq!(login(251, TOKEN).await, 200);
}

#[tokio::test]
async fn what_a_proxy_passes_on_needs_a_token() {
    let open = Stage::with(|settings| {
        settings.token = None;
        settings.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    });
    let open = open.await;
    let guarded = Stage::new().await;
    for (name, value) in [
        ("x-forwarded-for", "203.0.113.7"),
        ("forwarded", "for=203.0.113.7"),
        ("x-real-ip", "203.0.113.7"),
        ("via", "1.1 proxy"),
        ("x-forwarded-for", ""),
    ] {
        for path in ["/", "/api/session", "/api/conversations", "/healthz", "/links/x.y"] {
            let answer = open.client.get(open.url(path)).header(name, value).send().await.unwrap();
            problem(answer, 403, "token_needed").await;
        }
        let say = open.post("/api/conversations/a/messages").header(name, value);
        problem(say.json(&json!({"key": "k", "text": "x"})).send().await.unwrap(), 403, "token_needed").await;
        let answer = guarded.client.get(guarded.url("/api/session")).header(name, value).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{name}");
    }
    assert_eq!(open.taken(), Vec::new());
}

struct Closed;

#[async_trait::async_trait]
impl satchel_ports::Inbound for Closed {
    async fn accept(&self, _: satchel_domain::InboundMessage) -> Result<Option<satchel_domain::TurnId>, InboundError> {
        Err(InboundError(Box::new(satchel_ports::LedgerError::Full)))
    }

    async fn rename_conversation(
        &self,
        _: satchel_domain::ConversationId,
        _: satchel_domain::ConversationId,
    ) -> Result<(), InboundError> {
        unreachable!("conversations of the page stay where they are")
    }

    async fn record_undecodable(&self, _: satchel_domain::UndecodableUpdate) -> Result<(), InboundError> {
        unreachable!("the page reads what it wrote")
    }

    async fn load_checkpoint(&self, _: &satchel_domain::ChannelName) -> Result<Option<Value>, InboundError> {
        unreachable!("the page has no stream to read on")
    }

    async fn save_checkpoint(&self, _: &satchel_domain::ChannelName, _: Value) -> Result<(), InboundError> {
        unreachable!("the page has no stream to read on")
    }
}

async fn bind(change: impl FnOnce(&mut WebSettings)) -> Result<SocketAddr, WebError> {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(&dir);
    change(&mut settings);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let ledger = SqliteLedger::open(
        dir.path(),
        satchel_ledger_sqlite::Settings::default(),
        Arc::clone(&clock),
        Arc::new(UuidV7),
    )
    .await;
    let ledger = Arc::new(ledger.unwrap());
    let blobs = Arc::new(DirectoryBlobs::open(&dir.path().join("blobs")).unwrap());
    let channel = Arc::new(WebChannel::open(&settings, Arc::clone(&blobs) as _, &*ledger).await?);
    let ports = WebPorts {
        inbound: Arc::new(Closed),
        notifications: Arc::new(satchel_ports::MockNotifications::new()),
        conversations: Arc::clone(&ledger) as _,
        storage: Arc::clone(&ledger) as _,
        logins: Arc::clone(&ledger) as _,
        archive: ledger,
        clock,
        blobs,
        bus: Arc::new(LocalBus::new()),
        channels: Vec::new(),
        administration: None,
    };
    Ok(WebServer::bind(settings, channel, ports).await?.address())
}

#[tokio::test]
async fn strangers_are_never_let_in_by_accident() {
    let open = |settings: &mut WebSettings| {
        settings.listen = "0.0.0.0:0".parse().unwrap();
        settings.token = None;
    };
    assert!(matches!(bind(open).await, Err(WebError::Settings(words)) if words.contains("web.token")));
    let public = |settings: &mut WebSettings| {
        settings.public_url = Some("https://satchel.example.org".into());
        settings.token = None;
    };
    assert!(matches!(bind(public).await, Err(WebError::Settings(words)) if words.contains("web.token")));
    let wrong = |settings: &mut WebSettings| settings.public_url = Some("https://user:secret@example.org".into());
    let Err(WebError::Settings(words)) = bind(wrong).await else { panic!("a password is no part of an address") };
    assert!(!words.contains("secret"), "{words}");
    for (token, strong) in [("", false), ("open sesame", false), ("éééééé", false), ("correct horse battery", true)]
    {
        let listening = bind(|settings| {
            settings.listen = "0.0.0.0:0".parse().unwrap();
            settings.token = Some(token.into());
        });
        let public = bind(|settings| {
            settings.public_url = Some("https://satchel.example.org".into());
            settings.token = Some(token.into());
        });
        for bound in [listening.await, public.await] {
            match bound {
                Ok(_) => assert!(strong, "{token}"),
                Err(WebError::Settings(words)) => assert!(!strong && words.contains("12 characters"), "{words}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
    let short = bind(|settings| settings.token = Some("short".into())).await;
    assert!(matches!(short, Err(WebError::Settings(words)) if words.contains("12 characters")), "also on loopback");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let told = bind(|settings| settings.listen = address).await.unwrap_err();
    assert_eq!(told.to_string(), format!("failed to listen on {address}"));
}
