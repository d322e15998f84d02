//! How files come in and how long they are kept: `attachments`.

use std::time::Duration;

use satchel_http::Allowed;
use satchel_ports::ledger::usage::Quotas;

use super::reader::Reader;

/// How files come in and how long they are kept.
#[derive(Debug, Clone)]
pub struct AttachmentSettings {
    /// The largest file that a declared URL may lead to.
    pub max_download_size_bytes: u64,
    /// How long a fetch from the web may take, besides the time that its bytes need on a slow line.
    pub download_timeout: Duration,
    /// How many redirects it follows.
    pub max_redirects: u32,
    /// What may be fetched from although it isn't the public internet.
    pub allow_hosts: Vec<Allowed>,
    /// Which detected types each kind of declared attachment may have.
    pub allowed_mime_types: AllowedMimeTypes,
    /// The room for temporary files.
    pub temp_dir_quota_bytes: u64,
    /// The largest file that is taken from a person; the platform's own limit comes first.
    pub max_inbound_file_bytes: u64,
    /// How many files are taken with one turn.
    pub max_inbound_files_per_turn: u32,
    /// How many bytes a conversation and a person may keep.
    pub quotas: Quotas,
    /// How long a conversation's files are kept.
    pub retention: Retention,
}

/// Which detected types each kind may have; `image/*` stands for all of them.
#[derive(Debug, Clone)]
pub struct AllowedMimeTypes {
    /// Images.
    pub image: Vec<String>,
    /// Sound.
    pub audio: Vec<String>,
    /// Films.
    pub video: Vec<String>,
    /// Documents.
    pub pdf: Vec<String>,
    /// Anything else.
    pub file: Vec<String>,
}

/// How much a conversation keeps; whichever is reached first, and what isn't set is never reached.
#[derive(Debug, Clone, Copy, Default)]
pub struct Retention {
    /// This many files.
    pub items: Option<u32>,
    /// This many bytes.
    pub bytes: Option<u64>,
    /// This many days.
    pub days: Option<u32>,
}

impl Retention {
    /// Whether everything is kept.
    #[must_use]
    pub fn is_off(&self) -> bool {
        matches!(self, Self { items: None, bytes: None, days: None })
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> AttachmentSettings {
    AttachmentSettings {
        max_download_size_bytes: reader.size("attachments.max_download_size_bytes", 10_000_000),
        download_timeout: reader.duration("attachments.download_timeout", Duration::from_secs(30)),
        max_redirects: reader.count("attachments.max_redirects", 3, 0..=20),
        allow_hosts: allowed(reader, "attachments.allow_hosts"),
        allowed_mime_types: AllowedMimeTypes {
            image: mime_types(reader, "image", "image/*"),
            audio: mime_types(reader, "audio", "audio/*"),
            video: mime_types(reader, "video", "video/*"),
            pdf: mime_types(reader, "pdf", "application/pdf"),
            file: mime_types(reader, "file", "*/*"),
        },
        temp_dir_quota_bytes: reader.size("attachments.temp_dir_quota_bytes", 2 << 30),
        max_inbound_file_bytes: reader.size("attachments.max_inbound_file_bytes", 2 << 30),
        max_inbound_files_per_turn: reader.count("attachments.max_inbound_files_per_turn", 20, 1..=1_000),
        quotas: Quotas {
            conversation: reader.size("attachments.quota.conversation", 10 << 30),
            person: reader.size("attachments.quota.person", 20 << 30),
        },
        retention: Retention {
            items: reader.optional_count("attachments.retention.items", 1..=u32::MAX),
            bytes: reader.optional_size("attachments.retention.bytes"),
            days: reader.optional_count("attachments.retention.days", 1..=36_500),
        },
    }
}

fn allowed(reader: &mut Reader<'_>, key: &str) -> Vec<Allowed> {
    let read: Vec<Result<Allowed, _>> = reader.texts(key, &[]).iter().map(|text| text.parse()).collect();
    let mut allowed = Vec::new();
    for read in read {
        match read {
            Ok(host) => allowed.push(host),
            Err(error) => reader.wrong(key, format!("`{key}`: {error}")),
        }
    }
    allowed
}

fn mime_types(reader: &mut Reader<'_>, kind: &str, default: &str) -> Vec<String> {
    let key = format!("attachments.allowed_mime_types.{kind}");
    let types = reader.texts(&key, &[default]);
    let well_formed = |mime: &String| {
        mime.split_once('/').is_some_and(|(kind, subtype)| {
            !kind.is_empty() && !subtype.is_empty() && !subtype.contains('/') && !mime.contains(char::is_whitespace)
        })
    };
    if let Some(wrong) = types.iter().find(|mime| !well_formed(mime)) {
        reader.wrong(&key, format!("`{key}` holds {wrong:?}: types look like image/png or image/*"));
    }
    types
}
