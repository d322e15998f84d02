//! Prompts and scripts that run at set times: `schedules`.

use std::path::Path;

use jiff::tz::{TimeZone, db};
use satchel_attachments::{order::Playbooks, run::task_directory};
use satchel_calendar::cron::{CronSchedule, MissedPolicy};
use satchel_domain::{ConversationId, TaskRequest, script};
use satchel_runtime::schedules::Schedule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    channels::{ConversationKeys, DISCORD, TELEGRAM},
    leaf::{
        address::FilePath,
        list::{Switch, TaskInputs},
        secret::read_text_file,
    },
    resolver::Resolver,
    web::WebConfig,
};
use crate::runtime::machine_zone;

/// The largest script that is read.
const MAX_SCRIPT_BYTES: u64 = 250_000;

const MAX_NAME_CHARS: usize = 64;

/// The form of a cron expression, for error messages.
const CRON_FORMAT: &str = "a cron expression in quotes, such as \"0 8 * * mon-fri\" or \"@daily\"";

/// A prompt or a script, and when it runs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend(
    "required" = ["cron", "conversation"],
    "oneOf" = [
        { "required": ["prompt"] }, { "required": ["script"] }, { "required": ["script_file"] }, { "required": ["task"] }
    ]
))]
pub(super) struct ScheduleConfig {
    /// Its name in the configuration.
    #[schemars(skip)]
    name: String,
    /// When it runs: minute, hour, day of the month, month, day of the week, as in `0 8 * * mon-fri`; with a sixth
    /// field in front the seconds; or @hourly, @daily, @weekly, @monthly, @yearly.
    cron: Option<String>,
    /// The time zone of these times, such as Europe/Berlin; by default this machine's, or UTC where that isn't known.
    timezone: Option<String>,
    /// What the model is asked. Exactly one of `prompt`, `script`, `script_file` and `task` is needed.
    prompt: Option<String>,
    /// The script that runs.
    script: Option<String>,
    /// The file that holds the script; it is read when Satchel starts.
    script_file: Option<FilePath>,
    /// The task that runs, one of `tasks`.
    task: Option<String>,
    /// The inputs of the task.
    input: TaskInputs,
    /// The conversation that gets the answer, such as telegram:123456789.
    conversation: Option<String>,
    /// What happens to times at which Satchel didn't run. `run_once`: the last one is made up for. `skip`: they are
    /// skipped. `run_all`: the last 24 are made up for.
    #[schemars(with = "String", extend("enum" = [MissedPolicy::RunOnce, MissedPolicy::Skip, MissedPolicy::RunAll]))]
    missed: MissedPolicy,
    /// Whether it runs at all.
    enabled: Switch,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            cron: None,
            timezone: None,
            prompt: None,
            script: None,
            script_file: None,
            task: None,
            input: TaskInputs::default(),
            conversation: None,
            missed: MissedPolicy::RunOnce,
            enabled: Switch(true),
        }
    }
}

/// A channel that `satchel run` hosts, so that schedules can post there.
pub(super) struct HostedChannel {
    keys: ConversationKeys,
    /// The setting that enables it.
    setting: &'static str,
    is_set_up: bool,
}

const WEB: ConversationKeys = ConversationKeys {
    channel: "web",
    format: "made of letters, digits, `-` and `_`, such as web:reports",
    is_valid: |key| key.len() <= 64 && !key.contains(['.', '/', '@']),
};

/// The channels that `satchel run` can host. An invalid token counts as set: it is reported where it was given.
pub(super) fn hosted_channels(resolver: &Resolver<'_>, web: &WebConfig) -> [HostedChannel; 3] {
    let has_token = |platform: &str| {
        resolver.is_given(&format!("{platform}.token")) || resolver.is_given(&format!("{platform}.token_file"))
    };
    [
        HostedChannel { keys: TELEGRAM, setting: "telegram.token", is_set_up: has_token("telegram") },
        HostedChannel { keys: DISCORD, setting: "discord.token", is_set_up: has_token("discord") },
        HostedChannel { keys: WEB, setting: "web.listen", is_set_up: web.listen.0.is_some() },
    ]
}

