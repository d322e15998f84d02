//! Every fault: what the client is told, and what a person sees.

use std::time::{Duration, Instant};

use satchel_domain::{
    PartContent,
    delivery::{Refusal, SendError},
    part::{FileForm, Markup},
};
use satchel_fakes::{FakeFile, FakeMode, Fault, Moment, Operation, ScriptedFault, When};
use satchel_ports::Channel;

use crate::bench::{Bench, photo};

/// What the port says of an answer, without its words.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Sent,
    NotSent(Option<u64>),
    Refused(Refusal),
    Forbidden,
    Unreadable,
    Doubt,
}

fn meaning<T>(answer: Result<T, SendError>) -> Meaning {
    match answer {
        Ok(_) => Meaning::Sent,
        Err(SendError::NotSent { retry_after_ms, .. }) => Meaning::NotSent(retry_after_ms),
        Err(SendError::Refused { refusal, .. }) => Meaning::Refused(refusal),
        Err(SendError::Forbidden { .. }) => Meaning::Forbidden,
        Err(SendError::Unreadable { .. }) => Meaning::Unreadable,
        Err(SendError::InDoubt { .. }) => Meaning::Doubt,
    }
}

/// Each fault, what it means, and whether the message stands there afterwards.
fn table() -> Vec<(Fault, Meaning, bool)> {
    vec![
        (Fault::RefuseConnection { for_ms: 50 }, Meaning::NotSent(None), false),
        (Fault::Outage { for_ms: 50 }, Meaning::Doubt, false),
        (Fault::RateLimit { retry_after_ms: 1_500 }, Meaning::NotSent(Some(1_500)), false),
        (Fault::ServerError, Meaning::NotSent(None), false),
        (Fault::BadGateway { performed: false }, Meaning::Doubt, false),
        (Fault::BadGateway { performed: true }, Meaning::Doubt, true),
        (Fault::Restart { performed: false }, Meaning::NotSent(None), false),
        (Fault::ResetMidTransfer, Meaning::Doubt, false),
        (Fault::ResetAfterRead, Meaning::Doubt, false),
        (Fault::AcceptLate { after_ms: 60_000 }, Meaning::Doubt, false),
        (Fault::AcceptOnRelease, Meaning::Doubt, false),
        (Fault::AcceptAndDrop, Meaning::Doubt, true),
        (Fault::Hang { performed: false }, Meaning::Doubt, false),
        (Fault::Hang { performed: true }, Meaning::Doubt, true),
        (Fault::TooLarge, Meaning::Refused(Refusal::TooLarge { limit: None }), false),
        (Fault::Forbidden, Meaning::Forbidden, false),
        (Fault::ChatGone, Meaning::Forbidden, false),
    ]
}

