//! What Discord waits for: an answer to each slash command and pressed button, and the commands that it offers.

use std::time::Duration;

use satchel_domain::filename::to_inline_code;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use serenity::{
    builder::{
        CreateAllowedMentions, CreateCommand, CreateCommandOption, CreateInteractionResponse,
        CreateInteractionResponseMessage,
    },
    model::application::{CommandOptionType, CommandType, InteractionContext},
};
use tokio_util::sync::CancellationToken;

use crate::{
    SlashCommand,
    rest::{ApiError, ApiRequest, CallError, RestClient},
};

/// How long one answer may take; Discord takes none after three seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

/// How many characters of a command are repeated to whoever used it.
const MAX_COMMAND_CHARS: usize = 200;

/// The most commands that Discord takes of an application (Application Commands, Limits).
const MOST_COMMANDS: usize = 100;

/// The longest description of a command, in characters.
const LONGEST_DESCRIPTION: usize = 100;

/// How long after a failure the commands are offered again, and how long at most after many.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// A slash command or a pressed button that waits for its answer.
#[derive(Debug, Clone)]
pub(crate) struct PendingInteraction {
    pub(crate) id: u64,
    /// What lets us answer it.
    pub(crate) token: SecretString,
    pub(crate) kind: InteractionResponseKind,
}

/// What is answered to an interaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InteractionResponseKind {
    /// That the button was pressed; nothing is shown.
    Press,
    /// What was understood, shown to whoever used the command and nobody else.
    Command {
        /// The command with its words.
        said: String,
    },
}

/// Answers an interaction, once what it says is stored. One that comes too late shows as failed to whoever did it; what
/// they said is done all the same.
pub(crate) async fn respond(client: &RestClient, interaction: &PendingInteraction) {
    let PendingInteraction { id, token, kind } = interaction;
    let response = match kind {
        InteractionResponseKind::Press => CreateInteractionResponse::Acknowledge,
        InteractionResponseKind::Command { said } => CreateInteractionResponse::Message(
            CreateInteractionResponseMessage::new()
                .content(to_inline_code(said, MAX_COMMAND_CHARS))
                .allowed_mentions(CreateAllowedMentions::new().empty_users().empty_roles())
                .ephemeral(true),
        ),
    };
    let call = ApiRequest::post(format!("/interactions/{id}/{}/callback", token.expose_secret()), &response);
    let failed = match tokio::time::timeout(RESPONSE_TIMEOUT, client.request::<IgnoredAny>(call)).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no response in time".to_owned(),
    };
    tracing::debug!(interaction = id, reason = failed, "an interaction shows as failed");
}

/// Tells Discord which commands to offer while a person types, unless it offers just these. While that fails it is
/// tried again until `stop`; the commands work all the same, typed as words.
pub(crate) async fn register_commands(
    client: &RestClient,
    application: u64,
    commands: &[SlashCommand],
    stop: &CancellationToken,
) {
    if commands.is_empty() {
        return;
    }
    let mut wait = FIRST_WAIT;
    let trying = async {
        while let Err(error) = try_register(client, application, commands).await {
            if wait == FIRST_WAIT {
                tracing::warn!(error = %error, "registering the commands with Discord failed; they work when typed");
            }
            if is_for_good(&error) {
                return;
            }
            let asked = match error {
                CallError::RateLimited { retry_after, .. } => retry_after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            tokio::time::sleep(wait.max(asked)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    };
    stop.run_until_cancelled(trying).await;
}

async fn try_register(client: &RestClient, application: u64, commands: &[SlashCommand]) -> Result<(), CallError> {
    let path = format!("/applications/{application}/commands");
    let offered: Vec<CreateCommand> = commands.iter().take(MOST_COMMANDS).map(composed).collect();
    let there: Option<Vec<Value>> = client.request(ApiRequest::get(path.as_str())).await?;
    if visible_commands(there.unwrap_or_default())
        == visible_commands(offered.iter().map(|command| json!(command)).collect())
    {
        return Ok(());
    }
    client.request::<IgnoredAny>(ApiRequest::put(path, &offered)).await.map(drop)
}

/// A command with one option for all that is said after its name, wherever the bot can be written to.
fn composed(command: &SlashCommand) -> CreateCommand {
    let description: String = command.description.chars().take(LONGEST_DESCRIPTION).collect();
    let words =
        CreateCommandOption::new(CommandOptionType::String, "words", "What to add to the command").required(false);
    CreateCommand::new(command.name.to_lowercase())
        .kind(CommandType::ChatInput)
        .description(if description.trim().is_empty() { command.name.clone() } else { description })
        .contexts(vec![InteractionContext::Guild, InteractionContext::BotDm])
        .add_option(words)
}

/// What people see of commands, in an order that doesn't matter; `None` for what has another form than ours.
fn visible_commands(commands: Vec<Value>) -> Vec<Option<RegisteredCommand>> {
    let read = |command| {
        let mut offered = serde_json::from_value::<RegisteredCommand>(command).ok()?;
        offered.contexts.sort_unstable();
        Some(offered)
    };
    let mut described: Vec<_> = commands.into_iter().map(read).collect();
    described.sort_unstable();
    described
}

/// A command as people see it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct RegisteredCommand {
    name: String,
    description: String,
    #[serde(rename = "type")]
    kind: u8,
    contexts: Vec<u8>,
    options: Vec<RegisteredOption>,
}

/// An option of a command as people see it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct RegisteredOption {
    name: String,
    description: String,
    #[serde(rename = "type")]
    kind: u8,
    #[serde(default)]
    required: bool,
}

/// Whether another try can't help: Discord takes the call and not what it says.
fn is_for_good(error: &CallError) -> bool {
    matches!(error, CallError::Refused(ApiError { status: 400..500, .. }))
}
