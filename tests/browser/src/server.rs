//! `satchel run` as a process that can be killed and started again on the same port and data.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    net::TcpListener,
    ops::Range,
    process::{Child, Command, Stdio},
};

use satchel_system::real_binary::{ProcessOutput, TestHome};

use crate::{http, wait::wait_until};

const PORTS: Range<u16> = 20_000..32_000;

/// A running `satchel run` with the offline model.
#[derive(Debug)]
pub struct SatchelServer {
    home: TestHome,
    settings: Vec<String>,
    port: u16,
    process: Option<Child>,
}

impl SatchelServer {
    /// Starts one with these settings besides its own, and waits until it is ready.
    ///
    /// # Panics
    /// When it doesn't become ready.
    pub async fn start(settings: &[&str]) -> Self {
        let port = free_port();
        let mut settings_with_defaults = vec![
            format!("web.listen=127.0.0.1:{port}"),
            "models.here.provider=offline".to_owned(),
            "model=here".to_owned(),
        ];
        settings_with_defaults.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let mut server = Self { home: TestHome::new(), settings: settings_with_defaults, port, process: None };
        server.restart().await;
        server
    }

    /// Starts it again on the same port and data.
    ///
    /// # Panics
    /// When it doesn't become ready.
    pub async fn restart(&mut self) {
        let mut arguments = vec!["run"];
        arguments.extend(self.settings.iter().flat_map(|setting| ["--set", setting]));
        let mut command: Command = self.home.satchel_command(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        self.process = Some(command.spawn().expect("the binary can be started"));
        let ready = self.url("/readyz");
        wait_until("the server is ready", async || {
            let process = self.process.as_mut().expect("it was started just now");
            assert!(process.try_wait().expect("a child can be asked").is_none(), "the server ended at its start");
            let response = http::get(&ready).await?;
            response.status().is_success().then_some(())
        })
        .await;
    }

    /// Replaces one of the settings that it was started with; for the next start.
    pub fn replace_setting(&mut self, key: &str, value: &str) {
        self.settings.retain(|setting| !setting.starts_with(&format!("{key}=")));
        self.settings.push(format!("{key}={value}"));
    }

    /// Kills it with SIGKILL.
    ///
    /// # Panics
    /// When it doesn't run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().expect("a running process can be killed");
        process.wait().expect("a child can be waited for");
    }

    /// An address on it.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A link that logs in once, as `satchel web link` prints it beside the server.
    ///
    /// # Panics
    /// When it prints none.
    #[must_use]
    pub fn login_link(&self) -> String {
        self.run_command(&["web", "link"]).stdout.trim().to_owned()
    }

    /// Runs another command beside the server, with the same settings.
    ///
    /// # Panics
    /// When it fails.
    pub fn run_command(&self, command: &[&str]) -> ProcessOutput {
        let mut arguments = command.to_vec();
        arguments.extend(self.settings.iter().flat_map(|setting| ["--set", setting]));
        let output = self.home.run(&arguments);
        assert_eq!(output.exit_code(), Some(0), "{output:?}");
        output
    }

    /// What is at an address, for a program that knows the token.
    ///
    /// # Panics
    /// When there is no token, or nobody answers.
    pub async fn get(&self, url: &str) -> reqwest::Response {
        http::get_with_token(url, &self.token()).await.expect("the server answers")
    }

    /// Sends a message to a conversation beside the page, and waits until it is answered.
    ///
    /// # Panics
    /// When it isn't taken.
    pub async fn say(&self, conversation: &str, text: &str) {
        let turns = format!("/api/conversations/{conversation}/turns?limit=1");
        let key = format!("k{}", RandomState::new().hash_one(text));
        let url = self.url(&format!("/api/conversations/{conversation}/messages"));
        let message = serde_json::json!({ "key": key, "text": text });
        let answer = http::post_with_token(&url, &self.token(), &message).await.expect("the server answers");
        assert_eq!(answer.status(), 202, "{text}");
        wait_until("the message is answered", async || {
            let turns: serde_json::Value = self.get(&self.url(&turns)).await.json().await.ok()?;
            (turns["turns"][0]["state"] == "done").then_some(())
        })
        .await;
    }

    fn token(&self) -> String {
        let token = std::fs::read_to_string(self.home.data_directory().join("web-token"));
        token.expect("the server made a token").trim().to_owned()
    }

    /// Where its files and those of the test lie.
    #[must_use]
    pub fn home(&self) -> &TestHome {
        &self.home
    }
}

impl Drop for SatchelServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ended_already = process.kill();
            let _status = process.wait();
        }
    }
}

/// A port that nobody listens on now; it has to be known before the start, because a restart comes back to it. It lies
/// below those that the system gives away by itself, so that nobody gets it while the server is down.
fn free_port() -> u16 {
    loop {
        // Each hasher has keys of its own, which is all the chance that is needed here.
        let chance = RandomState::new().build_hasher().finish() % u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(chance).expect("it is less than the number of ports");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
