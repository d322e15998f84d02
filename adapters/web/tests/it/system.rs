//! What owners see of the running system and can do, and that nobody else does.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use satchel_domain::{ChannelName, PairingCode, PartId};
use satchel_ports::LedgerError;
use satchel_wait::wait_until_async;
use satchel_web::{
    Administration, AdministrationError, SystemFinding, SystemOverview, SystemPairing, SystemPart, SystemPeople,
    SystemSetting,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::stage::{Stage, header, problem, read, unknown_id};

/// A name that would act if it were shown as HTML.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

const CODE: &str = "ABCD-EFGH";

/// A system that records what owners do.
struct RecordingSystem {
    done: Mutex<Vec<String>>,
    /// A check ends when it gets a permit.
    release: Semaphore,
    running: AtomicUsize,
}

impl RecordingSystem {
    fn new() -> Arc<Self> {
        Arc::new(Self { done: Mutex::default(), release: Semaphore::new(0), running: AtomicUsize::new(0) })
    }

    fn record(&self, what: String) {
        self.done.lock().unwrap().push(what);
    }

    fn done(&self) -> Vec<String> {
        std::mem::take(&mut self.done.lock().unwrap())
    }
}

#[async_trait]
impl Administration for RecordingSystem {
    async fn overview(&self) -> Result<SystemOverview, AdministrationError> {
        Ok(SystemOverview {
            version: "1.2.3".to_owned(),
            platform: "linux x86_64".to_owned(),
            started_at: 7,
            config_file: None,
            channels: Vec::new(),
            models: Vec::new(),
            tools: Vec::new(),
            schedules: Vec::new(),
            reminders: Vec::new(),
            directories: Vec::new(),
            files: 0,
            file_bytes: 0,
            workspace_bytes: 0,
        })
    }

    async fn check(&self) -> Vec<SystemFinding> {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.release.acquire().await.unwrap().forget();
        self.running.fetch_sub(1, Ordering::SeqCst);
        vec![SystemFinding { check: "disk".to_owned(), level: "ok", found: HOSTILE.to_owned(), advice: None }]
    }

    fn settings(&self) -> Vec<SystemSetting> {
        vec![SystemSetting {
            key: "log".to_owned(),
            value: json!(HOSTILE),
            origin: "satchel.yaml:3".to_owned(),
            is_default: false,
            description: "What is logged.".to_owned(),
            change: "line 3 of satchel.yaml".to_owned(),
        }]
    }

    async fn people(&self) -> Result<SystemPeople, AdministrationError> {
        let pairing = SystemPairing {
            code: CODE.to_owned(),
            channel: "telegram".to_owned(),
            id: "5".to_owned(),
            name: HOSTILE.to_owned(),
            handle: None,
            expires_at: 9,
        };
        Ok(SystemPeople { pairings: vec![pairing], people: Vec::new() })
    }

    async fn decide_pairing(&self, code: PairingCode, approve: bool) -> Result<(), AdministrationError> {
        match code.to_string() == CODE {
            true => self.record(format!("pairing {approve}")),
            false => return Err(AdministrationError::Refused("The code has expired.".to_owned())),
        }
        Ok(())
    }

    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<(), AdministrationError> {
        self.record(format!("revoke {channel} {id}"));
        Ok(())
    }

    async fn outbox(&self) -> Result<Vec<SystemPart>, AdministrationError> {
        Err(LedgerError::Full.into())
    }

    async fn discard_part(&self, part: PartId) -> Result<(), AdministrationError> {
        self.record(format!("discard {part}"));
        Ok(())
    }

    async fn resend_part(&self, _: PartId, key: &str) -> Result<(), AdministrationError> {
        if key == "unknown" {
            return Err(AdministrationError::Unknown("part"));
        }
        self.record(format!("resend {key}"));
        Ok(())
    }
}

/// Everything that is asked of the system, as method, path and body.
fn requests() -> Vec<(&'static str, String, Value)> {
    let part = format!("/api/system/outbox/{}", unknown_id());
    vec![
        ("GET", "/api/system".to_owned(), Value::Null),
        ("POST", "/api/system/checks".to_owned(), json!({})),
        ("GET", "/api/system/settings".to_owned(), Value::Null),
        ("GET", "/api/system/people".to_owned(), Value::Null),
        ("POST", format!("/api/system/pairings/{CODE}"), json!({ "approve": true })),
        ("DELETE", "/api/system/people/telegram/5".to_owned(), Value::Null),
        ("GET", "/api/system/outbox".to_owned(), Value::Null),
        ("DELETE", part.clone(), Value::Null),
        ("POST", format!("{part}/resend"), json!({ "key": "k" })),
    ]
}

/// A request of a client, with a body if it is to have one.
fn request(client: &reqwest::Client, stage: &Stage, method: &str, path: &str, body: &Value) -> reqwest::RequestBuilder {
    let request = client.request(method.parse().unwrap(), stage.url(path));
    if body.is_null() { request } else { request.json(body) }
}

#[tokio::test]
async fn only_owners_reach_the_system() {
    let system = RecordingSystem::new();
    let (stage, people) = (Stage::of_owners(Arc::clone(&system) as _).await, Stage::new().await);
    assert_eq!(stage.json("/api/session").await["owner"], json!(true));
    assert_eq!(people.json("/api/session").await["owner"], json!(false));
    assert_eq!(read(stage.visit("/api/session").await).await["owner"], json!(false), "without a login");
    for (method, path, body) in requests() {
        let visited = request(&stage.visitor, &stage, method, &path, &body).send().await.unwrap();
        problem(visited, 401, "unauthorized").await;
        let other_site = request(&stage.client, &stage, method, &path, &body).header("sec-fetch-site", "cross-site");
        problem(other_site.send().await.unwrap(), 403, "cross_origin").await;
        let refused = request(&people.client, &people, method, &path, &body).send().await.unwrap();
        problem(refused, 403, "not_owner").await;
    }
    assert_eq!(system.done(), Vec::<String>::new());
    assert_eq!(system.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn owners_see_names_as_they_are() {
    let stage = Stage::of_owners(RecordingSystem::new()).await;
    let overview = stage.get("/api/system").await;
    assert_eq!(header(&overview, "content-type"), "application/json");
    assert_eq!(header(&overview, "cache-control"), "no-store");
    assert_eq!(read(overview).await["version"], json!("1.2.3"));
    let settings = stage.json("/api/system/settings").await;
    assert_eq!(settings["settings"][0]["value"], json!(HOSTILE));
    let people = stage.json("/api/system/people").await;
    assert_eq!(people["pairings"][0]["name"], json!(HOSTILE));
    problem(stage.get("/api/system/outbox").await, 507, "storage_full").await;
    let page = stage.get("/settings").await;
    assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
}

#[tokio::test]
async fn decisions_reach_the_system_and_refusals_the_owner() {
    let system = RecordingSystem::new();
    let stage = Stage::of_owners(Arc::clone(&system) as _).await;
    let send = async |method: &str, path: &str, body: Value| {
        request(&stage.client, &stage, method, path, &body).send().await.unwrap()
    };
    for approve in [true, false] {
        let decided = send("POST", "/api/system/pairings/abcd-efgh", json!({ "approve": approve })).await;
        assert_eq!(decided.status(), 204);
    }
    let expired = send("POST", "/api/system/pairings/ZZZZ-ZZZZ", json!({ "approve": true })).await;
    assert_eq!(problem(expired, 409, "refused").await["detail"], json!("The code has expired."));
    problem(send("POST", "/api/system/pairings/..%2F..", json!({ "approve": true })).await, 404, "not_found").await;
    problem(send("POST", &format!("/api/system/pairings/{CODE}"), json!({})).await, 422, "invalid_request").await;
    let revoked = send("DELETE", "/api/system/people/telegram/5%2F%3Cb%3E", Value::Null).await;
    assert_eq!(revoked.status(), 204);
    problem(send("DELETE", "/api/system/people/Tele%20gram/5", Value::Null).await, 404, "not_found").await;
    let part = unknown_id();
    assert_eq!(send("DELETE", &format!("/api/system/outbox/{part}"), Value::Null).await.status(), 204);
    let resend = format!("/api/system/outbox/{part}/resend");
    assert_eq!(send("POST", &resend, json!({ "key": "k" })).await.status(), 202);
    problem(send("POST", &resend, json!({ "key": "unknown" })).await, 404, "not_found").await;
    for key in ["", "\n", &"k".repeat(65)] {
        problem(send("POST", &resend, json!({ "key": key })).await, 422, "invalid_request").await;
    }
    problem(send("DELETE", "/api/system/outbox/17", Value::Null).await, 404, "not_found").await;
    let expected = ["pairing true", "pairing false", "revoke telegram 5/<b>", &format!("discard {part}"), "resend k"];
    assert_eq!(system.done(), expected);
}

/// Not even where the first client has left.
#[tokio::test]
async fn checks_never_run_twice_at_once() {
    let system = RecordingSystem::new();
    let stage = Stage::of_owners(Arc::clone(&system) as _).await;
    let running = async || system.running.load(Ordering::SeqCst);
    let first = tokio::spawn(stage.post("/api/system/checks").json(&json!({})).send());
    wait_until_async("the checks run", async || running().await == 1).await;
    first.abort();
    let busy = stage.post("/api/system/checks").json(&json!({})).send().await.unwrap();
    problem(busy, 409, "busy").await;
    assert_eq!(running().await, 1);
    system.release.add_permits(2);
    let mut findings = Value::Null;
    wait_until_async("the checks are free", async || {
        let response = stage.post("/api/system/checks").json(&json!({})).send().await.unwrap();
        let is_done = response.status() == 200;
        findings = read(response).await;
        is_done
    })
    .await;
    assert_eq!(findings["findings"][0]["found"], json!(HOSTILE));
}
