//! What both bot platforms promise, against the fake: the fixture of the contract, with the table of Discord's responses.

use async_trait::async_trait;
use satchel_contracts::platform::{
    BlobDamage, ChannelOptions, ExpectedOutcome, OpenedChannel, PlatformFault, PlatformFixture, PlatformOperation,
    ResponseRow, SendKind,
};
use satchel_domain::Sha256;
use satchel_fake_discord::{ApiRefusal, DiscordFault};
use satchel_fake_kit::FaultTiming;
use secrecy::SecretString;

use super::*;

const ALL_KINDS: &[SendKind] = &[
    SendKind::Text,
    SendKind::Bundle,
    SendKind::Voice,
    SendKind::File,
    SendKind::Album,
    SendKind::Edit,
    SendKind::EditToBundle,
];
const WITH_FILES: &[SendKind] =
    &[SendKind::Bundle, SendKind::Voice, SendKind::File, SendKind::Album, SendKind::EditToBundle];

fn row(
    fault: impl Into<DiscordFault>,
    kinds: &'static [SendKind],
    outcome: ExpectedOutcome,
) -> ResponseRow<DiscordFault> {
    ResponseRow { fault: fault.into(), kinds, outcome }
}

/// A response of the server, or of a proxy before it.
fn response(status: u16, body: &str) -> DiscordFault {
    DiscordFault::Answer { status, body: body.to_owned() }
}

/// A refusal of the API.
fn refusal(status: u16, code: u64, message: &str) -> DiscordFault {
    ApiRefusal::new(status, code, message).into()
}

#[async_trait]
impl PlatformFixture for OutboundHarness {
    const KINDS: &'static [SendKind] = ALL_KINDS;
    type Fault = DiscordFault;

    const OTHER_TOKEN: &'static str = "MTIzNDU2Nzg5.Canary.TokenThatNobodyMaySee_x7Qz";
    const UPLOAD_ACTIVITY: &'static str = "typing";

    async fn start() -> Self {
        Self::new().await
    }

    /// Without rates of its own, too, the channel keeps to what Discord told it.
    async fn start_paced() -> Vec<Self> {
        vec![Self::with(DiscordRules::unpaced(), tables::discord()).await, Self::new().await]
    }

    fn response_rows() -> Vec<ResponseRow<Self::Fault>> {
        use ExpectedOutcome::{AccountRefused, Forbidden, InDoubt, NotSent, Refused, Sent};
        let wait = |milliseconds: u64| NotSent { retry_after_ms: Some(milliseconds) };
        let not_sent = NotSent { retry_after_ms: None };
        let limited = r#"{"message":"You are being rate limited.","code":0,"retry_after":7.0,"global":false}"#;
        let limited_with_more = r#"{"message":"x","retry_after":3.25,"global":false,"new":[1]}"#;
        let sent_with_more = r#"{"id":"77","type":9999,"author":7,"new":{"things":[1]}}"#;
        let bad_item = r#"{"message":"Invalid Form Body","code":50035,"errors":{"attachments":{"1":{"_errors":[{"code":"ATTACHMENT_INVALID","message":"This file can't be taken."}]}}}}"#;
        let too_large = Refusal::TooLarge { limit: None };
        let mut rows = vec![
            row(response(429, limited), ALL_KINDS, wait(7_000)),
            row(response(429, limited_with_more), &[SendKind::Text], wait(3_250)),
            row(response(429, "<html>error code: 1015</html>"), &[SendKind::Text], not_sent.clone()),
            row(response(200, sent_with_more), &[SendKind::Text], Sent(vec![MessageRef("77".to_owned())])),
            row(response(200, "{}"), &[SendKind::Delete], Sent(Vec::new())),
            row(Fault::RateLimit { retry_after_ms: 7_000 }, ALL_KINDS, wait(7_000)),
            row(Fault::ServerError, ALL_KINDS, not_sent.clone()),
            row(refusal(500, 0, "500: Internal Server Error"), ALL_KINDS, not_sent),
            row(Fault::TooLarge, WITH_FILES, Refused(too_large.clone())),
            row(Fault::BadItem { index: 1 }, &[SendKind::Album, SendKind::Bundle], Refused(Refusal::Item { index: 1 })),
            row(refusal(504, 0, "504: Gateway Timeout"), ALL_KINDS, InDoubt),
            row(response(413, "<html>413</html>"), WITH_FILES, Refused(too_large.clone())),
            row(refusal(413, 40_005, "Request entity too large"), WITH_FILES, Refused(too_large)),
            row(refusal(403, 50_001, "Missing Access"), ALL_KINDS, Forbidden),
            row(refusal(404, 10_003, "Unknown Channel"), ALL_KINDS, Forbidden),
            row(refusal(401, 0, "401: Unauthorized"), ALL_KINDS, AccountRefused),
            row(refusal(403, 50_007, "Cannot send messages to this user"), ALL_KINDS, Forbidden),
            row(response(400, bad_item), &[SendKind::Album, SendKind::Bundle], Refused(Refusal::Item { index: 1 })),
            row(refusal(400, 50_083, "Thread is archived"), &[SendKind::Edit], Refused(Refusal::TargetGone)),
            row(refusal(403, 50_013, "Missing Permissions"), &[SendKind::Delete], Forbidden),
        ];
        for undecodable in ["{}", r#"{"id":7}"#, r#"{"id":"#, "[]", "null", "<html>", ""] {
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
            PlatformFault::Refusal { status, text } => {
                ApiRefusal::new(status, if status == 400 { 50_035 } else { 0 }, text).into()
            }
            PlatformFault::Response { status, body } => DiscordFault::Answer { status, body },
        }
    }

