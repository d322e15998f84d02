//! Ann's chat with the bot on Telegram.

use satchel_domain::Sha256;
use satchel_fake_kit::{FakeFile, Fault, RequestPhase};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use tokio::sync::oneshot;

use super::harness::TestChat;

/// Ann's id, which is also that of her chat.
const ANN: i64 = 41;

pub(crate) struct TelegramChat(FakeTelegram);

impl TelegramChat {
    pub(crate) async fn open() -> Self {
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
        telegram.private_chat(telegram.person(ANN, "Ann"));
        Self(telegram)
    }

    /// Lets Ann send a file in this form, with words under it.
    pub(crate) fn send_file(&self, kind: FileKind, caption: &str, file: FakeFile) {
        self.0.person_sends(ANN, ANN, PersonMessage::file(kind, file).caption(caption));
    }

    /// Lets Ann write what this HTML describes.
    pub(crate) fn send_formatted(&self, html: &str) {
        self.0.person_sends(ANN, ANN, PersonMessage::formatted(html));
    }

    /// How often the bot has asked for updates.
    pub(crate) fn poll_count(&self) -> u64 {
        self.0.requests("getUpdates")
    }
}

impl TestChat for TelegramChat {
    /// Only its secret half is looked for, however it is written down.
    fn secret(&self) -> &str {
        self.0.token().split_once(':').expect("an id and a secret").1
    }

    fn settings(&self) -> String {
        let (token, url) = (self.0.token(), self.0.api_url());
        format!("telegram: {{ token: '{token}', api_url: '{url}', owners: ['{ANN}'] }}\ndelivery: {{ pace: off }}\n")
    }

    /// Telegram keeps what was not taken.
    async fn wait_until_connected(&self) {}

    fn send(&self, text: &str) {
        self.0.person_says(ANN, ANN, text);
    }

    fn send_photos(&self, text: &str, photos: &[FakeFile]) {
        let captioned = |(n, photo): (usize, &FakeFile)| {
            let item = PersonMessage::file(FileKind::Photo, photo.clone());
            if n == 0 { item.caption(text) } else { item }
        };
        self.0.person_sends_album(ANN, ANN, photos.iter().enumerate().map(captioned).collect());
    }

    fn send_voice(&self, note: FakeFile) {
        self.0.person_sends(ANN, ANN, PersonMessage::file(FileKind::Voice, note));
    }

    fn lose_next_response(&self) -> oneshot::Receiver<()> {
        let sent = self.0.requests("sendDocument");
        self.0.script_next("sendDocument", Fault::Hang { performed: true });
        self.0.on_nth("sendDocument", sent + 1, RequestPhase::Performed)
    }

    fn text_with_lost_file(&self) -> &'static str {
        "Once more."
    }

    fn texts(&self) -> Vec<String> {
        self.0.transcript().texts(ANN).into_iter().map(str::to_owned).collect()
    }

    fn files(&self) -> Vec<(String, Sha256)> {
        self.0.transcript().files(ANN).iter().map(|file| (file.filename.clone(), file.sha256)).collect()
    }

    fn voice_count(&self) -> usize {
        self.0.transcript().files(ANN).iter().filter(|file| file.kind == FileKind::Voice).count()
    }

    fn refused_requests(&self) -> u64 {
        self.0.pace().refused
    }

    fn max_refused_after_restart(&self) -> u64 {
        0
    }

    fn transcript(&self) -> String {
        self.0.transcript().to_string()
    }
}
