//! Files that a bot sends: found in the request or among those that are known, and checked as their form demands.

use imagesize::blob_size;
use satchel_fake_kit::{FakeFile, ReceivedUpload};

use crate::{
    TelegramRules,
    call::ReceivedCall,
    message::{FileKind, TelegramFile},
    platform_state::PlatformState,
    refusal::{ApiRefusal, bad},
};

/// Finds the file that a word of a request means: an upload of the same request, or a `file_id`.
///
/// Bot API, Sending files: "attach://<file_attach_name>", or "pass the file_id as a String"; a file that is sent by
/// its id again keeps its kind: "It is not possible to change the file type when resending by file_id."
pub(crate) fn find(
    platform: &mut PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
    field: &str,
    kind: FileKind,
) -> Result<TelegramFile, ApiRefusal> {
    if call.uploaded_bytes() > rules.upload_bytes {
        // Bot API, Sending files: "50 MB for other files"; the server's front answers with these words.
        return Err(ApiRefusal::new(413, "Request Entity Too Large"));
    }
    let named = call.text(field);
    let attached = named.as_deref().and_then(|named| named.strip_prefix("attach://"));
    if let Some(upload) = call.uploads.get(attached.unwrap_or(field)) {
        let file = uploaded(rules, upload, kind)?;
        return Ok(platform.keep_file(file));
    }
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        return Err(bad(format!("there is no {} in the request", field.replace('_', " "))));
    };
    if named.starts_with("http://") || named.starts_with("https://") {
        // The server would fetch it; the fake reaches nobody.
        return Err(bad("failed to get HTTP URL content"));
    }
    let known = platform.files.get(&named).ok_or_else(|| bad("wrong file identifier/HTTP URL specified"))?;
    if known.kind != kind && !(kind == FileKind::Document || known.kind == FileKind::Document) {
        return Err(bad(format!("can't use file of type {} as {}", title(known.kind), title(kind))));
    }
    Ok(known.clone())
}

/// The kinds as the server's refusals name them.
fn title(kind: FileKind) -> String {
    let field = kind.field().replace('_', " ");
    let (first, rest) = field.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

fn uploaded(rules: &TelegramRules, upload: &ReceivedUpload, wanted: FileKind) -> Result<TelegramFile, ApiRefusal> {
    if upload.bytes == 0 {
        return Err(bad("file must be non-empty"));
    }
    let sides = match wanted {
        FileKind::Photo => photo_sides(rules, upload)?,
        FileKind::Video | FileKind::Animation | FileKind::VideoNote => (640, 640),
        _ => (0, 0),
    };
    let kind = shown_as(wanted, &upload.head);
    let mime = match kind {
        FileKind::Photo => "image/jpeg".to_owned(),
        FileKind::Voice => "audio/ogg".to_owned(),
        _ => upload.mime.clone(),
    };
    Ok(TelegramFile {
        file_id: String::new(),
        file_unique_id: String::new(),
        kind,
        filename: upload.filename.clone(),
        content: upload.content.clone().map(|content| FakeFile::from_bytes(&upload.filename, &mime, content)),
        mime,
        bytes: upload.bytes,
        sha256: upload.sha256,
        sides,
        duration: 0,
    })
}

/// Bot API, sendPhoto: "The photo must be at most 10 MB in size. The photo's width and height must not exceed 10000 in
/// total. Width and height ratio must be at most 20."
fn photo_sides(rules: &TelegramRules, upload: &ReceivedUpload) -> Result<(u32, u32), ApiRefusal> {
    if upload.bytes > rules.photo_bytes {
        let (bytes, most) = (upload.bytes, rules.photo_bytes);
        return Err(bad(format!(
            "file of size {bytes} bytes is too big for a photo; the maximum size is {most} bytes"
        )));
    }
    if imagesize::image_type(&upload.head).is_err() {
        return Err(bad("PHOTO_SAVE_FILE_INVALID"));
    }
    let size = blob_size(&upload.head).map_err(|_| bad("IMAGE_PROCESS_FAILED"))?;
    let (width, height) = (size.width as u64, size.height as u64);
    let (long, short) = (width.max(height), width.min(height));
    if short == 0 || width + height > rules.photo_side_sum || long > short * rules.photo_ratio {
        return Err(bad("PHOTO_INVALID_DIMENSIONS"));
    }
    let side = |side: u64| u32::try_from(side).expect("the sum of the sides is small");
    Ok((side(width), side(height)))
}

/// The form in which a file is shown, which need not be the one that was asked for.
///
/// Bot API, sendVoice: OGG with OPUS, MP3 or M4A, "other formats may be sent as Audio or Document"; sendAudio: MP3 or
/// M4A, sendVideo: MPEG4, "other formats may be sent as Document"; sendAnimation: "GIF or H.264/MPEG-4 AVC video
/// without sound".
fn shown_as(wanted: FileKind, head: &[u8]) -> FileKind {
    let ogg = head.starts_with(b"OggS");
    let mp4 = head.get(4..8) == Some(b"ftyp");
    let mp3 = head.starts_with(b"ID3")
        || (head.first() == Some(&0xff) && head.get(1).is_some_and(|byte| byte & 0xe0 == 0xe0));
    let music = mp3 || mp4 || ogg || head.starts_with(b"fLaC") || head.starts_with(b"RIFF");
    match wanted {
        FileKind::Voice if ogg || mp3 || mp4 => FileKind::Voice,
        FileKind::Voice | FileKind::Audio if music => FileKind::Audio,
        FileKind::Video | FileKind::VideoNote if mp4 => wanted,
        FileKind::Animation if mp4 || head.starts_with(b"GIF8") => wanted,
        FileKind::Photo | FileKind::Document | FileKind::Sticker => wanted,
        _ => FileKind::Document,
    }
}
