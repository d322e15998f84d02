//! The wait for a platform that refuses the bot's account.

use std::time::Duration;

use satchel_domain::ChannelState;
use satchel_ports::Channel;

/// Waits until a channel that has refused a call is open. One that says that it is open may have been opened in between,
/// or doesn't know its state: it is used again after the pause.
pub(super) async fn wait_until_open(channel: &dyn Channel, pause: Duration) {
    let mut state = channel.state();
    if state == ChannelState::Open {
        tokio::time::sleep(pause).await;
    }
    while state != ChannelState::Open {
        state = channel.next_state(&state).await;
    }
}
