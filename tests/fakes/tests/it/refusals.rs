//! Every rule that the fake enforces, each with a message that it refuses and one at the limit that it takes.

use std::time::Duration;

use satchel_domain::{
    MessageRef, PartContent,
    delivery::{Refusal, SendError},
    part::{FileForm, Markup},
};
use satchel_fakes::{FakeFile, FakeMode, Fault, Moment, Operation, PlatformRules};
use satchel_ports::Channel;

use crate::bench::{Bench, photo, small};

const MIB: u64 = 1024 * 1024;

fn plain(text: impl Into<String>) -> PartContent {
    PartContent::Text { text: text.into(), markup: Markup::Plain, files: Vec::new() }
}

/// Sends each content, and sees that it is refused as expected (`None`: taken) and that refusals leave nothing.
async fn check(bench: &Bench, cases: Vec<(&str, PartContent, Option<Refusal>)>) {
    for (number, (case, content, expected)) in (1..).zip(cases) {
        let before = bench.platform.transcript();
        let answer = bench.channel.send(&bench.part(number, content)).await;
        let refused = match answer {
            Ok(_) => None,
            Err(SendError::Refused { refusal, .. }) => Some(Ok(refusal)),
            Err(other) => Some(Err(other)),
        };
        assert_eq!(refused, expected.map(Ok), "{case}");
        if refused.is_some() {
            assert_eq!(bench.platform.transcript(), before, "{case} left something");
        }
    }
}

#[tokio::test]
async fn telegram_refuses_texts_and_captions_that_are_too_long_or_empty() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let too_long = || Some(Refusal::TooLarge { limit: Some(4096) });
    let mut captioned = bench.item(&small("a.txt"), FileForm::Document).await;
    captioned.caption = "ё".repeat(1024);
    let mut over = captioned.clone();
    over.caption.push('!');
    let album = PartContent::Album { items: vec![captioned.clone(), over.clone()] };
    check(
        &bench,
        vec![
            ("an empty text", plain(" \n"), Some(Refusal::Other)),
            ("4096 units", plain("🙂".repeat(2048)), None),
            ("4097 units", plain("🙂".repeat(2048) + "a"), too_long()),
            ("tags are not counted", PartContent::from_text(format!("**{}**", "a".repeat(4096))), None),
            ("but words are", PartContent::from_text(format!("**{}**", "a".repeat(4097))), too_long()),
            ("a caption of 1024", PartContent::File(captioned), None),
            ("a caption of 1025", PartContent::File(over), Some(Refusal::Other)),
            ("in an album it is named", album, Some(Refusal::Item { index: 1 })),
        ],
    )
    .await;
}

#[tokio::test]
async fn telegram_refuses_files_by_size_and_photos_by_shape() {
    let rules = PlatformRules { file_bytes: 2 * MIB, photo_bytes: MIB, ..FakeMode::TelegramLike.rules() };
    let bench = Bench::with_rules(rules).await;
    let too_large = || Some(Refusal::TooLarge { limit: Some(2 * MIB) });
    let shaped = |width, height, bytes| FakeFile::photo("p.png", width, height, 1, bytes);
    let noise = |bytes| FakeFile::generated("n.bin", "application/octet-stream", 1, bytes);
    let document = FileForm::Document;
    let mut cases = Vec::new();
    for (case, file, form, expected) in [
        ("a file at the limit", noise(2 * MIB), document, None),
        ("a byte more", noise(2 * MIB + 1), document, too_large()),
        ("an empty file", noise(0), document, Some(Refusal::UnsupportedKind)),
        ("a photo at the limit", shaped(640, 480, MIB), FileForm::Photo, None),
        ("a photo a byte larger", shaped(640, 480, MIB + 1), FileForm::Photo, Some(Refusal::UnsupportedKind)),
        ("the same as a document", shaped(640, 480, MIB + 1), document, None),
        ("sides of 10000", shaped(5_000, 5_000, 100), FileForm::Photo, None),
        ("sides of 10001", shaped(5_001, 5_000, 100), FileForm::Photo, Some(Refusal::UnsupportedKind)),
        ("20 to 1", shaped(2_000, 100, 100), FileForm::Photo, None),
        ("over 20 to 1", shaped(2_001, 100, 100), FileForm::Photo, Some(Refusal::UnsupportedKind)),
        ("no image", noise(1_000), FileForm::Photo, Some(Refusal::UnsupportedKind)),
    ] {
        cases.push((case, PartContent::File(bench.item(&file, form).await), expected));
    }
    check(&bench, cases).await;
}

