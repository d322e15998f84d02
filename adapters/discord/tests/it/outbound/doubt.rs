//! Doubt: the nonce across restarts, and the look-up for when it is forgotten.

use satchel_domain::capabilities::Idempotency;
use satchel_fake_discord::Permission;
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_ports::{LookupOutcome, LookupRange, LookupRequest, ledger::RecordedMessages};

use super::*;

const CREATE: &str = "POST /channels/{}/messages";
const HISTORY: &str = "GET /channels/{}/messages";

/// What a look-up behind a message finds.
pub(crate) async fn find(
    channel: &DiscordChannel,
    request: &SendRequest,
    after: Option<MessageRef>,
) -> Result<Option<Vec<MessageRef>>, SendError> {
    let (range, recorded) = (LookupRange::After(after), RecordedMessages::default());
    let outcome = channel.find_sent(&LookupRequest { part: request.clone(), range, attempts: 1, recorded }).await?;
    let is_uncertain = matches!(outcome, LookupOutcome::Uncertain { .. });
    let found = match outcome {
        LookupOutcome::Found { messages, duplicates } if duplicates.is_empty() => Some(messages),
        _ => None,
    };
    assert!(is_uncertain || found.is_some(), "history tells one match and nothing else");
    Ok(found)
}

/// Every kind of part that makes a message.
async fn everything(stage: &Stage) -> Vec<PartContent> {
    let files = stage.items(&["my plan.bin", "план.bin", "same.bin", "same.bin"]).await;
    vec![
        text("words, **bold** and  blanks \n"),
        bundle("with files", files.clone()),
        PartContent::File(files[0].clone()),
        PartContent::Album { items: files },
        stage.voice(false).await,
        PartContent::Notice { text: "1 of 2".to_owned() },
    ]
}

#[tokio::test]
async fn retry_after_restart_sends_no_duplicate() {
    let stage = Stage::new().await;
    for (number, content) in everything(&stage).await.into_iter().enumerate() {
        let part = stage.part(content);
        stage.discord.script_next(CREATE, Fault::AcceptAndDrop);
        let lost = stage.channel.send(&part).await;
        assert!(matches!(lost, Err(SendError::InDoubt { .. })), "{lost:?}");
        let ids = stage.restarted().send(&part).await.unwrap();
        assert_eq!(stage.visible(), number + 1, "{:?}", part.content);
        let last = stage.discord.transcript().visible(stage.place).last().unwrap().id;
        assert_eq!(ids, [MessageRef(last.to_string())]);
    }
}

#[tokio::test]
async fn promised_nonce_window_fits_discords_own() {
    let Idempotency::Key { window_ms: Some(window) } = tables::discord().idempotency else { panic!("it has a key") };
    assert!(Duration::from_millis(window) <= DiscordRules::default().nonce_window);
}

#[tokio::test]
async fn look_up_survives_expired_nonce_and_rewritten_names() {
    let stage = Stage::new().await;
    let mut after = None;
    for content in everything(&stage).await {
        let part = stage.part(content);
        let channel = stage.restarted();
        assert_eq!(find(&channel, &part, after.clone()).await, Ok(None), "nothing was sent: {:?}", part.content);
        stage.discord.script_next(CREATE, Fault::AcceptAndDrop);
        assert!(stage.channel.send(&part).await.is_err());
        stage.discord.expire_nonces();
        let last = MessageRef(stage.discord.transcript().visible(stage.place).last().unwrap().id.to_string());
        assert_eq!(find(&channel, &part, after).await, Ok(Some(vec![last.clone()])), "{:?}", part.content);
        after = Some(last);
    }
}

#[tokio::test]
async fn look_up_matches_only_own_text_and_files() {
    let stage = Stage::new().await;
    let files = stage.items(&["a.bin", "b.bin"]).await;
    let wanted = stage.part(bundle("hello", files.clone()));
    stage.discord.person_sends(stage.place, PERSON, "hello", vec![small("a.bin", 0), small("b.bin", 1)]);
    stage.send(text("hello")).await.unwrap();
    stage.send(bundle("hello", files[..1].to_vec())).await.unwrap();
    stage.send(bundle("hello!", files.clone())).await.unwrap();
    let mut renamed = files.clone();
    renamed[1].attachment.filename = Filename::from_untrusted("c.bin");
    stage.send(bundle("hello", renamed)).await.unwrap();
    let longer = stage.item(&FakeFile::generated("b.bin", "application/octet-stream", 1, 2_001)).await;
    stage.send(bundle("hello", vec![files[0].clone(), longer])).await.unwrap();
    assert_eq!(find(&stage.channel, &wanted, None).await, Ok(None), "each of them differs in one thing");
    let sent = stage.channel.send(&wanted).await.unwrap();
    assert_eq!(find(&stage.channel, &wanted, None).await, Ok(Some(sent)));
    stage.send(bundle("hello", files)).await.unwrap();
    assert_eq!(find(&stage.channel, &wanted, None).await, Ok(None), "two match");
}

