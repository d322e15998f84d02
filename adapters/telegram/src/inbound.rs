//! The way in: polls for what people write, or is told of it, and hands it on.
//!
//! Telegram forgets an update once it is told that it was taken, and it is told so only after [`Inbound`] has stored
//! it: by the offset of the next poll, or by the answer to the webhook's call.

mod albums;
mod callback_queries;
mod chat_migrations;
mod fallback_text;
mod files;
mod polling;
mod processor;
mod reader;
mod retry;
mod setup;
mod text;
mod webhook;
pub(crate) mod wire;

use std::sync::Arc;

use satchel_ports::Inbound;
use tokio_util::sync::CancellationToken;

use self::{processor::InboundProcessor, reader::InboundReader};
use crate::{TelegramChannel, TelegramError, TelegramSettings};

/// Takes in what people write to the bot.
pub struct TelegramListener {
    settings: TelegramSettings,
    channel: Arc<TelegramChannel>,
}

impl TelegramListener {
    /// A listener for the bot of these settings.
    #[must_use]
    pub fn new(settings: TelegramSettings, channel: Arc<TelegramChannel>) -> Self {
        Self { settings, channel }
    }

    /// Listens until `stop`; what was taken by then is confirmed. While Telegram can't be reached it goes on trying.
    ///
    /// # Errors
    /// When Telegram doesn't know the token, or refuses the webhook; when the webhook's address can't be listened on.
    pub async fn run(self, inbound: Arc<dyn Inbound>, stop: CancellationToken) -> Result<(), TelegramError> {
        let Self { settings, channel } = self;
        let client = channel.client();
        let Some(us) = setup::identify_bot(client, &settings.answers_in, &stop).await? else { return Ok(()) };
        tracing::info!(bot = us.username, "listening on Telegram");
        let commands = settings.commands.iter().map(|command| command.name.to_lowercase()).collect();
        let reader = InboundReader::new(us, settings.answers_in.clone(), commands);
        let (desk, pressed) = InboundProcessor::new(inbound, reader, Arc::clone(channel.message_ids()));
        let over = stop.child_token();
        let listening = async {
            // Owned here, so that the queue of presses ends with the listening.
            let desk = Arc::new(desk);
            let taking = async {
                let listened = match &settings.webhook {
                    Some(webhook) => webhook::run_webhook(client, webhook, Arc::clone(&desk), &stop).await,
                    None => polling::poll(client, &desk, &stop).await,
                };
                over.cancel();
                listened
            };
            let (listened, ()) =
                tokio::join!(taking, chat_migrations::report_migrations(channel.cache(), &desk, &over));
            listened
        };
        let offering = setup::offer_commands(client, &settings.commands, &over);
        let (listened, (), ()) =
            tokio::join!(listening, callback_queries::answer_queries(client, pressed, &over), offering);
        listened
    }
}