impl ScheduleConfig {
    /// The resolved schedule; `None` if it has a mistake, which is reported. Without `playbooks`, of which not all could be
    /// read, its task is not looked for.
    pub(super) fn resolve(
        &self,
        resolver: &mut Resolver<'_>,
        hosted: &[HostedChannel],
        playbooks: Option<&Playbooks>,
    ) -> Option<Schedule> {
        let Self { name, missed, enabled: Switch(enabled), .. } = self;
        let section = format!("schedules.{name}");
        let is_name_char = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.len() > MAX_NAME_CHARS || !name.bytes().all(is_name_char) {
            let message = format!(
                "a schedule's name is made of at most {MAX_NAME_CHARS} letters from a to z, digits, `-` and `_`"
            );
            resolver.report(&section, message);
        }
        if !resolver.is_given(&format!("{section}.cron")) {
            resolver.report(&section, format!("`{section}` has no `cron`: {CRON_FORMAT}"));
        }
        let zone = self.zone(resolver, &format!("{section}.timezone"));
        let cron_schedule = self.cron.as_ref().zip(zone).and_then(|(cron, zone)| {
            let to_message = |error| format!("`{section}.cron` must be {CRON_FORMAT}, not {cron:?}: {error}");
            let parsed = CronSchedule::parse(cron, zone).map_err(to_message);
            parsed.map_err(|message| resolver.report(&format!("{section}.cron"), message)).ok()
        });
        let text = self.message_text(resolver, &section, playbooks);
        if !resolver.is_given(&format!("{section}.conversation")) {
            let message =
                format!("`{section}` has no `conversation`: where it is answered, such as telegram:123456789");
            resolver.report(&section, message);
        }
        let conversation = self.conversation.as_ref().and_then(|given| {
            let key = format!("{section}.conversation");
            let conversation = parse_conversation(given, hosted);
            conversation.map_err(|error| resolver.report(&key, format!("`{key}` {error}"))).ok()
        });
        let (name, missed, enabled) = (name.clone(), *missed, *enabled);
        Some(Schedule { name, cron: cron_schedule?, text: text?, conversation: conversation?, missed, enabled })
    }

    /// The time zone of the schedule; `None` if it is unknown, which is reported.
    fn zone(&self, resolver: &mut Resolver<'_>, key: &str) -> Option<TimeZone> {
        let Some(name) = &self.timezone else {
            let zone = machine_zone();
            let description = format!("{}, as on this machine", zone.iana_name().unwrap_or("its own"));
            resolver.show_default(key, json!(description));
            return Some(zone);
        };
        let to_message = |_| format!("`{key}` must be the name of a time zone{}, not {name:?}", suggest_zone(name));
        TimeZone::get(name).map_err(to_message).map_err(|message| resolver.report(key, message)).ok()
    }

    /// The text of the message: the prompt, or the script or the task as a message.
    fn message_text(
        &self,
        resolver: &mut Resolver<'_>,
        section: &str,
        playbooks: Option<&Playbooks>,
    ) -> Option<String> {
        let key = |name: &str| format!("{section}.{name}");
        let given =
            ["prompt", "script", "script_file", "task"].into_iter().filter(|name| resolver.is_given(&key(name)));
        let name = match given.collect::<Vec<_>>().as_slice() {
            [name] => *name,
            [] => {
                let message =
                    format!("`{section}` does nothing: give it a `prompt`, a `script`, a `script_file` or a `task`");
                resolver.report(section, message);
                return None;
            }
            [first, others @ ..] => {
                let message = format!("`{section}` has both `{first}` and `{}`: remove one", others.join("` and `"));
                resolver.report(section, message);
                return None;
            }
        };
        if let Some(task) = &self.task {
            return self.task_message(task, resolver, section, playbooks?);
        }
        if !self.input.0.is_empty() {
            resolver
                .report(&key("input"), format!("`{section}.input` is for a `task` alone: `{name}` takes no inputs"));
        }
        let script_result = self.script_file.as_ref().map(|FilePath(path)| read_script(path, section));
        let script = script_result.transpose().map_err(|message| resolver.report(&key("script_file"), message)).ok()?;
        let is_script = name != "prompt";
        let text = script.as_ref().or(self.script.as_ref()).or(self.prompt.as_ref())?;
        if text.trim().is_empty() {
            resolver.report(&key(name), format!("`{section}.{name}` must not be blank"));
            return None;
        }
        Some(if is_script { script::to_script_message(text) } else { text.clone() })
    }
}

