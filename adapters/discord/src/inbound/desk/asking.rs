//! What Discord is asked: pages of history, and what has to be known of a place before its events can be read.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::store::{Stopped, Store};
use crate::{
    classify::is_read_denied,
    inbound::history::{Ask, PAGE},
    rest::{ApiError, ApiRequest, CallError},
    snowflake,
};

/// How often something is tried at least before it is done without, where others wait for it.
const TRIES: u32 = 5;

/// What history shows of a channel.
#[derive(Debug)]
pub(super) enum Page {
    /// These messages, the oldest first.
    Shown(Vec<Value>),
    /// Nothing, and it will stay so: we may not read it, or it is gone.
    Closed,
    /// Nothing so far, for this reason.
    Withheld(CallError),
}

/// The channels and guilds that were asked about.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<BTreeSet<u64>>);

/// What was not told of a place, however often it was asked, and why.
pub(super) type Untold = (u64, CallError);

/// How long is tried what comes to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tries {
    /// Once, whatever it comes to: it is asked for again later.
    Once,
    /// However long Discord can't be reached, and while it can be, until it has failed often and for long.
    Often,
}

enum Answer<T> {
    Told(T),
    Refused(CallError),
    /// Nothing that can be used, however often it was asked.
    Nothing(CallError),
}

impl Asked {
    /// Whether a place was asked about.
    pub(super) fn holds(&self, place: u64) -> bool {
        self.places().contains(&place)
    }

    fn add(&self, place: u64) {
        self.places().insert(place);
    }

    fn places(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// A page of a channel's history.
    pub(super) async fn page(&self, ask: Ask) -> Result<Page, Stopped> {
        let Ask { channel, guild, after, was_withheld, .. } = ask;
        let tries = if was_withheld { Tries::Once } else { Tries::Often };
        // A session that only goes on has told nothing of its places. What was not told of them before is asked for
        // once more: what is read of history is read for good.
        if guild.is_some()
            && !self.known.is_complete(channel)
            && let Some((_, error)) = self.look_up(channel, guild, &Asked::default(), tries).await?.pop()
        {
            return Ok(Page::Withheld(error));
        }
        let path = format!("/channels/{channel}/messages?after={after}&limit={PAGE}");
        Ok(match self.ask::<Vec<Value>>(&path, tries).await? {
            Answer::Told(mut messages) => {
                messages.sort_by_key(|message| snowflake::read(message, "id"));
                Page::Shown(messages)
            }
            Answer::Refused(error) if is_read_denied(&error) => Page::Closed,
            Answer::Refused(error) | Answer::Nothing(error) => Page::Withheld(error),
        })
    }

    /// Learns what has to be known before an event of a channel can be read: its guild, and what it is a thread of.
    /// What was `asked` is not asked again. Returns what was not told.
    pub(super) async fn look_up(
        &self,
        channel: u64,
        guild: Option<u64>,
        asked: &Asked,
        tries: Tries,
    ) -> Result<Vec<Untold>, Stopped> {
        let mut untold = Vec::new();
        if let Some(guild) = guild.filter(|guild| !asked.holds(*guild)) {
            match self.ask(&format!("/guilds/{guild}"), tries).await? {
                Answer::Told(told) => self.known.record_guild(&told),
                Answer::Refused(_) => {}
                Answer::Nothing(error) => untold.push((guild, error)),
            }
            asked.add(guild);
        }
        // A thread, its channel, and the category of that.
        let mut next = Some(channel);
        for _ in 0..3 {
            let Some(place) = next.take().filter(|place| !asked.holds(*place)) else { break };
            match self.ask(&format!("/channels/{place}"), tries).await? {
                Answer::Told(told) => {
                    self.known.record_channel(&told);
                    next = snowflake::read(&told, "parent_id");
                }
                Answer::Refused(_) => {}
                Answer::Nothing(error) => untold.push((place, error)),
            }
            if place != channel {
                asked.add(place);
            }
        }
        // Not earlier: who finds it among what was asked reads on without waiting for what is told.
        asked.add(channel);
        Ok(untold)
    }

    /// Reads something. What Discord answers with nonsense again and again while it can be reached is done without for
    /// now: its place would be silent for ever, and in the end all others with it.
    async fn ask<T: DeserializeOwned>(&self, path: &str, tries: Tries) -> Result<Answer<T>, Stopped> {
        let (mut failures, mut useless) = (0, 0);
        let mut since = Instant::now();
        loop {
            let asked = self
                .over
                .run_until_cancelled(self.rest.request(ApiRequest::get(path).low_priority()))
                .await
                .ok_or(Stopped)?;
            let wait = match asked {
                Ok(told) => return Ok(Answer::Told(told)),
                Err(CallError::Refused(refused)) if refused.status < 500 && refused.status != 401 => {
                    return Ok(Answer::Refused(CallError::Refused(refused)));
                }
                Err(error) if tries == Tries::Once => return Ok(Answer::Nothing(error)),
                Err(CallError::RateLimited { retry_after, .. }) => retry_after.unwrap_or_default(),
                Err(
                    error @ (CallError::Refused(ApiError { status: 500.., .. }) | CallError::InvalidResponse { .. }),
                ) => {
                    if useless == 0 {
                        since = Instant::now();
                    }
                    useless += 1;
                    if useless >= TRIES && since.elapsed() >= self.waits.unavailable_timeout {
                        return Ok(Answer::Nothing(error));
                    }
                    Duration::ZERO
                }
                Err(_) => Duration::ZERO,
            };
            self.pause(wait.max(self.waits.retry_delay(failures))).await?;
            failures = failures.saturating_add(1);
        }
    }
}
