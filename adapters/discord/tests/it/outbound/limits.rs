//! Each limit at its edge: what is planned for goes through, one more is what Discord refuses; and the pace, which a
//! platform that enforces it never has to enforce.

use std::time::Instant;

use futures::future::join_all;
use satchel_discord::DiscordListener;
use satchel_fake_discord::{ApiRefusal, DiscordFault, DiscordRates};
use satchel_wait::wait_until;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::harness::RecordingInbound;

const MIB: u64 = 1 << 20;
/// What is left for the words and the form of a request.
const FORM: u64 = 128 << 10;
const OTHER_GUILD: u64 = 72;

fn generated(name: &str, bytes: u64) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", bytes, bytes)
}

#[tokio::test]
async fn text_limit_is_exactly_two_thousand_units() {
    let harness = OutboundHarness::new().await;
    let limit = tables::discord().text.max.unwrap();
    harness.send(text(&"x".repeat(limit))).await.unwrap();
    let answer = harness.send(text(&"x".repeat(limit + 1))).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::BadMarkup, .. })), "{answer:?}");
    // What rendering would make longer goes as it is; what escaping would, as code or as it is.
    let table = "|a|b|c|\n|-|-|-|\n".to_owned() + &"|x|y|z|\n".repeat((limit - 16) / 8);
    harness.send(text(&table)).await.unwrap();
    for marks in ["*".repeat(limit), "*".repeat(limit - 100), format!("```{}", "_".repeat(limit - 3))] {
        let content = PartContent::Text { text: marks, markup: Markup::Plain, files: Vec::new() };
        harness.send(content).await.unwrap();
    }
}

#[tokio::test]
async fn ten_files_go_and_one_more_does_not() {
    let harness = OutboundHarness::new().await;
    let items = harness.items(&["f"; 11]).await;
    let answer = harness.send(PartContent::Album { items: items.clone() }).await;
    assert!(matches!(answer, Err(SendError::Refused { .. })), "{answer:?}");
    assert_eq!(harness.visible(), 0);
    harness.send(PartContent::Album { items: items[..10].to_vec() }).await.unwrap();
    assert_eq!(harness.discord.transcript().files(harness.place).len(), 10);
}

#[tokio::test]
async fn description_is_cut_to_discords_limit() {
    let harness = OutboundHarness::new().await;
    let mut item = harness.item(&small("a.bin", 1)).await;
    item.caption = "ä".repeat(1_025);
    harness.send(PartContent::File(item)).await.unwrap();
    let transcript = harness.discord.transcript();
    let description = transcript.files(harness.place)[0].description.clone().unwrap();
    assert_eq!(description.chars().count(), 1_024);
}

#[tokio::test]
async fn a_waveform_of_any_length_is_drawn() {
    let harness = OutboundHarness::new().await;
    for points in [0, 1, 256, 257, 5_000] {
        let PartContent::Voice { prepared: Some(mut voice), text: words, in_text, as_file, caption } =
            harness.voice(false).await
        else {
            panic!("it is a voice")
        };
        voice.waveform = vec![7; points];
        let content = PartContent::Voice { prepared: Some(voice), text: words, in_text, as_file, caption };
        harness.send(content).await.unwrap();
    }
    assert_eq!(harness.visible(), 5);
}

/// The bot listens, and knows of a boosted guild with two channels, another one with one, and a direct channel.
async fn listening() -> (OutboundHarness, [u64; 4]) {
    let harness = OutboundHarness::new().await;
    let other = harness.discord.channel(GUILD, 101, "other");
    harness.discord.guild(OTHER_GUILD, "Work", Tier::Two);
    let elsewhere = harness.discord.channel(OTHER_GUILD, 200, "general");
    harness.discord.boost(GUILD, Tier::Two);
    let listener = DiscordListener::new(settings(&harness.discord, unpaced()), Arc::clone(&harness.channel));
    // It ends with the test.
    tokio::spawn(listener.run(RecordingInbound::new(), CancellationToken::new()));
    let places = [harness.place, other, elsewhere, harness.discord.direct(PERSON)];
    wait_until("both guilds are known", || files(&harness, places) == [50, 50, 50, 10]).await;
    (harness, places)
}

