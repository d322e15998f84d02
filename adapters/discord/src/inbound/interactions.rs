//! Responds to slash commands and pressed buttons, and registers the slash commands.

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

/// The timeout of one response; Discord accepts none after three seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

/// How many characters of a command are echoed to the person who used it.
const MAX_COMMAND_CHARS: usize = 200;

/// The maximum number of commands of an application (Application Commands, Limits).
const MAX_COMMANDS: usize = 100;

/// The longest description of a command, in characters.
const MAX_DESCRIPTION_CHARS: usize = 100;

/// The most choices of an option (Application Command Option Structure).
const MAX_CHOICES: usize = 25;

/// The delay before commands are registered again after a failure, at first and at most.
const MIN_DELAY: Duration = Duration::from_secs(2);
const MAX_DELAY: Duration = Duration::from_secs(5 * 60);

/// A slash command or a pressed button that waits for its response.
#[derive(Debug, Clone)]
pub(crate) struct PendingInteraction {
    pub(crate) id: u64,
    /// The credential for the response.
    pub(crate) token: SecretString,
    pub(crate) kind: InteractionResponseKind,
}

/// The kind of response to an interaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InteractionResponseKind {
    /// Acknowledges a pressed button; nothing is shown.
    Press,
    /// Echoes the command, visible only to the person who used it.
    Command {
        /// The command with its arguments.
        said: String,
    },
}

/// Responds to an interaction after its message is stored. A late response shows the interaction as failed, but the
/// stored message is still handled.
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
    let request = ApiRequest::post(format!("/interactions/{id}/{}/callback", token.expose_secret()), &response);
    let reason = match tokio::time::timeout(RESPONSE_TIMEOUT, client.request::<IgnoredAny>(request)).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no response in time".to_owned(),
    };
    tracing::debug!(interaction = id, reason = reason, "an interaction shows as failed");
}

/// Registers the slash commands with Discord unless they are registered already. Retries until `stop`; without
/// registration the commands work when typed.
pub(crate) async fn register_commands(
    client: &RestClient,
    application: u64,
    commands: &[SlashCommand],
    stop: &CancellationToken,
) {
    if commands.is_empty() {
        return;
    }
    let mut delay = MIN_DELAY;
    let registration = async {
        while let Err(error) = try_register(client, application, commands).await {
            if delay == MIN_DELAY {
                tracing::warn!(error = %error, "registering the commands with Discord failed; they work when typed");
            }
            if is_permanent(&error) {
                return;
            }
            let min_delay = match error {
                CallError::RateLimited { retry_after, .. } => retry_after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            tokio::time::sleep(delay.max(min_delay)).await;
            delay = (delay * 2).min(MAX_DELAY);
        }
    };
    stop.run_until_cancelled(registration).await;
}

async fn try_register(client: &RestClient, application: u64, commands: &[SlashCommand]) -> Result<(), CallError> {
    let path = format!("/applications/{application}/commands");
    let wanted_commands: Vec<CreateCommand> = commands.iter().take(MAX_COMMANDS).map(build_command).collect();
    let registered: Option<Vec<Value>> = client.request(ApiRequest::get(path.as_str())).await?;
    if visible_commands(registered.unwrap_or_default())
        == visible_commands(wanted_commands.iter().map(|command| json!(command)).collect())
    {
        return Ok(());
    }
    client.request::<IgnoredAny>(ApiRequest::put(path, &wanted_commands)).await.map(drop)
}

/// Builds a command with one option for all arguments, available in guilds and direct channels.
fn build_command(command: &SlashCommand) -> CreateCommand {
    let description: String = command.description.chars().take(MAX_DESCRIPTION_CHARS).collect();
    let option =
        CreateCommandOption::new(CommandOptionType::String, "words", "What to add to the command").required(false);
    let choices = if command.choices.len() > MAX_CHOICES { &[] } else { command.choices.as_slice() };
    let option = choices.iter().fold(option, |option, choice| option.add_string_choice(choice, choice));
    let built = CreateCommand::new(command.name.to_lowercase())
        .kind(CommandType::ChatInput)
        .description(if description.trim().is_empty() { command.name.clone() } else { description })
        .contexts(vec![InteractionContext::Guild, InteractionContext::BotDm])
        .add_option(option);
    match command.takes_input {
        true => built.add_option(
            CreateCommandOption::new(CommandOptionType::String, "input", "Inputs, such as city=Berlin").required(false),
        ),
        false => built,
    }
}

/// Returns the visible parts of commands, sorted for comparison; `None` for a command of an unknown form.
fn visible_commands(commands: Vec<Value>) -> Vec<Option<RegisteredCommand>> {
    let parse_command = |command| {
        let mut parsed = serde_json::from_value::<RegisteredCommand>(command).ok()?;
        parsed.contexts.sort_unstable();
        Some(parsed)
    };
    let mut visible: Vec<_> = commands.into_iter().map(parse_command).collect();
    visible.sort_unstable();
    visible
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
    #[serde(default)]
    choices: Vec<RegisteredChoice>,
}

/// A value that people pick for an option.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct RegisteredChoice {
    name: String,
    value: String,
}

/// Whether a retry can't help, because Discord rejects the content of the request.
fn is_permanent(error: &CallError) -> bool {
    matches!(error, CallError::Refused(ApiError { status: 400..500, .. }))
}
