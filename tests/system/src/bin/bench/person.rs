//! A person on a fake platform in this process, and Satchel on its other side in another.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::ChildStdout,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use satchel_domain::{ChannelName, ConversationId, capabilities::StreamRule};
use satchel_fakes::{FakeFile, FakeMode, FakePlatform, Moment, Operation, PlatformRules};
use satchel_system::crash::Front;

use crate::{
    Bench,
    process::Running,
    product::{Model, Product},
};

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a growing reply is edited on Telegram.
const TELEGRAMS_INTERVAL: u64 = 1_100;

/// A platform and Satchel on it.
pub(crate) struct Stage {
    pub(crate) platform: FakePlatform,
    pub(crate) satchel: Running,
    answers: BufReader<ChildStdout>,
}

impl Stage {
    /// Starts a platform with these rules, and Satchel with this model and data directory.
    pub(crate) async fn open(bench: &Bench, data_dir: &Path, rules: PlatformRules, model: Model) -> Result<Self> {
        let mut capabilities = rules.capabilities();
        capabilities.stream = StreamRule::Edits { interval_ms: TELEGRAMS_INTERVAL };
        let platform = FakePlatform::start(rules).await.context("no platform could be started")?;
        let channel: ChannelName = conversation(0).channel().clone();
        let product = Product {
            data_dir: data_dir.to_owned(),
            platform: platform.base_url(),
            channel,
            capabilities,
            model,
            front: Front::Imitated(FakeMode::TelegramLike),
        };
        let mut satchel = product.start(bench)?;
        let answers = BufReader::new(satchel.child().stdout.take().context("standard output is a pipe")?);
        Ok(Self { platform, satchel, answers })
    }

    /// Says something and waits until the reply has come: so many requests of this operation. Returns how long it took.
    pub(crate) async fn says(&self, text: &str, operation: Operation, requests: u64) -> Result<Duration> {
        let last = self.platform.requests(operation) + requests;
        let replied = self.platform.on_nth(operation, last, Moment::Performed);
        let said = Instant::now();
        self.platform.person_says(&conversation(0), text, Vec::new());
        self.wait(replied).await?;
        Ok(said.elapsed())
    }

    /// Sends a file in each of the conversations at once and waits until so many messages have come back.
    pub(crate) async fn sends(&self, text: &str, files: &[FakeFile], messages: u64) -> Result<Duration> {
        let before = self.platform.requests(Operation::Send);
        // All of them: large uploads end in another order than they begin.
        let replied: Vec<_> = (before + 1..=before + messages)
            .map(|nth| self.platform.on_nth(Operation::Send, nth, Moment::Performed))
            .collect();
        // Whoever sends a file has it; its digest, which the platform takes now, is not Satchel's time.
        let mut said = Instant::now();
        for (number, file) in files.iter().enumerate() {
            self.platform.person_says(&conversation(number), text, vec![file.clone()]);
            if number == 0 {
                said = Instant::now();
            }
        }
        for replied in replied {
            self.wait(replied).await?;
        }
        Ok(said.elapsed())
    }

    /// How many commits Satchel has made.
    pub(crate) fn commits(&mut self) -> Result<u64> {
        let input = self.satchel.child().stdin.as_mut().context("standard input is a pipe")?;
        writeln!(input, "commits")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        answer.trim().parse().context("Satchel did not answer with a number")
    }

    async fn wait(&self, replied: tokio::sync::oneshot::Receiver<()>) -> Result<()> {
        match tokio::time::timeout(PATIENCE, replied).await {
            Ok(Ok(())) => Ok(()),
            _ => bail!("no reply came; the platform shows\n{}", self.platform.transcript()),
        }
    }
}

/// One of the person's conversations.
pub(crate) fn conversation(number: usize) -> ConversationId {
    format!("bench:{number}").parse().expect("a name and a number are a conversation")
}
