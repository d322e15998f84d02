//! References to the files of a message, with recognisable names. Pure.

use satchel_domain::{FileReference, Filename, QuotedFile};
use serde_json::Value;

use super::wire::{FileLocator, MediaFile, MessageContent, PaidMedia};

/// Returns the files of a message in the order in which people see them. `message_id` is the message's id, used in the
/// names of files that have none.
pub(crate) fn file_references(content: &MessageContent, message_id: i64) -> Vec<FileReference> {
    let mut collector = FileCollector { message_id, files: Vec::new() };
    // Telegram repeats an animation as a document for old clients.
    match (&content.animation, &content.document) {
        (Some(animation), _) => collector.push_video("animation", animation),
        (None, Some(document)) => collector.push_named("document", document, "bin"),
        (None, None) => {}
    }
    collector.push_photo(&content.photo);
    if let Some(video) = &content.live_photo {
        collector.push_video("live-photo", video);
    }
    if let Some(video) = &content.video {
        collector.push_video("video", video);
    }
    if let Some(video) = &content.video_note {
        collector.push(format!("video-note-{message_id}.mp4"), video, "video/mp4");
    }
    if let Some(audio) = &content.audio {
        collector.push_audio(audio);
    }
    if let Some(voice) = &content.voice {
        collector.push_voice(voice);
    }
    if let Some(sticker) = &content.sticker {
        let (extension, mime) = match (sticker.is_animated, sticker.is_video) {
            (true, _) => ("tgs", "application/x-tgsticker"),
            (_, true) => ("webm", "video/webm"),
            _ => ("webp", "image/webp"),
        };
        collector.push(format!("sticker-{message_id}.{extension}"), sticker, mime);
    }
    for item in content.paid_media.iter().flat_map(|paid| &paid.paid_media) {
        let PaidMedia { photo, video, live_photo } = item;
        collector.push_photo(photo);
        for video in [video, live_photo].into_iter().flatten() {
            collector.push_video("video", video);
        }
    }
    if let Some(rich) = &content.rich_message {
        collector.push_blocks(&rich.blocks);
    }
    collector.files
}

/// Returns the files of a message that the sender forwards or replies to. A voice note in them is someone else's, so it
/// is treated as a recording and not as the sender's own words.
pub(crate) fn quoted_file_references(content: &MessageContent, message_id: i64) -> Vec<FileReference> {
    let quote =
        |(index, file)| FileReference { voice_note: false, quoted: Some(QuotedFile { shown_in: None, index }), ..file };
    (0..).zip(file_references(content, message_id)).map(quote).collect()
}

struct FileCollector {
    message_id: i64,
    files: Vec<FileReference>,
}

impl FileCollector {
    /// Adds a photo in its largest size.
    fn push_photo(&mut self, sizes: &[MediaFile]) {
        if let Some(largest) = sizes.iter().max_by_key(|size| (size.width.saturating_mul(size.height), size.file_size))
        {
            let name = self.generated_name("photo", "jpg");
            self.push(name, largest, "image/jpeg");
        }
    }

    fn push_video(&mut self, kind: &str, video: &MediaFile) {
        self.push_named(kind, video, "mp4");
    }

    fn push_audio(&mut self, audio: &MediaFile) {
        let title = match (&audio.performer, &audio.title) {
            (Some(performer), Some(title)) => Some(format!("{performer} - {title}")),
            (None, Some(title)) => Some(title.clone()),
            _ => None,
        };
        match title.filter(|_| audio.file_name.is_none()) {
            // A slash in a song's title is not a path separator.
            Some(title) => {
                let name = format!("{}.{}", title.replace(['/', '\\'], "-"), file_extension(audio, "mp3"));
                self.push(name, audio, "audio/mpeg");
            }
            None => self.push_named("audio", audio, "mp3"),
        }
    }

    fn push_voice(&mut self, voice: &MediaFile) {
        let name = self.generated_name("voice", "ogg");
        self.push(name, voice, "audio/ogg");
        if let Some(file) = self.files.last_mut() {
            file.voice_note = true;
        }
    }

    /// Adds a file that may have a name of its own.
    fn push_named(&mut self, kind: &str, file: &MediaFile, default_extension: &str) {
        let generated = self.generated_name(kind, file_extension(file, default_extension));
        let name = file.file_name.clone().filter(|name| !name.trim().is_empty());
        self.push(name.unwrap_or(generated), file, "");
    }

    fn push(&mut self, name: String, file: &MediaFile, default_mime: &str) {
        let locator = serde_json::to_string(&FileLocator { file_id: file.file_id.clone() });
        let mime = file.mime_type.clone().or_else(|| (!default_mime.is_empty()).then(|| default_mime.to_owned()));
        self.files.push(FileReference {
            mime,
            bytes: file.file_size,
            platform_id: file.file_unique_id.clone(),
            ..FileReference::new(locator.expect("a text is JSON"), Filename::from_untrusted(&name))
        });
    }

    /// `photo-12.jpg`, and `photo-12-2.jpg` for a second one.
    fn generated_name(&self, kind: &str, extension: &str) -> String {
        let stem = format!("{kind}-{}", self.message_id);
        let count = self.files.iter().filter(|file| file.filename.as_str().starts_with(&stem)).count();
        let suffix = if count == 0 { String::new() } else { format!("-{}", count + 1) };
        format!("{stem}{suffix}.{extension}")
    }

