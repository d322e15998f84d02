//! The connections to platforms: which process receives the messages of a channel.

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::ChannelName;

use super::{HolderId, LedgerError};

/// After how long without a renewal a gateway can be claimed by others.
pub const GATEWAY_TAKEOVER: Duration = Duration::from_secs(8);

/// The name under which delivery workers hold a gateway: while it is held, there is one. They deliver on all channels, so
/// no channel has it.
pub const DELIVERY_GATEWAY: &str = "delivery";

/// The right to receive a channel's messages from its platform, one process at a time. A platform serves one connection
/// of a bot: a second one gets the first one's messages, or ends it.
///
/// # Contract
/// Besides that of [all ports](super):
/// - A channel has one gateway at a time; its tokens grow with each claim and never repeat.
/// - A gateway whose process has exited can be claimed after [`GATEWAY_TAKEOVER`] at the latest, also when it exited
///   without releasing it. Where processes needn't share a machine, so can one that isn't renewed for so long.
/// - A process may claim what it holds, with a new token.
/// - A gateway is held from its claim until it is released, or can be claimed by others.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Gateways: Send + Sync {
    /// Claims the gateway of a channel; `None` while another process holds it.
    async fn claim_gateway(&self, channel: &ChannelName) -> Result<Option<GatewayLease>, LedgerError>;

    /// Returns whether a process holds the gateway of a channel.
    async fn is_gateway_held(&self, channel: &ChannelName) -> Result<bool, LedgerError>;

    /// Renews a lease; `false` if another process holds the gateway now.
    async fn renew_gateway(&self, lease: &GatewayLease) -> Result<bool, LedgerError>;

    /// Releases a gateway for others to claim at once. Nothing happens if the lease is lost.
    async fn release_gateway(&self, lease: &GatewayLease) -> Result<(), LedgerError>;
}

/// The right to receive the messages of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GatewayLease {
    /// The channel.
    pub channel: ChannelName,
    /// The process that holds it.
    pub holder: HolderId,
    /// The fencing token, which grows with every claim.
    pub token: u64,
}