#[tokio::test]
async fn telegram_refuses_albums_by_number_and_kind() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let wrong = || Some(Refusal::UnsupportedKind);
    let (document, audio) = (FileForm::Document, FileForm::Audio);
    let broken = FakeFile::of("b.png", "image/png", "no image");
    let mut cases = Vec::new();
    for (case, files, expected) in [
        ("one", vec![(small("1"), document)], wrong()),
        ("two", vec![(small("1"), document), (small("2"), document)], None),
        ("ten", vec![(photo("p"), FileForm::Photo); 10], None),
        ("eleven", vec![(photo("p"), FileForm::Photo); 11], wrong()),
        ("photo and video", vec![(photo("p"), FileForm::Photo), (small("v"), FileForm::Video)], None),
        ("photo and document", vec![(photo("p"), FileForm::Photo), (small("d"), document)], wrong()),
        ("audio and audio", vec![(small("1"), audio), (small("2"), audio)], None),
        ("audio and document", vec![(small("1"), audio), (small("2"), document)], wrong()),
        ("animations", vec![(small("1"), FileForm::Animation), (small("2"), FileForm::Animation)], wrong()),
        (
            "a broken photo",
            vec![(photo("p"), FileForm::Photo), (broken, FileForm::Photo)],
            Some(Refusal::Item { index: 1 }),
        ),
    ] {
        cases.push((case, PartContent::Album { items: bench.items(&files).await }, expected));
    }
    check(&bench, cases).await;
}

#[tokio::test]
async fn telegram_refuses_files_on_a_text_and_voices_that_are_none() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let files = bench.items(&[(small("a"), FileForm::Document)]).await;
    let bundle = PartContent::Text { text: "a".to_owned(), markup: Markup::Plain, files };
    check(
        &bench,
        vec![
            ("files on a text", bundle, Some(Refusal::UnsupportedKind)),
            ("OGG", bench.voice("OggS…", 0).await, None),
            ("MP3", bench.voice("ID3…", 0).await, Some(Refusal::UnsupportedKind)),
        ],
    )
    .await;
}

#[tokio::test]
async fn telegram_refuses_edits_that_change_nothing_or_add_files() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let sent = bench.channel.send(&bench.part(1, plain("a"))).await.expect("sent");
    // The platform says no, and the channel knows that this no is a yes.
    let answer = bench.channel.edit(&sent[0], &bench.part(1, plain("a"))).await;
    assert_eq!(answer, Ok(sent.clone()));
    assert_eq!(bench.platform.transcript().messages(&bench.conversation)[0].edits, []);
    let files = bench.items(&[(small("a"), FileForm::Document)]).await;
    let bundle = PartContent::Text { text: "b".to_owned(), markup: Markup::Plain, files };
    let answer = bench.channel.edit(&sent[0], &bench.part(1, bundle)).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::UnsupportedKind, .. })), "{answer:?}");
    let nothing = MessageRef("404".to_owned());
    let answer = bench.channel.edit(&nothing, &bench.part(1, plain("b"))).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
}

#[tokio::test]
async fn telegram_has_no_history_and_knows_no_nonce() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let part = bench.part(1, plain("a"));
    assert_eq!(bench.find(&part).await, Ok(None));
    assert_eq!(bench.platform.requests(Operation::History), 0);
    bench.channel.send(&part).await.expect("sent");
    bench.channel.send(&part).await.expect("sent");
    assert_eq!(bench.platform.transcript().duplicates(&bench.conversation).len(), 1);
}

#[tokio::test]
async fn discord_refuses_by_length_number_and_size() {
    let rules = PlatformRules {
        file_bytes: MIB,
        request_bytes: Some(2 * MIB),
        files_together: 3,
        ..FakeMode::DiscordLike.rules()
    };
    let bench = Bench::with_rules(rules).await;
    let noise = |bytes| (FakeFile::generated("n.bin", "application/octet-stream", 1, bytes), FileForm::Document);
    let mut described = bench.item(&small("a"), FileForm::Document).await;
    described.caption = "a".repeat(1025);
    let album = async |files: &[(FakeFile, FileForm)]| PartContent::Album { items: bench.items(files).await };
    let cases = vec![
        ("2000 units", plain("a".repeat(2000)), None),
        (
            "2001 units, markup counted",
            PartContent::from_text(format!("**{}**", "a".repeat(1997))),
            Some(Refusal::TooLarge { limit: Some(2000) }),
        ),
        ("nothing", plain(""), Some(Refusal::Other)),
        ("an alternative text of 1025", PartContent::File(described), Some(Refusal::Other)),
        ("as many files as may be", album(&[noise(1), noise(2), noise(3)]).await, None),
        ("one more", album(&[noise(1), noise(2), noise(3), noise(4)]).await, Some(Refusal::UnsupportedKind)),
        ("a file too large", album(&[noise(MIB + 1)]).await, Some(Refusal::TooLarge { limit: Some(MIB) })),
        ("the request at its limit", album(&[noise(MIB), noise(MIB)]).await, None),
        (
            "the request a byte over",
            album(&[noise(MIB), noise(MIB), noise(1)]).await,
            Some(Refusal::TooLarge { limit: Some(2 * MIB) }),
        ),
        ("a waveform of 256", bench.voice("OggS…", 256).await, None),
        ("a waveform of 257", bench.voice("OggS…", 257).await, Some(Refusal::UnsupportedKind)),
        ("no waveform", bench.voice("OggS…", 0).await, Some(Refusal::UnsupportedKind)),
        ("no OGG", bench.voice("ID3…", 5).await, Some(Refusal::UnsupportedKind)),
    ];
    check(&bench, cases).await;
}

