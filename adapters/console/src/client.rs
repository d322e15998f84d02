//! The ports and settings that the person's side of the terminal uses.

use std::{fmt, io, sync::Arc};

use satchel_domain::{ConversationId, FileReference, InboundMessage, Sender, TurnId};
use satchel_ports::{Archive, BusError, EventBus, Ids, Inbound, InboundError, LedgerError};
use tokio_util::sync::CancellationToken;

use crate::Screen;

/// The person at this terminal, and the ports that their input and output use.
#[derive(Clone)]
pub struct ConsoleClient {
    pub inbound: Arc<dyn Inbound>,
    /// The state of their turns.
    pub archive: Arc<dyn Archive>,
    pub ids: Arc<dyn Ids>,
    pub bus: Arc<dyn EventBus>,
    pub screen: Arc<Screen>,
    /// Their conversation: `console:main`.
    pub conversation: ConversationId,
    pub name: String,
    /// Cancelled to shut down in order.
    pub shutdown: CancellationToken,
}

/// The error of a terminal session.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// The process is stopping; what was sent stays in the ledger.
    #[error("stopped before the reply was complete; it continues at the next start")]
    Stopped,
    /// Another process works on the conversation; the message was not stored.
    #[error("another process works on the conversation; the message was not sent")]
    Busy,
    /// The message was not accepted.
    #[error("the message could not be stored")]
    NotAccepted(#[source] InboundError),
    /// The turn can't be read.
    #[error("failed to read the turn")]
    Ledger(#[source] LedgerError),
    /// The event bus can't be subscribed to.
    #[error("failed to subscribe to events")]
    Bus(#[source] BusError),
    /// The terminal can't be used.
    #[error("failed to {doing}")]
    Terminal {
        /// What was being done, and to what.
        doing: String,
        #[source]
        source: io::Error,
    },
}

impl ConsoleClient {
    /// Submits a message; it is durable when this returns.
    pub(crate) async fn submit(&self, text: &str, files: Vec<FileReference>) -> Result<TurnId, ConsoleError> {
        let message = InboundMessage {
            text: text.to_owned(),
            files,
            ..InboundMessage::new(
                self.conversation.clone(),
                self.ids.next().to_string(),
                Sender::new("owner", self.name.clone()),
            )
        };
        match self.inbound.accept(message).await {
            Ok(Some(turn)) => Ok(turn),
            Ok(None) => {
                Err(ConsoleError::NotAccepted(InboundError("you are not allowed to send messages here".into())))
            }
            Err(InboundError(source)) if matches!(source.downcast_ref(), Some(LedgerError::LaneHeld(_))) => {
                Err(ConsoleError::Busy)
            }
            Err(error) => Err(ConsoleError::NotAccepted(error)),
        }
    }
}

impl fmt::Debug for ConsoleClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleClient").field("conversation", &self.conversation).finish_non_exhaustive()
    }
}
