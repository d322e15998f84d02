//! `satchel plan`: how a response would be sent on a channel. Nothing is sent and nothing is stored.

use std::{
    io::{Read, Write},
    num::NonZeroU64,
};

use anyhow::Context;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelCapabilities, Filename, MediaInfo, OutgoingResponse, Sha256,
    Timestamp, Visibility, VoiceRequest,
    part::{Plan, PlannedPart},
};
use satchel_routing::tables;
use serde::Deserialize;
use uuid::Uuid;

use super::UsageError;
use crate::{
    cli::{PlanChannel, PlanOptions},
    config::{ConfigSetting, LoadedConfig, origin::SettingOrigin},
};

/// The longest response that is read.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;
const EXAMPLE: &str =
    r#"{"text": "Here it is.", "attachments": [{"filename": "a.pdf", "mime": "application/pdf", "bytes": 3000000}]}"#;

/// A response as people write it for a dry run: an `OutgoingResponse` in which a file needs only a name and a size.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanInput {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    voice: Option<VoiceRequest>,
    #[serde(default)]
    attachments: Vec<PlanInputFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanInputFile {
    id: Option<AttachmentId>,
    number: Option<NonZeroU64>,
    conversation: Option<satchel_domain::ConversationId>,
    source: Option<AttachmentSource>,
    filename: Filename,
    mime: Option<String>,
    bytes: u64,
    sha256: Option<Sha256>,
    #[serde(default)]
    media: MediaInfo,
    #[serde(default)]
    description: String,
    created_at: Option<Timestamp>,
    #[serde(default)]
    visibility: Visibility,
}

/// Reads a response and prints its plan. `name` is what the input is called in errors.
///
/// # Errors
/// When the input can't be read or is no response, or the output can't be written.
pub fn run(
    input: &mut dyn Read,
    name: &str,
    options: &PlanOptions,
    loaded: &LoadedConfig,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut text = String::new();
    input.take(MAX_INPUT_BYTES + 1).read_to_string(&mut text).with_context(|| format!("failed to read {name}"))?;
    if text.len() as u64 > MAX_INPUT_BYTES {
        let limit = satchel_domain::size::format_bytes(MAX_INPUT_BYTES);
        return Err(UsageError(format!("{name} is larger than {limit}")).into());
    }
    let response = parse(name, &text)?;
    let limits = PlanLimits::new(options.channel, loaded);
    let plan = satchel_routing::plan::plan(&response, &limits.capabilities);
    if options.json {
        super::write_json(out, &plan)?;
    } else {
        write_plan(out, limits.channel, &plan)?;
        if let Some(source) = limits.source {
            writeln!(out, "limits: {source}")?;
        }
    }
    Ok(())
}

/// The limits of a plan.
struct PlanLimits {
    channel: &'static str,
    capabilities: ChannelCapabilities,
    /// Whose limits they are and which of them are configured, as text; `None` if they can't be configured.
    source: Option<String>,
}

impl PlanLimits {
    fn new(channel: PlanChannel, loaded: &LoadedConfig) -> Self {
        let (telegram, discord) = (&loaded.config().telegram, &loaded.config().discord);
        let (channel, capabilities, source) = match channel {
            PlanChannel::Telegram => {
                let server = match (&telegram.local_files, &telegram.api_url) {
                    (Some(_), _) => "your own Bot API server, because telegram.local_files is set",
                    (None, Some(_)) => {
                        "Telegram's own servers (set telegram.local_files for those of your own Bot API server)"
                    }
                    (None, None) => "Telegram's own servers",
                };
                ("telegram", telegram.limits(), Some(server))
            }
            PlanChannel::TelegramLocal => ("telegram", telegram.own_server_limits(), Some("your own Bot API server")),
            PlanChannel::Discord => ("discord", discord.limits(), Some("Discord, in a server without boosts")),
            PlanChannel::Web => ("web", tables::web(), None),
            PlanChannel::Console => ("console", tables::console(), None),
        };
        let prefix = format!("{channel}.limits.");
        let is_set =
            |setting: &&ConfigSetting| setting.key.starts_with(&prefix) && setting.origin != SettingOrigin::Default;
        let set = loaded.settings.iter().filter(is_set).map(|ConfigSetting { key, value, origin }| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("; {key} {value} ({origin})")
        });
        let source = source.map(|server| std::iter::once(server.to_owned()).chain(set).collect());
        Self { channel, capabilities, source }
    }
}

