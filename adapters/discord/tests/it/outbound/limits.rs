//! Each limit at its edge: what is planned for goes through, and one more is what Discord refuses.

use satchel_discord::DiscordListener;
use satchel_domain::delivery::Refusal;
use satchel_fake_discord::{ApiRefusal, DiscordFault};
use satchel_fake_kit::Fault;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::gateway::bench::{Taker, until};

const MIB: u64 = 1 << 20;
/// What is left for the words and the form of a request.
const FORM: u64 = 128 << 10;
const CREATE: &str = "POST /channels/{}/messages";
const OTHER_GUILD: u64 = 72;

fn generated(name: &str, bytes: u64) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", bytes, bytes)
}

#[tokio::test]
async fn text_limit_is_exactly_two_thousand_units() {
    let stage = Stage::new().await;
    let limit = tables::discord().text.max.unwrap();
    stage.send(text(&"x".repeat(limit))).await.unwrap();
    let answer = stage.send(text(&"x".repeat(limit + 1))).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::BadMarkup, .. })), "{answer:?}");
    // What rendering would make longer goes as it is; what escaping would, as code or as it is.
    let table = "|a|b|c|\n|-|-|-|\n".to_owned() + &"|x|y|z|\n".repeat((limit - 16) / 8);
    stage.send(text(&table)).await.unwrap();
    for marks in ["*".repeat(limit), "*".repeat(limit - 100), format!("```{}", "_".repeat(limit - 3))] {
        let content = PartContent::Text { text: marks, markup: Markup::Plain, files: Vec::new() };
        stage.send(content).await.unwrap();
    }
}

#[tokio::test]
async fn ten_files_go_and_one_more_does_not() {
    let stage = Stage::new().await;
    let items = stage.items(&["f"; 11]).await;
    let answer = stage.send(PartContent::Album { items: items.clone() }).await;
    assert!(matches!(answer, Err(SendError::Refused { .. })), "{answer:?}");
    assert_eq!(stage.visible(), 0);
    stage.send(PartContent::Album { items: items[..10].to_vec() }).await.unwrap();
    assert_eq!(stage.discord.transcript().files(stage.place).len(), 10);
}

#[tokio::test]
async fn description_is_cut_to_discords_limit() {
    let stage = Stage::new().await;
    let mut item = stage.item(&small("a.bin", 1)).await;
    item.caption = "ä".repeat(1_025);
    stage.send(PartContent::File(item)).await.unwrap();
    let transcript = stage.discord.transcript();
    let description = transcript.files(stage.place)[0].description.clone().unwrap();
    assert_eq!(description.chars().count(), 1_024);
}

#[tokio::test]
async fn a_waveform_of_any_length_is_drawn() {
    let stage = Stage::new().await;
    for points in [0, 1, 256, 257, 5_000] {
        let PartContent::Voice { prepared: Some(mut voice), text: words, in_text, as_file, caption } =
            stage.voice(false).await
        else {
            panic!("it is a voice")
        };
        voice.waveform = vec![7; points];
        let content = PartContent::Voice { prepared: Some(voice), text: words, in_text, as_file, caption };
        stage.send(content).await.unwrap();
    }
    assert_eq!(stage.visible(), 5);
}

/// The bot listens, and knows of a boosted guild with two channels, another one with one, and a direct channel.
async fn listening() -> (Stage, [u64; 4]) {
    let stage = Stage::new().await;
    let other = stage.discord.channel(GUILD, 101, "other");
    stage.discord.guild(OTHER_GUILD, "Work", Tier::Two);
    let elsewhere = stage.discord.channel(OTHER_GUILD, 200, "general");
    stage.discord.boost(GUILD, Tier::Two);
    let listener = DiscordListener::new(settings(&stage.discord, unpaced()), Arc::clone(&stage.channel));
    // It ends with the test.
    tokio::spawn(listener.run(Taker::new(), CancellationToken::new()));
    let places = [stage.place, other, elsewhere, stage.discord.direct(PERSON)];
    until("both guilds are known", || files(&stage, places) == [50, 50, 50, 10]).await;
    (stage, places)
}

/// The largest file of each place, in MiB.
fn files(stage: &Stage, places: [u64; 4]) -> [u64; 4] {
    places.map(|place| stage.channel.capabilities(&conversation(&place.to_string())).file_bytes / MIB)
}

/// The largest request of each place, in MiB. What is planned for its files leaves room for all else in it.
fn requests(stage: &Stage, places: [u64; 4]) -> [u64; 4] {
    let capabilities = |place: u64| stage.channel.capabilities(&conversation(&place.to_string()));
    places.map(|place| {
        let whole = capabilities(place).request_bytes.unwrap() + FORM;
        assert_eq!(whole % MIB, 0, "the room is always the same");
        whole / MIB
    })
}

/// Sends files of these sizes together. Returns the limit of the refusal.
async fn refused(stage: &Stage, place: u64, sizes: &[u64]) -> Option<u64> {
    let mut items = Vec::new();
    for bytes in sizes {
        items.push(stage.item(&generated("large.bin", *bytes)).await);
    }
    match stage.channel.send(&stage.part_in(place, bundle("files", items))).await {
        Err(SendError::Refused { refusal: Refusal::TooLarge { limit }, .. }) => limit,
        other => unreachable!("it is too large: {other:?}"),
    }
}

