//! People on a strict Bot API server in this process, and Satchel on its other side in another.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::ChildStdout,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use satchel_domain::ChannelCapabilities;
use satchel_fake_kit::{FakeFile, RequestPhase};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_routing::tables;
use satchel_system::crash::ChannelAdapter;

use crate::{
    BenchRunner,
    process::ChildProcess,
    product::{ModelChoice, ProductSettings},
};

/// How long a reply may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);

/// A Bot API server, people who each have a chat with the bot, and Satchel.
pub(crate) struct TelegramHarness {
    pub(crate) telegram: FakeTelegram,
    pub(crate) people: Vec<i64>,
    pub(crate) satchel: ChildProcess,
    output: BufReader<ChildStdout>,
}

/// A server with the limits of Telegram's own.
pub(crate) async fn start_default_server() -> Result<FakeTelegram> {
    start_server(TelegramRules::default()).await
}

async fn start_server(rules: TelegramRules) -> Result<FakeTelegram> {
    FakeTelegram::start(TelegramRules { keeps_connections: true, ..rules }).await.context("no server could be started")
}

impl TelegramHarness {
    /// Starts a server with these rules, and Satchel with this model and data directory.
    pub(crate) async fn open(
        bench: &BenchRunner,
        data_dir: &Path,
        rules: TelegramRules,
        people: usize,
        model: ModelChoice,
    ) -> Result<Self> {
        let telegram = start_server(rules).await?;
        let people = (1..).take(people).map(|id| telegram.private_chat(telegram.person(id, "Somebody"))).collect();
        let product = ProductSettings {
            data_dir: data_dir.to_owned(),
            platform: telegram.api_url(),
            capabilities: ChannelCapabilities { rate_limits: None, ..tables::telegram() },
            model,
            adapter: ChannelAdapter::Telegram,
        };
        let mut satchel = product.start(bench)?;
        let output = BufReader::new(satchel.child().stdout.take().context("standard output is a pipe")?);
        Ok(Self { telegram, people, satchel, output })
    }

    pub(crate) fn send(&self, person: i64) {
        self.telegram.person_says(person, person, "again");
    }

    /// Lets the first person say something, and waits until the reply has come: so many calls of this method. Returns
    /// how long it took.
    pub(crate) async fn send_and_wait(&self, text: &str, method: &str, calls: u64) -> Result<Duration> {
        let last = self.telegram.requests(method) + calls;
        let reply = self.telegram.on_nth(method, last, RequestPhase::Performed);
        let sent_at = Instant::now();
        self.telegram.person_says(self.people[0], self.people[0], text);
        self.wait_for_reply(reply).await?;
        Ok(sent_at.elapsed())
    }

    /// Lets each person send a file at once, and waits until each has one back. Returns how long it took.
    pub(crate) async fn send_files(&self, text: &str, files: &[FakeFile]) -> Result<Duration> {
        // All of them: large uploads end in another order than they begin.
        let replies: Vec<_> = (1..=files.len() as u64)
            .map(|nth| self.telegram.on_nth("sendDocument", nth, RequestPhase::Performed))
            .collect();
        // Whoever sends a file has it; its digest, which the server takes now, is not Satchel's time.
        let mut sent_at = Instant::now();
        for (number, (person, file)) in self.people.iter().zip(files).enumerate() {
            let message = PersonMessage::file(FileKind::Document, file.clone()).caption(text);
            self.telegram.person_sends(*person, *person, message);
            if number == 0 {
                sent_at = Instant::now();
            }
        }
        for reply in replies {
            self.wait_for_reply(reply).await?;
        }
        Ok(sent_at.elapsed())
    }

    /// How many commits Satchel has made.
    pub(crate) fn read_commits(&mut self) -> Result<u64> {
        let input = self.satchel.child().stdin.as_mut().context("standard input is a pipe")?;
        writeln!(input, "commits")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        line.trim().parse().context("Satchel did not answer with a number")
    }

    pub(crate) async fn wait_for_reply(&self, reply: tokio::sync::oneshot::Receiver<()>) -> Result<()> {
        match tokio::time::timeout(REPLY_TIMEOUT, reply).await {
            Ok(Ok(())) => Ok(()),
            _ => bail!("no reply came; the chats show\n{}", self.telegram.transcript()),
        }
    }
}
