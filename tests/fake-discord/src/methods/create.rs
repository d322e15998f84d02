//! New messages (Message resource, Create Message).

use imagesize::blob_size;
use satchel_fake_kit::{FakeFile, ReceivedUpload};
use serde_json::{Value, json};

use crate::{
    DiscordRules,
    call::{ReceivedCall, fields},
    draft::{AttachmentDescription, MessageDraft},
    message::{DiscordFile, DiscordMessage, Mention, VOICE_MESSAGE},
    objects,
    platform_state::{BOT, ChannelKind, Permission, PlatformState, id_in, snowflake},
    refusal::{ApiRefusal, empty_message, missing_permissions, too_large},
};

pub(crate) fn create(
    platform: &mut PlatformState,
    rules: &DiscordRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    let channel = writable(platform, rules, call)?;
    let form = fields(&call.body);
    let draft = MessageDraft::read(rules, &form)?;
    let reply_to = answered(platform, channel, &form)?;
    let files = files(platform, rules, call, &draft, channel, &[])?;
    if draft.flags & VOICE_MESSAGE != 0 {
        check_voice(platform, &draft, channel, &files)?;
    }
    let content = draft.content.clone().unwrap_or_default();
    if content.is_empty() && files.is_empty() && draft.buttons.as_ref().is_none_or(Vec::is_empty) {
        return Err(empty_message());
    }
    let enforced = draft.nonce.clone().filter(|_| form.get("enforce_nonce") == Some(&json!(true)));
    if let Some(before) = enforced.and_then(|nonce| before(platform, rules, channel, &nonce)) {
        return Ok(objects::with_nonce(platform, &platform.messages[&before]));
    }
    let answered = reply_to.and_then(|id| platform.messages.get(&id)).map(|message| message.author);
    let message = DiscordMessage {
        channel,
        author: BOT,
        files: files.into_iter().map(|file| platform.keep_file(file)).collect(),
        flags: draft.flags,
        nonce: draft.nonce.clone(),
        reply_to,
        buttons: draft.buttons.clone().unwrap_or_default(),
        ..with_pings(&draft, content, answered)
    };
    let id = platform.add(message);
    if let Some(nonce) = draft.nonce {
        platform.nonces.insert(nonce, (id, platform.clock.now()));
    }
    let message = &platform.messages[&id];
    let (answer, event) = (objects::with_nonce(platform, message), objects::event(platform, message));
    platform.events.push(("MESSAGE_CREATE", event));
    Ok(answer)
}

/// Words and whom they notify. What a bot isn't allowed to notify isn't told as a mention either.
pub(crate) fn with_pings(draft: &MessageDraft, content: String, answered: Option<u64>) -> DiscordMessage {
    let pings = draft.pings(&content, answered);
    let mut message = DiscordMessage { content, ..DiscordMessage::default() };
    for ping in &pings {
        match ping {
            Mention::Everyone => message.mentions_everyone = true,
            Mention::Person(id) => message.mentions.push(*id),
            Mention::Role(id) => message.role_mentions.push(*id),
        }
    }
    DiscordMessage { pings, ..message }
}

/// The channel of a request that writes there (Create Message, Limitations).
pub(crate) fn writable(platform: &PlatformState, rules: &DiscordRules, call: &ReceivedCall) -> Result<u64, ApiRefusal> {
    let channel = platform.visible_channel(call.id(0))?;
    let found = platform.channel(channel);
    if matches!(found.kind, ChannelKind::Direct { .. }) && found.blocked {
        return Err(ApiRefusal::new(403, 50_007, "Cannot send messages to this user"));
    }
    let attaches = !call.uploads.is_empty();
    if !platform.may(channel, Permission::Send) || attaches && !platform.may(channel, Permission::Attach) {
        return Err(missing_permissions());
    }
    // Create Message: "The maximum request size when sending a message is 25 MiB"; a guild with a higher limit for a
    // file has that one. The words and the form are a part of a request; but a file alone goes as long as it is no
    // larger than a file may be, or that limit would be none.
    let is_lone_file = call.uploads.len() == 1 && call.body["content"].as_str().is_none_or(str::is_empty);
    let counted = if is_lone_file { call.uploaded_bytes() } else { call.bytes };
    if counted > rules.request_limit(platform.tier_of(channel)) {
        return Err(too_large());
    }
    Ok(channel)
}

