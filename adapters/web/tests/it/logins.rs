//! Logins of browsers: what they need, what opens without their second half, and how they end.

use reqwest::{Method, RequestBuilder, Response};
use satchel_local::SystemClock;
use satchel_ports::{Clock, Logins};
use satchel_wait::wait_until_async;
use satchel_web::LoginLinks;
use serde_json::{Value, json};

use crate::{
    api::PNG,
    stage::{Stage, TOKEN, header, problem, read},
};

/// A browser that is logged in.
pub(crate) struct Browser {
    /// The half of its login that goes to every port of the host.
    pub(crate) cookie: String,
    /// The half that only the page has.
    pub(crate) proof: String,
}

impl Browser {
    /// Logs in with the token.
    async fn with_token(stage: &Stage) -> Self {
        Self::from_answer(log_in(stage, &json!({ "token": TOKEN })).await).await
    }

    /// Takes the login of an answer.
    pub(crate) async fn from_answer(answer: Response) -> Self {
        assert_eq!(answer.status(), 200);
        let cookie = header(&answer, "set-cookie").split(';').next().unwrap().to_owned();
        let proof = read(answer).await["proof"].as_str().unwrap().to_owned();
        Self { cookie, proof }
    }

    /// A request as the page sends it.
    pub(crate) fn request(&self, stage: &Stage, method: Method, path: &str) -> RequestBuilder {
        self.element_request(stage, method, path).header("x-satchel-login", &self.proof)
    }

    /// A request as an element of the page sends it, or the server on another port of the host.
    fn element_request(&self, stage: &Stage, method: Method, path: &str) -> RequestBuilder {
        stage.visitor.request(method, stage.url(path)).header("cookie", &self.cookie)
    }

    async fn get(&self, stage: &Stage, path: &str) -> Response {
        self.request(stage, Method::GET, path).send().await.unwrap()
    }

    async fn load(&self, stage: &Stage, path: &str) -> Response {
        self.element_request(stage, Method::GET, path).send().await.unwrap()
    }

    async fn list_logins(&self, stage: &Stage) -> Vec<Value> {
        read(self.get(stage, "/api/logins").await).await["logins"].as_array().unwrap().clone()
    }
}

pub(crate) async fn log_in(stage: &Stage, body: &Value) -> Response {
    stage.visitor.post(stage.url("/api/login")).json(body).send().await.unwrap()
}

/// As `satchel web link` does it, which is another process.
pub(crate) fn login_secret(stage: &Stage) -> String {
    let links = LoginLinks::new(&stage.dir.path().join("web.key"));
    let link = links.create().unwrap().expect("serving the page");
    let secret = link.strip_prefix(&stage.url("/#login=")).unwrap_or_else(|| panic!("{link} leads elsewhere"));
    secret.to_owned()
}

