//! Strangers on Telegram, an owner who presses a button, an operator at the command line, and the real binary between.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

use std::{fs::File, path::Path, process::Stdio, time::Duration};

use satchel_fake_telegram::{FakeTelegram, TelegramRules, TelegramTranscript};
use satchel_system::real_binary::{ProcessOutput, TestHome};
use tokio::{
    process::{Child, Command},
    task::spawn_blocking,
};

/// Longest wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A stranger's text, which must not be stored.
const SECRET: &str = "the words of a stranger";

pub(crate) struct PairingHarness {
    pub(crate) telegram: FakeTelegram,
    home: TestHome,
    satchel: Child,
}

impl PairingHarness {
    /// Satchel runs, Ann owns it, and the rest is configured so.
    pub(crate) async fn start(ann: i64, settings: &str) -> Self {
        Self::start_with_limits(ann, "{}", settings).await
    }

    /// The same, where Telegram takes so much.
    pub(crate) async fn start_with_limits(ann: i64, limits: &str, settings: &str) -> Self {
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
        for (id, name) in [(ann, "Ann"), (42, "Bob"), (43, "Eve")] {
            telegram.person(id, name);
            telegram.private_chat(id);
        }
        let home = TestHome::new();
        let (token, url) = (telegram.token(), telegram.api_url());
        let settings = format!(
            "telegram: {{ token: '{token}', api_url: '{url}', owners: [{ann}], groups: ['*'], limits: {limits} }}\n\
             web: {{ listen: off }}\ndelivery: {{ pace: off }}\nmodel: offline\n{settings}"
        );
        home.write_file("satchel.yaml", settings);
        let satchel = spawn_satchel(&home);
        Self { telegram, home, satchel }
    }

    /// Kills Satchel with SIGKILL and starts it again.
    pub(crate) async fn restart_after_kill(&mut self) {
        self.satchel.kill().await.expect("a process can be killed");
        self.satchel = spawn_satchel(&self.home);
    }

    /// Whether the text stands in any file of the household.
    pub(crate) fn has_text(&self, text: &str) -> bool {
        is_text_stored(self.home.root(), text)
    }

    /// Whether the household has a file of this name.
    pub(crate) fn has_file(&self, name: &str) -> bool {
        has_file(self.home.root(), name)
    }

    /// Waits until the bot's `nth` message stands in a chat, and returns its words and its id.
    pub(crate) async fn wait_for_message(&self, chat: i64, nth: usize) -> (String, i64) {
        let poll = async {
            loop {
                let transcript = self.telegram.transcript();
                if let Some(message) = transcript.visible(chat).nth(nth) {
                    return (message.words.text.clone(), message.id);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reply = tokio::time::timeout(REPLY_TIMEOUT, poll).await;
        reply.unwrap_or_else(|_| panic!("no message {nth} in {chat}:\n{}\n{}", self.telegram.transcript(), self.log()))
    }

    /// Waits until a question has no buttons any more and says how it was answered.
    async fn wait_until_closed(&self, chat: i64, question: i64, answer: &str) {
        let is_closed = |transcript: &TelegramTranscript| {
            let question = transcript.visible(chat).find(|message| message.id == question);
            question.is_some_and(|question| question.buttons.is_empty() && question.words.text.ends_with(answer))
        };
        let closed = self.telegram.wait_until(is_closed).await;
        assert!(closed.is_ok(), "{answer}:\n{}\n{}", self.telegram.transcript(), self.log());
    }

    /// Runs a command beside the running `satchel run`, which this process answers meanwhile.
    pub(crate) async fn run_command(&self, arguments: &'static [&'static str], last: String) -> ProcessOutput {
        let mut command = self.home.satchel_command(arguments);
        if !last.is_empty() {
            command.arg(last);
        }
        let output = spawn_blocking(move || satchel_system::real_binary::run_to_end(&mut command));
        output.await.expect("a command ends")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.root().join("log")).unwrap_or_default()
    }
}

fn spawn_satchel(home: &TestHome) -> Child {
    let log = File::options().create(true).append(true).open(home.root().join("log"));
    let mut command: Command = home.satchel_command(&["run", "--log", "debug"]).into();
    command.stdout(Stdio::null()).stderr(log.expect("a log can be written")).kill_on_drop(true);
    command.spawn().expect("the binary can be started")
}

fn find_code(text: &str) -> String {
    let is_code = |word: &&str| word.len() == 9 && word.as_bytes()[4] == b'-';
    text.split([' ', '*', '.']).find(is_code).unwrap_or_else(|| panic!("no code in {text}")).to_owned()
}

/// Whether a file beneath the directory has the name.
fn has_file(directory: &Path, name: &str) -> bool {
    std::fs::read_dir(directory).expect("a directory").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() { has_file(&path, name) } else { path.file_name().is_some_and(|own| own == name) }
    })
}

