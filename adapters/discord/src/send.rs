//! A part as a call of the REST API: what it becomes, and how it is made.

mod compose;
mod names;
mod sent;
mod upload;

use std::{convert::Infallible, sync::Arc, time::Duration};

use satchel_domain::delivery::SendError;
use satchel_ports::Blobs;
use serde::de::DeserializeOwned;

pub(crate) use compose::{Composed, NoCall, edit, new_message};
pub(crate) use names::is_same_name;
pub(crate) use sent::{Sent, is_same_text};

use crate::rest::{Call, CallError, Progress, RestClient};

/// How long an upload goes on before people are shown that it does.
const SHOWN_AFTER: Duration = Duration::from_millis(700);

/// How often they are shown it again: Discord takes an activity away after ten seconds.
const SHOWN_AGAIN: Duration = Duration::from_secs(8);

/// Makes a call. `show` is called now and then while files are on their way.
///
/// The outer error is that the call could not be begun.
pub(crate) async fn make<T: DeserializeOwned>(
    client: &RestClient,
    blobs: &Arc<dyn Blobs>,
    call: Call,
    composed: &Composed,
    show: impl Fn(),
) -> Result<Result<T, CallError>, SendError> {
    if composed.uploads.is_empty() {
        return Ok(client.ask(call).await);
    }
    let progress = Progress::of(composed.bytes());
    let form = upload::form(composed, blobs, &progress).await?;
    tokio::select! {
        answered = client.upload(call, form, &progress) => Ok(answered),
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
