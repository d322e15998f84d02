//! What a platform's channel does while its account is refused.

use satchel_domain::ChannelState;

use super::*;

/// Catches: a revoked token that gives a message up or is asked for with every message, and a channel that stays closed.
pub async fn refused_account_closes_channel_until_it_is_accepted<F: PlatformFixture>() {
    let fixture = F::start().await;
    let channel = fixture.channel();
    let sent = send_text(&fixture, "before").await;
    assert_eq!(channel.state(), ChannelState::Open);
    fixture.revoke_token();
    let message = part(&fixture, PartContent::from_text("meanwhile"));
    let edit = part(&fixture, PartContent::from_text("changed"));
    let refused = channel.post(&message).await;
    assert_eq!(ExpectedOutcome::from(refused), ExpectedOutcome::AccountRefused);
    let closed = channel.state();
    let closure = closed.closure().unwrap();
    assert!(closure.reason.ends_with("accepts the bot's token"), "{closure:?}");
    let requests = fixture.send_requests();
    let nothing = |()| Vec::new();
    for outcome in [
        channel.post(&message).await,
        channel.edit(&sent[0], &edit).await,
        channel.delete(&fixture.conversation(), &sent[0]).await.map(nothing),
        channel.probe().await.map(nothing),
    ] {
        assert_eq!(ExpectedOutcome::from(outcome), ExpectedOutcome::AccountRefused);
    }
    assert_eq!(fixture.send_requests(), requests, "a closed channel sends nothing");

    fixture.accept_token();
    assert_eq!(channel.next_state(&closed).await, ChannelState::Open);
    channel.post(&message).await.unwrap();
    let arrived = fixture.arrived_messages().await;
    assert_eq!(arrived.iter().map(|message| message.text.as_str()).collect::<Vec<_>>(), ["before", "meanwhile"]);
}