fn parse(name: &str, text: &str) -> Result<OutgoingResponse, UsageError> {
    // serde would accept a list as an object without names.
    if text.trim_start().starts_with('[') {
        return Err(UsageError(format!("{name}:1:1: a list is not a response; a response looks like {EXAMPLE}")));
    }
    let plan_input: PlanInput = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = message.split_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        let (line, column) = (error.line(), error.column());
        UsageError(format!("{name}:{line}:{column}: {message}; a response looks like {EXAMPLE}"))
    })?;
    let conversation: satchel_domain::ConversationId = "console:main"
        .parse()
        .map_err(|error: satchel_domain::conversation::ParseConversationIdError| UsageError(error.to_string()))?;
    let file = |(index, file): (usize, PlanInputFile)| Attachment {
        id: file.id.unwrap_or(AttachmentId(Uuid::from_u128(index as u128 + 1))),
        number: file.number.unwrap_or(NonZeroU64::MIN.saturating_add(index as u64)),
        conversation: file.conversation.unwrap_or_else(|| conversation.clone()),
        source: file.source.unwrap_or(AttachmentSource::Tool),
        filename: file.filename,
        mime: file.mime.unwrap_or_else(|| "application/octet-stream".to_owned()),
        bytes: file.bytes,
        sha256: file.sha256.unwrap_or(Sha256([0; 32])),
        media: file.media,
        description: file.description,
        created_at: file.created_at.unwrap_or(Timestamp(0)),
        visibility: file.visibility,
        link_revocation: None,
    };
    let attachments = plan_input.attachments.into_iter().enumerate().map(file).collect();
    let text = plan_input.text.filter(|text| !text.trim().is_empty());
    Ok(OutgoingResponse { text, voice: plan_input.voice, attachments })
}

