//! The way in: listens to what people write, and hands it on.
//!
//! Discord is never told that an event was taken. What survives the process is a bookmark: the session and the last
//! event before which all is stored. Discord tells again what comes after it; where it doesn't, history does.

mod bookmark;
mod desk;
mod history;
mod interactions;
mod marks;
mod reader;
mod setup;
pub(crate) mod wire;

use std::sync::Arc;

use satchel_ports::Inbound;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::{
    desk::{Desk, State, Store},
    reader::InboundReader,
};
use crate::{DiscordChannel, DiscordError, DiscordSettings, GatewayTimeouts, gateway::GatewaySession};

/// How many events may lie between the gateway and the desk.
const ON_THE_WAY: usize = 16;

/// Takes in what people write to the bot.
pub struct DiscordListener {
    settings: DiscordSettings,
    channel: Arc<DiscordChannel>,
    waits: GatewayTimeouts,
}

impl DiscordListener {
    /// A listener for the bot of these settings.
    #[must_use]
    pub fn new(settings: DiscordSettings, channel: Arc<DiscordChannel>) -> Self {
        Self::with_timeouts(settings, channel, GatewayTimeouts::default())
    }

    /// A listener with other timeouts.
    #[must_use]
    pub fn with_timeouts(settings: DiscordSettings, channel: Arc<DiscordChannel>, waits: GatewayTimeouts) -> Self {
        Self { settings, channel, waits }
    }

    /// Listens until `stop`; how far was read by then is kept in mind, and Discord keeps the session for a while. While
    /// Discord can't be reached it goes on trying.
    ///
    /// # Errors
    /// When Discord doesn't know the token, or refuses the bot for good.
    pub async fn run(self, inbound: Arc<dyn Inbound>, stop: CancellationToken) -> Result<(), DiscordError> {
        let Self { settings, channel, waits } = self;
        let rest = channel.client().clone();
        let asked = async {
            let (us, now) = setup::identify_bot(&rest, waits).await?;
            Ok::<_, DiscordError>((us, setup::load_checkpoint(inbound.as_ref(), now, waits).await))
        };
        let Some((us, bookmark)) = stop.run_until_cancelled(asked).await.transpose()? else { return Ok(()) };
        let names = settings.commands.iter().map(|command| command.name.clone()).collect();
        let known = Arc::clone(channel.cache());
        known.restore_boosted(&bookmark.boosted);
        let reader = InboundReader::new(us, bookmark.begun_at, settings.answers_in.clone(), Arc::clone(&known), names);
        let over = stop.child_token();
        let position = bookmark.position.clone();
        let session = GatewaySession::new(rest.clone(), waits, position);
        let (events, coming) = mpsc::channel(ON_THE_WAY);
        let listening = async {
            let listened = session.run(events, &over).await;
            over.cancel();
            listened
        };
        let store =
            Store { inbound, reader, rest: rest.clone(), known, waits, over: over.clone(), state: State::default() };
        let taking = Desk::new(store, bookmark).take_all(coming);
        let offering = interactions::register_commands(&rest, us.application_id, &settings.commands, &over);
        let (listened, (), ()) = tokio::join!(listening, taking, offering);
        listened
    }
}
