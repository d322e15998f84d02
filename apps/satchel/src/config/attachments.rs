//! How files come in and how long they are kept: `attachments`.

use std::time::Duration;

use satchel_attachments::resolve::{AllowedTypes, ResolutionPolicy};
use satchel_http::AllowedTarget;
use satchel_ports::ledger::Quotas;
use satchel_runtime::retention::RetentionLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    leaf::{
        amount::{ConfigDuration, Count, Size},
        list::Texts,
    },
    resolver::Resolver,
};

/// How files come in and how long they are kept.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttachmentsConfig {
    /// The largest file behind the URL of a declared attachment.
    pub max_download_size_bytes: Size,
    /// How long a fetch from the web may take, in addition to a second for every 65 KB. A server that sends nothing for
    /// 15 s is given up.
    pub download_timeout: ConfigDuration,
    /// The most redirects that such a fetch follows.
    pub max_redirects: Count<0, 20>,
    /// Hosts and ranges of addresses that may be fetched from although they aren't on the public internet, such as
    /// files.lan, files.lan:8080 or 10.0.0.0/8.
    allow_hosts: Texts,
    pub allowed_mime_types: AllowedMimeTypes,
    /// The most bytes of temporary files for declared attachments.
    pub temp_dir_quota_bytes: Size,
    /// The largest file that is accepted from a person or downloaded for them; the platform's own limit comes first.
    pub max_inbound_file_bytes: Size,
    /// The most files that are accepted with one message.
    pub max_inbound_files_per_turn: Count<1, 1_000>,
    quota: QuotaConfig,
    pub retention: RetentionConfig,
}

/// The detected types that each kind of declared attachment may have; `image/*` stands for all images.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AllowedMimeTypes {
    /// The types of declared images.
    pub image: Texts,
    /// The types of declared audio.
    pub audio: Texts,
    /// The types of declared videos.
    pub video: Texts,
    /// The types of declared PDF documents.
    pub pdf: Texts,
    /// The types of any other declared file.
    pub file: Texts,
}

/// How much may be kept. Owners are limited by the disk alone.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct QuotaConfig {
    /// The most bytes that one conversation keeps, its workspace included.
    conversation: Size,
    /// The most bytes that one person keeps, over all of their conversations.
    person: Size,
}

/// How much a conversation keeps, whichever limit is reached first; the oldest files are deleted once a day. Off unless
/// it is set.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RetentionConfig {
    /// The most files that a conversation keeps; the oldest are removed first.
    pub items: Option<Count<1, { u32::MAX }>>,
    /// The most bytes that the files of a conversation have; the oldest are removed first.
    pub bytes: Option<Size>,
    /// The age in days at which a file is removed.
    pub days: Option<Count<1, 36_500>>,
}

impl Default for AttachmentsConfig {
    fn default() -> Self {
        Self {
            max_download_size_bytes: Size(10_000_000),
            download_timeout: ConfigDuration(Duration::from_secs(30)),
            max_redirects: Count(3),
            allow_hosts: Texts::default(),
            allowed_mime_types: AllowedMimeTypes::default(),
            temp_dir_quota_bytes: Size(2 << 30),
            max_inbound_file_bytes: Size(2 << 30),
            max_inbound_files_per_turn: Count(20),
            quota: QuotaConfig::default(),
            retention: RetentionConfig::default(),
        }
    }
}

impl Default for AllowedMimeTypes {
    fn default() -> Self {
        Self {
            image: Texts::from_strs(&["image/*"]),
            audio: Texts::from_strs(&["audio/*"]),
            video: Texts::from_strs(&["video/*"]),
            pdf: Texts::from_strs(&["application/pdf"]),
            file: Texts::from_strs(&["*/*"]),
        }
    }
}

impl Default for QuotaConfig {
    fn default() -> Self {
        Self { conversation: Size(10 << 30), person: Size(20 << 30) }
    }
}

impl RetentionConfig {
    #[must_use]
    pub fn limits(&self) -> RetentionLimits {
        let Self { items, bytes, days } = self;
        RetentionLimits {
            items: items.map(|items| items.0),
            bytes: bytes.map(|bytes| bytes.0),
            days: days.map(|days| days.0),
        }
    }
}

impl AttachmentsConfig {
    /// The targets outside the public internet that may be fetched from.
    pub fn allow_hosts(&self) -> impl Iterator<Item = AllowedTarget> {
        self.allow_hosts.0.iter().filter_map(|given| given.parse().ok())
    }

    /// How many bytes a conversation and a person may keep.
    #[must_use]
    pub fn quotas(&self) -> Quotas {
        Quotas { conversation: self.quota.conversation.0, person: self.quota.person.0 }
    }

    /// What declared attachments may be resolved to.
    #[must_use]
    pub fn resolution_policy(&self) -> ResolutionPolicy {
        let AllowedMimeTypes { image, audio, video, pdf, file } = self.allowed_mime_types.clone();
        ResolutionPolicy {
            max_download_bytes: self.max_download_size_bytes.0,
            allowed_types: AllowedTypes { image: image.0, pdf: pdf.0, audio: audio.0, video: video.0, file: file.0 },
        }
    }

    /// Checks that hosts and types are well formed.
    pub(super) fn resolve(&self, resolver: &mut Resolver<'_>) {
        for given in &self.allow_hosts.0 {
            if let Err(error) = given.parse::<AllowedTarget>() {
                resolver.report("attachments.allow_hosts", format!("`attachments.allow_hosts`: {error}"));
            }
        }
        let AllowedMimeTypes { image, audio, video, pdf, file } = &self.allowed_mime_types;
        for (kind, types) in [("image", image), ("audio", audio), ("video", video), ("pdf", pdf), ("file", file)] {
            if let Some(invalid) = types.0.iter().find(|mime| !is_mime_type(mime)) {
                let key = format!("attachments.allowed_mime_types.{kind}");
                resolver.report(&key, format!("`{key}` holds {invalid:?}: types look like image/png or image/*"));
            }
        }
    }
}

fn is_mime_type(mime: &str) -> bool {
    mime.split_once('/').is_some_and(|(kind, subtype)| {
        !kind.is_empty() && !subtype.is_empty() && !subtype.contains('/') && !mime.contains(char::is_whitespace)
    })
}