fn write_plan(out: &mut dyn Write, channel: &str, plan: &Plan) -> std::io::Result<()> {
    if plan.parts.is_empty() {
        return writeln!(out, "nothing would be sent on {channel}");
    }
    let row = |(index, part): (usize, &PlannedPart)| {
        let mut content = super::summarize_content(&part.content);
        if let Some(reason) = &part.failure {
            content = format!("{content}: not sent; {reason}");
        }
        vec![(index + 1).to_string(), part.content.kind().to_owned(), content]
    };
    let rows: Vec<_> = plan.parts.iter().enumerate().map(row).collect();
    super::write_table(out, &rows)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, path::Path};

    use super::*;
    use crate::config::{self, ConfigSources};

    const CHANNELS: [PlanChannel; 5] = [
        PlanChannel::Telegram,
        PlanChannel::TelegramLocal,
        PlanChannel::Discord,
        PlanChannel::Web,
        PlanChannel::Console,
    ];

    fn options(channel: PlanChannel, json: bool) -> PlanOptions {
        PlanOptions { file: "response.json".into(), channel, json }
    }

    /// The plan with a configuration file, an environment variable and `--set` flags.
    fn check_with(yaml: &str, set: &[&str], variable: (&str, &str), channel: PlanChannel) -> String {
        let set: Vec<String> = set.iter().map(|pair| (*pair).to_owned()).collect();
        let environment: Vec<(OsString, OsString)> = vec![(variable.0.into(), variable.1.into())];
        let sources = ConfigSources { file: None, set: &set, environment: &environment, cwd: Path::new("") };
        let loaded = config::load_text(Path::new("satchel.yaml"), yaml, &sources).unwrap();
        let mut out = Vec::new();
        run(&mut MIXED.as_bytes(), "response.json", &options(channel, false), &loaded, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn default_settings() -> LoadedConfig {
        let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: Path::new("") };
        config::load_text(Path::new("satchel.yaml"), "", &sources).unwrap()
    }

    fn check(input: &str, channel: PlanChannel, json: bool) -> String {
        let mut out = Vec::new();
        match run(&mut input.as_bytes(), "response.json", &options(channel, json), &default_settings(), &mut out) {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(error) => format!("error: {error:#}"),
        }
    }

    const MIXED: &str = r#"{"text": "Here are your files.", "voice": {"text": "Hello"}, "attachments": [
        {"filename": "a.jpg", "mime": "image/jpeg", "bytes": 245000, "media": {"width": 800, "height": 600}},
        {"filename": "b.jpg", "mime": "image/jpeg", "bytes": 1000000, "media": {"width": 800, "height": 600}},
        {"filename": "big.mov", "mime": "video/quicktime", "bytes": 64000000}]}"#;

    #[test]
    fn a_plan_reads_like_a_table() {
        let shown: Vec<String> =
            CHANNELS.into_iter().map(|channel| format!("{channel:?}\n{}", check(MIXED, channel, false))).collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn a_plan_keeps_to_the_configured_limits() {
        let none = ("SATCHEL_LOG", "info");
        let in_file = "telegram:\n  limits: { file_bytes: 70MB }\n";
        let by_variable = ("SATCHEL_TELEGRAM__LIMITS__FILE_BYTES", "70MB");
        let by_set = ["telegram.limits.file_bytes=70MB"];
        for (yaml, set, variable, place) in [
            (in_file, &[][..], none, "satchel.yaml:2"),
            ("", &by_set[..], none, "--set"),
            ("", &[][..], by_variable, "environment SATCHEL_TELEGRAM__LIMITS__FILE_BYTES"),
        ] {
            let plan = check_with(yaml, set, variable, PlanChannel::Telegram);
            assert!(plan.contains("file   big.mov (document, 64 MB)\n"), "{plan}");
            let limits = format!("limits: Telegram's own servers; telegram.limits.file_bytes 70MB ({place})\n");
            assert!(plan.ends_with(&limits), "{plan}");
        }
        let text = check_with("discord: { limits: { request_bytes: 1MB } }", &[], none, PlanChannel::Discord);
        assert!(!text.contains("album"), "two files of more than 1 MB together go apart: {text}");
        // What is changed for the platform counts for a server of one's own too.
        let less = check_with("", &["telegram.limits.file_bytes=60MB"], none, PlanChannel::TelegramLocal);
        assert!(less.contains("not sent; 60 MB is the limit here"), "{less}");
    }

    #[test]
    fn a_server_of_ones_own_takes_larger_files() {
        let none = ("SATCHEL_LOG", "info");
        let own = "telegram: { api_url: 'http://localhost:8081', local_files: files }\n";
        let proxy = "telegram: { api_url: 'http://localhost:8081' }\n";
        for (yaml, channel, is_sent, limits) in [
            ("", PlanChannel::Telegram, false, "limits: Telegram's own servers\n"),
            ("", PlanChannel::TelegramLocal, true, "limits: your own Bot API server\n"),
            (
                own,
                PlanChannel::Telegram,
                true,
                "limits: your own Bot API server, because telegram.local_files is set\n",
            ),
            (own, PlanChannel::TelegramLocal, true, "limits: your own Bot API server\n"),
            (
                proxy,
                PlanChannel::Telegram,
                false,
                "limits: Telegram's own servers (set telegram.local_files for those of your own Bot API server)\n",
            ),
        ] {
            let plan = check_with(yaml, &[], none, channel);
            assert_eq!(!plan.contains("not sent"), is_sent, "{yaml} {channel:?}: {plan}");
            assert!(plan.ends_with(limits), "{plan}");
        }
    }

    #[test]
    fn a_broken_configuration_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("response.json"), MIXED).unwrap();
        let plan = |set: &str| {
            let line = ["satchel", "plan", "response.json", "--channel", "web", "--json", "--set", set];
            format!("{:?}", crate::start(line.map(OsString::from), &[], dir.path()))
        };
        let code = |code: u8| format!("{:?}", std::process::ExitCode::from(code));
        assert_eq!(plan("telegram.limits.text=much"), code(2));
        assert_eq!(plan("telegram.limits.text=500"), code(0));
    }

    #[test]
    fn json_is_the_plan_itself() {
        let plan: Plan = serde_json::from_str(&check(MIXED, PlanChannel::Telegram, true)).unwrap();
        assert_eq!(plan.parts[0].content.kind(), "text");
        assert!(plan.parts.len() >= 4);
    }

    #[test]
    fn invalid_response_reports_position_and_reason() {
        let cases = [
            "",
            "[]",
            "{\"text\": 3}",
            "{\n  \"txt\": \"a\"}",
            "{\"attachments\": [{\"filename\": \"a\"}]}",
            "{\"text\": \"a\"} x",
        ];
        let shown: Vec<String> =
            cases.iter().map(|case| format!("{case}\n{}", check(case, PlanChannel::Web, false))).collect();
        insta::assert_snapshot!(shown.join("\n\n"));
    }

    #[test]
    fn wrong_input_is_wrong_usage() {
        let options = options(PlanChannel::Web, false);
        let error = run(&mut "{".as_bytes(), "-", &options, &default_settings(), &mut Vec::new()).unwrap_err();
        assert!(error.is::<UsageError>());
    }
}