impl ScheduleConfig {
    /// The message that runs a task.
    fn task_message(
        &self,
        task: &str,
        resolver: &mut Resolver<'_>,
        section: &str,
        playbooks: &Playbooks,
    ) -> Option<String> {
        let tasks = task_directory(playbooks);
        let Some(found) = tasks.find(task) else {
            let names: Vec<&str> = tasks.tasks().iter().map(|task| task.name.as_str()).collect();
            let known =
                if names.is_empty() { "none is declared".to_owned() } else { format!("there is {}", names.join(", ")) };
            resolver
                .report(&format!("{section}.task"), format!("`{section}.task` is {task:?}, which is no task; {known}"));
            return None;
        };
        let input: Vec<_> = self.input.0.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(unknown) = found.find_unknown_input(&input) {
            let inputs = found.describe_inputs();
            let message = format!("`{section}.input` has {unknown:?}, which is no input of {:?}; {inputs}", found.name);
            resolver.report(&format!("{section}.input"), message);
            return None;
        }
        Some(TaskRequest { name: found.name.clone(), input }.to_message())
    }
}

fn read_script(path: &Path, section: &str) -> Result<String, String> {
    let to_message = |reason| format!("the file {} that `{section}.script_file` names {reason}", path.display());
    read_text_file(path, MAX_SCRIPT_BYTES).map_err(to_message)
}

/// Suggests the zone with the most similar name or city.
fn suggest_zone(given: &str) -> String {
    let given = given.to_lowercase().replace(' ', "_");
    let distance = |given: &str, name: &str| {
        let distance = strsim::damerau_levenshtein(given, name);
        (distance <= 1 + given.len() / 6).then_some(distance)
    };
    let match_zone = |zone: String| {
        let name = zone.to_lowercase();
        let (_, city) = name.rsplit_once('/')?;
        let given_city = given.rsplit('/').next().unwrap_or(&given);
        Some((distance(&given, &name).or_else(|| distance(given_city, city))?, zone))
    };
    let nearest = db().available().filter_map(|zone| match_zone(zone.as_str().to_owned())).min();
    nearest.map_or_else(|| " such as Europe/Berlin or UTC".to_owned(), |(_, zone)| format!(", perhaps {zone}"))
}

/// Parses the conversation and checks that its channel is hosted.
fn parse_conversation(text: &str, hosted: &[HostedChannel]) -> Result<ConversationId, String> {
    let channels = || hosted.iter().map(|hosted| hosted.keys.channel).collect::<Vec<_>>().join(", ");
    let Ok(conversation) = text.parse::<ConversationId>() else {
        return Err(format!("must be a conversation such as telegram:123456789, not {text:?}"));
    };
    let channel = conversation.channel().as_str();
    let Some(hosted_channel) = hosted.iter().find(|hosted| hosted.keys.channel == channel) else {
        return Err(format!("is on {channel:?}, where `satchel run` says nothing; it does on {}", channels()));
    };
    match (hosted_channel.is_set_up, (hosted_channel.keys.is_valid)(conversation.key())) {
        (false, _) => Err(format!("is on {channel}, which is not set up: give `{}`", hosted_channel.setting)),
        (true, false) => {
            Err(format!("names no place on {channel}, where conversations are {}", hosted_channel.keys.format))
        }
        (true, true) => Ok(conversation),
    }
}

#[cfg(test)]
mod tests;
