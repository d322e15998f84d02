//! The gateways of channels: which process receives their messages, and which channels have delivery workers.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use satchel_domain::ChannelName;

use super::{HolderId, LedgerError};

/// After how long without a renewal a gateway can be claimed by others.
pub const GATEWAY_TAKEOVER: Duration = Duration::from_secs(8);

/// What follows the channel's name in the text of a gateway of deliveries. No channel has it in its name.
const DELIVERY_SUFFIX: &str = ".delivery";

/// The gateways of channels, each held by one process at a time. The one that receives messages is the right to connect to
/// the platform, which serves one connection of a bot: a second one gets the first one's messages, or ends it. The one of
/// deliveries says that the channel has delivery workers, of whom one holds it.
///
/// # Contract
/// Besides that of [all ports](super):
/// - A channel has one gateway for each duty; its tokens grow with each claim and never repeat.
/// - A gateway whose process has exited can be claimed after [`GATEWAY_TAKEOVER`] at the latest, also when it exited
///   without releasing it. Where processes needn't share a machine, so can one that isn't renewed for so long.
/// - A process may claim what it holds, with a new token.
/// - A gateway is held from its claim until it is released, or can be claimed by others.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Gateways: Send + Sync {
    /// Claims a gateway; `None` while another process holds it.
    async fn claim_gateway(&self, gateway: &GatewayId) -> Result<Option<GatewayLease>, LedgerError>;

    /// Returns the channels whose gateway for this duty is held by a process, in no order.
    async fn list_held_gateways(&self, duty: GatewayDuty) -> Result<Vec<ChannelName>, LedgerError>;

    /// Renews a lease; `false` if another process holds the gateway now.
    async fn renew_gateway(&self, lease: &GatewayLease) -> Result<bool, LedgerError>;

    /// Releases a gateway for others to claim at once. Nothing happens if the lease is lost.
    async fn release_gateway(&self, lease: &GatewayLease) -> Result<(), LedgerError>;
}

/// What a process that holds a gateway does for its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GatewayDuty {
    /// It receives the messages.
    Receive,
    /// It delivers what agents reply, and so may others that wait for the gateway.
    Deliver,
}

impl GatewayDuty {
    /// The name of the duty, as in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Deliver => "deliver",
        }
    }
}

/// The gateway of a channel for a duty. As text it is `telegram` or `telegram.delivery`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GatewayId {
    /// The channel.
    pub channel: ChannelName,
    /// What its holder does.
    pub duty: GatewayDuty,
}

impl GatewayId {
    /// Reads what `Display` has written; `None` if it is nothing of the kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (channel, duty) = match text.strip_suffix(DELIVERY_SUFFIX) {
            Some(channel) => (channel, GatewayDuty::Deliver),
            None => (text, GatewayDuty::Receive),
        };
        Some(Self { channel: ChannelName::new(channel).ok()?, duty })
    }
}

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.channel.as_str())?;
        match self.duty {
            GatewayDuty::Receive => Ok(()),
            GatewayDuty::Deliver => f.write_str(DELIVERY_SUFFIX),
        }
    }
}

/// The right to do a gateway's duty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GatewayLease {
    /// The gateway.
    pub gateway: GatewayId,
    /// The process that holds it.
    pub holder: HolderId,
    /// The fencing token, which grows with every claim.
    pub token: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_is_read_as_it_was_written() {
        for (text, duty) in [("telegram", GatewayDuty::Receive), ("telegram.delivery", GatewayDuty::Deliver)] {
            let gateway = GatewayId { channel: ChannelName::new("telegram").unwrap(), duty };
            assert_eq!((gateway.to_string().as_str(), GatewayId::parse(text)), (text, Some(gateway)));
        }
        for unknown in ["", ".delivery", "telegram.other", "telegram.delivery.delivery"] {
            assert_eq!(GatewayId::parse(unknown), None, "{unknown:?}");
        }
    }
}