#[tokio::test]
async fn look_up_reads_further_pages_when_needed() {
    let stage = Stage::new().await;
    let before = stage.send(text("before")).await.unwrap().pop();
    let wanted = stage.part(text("wanted"));
    let sent = stage.channel.send(&wanted).await.unwrap();
    for number in 0..250 {
        stage.discord.person_says(stage.place, PERSON, &format!("word {number}"));
    }
    assert_eq!(find(&stage.channel, &wanted, before.clone()).await, Ok(Some(sent.clone())));
    assert_eq!(stage.discord.requests(HISTORY), 3);
    assert_eq!(find(&stage.channel, &wanted, None).await, Ok(Some(sent)), "its own age tells where to begin");
    stage.send(text("wanted")).await.unwrap();
    assert_eq!(find(&stage.channel, &wanted, before).await, Ok(None), "the second stands pages later");
}

#[tokio::test]
async fn rate_limited_look_up_continues_at_same_page() {
    let stage = Stage::new().await;
    let wanted = stage.part(text("wanted"));
    let sent = stage.channel.send(&wanted).await.unwrap();
    for number in 0..250 {
        stage.discord.person_says(stage.place, PERSON, &format!("word {number}"));
    }
    for nth in [1, 3, 4] {
        stage.discord.script(HISTORY, FaultTiming::Nth(nth), Fault::RateLimit { retry_after_ms: 150 });
    }
    let began = std::time::Instant::now();
    assert_eq!(find(&stage.channel, &wanted, None).await, Ok(Some(sent)));
    assert!(began.elapsed() >= Duration::from_millis(450), "{:?}", began.elapsed());
    assert_eq!(stage.discord.requests(HISTORY), 6, "three pages, and three that came too soon");
}

#[tokio::test]
async fn look_up_facing_long_delay_is_postponed() {
    let stage = Stage::new().await;
    let wanted = stage.part(text("wanted"));
    stage.channel.send(&wanted).await.unwrap();
    stage.discord.script_next(HISTORY, Fault::RateLimit { retry_after_ms: 31_000 });
    let began = std::time::Instant::now();
    let later = find(&stage.channel, &wanted, None).await;
    let waits = |error: &SendError| matches!(error, SendError::NotSent { retry_after_ms: Some(31_000..), .. });
    assert!(later.as_ref().is_err_and(waits), "{later:?}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn look_up_starts_no_earlier_than_its_part() {
    let stage = Stage::new().await;
    let wanted = stage.part(text("wanted"));
    let sent = stage.channel.send(&wanted).await.unwrap();
    let long_ago = MessageRef("175928847299117063".to_owned());
    assert_eq!(find(&stage.channel, &wanted, Some(long_ago)).await, Ok(Some(sent.clone())));
    let newer = MessageRef((sent[0].0.parse::<u64>().unwrap() - 1).to_string());
    assert_eq!(find(&stage.channel, &wanted, Some(newer.clone())).await, Ok(Some(sent)));
    let calls = stage.discord.calls();
    let begun: Vec<&str> = calls
        .iter()
        .flat_map(|call| &call.query)
        .filter(|(name, _)| name == "after")
        .map(|(_, id)| id.as_str())
        .collect();
    let unix_ms = |id: &str| (id.parse::<u64>().unwrap() >> 22) + 1_420_070_400_000;
    let (seconds, nanoseconds) = wanted.part_id.0.get_timestamp().unwrap().to_unix();
    assert_eq!(unix_ms(begun[0]), seconds * 1_000 + u64::from(nanoseconds / 1_000_000) - 60_000, "a minute before it");
    assert_eq!(begun[1..], [newer.0.as_str()], "or after what stood there before");
}

#[tokio::test]
async fn forbidden_look_up_finds_nothing_and_succeeds() {
    let stage = Stage::new().await;
    let wanted = stage.part(text("wanted"));
    stage.channel.send(&wanted).await.unwrap();
    stage.discord.forbid(stage.place, Permission::ReadHistory);
    assert_eq!(find(&stage.channel, &wanted, None).await, Ok(None));
    stage.discord.forbid(stage.place, Permission::View);
    assert_eq!(find(&stage.channel, &wanted, None).await, Ok(None));
    stage.discord.script(HISTORY, FaultTiming::Every, Fault::BadGateway { performed: false });
    assert!(find(&stage.channel, &wanted, None).await.is_err(), "nobody knows yet");
}