/// The largest file of each place, in MiB.
fn files(harness: &OutboundHarness, places: [u64; 4]) -> [u64; 4] {
    places.map(|place| harness.channel.capabilities(&conversation(&place.to_string())).file_bytes / MIB)
}

/// The largest request of each place, in MiB. What is planned for its files leaves room for all else in it.
fn requests(harness: &OutboundHarness, places: [u64; 4]) -> [u64; 4] {
    let capabilities = |place: u64| harness.channel.capabilities(&conversation(&place.to_string()));
    places.map(|place| {
        let whole = capabilities(place).request_bytes.unwrap() + FORM;
        assert_eq!(whole % MIB, 0, "the room is always the same");
        whole / MIB
    })
}

/// Sends files of these sizes together. Returns the limit of the refusal.
async fn refused(harness: &OutboundHarness, place: u64, sizes: &[u64]) -> Option<u64> {
    let mut items = Vec::new();
    for bytes in sizes {
        items.push(harness.item(&generated("large.bin", *bytes)).await);
    }
    match harness.channel.post(&harness.part_in(place, bundle("files", items))).await {
        Err(SendError::Refused { refusal: Refusal::TooLarge { limit }, .. }) => limit,
        other => unreachable!("it is too large: {other:?}"),
    }
}

#[tokio::test]
async fn oversized_file_lowers_limit_of_its_guild_only() {
    let (harness, places) = listening().await;
    let [here, _, elsewhere, direct] = places;
    let fits = harness.item(&generated("fits.bin", 50 * MIB)).await;
    harness.send(PartContent::File(fits)).await.unwrap();
    assert_eq!(refused(&harness, here, &[50 * MIB + 1]).await, Some(50 * MIB));
    assert_eq!(files(&harness, places), [50, 50, 50, 10], "that was known");
    harness.discord.script_next(CREATE, Fault::TooLarge);
    assert_eq!(refused(&harness, here, &[9 * MIB]).await, Some(8 * MIB));
    assert_eq!(files(&harness, places), [8, 8, 50, 10], "the guild is one, and no other");
    assert_eq!(refused(&harness, direct, &[10 * MIB + 1]).await, Some(10 * MIB));
    harness.discord.script_next(CREATE, Fault::TooLarge);
    assert_eq!(refused(&harness, direct, &[9 * MIB]).await, Some(8 * MIB));
    assert_eq!(files(&harness, places), [8, 8, 50, 8]);
    harness.discord.script_next(CREATE, Fault::TooLarge);
    assert_eq!(
        refused(&harness, elsewhere, &[MIB]).await,
        None,
        "every place takes as much, so it wasn't the file's size"
    );
    assert_eq!(files(&harness, places), [8, 8, 50, 8]);
    harness.discord.boost(GUILD, Tier::Three);
    wait_until("the boost is known", || files(&harness, places) == [100, 100, 50, 8]).await;
}

#[tokio::test]
async fn proxy_size_refusal_changes_no_learned_limit() {
    let (harness, places) = listening().await;
    let page = DiscordFault::Answer { status: 413, body: "<html>413</html>".to_owned() };
    for fault in [page, ApiRefusal::new(413, 0, "413: Payload Too Large").into()] {
        for sizes in [&[9 * MIB][..], &[9 * MIB, 9 * MIB]] {
            harness.discord.script_next(CREATE, fault.clone());
            assert_eq!(refused(&harness, places[0], sizes).await, None);
        }
    }
    assert_eq!((files(&harness, places), requests(&harness, places)), ([50, 50, 50, 10], [50, 50, 50, 25]));
}