    fn invalid_settings(user: &str, password: &str) -> Vec<(String, Option<String>)> {
        let token = || Self::OTHER_TOKEN.to_owned();
        vec![
            (format!("{}\r\nx: y", token()), None),
            (String::new(), None),
            (token(), Some(format!("ftp://{user}:{password}@example.org"))),
            (token(), Some(format!("{user}:{password}"))),
            (token(), Some(format!("https://{user}:{password}@example.org"))),
            (token(), Some(format!("http://{user}:{password}@example.org/?x=1"))),
        ]
    }

    /// Credentials are refused, so the secret is in the path.
    fn address_with_secrets(origin: &str, _: &str, password: &str) -> String {
        format!("{origin}/{password}")
    }

    fn reference_with_secret(secret: &str) -> FileReference {
        let link = format!("http://{secret}:{secret}@127.0.0.1:9/attachments/1/2/a?hm={secret}");
        let locator = json!({ "url": link, "channel": 4_711, "message": 2, "attachment": 3 });
        FileReference::new(locator.to_string(), Filename::from_untrusted("a"))
    }

    fn open_channel(options: ChannelOptions) -> Result<OpenedChannel, String> {
        let settings = DiscordSettings {
            token: options.token.into(),
            api_url: options.api_url.map(SecretString::from),
            capabilities: unpaced(),
            answers_in: Vec::new(),
            needs_parents: false,
            commands: Vec::new(),
        };
        let timeouts = HttpTimeouts { response: options.response_timeout, ..SHORT };
        match DiscordChannel::with_timeouts(&settings, options.blobs, fetcher(), timeouts) {
            Ok(channel) => {
                let debug = format!("{channel:?} {channel:#?} {settings:?}");
                Ok(OpenedChannel { channel: Arc::new(channel), debug })
            }
            Err(error) => Err(format!("{error} {error:?} {settings:?}")),
        }
    }

    fn token(&self) -> String {
        self.discord.token().to_owned()
    }

    fn api_url(&self) -> String {
        self.discord.api_url()
    }

    async fn content(&self, kind: SendKind) -> PartContent {
        match kind {
            SendKind::Text | SendKind::Edit => text("hello"),
            SendKind::Bundle | SendKind::EditToBundle => bundle("hello", self.items(&["a.bin", "b.bin"]).await),
            SendKind::Voice => self.voice(false).await,
            SendKind::File => PartContent::File(self.item(&small("a.bin", 1)).await),
            SendKind::Album => PartContent::Album { items: self.items(&["a.bin", "b.bin"]).await },
            SendKind::Delete => unreachable!("a deletion has no content"),
        }
    }

    fn script_next(&self, operation: PlatformOperation, next: Self::Fault) {
        let route = match operation {
            PlatformOperation::Send | PlatformOperation::Upload => CREATE,
            PlatformOperation::Edit => EDIT,
            PlatformOperation::Delete => DELETE,
            PlatformOperation::Probe => "GET /users/@me",
        };
        self.discord.script_next(route, next);
    }

    fn script_all(&self, every: Self::Fault) {
        self.discord.clear_script();
        self.discord.script("*", FaultTiming::Every, every);
    }

    fn send_requests(&self) -> u64 {
        self.discord.requests(CREATE)
    }

    fn allow_large_files(&self) {
        self.discord.boost(GUILD, Tier::Two);
    }

    fn refuse_connections(&self) {
        self.discord.refuse_connections(Duration::from_secs(30));
    }

    fn forbid_voice(&self) {
        self.discord.forbid(self.place, Permission::SendVoice);
    }

    fn revoke_token(&self) {
        self.discord.revoke_token(self.discord.token());
    }

    fn accept_token(&self) {
        self.discord.accept_token(self.discord.token());
    }

    fn damage_blob(&self, sha256: &Sha256, damage: BlobDamage) {
        match damage {
            BlobDamage::Missing => self.blobs.lose(sha256),
            BlobDamage::Damaged => self.blobs.damage(sha256),
        }
    }

    fn person_deletes(&self, message: &MessageRef) {
        self.discord.person_deletes(message.0.parse().unwrap());
    }

    fn foreign_message(&self) -> MessageRef {
        MessageRef(self.discord.person_says(self.place, PERSON, "theirs").to_string())
    }

    fn other_conversation(&self) -> ConversationId {
        conversation(&self.discord.channel(GUILD, 101, "other").to_string())
    }

    fn shown_activities(&self) -> Vec<String> {
        let typed = self.discord.transcript().channels[&self.place].typed;
        (0..typed).map(|_| Self::UPLOAD_ACTIVITY.to_owned()).collect()
    }
}

satchel_contracts::platform_contract!(OutboundHarness);

#[tokio::test]
async fn chats_around_a_thread_and_the_person_of_a_direct_channel_are_found() {
    let harness = OutboundHarness::new().await;
    let thread = harness.discord.thread(harness.place, 9_120, "a thread");
    let direct = harness.discord.direct(PERSON);
    let parents = async |key: String| harness.channel.find_parents(&conversation(&key)).await;
    assert_eq!(parents(thread.to_string()).await, Ok(vec![conversation(&harness.place.to_string())]));
    assert_eq!(parents(direct.to_string()).await, Ok(vec![conversation(&format!("@{PERSON}"))]));
    assert_eq!(parents("1".to_owned()).await, Ok(Vec::new()), "the bot can't see it");
    harness.discord.script_next("GET /channels/{}", ApiRefusal::new(400, 50_035, "Invalid Form Body"));
    assert_eq!(parents(thread.to_string()).await, Ok(Vec::new()), "it would be refused for ever");
    harness.discord.script("GET /channels/{}", FaultTiming::Every, Fault::ServerError);
    assert!(matches!(parents(thread.to_string()).await, Err(SendError::NotSent { .. })));
}
