//! A running `satchel run`: started on free ports, known by what it prints, ended by signals.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use reqwest::header::{self, HeaderMap, HeaderValue};
use satchel::platforms::client;
use satchel_system::real_binary::{ProcessOutput, TestHome, wait_for_exit};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Longest wait for the greeting, or for a turn.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

const RUNS: &str = "nobody has waited for its end";

/// A server, and what it has said about itself. It is killed where a test leaves it running.
pub(super) struct ServerProcess {
    /// `None` once its end is waited for.
    child: Option<Child>,
    /// The page's address, without a slash at its end.
    pub(super) page: String,
    /// Where the metrics have their own address, with their path.
    pub(super) metrics: String,
    /// What it printed for a person.
    pub(super) greeting: String,
    /// What it has logged so far.
    pub(super) log_text: String,
    /// The link that it printed, unless it needs no login.
    pub(super) link: Option<String>,
    /// What its link was exchanged for, once.
    login: OnceCell<BrowserLogin>,
    log_reader: BufReader<std::process::ChildStderr>,
}

impl ServerProcess {
    /// Starts one with the page and the metrics on free ports.
    pub(super) fn start(home: &TestHome, more: &[&str]) -> Self {
        let mut arguments = vec!["run", "--set", "web.listen=127.0.0.1:0", "--set", "metrics.listen=127.0.0.1:0"];
        arguments.extend(more);
        Self::from_command(&mut home.satchel_command(&arguments))
    }

