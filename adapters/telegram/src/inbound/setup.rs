//! Set-up of the listener: identifies the bot and registers its commands.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    retry::{RetryAction, new_retry_tracker, wait_before_retry},
    text::BotIdentity,
    wire::User,
};
use crate::{BotCommand, bot::BotClient};

/// How many commands Telegram accepts.
const MAX_COMMANDS: usize = 100;

/// Requests the bot's identity, with retries until Telegram responds; `None` if `stop` came first.
pub(super) async fn identify_bot(
    client: &BotClient,
    answers_in: &[String],
    stop: &CancellationToken,
) -> Option<BotIdentity> {
    let mut retries = new_retry_tracker();
    loop {
        let request = client.request_json::<User>("getMe", b"{}".to_vec(), Duration::ZERO);
        let result = stop.run_until_cancelled(request).await?;
        let error = match result {
            Ok(user) => {
                retries.reset();
                if user.can_read_all_group_messages == Some(false) && !answers_in.is_empty() {
                    tracing::warn!(
                        "in groups the bot only sees messages written to it, unless it is an administrator; to see all \
                         messages, turn off its privacy mode with /setprivacy at @BotFather"
                    );
                }
                return Some(BotIdentity { id: user.id, username: user.username.unwrap_or_default() });
            }
            Err(error) => error,
        };
        if wait_before_retry(&mut retries, client, &error, stop).await == RetryAction::Stop {
            return None;
        }
    }
}

/// Registers the commands that Telegram shows while a person types.
pub(super) async fn register_commands(client: &BotClient, commands: &[BotCommand], stop: &CancellationToken) {
    if commands.is_empty() {
        return;
    }
    let menu: Vec<_> = commands
        .iter()
        .take(MAX_COMMANDS)
        .map(|command| json!({ "command": command.name, "description": command.description }))
        .collect();
    let body = json!({ "commands": menu }).to_string().into_bytes();
    let request = client.request_json::<bool>("setMyCommands", body, Duration::ZERO);
    if let Some(Err(error)) = stop.run_until_cancelled(request).await {
        tracing::warn!(error = %error, "registering the commands with Telegram failed; they work when typed");
    }
}