/// Whether a file beneath the directory holds the text.
fn is_text_stored(directory: &Path, text: &str) -> bool {
    std::fs::read_dir(directory).expect("a directory").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return is_text_stored(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_approved_by_button_or_operator() {
    let (ann, bob, eve) = (41, 42, 43);
    let harness = PairingHarness::start(ann, "").await;
    let telegram = &harness.telegram;

    // Bob, and Ann's button.
    telegram.person_says(bob, bob, SECRET);
    let (told, _) = harness.wait_for_message(bob, 0).await;
    assert!(told.starts_with("I don't know you yet. Ask the owner to approve code "), "{told}");
    let (asked, question) = harness.wait_for_message(ann, 0).await;
    assert!(asked.starts_with("Bob") && asked.contains("id 42") && asked.contains(&find_code(&told)), "{asked}");
    telegram.person_presses(ann, question, "Approve");
    assert_eq!(harness.wait_for_message(ann, 1).await.0, "Bob is approved. I've told them.");
    assert!(harness.wait_for_message(bob, 1).await.0.starts_with("You're approved. Send me a message"));
    harness.wait_until_closed(ann, question, "Approved").await;
    telegram.person_says(ann, ann, &format!("/pair refuse {}", find_code(&told)));
    assert_eq!(harness.wait_for_message(ann, 2).await.0, "This code was already used: it approved Bob.");
    telegram.person_says(bob, bob, "/files");
    assert!(harness.wait_for_message(bob, 2).await.0.starts_with("No files here yet"));

    // Eve, and the operator beside the running process.
    telegram.person_says(eve, eve, SECRET);
    let first = harness.wait_for_message(eve, 0).await.0;
    let code = find_code(&first);
    telegram.person_says(eve, eve, &format!("/pair approve {code}"));
    assert_eq!(harness.wait_for_message(eve, 1).await.0, first, "who writes again reads the same");
    telegram.person_says(bob, bob, &format!("/pair approve {code}"));
    assert_eq!(harness.wait_for_message(bob, 3).await.0, "Only an owner can approve people.");
    let listed = harness.run_command(&["pair", "list"], String::new()).await;
    assert!(listed.stdout.contains(&code) && listed.stdout.contains("Eve"), "{listed:?}");
    let approved = harness.run_command(&["pair", "approve"], code.clone()).await;
    assert_eq!(approved.stdout, "approved: Eve, id 43, on telegram; they will be told\n", "{approved:?}");
    assert!(harness.wait_for_message(eve, 2).await.0.starts_with("You're approved. Send me a message"));
    let (_, question) = harness.wait_for_message(ann, 3).await;
    harness.wait_until_closed(ann, question, "Approved").await;
    let again = harness.run_command(&["pair", "approve"], code).await;
    assert_eq!(again.exit_code(), Some(1), "{again:?}");
    assert!(again.stderr.contains("already used: it approved Eve"), "{again:?}");
    let revoked = harness.run_command(&["pair", "revoke", "telegram"], eve.to_string()).await;
    assert_eq!(revoked.stdout, "revoked: 43 on telegram\n", "{revoked:?}");
    telegram.person_says(eve, eve, SECRET);
    assert!(harness.wait_for_message(eve, 3).await.0.starts_with("I don't know you yet."));
    let (_, question) = harness.wait_for_message(ann, 4).await;
    telegram.person_presses(ann, question, "Refuse");
    let refused = "The owner has refused your request, so I can't talk to you.";
    assert!(harness.wait_for_message(eve, 4).await.0.starts_with(refused));
    harness.wait_until_closed(ann, question, "Refused").await;

    // Strangers in a group, where Bob is heard.
    let group = telegram.group("Family", &[ann, bob, eve]);
    telegram.person_says(group, eve, SECRET);
    telegram.person_says(group, bob, "/outbox");
    assert_eq!(harness.wait_for_message(group, 0).await.0, "Everything has been delivered.");

    assert!(is_text_stored(&harness.home.data_directory(), "No files here yet"), "what is kept is found");
    assert!(!is_text_stored(harness.home.root(), SECRET), "{}", harness.log());
    let away: Vec<String> =
        harness.log().lines().filter(|line| line.contains("refused a message")).map(str::to_owned).collect();
    assert_eq!(away.len(), 2, "one line for each stranger: {away:?}");
}