/// The message of the bot's that came with the same nonce before.
fn before(platform: &PlatformState, rules: &DiscordRules, channel: u64, nonce: &str) -> Option<u64> {
    let (id, at) = platform.nonces.get(nonce)?;
    (platform.clock.elapsed_since(*at) < rules.nonce_window && platform.existing_message(channel, *id).is_some())
        .then_some(*id)
}

/// The message that is to be answered (Message Reference structure).
fn answered(
    platform: &PlatformState,
    channel: u64,
    form: &serde_json::Map<String, Value>,
) -> Result<Option<u64>, ApiRefusal> {
    let Some(reference) = form.get("message_reference").filter(|given| !given.is_null()) else { return Ok(None) };
    let wrong = |code: &str, words: &str| ApiRefusal::invalid_field(&["message_reference"], code, words);
    if reference["type"].as_u64().is_some_and(|kind| kind != 0) {
        return Err(wrong("UNKNOWN_TYPE", "the fake lets bots reply, not forward"));
    }
    let Some(id) = id_in(reference, "message_id") else {
        let path = ["message_reference", "message_id"];
        return Err(ApiRefusal::invalid_field(&path, "BASE_TYPE_REQUIRED", "This field is required"));
    };
    let id = snowflake(&id, "message_reference")?;
    if id_in(reference, "channel_id").is_some_and(|given| given != channel.to_string()) {
        let words = "Cannot reply to a message in a different channel";
        return Err(wrong("REPLIES_CANNOT_REFERENCE_OTHER_CHANNEL", words));
    }
    if !platform.may(channel, Permission::ReadHistory) {
        return Err(ApiRefusal::new(403, 160_002, "Cannot reply without permission to read message history"));
    }
    match platform.existing_message(channel, id) {
        Some(_) => Ok(Some(id)),
        // fail_if_not_exists: "whether to error if the referenced message doesn't exist instead of sending as a normal
        // (non-reply) message, default true".
        None if reference["fail_if_not_exists"] == false => Ok(None),
        None => Err(wrong("REPLIES_UNKNOWN_MESSAGE", "Unknown message")),
    }
}

/// The files that a message is to have: those of the request, and those of `kept` that the form names.
///
/// Edit Message: "the `attachments` array must contain all attachments that should be present after edit, including
/// retained and new attachments provided in the request body"; without it files are appended.
pub(crate) fn files(
    platform: &PlatformState,
    rules: &DiscordRules,
    call: &ReceivedCall,
    draft: &MessageDraft,
    channel: u64,
    kept: &[DiscordFile],
) -> Result<Vec<DiscordFile>, ApiRefusal> {
    let limit = rules.file_limit(platform.tier_of(channel));
    if call.uploads.values().any(|upload| upload.bytes > limit) {
        return Err(too_large());
    }
    let voice = draft.flags & VOICE_MESSAGE != 0;
    let files: Vec<DiscordFile> = match &draft.attachments {
        None => {
            let fresh = call.uploads.values().map(|upload| file(upload, &AttachmentDescription::default(), voice));
            kept.iter().cloned().chain(fresh).collect()
        }
        Some(described) => {
            let named = |number: &usize| described.iter().any(|one| one.id == number.to_string());
            if !call.uploads.keys().all(named) {
                let words = "attachments has to name all files of the request";
                return Err(ApiRefusal::invalid_field(&["attachments"], "ATTACHMENT_NOT_LISTED", words));
            }
            let found = described.iter().enumerate().map(|(index, described)| {
                let upload = described.id.parse().ok().and_then(|number: usize| call.uploads.get(&number));
                let kept = kept.iter().find(|file| file.id.to_string() == described.id);
                let unknown = || {
                    let path = ["attachments", &index.to_string(), "id"];
                    ApiRefusal::invalid_field(&path, "ATTACHMENT_NOT_FOUND", "Attachment not found")
                };
                let fresh = upload.map(|upload| file(upload, described, voice));
                fresh.or_else(|| kept.map(|file| redescribed(file, described))).ok_or_else(unknown)
            });
            found.collect::<Result<_, _>>()?
        }
    };
    if files.len() > rules.files {
        let words = format!("Maximum number of attachments in a message reached ({})", rules.files);
        return Err(ApiRefusal::new(400, 30_015, words));
    }
    Ok(files)
}

