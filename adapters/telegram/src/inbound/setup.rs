//! What is asked and told once, before updates come: who we are, and the commands that people are offered.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    retry::{RetryAction, new_retry_tracker, wait_before_retry},
    text::BotIdentity,
    wire::User,
};
use crate::{
    BotCommand, TelegramError,
    bot::{ApiError, BotClient, CallError},
};

/// The most commands that Telegram takes.
const MOST_COMMANDS: usize = 100;

/// Who we are, however long it takes until Telegram says so; `None` when `stop` came first.
pub(super) async fn identify_bot(
    client: &BotClient,
    answers_in: &[String],
    stop: &CancellationToken,
) -> Result<Option<BotIdentity>, TelegramError> {
    let mut retries = new_retry_tracker();
    loop {
        let asked = client.request_json::<User>("getMe", b"{}".to_vec(), Duration::ZERO);
        let Some(answered) = stop.run_until_cancelled(asked).await else { return Ok(None) };
        let error = match answered {
            Ok(us) => {
                retries.reset();
                if us.can_read_all_group_messages == Some(false) && !answers_in.is_empty() {
                    tracing::warn!(
                        "in groups the bot only sees messages written to it, unless it is an administrator; to see all \
                         messages, turn off its privacy mode with /setprivacy at @BotFather"
                    );
                }
                return Ok(Some(BotIdentity { id: us.id, username: us.username.unwrap_or_default() }));
            }
            // A token that was never given to a bot makes an address that isn't found.
            Err(CallError::Refused(ApiError { code: 404, .. })) => return Err(TelegramError::UnknownToken),
            Err(error) => error,
        };
        if wait_before_retry(&mut retries, client, &error, stop).await? == RetryAction::Stop {
            return Ok(None);
        }
    }
}

/// Tells Telegram which commands to offer while a person types.
pub(super) async fn offer_commands(client: &BotClient, commands: &[BotCommand], stop: &CancellationToken) {
    if commands.is_empty() {
        return;
    }
    let offered: Vec<_> = commands
        .iter()
        .take(MOST_COMMANDS)
        .map(|command| json!({ "command": command.name, "description": command.description }))
        .collect();
    let body = json!({ "commands": offered }).to_string().into_bytes();
    let told = client.request_json::<bool>("setMyCommands", body, Duration::ZERO);
    if let Some(Err(error)) = stop.run_until_cancelled(told).await {
        tracing::warn!(error = %error, "registering the commands with Telegram failed; they work when typed");
    }
}
