//! `satchel plan`: how a response would be sent on a channel. Nothing is sent and nothing is stored.

use std::io::{Read, Write};

use anyhow::Context;
use satchel_domain::{
    Attachment, AttachmentId, Filename, Media, OutgoingResponse, Sha256, Source, Timestamp, Visibility, VoiceRequest,
    part::{Plan, PlannedPart},
};
use serde::Deserialize;
use uuid::Uuid;

use super::WrongUsage;
use crate::cli::PlanChannel;

/// The longest response that is read.
const LONGEST: u64 = 64 * 1024 * 1024;
const EXAMPLE: &str =
    r#"{"text": "Here it is.", "attachments": [{"filename": "a.pdf", "mime": "application/pdf", "bytes": 3000000}]}"#;

/// A response as people write it for a dry run: an `OutgoingResponse` in which a file needs only a name and a size.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    voice: Option<VoiceRequest>,
    #[serde(default)]
    attachments: Vec<DraftFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DraftFile {
    id: Option<AttachmentId>,
    number: Option<u64>,
    conversation: Option<satchel_domain::ConversationId>,
    source: Option<Source>,
    filename: Filename,
    mime: Option<String>,
    bytes: u64,
    sha256: Option<Sha256>,
    #[serde(default)]
    media: Media,
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
    channel: PlanChannel,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut text = String::new();
    input.take(LONGEST + 1).read_to_string(&mut text).with_context(|| format!("{name} can't be read"))?;
    if text.len() as u64 > LONGEST {
        let limit = satchel_domain::size::human(LONGEST);
        return Err(WrongUsage(format!("{name} is larger than {limit}")).into());
    }
    let response = parse(name, &text)?;
    let channel = match channel {
        PlanChannel::Telegram => "telegram",
        PlanChannel::Discord => "discord",
        PlanChannel::Web => "web",
        PlanChannel::Console => "console",
    };
    let capabilities = satchel_routing::tables::by_name(channel).context("the channel has no table of capabilities")?;
    let plan = satchel_routing::plan::plan(&response, &capabilities);
    if json {
        super::write_json(out, &plan)?;
    } else {
        write_plan(out, channel, &plan)?;
    }
    Ok(())
}

fn parse(name: &str, text: &str) -> Result<OutgoingResponse, WrongUsage> {
    // serde would take a list for an object without names.
    if text.trim_start().starts_with('[') {
        return Err(WrongUsage(format!("{name}:1:1: a list is no response; a response looks like {EXAMPLE}")));
    }
    let draft: Draft = serde_json::from_str(text).map_err(|error| {
        let words = error.to_string();
        let words = words.split_once(" at line ").map_or(words.as_str(), |(words, _)| words);
        let (line, column) = (error.line(), error.column());
        WrongUsage(format!("{name}:{line}:{column}: {words}; a response looks like {EXAMPLE}"))
    })?;
    let conversation: satchel_domain::ConversationId = "console:main"
        .parse()
        .map_err(|error: satchel_domain::conversation::NotAConversation| WrongUsage(error.to_string()))?;
    let file = |(index, file): (usize, DraftFile)| Attachment {
        id: file.id.unwrap_or(AttachmentId(Uuid::from_u128(index as u128 + 1))),
        number: file.number.unwrap_or(index as u64 + 1),
        conversation: file.conversation.unwrap_or_else(|| conversation.clone()),
        source: file.source.unwrap_or(Source::Tool),
        filename: file.filename,
        mime: file.mime.unwrap_or_else(|| "application/octet-stream".to_owned()),
        bytes: file.bytes,
        sha256: file.sha256.unwrap_or(Sha256([0; 32])),
        media: file.media,
        description: file.description,
        created_at: file.created_at.unwrap_or(Timestamp(0)),
        visibility: file.visibility,
    };
    let attachments = draft.attachments.into_iter().enumerate().map(file).collect();
    let text = draft.text.filter(|text| !text.trim().is_empty());
    Ok(OutgoingResponse { text, voice: draft.voice, attachments })
}

fn write_plan(out: &mut dyn Write, channel: &str, plan: &Plan) -> std::io::Result<()> {
    if plan.parts.is_empty() {
        return writeln!(out, "nothing would be sent on {channel}");
    }
    let row = |(index, part): (usize, &PlannedPart)| {
        let mut what = super::summary(&part.content);
        if let Some(reason) = &part.refused {
            what = format!("{what}: not sent, {reason}");
        }
        vec![(index + 1).to_string(), part.content.kind().to_owned(), what]
    };
    let rows: Vec<_> = plan.parts.iter().enumerate().map(row).collect();
    super::write_table(out, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, channel: PlanChannel, json: bool) -> String {
        let mut out = Vec::new();
        match run(&mut input.as_bytes(), "response.json", channel, json, &mut out) {
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
        let shown: Vec<String> = [PlanChannel::Telegram, PlanChannel::Discord, PlanChannel::Web, PlanChannel::Console]
            .into_iter()
            .map(|channel| format!("{channel:?}\n{}", check(MIXED, channel, false)))
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn json_is_the_plan_itself() {
        let plan: Plan = serde_json::from_str(&check(MIXED, PlanChannel::Telegram, true)).unwrap();
        assert_eq!(plan.parts[0].content.kind(), "text");
        assert!(plan.parts.len() >= 4);
    }

    #[test]
    fn input_that_is_no_response_is_told_where_and_why() {
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
        let error = run(&mut "{".as_bytes(), "-", PlanChannel::Web, false, &mut Vec::new()).unwrap_err();
        assert!(error.is::<WrongUsage>());
    }
}