#[tokio::test]
async fn request_accepts_planned_size_and_no_more() {
    let (harness, places) = listening().await;
    assert_eq!(requests(&harness, places), [50, 50, 50, 25]);
    let direct = places[3];
    let mut items = Vec::new();
    for name in ["a", "b", "c"] {
        items.push(harness.item(&generated(name, 8 * MIB)).await);
    }
    harness.channel.post(&harness.part_in(direct, bundle("24 MiB", items))).await.unwrap();
    assert_eq!(
        refused(&harness, direct, &[8 * MIB, 8 * MIB, 8 * MIB, MIB + 1]).await,
        None,
        "which of them it doesn't say"
    );
    assert_eq!(harness.discord.transcript().texts(direct), ["24 MiB"]);
    assert_eq!(requests(&harness, places), [50, 50, 50, 25], "that was known");
    harness.discord.script_next(CREATE, Fault::TooLarge);
    assert_eq!(refused(&harness, direct, &[8 * MIB, 8 * MIB]).await, None);
    assert_eq!(requests(&harness, places), [50, 50, 50, 10]);
    assert_eq!(files(&harness, places), [50, 50, 50, 10], "none of the files was too large alone");
    harness.discord.script_next(CREATE, Fault::TooLarge);
    refused(&harness, places[0], &[8 * MIB, 8 * MIB]).await;
    // A file that is larger may go alone.
    assert_eq!((requests(&harness, places), files(&harness, places)), ([10, 10, 50, 10], [50, 50, 50, 10]));
    let alone = harness.item(&generated("alone.bin", 50 * MIB)).await;
    harness.send(PartContent::File(alone)).await.unwrap();
}

/// Ten files with the longest names and descriptions that escape to the most bytes, and the longest words.
async fn fullest(harness: &OutboundHarness, bytes: u64) -> PartContent {
    let mut items = Vec::new();
    for number in 0..10 {
        let mut item = harness.item(&FakeFile::generated("f", "application/octet-stream", number, bytes)).await;
        item.attachment.filename = Filename::from_untrusted(&format!("{}{number}.bin", "\"".repeat(250)));
        item.attachment.mime = "application/vnd.openxmlformats-officedocument.wordprocessingml.document".to_owned();
        item.caption = "\u{1}".repeat(1_024);
        items.push(item);
    }
    bundle(&"\u{1}".repeat(2_000), items)
}

#[tokio::test]
async fn fullest_message_fits_text_and_names_beside_files() {
    let files = 10 * 2_000;
    for (request, fits) in [(files + FORM, true), (files + FORM / 2, false)] {
        let rules = DiscordRules {
            request_bytes: request,
            file_bytes: [(Tier::None, 2_000)].into(),
            ..DiscordRules::unpaced()
        };
        let harness = OutboundHarness::with(rules, unpaced()).await;
        let content = fullest(&harness, 2_000).await;
        assert_eq!(harness.send(content).await.is_ok(), fits, "of {request} bytes");
    }
}

#[tokio::test]
async fn planned_files_fit_with_full_text_everywhere() {
    let (harness, places) = listening().await;
    for place in [places[0], places[3]] {
        let capabilities = harness.channel.capabilities(&conversation(&place.to_string()));
        let most = capabilities.request_bytes.unwrap();
        let largest = (most / 3).min(capabilities.file_bytes);
        let mut items = Vec::new();
        for bytes in [largest, largest, most - 2 * largest] {
            items.push(harness.item(&generated("most.bin", bytes)).await);
        }
        let words = "w".repeat(2_000);
        harness.channel.post(&harness.part_in(place, bundle(&words, items))).await.unwrap();
        assert_eq!(harness.discord.transcript().texts(place), [words.as_str()]);
    }
}

/// Discord's own pace, but for windows that a test can wait for.
async fn paced() -> OutboundHarness {
    let mut pace = DiscordRates::default();
    for (_, window) in pace.routes.values_mut() {
        *window = (*window).min(Duration::from_millis(800));
    }
    let rules = DiscordRules { pace: Some(pace), keeps_connections: true, ..DiscordRules::default() };
    OutboundHarness::with(rules, tables::discord()).await
}

