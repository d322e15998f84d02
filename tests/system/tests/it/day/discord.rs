//! Ann's DM with the bot on Discord.

use std::time::Duration;

use satchel_domain::Sha256;
use satchel_fake_discord::{DiscordRules, FakeDiscord, PersonMessage};
use satchel_fake_kit::{FakeFile, Fault, RequestPhase};
use tokio::sync::oneshot;

use super::house::Chat;

pub(crate) const ANN: u64 = 41;

const SEND: &str = "POST /channels/{}/messages";

pub(crate) struct OnDiscord {
    pub(crate) discord: FakeDiscord,
    pub(crate) channel: u64,
}

impl OnDiscord {
    pub(crate) async fn open(rules: DiscordRules) -> Self {
        let discord = FakeDiscord::start(rules).await.expect("a loopback port");
        let channel = discord.direct(discord.person(ANN, "Ann"));
        Self { discord, channel }
    }
}

impl Chat for OnDiscord {
    /// Only its last part is secret; the first is the bot's id.
    fn secret(&self) -> &str {
        self.discord.token().rsplit_once('.').expect("an id, a time and a secret").1
    }

    fn settings(&self) -> String {
        let (token, url) = (self.discord.token(), self.discord.api_url());
        format!("discord: {{ token: '{token}', api_url: '{url}', owners: ['{ANN}'] }}\n")
    }

    /// Discord tells of what is said to who is there; what it tells others is read later, from history.
    async fn is_listened_to(&self) {
        while self.discord.gateway().connected() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn says(&self, words: &str) {
        self.discord.person_says(self.channel, ANN, words);
    }

    fn sends_photos(&self, words: &str, photos: &[FakeFile]) {
        self.discord.person_sends(self.channel, ANN, words, photos.to_vec());
    }

    fn sends_voice(&self, note: FakeFile) {
        self.discord.person_composes(self.channel, ANN, PersonMessage::voice(note, 2.0));
    }

    fn loses_the_next_answer(&self) -> oneshot::Receiver<()> {
        let sent = self.discord.requests(SEND);
        self.discord.script_next(SEND, Fault::Hang { performed: true });
        self.discord.on_nth(SEND, sent + 1, RequestPhase::Performed)
    }

    /// Words would be on the file's message, which may be there before the file is.
    fn words_with_the_lost_file(&self) -> &'static str {
        ""
    }

    fn texts(&self) -> Vec<String> {
        self.discord.transcript().texts(self.channel).into_iter().map(str::to_owned).collect()
    }

    fn files(&self) -> Vec<(String, Sha256)> {
        self.discord.transcript().files(self.channel).iter().map(|file| (file.filename.clone(), file.sha256)).collect()
    }

    fn voices(&self) -> usize {
        self.discord.transcript().visible(self.channel).filter(|message| message.is_voice()).count()
    }

    fn refused(&self) -> u64 {
        self.discord.pace().refused
    }

    /// What is left of a budget is known from Discord's answers alone, and a new process has had none.
    fn refused_after_a_restart(&self) -> u64 {
        1
    }

    fn transcript(&self) -> String {
        self.discord.transcript().to_string()
    }
}
