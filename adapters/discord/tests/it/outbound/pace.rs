//! The pace over the wire: a platform that enforces it never has to.

use std::time::Instant;

use futures::future::join_all;
use satchel_fake_discord::{ApiRefusal, DiscordFault, DiscordRates};
use satchel_fake_kit::Fault;

use super::*;

const CREATE: &str = "POST /channels/{}/messages";

/// Discord's own pace, but for windows that a test can wait for.
async fn paced() -> Stage {
    let mut pace = DiscordRates::default();
    for (_, window) in pace.routes.values_mut() {
        *window = (*window).min(Duration::from_millis(800));
    }
    let rules = DiscordRules { pace: Some(pace), keeps_connections: true, ..DiscordRules::default() };
    Stage::with(rules, tables::discord()).await
}

#[tokio::test]
async fn channel_sends_reach_but_never_exceed_bucket_rate() {
    let stage = paced().await;
    let began = Instant::now();
    for number in 0..12 {
        stage.send(text(&format!("text {number}"))).await.unwrap();
    }
    let report = stage.discord.pace();
    assert_eq!((report.accepted, report.refused), (12, 0));
    assert!(began.elapsed() >= Duration::from_millis(1_600), "five in each window: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn many_channels_stay_within_global_rate_limit() {
    let stage = paced().await;
    let places: Vec<u64> = (1_000..1_120).map(|id| stage.discord.channel(GUILD, id, "busy")).collect();
    let began = Instant::now();
    let sends = places.iter().map(|place| async {
        let part = stage.part_in(*place, text("hello"));
        while let Err(error) = stage.channel.send(&part).await {
            let SendError::NotSent { retry_after_ms: Some(wait), .. } = error else { panic!("{error}") };
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    });
    join_all(sends).await;
    let report = stage.discord.pace();
    assert_eq!(report.accepted, 120);
    // On a machine that is busy with other things one may arrive much later than it left.
    assert!(report.refused <= 2, "{} were refused", report.refused);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn long_rate_limit_wait_is_reported_at_once() {
    let stage = Stage::with(DiscordRules::default(), tables::discord()).await;
    for number in 0..5 {
        stage.send(text(&format!("text {number}"))).await.unwrap();
    }
    let began = Instant::now();
    let answer = stage.send(text("the sixth")).await;
    let Err(SendError::NotSent { retry_after_ms: Some(wait), .. }) = answer else { panic!("{answer:?}") };
    assert!((2_000..=5_000).contains(&wait), "{wait}");
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(stage.discord.requests(CREATE), 5, "nobody was asked");
    let elsewhere = stage.discord.channel(GUILD, 101, "other");
    stage.channel.send(&stage.part_in(elsewhere, text("not held up"))).await.unwrap();
}

#[tokio::test]
async fn rate_limit_applies_to_whole_channel() {
    // Without a pace, too: what was told is not forgotten.
    for capabilities in [tables::discord(), unpaced()] {
        let stage = Stage::with(DiscordRules::unpaced(), capabilities).await;
        stage.discord.script_next(CREATE, Fault::RateLimit { retry_after_ms: 3_000 });
        assert!(matches!(stage.send(text("too soon")).await, Err(SendError::NotSent { .. })));
        let answer = stage.send(text("later")).await;
        let Err(SendError::NotSent { retry_after_ms: Some(wait), .. }) = answer else { panic!("{answer:?}") };
        assert!((2_000..=3_000).contains(&wait), "{wait}");
        assert_eq!(stage.discord.requests(CREATE), 1, "nobody asked meanwhile");
        stage.channel.probe().await.unwrap();
        let elsewhere = stage.discord.channel(GUILD, 101, "other");
        stage.channel.send(&stage.part_in(elsewhere, text("elsewhere"))).await.unwrap();
    }
}

#[tokio::test]
async fn a_short_429_is_waited_out() {
    let stage = Stage::new().await;
    stage.discord.script_next(CREATE, Fault::RateLimit { retry_after_ms: 400 });
    assert!(stage.send(text("too soon")).await.is_err());
    let began = Instant::now();
    stage.send(text("later")).await.unwrap();
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
        let stage = Stage::new().await;
        stage.discord.script_next(CREATE, fault);
        assert!(stage.send(text("too soon")).await.is_err());
        nothing_is_asked(&stage, &waits).await;
    }
}

#[tokio::test]
async fn rejected_token_is_not_retried_immediately() {
    let stage = Stage::new().await;
    stage.discord.script_next(CREATE, ApiRefusal::new(401, 0, "401: Unauthorized"));
    assert!(matches!(stage.send(text("hello")).await, Err(SendError::Forbidden { .. })));
    nothing_is_asked(&stage, &(50_000..=60_000)).await;
}

/// Neither here nor elsewhere, for so long.
async fn nothing_is_asked(stage: &Stage, waits: &std::ops::RangeInclusive<u64>) {
    let (elsewhere, asked) = (stage.discord.channel(GUILD, 101, "other"), stage.discord.requests("*"));
    for answer in [
        stage.send(text("here")).await.map(|_| ()),
        stage.channel.send(&stage.part_in(elsewhere, text("elsewhere"))).await.map(|_| ()),
        stage.channel.probe().await,
    ] {
        let Err(SendError::NotSent { retry_after_ms: Some(wait), .. }) = answer else {
            unreachable!("it was asked: {answer:?}")
        };
        assert!(waits.contains(&wait), "{wait}");
    }
    assert_eq!(stage.discord.requests("*"), asked);
}
