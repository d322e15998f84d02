//! A part that was begun when the process stops, before anything was sent: what is written down of it, and what that
//! means for whoever delivers it next.

use satchel_ports::TokioClock;

use super::*;

/// How a stop leaves a part that was committed as begun.
async fn stored_at_stop(begun: Part) -> Part {
    let stored: Arc<Mutex<Vec<Part>>> = Arc::default();
    let mut ledger = MockLedger::default();
    let saved = Arc::clone(&stored);
    ledger.outbox.expect_save_part().returning(move |_, part| {
        saved.lock().unwrap().push(part.clone());
        Ok(())
    });
    let delivery = DeliveryContext {
        outbox: Arc::new(ledger.outbox),
        archive: Arc::new(ledger.archive),
        clock: Arc::new(TokioClock::default()),
        channel: Arc::new(MockChannel::new()),
        blobs: Arc::new(MockBlobs::new()),
        speech: None,
        bus: Arc::new(MockEventBus::new()),
        links: None,
        owner_reads: false,
        rules: DeliveryRules::default(),
        stop: CancellationToken::new(),
        process_stop: CancellationToken::new(),
    };
    delivery.stop.cancel();
    let lease = Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
    assert_eq!(run(delivery, lease, DeliveryStart::Started(begun)).await.unwrap(), DriverEnd::Finished);
    let stored = stored.lock().unwrap();
    assert_eq!(stored.len(), 1);
    stored[0].clone()
}

/// What is done about a part whose next send ends in doubt, on a channel that knows a key for a minute.
async fn in_doubt_afterwards(part: Part) -> Vec<String> {
    let stage = DeliveryHarness {
        capabilities: ChannelCapabilities {
            idempotency: Idempotency::Key { window_ms: Some(60_000) },
            ..tables::discord()
        },
        lookups: vec![LookupOutcome::Found { messages: vec![MessageRef("m1".into())], duplicates: Vec::new() }],
        ..DeliveryHarness::new(vec![part], vec![in_doubt(), sent(), sent()])
    };
    stage.log().await
}

const AN_HOUR_AGO: Timestamp = Timestamp(-3_600_000);

#[tokio::test(start_paused = true)]
async fn a_first_attempt_reverted_at_stop_leaves_nothing() {
    let begun = Part { first_attempt_at: Some(AN_HOUR_AGO), labelled: true, ..sending(text(1)) };
    let stored = stored_at_stop(begun.clone()).await;
    let expected = Part { state: PartState::Pending, attempts: 0, first_attempt_at: None, ..begun };
    assert_eq!(stored, expected, "its label stays, for that is no matter of this attempt");

    let stored = Part { labelled: false, ..stored };
    let log = DeliveryHarness::new(vec![stored.clone()], vec![sent()]).log().await;
    assert_eq!(log, ["save sending", "send hello", "settle sent"], "nobody doubts what was not sent");
    let log = in_doubt_afterwards(stored).await;
    assert!(!log.contains(&"look up".to_owned()), "the key is as old as the next send: {log:?}");
}

#[tokio::test(start_paused = true)]
async fn reverted_attempt_keeps_earlier_attempts() {
    for attempts in [2, 7] {
        let begun = Part { attempts, first_attempt_at: Some(AN_HOUR_AGO), ..sending(text(1)) };
        let stored = stored_at_stop(begun.clone()).await;
        assert_eq!(stored, Part { state: PartState::Pending, attempts: attempts - 1, ..begun });
        let log = in_doubt_afterwards(stored).await;
        assert!(log.contains(&"look up".to_owned()), "the key is as old as the first send: {log:?}");
    }
}
