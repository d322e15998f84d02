//! Promises about the connections to platforms.

use satchel_domain::ChannelName;
use satchel_ports::ledger::{DELIVERY_GATEWAY, GATEWAY_TAKEOVER, GatewayLease};

use super::LedgerFixture;

fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

/// Catches: a claim that doesn't look whether the gateway is held, one gateway for all channels, and a token that begins
/// again after a release.
pub async fn gateway_has_one_holder_and_rising_tokens(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let telegram = channel("telegram");
    let first = one.gateways.claim_gateway(&telegram).await.unwrap().expect("nobody has it");
    assert_eq!(two.gateways.claim_gateway(&telegram).await.unwrap(), None);
    let elsewhere = two.gateways.claim_gateway(&channel("discord")).await.unwrap().expect("another channel's");
    let mut last = first.clone();
    for round in 0..3 {
        one.gateways.release_gateway(&last).await.unwrap();
        let next = two.gateways.claim_gateway(&telegram).await.unwrap().expect("it was released");
        assert!(next.token > last.token && next.holder != last.holder, "round {round}");
        two.gateways.release_gateway(&next).await.unwrap();
        last = one.gateways.claim_gateway(&telegram).await.unwrap().expect("it was released");
        assert!(last.token > next.token, "round {round}");
    }
    assert!(two.gateways.renew_gateway(&elsewhere).await.unwrap(), "the other channel's is untouched");
}

/// Catches: a gateway that a restart or a second machine never gets.
pub async fn dead_holders_gateway_is_claimable(fixture: &impl LedgerFixture) {
    let telegram = channel("telegram");
    let (one, two) = (fixture.open().await, fixture.open().await);
    let old = one.gateways.claim_gateway(&telegram).await.unwrap().unwrap();
    assert_eq!(two.gateways.claim_gateway(&telegram).await.unwrap(), None);
    drop(one);
    fixture.after_death();
    let new = two.gateways.claim_gateway(&telegram).await.unwrap().expect("its process is gone");
    assert!(new.token > old.token);
}

/// Catches: a renewal that prolongs nothing, one that doesn't notice a successor, and a release that frees a successor's.
pub async fn renewal_reports_a_lost_gateway(fixture: &impl LedgerFixture) {
    let telegram = channel("telegram");
    let (one, two) = (fixture.open().await, fixture.open().await);
    let first = one.gateways.claim_gateway(&telegram).await.unwrap().unwrap();
    for _ in 0..6 {
        fixture.clock().advance(GATEWAY_TAKEOVER / 4);
        assert!(one.gateways.renew_gateway(&first).await.unwrap());
        assert_eq!(two.gateways.claim_gateway(&telegram).await.unwrap(), None);
    }
    let again = one.gateways.claim_gateway(&telegram).await.unwrap().expect("it is its own");
    assert!(again.token > first.token);
    assert!(!one.gateways.renew_gateway(&first).await.unwrap(), "an old token");
    let forged =
        GatewayLease { token: again.token, ..two.gateways.claim_gateway(&channel("web")).await.unwrap().unwrap() };
    let forged = GatewayLease { channel: telegram.clone(), ..forged };
    assert!(!two.gateways.renew_gateway(&forged).await.unwrap(), "the right token of the wrong process");
    for stale in [&first, &forged] {
        one.gateways.release_gateway(stale).await.unwrap();
        assert_eq!(two.gateways.claim_gateway(&telegram).await.unwrap(), None, "it frees nobody else's");
    }
    assert!(one.gateways.renew_gateway(&again).await.unwrap());
}

/// Catches: agents that wait for delivery workers which are gone, and agents that never learn of one.
pub async fn gateway_is_held_until_it_can_be_claimed(fixture: &impl LedgerFixture) {
    let workers = channel(DELIVERY_GATEWAY);
    let (one, two) = (fixture.open().await, fixture.open().await);
    let is_held = async || two.gateways.is_gateway_held(&workers).await.unwrap();
    assert!(!is_held().await, "nobody has claimed it");
    two.gateways.claim_gateway(&channel("telegram")).await.unwrap();
    assert!(!is_held().await, "another one");
    let lease = one.gateways.claim_gateway(&workers).await.unwrap().unwrap();
    assert!(is_held().await);
    assert!(one.gateways.is_gateway_held(&workers).await.unwrap(), "by itself");
    one.gateways.release_gateway(&lease).await.unwrap();
    assert!(!is_held().await, "it was released");
    one.gateways.claim_gateway(&workers).await.unwrap().unwrap();
    assert!(is_held().await, "once more");
    drop(one);
    fixture.after_death();
    assert!(!is_held().await, "its process is gone");
}
