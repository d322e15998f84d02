//! The token, addresses that hold it, and a server's address are told to nobody.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use satchel_domain::FileReference;
use satchel_fake_discord::{ApiRefusal, DiscordFault};
use satchel_fake_kit::Fault;
use satchel_ports::{LookupRange, LookupRequest, ledger::RecordedMessages};
use secrecy::SecretString;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

const CANARY: &str = "MTIzNDU2Nzg5.Canary.TokenThatNobodyMaySee_x7Qz";
const NAME: &str = "canary-name";
const PASSWORD: &str = "canary-password";
const WORDS: &str = "what only Ann may read";

/// Everything that is logged, at the finest level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    fn told(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

fn assert_silent(told: &str, about: &str) {
    for secret in [CANARY, "TokenThatNobody", FakeDiscord::TOKEN, "TokenCanary", NAME, PASSWORD, WORDS] {
        assert!(!told.contains(secret), "{about} tells {secret}: {told}");
    }
}

fn channel(token: &str, api_url: Option<String>) -> DiscordChannel {
    let settings = DiscordSettings {
        token: token.into(),
        api_url: api_url.map(SecretString::from),
        capabilities: unpaced(),
        answers_in: Vec::new(),
        commands: Vec::new(),
    };
    DiscordChannel::with_timeouts(&settings, Arc::new(FaultyBlobs::default()), fetcher(), SHORT).unwrap()
}

/// Does everything that a channel can do, and gathers what it says about it.
async fn everything(channel: &DiscordChannel, item: Option<FileItem>) -> String {
    let mut told = format!("{channel:?} {channel:#?}");
    let part = |content| SendRequest {
        part_id: PartId(Uuid::from_u128(1)),
        turn: TurnId(Uuid::from_u128(1)),
        conversation: conversation("4711"),
        content,
        reply_to: None,
    };
    let mut note = |said: String| told.push_str(&said);
    note(format!("{:?}", channel.probe().await));
    for content in [Some(text(WORDS)), item.map(PartContent::File)].into_iter().flatten() {
        let answer = channel.send(&part(content)).await;
        if let Err(error) = &answer {
            note(error.to_string());
        }
        note(format!("{answer:?}"));
    }
    let message = MessageRef("1".to_owned());
    note(format!("{:?}", channel.edit(&message, &part(text(WORDS))).await));
    note(format!("{:?}", channel.delete(&conversation("4711"), &message).await));
    let (range, recorded) = (LookupRange::After(None), RecordedMessages::default());
    let look_up = LookupRequest { part: part(text(WORDS)), range, attempts: 1, recorded };
    note(format!("{:?}", channel.find_sent(&look_up).await));
    // Told by the channel's own words, since nobody else may know where a file lies.
    let link = format!("http://{NAME}:{PASSWORD}@127.0.0.1:9/attachments/1/2/a?hm={CANARY}");
    let locator = serde_json::json!({ "url": link, "channel": 4_711, "message": 2, "attachment": 3 });
    let reference = FileReference::new(locator.to_string(), Filename::from_untrusted("a"));
    match tokio::time::timeout(SHORT.response, channel.fetch(&reference)).await {
        Ok(Ok(_)) => note("a file came from nowhere".to_owned()),
        Ok(Err(error)) => note(format!("{error} {error:?}")),
        Err(_) => {}
    }
    channel.show_activity(&conversation("4711"), satchel_ports::Activity::Writing).await;
    // The activity is on its way by itself; what it logs is part of what is looked through.
    tokio::time::sleep(SHORT.connect + SHORT.response).await;
    told
}

#[tokio::test]
async fn errors_logs_and_debug_hide_secrets() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    // Nothing listens, the name leads nowhere, and there is no encryption where some is expected.
    // It has a port and does not listen.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = deaf.local_addr().unwrap();
    for (about, address) in [
        ("a refused connection", format!("http://{closed}/{PASSWORD}")),
        ("a name that leads nowhere", format!("http://nowhere.invalid/{PASSWORD}")),
        ("encryption that is not there", format!("https://{closed}/{PASSWORD}")),
    ] {
        assert_silent(&everything(&channel(CANARY, Some(address)), None).await, about);
    }

    let stage = Stage::new().await;
    let item = stage.item(&small("a.bin", 1)).await;
    assert_silent(
        &everything(&channel(CANARY, Some(stage.discord.api_url())), Some(item.clone())).await,
        "a wrong token",
    );
    let echo = format!("Not Found: Bot {}", FakeDiscord::TOKEN);
    for fault in [
        Fault::BadGateway { performed: false }.into(),
        Fault::AcceptAndDrop.into(),
        Fault::ResetMidTransfer.into(),
        Fault::Hang { performed: false }.into(),
        DiscordFault::from(ApiRefusal::new(404, 0, echo.clone())),
        DiscordFault::from(ApiRefusal::new(400, 50_035, echo.clone())),
        DiscordFault::Answer { status: 200, body: echo },
    ] {
        stage.discord.clear_script();
        stage.discord.script("*", satchel_fake_kit::FaultTiming::Every, fault.clone());
        assert_silent(&everything(&stage.channel, Some(item.clone())).await, &format!("{fault:?}"));
    }
    let logged = log.told();
    assert!(logged.contains("showing an activity failed"), "the log was heard: {logged}");
    assert_silent(&logged, "the log");
    assert_silent(&format!("{:?}", settings(&stage.discord, unpaced())), "the settings");
}

#[test]
fn invalid_settings_error_hides_secrets() {
    for (token, api_url) in [
        (format!("{CANARY}\r\nx: y"), None),
        (String::new(), None),
        (CANARY.to_owned(), Some(format!("ftp://{NAME}:{PASSWORD}@example.org"))),
        (CANARY.to_owned(), Some(format!("{NAME}:{PASSWORD}"))),
        (CANARY.to_owned(), Some(format!("https://{NAME}:{PASSWORD}@example.org"))),
        (CANARY.to_owned(), Some(format!("http://{NAME}:{PASSWORD}@example.org/?x=1"))),
    ] {
        let settings = DiscordSettings {
            token: token.into(),
            api_url: api_url.map(SecretString::from),
            capabilities: unpaced(),
            answers_in: Vec::new(),
            commands: Vec::new(),
        };
        let error = DiscordChannel::new(&settings, Arc::new(FaultyBlobs::default()), fetcher()).unwrap_err();
        assert_silent(&format!("{error} {error:?} {settings:?}"), "a wrong setting");
    }
}