fn redescribed(file: &DiscordFile, described: &AttachmentDescription) -> DiscordFile {
    let description = described.description.clone().or_else(|| file.description.clone());
    let title = described.title.clone().or_else(|| file.title.clone());
    DiscordFile { description, title, ..file.clone() }
}

fn file(upload: &ReceivedUpload, described: &AttachmentDescription, voice: bool) -> DiscordFile {
    let named = described.filename.as_deref().unwrap_or(&upload.filename);
    let (filename, title) = sanitised(named);
    let title = described.title.clone().filter(|title| !title.is_empty()).or(title);
    let sides = blob_size(&upload.head).ok().map(|size| (size.width as u64, size.height as u64));
    let kept = |content: &bytes::Bytes| FakeFile::from_bytes(filename.clone(), upload.mime.clone(), content.clone());
    DiscordFile {
        id: 0,
        title,
        mime: upload.mime.clone(),
        bytes: upload.bytes,
        sha256: upload.sha256,
        description: described.description.clone().filter(|words| !words.is_empty()),
        duration_secs: described.duration_secs.filter(|_| voice),
        waveform: described.waveform.clone().filter(|_| voice),
        sides,
        content: upload.content.as_ref().map(kept),
        filename,
    }
}

/// A name as Discord rewrites it, and its `title`, which keeps the name without its extension if special characters were
/// dropped ("This will be present when a filename contains special characters": the pull request that documented it,
/// discord-api-docs 6945). Of a name that only begins or ends with signs no title is made.
///
/// Names "are cleansed similarly to flask's `secure_filename()`" (discord-api-docs 7754; 4847 for a name that begins with `_`):
/// blanks become `_`, all but letters of ASCII, digits, `-`, `_` and `.` is dropped, and then `.` and `_` at both ends. Letters
/// with accents lose them there, and are dropped here. A name of other letters alone becomes one that Discord makes up, with
/// the same extension.
pub(crate) fn sanitised(name: &str) -> (String, Option<String>) {
    let is_kept = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let joined = name.split_whitespace().collect::<Vec<_>>().join("_");
    let kept: String = joined.chars().filter(|letter| is_kept(*letter)).collect();
    let is_made_up = stem(&kept).trim_matches(['.', '_']).is_empty() && kept != joined;
    let filename = match kept.rsplit_once('.') {
        Some((_, extension)) if is_made_up && !extension.is_empty() => format!("unknown.{extension}"),
        _ if is_made_up => "unknown".to_owned(),
        _ => kept.trim_matches(['.', '_']).to_owned(),
    };
    let title = if stem(name).is_empty() { name } else { stem(name) };
    (filename, (kept != name).then(|| title.to_owned()))
}

/// A name without its extension.
fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Message resource, Voice Messages.
fn check_voice(
    platform: &PlatformState,
    draft: &MessageDraft,
    channel: u64,
    files: &[DiscordFile],
) -> Result<(), ApiRefusal> {
    if !platform.may(channel, Permission::SendVoice) {
        return Err(ApiRefusal::new(403, 50_173, "You cannot send voice messages in this channel."));
    }
    let says = draft.content.as_ref().is_some_and(|content| !content.is_empty());
    if says || draft.buttons.as_ref().is_some_and(|rows| !rows.is_empty()) {
        return Err(ApiRefusal::new(400, 50_159, "Voice messages do not support additional content."));
    }
    let [voice] = files else {
        return Err(ApiRefusal::new(400, 50_160, "Voice messages must have a single audio attachment."));
    };
    if !voice.mime.starts_with("audio/") {
        return Err(ApiRefusal::new(400, 50_160, "Voice messages must have a single audio attachment."));
    }
    if voice.duration_secs.is_none() || voice.waveform.as_ref().is_none_or(String::is_empty) {
        return Err(ApiRefusal::new(400, 50_161, "Voice messages must have supporting metadata."));
    }
    Ok(())
}
