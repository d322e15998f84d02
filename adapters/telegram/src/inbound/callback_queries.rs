//! Ends the spinner on buttons that were pressed, once what they say is stored.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::bot::BotClient;

/// How long one answer may take; Telegram takes none after a minute or so anyway.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one may take once we stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers the queries of pressed buttons until no more can come.
pub(super) async fn answer_queries(client: &BotClient, mut pressed: mpsc::Receiver<String>, stop: &CancellationToken) {
    while let Some(query) = pressed.recv().await {
        let stopping = stop.is_cancelled();
        let body = json!({ "callback_query_id": query }).to_string().into_bytes();
        let asked = client.request_json::<bool>("answerCallbackQuery", body, Duration::ZERO);
        let patience = if stopping { DRAIN_TIMEOUT } else { ANSWER_TIMEOUT };
        let failed = match tokio::time::timeout(patience, asked).await {
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no response in time".to_owned(),
        };
        tracing::debug!(reason = failed, "a pressed button goes on spinning");
        if stopping {
            return;
        }
    }
}
