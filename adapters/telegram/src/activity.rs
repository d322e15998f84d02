//! Shows beside a chat's name what is being done. Nobody waits for it, and nothing depends on it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::de::IgnoredAny;
use teloxide::{payloads::SendChatAction, types::ChatAction};
use tokio::time::Instant;

use crate::{
    bot::{BotClient, CallError},
    place::Place,
};

/// How many activities are on their way at once; one more is left out.
const AT_ONCE: usize = 64;

/// How long a place is left alone after its activity was refused.
const LEFT_ALONE: Duration = Duration::from_secs(30);

/// The activities that are on their way.
#[derive(Clone)]
pub(crate) struct Activities {
    client: BotClient,
    places: Arc<Mutex<HashMap<Place, State>>>,
}

enum State {
    OnItsWay,
    LeftAloneUntil(Instant),
}

impl Activities {
    /// Shows activities through this client.
    pub(crate) fn new(client: BotClient) -> Self {
        Self { client, places: Arc::default() }
    }

    /// Shows an activity, unless the place's last one is still on its way.
    pub(crate) fn show(&self, place: Place, action: ChatAction) {
        if !self.begin(place) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let mut payload = SendChatAction::new(place.chat, action);
            payload.message_thread_id = place.topic;
            let answer: Result<IgnoredAny, CallError> = this.client.ask(&payload).await;
            this.end(place, answer.err());
        });
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Place, State>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, place: Place) -> bool {
        let (mut places, now) = (self.places(), Instant::now());
        places.retain(|_, state| !matches!(state, State::LeftAloneUntil(until) if *until <= now));
        if places.contains_key(&place) || places.len() >= AT_ONCE {
            return false;
        }
        places.insert(place, State::OnItsWay);
        true
    }

    fn end(&self, place: Place, error: Option<CallError>) {
        let mut places = self.places();
        let Some(error) = error else {
            places.remove(&place);
            return;
        };
        tracing::debug!(chat.id = %place.chat, %error, "showing an activity failed");
        let told = match &error {
            CallError::Refused(refused) => refused.retry_after.map(Duration::from_secs),
            _ => None,
        };
        places.insert(place, State::LeftAloneUntil(Instant::now() + told.unwrap_or(LEFT_ALONE)));
    }
}
