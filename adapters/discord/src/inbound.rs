//! The inbound side: receives events from the gateway, and hands messages to the port.
//!
//! Discord gets no acknowledgement of an event. A checkpoint survives the process: the session, and the last event before
//! which everything is stored. Discord repeats what comes after it; if it can't, the channels' history is read.

mod backfill;
mod checkpoint;
mod intake;
mod interactions;
mod reader;
mod starters;
mod store;
pub(crate) mod wire;

use std::{
    error::Error,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use satchel_ports::{Inbound, InboundError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::{
    checkpoint::GatewayCheckpoint,
    intake::InboundProcessor,
    reader::{BotIdentity, InboundReader},
    store::{InboundStore, StoreState},
};
use crate::{
    DiscordChannel, DiscordError, DiscordSettings, GatewayTimeouts,
    gateway::GatewaySession,
    rest::{ApiRequest, OWN_USER_PATH, RestClient, RetryTracker, delay_after_error, next_delay_logged},
    snowflake::{self, channel_name},
};

/// How many events may be between the gateway and the processor.
const EVENTS_CAPACITY: usize = 16;

/// How far Discord's clock and ours may differ and still count as equal: the `Date` header has whole seconds, and a
/// response takes a while.
const CLOCK_TOLERANCE_MS: u64 = 2_000;

/// Receives what people write to the bot.
#[derive(Clone)]
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
    /// can't be reached, and begins again once it accepts an account that it has refused.
    ///
    /// # Errors
    /// If Discord refuses the bot for good.
    pub async fn run(self, inbound: Arc<dyn Inbound>, stop: CancellationToken) -> Result<(), DiscordError> {
        let account = self.channel.client().account();
        while stop.run_until_cancelled(account.wait_until_open()).await.is_some() {
            let connection = stop.child_token();
            let listening = self.listen(Arc::clone(&inbound), &connection);
            account.cancel_when_closed(listening, || connection.cancel()).await?;
        }
        Ok(())
    }

    async fn listen(&self, inbound: Arc<dyn Inbound>, stop: &CancellationToken) -> Result<(), DiscordError> {
        let Self { settings, channel, timeouts } = self;
        let (rest, timeouts) = (channel.client().clone(), *timeouts);
        let setup = async {
            let (identity, now_ms) = identify_bot(&rest, timeouts).await;
            (identity, load_checkpoint(inbound.as_ref(), now_ms, timeouts).await)
        };
        let Some((identity, checkpoint)) = stop.run_until_cancelled(setup).await else { return Ok(()) };
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
        let store = InboundStore {
            inbound,
            reader,
            rest: rest.clone(),
            cache,
            needs_parents: settings.needs_parents,
            timeouts,
            stop: store_stop,
            state,
        };
        let processing = InboundProcessor::new(store, checkpoint).run(received);
        let registering = interactions::register_commands(&rest, identity.application_id, &settings.commands, &stop);
        let (result, (), ()) = tokio::join!(listening, processing, registering);
        result
    }
}

/// Requests the bot's identity until Discord responds. Returns it with the time of the response, in milliseconds since
/// 1970.
async fn identify_bot(rest: &RestClient, timeouts: GatewayTimeouts) -> (BotIdentity, u64) {
    let mut retries = timeouts.new_retry_tracker();
    loop {
        let (user, date): (Value, _) = request_with_retry(rest, OWN_USER_PATH, &mut retries).await;
        let now_ms = server_time_ms(date);
        // The application of an old bot has a different id than its user.
        let (application, _): (Value, _) = request_with_retry(rest, "/applications/@me", &mut retries).await;
        if let (Some(user_id), Some(application_id)) =
            (snowflake::read(&user, "id"), snowflake::read(&application, "id"))
        {
            retries.reset();
            let name = user.get("username").and_then(Value::as_str).unwrap_or_default();
            tracing::info!(bot = name, "listening on Discord");
            return (BotIdentity { user_id, application_id }, now_ms);
        }
        tokio::time::sleep(next_delay_logged(&mut retries, &"the server did not answer like Discord")).await;
    }
}

/// Returns the time by Discord's clock, which also numbers its messages: with a local clock that is ahead, the first
/// messages would count as older than the bot.
fn server_time_ms(date: Option<u64>) -> u64 {
    let local_time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let local_ms = u64::try_from(local_time.as_millis()).unwrap_or(u64::MAX);
    match date {
        Some(date) if !(date..date.saturating_add(CLOCK_TOLERANCE_MS)).contains(&local_ms) => date,
        _ => local_ms,
    }
}

async fn request_with_retry<T: DeserializeOwned>(
    rest: &RestClient,
    path: &str,
    retries: &mut RetryTracker,
) -> (T, Option<u64>) {
    loop {
        match rest.request_with_date(ApiRequest::get(path)).await {
            Ok(response) => return response,
            Err(error) => tokio::time::sleep(delay_after_error(retries, &error)).await,
        }
    }
}

/// Loads the checkpoint, or creates one at the current time, and retries until it is stored: messages from now on are
/// found again even if this process dies before it saves another checkpoint.
async fn load_checkpoint(inbound: &dyn Inbound, now_ms: u64, timeouts: GatewayTimeouts) -> GatewayCheckpoint {
    let mut failures = 0;
    loop {
        match load_or_create_checkpoint(inbound, now_ms).await {
            Ok(checkpoint) => return checkpoint,
            Err(error) => {
                if failures == 0 {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::error!(error, "loading the checkpoint failed; retrying with backoff");
                }
                tokio::time::sleep(timeouts.retry_delay(failures)).await;
                failures = failures.saturating_add(1);
            }
        }
    }
}

async fn load_or_create_checkpoint(inbound: &dyn Inbound, now_ms: u64) -> Result<GatewayCheckpoint, InboundError> {
    if let Some(stored) = inbound.load_checkpoint(&channel_name()).await? {
        if let Some(checkpoint) = GatewayCheckpoint::from_json(&stored) {
            return Ok(checkpoint);
        }
        tracing::warn!("the checkpoint could not be decoded; skipping the backfill");
    }
    let checkpoint = GatewayCheckpoint::starting_at(snowflake::at_unix_ms(now_ms));
    inbound.save_checkpoint(&channel_name(), checkpoint.to_json()).await?;
    Ok(checkpoint)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::HttpTimeouts;

    /// Returns the time that results from a server with this `Date` header.
    async fn time_for_date_header(date: &str) -> u64 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let body = r#"{"id":"7","username":"satchel"}"#;
        let length = body.len();
        let answer = format!("HTTP/1.1 200 OK\r\n{date}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        let serving = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = socket.read(&mut [0; 4_096]).await.unwrap();
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let rest = RestClient::new(&"token".into(), Some(&address.into()), HttpTimeouts::default(), None).unwrap();
        let (us, now) = identify_bot(&rest, GatewayTimeouts::default()).await;
        serving.abort();
        assert_eq!(us, BotIdentity { user_id: 7, application_id: 7 });
        now
    }

    #[tokio::test]
    async fn server_date_is_used_else_local_clock() {
        let before = server_time_ms(None);
        assert_eq!(time_for_date_header("date: Sun, 06 Nov 1994 08:49:37 GMT\r\n").await, 784_111_777_000);
        let ours = time_for_date_header("").await;
        assert!((before..=server_time_ms(None)).contains(&ours), "{ours}");
    }

    #[test]
    fn finer_clock_wins_when_clocks_agree() {
        let ours = server_time_ms(None);
        let second = ours / 1_000 * 1_000;
        assert!(server_time_ms(Some(second)) >= ours);
        for (ahead, date) in [("ours", second - 2_000), ("theirs", second + 60_000)] {
            assert_eq!(server_time_ms(Some(date)), date, "{ahead} is ahead");
        }
    }
}