#[tokio::test]
async fn oversized_file_lowers_limit_of_its_guild_only() {
    let (stage, places) = listening().await;
    let [here, _, elsewhere, direct] = places;
    let fits = stage.item(&generated("fits.bin", 50 * MIB)).await;
    stage.send(PartContent::File(fits)).await.unwrap();
    assert_eq!(refused(&stage, here, &[50 * MIB + 1]).await, Some(50 * MIB));
    assert_eq!(files(&stage, places), [50, 50, 50, 10], "that was known");
    stage.discord.script_next(CREATE, Fault::TooLarge);
    assert_eq!(refused(&stage, here, &[9 * MIB]).await, Some(8 * MIB));
    assert_eq!(files(&stage, places), [8, 8, 50, 10], "the guild is one, and no other");
    assert_eq!(refused(&stage, direct, &[10 * MIB + 1]).await, Some(10 * MIB));
    stage.discord.script_next(CREATE, Fault::TooLarge);
    assert_eq!(refused(&stage, direct, &[9 * MIB]).await, Some(8 * MIB));
    assert_eq!(files(&stage, places), [8, 8, 50, 8]);
    stage.discord.script_next(CREATE, Fault::TooLarge);
    assert_eq!(
        refused(&stage, elsewhere, &[MIB]).await,
        None,
        "every place takes as much, so it wasn't the file's size"
    );
    assert_eq!(files(&stage, places), [8, 8, 50, 8]);
    stage.discord.boost(GUILD, Tier::Three);
    until("the boost is known", || files(&stage, places) == [100, 100, 50, 8]).await;
}

#[tokio::test]
async fn proxy_size_refusal_changes_no_learned_limit() {
    let (stage, places) = listening().await;
    let page = DiscordFault::Answer { status: 413, body: "<html>413</html>".to_owned() };
    for fault in [page, ApiRefusal::new(413, 0, "413: Payload Too Large").into()] {
        for sizes in [&[9 * MIB][..], &[9 * MIB, 9 * MIB]] {
            stage.discord.script_next(CREATE, fault.clone());
            assert_eq!(refused(&stage, places[0], sizes).await, None);
        }
    }
    assert_eq!((files(&stage, places), requests(&stage, places)), ([50, 50, 50, 10], [50, 50, 50, 25]));
}

#[tokio::test]
async fn request_accepts_planned_size_and_no_more() {
    let (stage, places) = listening().await;
    assert_eq!(requests(&stage, places), [50, 50, 50, 25]);
    let direct = places[3];
    let mut items = Vec::new();
    for name in ["a", "b", "c"] {
        items.push(stage.item(&generated(name, 8 * MIB)).await);
    }
    stage.channel.send(&stage.part_in(direct, bundle("24 MiB", items))).await.unwrap();
    assert_eq!(
        refused(&stage, direct, &[8 * MIB, 8 * MIB, 8 * MIB, MIB + 1]).await,
        None,
        "which of them it doesn't say"
    );
    assert_eq!(stage.discord.transcript().texts(direct), ["24 MiB"]);
    assert_eq!(requests(&stage, places), [50, 50, 50, 25], "that was known");
    stage.discord.script_next(CREATE, Fault::TooLarge);
    assert_eq!(refused(&stage, direct, &[8 * MIB, 8 * MIB]).await, None);
    assert_eq!(requests(&stage, places), [50, 50, 50, 10]);
    assert_eq!(files(&stage, places), [50, 50, 50, 10], "none of the files was too large alone");
    stage.discord.script_next(CREATE, Fault::TooLarge);
    refused(&stage, places[0], &[8 * MIB, 8 * MIB]).await;
    // A file that is larger may go alone.
    assert_eq!((requests(&stage, places), files(&stage, places)), ([10, 10, 50, 10], [50, 50, 50, 10]));
    let alone = stage.item(&generated("alone.bin", 50 * MIB)).await;
    stage.send(PartContent::File(alone)).await.unwrap();
}

/// Ten files with the longest names and descriptions that escape to the most bytes, and the longest words.
async fn fullest(stage: &Stage, bytes: u64) -> PartContent {
    let mut items = Vec::new();
    for number in 0..10 {
        let mut item = stage.item(&FakeFile::generated("f", "application/octet-stream", number, bytes)).await;
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
        let stage = Stage::with(rules, unpaced()).await;
        let content = fullest(&stage, 2_000).await;
        assert_eq!(stage.send(content).await.is_ok(), fits, "of {request} bytes");
    }
}

#[tokio::test]
async fn planned_files_fit_with_full_text_everywhere() {
    let (stage, places) = listening().await;
    for place in [places[0], places[3]] {
        let capabilities = stage.channel.capabilities(&conversation(&place.to_string()));
        let most = capabilities.request_bytes.unwrap();
        let largest = (most / 3).min(capabilities.file_bytes);
        let mut items = Vec::new();
        for bytes in [largest, largest, most - 2 * largest] {
            items.push(stage.item(&generated("most.bin", bytes)).await);
        }
        let words = "w".repeat(2_000);
        stage.channel.send(&stage.part_in(place, bundle(&words, items))).await.unwrap();
        assert_eq!(stage.discord.transcript().texts(place), [words.as_str()]);
    }
}
