//! Ann's DM with the bot on Discord.

use std::time::Duration;

use satchel_domain::Sha256;
use satchel_fake_discord::{DiscordRules, FakeDiscord, PersonMessage};
use satchel_fake_kit::{FakeFile, Fault, RequestPhase};
use tokio::sync::oneshot;

use super::harness::TestChat;

pub(crate) const ANN: u64 = 41;

const SEND: &str = "POST /channels/{}/messages";

pub(crate) struct DiscordChat {
    pub(crate) discord: FakeDiscord,
    pub(crate) channel: u64,
}

impl DiscordChat {
    pub(crate) async fn open(rules: DiscordRules) -> Self {
        let discord = FakeDiscord::start(rules).await.expect("a loopback port");
        let channel = discord.direct(discord.person(ANN, "Ann"));
        Self { discord, channel }
    }
}

impl TestChat for DiscordChat {
    /// Only its last part is secret; the first is the bot's id.
    fn secret(&self) -> &str {
        self.discord.token().rsplit_once('.').expect("an id, a time and a secret").1
    }

    fn settings(&self) -> String {
        let (token, url) = (self.discord.token(), self.discord.api_url());
        format!("discord: {{ token: '{token}', api_url: '{url}', owners: ['{ANN}'] }}\n")
    }

    /// Discord tells of what is said to who is there; what it tells others is read later, from history.
    async fn wait_until_connected(&self) {
        while self.discord.gateway().connected() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn send(&self, text: &str) {
        self.discord.person_says(self.channel, ANN, text);
    }

    fn send_photos(&self, text: &str, photos: &[FakeFile]) {
        self.discord.person_sends(self.channel, ANN, text, photos.to_vec());
    }

    fn send_voice(&self, note: FakeFile) {
        self.discord.person_composes(self.channel, ANN, PersonMessage::voice(note, 2.0));
    }

    fn lose_next_response(&self) -> oneshot::Receiver<()> {
        let sent = self.discord.requests(SEND);
        self.discord.script_next(SEND, Fault::Hang { performed: true });
        self.discord.on_nth(SEND, sent + 1, RequestPhase::Performed)
    }

    /// Words would be on the file's message, which may be there before the file is.
    fn text_with_lost_file(&self) -> &'static str {
        ""
    }

    fn texts(&self) -> Vec<String> {
        self.discord.transcript().texts(self.channel).into_iter().map(str::to_owned).collect()
    }

    fn files(&self) -> Vec<(String, Sha256)> {
        self.discord.transcript().files(self.channel).iter().map(|file| (file.shown_name(), file.sha256)).collect()
    }

    fn voice_count(&self) -> usize {
        self.discord.transcript().visible(self.channel).filter(|message| message.is_voice()).count()
    }

    fn refused_requests(&self) -> u64 {
        self.discord.pace().refused
    }

    /// What is left of a budget is known from Discord's answers alone, and a new process has had none.
    fn max_refused_after_restart(&self) -> u64 {
        1
    }

    fn transcript(&self) -> String {
        self.discord.transcript().to_string()
    }
}
