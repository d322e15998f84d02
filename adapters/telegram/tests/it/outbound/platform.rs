//! What both bot platforms promise, against the fake: the fixture of the contract, with the table of Telegram's responses.

use async_trait::async_trait;
use satchel_contracts::platform::{
    BlobDamage, ChannelOptions, ExpectedOutcome, OpenedChannel, PlatformFault, PlatformFixture, PlatformOperation,
    ResponseRow, SendKind,
};
use satchel_domain::{FileReference, Sha256, delivery::Refusal};
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_fake_telegram::{ApiRefusal, TelegramFault};
use secrecy::SecretString;

use super::*;

const ALL_KINDS: &[SendKind] = &[SendKind::Text, SendKind::Voice, SendKind::File, SendKind::Album, SendKind::Edit];
const WITH_FILES: &[SendKind] = &[SendKind::Voice, SendKind::File, SendKind::Album];

fn row(
    fault: impl Into<TelegramFault>,
    kinds: &'static [SendKind],
    outcome: ExpectedOutcome,
) -> ResponseRow<TelegramFault> {
    ResponseRow { fault: fault.into(), kinds, outcome }
}

/// A response of the server, or of a proxy before it.
fn response(status: u16, body: &str) -> TelegramFault {
    TelegramFault::Answer { status, body: body.to_owned() }
}

/// A refusal of the Bot API.
fn refusal(status: u16, description: &str) -> TelegramFault {
    ApiRefusal::new(status, description).into()
}

#[async_trait]
impl PlatformFixture for OutboundHarness {
    const KINDS: &'static [SendKind] = ALL_KINDS;
    type Fault = TelegramFault;

    const OTHER_TOKEN: &'static str = "123456789:CanaryTokenThatNobodyMaySee_x7Qz";
    const UPLOAD_ACTIVITY: &'static str = "upload_document";

    async fn start() -> Self {
        Self::new().await
    }

    /// Without rates of its own the channel keeps to none of Telegram's.
    async fn start_paced() -> Vec<Self> {
        vec![Self::with(TelegramRules::default().paced(), tables::telegram()).await]
    }

    fn response_rows() -> Vec<ResponseRow<Self::Fault>> {
        use ExpectedOutcome::{AccountRefused, Forbidden, InDoubt, NotSent, Refused, Sent};
        let wait = |seconds: u64| NotSent { retry_after_ms: Some(seconds * 1_000) };
        let limited = r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 7","parameters":{"retry_after":7}}"#;
        let limited_with_more =
            r#"{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":3,"new":[1]}}"#;
        let sent_with_more =
            r#"{"ok":true,"result":{"message_id":77,"chat":"of a new form","new":{"things":[1]}},"new":1}"#;
        let bad_item = "Bad Request: failed to send message #2 with the error message \"PHOTO_INVALID_DIMENSIONS\"";
        let too_large = Refusal::TooLarge { limit: None };
        let mut rows = vec![
            row(response(429, limited), ALL_KINDS, wait(7)),
            row(response(429, limited_with_more), &[SendKind::Text], wait(3)),
            row(response(429, "<html>429</html>"), &[SendKind::Text], InDoubt),
            row(response(200, sent_with_more), &[SendKind::Text], Sent(vec![MessageRef("77".to_owned())])),
            row(Fault::RateLimit { retry_after_ms: 7_000 }, ALL_KINDS, wait(7)),
            // Telegram says so of what it performs, too.
            row(refusal(500, "Internal Server Error"), ALL_KINDS, InDoubt),
            row(Fault::ServerError, ALL_KINDS, InDoubt),
            row(Fault::TooLarge, WITH_FILES, Refused(too_large.clone())),
            row(Fault::Forbidden, ALL_KINDS, Forbidden),
            row(Fault::ChatGone, ALL_KINDS, Forbidden),
            row(Fault::BadMarkup, &[SendKind::Text, SendKind::Edit], Refused(Refusal::BadMarkup)),
            row(Fault::BadItem { index: 1 }, &[SendKind::Album], Refused(Refusal::Item { index: 1 })),
            row(response(413, "<html>413</html>"), WITH_FILES, Refused(too_large.clone())),
            row(refusal(413, "Request Entity Too Large"), WITH_FILES, Refused(too_large)),
            row(refusal(403, "Forbidden: bot was blocked by the user"), ALL_KINDS, Forbidden),
            row(refusal(400, "Bad Request: chat not found"), ALL_KINDS, Forbidden),
            row(refusal(401, "Unauthorized"), ALL_KINDS, AccountRefused),
            // The method is refused, and the token accepted.
            row(refusal(404, "Not Found"), ALL_KINDS, Forbidden),
            row(
                refusal(400, "Bad Request: can't parse entities: Unsupported start tag \"x\" at byte offset 0"),
                &[SendKind::Text, SendKind::Edit],
                Refused(Refusal::BadMarkup),
            ),
            row(refusal(400, bad_item), &[SendKind::Album], Refused(Refusal::Item { index: 1 })),
            row(refusal(400, "Bad Request: message can't be deleted"), &[SendKind::Delete], Refused(Refusal::Other)),
        ];
        for undecodable in [
            r#"{"ok":true}"#,
            r#"{"ok":true,"result":{"no":"id"}}"#,
            r#"{"ok":true,"result":"#,
            r#"{"ok":false}"#,
            "[]",
            "",
        ] {
            rows.push(row(response(200, undecodable), &[SendKind::Text], InDoubt));
        }
        rows
    }

