//! The webhook: answered only once an update is stored, and only for those who know the secret.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    net::{SocketAddr, TcpListener},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use reqwest::{Client, StatusCode};
use satchel_contracts::log_capture::LogCapture;
use satchel_fake_kit::{FakeFile, Fault, FaultTiming};
use satchel_fake_telegram::{ApiRefusal, FileKind, PersonMessage, TelegramFault};
use satchel_ports::Channel;
use satchel_requirements::required;
use satchel_telegram::{TelegramError, WebhookSettings};
use satchel_wait::wait_until;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::harness::{ANN, BOB, InboundHarness, ListenerTask, RecordingInbound};

/// Where the bots listen: below the ports that the system gives away by itself, so that nobody gets one in between.
const PORTS: Range<u16> = 10_000..20_000;

/// An address at which nobody listens now.
fn free_address() -> SocketAddr {
    loop {
        // Each hasher has keys of its own, which is all the chance that is needed here.
        let chance = RandomState::new().build_hasher().finish() % u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(chance).expect("it is less than the number of ports");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// A bot that Telegram calls through a proxy, and where that proxy finds it.
async fn bench() -> (InboundHarness, SocketAddr) {
    let mut bench = InboundHarness::start().await;
    let free = free_address();
    bench.settings.webhook = Some(WebhookSettings {
        url: "https://bot.invalid/path/of-its-own?x=1".into(),
        listen: free,
        trusted_proxies: Vec::new(),
    });
    bench.fake.webhook_behind_proxy(free);
    (bench, free)
}

/// The secret that the webhook was set with.
fn secret(bench: &InboundHarness) -> Option<String> {
    let set = bench.fake.calls().into_iter().rfind(|call| call.method == "setwebhook")?;
    set.parameters["secret_token"].as_str().map(str::to_owned)
}

async fn listening(bench: &InboundHarness, taker: &Arc<RecordingInbound>) -> ListenerTask {
    let listening = bench.listen(taker);
    wait_until("the webhook is set", || secret(bench).is_some()).await;
    listening
}

async fn knock(at: SocketAddr, path: &str, secret: Option<&str>, body: String) -> StatusCode {
    let request = Client::new().post(format!("http://{at}{path}")).body(body);
    let request = match secret {
        Some(secret) => request.header("X-Telegram-Bot-Api-Secret-Token", secret),
        None => request,
    };
    request.send().await.expect("it is answered").status()
}

#[tokio::test]
async fn updates_are_called_in_and_stored() {
    let (bench, _) = bench().await;
    bench.fake.person_says(ANN, ANN, "one");
    let taker = RecordingInbound::new();
    let listening = listening(&bench, &taker).await;
    bench.fake.person_says(BOB, BOB, "two");
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["one", "two"]);
    let set = bench.fake.calls().into_iter().find(|call| call.method == "setwebhook").unwrap();
    assert_eq!(set.parameters["url"], "https://bot.invalid/path/of-its-own?x=1");
    assert_eq!(set.parameters.get("drop_pending_updates"), None);
    assert_eq!(bench.fake.requests("getUpdates"), 0);
    let info = bench.call("getWebhookInfo", json!({})).await;
    assert_ne!(info["result"]["url"], "", "Telegram keeps what comes until we are back");
}

#[tokio::test]
async fn telegram_calls_again_until_it_is_stored() {
    let (bench, _) = bench().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    taker.refuse("telegram:42");
    let listening = listening(&bench, &taker).await;
    bench.fake.person_says(ANN, ANN, "hello");
    taker.tried(3).await;
    assert_eq!((taker.texts().len(), bench.fake.unconfirmed_updates()), (0, 1));
    taker.refuse_nothing();
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["hello"]);
    assert_eq!(
        (log.lines_with("storing updates failed"), log.lines_with("storing updates works again")),
        (1, 1),
        "{}",
        log.text()
    );
}

