//! Lanes at work on a real ledger: every message answered once and in order, whatever is slow, deaf, stopped or broken.

mod accounts;
mod chat;
mod fairness;
mod joining;
mod ledger;
mod people;
mod roles;
mod stage;
mod stopping;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::join_all;
use jiff::tz::TimeZone;
use satchel_calendar::cron::{CronSchedule, MissedPolicy};
use satchel_domain::{InboundMessage, capabilities::StreamRule};
use satchel_ledger_sqlite::{Settings, VerbSettings};
use satchel_local::LocalBus;
use satchel_ports::{
    BusError, BusEvent, EventBus, Inbox, Leases,
    event_bus::EventStream,
    ledger::{ClaimMode, ReleaseMode, WorkFilter},
};
use satchel_wait::{wait_until, wait_until_async};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::{
    chat::Quirk,
    ledger::Trouble,
    stage::{Stage, message, place, with_file},
};
use crate::schedules::{Schedule, Scheduler};

const NEVER: Duration = Duration::from_secs(3_600);

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_answered_and_its_lane_released() {
    let (stage, here) = (Stage::new(), place("main"));
    let process = stage.start().await;
    for (key, text, answers) in [("1", "one", 1), ("2", "two", 2)] {
        process.hears(&message(&here, key, text)).await;
        wait_until("an answer", || stage.chat.log(&here).len() == answers).await;
    }
    assert_eq!(stage.chat.log(&here), ["re: one", "re: two"]);
    process.settles().await;
    let other = stage.open().await;
    let received = other.receive(&message(&here, "3", "three"), ClaimMode::IfFree).await.unwrap();
    assert!(received.claimed.is_some(), "somebody still holds the lane");
}

/// A claim hands over its turn, and the settlement of the last part releases the lane.
#[tokio::test(flavor = "multi_thread")]
async fn text_turn_makes_three_ledger_calls() {
    let (stage, here) = (Stage { look: NEVER, ..Stage::new() }, place("main"));
    let process = stage.start().await;
    process.hears(&message(&here, "1", "one")).await;
    wait_until("the answer", || stage.chat.log(&here) == ["re: one"]).await;
    let ledger = process.stops().await;
    let mut calls = ledger.hook.calls();
    calls.retain(|verb| !["ledger.claim_lane", "ledger.renew"].contains(verb));
    assert_eq!(calls, ["ledger.receive", "ledger.complete_turn", "ledger.settle_part"]);
}

