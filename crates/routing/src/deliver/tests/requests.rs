//! What turns ask a driver for, while it finds in the ledger what they tell it of.

use super::*;

/// A driver whose ledger has these parts to deliver, one at each look, and what it sends.
fn driver_with(parts: Vec<Part>) -> (DeliveryHandle, Driver, Arc<Mutex<Vec<PartId>>>) {
    let sends: Arc<Mutex<Vec<PartId>>> = Arc::default();
    let mut ledger = MockLedger::default();
    let mut parts = parts.into_iter();
    ledger.outbox.expect_next_part().returning(move |_| Ok(parts.next()));
    ledger.outbox.expect_save_part().returning(|_, _| Ok(()));
    ledger.outbox.expect_settle_part().returning(|_, _| Ok(SettleOutcome { next: None, released: false }));
    let mut channel = MockChannel::new();
    channel.expect_name().returning(|| satchel_domain::ChannelName::new("console").unwrap());
    channel.expect_capabilities().return_const(tables::telegram());
    let noted = Arc::clone(&sends);
    channel.expect_post().returning(move |request| {
        noted.lock().unwrap().push(request.part_id);
        sent()
    });
    let mut bus = MockEventBus::new();
    bus.expect_publish().returning(|_| Ok(()));
    let context = DeliveryContext {
        outbox: Arc::new(ledger.outbox),
        archive: Arc::new(ledger.archive),
        clock: Arc::new(TokioClock::default()),
        channel: Arc::new(channel),
        blobs: Arc::new(MockBlobs::new()),
        speech: None,
        bus: Arc::new(bus),
        links: None,
        owner_reads: false,
        rules: DeliveryRules::default(),
        stop: CancellationToken::new(),
        process_stop: CancellationToken::new(),
    };
    let lease = Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
    let (handle, requests) = DeliveryHandle::new();
    (handle, Driver::new(context, lease, requests), sends)
}

/// The driver comes to the part before the turn that has started it says so: after an operator has discarded the one
/// before, or when a question was closed.
#[tokio::test(start_paused = true)]
async fn part_read_from_ledger_is_sent_once() {
    let started = sending(text(1));
    let (handle, driver, sends) = driver_with(vec![started.clone()]);
    let before = handle.mark();
    handle.wake();
    handle.planned(Some(started.clone()), before);
    handle.finish();
    assert_eq!(driver.run().await.unwrap(), DriverEnd::Finished);
    assert_eq!(*sends.lock().unwrap(), [started.id]);
}

#[tokio::test(start_paused = true)]
async fn part_that_nobody_has_read_is_sent_unread() {
    let (handle, driver, sends) = driver_with(vec![sending(text(2))]);
    handle.planned(Some(sending(text(1))), handle.mark());
    handle.finish();
    driver.run().await.unwrap();
    assert_eq!(*sends.lock().unwrap(), [text(1).id], "the ledger isn't asked");
}

#[tokio::test(start_paused = true)]
async fn driver_is_idle_once_all_is_done() {
    let (handle, mut driver, _) = driver_with(vec![text(1), text(2)]);
    assert!(handle.is_idle());
    driver.take_over().await.unwrap();
    assert!(!handle.is_idle(), "something was taken over");
    handle.wake();
    tokio::select! {
        ended = driver.run() => panic!("nobody told it to finish: {ended:?}"),
        () = handle.idle() => {}
    }
    assert!(handle.is_idle());
}

/// A platform may be away for a day, in which turns go on.
#[tokio::test(start_paused = true)]
async fn many_requests_are_one_look_into_the_ledger() {
    let (handle, driver, sends) = driver_with(vec![sending(text(1)), text(2)]);
    for _ in 0..1_000 {
        handle.planned(Some(sending(text(1))), handle.mark());
    }
    handle.finish();
    driver.run().await.unwrap();
    assert_eq!(*sends.lock().unwrap(), [text(1).id], "once, and nothing is looked for again");
}