#[tokio::test]
async fn channel_sends_reach_but_never_exceed_bucket_rate() {
    let harness = paced().await;
    let began = Instant::now();
    for number in 0..12 {
        harness.send(text(&format!("text {number}"))).await.unwrap();
    }
    let report = harness.discord.pace();
    assert_eq!((report.accepted, report.refused), (12, 0));
    assert!(began.elapsed() >= Duration::from_millis(1_600), "five in each window: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn many_channels_stay_within_global_rate_limit() {
    let harness = paced().await;
    let places: Vec<u64> = (1_000..1_120).map(|id| harness.discord.channel(GUILD, id, "busy")).collect();
    let began = Instant::now();
    let sends = places.iter().map(|place| async {
        let part = harness.part_in(*place, text("hello"));
        while let Err(error) = harness.channel.post(&part).await {
            let SendError::NotSent { retry_after_ms: Some(wait), .. } = error else { panic!("{error}") };
            // As the channel says.
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    });
    join_all(sends).await;
    let report = harness.discord.pace();
    assert_eq!(report.accepted, 120);
    // On a machine that is busy with other things one may arrive much later than it left.
    assert!(report.refused <= 2, "{} were refused", report.refused);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn long_rate_limit_wait_is_reported_at_once() {
    let harness = OutboundHarness::with(DiscordRules::default(), tables::discord()).await;
    for number in 0..5 {
        harness.send(text(&format!("text {number}"))).await.unwrap();
    }
    let began = Instant::now();
    let answer = harness.send(text("the sixth")).await;
    let Err(SendError::NotSent { retry_after_ms: Some(wait), .. }) = answer else { panic!("{answer:?}") };
    assert!((2_000..=5_000).contains(&wait), "{wait}");
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(harness.discord.requests(CREATE), 5, "nobody was asked");
    let elsewhere = harness.discord.channel(GUILD, 101, "other");
    harness.channel.post(&harness.part_in(elsewhere, text("not held up"))).await.unwrap();
}

#[tokio::test]
async fn a_short_429_is_waited_out() {
    let harness = OutboundHarness::new().await;
    harness.discord.script_next(CREATE, Fault::RateLimit { retry_after_ms: 400 });
    assert!(harness.send(text("too soon")).await.is_err());
    let began = Instant::now();
    harness.send(text("later")).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_429_for_everything_is_heeded_by_everything() {
    let page = |body: &str| DiscordFault::Answer { status: 429, body: body.to_owned() };
    for (fault, waits) in [
        (ApiRefusal::too_many_requests(5.0, true).into(), 2_000..=5_000),
        // Whoever stands before Discord means everything, and says no more.
        (page("<html>error code: 1015</html>"), 50_000..=60_000),
        (page(r#"{"message":"too much","code":0}"#), 50_000..=60_000),
    ] {
        let harness = OutboundHarness::new().await;
        harness.discord.script_next(CREATE, fault);
        assert!(harness.send(text("too soon")).await.is_err());
        nothing_is_asked(&harness, &waits).await;
    }
}

/// Ten thousand such answers in ten minutes would ban the address.
#[tokio::test]
async fn rejected_token_asks_only_whether_it_is_accepted() {
    let harness = OutboundHarness::new().await;
    harness.discord.revoke_token(harness.discord.token());
    let refused = |answer: Result<Vec<MessageRef>, SendError>| {
        assert!(matches!(answer, Err(SendError::AccountRefused { .. })), "{answer:?}");
    };
    refused(harness.send(text("hello")).await);
    for _ in 0..20 {
        refused(harness.send(text("again")).await);
        refused(harness.channel.probe().await.map(|()| Vec::new()));
    }
    wait_until("it is checked", || harness.discord.requests("GET /users/@me") > 0).await;
    assert!(harness.discord.requests("*") <= 3, "{}", harness.discord.requests("*"));
}

/// Neither here nor elsewhere, for so long.
async fn nothing_is_asked(harness: &OutboundHarness, waits: &std::ops::RangeInclusive<u64>) {
    let (elsewhere, asked) = (harness.discord.channel(GUILD, 101, "other"), harness.discord.requests("*"));
    for answer in [
        harness.send(text("here")).await.map(|_| ()),
        harness.channel.post(&harness.part_in(elsewhere, text("elsewhere"))).await.map(|_| ()),
        harness.channel.probe().await,
    ] {
        let Err(SendError::NotSent { retry_after_ms: Some(wait), .. }) = answer else {
            unreachable!("it was asked: {answer:?}")
        };
        assert!(waits.contains(&wait), "{wait}");
    }
    assert_eq!(harness.discord.requests("*"), asked);
}