/// One thread: the lane's worker starts when the runner has heard of both.
#[tokio::test]
async fn message_right_behind_claim_reaches_first_round() {
    let (stage, here) = (Stage::new(), place("main"));
    let process = stage.start().await;
    let (other, bus, two) = (stage.open().await, Arc::clone(&stage.bus), message(&here, "2", "two"));
    process.ledger.hook.run_behind_receive(move || {
        let store = async {
            let turn = other.receive(&two, ClaimMode::Never).await.unwrap().turn;
            bus.publish(BusEvent::MessageReceived { conversation: two.conversation, turn }).await.unwrap();
        };
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(store);
    });
    process.hears(&message(&here, "1", "one")).await;
    wait_until("the answer", || !stage.chat.log(&here).is_empty()).await;
    assert_eq!(stage.chat.log(&here), ["re: one, two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_conversations_are_all_answered_in_order() {
    for bus in [LocalBus::new(), LocalBus::with_reordering(7)] {
        let stage = Stage { bus: Arc::new(bus), ..Stage::new() };
        let process = stage.start().await;
        let places: Vec<_> = (0..30).map(|n| place(&format!("c{n}"))).collect();
        for key in ["a", "b", "c", "d"] {
            let messages: Vec<InboundMessage> = places.iter().map(|place| message(place, key, key)).collect();
            join_all(messages.iter().map(|message| process.hears(message))).await;
        }
        // Neighbours may be merged into one turn; nothing of them is lost or changes its place.
        let said = |place| {
            let answers = stage.chat.log(place);
            let words: Vec<_> = answers.iter().map(|answer| answer.trim_start_matches("re: ")).collect();
            words.join(", ")
        };
        wait_until("all answers", || places.iter().all(|place| said(place) == "a, b, c, d")).await;
        process.settles().await;
        assert_eq!(said(&places[0]), "a, b, c, d");
    }
}

/// Nobody looks for work here: a message that nobody took up would lie for ever.
#[tokio::test(flavor = "multi_thread")]
async fn message_during_lane_release_is_processed() {
    let here = place("main");
    let stage = Stage { look: NEVER, ..Stage::new() };
    let process = stage.start().await;
    for n in 0..150_usize {
        process.hears(&message(&here, &n.to_string(), &n.to_string())).await;
        wait_until("the next answer", || stage.chat.log(&here).len() == n + 1).await;
        // A little later each time, to meet every moment of the release.
        sleep(Duration::from_micros(u64::try_from(n % 25).unwrap() * 100)).await;
    }
}

/// Nobody looks for work here, and nobody holds the lane: what is due begins because its lane is claimed with it.
#[tokio::test(flavor = "multi_thread")]
async fn due_schedule_in_idle_conversation_starts_at_once() {
    let here = place("main");
    let stage = Stage { look: NEVER, ..Stage::new() };
    let process = stage.start().await;
    process.hears(&message(&here, "1", "one")).await;
    wait_until("an answer", || stage.chat.log(&here).len() == 1).await;
    process.settles().await;
    let every_second = Schedule {
        name: "tick".into(),
        cron: CronSchedule::parse("* * * * * *", TimeZone::UTC).unwrap(),
        text: "tick".into(),
        conversation: here.clone(),
        missed: MissedPolicy::RunOnce,
        enabled: true,
    };
    let (inbox, stop) = (Arc::clone(&process.ledger) as Arc<dyn Inbox>, CancellationToken::new());
    let schedules =
        Scheduler::new([every_second], process.ledger.hook.clock()).run(process.own_door(), inbox, stop.clone());
    let waiting = tokio::spawn(schedules);
    wait_until("two answers more", || stage.chat.log(&here).len() >= 3).await;
    stop.cancel();
    waiting.await.unwrap();
    let log = stage.chat.log(&here);
    assert!(log[1..].iter().all(|answer| answer.starts_with("re: tick")), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_platform_blocks_no_turn_and_keeps_order() {
    let (stage, here) = (Stage::new(), place("main"));
    let process = stage.start().await;
    stage.chat.answers(false);
    for (n, text) in (1..).zip(["one", "two", "three"]) {
        process.hears(&message(&here, text, text)).await;
        wait_until("the model's answer", || *stage.model.asked.borrow() == n).await;
    }
    assert_eq!(stage.chat.begun(), 1, "one part of a lane at a time");
    stage.chat.answers(true);
    wait_until("all answers", || stage.chat.log(&here).len() == 3).await;
    assert_eq!(stage.chat.log(&here), ["re: one", "re: two", "re: three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_answered_while_a_delivery_waits() {
    let (stage, here) = (Stage::new(), place("main"));
    let process = stage.start().await;
    stage.chat.answers(false);
    process.hears(&message(&here, "1", "one")).await;
    wait_until("a send", || stage.chat.begun() == 1).await;
    process.hears(&message(&here, "2", "/help")).await;
    wait_until_async("the command's answer, beside the delivery", async || process.unsettled().await == 2).await;
    stage.chat.answers(true);
    wait_until("both", || stage.chat.log(&here).len() == 2).await;
    let log = stage.chat.log(&here);
    assert!(log[0] == "re: one" && log[1].contains("/outbox"), "{log:?}");
    assert_eq!(*stage.model.asked.borrow(), 1, "the model never sees a command");
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_command_ends_hanging_tool_and_fetch() {
    let (stage, here, there) = (Stage::new(), place("main"), place("other"));
    let process = stage.start().await;
    process.hears(&message(&here, "1", "hang")).await;
    wait_until("the tool", || *stage.hanging.borrow() == 1).await;
    process.hears(&message(&here, "2", "/stop")).await;
    wait_until("the end", || stage.chat.log(&here).len() == 1).await;
    assert_eq!(stage.chat.log(&here), ["Stopped, as you asked."]);

    process.hears(&with_file(message(&there, "1", "take this"))).await;
    wait_until("the file is asked for", || stage.chat.fetches() == 1).await;
    process.hears(&message(&there, "2", "/stop")).await;
    wait_until("the end", || stage.chat.log(&there).len() == 1).await;
    let answer = stage.chat.log(&there).remove(0);
    assert!(answer.starts_with("Stopped, as you asked.") && answer.contains("I couldn't accept `a.txt`"), "{answer}");
    process.settles().await;
    assert_eq!((stage.chat.log(&here).len(), stage.chat.log(&there).len()), (1, 1), "the stop itself is no turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_during_turn_leaves_it_to_next_process() {
    let (stage, here) = (Stage::new(), place("main"));
    let first = stage.start().await;
    stage.model.paused.send_replace(true);
    first.hears(&message(&here, "1", "one")).await;
    wait_until("the question", || *stage.model.asked.borrow() == 1).await;
    // The first ledger stays open: what it holds is free because it was given back, not because its owner is gone.
    let _first = first.stops().await;
    stage.model.paused.send_replace(false);
    let begun = Instant::now();
    let _second = stage.start().await;
    wait_until("the answer", || stage.chat.log(&here) == ["re: one"]).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_during_retry_wait_leaves_part_to_successor() {
    let (stage, here) = (Stage::new(), place("main"));
    let first = stage.start().await;
    stage.chat.next_send(Quirk::NotNow(1_500));
    first.hears(&message(&here, "1", "one")).await;
    wait_until("the first attempt", || stage.chat.begun() == 1).await;
    wait_until_async("the wait", async || first.has_waiting_part().await).await;
    let begun = Instant::now();
    let _first = first.stops().await;
    assert!(begun.elapsed() < Duration::from_secs(1), "it waited for the part");
    let second = stage.start().await;
    wait_until("the answer", || stage.chat.log(&here) == ["re: one"]).await;
    second.settles().await;
    assert_eq!(stage.chat.begun(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_awaits_first_message_of_streamed_reply() {
    let (stage, here) = (Stage::streaming(StreamRule::Edits { interval_ms: 50 }), place("main"));
    let first = stage.start().await;
    stage.model.paused.send_replace(true);
    stage.chat.takes(Duration::from_millis(300));
    first.hears(&message(&here, "1", "one")).await;
    wait_until("the first send", || stage.chat.begun() == 1).await;
    let _first = first.stops().await;
    assert_eq!((stage.chat.cut_off(), stage.chat.log(&here).len()), (0, 1), "the send was finished");
    stage.model.paused.send_replace(false);
    stage.chat.takes(Duration::ZERO);
    let second = stage.start().await;
    wait_until("the end", || stage.chat.log(&here).last().is_some_and(|line| line == "edit: re: one")).await;
    second.settles().await;
    let log = stage.chat.log(&here);
    assert!(log[1..].iter().all(|line| line.starts_with("edit: ")), "a second message: {log:?}");
}

/// Whoever is asked a question and doesn't know how to answer it would wait for it to run out.
#[tokio::test(flavor = "multi_thread")]
async fn explanations_are_given_while_a_turn_runs() {
    for stream in [StreamRule::None, StreamRule::Edits { interval_ms: 50 }] {
        let (stage, here) = (Stage::streaming(stream), place("main"));
        let process = stage.start().await;
        process.hears(&message(&here, "1", "hang")).await;
        wait_until("the tool runs", || *stage.hanging.borrow() == 1).await;
        let said = |words: &str| stage.chat.log(&here).iter().filter(|said| said.contains(words)).count();
        process.hears(&message(&here, "2", "/allow")).await;
        wait_until("the explanation", || said("The code is missing.") == 1).await;
        process.hears(&message(&here, "3", "/flies")).await;
        wait_until("the hint", || said("I don't know the command `/flies`.") == 1).await;
        process.hears(&message(&here, "4", "/files")).await;
        process.hears(&message(&here, "5", "/stop")).await;
        wait_until("what waited", || said("No files here yet") == 1).await;
        process.settles().await;
        let counts = ["The code is missing.", "I don't know", "No files", "Stopped"].map(said);
        assert_eq!(counts, [1; 4], "each is said once: {:?}", stage.chat.log(&here));
        assert!(!stage.chat.log(&here).iter().any(|said| said.contains("duplicate")), "{:?}", stage.chat.log(&here));
    }
}

/// From the claim of the lane to its release there are a dozen moments in which a stop may come.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_never_loses_messages_or_leaves_doubt() {
    let stage = Stage::new();
    for n in 0..40_u64 {
        let here = place(&format!("c{n}"));
        let first = stage.start().await;
        first.hears(&message(&here, "1", "one")).await;
        // A little later each time, to meet every moment of the turn.
        sleep(Duration::from_micros(n * 250)).await;
        let _first = first.stops().await;
        let other = stage.open().await;
        if let Some(claimed) = other.claim_lane(&[here.channel().clone()], WorkFilter::Any).await.unwrap() {
            assert_eq!(claimed.turn.map_or(0, |turn| turn.crashes), 0, "a stop is no crash ({n})");
            assert!(other.release(&claimed.lease, ReleaseMode::Always).await.unwrap());
        }
        let second = stage.start().await;
        wait_until("the answer", || !stage.chat.log(&here).is_empty()).await;
        second.settles().await;
        assert_eq!(stage.chat.log(&here), ["re: one"], "{n}");
        second.stops().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_lease_cancels_request_in_flight() {
    let cases = [
        ("it was taken, and the renewal says so", None),
        ("it can't be renewed", Some(Trouble::FailsAlways)),
        ("the renewal does not come back", Some(Trouble::HangsAlways)),
    ];
    let played = cases.map(|(case, trouble)| async move {
        let verbs = VerbSettings { lease: Duration::from_millis(1_200), ..VerbSettings::default() };
        let settings = Settings { verbs, ..Settings::default() };
        let (stage, here) = (Stage { settings, look: NEVER, ..Stage::new() }, place("main"));
        stage.chat.answers(false);
        let process = stage
            .start_with(|intervals| {
                intervals.renew = Duration::from_millis(if trouble.is_some() { 50 } else { 1_800 });
                intervals.renew_retry = Duration::from_millis(20);
                intervals.trust = Duration::from_millis(if trouble.is_some() { 1_000 } else { 60_000 });
            })
            .await;
        process.hears(&message(&here, "1", "one")).await;
        wait_until("a send", || stage.chat.begun() == 1).await;
        let thief = stage.open().await;
        if let Some(trouble) = trouble {
            process.ledger.hook.trouble("ledger.renew", trouble);
            wait_until(case, || stage.chat.cut_off() == 1).await;
        }
        let (channels, mut stolen) = ([here.channel().clone()], None);
        wait_until_async(case, async || {
            stolen = thief.claim_lane(&channels, WorkFilter::Any).await.unwrap();
            stolen.is_some()
        })
        .await;
        wait_until(case, || stage.chat.cut_off() == 1).await;
        assert!(thief.release(&stolen.unwrap().lease, ReleaseMode::Always).await.unwrap());
        stage.chat.answers(true);
        // Another process finishes the work, beside the one that lost it.
        let successor = stage.start().await;
        wait_until(case, || !stage.chat.log(&here).is_empty()).await;
        successor.settles().await;
        process.stops().await;
        // What was in flight may have arrived.
        let expected = ["(possible duplicate) re: one"];
        assert_eq!(stage.chat.log(&here), expected, "{case}: the one that lost the lane went on");
    });
    join_all(played).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_renewed_outlasts_its_time() {
    let lease = Duration::from_millis(1_500);
    let verbs = VerbSettings { lease, ..VerbSettings::default() };
    let settings = Settings { verbs, ..Settings::default() };
    let (stage, here) = (Stage { settings, ..Stage::new() }, place("main"));
    stage.chat.answers(false);
    let process = stage.start_with(|intervals| intervals.renew = Duration::from_millis(50)).await;
    process.hears(&message(&here, "1", "one")).await;
    wait_until("a send", || stage.chat.begun() == 1).await;
    let other = stage.open().await;
    let claims_fail_for = async |time: Duration| {
        let begun = Instant::now();
        while begun.elapsed() < time {
            assert_eq!(other.claim_lane(&[here.channel().clone()], WorkFilter::Any).await.unwrap(), None);
            // The lease and its renewals go by the machine's clock, here longer than the lease lasts.
            sleep(Duration::from_millis(25)).await;
        }
    };
    claims_fail_for(lease + Duration::from_millis(500)).await;
    // A stop awaits the part in flight, and the lane is held until it has come back.
    let stopping = tokio::spawn(process.stops());
    claims_fail_for(lease + Duration::from_millis(250)).await;
    stage.chat.answers(true);
    stopping.await.unwrap();
    assert_eq!((stage.chat.log(&here).len(), stage.chat.cut_off()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn clock_leap_renews_leases_before_new_claims() {
    for (fails_first, renewals) in [(false, 1), (true, 2)] {
        let (stage, here) = (Stage { look: Duration::from_millis(20), ..Stage::new() }, place("main"));
        stage.chat.answers(false);
        // Looks come often while a renewal that has failed is still to be made again.
        let process = stage
            .start_with(|intervals| (intervals.renew, intervals.renew_retry) = (NEVER, Duration::from_millis(200)))
            .await;
        process.hears(&message(&here, "1", "one")).await;
        wait_until("a send", || stage.chat.begun() == 1).await;
        if fails_first {
            process.ledger.hook.trouble("ledger.renew", Trouble::FailsOnce);
        }
        process.ledger.hook.leap(Duration::from_secs(120));
        // The first look may have been on its way.
        let looks = |verbs: &[&str]| verbs.iter().skip(1).any(|verb| *verb == "ledger.claim_lane");
        wait_until("a look", || looks(&process.ledger.hook.calls())).await;
        let verbs = process.ledger.hook.calls();
        let before = verbs.iter().enumerate().take_while(|(at, verb)| *at == 0 || **verb != "ledger.claim_lane");
        assert_eq!(before.filter(|(_, verb)| **verb == "ledger.renew").count(), renewals, "{verbs:?}");
        stage.chat.answers(true);
        wait_until("the answer", || stage.chat.log(&here) == ["re: one"]).await;
        assert_eq!(stage.chat.cut_off(), 0);
    }
}

/// A bus that refuses its listeners, or tells them nothing.
struct Deaf {
    refuses: bool,
}

#[async_trait]
impl EventBus for Deaf {
    async fn publish(&self, _: BusEvent) -> Result<(), BusError> {
        Ok(())
    }

    async fn subscribe(&self) -> Result<EventStream, BusError> {
        match self.refuses {
            true => Err(BusError("nobody is there".into())),
            // It ends at once, as that of a server that goes away does.
            false => Ok(Box::pin(futures::stream::unfold((), async |()| None))),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deaf_bus_costs_only_time() {
    for refuses in [true, false] {
        let (stage, here, there) = (Stage { bus: Arc::new(Deaf { refuses }), ..Stage::new() }, place("a"), place("b"));
        let process = stage.start().await;
        process.hears(&message(&there, "1", "hang")).await;
        wait_until("the tool", || *stage.hanging.borrow() == 1).await;
        stage.chat.answers(false);
        process.hears(&message(&here, "1", "one")).await;
        wait_until("a send", || stage.chat.begun() == 1).await;
        let asked = *stage.model.asked.borrow();
        // Nobody wakes the lanes for these.
        process.hears(&message(&here, "2", "two")).await;
        process.hears(&message(&there, "2", "/stop")).await;
        wait_until("the next turn", || *stage.model.asked.borrow() == asked + 1).await;
        wait_until("the stop", || stage.chat.begun() == 2).await;
        stage.chat.answers(true);
        wait_until("both answers", || stage.chat.log(&here) == ["re: one", "re: two"]).await;
        wait_until("the stop's answer", || stage.chat.log(&there) == ["Stopped, as you asked."]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_message_starts_next_turn_before_slow_delivery() {
    let (stage, here) = (Stage::new(), place("main"));
    stage.chat.answers(false);
    let process = stage.start().await;
    stage.model.paused.send_replace(true);
    process.hears(&message(&here, "1", "one")).await;
    wait_until("the model", || *stage.model.asked.borrow() == 1).await;
    process.hears(&message(&here, "2", "two")).await;
    // The turn hears of it, too late to put it before the model; nothing shows that it has.
    sleep(Duration::from_millis(100)).await;
    let answering = Instant::now();
    stage.model.paused.send_replace(false);
    wait_until("the next turn", || *stage.model.asked.borrow() == 2).await;
    assert!(answering.elapsed() < Duration::from_secs(1), "it was found only when the lane looked for it");
    stage.chat.answers(true);
    wait_until("both answers", || stage.chat.log(&here) == ["re: one", "re: two"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn album_is_debounced_into_one_turn() {
    let verbs = VerbSettings { album_quiet: Duration::from_secs(2), ..VerbSettings::default() };
    let settings = Settings { verbs, ..Settings::default() };
    let (stage, here) = (Stage { settings, ..Stage::new() }, place("main"));
    let process = stage.start().await;
    // A delivery that ends meanwhile does not begin the wait anew.
    stage.chat.takes(Duration::from_millis(1_800));
    process.hears(&message(&here, "0", "first")).await;
    wait_until("a send", || stage.chat.begun() == 1).await;
    let mut quiet_since = Instant::now();
    for key in ["a", "b", "c"] {
        quiet_since = Instant::now();
        process.hears(&InboundMessage { album: Some("x".into()), ..message(&here, key, key) }).await;
        // Each begins the quiet time anew.
        sleep(Duration::from_millis(50)).await;
    }
    wait_until("the album's turn", || *stage.model.asked.borrow() == 2).await;
    let waited = quiet_since.elapsed();
    // The ledger counts whole milliseconds.
    assert!(waited >= Duration::from_millis(1_999) && waited < Duration::from_millis(3_500), "{waited:?}");
    wait_until("its answer", || stage.chat.log(&here).len() == 2).await;
    assert_eq!(stage.chat.log(&here)[1], "re: a\nb\nc");
    assert_eq!(*stage.model.asked.borrow(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_error_is_survived_at_every_call() {
    let cases = [
        "ledger.next_part",
        "ledger.next_turn",
        "ledger.list_queued_behind",
        "ledger.complete_turn",
        "ledger.open_draft",
        "ledger.save_part",
    ];
    let others = ["ledger.settle_part", "ledger.claim_lane", "ledger.renew"];
    let played = cases.into_iter().chain(others).map(|verb| async move {
        let stage = Stage::streaming(match verb {
            "ledger.open_draft" | "ledger.save_part" => StreamRule::Edits { interval_ms: 50 },
            _ => StreamRule::None,
        });
        let here = place("main");
        let process = stage.start_with(|intervals| intervals.renew = Duration::from_millis(20)).await;
        stage.model.paused.send_replace(true);
        process.ledger.hook.trouble(verb, Trouble::FailsOnce);
        match verb {
            // Only a lane with unsettled parts is asked for them: here one that another process has left.
            "ledger.next_part" => {
                stage.model.paused.send_replace(false);
                // Long enough for the process to be stopped before its second attempt.
                stage.chat.next_send(Quirk::NotNow(1_000));
                let other = stage.start().await;
                other.hears(&message(&here, "1", "one")).await;
                wait_until("the first attempt", || stage.chat.begun() == 1).await;
                other.stops().await;
            }
            // Only a turn that is not ready when its lane is claimed has to be read.
            "ledger.next_turn" => {
                process.hears(&InboundMessage { album: Some("x".into()), ..message(&here, "1", "one") }).await;
            }
            _ => process.hears(&message(&here, "1", "one")).await,
        }
        if verb == "ledger.list_queued_behind" {
            // Only what comes meanwhile is a reason to look.
            wait_until("the model is asked", || *stage.model.asked.borrow() == 1).await;
            process.hears(&message(&here, "1b", "another")).await;
        }
        if ["ledger.list_queued_behind", "ledger.open_draft", "ledger.save_part"].contains(&verb) {
            // They are used while the model still speaks, and perhaps not at all when it has spoken.
            wait_until(verb, || process.ledger.hook.met() == 1).await;
        }
        stage.model.paused.send_replace(false);
        let ended = |line: &String| line.ends_with("re: one");
        wait_until(verb, || stage.chat.log(&here).iter().any(ended) && process.ledger.hook.met() == 1).await;
        process.settles().await;
        // The work after it is as if nothing had been.
        process.hears(&message(&here, "2", "two")).await;
        wait_until(verb, || stage.chat.log(&here).last().is_some_and(|line| line.ends_with("re: two"))).await;
        let log = stage.chat.log(&here);
        let sent = log.iter().filter(|line| !line.starts_with("edit: ")).count();
        match verb {
            // What the platform answered could not be written down: at most that one comes again, and says so.
            "ledger.settle_part" | "ledger.save_part" => {
                assert!(sent <= 3 && log.iter().filter(|line| *line == "re: one").count() <= 1, "{verb}: {log:?}");
            }
            "ledger.list_queued_behind" => assert_eq!(sent, 3, "{verb}: {log:?}"),
            _ => assert_eq!(sent, 2, "{verb}: {log:?}"),
        }
    });
    join_all(played).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_error_does_not_cancel_delivery() {
    let (stage, here) = (Stage::new(), place("main"));
    let process = stage.start().await;
    stage.chat.takes(Duration::from_millis(400));
    process.hears(&message(&here, "1", "one")).await;
    wait_until("a send", || stage.chat.begun() == 1).await;
    process.ledger.hook.trouble("ledger.complete_turn", Trouble::FailsOnce);
    process.hears(&message(&here, "2", "two")).await;
    wait_until("the trouble", || process.ledger.hook.met() == 1).await;
    wait_until("both answers", || stage.chat.log(&here) == ["re: one", "re: two"]).await;
    process.settles().await;
    assert_eq!((stage.chat.cut_off(), stage.chat.log(&here).len()), (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn lane_is_resumed_after_panic() {
    let verbs = VerbSettings { lease: Duration::from_millis(300), ..VerbSettings::default() };
    let settings = Settings { verbs, ..Settings::default() };
    let (stage, here) = (Stage { settings, ..Stage::new() }, place("main"));
    let process = stage.start_with(|intervals| intervals.renew = Duration::from_millis(50)).await;
    stage.chat.next_send(Quirk::Panics);
    process.hears(&message(&here, "1", "one")).await;
    wait_until("the answer", || stage.chat.log(&here).len() == 1).await;
    process.settles().await;
    assert!(stage.chat.log(&here)[0].ends_with("re: one"), "{:?}", stage.chat.log(&here));
}
