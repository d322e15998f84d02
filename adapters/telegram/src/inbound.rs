//! Receives updates by long polling or a webhook and passes them to [`Inbound`].
//!
//! Telegram drops an update once it is confirmed, and it is confirmed only after [`Inbound`] has stored it: by the
//! offset of the next poll, or by the response to the webhook call.

mod albums;
mod callback_queries;
mod content_digest;
mod fallback_text;
mod files;
mod formatting;
mod polling;
mod processor;
mod reader;
mod retry;
mod setup;
mod text;
mod webhook;
pub(crate) mod wire;

use std::sync::{Arc, atomic::AtomicBool};

use satchel_ports::Inbound;
use tokio_util::sync::CancellationToken;

use self::{processor::InboundProcessor, reader::InboundReader};
use crate::{TelegramChannel, TelegramError, TelegramSettings};

/// How listening has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListenEnd {
    /// As it was asked to.
    Stopped,
    /// Another program has the webhook's address.
    AddressTaken,
}

/// Receives what people write to the bot.
#[derive(Clone)]
pub struct TelegramListener {
    settings: TelegramSettings,
    channel: Arc<TelegramChannel>,
    /// Whether it has listened for a webhook. Clones share it.
    has_listened: Arc<AtomicBool>,
}

impl TelegramListener {
    #[must_use]
    pub fn new(settings: TelegramSettings, channel: Arc<TelegramChannel>) -> Self {
        Self { settings, channel, has_listened: Arc::default() }
    }

    /// Listens until `stop`; all updates stored by then are confirmed. Retries while Telegram can't be reached, and begins
    /// again once it accepts an account that it has refused: with a new token the bot may be another one, whose updates are
    /// numbered differently. Ends before `stop` where another program has taken the webhook's address while this process
    /// didn't listen: others may receive meanwhile, and it can be run again.
    ///
    /// # Errors
    /// When Telegram does not accept the webhook, or when the webhook's listen address can't be bound the first time.
    pub async fn run(self, inbound: Arc<dyn Inbound>, stop: CancellationToken) -> Result<(), TelegramError> {
        let account = self.channel.client().account();
        while stop.run_until_cancelled(account.wait_until_open()).await.is_some() {
            let connection = stop.child_token();
            let listening = self.listen(Arc::clone(&inbound), &connection);
            let ended = account.cancel_when_closed(listening, || connection.cancel()).await?;
            if ended == ListenEnd::AddressTaken {
                break;
            }
        }
        Ok(())
    }

    async fn listen(&self, inbound: Arc<dyn Inbound>, stop: &CancellationToken) -> Result<ListenEnd, TelegramError> {
        let Self { settings, channel, has_listened } = self;
        let client = channel.client();
        let Some(bot) = setup::identify_bot(client, &settings.answers_in, stop).await else {
            return Ok(ListenEnd::Stopped);
        };
        tracing::info!(bot = bot.username, "listening on Telegram");
        let commands = settings.commands.iter().map(|command| command.name.to_lowercase()).collect();
        let reader = InboundReader::new(bot, settings.answers_in.clone(), commands);
        let (processor, callback_queries) = InboundProcessor::new(inbound, reader, Arc::clone(channel.message_ids()));
        let cancelled = stop.child_token();
        let serving = async {
            // Owned here, so that the queue of callback queries is closed when this future ends.
            let processor = Arc::new(processor);
            let receiving = async {
                let result = match &settings.webhook {
                    Some(webhook) => {
                        webhook::run_webhook(client, webhook, has_listened, Arc::clone(&processor), stop).await
                    }
                    None => {
                        polling::poll(client, &processor, stop).await;
                        Ok(ListenEnd::Stopped)
                    }
                };
                cancelled.cancel();
                result
            };
            let (result, ()) = tokio::join!(receiving, processor.report_migrations(channel.cache(), &cancelled));
            result
        };
        let registering = setup::register_commands(client, &settings.commands, &cancelled);
        let (result, (), ()) =
            tokio::join!(serving, callback_queries::answer_queries(client, callback_queries, &cancelled), registering);
        result
    }
}
