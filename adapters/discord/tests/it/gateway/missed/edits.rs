//! What was edited: history tells it as it has become, and no event that comes too makes another message of it.

use satchel_fake_kit::{Fault, FaultTiming};

use super::{HISTORY, gone};
use crate::gateway::bench::{ANN, Bench, GENERAL, until};

#[tokio::test]
async fn edited_message_is_stored_once_from_any_source() {
    let bench = Bench::start().await;
    let taker = gone(&bench).await;
    let plain = bench.fake.person_says(GENERAL, ANN, "never changed");
    let missed = bench.fake.person_says(GENERAL, ANN, "befor");
    bench.fake.person_edits(GENERAL, ANN, missed, "missed");
    bench.fake.script(HISTORY, FaultTiming::First(6), Fault::RateLimit { retry_after_ms: 100 });
    let listening = bench.listen(&taker);
    until("history is asked", || bench.fake.requests(HISTORY) > 0).await;
    // Its events wait for history, which shows the message as it is then.
    let held = bench.fake.person_says(GENERAL, ANN, "hold");
    for words in ["holds", "held"] {
        bench.fake.person_edits(GENERAL, ANN, held, words);
    }
    taker.takes(4).await;
    // As a pin and a preview do it: an event with the time of the last edit.
    bench.fake.resolves_embeds(missed);
    bench.fake.resolves_embeds(held);
    bench.fake.person_says(GENERAL, ANN, "and on");
    taker.takes(5).await;
    assert_eq!(taker.texts_of(GENERAL), ["never changed", "missed", "held", "and on"]);
    for message in taker.taken() {
        let id = message.message.expect("it is of a message").0;
        let is_edited = [missed, held].map(|id| id.to_string()).contains(&id);
        assert_eq!(message.edit_of.as_deref(), is_edited.then_some(id.as_str()), "{id}");
        assert_eq!(message.key.starts_with(&format!("{id}:")), is_edited, "{}", message.key);
    }
    assert!(taker.taken().iter().any(|message| message.key == plain.to_string()));
    // What waited no longer holds the place in the stream.
    let last = bench.fake.person_says(GENERAL, ANN, "the last").to_string();
    taker.keeps("the last message", |bookmark| bookmark["seen_up_to"] == last).await;
    listening.stop().await;
}

#[tokio::test]
async fn edit_after_backfill_refers_to_backfilled_message() {
    let bench = Bench::start().await;
    let taker = gone(&bench).await;
    let missed = bench.fake.person_says(GENERAL, ANN, "on");
    bench.fake.person_edits(GENERAL, ANN, missed, "one");
    let listening = bench.listen(&taker);
    taker.takes(2).await;
    bench.fake.person_edits(GENERAL, ANN, missed, "number one");
    taker.takes(3).await;
    assert_eq!(taker.texts_of(GENERAL), ["one", "number one"]);
    assert!(taker.taken()[1..].iter().all(|message| message.edit_of == Some(missed.to_string())));
    listening.stop().await;
}
