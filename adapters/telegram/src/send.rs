//! A part as a call of the Bot API: what it becomes, and how it is made.

mod compose;
mod upload;

use std::{convert::Infallible, sync::Arc, time::Duration};

use satchel_domain::delivery::SendError;
use satchel_ports::Blobs;
use serde::de::DeserializeOwned;

pub(crate) use compose::{Composed, NoCall, VOICE_NAME, edit, new_message};

use crate::bot::{BotClient, CallError, Progress};

/// How long an upload goes on before people are shown that it does.
const SHOWN_AFTER: Duration = Duration::from_millis(700);

/// How often they are shown it again: Telegram takes an activity away after five seconds.
const SHOWN_AGAIN: Duration = Duration::from_millis(4_500);

/// Makes a call. `show` is called now and then while files are on their way.
///
/// The outer error is that the call could not be begun.
pub(crate) async fn make<T: DeserializeOwned>(
    client: &BotClient,
    blobs: &Arc<dyn Blobs>,
    composed: &Composed,
    show: impl Fn(),
) -> Result<Result<T, CallError>, SendError> {
    if composed.uploads.is_empty() {
        let body = serde_json::to_vec(&composed.fields).expect("texts and numbers are JSON");
        return Ok(client.ask_json(composed.method, body, Duration::ZERO).await);
    }
    let progress = Progress::of(composed.bytes());
    let form = upload::form(composed, blobs, &progress).await?;
    tokio::select! {
        answered = client.upload(composed.method, form, &progress) => Ok(answered),
        never = show_now_and_then(show) => match never {},
    }
}

async fn show_now_and_then(show: impl Fn()) -> Infallible {
    tokio::time::sleep(SHOWN_AFTER).await;
    loop {
        show();
        tokio::time::sleep(SHOWN_AGAIN).await;
    }
}

#[cfg(test)]
mod tests;
