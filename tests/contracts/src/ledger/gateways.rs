//! Promises about the gateways of channels.

use satchel_domain::ChannelName;
use satchel_ports::ledger::{GATEWAY_TAKEOVER, GatewayDuty, GatewayId, GatewayLease, Ledger};

use super::LedgerFixture;

fn receiving(channel: &str) -> GatewayId {
    GatewayId { channel: ChannelName::new(channel).unwrap(), duty: GatewayDuty::Receive }
}

fn delivering(channel: &str) -> GatewayId {
    GatewayId { duty: GatewayDuty::Deliver, ..receiving(channel) }
}

/// Catches: a claim that doesn't look whether the gateway is held, one gateway for all channels or duties, and a token that
/// begins again after a release.
pub async fn gateway_has_one_holder_and_rising_tokens(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let telegram = receiving("telegram");
    let first = one.gateways.claim_gateway(&telegram).await.unwrap().expect("nobody has it");
    assert_eq!(two.gateways.claim_gateway(&telegram).await.unwrap(), None);
    let elsewhere = two.gateways.claim_gateway(&receiving("discord")).await.unwrap().expect("another channel's");
    let worker = two.gateways.claim_gateway(&delivering("telegram")).await.unwrap().expect("another duty's");
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
    assert!(two.gateways.renew_gateway(&worker).await.unwrap(), "the other duty's is untouched");
}

/// Catches: a gateway that a restart or a second machine never gets.
pub async fn dead_holders_gateway_is_claimable(fixture: &impl LedgerFixture) {
    let telegram = receiving("telegram");
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
    let telegram = receiving("telegram");
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
        GatewayLease { token: again.token, ..two.gateways.claim_gateway(&receiving("web")).await.unwrap().unwrap() };
    let forged = GatewayLease { gateway: telegram.clone(), ..forged };
    assert!(!two.gateways.renew_gateway(&forged).await.unwrap(), "the right token of the wrong process");
    for stale in [&first, &forged] {
        one.gateways.release_gateway(stale).await.unwrap();
        assert_eq!(two.gateways.claim_gateway(&telegram).await.unwrap(), None, "it frees nobody else's");
    }
    assert!(one.gateways.renew_gateway(&again).await.unwrap());
}

/// Catches: agents that wait for delivery workers which are gone or serve other channels, and agents that never learn of one.
pub async fn gateway_is_held_until_it_can_be_claimed(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let held = async || list_held(&two, GatewayDuty::Deliver).await;
    assert!(held().await.is_empty(), "nobody has claimed one");
    two.gateways.claim_gateway(&receiving("telegram")).await.unwrap();
    assert!(held().await.is_empty(), "another duty's");
    let lease = one.gateways.claim_gateway(&delivering("discord")).await.unwrap().unwrap();
    two.gateways.claim_gateway(&delivering("web")).await.unwrap().unwrap();
    assert_eq!(held().await, ["discord", "web"], "its own and another process's");
    assert_eq!(list_held(&two, GatewayDuty::Receive).await, ["telegram"]);
    one.gateways.release_gateway(&lease).await.unwrap();
    assert_eq!(held().await, ["web"], "one was released");
    one.gateways.claim_gateway(&delivering("discord")).await.unwrap().unwrap();
    assert_eq!(held().await, ["discord", "web"], "once more");
    drop(one);
    fixture.after_death();
    assert!(!held().await.contains(&"discord".to_owned()), "its process is gone");
}

async fn list_held(ledger: &Ledger, duty: GatewayDuty) -> Vec<String> {
    let held = ledger.gateways.list_held_gateways(duty).await.unwrap();
    let mut names: Vec<String> = held.iter().map(ToString::to_string).collect();
    names.sort();
    names
}
