//! Detects the type of bytes from their beginning, and reads the header of an image.
//!
//! The bytes decide. A name or a claimed type only chooses among text formats, when the bytes are text, and among the
//! office formats of a container that the bytes prove to be one. So a program called `photo.jpg` is a program.

mod media;
#[cfg(test)]
mod tests;

use std::{
    io::{self, Read, Seek},
    panic::{self, AssertUnwindSafe},
};

use satchel_domain::MediaInfo;
use satchel_ports::BlobHint;

pub use media::{HEADER_BYTES, detect_media};

/// How many bytes of a file's beginning [`detect_mime`] needs.
pub const HEAD_BYTES: u64 = 64 * 1024;

/// The type of unknown content.
pub const UNKNOWN_MIME: &str = "application/octet-stream";

/// Applies [`detect_mime`] and [`detect_media`] to a file. Its position is at its end afterwards.
pub fn detect_content(mut file: impl Read + Seek, hint: &BlobHint) -> io::Result<(String, MediaInfo)> {
    file.rewind()?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    // A header that makes a parser panic costs its information, never the file.
    let mime = panic::catch_unwind(|| detect_mime(&head, hint)).unwrap_or_else(|_| UNKNOWN_MIME.to_owned());
    file.rewind()?;
    let media = panic::catch_unwind(AssertUnwindSafe(|| detect_media(&mime, &mut file))).unwrap_or_default();
    file.seek(io::SeekFrom::End(0))?;
    Ok((mime, media))
}

/// Returns the type of a file that starts with `head`, without parameters, by its canonical name.
///
/// An empty file is of the text type that its name or hint claims, since it is a legal text; otherwise, like
/// everything unknown, `application/octet-stream`.
#[must_use]
pub fn detect_mime(head: &[u8], hint: &BlobHint) -> String {
    if head.is_empty() {
        return claimed_text(hint).unwrap_or(UNKNOWN_MIME).to_owned();
    }
    let sniffed = without_parameters(mimetype_detector::detect(head).mime());
    let detected = match is_text(head) {
        true => text_mime(head, sniffed, hint),
        false => binary_mime(head, sniffed, hint),
    };
    canonical(detected).to_owned()
}

/// Text formats that a signature at their beginning identifies, whatever the file's name.
const SIGNATURE_TEXT_TYPES: [&str; 6] =
    ["application/pdf", "application/postscript", "application/rtf", "text/rtf", "text/vcard", "text/calendar"];

/// Text formats that the bytes suggest; a name that claims another text format takes precedence.
const GUESSED_TEXT_TYPES: [&str; 9] = [
    "text/html",
    "text/xml",
    "application/json",
    "application/x-ndjson",
    "application/geo+json",
    "application/rss+xml",
    "application/atom+xml",
    "application/gpx+xml",
    "text/x-shellscript",
];

fn text_mime<'a>(head: &[u8], sniffed: &'a str, hint: &BlobHint) -> &'a str {
    if SIGNATURE_TEXT_TYPES.contains(&sniffed) {
        return sniffed;
    }
    let claimed = claimed_text(hint);
    // A text format is claimed for text, so the worst case is a picture shown as its source.
    if claimed.is_none() && is_svg(head) {
        return "image/svg+xml";
    }
    match claimed {
        Some(claimed) => claimed,
        None if GUESSED_TEXT_TYPES.contains(&sniffed) => sniffed,
        // Guesses at programming languages are ignored: prose that starts with `use` is not Rust.
        None => "text/plain",
    }
}

fn binary_mime<'a>(head: &[u8], sniffed: &'a str, hint: &BlobHint) -> &'a str {
    match sniffed {
        "application/zip" => infer_zip(head).unwrap_or(sniffed),
        "application/x-ole-storage" => ole_mime(hint),
        // A text type for bytes that aren't UTF-8: an older encoding, with a byte order mark at most.
        UNKNOWN_MIME => infer::get(head).map_or(UNKNOWN_MIME, |kind| kind.mime_type()),
        sniffed => sniffed,
    }
}

/// Detects office documents whose identifying entry isn't among the first ones.
fn infer_zip(head: &[u8]) -> Option<&'static str> {
    if let Some(kind) = infer::get(head).map(|kind| kind.mime_type()).filter(|kind| *kind != "application/zip") {
        return Some(kind);
    }
    let names = head
        .windows(4)
        .enumerate()
        .filter(|(_, window)| window == b"PK\x03\x04")
        .filter_map(|(at, _)| head.get(at + 30..));
    for name in names {
        for (prefix, kind) in [
            ("word/", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ("xl/", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
            ("ppt/", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
        ] {
            if name.starts_with(prefix.as_bytes()) {
                return Some(kind);
            }
        }
    }
    None
}

/// The old office formats share one container, whose directory may stand anywhere in the file: the name chooses.
fn ole_mime(hint: &BlobHint) -> &'static str {
    match extension(hint).as_deref() {
        Some("doc" | "dot") => "application/msword",
        Some("xls" | "xlt") => "application/vnd.ms-excel",
        Some("ppt" | "pps") => "application/vnd.ms-powerpoint",
        Some("msg") => "application/vnd.ms-outlook",
        _ => "application/x-ole-storage",
    }
}

/// Whether the bytes are UTF-8 without control characters that no text has; the last character may be cut off.
fn is_text(head: &[u8]) -> bool {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.bytes().any(|byte| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f))
}

