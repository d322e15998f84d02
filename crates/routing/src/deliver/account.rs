//! The wait for a platform that refuses the bot's account.

use std::time::Duration;

use satchel_domain::{ChannelState, Timestamp};
use satchel_ports::Channel;

use super::{DeliveryContext, DeliveryRequests};

/// Waits until a channel that has refused a call is open, and no longer than to this moment, if there is one; `None` when the
/// process stops before. Meanwhile the lane can be given back, to be delivered by a process with other credentials.
pub(super) async fn await_account(
    context: &DeliveryContext,
    requests: &DeliveryRequests,
    until: Option<Timestamp>,
) -> Option<()> {
    let DeliveryContext { channel, clock, stop, rules, .. } = context;
    let too_late = async {
        match until {
            Some(until) => tokio::time::sleep(until.saturating_duration_since(clock.now())).await,
            None => std::future::pending().await,
        }
    };
    let wait = async {
        tokio::select! {
            () = too_late => {}
            () = wait_until_open(&**channel, rules.backoff) => {}
        }
    };
    // One that says that it is open would be claimed again at once.
    requests.set_awaits_account(channel.state() != ChannelState::Open);
    let waited = stop.run_until_cancelled(wait).await;
    requests.set_awaits_account(false);
    waited
}

/// Waits until a channel that has refused a call is open. One that says that it is open may have been opened in between,
/// or doesn't know its state: it is used again after the pause.
async fn wait_until_open(channel: &dyn Channel, pause: Duration) {
    let mut state = channel.state();
    if state == ChannelState::Open {
        tokio::time::sleep(pause).await;
    }
    while state != ChannelState::Open {
        state = channel.next_state(&state).await;
    }
}