#[tokio::test]
async fn every_fault_means_what_the_port_says_for_every_kind_of_message() {
    for mode in [FakeMode::TelegramLike, FakeMode::DiscordLike] {
        let bench = Bench::start(mode).await;
        let large = FakeFile::generated("large.bin", "application/octet-stream", 1, 3_000_000);
        let album = [(photo("p"), FileForm::Photo), (photo("q"), FileForm::Photo)];
        let contents = [
            PartContent::from_text("a text"),
            PartContent::File(bench.item(&large, FileForm::Document).await),
            PartContent::Album { items: bench.items(&album).await },
            bench.voice("OggS…", 9).await,
        ];
        let mut number = 0;
        for content in &contents {
            for (fault, expected, stands) in table() {
                number += 1;
                let before = bench.platform.transcript().visible(&bench.conversation).count();
                bench.platform.script_next(Operation::Send, fault);
                let answer = bench.channel.send(&bench.part(number, content.clone())).await;
                let case = format!("{mode:?} {} {fault:?}", content.kind());
                assert_eq!(meaning(answer), expected, "{case}");
                let after = bench.platform.transcript().visible(&bench.conversation).count();
                assert_eq!(after > before, stands, "{case}");
                // Whatever it was, it passes.
                let patience = Instant::now() + Duration::from_secs(10);
                while bench.channel.probe().await.is_err() {
                    assert!(Instant::now() < patience, "{case} does not pass");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn every_fault_of_an_edit_means_the_same() {
    for (fault, expected, stands) in table() {
        let bench = Bench::start(FakeMode::TelegramLike).await;
        let sent = bench.channel.send(&bench.part(1, PartContent::from_text("before"))).await.expect("sent");
        bench.platform.script_next(Operation::Edit, fault);
        let answer = bench.channel.edit(&sent[0], &bench.part(1, PartContent::from_text("after"))).await;
        assert_eq!(meaning(answer), expected, "{fault:?}");
        let shown = bench.platform.transcript();
        let expected = if stands { "after" } else { "before" };
        assert_eq!(shown.visible_texts(&bench.conversation), [expected], "{fault:?}");
    }
}

#[tokio::test]
async fn refusals_of_one_kind_meet_that_kind_only() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let plain = PartContent::Text { text: "a".to_owned(), markup: Markup::Plain, files: Vec::new() };
    let album = [(photo("p"), FileForm::Photo), (photo("q"), FileForm::Photo)];
    let album = PartContent::Album { items: bench.items(&album).await };
    let item = |index| Meaning::Refused(Refusal::Item { index });
    for (fault, content, expected) in [
        (Fault::BadMarkup, PartContent::from_text("*a*"), Meaning::Refused(Refusal::BadMarkup)),
        (Fault::BadMarkup, plain.clone(), Meaning::Sent),
        (Fault::BadItem { index: 1 }, album.clone(), item(1)),
        (Fault::BadItem { index: 2 }, album, Meaning::Sent),
        (Fault::VoiceForbidden, bench.voice("OggS…", 0).await, Meaning::Refused(Refusal::VoiceForbidden)),
        (Fault::VoiceForbidden, plain, Meaning::Sent),
    ] {
        bench.platform.script_next(Operation::Send, fault);
        let answer = bench.channel.send(&bench.part(1, content)).await;
        assert_eq!(meaning(answer), expected, "{fault:?}");
    }
}

#[tokio::test]
async fn a_script_meets_the_requests_that_it_names() {
    for (when, expected) in [
        (When::Nth(2), [true, false, true, true]),
        (When::First(2), [false, false, true, true]),
        (When::From(3), [true, true, false, false]),
        (When::Every, [false; 4]),
    ] {
        let bench = Bench::start(FakeMode::TelegramLike).await;
        bench.platform.script(Operation::Send, when, Fault::ServerError);
        let mut arrived = Vec::new();
        for number in 0..4 {
            arrived.push(bench.channel.send(&bench.part(number, PartContent::from_text("a"))).await.is_ok());
        }
        assert_eq!(arrived, expected, "{when:?}");
        bench.platform.clear_script();
        assert!(bench.channel.send(&bench.part(9, PartContent::from_text("a"))).await.is_ok());
    }
}

#[tokio::test]
async fn a_connection_can_be_refused_in_the_middle_of_a_turn() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    bench.platform.script(Operation::Send, When::Nth(2), Fault::RefuseConnection { for_ms: 100 });
    let part = |number| bench.part(number, PartContent::from_text(format!("text {number}")));
    assert_eq!(meaning(bench.channel.send(&part(1)).await), Meaning::Sent);
    assert_eq!(meaning(bench.channel.send(&part(2)).await), Meaning::NotSent(None));
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(meaning(bench.channel.send(&part(2)).await), Meaning::Sent);
    assert_eq!(bench.platform.requests(Operation::Send), 2, "a refused connection is no request");
}

#[tokio::test]
async fn moments_are_told_while_a_request_hangs() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    bench.platform.script(Operation::Send, When::Nth(1), Fault::Hang { performed: true });
    let arrived = bench.platform.on_nth(Operation::Send, 1, Moment::Arrived);
    let performed = bench.platform.on_nth(Operation::Send, 1, Moment::Performed);
    let mut second = bench.platform.on_nth(Operation::Send, 2, Moment::Arrived);
    let (channel, part) = (bench.channel.clone(), bench.part(1, PartContent::from_text("a")));
    let sending = tokio::spawn(async move { channel.send(&part).await });
    arrived.await.expect("told");
    performed.await.expect("told");
    assert_eq!(bench.platform.transcript().visible_texts(&bench.conversation), ["a"]);
    assert!(second.try_recv().is_err());
    assert_eq!(meaning(sending.await.expect("no panic")), Meaning::Doubt);
}

#[tokio::test]
async fn an_upload_is_not_read_ahead_of_the_platform() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let large = FakeFile::generated("large.bin", "application/octet-stream", 1, 40_000_000);
    let content = PartContent::File(bench.item(&large, FileForm::Document).await);
    let part = bench.part(1, content);
    // It hangs unread: what the client takes from the store is what sockets and buffers hold, not the file.
    bench.platform.script_next(Operation::Send, Fault::Hang { performed: false });
    assert_eq!(meaning(bench.channel.send(&part).await), Meaning::Doubt);
    assert!(bench.blobs.served() < 20_000_000, "{} bytes were read", bench.blobs.served());
    bench.channel.send(&part).await.expect("sent");
    let transcript = bench.platform.transcript();
    let files = transcript.visible_files(&bench.conversation);
    assert_eq!((files[0].bytes, files[0].sha256), (large.bytes(), large.sha256()));
    assert_eq!(files[0].content, None, "bodies are not kept unless asked");
}

#[tokio::test]
async fn bytes_that_break_off_in_mid_upload_are_unreadable_and_nothing_arrives() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    for bytes in [10, 5_000_000] {
        let file = FakeFile::generated("damaged.bin", "application/octet-stream", bytes, bytes);
        let item = bench.item(&file, FileForm::Document).await;
        bench.blobs.damage(&item.attachment.sha256);
        let answer = bench.channel.send(&bench.part(1, PartContent::File(item))).await;
        assert_eq!(meaning(answer), Meaning::Unreadable, "{bytes}");
        assert_eq!(bench.platform.transcript().visible(&bench.conversation).count(), 0, "{bytes}");
    }
}

#[tokio::test]
async fn file_bytes_are_kept_when_asked() {
    let bench = Bench::start(FakeMode::DiscordLike).await;
    bench.platform.keep_file_bytes();
    let item = bench.item(&FakeFile::of("a.txt", "text/plain", "hello"), FileForm::Document).await;
    bench.channel.send(&bench.part(1, PartContent::File(item))).await.expect("sent");
    let transcript = bench.platform.transcript();
    assert_eq!(transcript.visible_files(&bench.conversation)[0].content.as_deref(), Some(b"hello".as_slice()));
}

#[test]
fn scripts_are_data() {
    let line = r#"{"operation":"send","when":{"nth":3},"fault":{"fault":"rate_limit","retry_after_ms":500}}"#;
    let scripted: ScriptedFault = serde_json::from_str(line).expect("a line of a table");
    assert_eq!(scripted.fault, Fault::RateLimit { retry_after_ms: 500 });
    assert_eq!(serde_json::to_string(&scripted).expect("data"), line);
}
