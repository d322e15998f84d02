//! Answers callback queries once their command is stored, which ends the spinner on the pressed button.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::bot::BotClient;

/// How long one answer may take; Telegram accepts none after about a minute.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one answer may take after a stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers callback queries until the queue is closed.
pub(super) async fn answer_queries(client: &BotClient, mut queries: mpsc::Receiver<String>, stop: &CancellationToken) {
    while let Some(query) = queries.recv().await {
        let is_stopping = stop.is_cancelled();
        let body = json!({ "callback_query_id": query }).to_string().into_bytes();
        let request = client.request_json::<bool>("answerCallbackQuery", body, Duration::ZERO);
        let time_limit = if is_stopping { DRAIN_TIMEOUT } else { ANSWER_TIMEOUT };
        let reason = match tokio::time::timeout(time_limit, request).await {
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no response in time".to_owned(),
        };
        tracing::debug!(reason = reason, "a pressed button goes on spinning");
        if is_stopping {
            return;
        }
    }
}