#[tokio::test]
async fn webhook_album_is_whole_despite_late_mention() {
    let (bench, _) = bench().await;
    let group = bench.fake.supergroup("Family", &[ANN, BOB]);
    let (_, name) = bench.fake.bot();
    let item = |name: &str| PersonMessage::file(FileKind::Document, FakeFile::from_bytes(name, "text/plain", "words"));
    let taker = RecordingInbound::new();
    taker.refuse(&format!("telegram:{group}"));
    let listening = listening(&bench, &taker).await;
    bench.fake.person_sends_album(group, BOB, vec![item("0.txt"), item("00.txt").caption("for all of you")]);
    let named = item("3.txt").caption(&format!("keep these @{name}"));
    bench.fake.person_sends_album(group, ANN, vec![item("1.txt"), item("2.txt"), named, item("4.txt")]);
    // What can't be stored at once comes again, with all that belongs to it.
    taker.tried(3).await;
    taker.refuse_nothing();
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    let came = taker.taken();
    let names: Vec<&str> = came.iter().map(|message| message.files[0].filename.as_str()).collect();
    assert_eq!(names, ["1.txt", "2.txt", "3.txt", "4.txt"]);
    assert!(came.iter().all(|message| message.album.is_some() && message.album == came[0].album));
    assert_eq!(taker.texts(), ["", "", "keep these", ""]);
}

#[tokio::test]
async fn it_is_not_answered_before_it_is_stored() {
    let (bench, at) = bench().await;
    let taker = RecordingInbound::shut();
    let listening = listening(&bench, &taker).await;
    bench.fake.person_says(ANN, ANN, "hello");
    taker.tried(1).await;
    assert_eq!(bench.fake.unconfirmed_updates(), 1);
    // What is being stored is let finish, and its call is answered.
    listening.request_stop();
    wait_until("nobody is let in any more", || std::net::TcpStream::connect(at).is_err()).await;
    taker.open();
    listening.stop().await.unwrap();
    bench.all_confirmed().await;
    assert_eq!(taker.texts(), ["hello"]);
}