/// Whether the first element is `<svg`, after an optional prolog, comments and document type.
fn is_svg(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut rest = text.trim_start_matches('\u{FEFF}').trim_start();
    loop {
        let end = match rest {
            _ if rest.starts_with("<!--") => "-->",
            _ if rest.starts_with("<?") => "?>",
            _ if rest.starts_with("<!") => ">",
            _ => {
                let after = rest.strip_prefix("<svg").and_then(|after| after.chars().next());
                return after.is_some_and(|c| c.is_whitespace() || c == '>' || c == '/');
            }
        };
        let Some((_, after)) = rest.split_once(end) else { return false };
        rest = after.trim_start();
    }
}

/// The text type that the name claims, or else the hint.
fn claimed_text(hint: &BlobHint) -> Option<&'static str> {
    const BY_EXTENSION: [(&str, &str); 29] = [
        ("txt", "text/plain"),
        ("log", "text/plain"),
        ("md", "text/markdown"),
        ("markdown", "text/markdown"),
        ("csv", "text/csv"),
        ("tsv", "text/tab-separated-values"),
        ("json", "application/json"),
        ("ndjson", "application/x-ndjson"),
        ("jsonl", "application/x-ndjson"),
        ("geojson", "application/geo+json"),
        ("yaml", "application/yaml"),
        ("yml", "application/yaml"),
        ("toml", "application/toml"),
        ("xml", "text/xml"),
        ("html", "text/html"),
        ("htm", "text/html"),
        ("css", "text/css"),
        ("js", "text/javascript"),
        ("mjs", "text/javascript"),
        ("ics", "text/calendar"),
        ("vcf", "text/vcard"),
        ("eml", "message/rfc822"),
        ("srt", "application/x-subrip"),
        ("vtt", "text/vtt"),
        ("gpx", "application/gpx+xml"),
        ("sh", "text/x-shellscript"),
        ("py", "text/x-python"),
        ("rs", "text/x-rust"),
        ("c", "text/x-c"),
    ];
    let by_extension = extension(hint)
        .and_then(|extension| BY_EXTENSION.iter().find(|(known, _)| *known == extension))
        .map(|(_, kind)| *kind);
    let by_hint = || {
        let claimed = hint.mime.as_deref().map(without_parameters)?.to_ascii_lowercase();
        BY_EXTENSION.iter().map(|(_, kind)| *kind).find(|kind| *kind == canonical(&claimed))
    };
    by_extension.or_else(by_hint)
}

fn extension(hint: &BlobHint) -> Option<String> {
    hint.filename.as_ref().and_then(satchel_domain::Filename::extension)
}

fn without_parameters(mime: &str) -> &str {
    mime.split(';').next().unwrap_or_default().trim()
}

/// One name for each type: detectors and platforms know some by several.
fn canonical(mime: &str) -> &str {
    match mime {
        "image/jpg" | "image/pjpeg" => "image/jpeg",
        "image/vnd.mozilla.apng" => "image/apng",
        "image/vnd.microsoft.icon" => "image/x-icon",
        "image/x-ms-bmp" => "image/bmp",
        "audio/opus" | "application/ogg" => "audio/ogg",
        "audio/m4a" | "audio/x-m4a" => "audio/mp4",
        "audio/mp3" | "audio/x-mpeg" => "audio/mpeg",
        "audio/x-flac" => "audio/flac",
        "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "audio/wav",
        "audio/x-aac" => "audio/aac",
        "video/avi" | "video/msvideo" => "video/x-msvideo",
        "application/x-gzip" => "application/gzip",
        "application/x-zip" | "application/x-zip-compressed" => "application/zip",
        "application/x-pdf" => "application/pdf",
        "application/x-empty" => UNKNOWN_MIME,
        "text/rtf" => "application/rtf",
        "text/x-markdown" => "text/markdown",
        "application/xml" => "text/xml",
        "application/x-yaml" | "text/yaml" | "text/x-yaml" => "application/yaml",
        "application/javascript" => "text/javascript",
        mime => mime,
    }
}