    /// Starts this command, which begins a server.
    pub(super) fn from_command(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut log_reader = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut greeting = String::new();
            // Nothing is read where nothing was said.
            // The second line says how to log in.
            let _read = out.read_line(&mut greeting).and_then(|_| out.read_line(&mut greeting));
            let _nobody_waits = sender.send(greeting);
        });
        let Ok(greeting) = receiver.recv_timeout(SERVER_TIMEOUT) else {
            let _ended = child.kill();
            panic!("it did not greet in {SERVER_TIMEOUT:?}: {:?}", wait_for_exit(child));
        };
        let mut log_text = String::new();
        let mut metrics = String::new();
        // Everything up to the line about the page was logged before the greeting.
        while !log_text.contains("serving the page") {
            let before = log_text.len();
            let read = log_reader.read_line(&mut log_text).expect("a log is UTF-8");
            assert!(read > 0, "it ended: {greeting}{log_text}");
            if let Some((_, rest)) = log_text[before..].split_once("the metrics are at ") {
                metrics = rest.split(['"', ' ']).next().unwrap_or_default().to_owned();
            }
        }
        let page = greeting.split_whitespace().find(|word| word.starts_with("http://")).unwrap_or_default();
        let link = greeting.split_whitespace().find(|word| word.contains("#login=")).map(str::to_owned);
        let page = page.trim_end_matches('/').to_owned();
        Self { page, metrics, log_text, link, login: OnceCell::new(), greeting, child: Some(child), log_reader }
    }

    /// Asks the page for something as a browser that has used the printed link.
    pub(super) async fn get(&self, path: &str) -> (u16, String) {
        let http = client().expect("HTTP can be spoken");
        let answer = http.get(format!("{}{path}", self.page)).headers(self.login().await.headers());
        let answer = answer.send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        (answer.status().as_u16(), answer.text().await.expect("it is text"))
    }

    /// Deletes something as a browser that has used the printed link, and returns the status.
    pub(super) async fn delete(&self, path: &str) -> u16 {
        let http = client().expect("HTTP can be spoken");
        let answer = http.delete(format!("{}{path}", self.page)).headers(self.login().await.headers());
        answer.send().await.unwrap_or_else(|error| panic!("{path}: {error}")).status().as_u16()
    }

    /// Sends JSON as a browser that has used the printed link, and returns the status and what was answered.
    pub(super) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let http = client().expect("HTTP can be spoken");
        let answer = http.post(format!("{}{path}", self.page)).headers(self.login().await.headers()).json(body);
        let answer = answer.send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        (answer.status().as_u16(), answer.json().await.expect("it is JSON"))
    }

    async fn login(&self) -> &BrowserLogin {
        let logged_in = async || {
            let link = self.link.as_deref().expect("it printed a link");
            log_in(link).await.unwrap_or_else(|status| panic!("{link} is refused with {status}"))
        };
        self.login.get_or_init(logged_in).await
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        self.child.as_mut().expect(RUNS).try_wait().expect("a child can be waited for").is_none()
    }

    /// Sends it a signal, such as `TERM`.
    pub(super) fn send_signal(&self, name: &str) {
        let status =
            Command::new("kill").args(["-s", name, &self.child.as_ref().expect(RUNS).id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    /// Waits until it has logged these words.
    pub(super) fn wait_for_log(&mut self, text: &str) {
        while !self.log_text.contains(text) {
            let read = self.log_reader.read_line(&mut self.log_text).expect("a log is UTF-8");
            assert!(read > 0, "it ended without {text:?}: {}", self.log_text);
        }
    }

    /// Waits for its end.
    pub(super) fn wait_for_exit(mut self) -> ProcessOutput {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.log_reader, &mut rest).expect("a log is UTF-8");
        let mut output = wait_for_exit(self.child.take().expect(RUNS));
        output.stderr = format!("{}{rest}", self.log_text);
        output.stdout = std::mem::take(&mut self.greeting);
        output
    }

    /// Says something on the page and waits until it is answered: the turn, as the API has it.
    pub(super) async fn send_and_wait(&self, text: &str) -> Value {
        let turn = self.send(text, &[]).await;
        self.wait_for_reply(&turn).await
    }

    /// Waits until a turn is over and everything of it is delivered.
    pub(super) async fn wait_for_reply(&self, turn: &Value) -> Value {
        let started_at = Instant::now();
        loop {
            let (_, turns) = self.get("/api/conversations/test/turns").await;
            let turns: Value = serde_json::from_str(&turns).expect("it is JSON");
            let found = turns["turns"].as_array().and_then(|turns| turns.iter().find(|found| found["id"] == *turn));
            let settled = |found: &&Value| {
                let parts = found["parts"].as_array().into_iter().flatten();
                found["state"] == "done"
                    && parts.clone().count() > 0
                    && parts.into_iter().all(|part| part["state"] == "sent")
            };
            if let Some(found) = found.filter(settled) {
                return found.clone();
            }
            assert!(started_at.elapsed() < SERVER_TIMEOUT, "{turn} is not answered: {turns:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Uploads a file for the next message, and returns what the message names it by.
    pub(super) async fn upload(&self, filename: &str, content: &str) -> Value {
        let http = client().expect("HTTP can be spoken");
        let url = format!("{}/api/conversations/test/uploads?filename={filename}", self.page);
        let upload = http.post(url).headers(self.login().await.headers());
        let upload = upload.header("content-type", "application/octet-stream").body(content.to_owned());
        let answer = upload.send().await.expect("it answers");
        let status = answer.status();
        let answer: Value = answer.json().await.expect("it is JSON");
        assert_eq!(status, 201, "{answer:#}");
        answer["upload"].clone()
    }

    /// Says something on the page, with uploads, and returns its turn's id.
    pub(super) async fn send(&self, text: &str, uploads: &[Value]) -> Value {
        // Backwards: a key outlives a message that is forgotten, so it must not have its words.
        let key: String = text.chars().rev().filter(char::is_ascii_alphanumeric).collect();
        let body = json!({ "key": key, "text": text, "uploads": uploads });
        let (status, answer) = self.post("/api/conversations/test/messages", &body).await;
        assert_eq!(status, 202, "{answer:#}");
        answer["turn"].clone()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}

/// Both halves of a login: its cookie, and what the page sends along with it.
#[derive(Debug)]
pub(super) struct BrowserLogin {
    cookie: String,
    proof: String,
}

impl BrowserLogin {
    /// The headers of a request of the page.
    pub(super) fn headers(&self) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).expect("a half of a login is a header's value");
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, value(&self.cookie));
        headers.insert("x-satchel-login", value(&self.proof));
        headers
    }
}

/// Exchanges a link for a login, as the page does; the error is the status of the refusal.
pub(super) async fn log_in(link: &str) -> Result<BrowserLogin, u16> {
    let (page, secret) = link.split_once("/#login=").expect("a link has a secret");
    let login = client().expect("HTTP can be spoken").post(format!("{page}/api/login"));
    let answer = login.json(&json!({ "link": secret })).send().await.expect("it answers");
    if !answer.status().is_success() {
        return Err(answer.status().as_u16());
    }
    let cookie = answer.headers()[header::SET_COOKIE].to_str().expect("a cookie is text");
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    let answer: Value = answer.json().await.expect("it is JSON");
    Ok(BrowserLogin { cookie, proof: answer["proof"].as_str().expect("there is a proof").to_owned() })
}

/// The text of a page.
pub(super) async fn get_page(url: &str) -> (u16, String) {
    let answer =
        client().expect("HTTP can be spoken").get(url).send().await.unwrap_or_else(|error| panic!("{url}: {error}"));
    (answer.status().as_u16(), answer.text().await.expect("it is text"))
}