#[tokio::test]
async fn login_by_token_sets_a_private_cookie() {
    let stage = Stage::with(|settings| settings.public_url = Some("http://127.0.0.1:1".into())).await;
    for wrong in ["sesame", ""] {
        problem(log_in(&stage, &json!({ "token": wrong })).await, 401, "wrong_token").await;
    }
    problem(log_in(&stage, &json!({ "token": 7 })).await, 422, "invalid_request").await;
    let answer = log_in(&stage, &json!({ "token": TOKEN })).await;
    assert_eq!(header(&answer, "cache-control"), "no-store");
    let cookie = header(&answer, "set-cookie");
    for flag in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age=2592000"] {
        assert!(cookie.contains(flag), "{cookie}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains("horse"), "{cookie}");
    let browser = Browser::from_answer(answer).await;
    assert!(!cookie.contains(&browser.proof), "the halves are not in one place");
    let session = read(browser.get(&stage, "/api/session").await).await;
    assert_eq!((&session["authorized"], &session["model"]), (&json!(true), &json!("offline")));
    assert_eq!(browser.get(&stage, "/api/conversations").await.status(), 200);
    let damaged = Browser { cookie: format!("{}x", browser.cookie), proof: browser.proof.clone() };
    problem(damaged.get(&stage, "/api/conversations").await, 401, "unauthorized").await;
    let renamed = Browser { cookie: browser.cookie.replacen("satchel", "other", 1), proof: browser.proof };
    problem(renamed.get(&stage, "/api/conversations").await, 401, "unauthorized").await;
}

/// What the server on another port has, once the browser has opened anything there.
#[tokio::test]
async fn cookie_without_its_proof_opens_nothing() {
    let stage = Stage::with(|settings| settings.metrics = Some(std::sync::Arc::new(String::new))).await;
    let (made, file) = stage.file("cat.png", PNG).await;
    let browser = Browser::with_token(&stage).await;
    let other = Browser::with_token(&stage).await;
    for path in [
        "/api/conversations",
        "/api/conversations/a/turns",
        "/api/conversations/a/events",
        "/api/conversations/a/export",
        "/api/logins",
        "/api/openapi.json",
        "/metrics",
        "/v1/models",
        &file,
    ] {
        assert_eq!(browser.get(&stage, path).await.status(), 200, "{path}");
        assert_eq!(browser.load(&stage, path).await.status(), 401, "{path}");
        let mixed = Browser { cookie: browser.cookie.clone(), proof: other.proof.clone() };
        assert_eq!(mixed.get(&stage, path).await.status(), 401, "{path}");
    }
    let say = |request: RequestBuilder| request.json(&json!({"key": "k", "text": "stolen"})).send();
    let path = "/api/conversations/a/messages";
    let stolen = say(browser.element_request(&stage, Method::POST, path)).await.unwrap();
    problem(stolen, 401, "unauthorized").await;
    assert_eq!(say(browser.request(&stage, Method::POST, path)).await.unwrap().status(), 202);
    let session = read(browser.load(&stage, "/api/session").await).await;
    assert_eq!((&session["authorized"], &session["model"]), (&json!(false), &Value::Null));
    assert!(stage.get(&format!("/api/conversations/a/files/{}", made.id)).await.status().is_success());
}

#[tokio::test]
async fn elements_load_files_by_their_signed_urls() {
    let stage = Stage::new().await;
    let (_, path) = stage.file("cat.png", PNG).await;
    let (_, other_path) = stage.file("dog.png", PNG).await;
    let browser = Browser::with_token(&stage).await;
    let turns = read(browser.get(&stage, "/api/conversations/a/turns").await).await;
    let file = &turns["turns"][0]["parts"][1]["files"][0];
    assert_eq!(file["url"], json!(path), "programs have the URL that they had");
    let signature = file["signature"].as_str().unwrap();
    let signed = format!("{path}?signature={signature}");
    let shown = browser.load(&stage, &signed).await;
    assert_eq!((shown.status().as_u16(), shown.bytes().await.unwrap().as_ref()), (200, PNG));
    let saved = browser.load(&stage, &format!("{signed}&download=1")).await;
    assert!(header(&saved, "content-disposition").starts_with("attachment"), "{saved:?}");
    problem(browser.load(&stage, &format!("{path}/preview?signature={signature}")).await, 404, "no_preview").await;
    let wrong = format!("{other_path}?signature={signature}");
    problem(browser.load(&stage, &wrong).await, 401, "unauthorized").await;
    problem(stage.visit(&signed).await, 401, "unauthorized").await;
    let removal = browser.element_request(&stage, Method::DELETE, &signed).send().await.unwrap();
    problem(removal, 401, "unauthorized").await;

    let listed = read(browser.get(&stage, "/api/conversations/a/files").await).await;
    assert_eq!(listed["files"].as_array().unwrap().iter().filter(|file| file["signature"] == signature).count(), 1);
    let listed = read(browser.get(&stage, "/api/conversations").await).await;
    let export = listed["conversations"][0]["export"].as_str().unwrap();
    let archive = browser.load(&stage, export).await;
    assert_eq!((archive.status().as_u16(), header(&archive, "content-type").as_str()), (200, "application/zip"));
    problem(stage.visit(export).await, 401, "unauthorized").await;
}

#[tokio::test]
async fn login_link_gives_one_login() {
    let stage = Stage::new().await;
    let secret = login_secret(&stage);
    // What looks at the address, as a preview of it does, uses nothing up: the secret isn't sent.
    assert_eq!(stage.visit("/").await.status(), 200);
    let answer = log_in(&stage, &json!({ "link": secret })).await;
    let browser = Browser::from_answer(answer).await;
    assert!(!browser.cookie.contains(&secret) && !browser.proof.contains(&secret));
    assert_eq!(browser.get(&stage, "/api/conversations").await.status(), 200);
    for wrong in [secret.as_str(), "", "address", "../web.key"] {
        let refused = log_in(&stage, &json!({ "link": wrong })).await;
        assert_eq!(header(&refused, "set-cookie"), "");
        problem(refused, 401, "invalid_link").await;
    }
    let bearer = format!("Bearer {}", login_secret(&stage));
    let request = stage.visitor.get(stage.url("/api/conversations")).header("authorization", bearer);
    problem(request.send().await.unwrap(), 401, "wrong_token").await;
}

#[tokio::test]
async fn logins_are_listed_and_ended_one_by_one() {
    let stage = Stage::new().await;
    let clock = SystemClock::new();
    let (mine, before) = (Browser::with_token(&stage).await, clock.now().0);
    let (theirs, after) = (Browser::with_token(&stage).await, clock.now().0);
    let listed = mine.list_logins(&stage).await;
    assert_eq!(listed.iter().map(|login| &login["current"]).collect::<Vec<_>>(), [false, true]);
    assert_eq!(listed[0]["client"], "unknown program", "the tests' client has no name");
    let made_at = listed[0]["expires_at"].as_i64().unwrap() - 30 * 24 * 60 * 60 * 1_000;
    assert!((before..=after).contains(&made_at), "{before}, {made_at}, {after}: a month is thirty days");
    assert!(!json!(listed).to_string().contains(&theirs.proof), "{listed:?}");

    let path = format!("/api/logins/{}", listed[0]["id"].as_str().unwrap());
    let end = async || mine.request(&stage, Method::DELETE, &path).send().await.unwrap();
    assert_eq!(end().await.status(), 204);
    problem(theirs.get(&stage, "/api/conversations").await, 401, "unauthorized").await;
    assert_eq!(read(theirs.get(&stage, "/api/session").await).await["authorized"], json!(false));
    assert_eq!(mine.list_logins(&stage).await.len(), 1);
    problem(end().await, 404, "not_found").await;
    let nonsense = mine.request(&stage, Method::DELETE, "/api/logins/17").send().await.unwrap();
    problem(nonsense, 404, "not_found").await;
    assert_eq!(stage.json("/api/logins").await["logins"][0]["current"], json!(false), "a program has no login");
}

/// Another process ends it, as `satchel web logout` does.
#[tokio::test]
async fn open_stream_ends_with_its_login() {
    let stage = Stage::new().await;
    let turn = stage.say("k1", "Hello").await;
    let browser = Browser::with_token(&stage).await;
    let mut stream = browser.get(&stage, "/api/conversations/a/events").await;
    assert!(String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()).contains("event: snapshot"));
    assert_eq!(stage.ledger.end_logins(None).await.unwrap(), 1);
    let mut number = 0;
    wait_until_async("the stream has ended", async || {
        number += 1;
        stage.wrote(turn, number, "secret").await;
        let next = tokio::time::timeout(std::time::Duration::from_millis(50), stream.chunk()).await;
        matches!(next, Ok(Ok(None) | Err(_)))
    })
    .await;
    problem(browser.get(&stage, "/api/conversations/a/events").await, 401, "unauthorized").await;
}
