//! The token, addresses that hold it, credentials of a server's address and what people write are in no log, no error
//! and no `Debug`.

use futures::StreamExt;
use satchel_ports::{Activity, FetchedFile, LookupRange, LookupRequest, ledger::RecordedMessages};

use super::*;
use crate::log_capture::LogCapture;

const USER: &str = "canary-user";
const PASSWORD: &str = "canary-password";
const TEXT: &str = "what only one person may read";

/// The line by which each exchange ends: the activity is sent by a task of its own.
const ACTIVITY_FAILED: &str = "showing an activity failed";

/// The longest time in which a call to the test servers fails.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(600);

/// The secrets, and a piece of each token that would still be too much.
fn secrets<F: PlatformFixture>(fixture: &F) -> Vec<String> {
    let tokens = [F::OTHER_TOKEN.to_owned(), fixture.token()];
    let pieces: Vec<String> = tokens.iter().map(|token| token[token.len() / 2..].to_owned()).collect();
    tokens.into_iter().chain(pieces).chain([USER, PASSWORD, TEXT].map(str::to_owned)).collect()
}

#[track_caller]
fn assert_hides(secrets: &[String], shown: &str, context: &str) {
    for secret in secrets {
        assert!(!shown.contains(secret.as_str()), "{context} shows {secret}: {shown}");
    }
}

/// Does everything that a channel can do, and returns all that it shows of it.
async fn call_everything<F: PlatformFixture>(fixture: &F, log: &LogCapture, token: &str, api_url: String) -> String {
    let options = ChannelOptions {
        token: token.to_owned(),
        api_url: Some(api_url),
        blobs: fixture.blobs(),
        response_timeout: RESPONSE_TIMEOUT,
    };
    let OpenedChannel { channel, debug } = F::open_channel(options).unwrap();
    let (conversation, message) = (fixture.conversation(), MessageRef("1".to_owned()));
    let request = part(fixture, PartContent::from_text(TEXT));
    let failures = log.lines_with(ACTIVITY_FAILED);
    channel.show_activity(&conversation, Activity::Writing).await;
    let mut shown = debug;
    let mut record = |outcome: Result<String, SendError>| match outcome {
        Ok(outcome) => shown.push_str(&outcome),
        Err(error) => shown.push_str(&format!("{error} {error:?}")),
    };
    record(channel.probe().await.map(|()| String::new()));
    record(channel.post(&request).await.map(|sent| format!("{sent:?}")));
    let file = part(fixture, fixture.content(SendKind::File).await);
    record(channel.post(&file).await.map(|sent| format!("{sent:?}")));
    record(channel.edit(&message, &request).await.map(|edited| format!("{edited:?}")));
    record(channel.delete(&conversation, &message).await.map(|()| String::new()));
    let (range, recorded) = (LookupRange::After(None), RecordedMessages::default());
    let look_up = LookupRequest { part: request, range, attempts: 1, recorded };
    record(channel.find_sent(&look_up).await.map(|outcome| format!("{outcome:?}")));
    // A server may take long to respond for a file; here it never does.
    let fetched = async {
        match channel.fetch(&F::reference_with_secret(F::OTHER_TOKEN)).await {
            Ok(FetchedFile::Bytes { mut content, .. }) => {
                let mut errors = String::new();
                while let Some(piece) = content.next().await {
                    if let Err(error) = piece {
                        errors.push_str(&format!("{error} {error:?}"));
                    }
                }
                errors
            }
            Ok(FetchedFile::Stored(blob)) => format!("{blob:?}"),
            Err(error) => format!("{error} {error:?}"),
        }
    };
    shown.push_str(&tokio::time::timeout(RESPONSE_TIMEOUT, fetched).await.unwrap_or_default());
    log.wait_for_lines(ACTIVITY_FAILED, failures + 1).await;
    shown
}

/// Catches: an error that repeats the address of its request, and a response that is logged as it came.
pub async fn errors_logs_and_debug_hide_secrets<F: PlatformFixture>() {
    let log = LogCapture::listen_on_all_threads();
    let fixture = F::start().await;
    let secrets = secrets(&fixture);
    // It has a port and does not listen.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = closed.local_addr().unwrap();
    for (context, origin) in [
        ("a refused connection", format!("http://{closed}")),
        ("a name without an address", "http://nowhere.invalid".to_owned()),
        ("a server without encryption", format!("https://{closed}")),
        ("a wrong token", fixture.api_url()),
    ] {
        let address = F::address_with_secrets(&origin, USER, PASSWORD);
        assert_hides(&secrets, &call_everything(&fixture, &log, F::OTHER_TOKEN, address).await, context);
    }
    let echo = format!("Not Found: /bot{}/sendMessage by {TEXT}", fixture.token());
    for fault in [
        PlatformFault::ForeignResponse { performed: false },
        PlatformFault::ResponseLost,
        PlatformFault::Reset,
        PlatformFault::Hang { performed: false },
        PlatformFault::Refusal { status: 404, text: echo.replace(TEXT, "") },
        PlatformFault::Refusal { status: 400, text: echo.replace(TEXT, "") },
        PlatformFault::Response { status: 200, body: echo },
    ] {
        fixture.script_all(F::fault(fault.clone()));
        let shown = call_everything(&fixture, &log, &fixture.token(), fixture.api_url()).await;
        assert_hides(&secrets, &shown, &format!("{fault:?}"));
    }
    assert_hides(&secrets, &log.text(), "the log");
}

/// Catches: an error about settings that quotes them.
pub async fn invalid_settings_error_hides_secrets<F: PlatformFixture>() {
    let fixture = F::start().await;
    let secrets = secrets(&fixture);
    for (token, api_url) in F::invalid_settings(USER, PASSWORD) {
        let options = ChannelOptions { token, api_url, blobs: fixture.blobs(), response_timeout: RESPONSE_TIMEOUT };
        match F::open_channel(options) {
            Ok(_) => panic!("the settings are usable"),
            Err(shown) => assert_hides(&secrets, &shown, "an invalid setting"),
        }
    }
}
