//! What the wrappers count, seen as a scraper sees it.

use std::{num::NonZeroU64, panic::AssertUnwindSafe, path::Path};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelClosure, ChannelName, ChannelState, ConversationId, DiskReserve,
    FileReference, Filename, InboundMessage, MediaInfo, MessageRef, OutgoingResponse, Part, PartContent, PartId,
    Sender, Sha256, Timestamp, TurnId, Visibility, WorkspacePath,
    delivery::SendError,
    part::{FileForm, FileItem},
};
use satchel_local::{LocalBus, ModelScript, ScriptedModel};
use satchel_ports::ledger::{GatewayDuty, GatewayId, GatewayLease, Gateways, HolderId, MockGateways, Usage};
use satchel_ports::{
    BusEvent, Channel, EventBus, FetchedFile, FileFetchError, Inbound, LanguageModel, LedgerError, MockChannel,
    MockInbound, MockLedger, MockWorkspace, ModelRequest, PostRequest, StoredBlob, Workspace, WorkspaceError,
    WriteMode,
    workspace::{RestoredFiles, TrashBatch, TrashedEntry, WorkspaceEntryKind},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;

/// When the metrics are read.
const NOW: Timestamp = Timestamp(1_000_000);

fn conversation(name: &str) -> ConversationId {
    name.parse().unwrap()
}

fn turn() -> TurnId {
    TurnId(Uuid::nil())
}

/// A ledger whose oldest part under way was planned so many seconds ago.
fn ledger(age: Option<u64>) -> MockLedger {
    let mut ledger = ledger_without_usages(age);
    ledger.storage.expect_usages().returning(|_| Ok(Vec::new()));
    ledger
}

fn ledger_without_usages(age: Option<u64>) -> MockLedger {
    let mut ledger = MockLedger::default();
    ledger.leases.expect_longest_wait().returning(|| Ok(None));
    ledger.archive.expect_count_undecodable().returning(|| Ok(Vec::new()));
    ledger.archive.expect_parts().withf(|query| query.unsettled_only && query.limit == Some(1)).returning(move |_| {
        let part = age.map(|age| {
            Part::new(
                PartId(Uuid::nil()),
                conversation("web:a"),
                turn(),
                0,
                PartContent::from_text("x"),
                Timestamp(1_000_000 - i64::try_from(age).unwrap() * 1000),
            )
        });
        Ok(part.into_iter().collect())
    });
    ledger
}

/// The lines of the text that hold a sample, without those of the buckets and those that count nothing yet.
async fn samples(metrics: &Metrics) -> Vec<String> {
    let text = metrics.render(&ledger(None).into(), NOW).await;
    let wanted = |line: &&str| {
        !line.starts_with('#')
            && !line.contains("_bucket")
            && !line.contains("seconds_sum")
            && !line.contains("build_info")
    };
    text.lines().filter(wanted).map(str::to_owned).collect()
}

#[tokio::test]
async fn what_is_published_is_counted_and_still_published() {
    let metrics = Metrics::new(&["web"], Vec::new());
    let bus = MeasuredBus::new(Arc::new(LocalBus::new()), Arc::clone(&metrics));
    let mut heard = bus.subscribe().await.unwrap();
    let delivered = |conversation: ConversationId, kind: &str, state: &str| BusEvent::DeliveryPart {
        conversation,
        turn: turn(),
        part: PartId(Uuid::nil()),
        kind: kind.to_owned(),
        state: state.to_owned(),
        messages: Vec::new(),
        reason: None,
    };
    let completed = |conversation: ConversationId, ending: &str| BusEvent::TurnCompleted {
        conversation,
        turn: turn(),
        ending: ending.to_owned(),
        response: OutgoingResponse::default(),
    };
    let web = conversation("web:a");
    let events = [
        BusEvent::MessageReceived { conversation: web.clone(), turn: turn() },
        completed(web.clone(), "done"),
        completed(conversation("web:b"), "done"),
        completed(web.clone(), "model_failed"),
        delivered(web.clone(), "text", "sent"),
        delivered(web.clone(), "file", "in_doubt"),
        delivered(web, "file", "failed"),
        // Whatever a later version or a stranger writes, the number of series stays bounded.
        delivered(conversation("elsewhere:1"), "hologram", "evaporated"),
    ];
    for event in events.clone() {
        bus.publish(event).await.unwrap();
    }
    for event in events {
        assert_eq!(heard.next().await, Some(event));
    }
    let mut samples = samples(&metrics).await;
    samples.sort();
    assert_eq!(
        samples,
        [
            r#"satchel_messages_total{channel="web"} 1"#,
            "satchel_oldest_part_age_seconds 0.0",
            "satchel_oldest_turn_age_seconds 0.0",
            r#"satchel_parts_total{channel="other",kind="other",state="other"} 1"#,
            r#"satchel_parts_total{channel="web",kind="file",state="failed"} 1"#,
            r#"satchel_parts_total{channel="web",kind="file",state="in_doubt"} 1"#,
            r#"satchel_parts_total{channel="web",kind="text",state="sent"} 1"#,
            r#"satchel_turns_total{channel="web",ending="done"} 2"#,
            r#"satchel_turns_total{channel="web",ending="model_failed"} 1"#,
        ]
    );
}

fn file(bytes: u64) -> PartContent {
    let attachment = Attachment {
        id: AttachmentId(Uuid::nil()),
        number: NonZeroU64::MIN,
        conversation: conversation("web:a"),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted("a.bin"),
        mime: "application/octet-stream".to_owned(),
        bytes,
        sha256: Sha256([0; 32]),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    };
    PartContent::File(FileItem { attachment, form: FileForm::Document, caption: String::new() })
}

#[tokio::test]
async fn channel_attempts_doubts_and_bytes_are_counted() {
    let mut inner = MockChannel::new();
    inner.expect_name().returning(|| ChannelName::new("web").unwrap());
    let mut answers = vec![
        Ok(vec![MessageRef("1".into())]),
        Err(SendError::InDoubt { reason: "reset".into() }),
        Err(SendError::NotSent { retry_after_ms: None, reason: "429".into() }),
    ];
    inner.expect_post().returning(move |_| answers.pop().unwrap());
    inner.expect_edit().returning(|_, _| Err(SendError::Forbidden { reason: "blocked".into() }));
    inner.expect_fetch().returning(|reference| match reference.locator.as_str() {
        "stream" => Ok(FetchedFile::Bytes {
            bytes: None,
            content: Box::pin(stream::iter([Ok(Bytes::from_static(b"12345")), Ok(Bytes::from_static(b"67"))])),
        }),
        "stored" => Ok(FetchedFile::Stored(StoredBlob {
            sha256: Sha256([0; 32]),
            bytes: 100,
            mime: "text/plain".into(),
            media: MediaInfo::default(),
        })),
        _ => Err(FileFetchError::Permanent { reason: "gone".into() }),
    });
    let metrics = Metrics::new(&["web"], Vec::new());
    let channel = MeasuredChannel::new(Arc::new(inner), Arc::clone(&metrics));
    let part = |content| PostRequest {
        part_id: PartId(Uuid::nil()),
        turn: turn(),
        conversation: conversation("web:a"),
        content,
        reply_to: None,
    };
    for _ in 0..3 {
        let _whatever = channel.post(&part(file(1_000))).await;
    }
    let _refused = channel.edit(&MessageRef("1".into()), &part(PartContent::from_text("x"))).await;
    for locator in ["stream", "stored", "gone"] {
        let reference = FileReference::new(locator.to_owned(), Filename::from_untrusted("a"));
        if let Ok(FetchedFile::Bytes { content, .. }) = channel.fetch(&reference).await {
            let pieces: Vec<Bytes> = content.try_collect().await.unwrap();
            assert_eq!(pieces.concat(), b"1234567", "the bytes are the same");
        }
    }
    let mut samples = samples(&metrics).await;
    samples.sort();
    assert_eq!(
        samples,
        [
            r#"satchel_attempt_duration_seconds_count{channel="web"} 4"#,
            r#"satchel_attempts_total{channel="web",kind="file",answer="in_doubt"} 1"#,
            r#"satchel_attempts_total{channel="web",kind="file",answer="not_sent"} 1"#,
            r#"satchel_attempts_total{channel="web",kind="file",answer="sent"} 1"#,
            r#"satchel_attempts_total{channel="web",kind="text",answer="forbidden"} 1"#,
            r#"satchel_file_bytes_total{channel="web",direction="in"} 107"#,
            r#"satchel_file_bytes_total{channel="web",direction="out"} 1000"#,
            "satchel_oldest_part_age_seconds 0.0",
            "satchel_oldest_turn_age_seconds 0.0",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn model_calls_are_counted_by_result() {
    let script = r#"{"answers": [
        {"pieces": [{"wait_ms": 300}, {"text": "a"}, {"wait_ms": 2000}, {"text": "b"},
                    {"usage": {"input_tokens": 11, "output_tokens": 7}}]},
        {"refuse": {"reason": "overloaded", "retryable": true}},
        {"pieces": [{"text": "half"}, "break_off"]},
        {"pieces": [{"text": "never read"}, {"wait_ms": 60000}, {"text": "never read"}]}
    ]}"#;
    let script: ModelScript = serde_json::from_str(script).unwrap();
    let metrics = Metrics::new(&[], Vec::new());
    let model = MeasuredModel::new(Arc::new(ScriptedModel::new(script)), Arc::clone(&metrics), "main");
    let request =
        || ModelRequest { system: String::new(), messages: Vec::new(), tools: Arc::from([]), work_share: None };
    let whole = model.stream(&request()).await.unwrap();
    assert_eq!(whole.filter(|event| std::future::ready(event.is_ok())).count().await, 4);
    assert!(model.stream(&request()).await.is_err());
    assert!(model.stream(&request()).await.unwrap().count().await >= 1);
    let mut dropped = model.stream(&request()).await.unwrap();
    dropped.next().await;
    drop(dropped);

    let text = metrics.render(&ledger(None).into(), NOW).await;
    for line in [
        r#"satchel_model_calls_total{model="main",outcome="done"} 1"#,
        r#"satchel_model_calls_total{model="main",outcome="failed"} 2"#,
        r#"satchel_model_calls_total{model="main",outcome="stopped"} 1"#,
        r#"satchel_model_tokens_total{model="main",direction="input"} 11"#,
        r#"satchel_model_tokens_total{model="main",direction="output"} 7"#,
        r#"satchel_model_first_piece_seconds_count{model="main"} 3"#,
        r#"satchel_model_first_piece_seconds_bucket{le="0.25",model="main"} 2"#,
        r#"satchel_model_answer_seconds_count{model="main"} 1"#,
        r#"satchel_model_answer_seconds_bucket{le="2.5",model="main"} 1"#,
        r#"satchel_model_answer_seconds_bucket{le="1.0",model="main"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn ages_are_unknown_when_ledger_fails() {
    let metrics = Metrics::new(&["web"], Vec::new());
    let ages = async |ledger: MockLedger| {
        let text = metrics.render(&ledger.into(), NOW).await;
        ["satchel_oldest_part_age_seconds ", "satchel_oldest_turn_age_seconds "]
            .map(|name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned())
    };
    assert_eq!(ages(ledger(Some(90))).await, ["90.0", "0.0"]);
    assert_eq!(ages(ledger(None)).await, ["0.0", "0.0"]);
    let mut broken = MockLedger::default();
    broken.archive.expect_parts().returning(|_| Err(LedgerError::Full));
    broken.archive.expect_count_undecodable().returning(|| Err(LedgerError::Full));
    broken.storage.expect_usages().returning(|_| Err(LedgerError::Full));
    broken.leases.expect_longest_wait().returning(|| Err(LedgerError::Full));
    assert_eq!(ages(broken).await, ["NaN", "NaN"]);
}

#[tokio::test]
async fn refused_senders_and_undecodable_updates_are_counted() {
    let metrics = Metrics::new(&["telegram"], Vec::new());
    let mut mock = MockInbound::new();
    mock.expect_accept().returning(|message| Ok((message.key == "known").then(turn)));
    let inbound = MeasuredInbound::new(Arc::new(mock), Arc::clone(&metrics));
    for key in ["strange", "known", "strange"] {
        let sender = Sender::new("7", "Ada");
        inbound.accept(InboundMessage::new(conversation("telegram:7"), key.to_owned(), sender)).await.unwrap();
    }
    assert_eq!(
        samples(&metrics).await,
        [
            r#"satchel_turned_away_total{channel="telegram"} 2"#,
            "satchel_oldest_part_age_seconds 0.0",
            "satchel_oldest_turn_age_seconds 0.0",
        ]
    );

    for counted in [3, 2] {
        let mut ledger = MockLedger::default();
        ledger.leases.expect_longest_wait().returning(|| Ok(None));
        ledger.archive.expect_parts().returning(|_| Ok(Vec::new()));
        let unreadable = |name, updates| UndecodableCount { channel: ChannelName::new(name).unwrap(), updates };
        ledger
            .archive
            .expect_count_undecodable()
            .returning(move || Ok(vec![unreadable("telegram", counted), unreadable("x", 1)]));
        ledger.storage.expect_usages().returning(|_| Ok(Vec::new()));
        let text = metrics.render(&ledger.into(), NOW).await;
        assert!(text.contains(&format!("satchel_unreadable_updates{{channel=\"telegram\"}} {counted}\n")), "{text}");
        assert!(text.contains("satchel_unreadable_updates{channel=\"other\"} 1\n"), "{text}");
    }
    let guide = include_str!("../../../docs/guide/operating.md");
    assert!(guide.contains("`satchel_unreadable_updates`"));
}

#[tokio::test]
async fn kept_files_are_summed_by_channel() {
    let metrics = Metrics::new(&["telegram"], Vec::new());
    let conversation = |name: &str, bytes| Usage {
        scope: UsageScope::Conversation(name.parse().unwrap()),
        files: 2,
        bytes,
        workspace_bytes: 5,
    };
    let of_person =
        Usage { scope: UsageScope::Person("telegram:7".parse().unwrap()), ..conversation("telegram:1", 40) };
    let usages =
        vec![conversation("telegram:1", 10), conversation("telegram:2", 30), of_person, conversation("web:a", 1)];
    for _ in 0..2 {
        let mut ledger = ledger_without_usages(None);
        let usages = usages.clone();
        ledger.storage.expect_usages().withf(|query| *query == UsageQuery::All).returning(move |_| Ok(usages.clone()));
        let text = metrics.render(&ledger.into(), NOW).await;
        for line in [
            r#"satchel_kept_files{channel="telegram"} 4"#,
            r#"satchel_kept_bytes{channel="telegram"} 50"#,
            r#"satchel_kept_files{channel="other"} 2"#,
            r#"satchel_kept_bytes{channel="other"} 6"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
    let guide = include_str!("../../../docs/guide/operating.md");
    assert!(guide.contains("`satchel_kept_files`") && guide.contains("`satchel_kept_bytes`"));
}

/// Mutation: a change that fails, or is cut off, counts as done or not at all.
#[tokio::test]
async fn file_changes_are_counted_without_paths() {
    let path: WorkspacePath = "/shared/secret-plan".parse().unwrap();
    let mut inner = MockWorkspace::new();
    inner.expect_write().times(1).return_once(|_, _, _, _, _| Ok(3));
    inner.expect_write().times(1).return_once(|_, _, _, _, _| Err(WorkspaceError::QuotaExceeded { quota: 1 }));
    inner.expect_write().times(1).return_once(|_, _, _, _, _| panic!("the turn is stopped"));
    inner.expect_remove().returning(|_, path| {
        Err(WorkspaceError::Unconfirmed { path: path.clone(), reason: "input/output error".to_owned() })
    });
    let trashed = TrashedEntry { kind: WorkspaceEntryKind::File, bytes: 3 };
    inner.expect_trash().returning(move |_, _, _, _| Ok(trashed));
    let restored = vec![path.clone(), "/tmp/b".parse().unwrap()];
    inner
        .expect_restore()
        .times(1)
        .returning(move |_, _| Ok(RestoredFiles { restored: restored.clone(), ..RestoredFiles::default() }));
    inner.expect_restore().returning(|_, _| {
        Ok(RestoredFiles { failure: Some("input/output error".to_owned()), ..RestoredFiles::default() })
    });
    let metrics = Metrics::new(&["web"], Vec::new());
    let workspace = MeasuredWorkspace::new(Arc::new(inner), Arc::clone(&metrics));
    let web = conversation("web:a");
    for _ in 0..3 {
        let write = workspace.write(&web, &path, Box::pin(stream::empty()), WriteMode::Replace, 3);
        let _whatever = AssertUnwindSafe(write).catch_unwind().await;
    }
    let _unconfirmed = workspace.remove(&web, &path).await;
    let batch = TrashBatch { deleted_at: Timestamp(1), id: Uuid::nil() };
    workspace.trash(&web, &path, batch, false).await.unwrap();
    workspace.restore(&web, Uuid::nil()).await.unwrap();
    workspace.restore(&web, Uuid::nil()).await.unwrap();
    let mut samples = samples(&metrics).await;
    samples.retain(|sample| sample.contains("file_changes"));
    samples.sort();
    assert_eq!(
        samples,
        [
            r#"satchel_file_changes_total{action="delete",outcome="done"} 1"#,
            r#"satchel_file_changes_total{action="delete",outcome="unconfirmed"} 1"#,
            r#"satchel_file_changes_total{action="restore",outcome="done"} 2"#,
            r#"satchel_file_changes_total{action="restore",outcome="failed"} 1"#,
            r#"satchel_file_changes_total{action="write",outcome="done"} 1"#,
            r#"satchel_file_changes_total{action="write",outcome="failed"} 1"#,
            r#"satchel_file_changes_total{action="write",outcome="unknown"} 1"#,
        ]
    );
    let guide = include_str!("../../../docs/guide/operating.md");
    assert!(guide.contains("`satchel_file_changes_total`"));
}

fn file_directory(path: &Path) -> FileDirectory {
    FileDirectory { role: "data", path: path.to_owned(), reserve: DiskReserve::Bytes(1 << 20) }
}

#[tokio::test]
async fn free_disk_and_its_reserve_are_measured() {
    let directory = tempfile::tempdir().unwrap();
    let metrics = Metrics::new(&[], vec![file_directory(directory.path())]);
    let samples = samples(&metrics).await;
    let of_disk = |name: &str| {
        let sample = samples.iter().find_map(|line| line.strip_prefix(&format!("{name}{{holds=\"data\"}} ")));
        sample.and_then(|bytes| bytes.parse::<u64>().ok())
    };
    assert!(of_disk("satchel_disk_free_bytes").is_some_and(|free| free > 0), "{samples:?}");
    assert_eq!(of_disk("satchel_disk_reserve_bytes"), Some(1 << 20), "{samples:?}");
}

#[tokio::test]
async fn every_metric_is_in_the_guide() {
    let metrics = Metrics::new(&["web"], vec![file_directory(Path::new("/"))]);
    let (channel, model) = (|| "web".to_owned(), || "main".to_owned());
    // What has counted nothing yet is not in the text.
    metrics.messages.get_or_create(&ChannelLabels { channel: channel() }).inc();
    metrics.refused.get_or_create(&ChannelLabels { channel: channel() }).inc();
    metrics.turns.get_or_create(&TurnLabels { channel: channel(), ending: OTHER }).inc();
    metrics.parts.get_or_create(&PartLabels { channel: channel(), kind: OTHER, state: OTHER }).inc();
    metrics.attempts.get_or_create(&AttemptLabels { channel: channel(), kind: OTHER, answer: OTHER }).inc();
    metrics.attempt_seconds.get_or_create(&ChannelLabels { channel: channel() }).observe(1.0);
    metrics.bytes.get_or_create(&ByteLabels { channel: channel(), direction: OTHER }).inc();
    metrics.model_calls.get_or_create(&ModelCallLabels { model: model(), outcome: OTHER }).inc();
    metrics.model_first_delta_seconds.get_or_create(&ModelLabels { model: model() }).observe(1.0);
    metrics.model_answer_seconds.get_or_create(&ModelLabels { model: model() }).observe(1.0);
    metrics.model_tokens.get_or_create(&TokenLabels { model: model(), direction: OTHER }).inc();
    let guide = include_str!("../../../docs/guide/operating.md");
    let text = metrics.render(&ledger(None).into(), NOW).await;
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.len() > 10, "{names:?}");
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.rsplit(' ').next());
    for of in types {
        assert!(["counter", "gauge", "histogram"].contains(&of), "readers of the older format don't know {of}");
    }
    for name in names {
        assert!(guide.contains(&format!("`{name}")), "{name} is not in docs/guide/operating.md");
    }
}

#[tokio::test]
async fn metrics_server_answers_one_path_and_survives_nonsense() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let render: server::RenderText = Arc::new(|| Box::pin(async { "figures 1\n# EOF\n".to_owned() }));
    let serving = tokio::spawn(server::serve(listener, render, stop.clone()));
    let ask = async |request: &str| {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // What was written before the connection was cut is the answer.
        let _cut = connection.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    let good = ask("GET /metrics?x=1 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await;
    assert!(good.starts_with("HTTP/1.1 200 OK\r\n") && good.ends_with("\r\n\r\nfigures 1\n# EOF\n"), "{good}");
    assert!(good.contains("content-type: application/openmetrics-text; version=1.0.0"), "{good}");
    let head = ask("HEAD /metrics HTTP/1.1\r\nHost: localhost:9187\r\n\r\n").await;
    assert!(head.contains("content-length: 16") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\nhost: [::1]:9187\r\n\r\n", "404"),
        ("GET /metrics/../etc/passwd HTTP/1.1\r\nhost: 10.0.0.1:9187\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("\u{0}\u{1}\u{2}\r\n\r\n", "400"),
    ] {
        let answer = ask(request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {answer}");
    }
    // A page that lets its own name point here asks under that name.
    for host in [
        "",
        "host:\r\n",
        "host: evil.example:9187\r\n",
        "host: localhost.evil.example\r\n",
        "host: 127.0.0.1.evil.example\r\n",
        "host: 127.0.0.1:evil\r\n",
        "host: [evil]:9187\r\n",
        "host: evil@127.0.0.1\r\n",
        "host: localhost\r\nhost: evil.example\r\n",
    ] {
        let answer = ask(&format!("GET /metrics HTTP/1.1\r\n{host}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 421") && !answer.contains("figures 1"), "{host:?}: {answer}");
    }
    let endless = ask(&"x".repeat(20_000)).await;
    assert!(endless.is_empty() || endless.starts_with("HTTP/1.1 431"), "{endless}");
    let _idle = TcpStream::connect(address).await.unwrap();
    assert!(
        ask("GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await.contains("200 OK"),
        "one that says nothing holds up nobody"
    );
    stop.cancel();
    serving.await.unwrap();
}

#[tokio::test]
async fn closed_channels_are_shown_until_they_open() {
    let closed = ChannelState::Closed(ChannelClosure {
        credentials: "1".into(),
        number: 1,
        platform: "Telegram",
        reason: "no longer accepts the bot's token".into(),
        remedy: "get a new one".into(),
        since: NOW,
    });
    let channel = |name: &'static str, mut states: Vec<ChannelState>| -> Arc<dyn Channel> {
        let mut channel = MockChannel::new();
        channel.expect_name().returning(move || ChannelName::new(name).unwrap());
        channel.expect_state().returning(move || states.pop().unwrap());
        Arc::new(channel)
    };
    let open = ChannelState::Open;
    let channels =
        [channel("telegram", vec![open.clone(), closed]), channel("discord", vec![open.clone(), open.clone()])];
    let metrics = Metrics::new(&["telegram", "discord"], Vec::new());
    metrics.watch_channels(&channels);
    for telegram in [1, 0] {
        let samples = samples(&metrics).await;
        for (channel, value) in [("telegram", telegram), ("discord", 0)] {
            let line = format!(r#"satchel_channel_closed{{channel="{channel}",reason="account_refused"}} {value}"#);
            assert!(samples.contains(&line), "{line} in {samples:?}");
        }
    }
}

#[tokio::test]
async fn takeovers_and_lost_leases_are_counted() {
    let metrics = Metrics::new(&["telegram", "web"], Vec::new());
    let mut gateways = MockGateways::new();
    let mut answers = [false, false, true, true].into_iter();
    gateways.expect_claim_gateway().returning(move |gateway| {
        let lease = GatewayLease { gateway: gateway.clone(), holder: HolderId(Uuid::nil()), token: 1 };
        Ok(answers.next().unwrap_or(true).then_some(lease))
    });
    gateways.expect_renew_gateway().returning(|_| Ok(false));
    let gateways = MeasuredGateways::new(Arc::new(gateways), Arc::clone(&metrics));
    let telegram = GatewayId { channel: ChannelName::new("telegram").unwrap(), duty: GatewayDuty::Receive };
    for _ in 0..3 {
        gateways.claim_gateway(&telegram).await.unwrap();
    }
    let at_once = GatewayId { duty: GatewayDuty::Deliver, ..telegram };
    let lease = gateways.claim_gateway(&at_once).await.unwrap().unwrap();
    let losses = Arc::new(AtomicU64::new(0));
    metrics.watch_lost_leases("agent", Arc::clone(&losses));
    let mut ledger = ledger(None);
    ledger.leases.checkpoint();
    ledger.leases.expect_longest_wait().returning(|| Ok(Some(Duration::from_secs(7))));
    let ledger = ledger.into();
    losses.fetch_add(2, Ordering::Relaxed);
    metrics.render(&ledger, NOW).await;
    losses.fetch_add(1, Ordering::Relaxed);
    assert!(!gateways.renew_gateway(&lease).await.unwrap());
    let text = metrics.render(&ledger, NOW).await;
    for line in [
        r#"satchel_gateway_takeovers_total{channel="telegram",duty="receive"} 1"#,
        r#"satchel_gateway_held{channel="telegram",duty="receive"} 1"#,
        r#"satchel_gateway_held{channel="telegram",duty="deliver"} 0"#,
        r#"satchel_lost_leases_total{role="agent"} 3"#,
        "satchel_oldest_turn_age_seconds 7.0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
    }
    let free = r#"satchel_gateway_takeovers_total{channel="telegram",duty="deliver"}"#;
    assert!(!text.contains(free), "it was free: {text}");
}
