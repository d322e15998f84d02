//! The token, addresses that hold it, and the credentials of a server's address are told to nobody.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use satchel_domain::{FileReference, Filename, part::FileForm};
use satchel_fake_kit::Fault;
use satchel_fake_telegram::{ApiRefusal, TelegramFault};
use satchel_ports::FetchedFile;
use secrecy::SecretString;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

const CANARY: &str = "123456789:CanaryTokenThatNobodyMaySee_x7Qz";
const NAME: &str = "canary-name";
const PASSWORD: &str = "canary-password";

/// Everything that is logged, at the finest level.
#[derive(Clone, Default)]
struct LogCapture(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogCapture {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl LogCapture {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

fn assert_silent(told: &str, about: &str) {
    for secret in [CANARY, "CanaryToken", FakeTelegram::TOKEN, "TokenCanary", NAME, PASSWORD] {
        assert!(!told.contains(secret), "{about} tells {secret}: {told}");
    }
}

fn channel(token: &str, api_url: Option<String>) -> TelegramChannel {
    let settings = TelegramSettings {
        token: token.into(),
        api_url: api_url.map(SecretString::from),
        capabilities: unpaced(),
        local_files: None,
        answers_in: Vec::new(),
        webhook: None,
        commands: Vec::new(),
        look_up: LookupSettings::default(),
    };
    TelegramChannel::with_timeouts(&settings, Arc::new(FaultyBlobs::default()), SHORT).unwrap()
}

/// Does everything that a channel can do, and gathers what it says about it.
async fn everything(channel: &TelegramChannel, item: Option<FileItem>) -> String {
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
    for content in [Some(text("hello")), item.map(PartContent::File)].into_iter().flatten() {
        let answer = channel.send(&part(content)).await;
        if let Err(error) = &answer {
            note(error.to_string());
        }
        note(format!("{answer:?}"));
    }
    let message = MessageRef("1".to_owned());
    note(format!("{:?}", channel.edit(&message, &part(text("x"))).await));
    note(format!("{:?}", channel.delete(&conversation("4711"), &message).await));
    let reference = FileReference::new(r#"{"file_id":"F"}"#.to_owned(), Filename::from_untrusted("a"));
    // A server of one's own may take long to answer for a file; here it never does.
    match tokio::time::timeout(SHORT.response, channel.fetch(&reference))
        .await
        .unwrap_or_else(|_| Err(satchel_ports::FileFetchError::Retryable { reason: "not waited for".to_owned() }))
    {
        Ok(FetchedFile::Bytes { mut content, .. }) => {
            while let Some(piece) = content.next().await {
                if let Err(error) = piece {
                    note(format!("{error} {error:?}"));
                }
            }
        }
        other => note(format!("{other:?}")),
    }
    channel.show_activity(&conversation("4711"), satchel_ports::Activity::Writing).await;
    // The activity is on its way by itself; what it logs is part of what is looked through.
    tokio::time::sleep(SHORT.connect + SHORT.response).await;
    told
}

#[tokio::test]
async fn errors_logs_and_debug_hide_secrets() {
    let log = LogCapture::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    // Nothing listens, the name leads nowhere, and there is no encryption where some is expected.
    // It has a port and does not listen.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = deaf.local_addr().unwrap();
    for (about, address) in [
        ("a refused connection", format!("http://{NAME}:{PASSWORD}@{closed}")),
        ("a name that leads nowhere", format!("http://{NAME}:{PASSWORD}@nowhere.invalid/path")),
        ("encryption that is not there", format!("https://{NAME}:{PASSWORD}@{closed}")),
    ] {
        assert_silent(&everything(&channel(CANARY, Some(address)), None).await, about);
    }

    let stage = OutboundHarness::new().await;
    let item = stage.item(&photo(1), FileForm::Photo).await;
    let with_credentials = stage.telegram.api_url().replace("http://", &format!("http://{NAME}:{PASSWORD}@"));
    assert_silent(&everything(&channel(CANARY, Some(with_credentials)), Some(item.clone())).await, "a wrong token");
    let echo = format!("Not Found: /bot{}/sendMessage", FakeTelegram::TOKEN);
    for fault in [
        Fault::BadGateway { performed: false }.into(),
        Fault::AcceptAndDrop.into(),
        Fault::ResetMidTransfer.into(),
        Fault::Hang { performed: false }.into(),
        TelegramFault::from(ApiRefusal::new(404, echo.clone())),
        TelegramFault::from(ApiRefusal::new(400, echo.clone())),
        TelegramFault::Answer { status: 200, body: echo },
    ] {
        stage.telegram.clear_script();
        stage.telegram.script("*", satchel_fake_kit::FaultTiming::Every, fault.clone());
        assert_silent(&everything(&stage.channel, Some(item.clone())).await, &format!("{fault:?}"));
    }
    let logged = log.text();
    assert!(logged.contains("showing an activity failed"), "the log was heard: {logged}");
    assert_silent(&logged, "the log");
    assert_silent(&format!("{:?}", settings(&stage.telegram, unpaced())), "the settings");
}

#[test]
fn invalid_settings_error_hides_secrets() {
    for (token, api_url) in [
        (format!("{CANARY}/x"), None),
        (String::new(), None),
        (CANARY.to_owned(), Some(format!("ftp://{NAME}:{PASSWORD}@example.org"))),
        (CANARY.to_owned(), Some(format!("{NAME}:{PASSWORD}"))),
        (CANARY.to_owned(), Some(format!("http://{NAME}:{PASSWORD}@example.org/?x=1"))),
    ] {
        let settings = TelegramSettings {
            token: token.into(),
            api_url: api_url.map(SecretString::from),
            capabilities: unpaced(),
            local_files: None,
            answers_in: Vec::new(),
            webhook: None,
            commands: Vec::new(),
            look_up: LookupSettings::default(),
        };
        let error = TelegramChannel::new(&settings, Arc::new(FaultyBlobs::default())).unwrap_err();
        assert_silent(&format!("{error} {error:?} {settings:?}"), "a wrong setting");
    }
}
