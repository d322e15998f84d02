//! The inbound side: receives events from the gateway, and hands messages to the port.
//!
//! Discord gets no acknowledgement of an event. A checkpoint survives the process: the session, and the last event before
//! which everything is stored. Discord repeats what comes after it; if it can't, the channels' history is read.

mod backfill;
mod checkpoint;
mod intake;
mod interactions;
mod reader;
mod setup;
mod store;
pub(crate) mod wire;

use std::sync::Arc;

use satchel_ports::Inbound;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::{
    intake::InboundProcessor,
    reader::InboundReader,
    store::{InboundStore, StoreState},
};
use crate::{DiscordChannel, DiscordError, DiscordSettings, GatewayTimeouts, gateway::GatewaySession};

/// How many events may be between the gateway and the processor.
const EVENTS_CAPACITY: usize = 16;

/// Receives what people write to the bot.
pub struct DiscordListener {
    settings: DiscordSettings,
    channel: Arc<DiscordChannel>,
    timeouts: GatewayTimeouts,
}

impl DiscordListener {
    /// A listener for the bot of these settings.
    #[must_use]
    pub fn new(settings: DiscordSettings, channel: Arc<DiscordChannel>) -> Self {
        Self::with_timeouts(settings, channel, GatewayTimeouts::default())
    }

    /// A listener with other timeouts.
    #[must_use]
    pub fn with_timeouts(settings: DiscordSettings, channel: Arc<DiscordChannel>, timeouts: GatewayTimeouts) -> Self {
        Self { settings, channel, timeouts }
    }

    /// Listens until `stop`, and saves a last checkpoint; Discord keeps the session for a while. Retries while Discord
    /// can't be reached.
    ///
    /// # Errors
    /// If Discord rejects the token, or refuses the bot for good.
    pub async fn run(self, inbound: Arc<dyn Inbound>, stop: CancellationToken) -> Result<(), DiscordError> {
        let Self { settings, channel, timeouts } = self;
        let rest = channel.client().clone();
        let setup = async {
            let (identity, now_ms) = setup::identify_bot(&rest, timeouts).await?;
            Ok::<_, DiscordError>((identity, setup::load_checkpoint(inbound.as_ref(), now_ms, timeouts).await))
        };
        let Some((identity, checkpoint)) = stop.run_until_cancelled(setup).await.transpose()? else { return Ok(()) };
        let names = settings.commands.iter().map(|command| command.name.clone()).collect();
        let cache = Arc::clone(channel.cache());
        cache.restore_boosted(&checkpoint.boosted_guilds);
        let (start_id, answers_in) = (checkpoint.start_id, settings.answers_in.clone());
        let reader = InboundReader::new(identity, start_id, answers_in, Arc::clone(&cache), names);
        let stop = stop.child_token();
        let session = GatewaySession::new(rest.clone(), timeouts, checkpoint.resume_state.clone());
        let (events, received) = mpsc::channel(EVENTS_CAPACITY);
        let listening = async {
            let result = session.run(events, &stop).await;
            stop.cancel();
            result
        };
        let store_stop = stop.clone();
        let state = StoreState::default();
        let store = InboundStore { inbound, reader, rest: rest.clone(), cache, timeouts, stop: store_stop, state };
        let processing = InboundProcessor::new(store, checkpoint).run(received);
        let registering = interactions::register_commands(&rest, identity.application_id, &settings.commands, &stop);
        let (result, (), ()) = tokio::join!(listening, processing, registering);
        result
    }
}