#[tokio::test]
async fn strangers_and_nonsense_are_turned_away() {
    let (bench, at) = bench().await;
    let taker = RecordingInbound::new();
    let listening = listening(&bench, &taker).await;
    let secret = secret(&bench).unwrap();
    let path = "/path/of-its-own";
    let update = json!({ "update_id": 1, "message": { "message_id": 1, "date": 1, "text": "forged",
        "chat": { "id": ANN, "type": "private", "first_name": "Ann" }, "from": { "id": ANN, "is_bot": false, "first_name": "Ann" } } });
    let mut wrong = secret.clone();
    wrong.replace_range(..1, if secret.starts_with('0') { "1" } else { "0" });
    for (path, shown, body, expected) in [
        (path, None, update.to_string(), StatusCode::FORBIDDEN),
        (path, Some(""), update.to_string(), StatusCode::FORBIDDEN),
        (path, Some(wrong.as_str()), update.to_string(), StatusCode::FORBIDDEN),
        (path, Some(&secret[..63]), update.to_string(), StatusCode::FORBIDDEN),
        ("/", Some(secret.as_str()), update.to_string(), StatusCode::NOT_FOUND),
        (path, Some(secret.as_str()), "no JSON".to_owned(), StatusCode::BAD_REQUEST),
        (path, Some(secret.as_str()), " ".repeat(5 << 20), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        assert_eq!(knock(at, path, shown, body).await, expected, "{path} {shown:?}");
    }
    let looked = Client::new().get(format!("http://{at}{path}")).header("X-Telegram-Bot-Api-Secret-Token", &secret);
    assert_eq!(looked.send().await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(taker.texts().is_empty() && taker.unreadable().is_empty());
    assert_eq!(knock(at, path, Some(&secret), update.to_string()).await, StatusCode::OK);
    assert_eq!(taker.texts(), ["forged"], "the secret is all that tells Telegram from others");
    listening.stop().await.unwrap();
}

/// Comes to this machine by an address of its own that is not the loopback's, as a stranger would.
#[tokio::test]
async fn stranger_cannot_exhaust_webhook_connections() {
    let own = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let own = own.ok().map(|own| own.ip()).filter(|own| !own.is_loopback());
    let Some(own) = required(own.ok_or("an address of this machine besides the loopback's")) else { return };
    let (mut bench, at) = bench().await;
    let everywhere = SocketAddr::from(([0, 0, 0, 0], at.port()));
    bench.settings.webhook = Some(WebhookSettings {
        url: "https://bot.invalid/path/of-its-own?x=1".into(),
        listen: everywhere,
        trusted_proxies: Vec::new(),
    });
    let taker = RecordingInbound::new();
    let listening = listening(&bench, &taker).await;
    let stranger = async || {
        let mut socket = TcpStream::connect((own, at.port())).await.expect("it listens");
        // What is closed at once may be reset while this is sent.
        let _refused = socket.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let answer = tokio::time::timeout(Duration::from_secs(20), socket.read_exact(&mut [0; 12])).await;
        let is_served = answer.expect("it is answered or closed").is_ok();
        is_served.then_some(socket)
    };
    let mut held = Vec::new();
    while let Some(socket) = stranger().await {
        held.push(socket);
        assert!(held.len() <= 64, "the page's share of one peer");
    }
    bench.fake.person_says(ANN, ANN, "hello");
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!((taker.texts(), held.len()), (vec!["hello".to_owned()], 64));
}

#[tokio::test]
async fn misdirected_calls_are_reported_once_until_corrected() {
    let (bench, at) = bench().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    let listening = listening(&bench, &taker).await;
    let secret = secret(&bench).unwrap();
    for (path, shown, told) in [
        ("/", None, 0),
        ("/of-its-own", Some("guessed"), 0),
        ("/of-its-own", Some(secret.as_str()), 1),
        ("/of-its-own", Some(secret.as_str()), 1),
        ("/path/of-its-own", Some(secret.as_str()), 1),
        ("/of-its-own", Some(secret.as_str()), 2),
    ] {
        knock(at, path, shown, "{}".to_owned()).await;
        assert_eq!(log.lines_with("at another path"), told, "{path} {shown:?} {}", log.text());
    }
    listening.stop().await.unwrap();
    assert_eq!(log.lines_with("WARN"), 2, "{}", log.text());
    assert!(!log.text().contains("of-its-own") && !log.text().contains(&secret), "{}", log.text());
}

#[tokio::test]
async fn unreachable_webhook_and_its_recovery_are_reported_once() {
    let (bench, at) = bench().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    let nowhere = free_address();
    bench.fake.webhook_behind_proxy(nowhere);
    bench.fake.person_says(ANN, ANN, "hello");
    let listening = listening(&bench, &taker).await;
    wait_until("it is told", || log.lines_with("can't reach this bot's webhook") == 1).await;
    assert!(log.text().contains("reason=\"Connection refused\" waiting=1"), "{}", log.text());
    bench.fake.webhook_behind_proxy(at);
    wait_until("its end is told", || log.lines_with("Telegram reaches this bot's webhook again") == 1).await;
    listening.stop().await.unwrap();
    assert_eq!((taker.texts(), log.lines_with("WARN")), (vec!["hello".to_owned()], 1), "{}", log.text());
}

#[tokio::test]
async fn webhook_set_with_foreign_secret_is_restored() {
    let (bench, at) = bench().await;
    let taker = RecordingInbound::new();
    let listening = listening(&bench, &taker).await;
    let ours = secret(&bench).unwrap();
    wait_until("it is ours", || bench.fake.requests("setWebhook") == 1).await;
    // The same address, so that only the secret tells.
    let theirs = json!({ "url": "https://bot.invalid/path/of-its-own?x=1", "secret_token": "theirs" });
    assert_eq!(bench.call("setWebhook", theirs).await["ok"], true);
    bench.fake.person_says(ANN, ANN, "hello");
    bench.all_confirmed().await;
    assert_eq!((taker.texts(), secret(&bench)), (vec!["hello".to_owned()], Some(ours)));
    assert_eq!(bench.fake.requests("setWebhook"), 3);
    // By now Telegram was heard, and others knock in vain.
    for _ in 0..3 {
        assert_eq!(knock(at, "/path/of-its-own", Some("theirs"), "{}".to_owned()).await, StatusCode::FORBIDDEN);
    }
    bench.fake.person_says(ANN, ANN, "again");
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!((taker.texts().len(), bench.fake.requests("setWebhook")), (2, 3));
}

#[tokio::test]
async fn strangers_trigger_one_webhook_reset_per_minute() {
    let (bench, at) = bench().await;
    let taker = RecordingInbound::new();
    let listening = listening(&bench, &taker).await;
    let stranger = || knock(at, "/path/of-its-own", Some("guessed"), "{}".to_owned());
    let knocking = async {
        while bench.fake.requests("setWebhook") == 1 {
            assert_eq!(stranger().await, StatusCode::FORBIDDEN);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), knocking).await.expect("it is set again");
    for _ in 0..50 {
        assert_eq!(stranger().await, StatusCode::FORBIDDEN);
    }
    bench.fake.person_says(ANN, ANN, "hello");
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!((taker.texts().len(), bench.fake.requests("setWebhook")), (1, 2));
}

#[tokio::test]
async fn what_cannot_be_read_is_kept_and_confirmed() {
    let (bench, at) = bench().await;
    let taker = RecordingInbound::new();
    let listening = listening(&bench, &taker).await;
    let number = bench.fake.queue_update(json!({ "hologram": 1 }));
    bench.fake.person_says(ANN, ANN, "hello");
    bench.all_confirmed().await;
    let secret = secret(&bench).unwrap();
    for _ in 0..2 {
        let unnumbered: Value = json!(["no", "update"]);
        assert_eq!(knock(at, "/path/of-its-own", Some(&secret), unnumbered.to_string()).await, StatusCode::OK);
    }
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["hello"]);
    let kept = taker.unreadable();
    assert_eq!((kept.len(), kept[0].key.as_str()), (2, number.to_string().as_str()));
}

#[tokio::test]
async fn setting_it_is_tried_until_telegram_answers() {
    let (bench, _) = bench().await;
    let (log, _guard) = LogCapture::listen();
    bench.fake.script("setWebhook", FaultTiming::First(2), Fault::BadGateway { performed: false });
    bench.fake.person_says(ANN, ANN, "hello");
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.texts(), ["hello"]);
    assert!(!log.text().contains("of-its-own") && !log.text().contains(&secret(&bench).unwrap()), "{}", log.text());
}