    /// Adds the files in the blocks of a rich message, at any depth.
    fn push_blocks(&mut self, blocks: &Value) {
        match blocks {
            Value::Array(items) => items.iter().for_each(|item| self.push_blocks(item)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    let file = || serde_json::from_value::<MediaFile>(value.clone()).ok();
                    match name.as_str() {
                        "photo" => self
                            .push_photo(&serde_json::from_value::<Vec<MediaFile>>(value.clone()).unwrap_or_default()),
                        "animation" | "video" => file().iter().for_each(|video| self.push_video(name, video)),
                        "audio" => file().iter().for_each(|audio| self.push_audio(audio)),
                        "voice_note" => file().iter().for_each(|voice| self.push_voice(voice)),
                        _ => self.push_blocks(value),
                    }
                }
            }
            _ => {}
        }
    }
}

/// The extension for the claimed media type, for generated names.
fn file_extension<'a>(file: &MediaFile, fallback: &'a str) -> &'a str {
    match file.mime_type.as_deref().unwrap_or_default() {
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "audio/flac" | "audio/x-flac" => "flac",
        "audio/mp4" | "audio/x-m4a" | "audio/m4a" => "m4a",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "audio/wav" | "audio/x-wav" => "wav",
        "image/gif" => "gif",
        "image/jpeg" => "jpg",
        "image/png" => "png",
        "image/webp" => "webp",
        "text/csv" => "csv",
        "text/plain" => "txt",
        "video/mp4" => "mp4",
        "video/quicktime" => "mov",
        "video/webm" => "webm",
        _ => fallback,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(content: Value) -> Vec<FileReference> {
        file_references(&serde_json::from_value(content).unwrap(), 12)
    }

    fn file(name: Option<&str>, mime: Option<&str>) -> Value {
        json!({ "file_id": "F", "file_unique_id": "u", "file_size": 3000, "file_name": name, "mime_type": mime })
    }

    #[test]
    fn every_kind_has_a_name() {
        let song =
            json!({ "file_id": "F", "duration": 1, "performer": "AC/DC", "title": "T.N.T.", "mime_type": "audio/mp4" });
        let sticker = |animated: bool, video: bool| json!({ "sticker": { "file_id": "F", "type": "regular", "width": 512, "height": 512, "is_animated": animated, "is_video": video } });
        for (content, name, mime) in [
            (
                json!({ "document": file(Some("скан.pdf"), Some("application/pdf")) }),
                "скан.pdf",
                Some("application/pdf"),
            ),
            (json!({ "document": file(Some("../../etc/passwd"), None) }), "passwd", None),
            (
                json!({ "document": file(Some(" "), Some("application/zip")) }),
                "document-12.zip",
                Some("application/zip"),
            ),
            (json!({ "document": file(None, None) }), "document-12.bin", None),
            (json!({ "voice": file(None, Some("audio/ogg")) }), "voice-12.ogg", Some("audio/ogg")),
            (json!({ "audio": song }), "AC-DC - T.N.T..m4a", Some("audio/mp4")),
            (json!({ "audio": file(Some("a.flac"), Some("audio/flac")) }), "a.flac", Some("audio/flac")),
            (json!({ "audio": file(None, None) }), "audio-12.mp3", None),
            (json!({ "video": file(None, Some("video/quicktime")) }), "video-12.mov", Some("video/quicktime")),
            (json!({ "video_note": file(None, None) }), "video-note-12.mp4", Some("video/mp4")),
            (sticker(false, false), "sticker-12.webp", Some("image/webp")),
            (sticker(true, false), "sticker-12.tgs", Some("application/x-tgsticker")),
            (sticker(false, true), "sticker-12.webm", Some("video/webm")),
        ] {
            let files = read(content);
            assert_eq!(files.len(), 1, "{name}");
            assert_eq!((files[0].filename.as_str(), files[0].mime.as_deref()), (name, mime));
            assert_eq!(files[0].voice_note, name.starts_with("voice-"), "{name}");
            assert_eq!(files[0].locator, r#"{"file_id":"F"}"#);
            assert_eq!(files[0].caption, "", "words beneath a file are the message's");
        }
    }

    #[test]
    fn a_photo_comes_in_its_largest_size() {
        let size = |id: &str, width: u64| json!({ "file_id": id, "file_unique_id": id, "width": width, "height": width, "file_size": width * 10 });
        let files = read(json!({ "photo": [size("s", 90), size("l", 1280), size("m", 320)] }));
        assert_eq!(files.len(), 1);
        assert!(files[0].locator.contains("\"l\"") && files[0].bytes == Some(12_800), "{files:?}");
        assert_eq!(files[0].filename.as_str(), "photo-12.jpg");
    }

    #[test]
    fn an_animation_comes_once() {
        let files = read(json!({ "animation": file(Some("cat.mp4"), None), "document": file(Some("cat.mp4"), None) }));
        assert_eq!(files.len(), 1);
    }

    #[test]
    fn several_files_in_one_message_all_come() {
        let photo = json!([{ "file_id": "P", "width": 1, "height": 1 }]);
        let names = |content| read(content).iter().map(|file| file.filename.to_string()).collect::<Vec<_>>();
        let live = json!({ "photo": photo, "live_photo": { "file_id": "L", "width": 1, "height": 1 } });
        assert_eq!(names(live), ["photo-12.jpg", "live-photo-12.mp4"]);
        let paid = json!({ "paid_media": { "star_count": 1, "paid_media": [
            { "type": "photo", "photo": photo }, { "type": "photo", "photo": photo },
            { "type": "preview" }, { "type": "video", "video": { "file_id": "V", "width": 1, "height": 1 } },
        ] } });
        assert_eq!(names(paid), ["photo-12.jpg", "photo-12-2.jpg", "video-12.mp4"]);
        let rich = json!({ "rich_message": { "blocks": [
            { "type": "paragraph", "text": "photo" },
            { "type": "collage", "blocks": [{ "type": "photo", "photo": photo }, { "type": "voice_note", "voice_note": file(None, None) }] },
        ] } });
        assert_eq!(names(rich), ["photo-12.jpg", "voice-12.ogg"]);
    }
}
