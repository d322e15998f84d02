//! What becomes of a part whose process dies behind a send that arrived, once another delivers it through the channel.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use satchel_domain::{Part, PartState, delivery::DeliveryRules, part::Operation};
use satchel_ports::{
    HolderId, Lease, ManualClock, MockBlobs, MockEventBus, MockLedger,
    ledger::{SettleOutcome, Settlement},
};
use satchel_routing::deliver::{DeliveryContext, DeliveryHandle, Driver};
use tokio_util::sync::CancellationToken;

use super::*;

/// Catches: a repeat under a key whose message is then edited where nothing can be edited, and sent as a second one.
pub async fn interrupted_send_is_one_message(fixture: &dyn ChannelFixture) {
    if capabilities(fixture).idempotency == Idempotency::None {
        return;
    }
    let sent = text_request(fixture, 1, "once and for all");
    send(fixture, &sent).await;
    deliver_as_next_process(fixture, &sent).await;
    let arrived = fixture.arrived_messages().await;
    assert_eq!(arrived.len(), 1, "{arrived:?}");
    assert!(
        arrived[0].text.trim_end().ends_with("once and for all") && !arrived[0].text.contains("duplicate"),
        "{arrived:?}"
    );
}

/// Delivers a part that another process had begun. What takes its place is delivered too.
async fn deliver_as_next_process(fixture: &dyn ChannelFixture, sent: &PostRequest) {
    let started_part = Part {
        state: PartState::Sending,
        attempts: 1,
        first_attempt_at: Some(Timestamp(0)),
        ..Part::new(sent.part_id, sent.conversation.clone(), sent.turn, 0, sent.content.clone(), Timestamp(0))
    };
    let pending_parts = Arc::new(Mutex::new(VecDeque::from([started_part])));
    let mut ledger = MockLedger::default();
    let parts = Arc::clone(&pending_parts);
    ledger
        .outbox
        .expect_next_part()
        .returning(move |_| Ok(parts.lock().unwrap_or_else(PoisonError::into_inner).pop_front()));
    ledger.outbox.expect_save_part().returning(|_, _| Ok(()));
    ledger.archive.expect_turn().returning(|_| Ok(None));
    ledger.outbox.expect_last_sent_before().returning(|_| Ok(None));
    ledger.outbox.expect_settle_part().returning(move |_, Settlement { part, children, .. }| {
        let mut rest = pending_parts.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, child) in (2..).zip(children) {
            let id = PartId(Uuid::from_u128(part.id.0.as_u128() + number));
            let content = child.content.clone();
            rest.push_back(Part {
                id,
                operation: Operation::Post { content },
                state: PartState::Pending,
                ..part.clone()
            });
        }
        let next = rest.pop_front();
        Ok(SettleOutcome { released: next.is_none(), next })
    });
    let mut bus = MockEventBus::new();
    bus.expect_publish().returning(|_| Ok(()));
    let delivery = DeliveryContext {
        outbox: Arc::new(ledger.outbox),
        archive: Arc::new(ledger.archive),
        clock: Arc::new(ManualClock::at(Timestamp(1))),
        channel: fixture.channel(),
        blobs: Arc::new(MockBlobs::new()),
        speech: None,
        bus: Arc::new(bus),
        links: None,
        owner_reads: false,
        rules: DeliveryRules::default(),
        stop: CancellationToken::new(),
        process_stop: CancellationToken::new(),
    };
    let lease = Lease { conversation: fixture.conversation(), holder: HolderId(Uuid::nil()), token: 1 };
    let (handle, requests) = DeliveryHandle::new();
    let mut driver = Driver::new(delivery, lease, requests);
    driver.take_over().await.unwrap();
    handle.finish();
    driver.run().await.unwrap();
}
