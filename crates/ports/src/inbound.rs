//! The way in: what channel adapters hand their messages to.

use async_trait::async_trait;
use satchel_domain::{InboundMessage, TurnId};

/// Why a message was not taken. The adapter must not tell its platform that it was.
#[derive(Debug, thiserror::Error)]
#[error("the message could not be stored")]
pub struct InboundError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Takes messages in. Implemented by `intake`, called by every channel adapter.
///
/// # Contract
/// - `accept` returns `Ok` only after the message is durable; only then may the platform hear of it.
/// - A message whose key is known already is taken as the one that it repeats.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Inbound: Send + Sync {
    /// Stores a message and wakes whoever works on its conversation. Returns the turn that it became part of.
    async fn accept(&self, message: InboundMessage) -> Result<TurnId, InboundError>;
}
