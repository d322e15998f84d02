//! Shows beside a channel's name that something is being done. Nobody waits for it, and nothing depends on it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

use crate::rest::{Call, CallError, RestClient};

/// How many activities are on their way at once; one more is left out.
const AT_ONCE: usize = 64;

/// How long what is shown is not shown again: Discord takes it away after ten seconds.
const SHOWN: Duration = Duration::from_secs(5);

/// How long a channel is left alone after its activity was refused.
const LEFT_ALONE: Duration = Duration::from_secs(30);

/// The activities that are on their way.
#[derive(Clone)]
pub(crate) struct Activities {
    client: RestClient,
    channels: Arc<Mutex<HashMap<u64, State>>>,
}

enum State {
    OnItsWay,
    LeftAloneUntil(Instant),
}

impl Activities {
    /// Shows activities through this client.
    pub(crate) fn new(client: RestClient) -> Self {
        Self { client, channels: Arc::default() }
    }

    /// Shows that something is being done, unless that was just shown.
    pub(crate) fn show(&self, channel: u64) {
        if !self.begin(channel) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let call = Call::post(format!("/channels/{channel}/typing"), &json!({})).giving_way();
            let answer: Result<IgnoredAny, CallError> = this.client.ask(call).await;
            this.end(channel, answer.err());
        });
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<u64, State>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, channel: u64) -> bool {
        let (mut channels, now) = (self.channels(), Instant::now());
        channels.retain(|_, state| !matches!(state, State::LeftAloneUntil(until) if *until <= now));
        let on_their_way = channels.values().filter(|state| matches!(state, State::OnItsWay)).count();
        if channels.contains_key(&channel) || on_their_way >= AT_ONCE {
            return false;
        }
        channels.insert(channel, State::OnItsWay);
        true
    }

    fn end(&self, channel: u64, error: Option<CallError>) {
        let alone_for = match &error {
            None => SHOWN,
            Some(CallError::RateLimited { retry_after, .. }) => retry_after.unwrap_or(LEFT_ALONE),
            Some(_) => LEFT_ALONE,
        };
        if let Some(error) = error {
            tracing::debug!(channel.id = channel, %error, "an activity was not shown");
        }
        self.channels().insert(channel, State::LeftAloneUntil(Instant::now() + alone_for));
    }
}

#[cfg(test)]
mod tests {
    use satchel_fake_discord::{DiscordFault, DiscordRules, FakeDiscord, Tier};

    use super::*;
    use crate::rest::Patience;

    const TYPING: &str = "POST /channels/{}/typing";

    /// How long the channel is left alone after this answer.
    async fn left_alone_after(status: u16, body: &str) -> Duration {
        let discord = FakeDiscord::start(DiscordRules::unpaced()).await.unwrap();
        discord.guild(1, "Home", Tier::None);
        let channel = discord.channel(1, 100, "general");
        let (token, server) = (discord.token().into(), discord.api_url().into());
        let activities = Activities::new(RestClient::new(&token, Some(&server), Patience::default(), None).unwrap());
        discord.script_next(TYPING, DiscordFault::Answer { status, body: body.to_owned() });
        let began = Instant::now();
        activities.show(channel);
        loop {
            if let Some(State::LeftAloneUntil(until)) = activities.channels().get(&channel) {
                return *until - began;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn whatever_stands_in_a_yes_is_no_failure() {
        for (status, body) in [(200, "{}"), (200, r#"{"typing":true}"#), (200, ""), (204, "")] {
            let alone = left_alone_after(status, body).await;
            assert!(alone < LEFT_ALONE, "{status} {body}: {alone:?}");
        }
        assert!(left_alone_after(403, r#"{"message":"Missing Access","code":50001}"#).await >= LEFT_ALONE);
    }
}