    fn fault(fault: PlatformFault) -> Self::Fault {
        match fault {
            PlatformFault::ConnectionRefused => Fault::RefuseConnection { for_ms: 60_000 }.into(),
            PlatformFault::Reset => Fault::ResetMidTransfer.into(),
            PlatformFault::ResponseLost => Fault::AcceptAndDrop.into(),
            PlatformFault::ForeignResponse { performed } => Fault::BadGateway { performed }.into(),
            PlatformFault::Hang { performed } => Fault::Hang { performed }.into(),
            PlatformFault::RateLimited { retry_after_ms } => Fault::RateLimit { retry_after_ms }.into(),
            PlatformFault::Refusal { status, text } => ApiRefusal::new(status, text).into(),
            PlatformFault::Response { status, body } => TelegramFault::Answer { status, body },
        }
    }

    fn invalid_settings(user: &str, password: &str) -> Vec<(String, Option<String>)> {
        let token = || Self::OTHER_TOKEN.to_owned();
        vec![
            (format!("{}/x", token()), None),
            (String::new(), None),
            (token(), Some(format!("ftp://{user}:{password}@example.org"))),
            (token(), Some(format!("{user}:{password}"))),
            (token(), Some(format!("http://{user}:{password}@example.org/?x=1"))),
        ]
    }

    fn address_with_secrets(origin: &str, user: &str, password: &str) -> String {
        origin.replace("://", &format!("://{user}:{password}@"))
    }

    fn reference_with_secret(_: &str) -> FileReference {
        FileReference::new(r#"{"file_id":"F"}"#.to_owned(), Filename::from_untrusted("a"))
    }

    fn open_channel(options: ChannelOptions) -> Result<OpenedChannel, String> {
        let settings = TelegramSettings {
            token: options.token.into(),
            api_url: options.api_url.map(SecretString::from),
            capabilities: unpaced(),
            local_files: None,
            answers_in: Vec::new(),
            webhook: None,
            commands: Vec::new(),
            look_up: QUICK,
        };
        let timeouts = HttpTimeouts { response: options.response_timeout, ..SHORT };
        match TelegramChannel::with_timeouts(&settings, options.blobs, timeouts) {
            Ok(channel) => {
                let debug = format!("{channel:?} {channel:#?} {settings:?}");
                Ok(OpenedChannel { channel: Arc::new(channel), debug })
            }
            Err(error) => Err(format!("{error} {error:?} {settings:?}")),
        }
    }

    fn token(&self) -> String {
        self.telegram.token().to_owned()
    }

    fn api_url(&self) -> String {
        self.telegram.api_url()
    }

    async fn content(&self, kind: SendKind) -> PartContent {
        match kind {
            SendKind::Text | SendKind::Edit => text("hello"),
            SendKind::Voice => self.voice(false).await,
            SendKind::File => PartContent::File(self.item(&photo(1), FileForm::Photo).await),
            SendKind::Album => PartContent::Album {
                items: vec![self.item(&photo(1), FileForm::Photo).await, self.item(&photo(2), FileForm::Photo).await],
            },
            other => unreachable!("{other:?} is not sent to Telegram"),
        }
    }

    fn script_next(&self, operation: PlatformOperation, next: Self::Fault) {
        let methods = match operation {
            PlatformOperation::Send => "send*",
            PlatformOperation::Upload => "sendDocument",
            PlatformOperation::Edit => "edit*",
            PlatformOperation::Delete => "deleteMessage",
            PlatformOperation::Probe => "getMe",
        };
        self.telegram.script_next(methods, next);
    }

    fn script_all(&self, every: Self::Fault) {
        self.telegram.clear_script();
        self.telegram.script("*", FaultTiming::Every, every);
    }

    fn send_requests(&self) -> u64 {
        self.telegram.requests("sendMessage")
    }

    fn allow_large_files(&self) {
        // It takes 50 MB from every bot.
    }

    fn refuse_connections(&self) {
        self.telegram.refuse_connections(Duration::from_secs(30));
    }

    fn forbid_voice(&self) {
        self.telegram.forbid_voice(self.chat);
    }

    fn revoke_token(&self) {
        self.telegram.revoke_token(self.telegram.token());
    }

    fn accept_token(&self) {
        self.telegram.accept_token(self.telegram.token());
    }

    fn damage_blob(&self, sha256: &Sha256, damage: BlobDamage) {
        match damage {
            BlobDamage::Missing => self.blobs.lose(sha256),
            BlobDamage::Damaged => self.blobs.damage(sha256),
        }
    }

    fn person_deletes(&self, message: &MessageRef) {
        self.telegram.person_deletes(self.chat, message.0.parse().unwrap());
    }

    fn foreign_message(&self) -> MessageRef {
        MessageRef("999999".to_owned())
    }

    fn other_conversation(&self) -> ConversationId {
        conversation(&self.telegram.private_chat(self.telegram.person(5, "Boris")).to_string())
    }

    fn shown_activities(&self) -> Vec<String> {
        self.telegram.transcript().chats[&self.chat].actions.iter().map(ToString::to_string).collect()
    }
}

satchel_contracts::platform_contract!(OutboundHarness);

#[tokio::test]
async fn private_chat_is_also_named_by_its_person() {
    let harness = OutboundHarness::new().await;
    for (key, expected) in [("41", Some("@41")), ("-100123", None), ("-100123/7", None)] {
        let parents = harness.channel.find_parents(&conversation(key)).await.unwrap();
        assert_eq!(parents, expected.map(conversation).into_iter().collect::<Vec<_>>(), "{key}");
    }
}
