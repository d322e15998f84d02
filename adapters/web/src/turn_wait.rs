//! Waits for turns on behalf of clients. A client that stops waiting leaves nothing behind, and the turn goes on.

use std::{str::FromStr, time::Duration};

use futures::StreamExt;
use satchel_domain::{ConversationId, TurnId};
use satchel_ports::{BusEvent, LedgerError, event_bus::EventStream, ledger::TurnRecord};
use serde::{Deserialize, Deserializer, de};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{state::AppState, view};

/// The longest time that a client may wait in one request.
pub(crate) const MAX_TURN_WAIT: Duration = Duration::from_secs(600);

/// How often the ledger is read while no event arrives: one may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client waits for a turn, such as `60s` or `2m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TurnWait(pub(crate) Duration);

impl FromStr for TurnWait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, seconds_each) = match text.strip_suffix('m') {
            Some(minutes) => (minutes, 60),
            None => (text.strip_suffix('s').unwrap_or_default(), 1),
        };
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let seconds =
            number.parse::<u64>().ok().filter(|_| is_number).and_then(|number| number.checked_mul(seconds_each));
        match seconds.map(Duration::from_secs) {
            Some(wait) if wait <= MAX_TURN_WAIT => Ok(Self(wait)),
            _ => Err("wait is a number of seconds or minutes up to 10m, such as 60s".to_owned()),
        }
    }
}

impl<'de> Deserialize<'de> for TurnWait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Waits until a turn and its parts can no longer change, at most for a time and until the server stops. Returns what was
/// last known of it.
pub(crate) async fn wait_for_turn(
    state: &AppState,
    conversation: &ConversationId,
    turn: TurnId,
    wait: TurnWait,
) -> Result<Option<TurnRecord>, LedgerError> {
    let deadline = Instant::now() + wait.0;
    // Before the first look, so that no change is missed in between.
    let mut events = match wait.0.is_zero() {
        true => None,
        false => state.bus.subscribe().await.ok(),
    };
    loop {
        let record = state.archive.turn(turn).await?;
        if record.as_ref().is_none_or(view::is_final) || Instant::now() >= deadline {
            return Ok(record);
        }
        tokio::select! {
            () = sleep_until(deadline) => {}
            () = sleep(POLL_INTERVAL) => {}
            () = next_change(&mut events, conversation) => {}
            () = state.stopping.cancelled() => return Ok(record),
        }
    }
}

/// Waits until something in a conversation may have ended. Without events it waits forever.
async fn next_change(events: &mut Option<EventStream>, conversation: &ConversationId) {
    while let Some(stream) = events {
        match stream.next().await {
            Some(event) if event.conversation() != conversation => {}
            Some(BusEvent::TurnCompleted { .. } | BusEvent::DeliveryPart { .. }) => return,
            Some(_) => {}
            None => *events = None,
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_has_a_unit_and_a_limit() {
        for (text, seconds) in [("0s", 0), ("60s", 60), ("2m", 120), ("10m", 600), ("600s", 600)] {
            assert_eq!(text.parse(), Ok(TurnWait(Duration::from_secs(seconds))), "{text}");
        }
        for wrong in ["", "60", "s", "m", "601s", "11m", "-1s", "+1s", "1.5s", "1h", "99999999999999999999m", "1ms"] {
            assert!(wrong.parse::<TurnWait>().is_err_and(|error| error.contains("10m")), "{wrong}");
        }
    }
}