#[tokio::test]
async fn refused_webhook_url_ends_listener_with_explanation() {
    let (bench, _) = bench().await;
    let words = "Bad Request: bad webhook: An HTTPS URL must be provided for webhook";
    bench.fake.script("setWebhook", FaultTiming::Every, TelegramFault::Refuse(ApiRefusal::new(400, words)));
    let failed = bench.listen(&RecordingInbound::new()).ended().await.unwrap_err();
    assert!(failed.to_string().contains("HTTPS URL must be provided"), "{failed}");
}

#[tokio::test]
async fn occupied_listen_address_ends_listener_with_explanation() {
    let (bench, at) = bench().await;
    let _taken = TcpListener::bind(at).unwrap();
    let failed = bench.listen(&RecordingInbound::new()).ended().await.unwrap_err();
    assert!(matches!(failed, TelegramError::Listen { address, .. } if address == at), "{failed:?}");
}

/// Catches: a process that ends because another program took the webhook's address while the token was revoked.
#[tokio::test]
async fn address_that_was_taken_while_the_channel_was_closed_is_waited_for() {
    let (bench, address) = bench().await;
    let (log, _guard) = LogCapture::listen();
    let (channel, taker) = (Arc::new(bench.channel()), RecordingInbound::new());
    let listening = bench.listen_beside(Arc::clone(&channel), &taker);
    bench.fake.person_says(ANN, ANN, "before");
    bench.all_confirmed().await;
    bench.fake.revoke_token(bench.fake.token());
    channel.probe().await.unwrap_err();
    let mut taken = None;
    wait_until("the address is free", || {
        taken = TcpListener::bind(address).ok();
        taken.is_some()
    })
    .await;
    bench.fake.accept_token(bench.fake.token());
    wait_until("it is tried", || log.lines_with("listening for the webhook") == 1).await;
    drop(taken);
    bench.fake.person_says(ANN, ANN, "after");
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["before", "after"]);
}