#[tokio::test]
async fn a_nonce_is_known_within_its_window_and_not_after_it() {
    let rules = PlatformRules { nonce_window: Duration::from_millis(1_500), ..FakeMode::DiscordLike.rules() };
    let bench = Bench::with_rules(rules).await;
    let part = bench.part(1, plain("a"));
    let first = bench.channel.send(&part).await.expect("sent");
    assert_eq!(bench.channel.send(&part).await.as_ref(), Ok(&first));
    let shown = bench.platform.transcript().messages(&bench.conversation)[0].clone();
    assert_eq!(shown.nonce.map(|nonce| nonce.len()), Some(22));
    tokio::time::sleep(Duration::from_millis(1_520)).await;
    assert_ne!(bench.channel.send(&part).await.as_ref(), Ok(&first));
    assert_eq!(bench.platform.transcript().duplicates(&bench.conversation).len(), 1);
}

#[tokio::test]
async fn discord_edits_may_add_files_and_repeat_without_adding_them_twice() {
    let bench = Bench::start(FakeMode::DiscordLike).await;
    let sent = bench.channel.send(&bench.part(1, plain("growing"))).await.expect("sent");
    let files = bench.items(&[(small("a"), FileForm::Document), (small("b"), FileForm::Document)]).await;
    let grown = PartContent::Text { text: "grown".to_owned(), markup: Markup::Rich, files };
    for _ in 0..2 {
        assert_eq!(bench.channel.edit(&sent[0], &bench.part(1, grown.clone())).await.as_ref(), Ok(&sent));
    }
    let transcript = bench.platform.transcript();
    assert_eq!(transcript.visible_texts(&bench.conversation), ["grown"]);
    assert_eq!(transcript.visible_files(&bench.conversation).len(), 2);
}

#[tokio::test]
async fn conversations_that_ended_and_forbidden_history_are_told() {
    for mode in [FakeMode::TelegramLike, FakeMode::DiscordLike] {
        let bench = Bench::start(mode).await;
        bench.platform.end_conversation(&bench.conversation);
        let answer = bench.channel.send(&bench.part(1, plain("a"))).await;
        assert!(matches!(answer, Err(SendError::Forbidden { .. })), "{mode:?}: {answer:?}");
    }
    let bench = Bench::start(FakeMode::DiscordLike).await;
    let part = bench.part(1, plain("a"));
    bench.channel.send(&part).await.expect("sent");
    assert!(matches!(bench.find(&part).await, Ok(Some(_))));
    bench.platform.forbid_history();
    assert_eq!(bench.find(&part).await, Ok(None));
    bench.platform.script_next(Operation::History, Fault::ServerError);
    assert!(matches!(bench.find(&part).await, Err(SendError::NotSent { .. })));
}

/// What the channel never does, written by hand.
#[tokio::test]
async fn nonces_too_long_answers_to_nothing_and_second_polls_are_refused() {
    // As soon as one crate of the build speaks TLS, no client can be made without a provider.
    let _installed_already = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    for (case, mode, extra, status) in [
        ("a nonce of 25", FakeMode::DiscordLike, format!(r#""nonce":"{}""#, "n".repeat(25)), 200),
        ("a nonce of 26", FakeMode::DiscordLike, format!(r#""nonce":"{}""#, "n".repeat(26)), 400),
        ("an answer to nothing", FakeMode::TelegramLike, r#""reply_to":"404""#.to_owned(), 400),
        ("sent all the same", FakeMode::TelegramLike, r#""reply_to":"404","reply_even_if_gone":true"#.to_owned(), 200),
    ] {
        let bench = Bench::start(mode).await;
        let payload = format!(r#"{{"conversation":"fake:5","kind":"text","text":"a","markup":"plain",{extra}}}"#);
        let form = reqwest::multipart::Form::new().text("payload", payload);
        let request = client.post(format!("{}/send", bench.platform.base_url())).multipart(form);
        assert_eq!(request.send().await.expect("answered").status(), status, "{case}");
    }
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let poll = |timeout_ms: u32| {
        let url = format!("{}/updates?offset=0&timeout_ms={timeout_ms}", bench.platform.base_url());
        client.get(url).send()
    };
    let arrived = bench.platform.on_nth(Operation::Updates, 1, Moment::Arrived);
    let older = tokio::spawn(poll(10_000));
    arrived.await.expect("told");
    assert_eq!(poll(1).await.expect("answered").status(), 200);
    assert_eq!(older.await.expect("no panic").expect("answered").status(), 409);
}
