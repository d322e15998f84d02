//! The pace over the wire: a platform that enforces it never has to.

use std::{pin::pin, time::Instant};

use futures::future::join_all;
use satchel_fake_telegram::{RateReport, TelegramRates, TelegramRules};

use super::*;

async fn paced() -> OutboundHarness {
    OutboundHarness::with(TelegramRules::default().paced(), tables::telegram()).await
}

/// Sends a part as the ledger's owner does, who comes back when told to.
async fn deliver(stage: &OutboundHarness, request: &PostRequest) {
    loop {
        match stage.channel.post(request).await {
            Err(SendError::NotSent { retry_after_ms: Some(wait), .. }) => {
                // As told.
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            answered => {
                answered.unwrap();
                return;
            }
        }
    }
}

/// Plays something on a new stage, which must go well unless it is held up: what leaves at its pace arrives at it only
/// if nothing stops the machine in between. Then it is played anew.
async fn goes_well(play: impl AsyncFn(&OutboundHarness) -> Result<(), String>) {
    const TICK: Duration = Duration::from_millis(10);
    // Less than half of what the platform overlooks, and little enough to be caught up with.
    const HELD_UP: Duration = Duration::from_millis(40);
    for tries in 1.. {
        let stage = paced().await;
        let (mut playing, mut longest) = (pin!(play(&stage)), Duration::ZERO);
        let played = loop {
            let began = Instant::now();
            let played = tokio::time::timeout(TICK, &mut playing).await;
            longest = longest.max(began.elapsed().saturating_sub(TICK));
            if let Ok(played) = played {
                break played;
            }
        };
        let Err(wrong) = played else { return };
        assert!(longest >= HELD_UP && tries < 4, "{wrong}, though played {tries} times");
    }
}

/// Whether everything was let through, and that no slower than is allowed.
fn check_report(report: &RateReport, accepted: u64, share: f64) -> Result<(), String> {
    if (report.accepted, report.refused) != (accepted, 0) || share < 0.95 {
        return Err(format!("{share:.3} of what is allowed, {} let through, {} not", report.accepted, report.refused));
    }
    println!("{share:.3} of what is allowed, no 429");
    Ok(())
}

#[tokio::test]
async fn chat_sends_reach_but_never_exceed_its_rate() {
    let play = async |stage: &OutboundHarness| {
        for number in 0..9 {
            deliver(stage, &stage.part(text(&format!("text {number}")))).await;
        }
        let report = stage.telegram.pace();
        check_report(&report, 9, report.chats[&stage.chat].share(TelegramRates::default()))
    };
    goes_well(play).await;
}

#[tokio::test]
async fn many_chats_reach_but_never_exceed_global_rate() {
    let play = async |stage: &OutboundHarness| {
        let chats: Vec<i64> = (1..=90)
            .map(|number| stage.telegram.private_chat(stage.telegram.person(number, &format!("person {number}"))))
            .collect();
        let sends = chats.iter().map(|chat| async {
            for number in 0..2 {
                deliver(stage, &stage.part_in(*chat, text(&format!("text {number}")))).await;
            }
        });
        join_all(sends).await;
        let report = stage.telegram.pace();
        check_report(&report, 180, report.share(TelegramRates::default()))
    };
    goes_well(play).await;
}

#[tokio::test]
async fn draft_edits_yield_to_permanent_messages() {
    let play = async |stage: &OutboundHarness| {
        let other = stage.telegram.private_chat(stage.telegram.person(5, "Boris"));
        let answered = async {
            let sent = stage.send(text("grows")).await?;
            stage.send(text("x")).await?;
            stage.send(text("y")).await?;
            let (part, message) = (stage.part(text("grows and grows")), sent[0].clone());
            let edit = async { stage.channel.edit(&message, &part).await.map(|_| Instant::now()) };
            let send = async {
                // Later than the edit, and within the wait that the edit has.
                tokio::time::sleep(Duration::from_millis(200)).await;
                stage.send(text("lasts")).await.map(|_| Instant::now())
            };
            let elsewhere = stage.part_in(other, text("not held up"));
            let elsewhere = async { stage.channel.post(&elsewhere).await.map(|_| Instant::now()) };
            tokio::try_join!(edit, send, elsewhere)
        };
        let answered = answered.await;
        match &answered {
            Ok((edited, sent, elsewhere))
                if elsewhere < sent && sent < edited && stage.telegram.pace().refused == 0 =>
            {
                Ok(())
            }
            other => {
                Err(format!("edited, sent, elsewhere: {other:?}; {} not let through", stage.telegram.pace().refused))
            }
        }
    };
    goes_well(play).await;
}
