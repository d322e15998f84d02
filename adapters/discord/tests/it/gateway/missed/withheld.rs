//! Histories that Discord doesn't show for a while: nothing waits for them for ever, and what stands there comes in
//! when it is shown.

use std::sync::Arc;

use satchel_fake_discord::{ApiRefusal, DiscordFault};
use satchel_fake_kit::{Fault, FaultTiming};
use serde_json::{Value, json};

use super::{HISTORY, gone, gone::only_unavailable};
use crate::gateway::bench::{ANN, Bench, GENERAL, GUILD, Listening, Log, Taker, until};

/// A bot that missed something in a guild, and whose new session goes on without it, since no history is shown.
pub(super) async fn without_history(
    bench: &Bench,
    words: &str,
    fault: impl Into<DiscordFault>,
) -> (Arc<Taker>, Listening) {
    let taker = gone(bench).await;
    let before = taker.bookmark();
    bench.fake.person_says(GENERAL, ANN, words);
    bench.fake.script(HISTORY, FaultTiming::Every, fault);
    let listening = bench.listen(&taker);
    bench.sessions_begun_and_resumed(2, 0).await;
    bench.fake.person_says(GENERAL, ANN, &format!("{} said since", bench.fake.mention()));
    taker.takes(2).await;
    let is_left = |kept: &Value| kept["unread"][GENERAL.to_string()]["guild"] == json!(GUILD.to_string());
    let is_so = |kept: &Value| kept["session_id"] != before["session_id"] && is_left(kept);
    taker.keeps("the new session, and what is unread", is_so).await;
    (taker, listening)
}

fn said(taker: &Taker) -> Vec<String> {
    taker.texts_of(GENERAL).iter().map(|text| text.rsplit("> ").next().unwrap_or_default().trim().to_owned()).collect()
}

#[tokio::test]
async fn unavailable_history_holds_channel_briefly_and_is_retried() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let (taker, listening) = without_history(&bench, "missed", Fault::BadGateway { performed: false }).await;
    assert_eq!(said(&taker), ["said since"]);
    let asked = bench.fake.requests(HISTORY);
    until("it is asked for again", || bench.fake.requests(HISTORY) > asked + 6).await;
    assert_eq!(taker.taken().len(), 2);
    for channel in [GENERAL, bench.direct] {
        assert_eq!(
            log.lines_with(&format!("backfill of a channel failed; it will be retried channel={channel} ")),
            1,
            "{}",
            log.text()
        );
    }
    bench.fake.clear_script();
    taker.takes(3).await;
    taker.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    let asked = bench.fake.requests(HISTORY);
    bench.fake.person_says(GENERAL, ANN, "and on");
    taker.takes(4).await;
    tokio::time::sleep(bench.waits.unavailable_timeout * 2).await;
    assert_eq!(said(&taker), ["said since", "missed", "and on"], "none of them twice");
    assert_eq!(bench.fake.requests(HISTORY), asked, "it is asked for no more");
    assert_eq!((log.lines_with("it will be retried"), log.lines_with("backfill complete")), (2, 1), "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn history_unavailable_to_one_process_reaches_next() {
    let mut bench = Bench::start().await;
    // Whether it is for the bot only the guild tells, which the next process has to ask.
    bench.settings.answers_in = Vec::new();
    let words = format!("{} missed", bench.fake.role_mention(GUILD));
    let (taker, listening) = without_history(&bench, &words, Fault::BadGateway { performed: false }).await;
    listening.stop().await;
    bench.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    bench.fake.clear_script();
    // The history is shown again, the guild not yet.
    bench.fake.script("GET /guilds/{}", FaultTiming::First(8), Fault::ServerError);
    let listening = bench.listen(&taker);
    bench.sessions_begun_and_resumed(2, 1).await;
    until("it is asked for", || bench.fake.requests("GET /guilds/{}") > 2).await;
    bench.fake.clear_script();
    taker.takes(3).await;
    assert_eq!(said(&taker), ["said since", "missed"]);
    assert!(taker.taken().iter().all(|taken| taken.group == (taken.conversation.key() == GENERAL.to_string())));
    taker.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    listening.stop().await;
}

#[tokio::test]
async fn history_is_not_retried_after_permanent_refusal() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let (taker, listening) = without_history(&bench, "missed", ApiRefusal::new(400, 0, "Bad Request")).await;
    assert_eq!(log.lines_with("Read Message History"), 0, "{}", log.text());
    bench.fake.clear_script();
    bench.fake.script(
        HISTORY,
        FaultTiming::Every,
        DiscordFault::Refuse(ApiRefusal::new(403, 50_001, "Missing Access")),
    );
    taker.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    assert_eq!((said(&taker), log.lines_with("Read Message History")), (vec!["said since".to_owned()], 1));
    listening.stop().await;
}

#[tokio::test]
async fn unread_guild_history_is_deferred_until_guild_available() {
    let bench = Bench::start().await;
    let taker = gone(&bench).await;
    let mut kept = taker.bookmark();
    let seen = kept["seen_up_to"].clone();
    bench.fake.person_says(GENERAL, ANN, "missed");
    // Later something else was seen, and none of this is news by it.
    kept["unread"] = json!({ GENERAL.to_string(): { "guild": GUILD.to_string(), "after": seen } });
    kept["seen_up_to"] = json!(u64::MAX.to_string());
    only_unavailable(&bench);
    // Of a guild that is out of order Discord says what is not so.
    bench.fake.script(
        HISTORY,
        FaultTiming::Every,
        DiscordFault::Refuse(ApiRefusal::new(404, 10_003, "Unknown Channel")),
    );
    let survivor = Taker::with_bookmark(kept.clone());
    let listening = bench.listen(&survivor);
    let goes_on = |now: &Value| now["session_id"] != kept["session_id"] && now["behind"].is_object();
    survivor.keeps("the session without the guild", goes_on).await;
    assert_eq!(survivor.bookmark()["unread"], kept["unread"]);
    assert_eq!(bench.fake.requests(HISTORY), 1, "the direct channel's");
    bench.fake.clear_script();
    let channel = json!({ "id": GENERAL.to_string(), "type": 0, "last_message_id": null });
    bench.fake.dispatch("GUILD_CREATE", json!({ "id": GUILD.to_string(), "roles": [], "channels": [channel] }));
    survivor.takes(1).await;
    assert_eq!(survivor.texts_of(GENERAL), ["missed"]);
    survivor.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    listening.stop().await;
}
