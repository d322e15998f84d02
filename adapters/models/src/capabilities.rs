//! The files that a model accepts, as data: which types, how large, how many. Pure.
//!
//! A file that isn't accepted is not sent; the model gets its name and the reason. The operator overrides the
//! table.

use std::collections::BTreeSet;

use satchel_domain::size;
use satchel_ports::{ModelFile, language_model::InputSupport};

use crate::{
    media_kind::MediaKind,
    refused_files::RefusalReason,
    settings::{ModelProvider, ModelTarget},
};

const MB: u64 = 1_000_000;

/// The longest side of a copy of an image, in pixels. Models scale what is larger down themselves:
/// <https://platform.openai.com/docs/guides/images-vision>.
const COPY_SIDE: u32 = 2_048;

const COMMON_IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/gif"];
const PNG_AND_JPEG: &[&str] = &["image/png", "image/jpeg"];
const GEMINI_IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
const PDF_TYPES: &[&str] = &["application/pdf"];
const GEMINI_AUDIO_TYPES: &[&str] =
    &["audio/ogg", "audio/mpeg", "audio/mp3", "audio/wav", "audio/flac", "audio/aac", "audio/aiff"];
/// The two formats that OpenAI names.
const COMMON_AUDIO_TYPES: &[&str] = &["audio/wav", "audio/mpeg", "audio/mp3"];
const COMMON_VIDEO_TYPES: &[&str] = &["video/mp4", "video/webm", "video/quicktime"];

/// The files that a model accepts. Sizes are those of the files; on the wire they are a third larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelCapabilities {
    pub(crate) images: &'static [&'static str],
    pub(crate) max_image_bytes: u64,
    /// The most images in one request.
    pub(crate) max_images: usize,
    /// The longest side of an image in pixels, where the provider refuses longer ones.
    pub(crate) max_image_side: Option<u32>,
    /// Whether animated images are accepted.
    pub(crate) accepts_animation: bool,
    pub(crate) pdf: &'static [&'static str],
    pub(crate) audio: &'static [&'static str],
    pub(crate) video: &'static [&'static str],
    /// The largest file that is no image.
    pub(crate) max_document_bytes: u64,
    /// The most bytes of files in one request.
    pub(crate) max_request_bytes: u64,
}

/// Accepts no files: each is only named in the text.
const TEXT_ONLY: ModelCapabilities = ModelCapabilities {
    images: &[],
    max_image_bytes: 0,
    max_images: 0,
    max_image_side: None,
    accepts_animation: false,
    pdf: &[],
    audio: &[],
    video: &[],
    max_document_bytes: 0,
    max_request_bytes: 0,
};

/// 50 MB of image bytes and 500 images a request, PNG, JPEG, WebP and GIF that doesn't move:
/// <https://platform.openai.com/docs/guides/images-vision>; PDFs up to 32 MB:
/// <https://platform.openai.com/docs/guides/pdf-files>.
const OPENAI: ModelCapabilities = ModelCapabilities {
    images: COMMON_IMAGE_TYPES,
    max_image_bytes: 20 * MB,
    max_images: 500,
    max_image_side: None,
    accepts_animation: false,
    pdf: PDF_TYPES,
    audio: &[],
    video: &[],
    max_document_bytes: 32 * MB,
    max_request_bytes: 36 * MB,
};

/// 5 MiB an image, counted in base64; 100 images; 8000 pixels, 2000 when there are more than 20; 32 MB a request:
/// <https://platform.claude.com/docs/en/build-with-claude/vision>.
const ANTHROPIC: ModelCapabilities = ModelCapabilities {
    images: COMMON_IMAGE_TYPES,
    max_image_bytes: 5 * 1024 * 1024 / 4 * 3,
    max_images: 20,
    max_image_side: Some(8000),
    accepts_animation: true,
    pdf: PDF_TYPES,
    audio: &[],
    video: &[],
    max_document_bytes: 22 * MB,
    max_request_bytes: 22 * MB,
};

/// 20 MB a request, inline data included: <https://ai.google.dev/gemini-api/docs/image-understanding>; audio:
/// <https://ai.google.dev/gemini-api/docs/audio>.
const GEMINI: ModelCapabilities = ModelCapabilities {
    images: GEMINI_IMAGE_TYPES,
    max_image_bytes: 14 * MB,
    max_images: 3000,
    max_image_side: None,
    accepts_animation: false,
    pdf: PDF_TYPES,
    audio: GEMINI_AUDIO_TYPES,
    video: &[],
    max_document_bytes: 14 * MB,
    max_request_bytes: 14 * MB,
};

/// The user's own server with a vision model. llama.cpp decodes PNG and JPEG on every platform.
const LOCAL_VISION: ModelCapabilities = ModelCapabilities {
    images: PNG_AND_JPEG,
    max_image_bytes: 20 * MB,
    max_images: 16,
    max_image_side: None,
    accepts_animation: false,
    pdf: &[],
    audio: &[],
    video: &[],
    max_document_bytes: 0,
    max_request_bytes: 40 * MB,
};

/// Which servers a row applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerScope {
    Vendor,
    Custom,
    Any,
}

struct CapabilityRow {
    providers: &'static [ModelProvider],
    server: ServerScope,
    /// The row applies if the model's name, in lower case, contains one of these; one with `=` must equal the name.
    names: &'static [&'static str],
    capabilities: ModelCapabilities,
}

const ANY_MODEL: &[&str] = &[""];
const OPENAI_PROVIDERS: &[ModelProvider] = &[ModelProvider::OpenAi, ModelProvider::OpenAiResponses];
const OPENAI_WITHOUT_PDF: ModelCapabilities = ModelCapabilities { pdf: &[], max_document_bytes: 0, ..OPENAI };

/// The families of open vision models, by the names under which Ollama and other servers list them.
const OPEN_WEIGHT_VISION_MODELS: &[&str] = &[
    "llava",
    "vision",
    "-vl",
    "vl:",
    "2.5vl",
    "pixtral",
    "moondream",
    "minicpm-v",
    "gemma3",
    "gemma-3",
    "gemma4",
    "gemma-4",
    "llama4",
    "llama-4",
    "mistral-small3",
    "mistral-small-3",
    "internvl",
    "smolvlm",
    "qwen3.5",
    "omni",
];

/// The models of the large providers, as gateways to them list them.
const GATEWAY_VISION_MODELS: &[&str] = &["gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "claude", "gemini"];

/// The first matching row applies.
const TABLE: &[CapabilityRow] = &[
    CapabilityRow {
        providers: OPENAI_PROVIDERS,
        server: ServerScope::Vendor,
        names: &["gpt-3.5", "=gpt-4", "gpt-4-0", "gpt-4-1", "o1-mini", "o1-preview", "o3-mini", "gpt-oss"],
        capabilities: TEXT_ONLY,
    },
    CapabilityRow {
        providers: OPENAI_PROVIDERS,
        server: ServerScope::Vendor,
        names: &["gpt-4-turbo"],
        capabilities: OPENAI_WITHOUT_PDF,
    },
    CapabilityRow { providers: OPENAI_PROVIDERS, server: ServerScope::Vendor, names: ANY_MODEL, capabilities: OPENAI },
    // Gemma 3 has small variants without vision.
    CapabilityRow {
        providers: &[ModelProvider::OpenAi, ModelProvider::OpenAiResponses, ModelProvider::Ollama],
        server: ServerScope::Any,
        names: &["gemma3:1b", "gemma3:270m", "gemma-3-1b", "gemma-3-270m"],
        capabilities: TEXT_ONLY,
    },
    CapabilityRow {
        providers: OPENAI_PROVIDERS,
        server: ServerScope::Custom,
        names: GATEWAY_VISION_MODELS,
        capabilities: OPENAI,
    },
    CapabilityRow {
        providers: OPENAI_PROVIDERS,
        server: ServerScope::Custom,
        names: OPEN_WEIGHT_VISION_MODELS,
        capabilities: LOCAL_VISION,
    },
    CapabilityRow {
        providers: &[ModelProvider::Ollama],
        server: ServerScope::Any,
        names: OPEN_WEIGHT_VISION_MODELS,
        capabilities: LOCAL_VISION,
    },
    CapabilityRow {
        providers: &[ModelProvider::Anthropic],
        server: ServerScope::Any,
        names: &["claude-2", "instant"],
        capabilities: TEXT_ONLY,
    },
    CapabilityRow {
        providers: &[ModelProvider::Anthropic],
        server: ServerScope::Any,
        names: &["claude-3-haiku", "claude-3-opus", "claude-3-sonnet"],
        capabilities: ModelCapabilities { pdf: &[], max_document_bytes: 0, ..ANTHROPIC },
    },
    CapabilityRow {
        providers: &[ModelProvider::Anthropic],
        server: ServerScope::Any,
        names: ANY_MODEL,
        capabilities: ANTHROPIC,
    },
    CapabilityRow {
        providers: &[ModelProvider::Gemini],
        server: ServerScope::Any,
        names: &["gemma"],
        capabilities: ModelCapabilities { pdf: &[], audio: &[], max_document_bytes: 0, ..GEMINI },
    },
    CapabilityRow {
        providers: &[ModelProvider::Gemini],
        server: ServerScope::Any,
        names: ANY_MODEL,
        capabilities: GEMINI,
    },
];

/// What the operator can enable for a model: everything that a request to it can contain.
fn wire_capabilities(target: &ModelTarget) -> ModelCapabilities {
    match (target.provider, target.is_custom_server) {
        (ModelProvider::OpenAi, false) => {
            ModelCapabilities { audio: COMMON_AUDIO_TYPES, video: COMMON_VIDEO_TYPES, ..OPENAI }
        }
        (ModelProvider::OpenAiResponses, false) => OPENAI,
        (ModelProvider::OpenAi, true) => ModelCapabilities {
            pdf: PDF_TYPES,
            audio: COMMON_AUDIO_TYPES,
            video: COMMON_VIDEO_TYPES,
            max_document_bytes: OPENAI.max_document_bytes,
            ..LOCAL_VISION
        },
        (ModelProvider::OpenAiResponses, true) => {
            ModelCapabilities { pdf: PDF_TYPES, max_document_bytes: OPENAI.max_document_bytes, ..LOCAL_VISION }
        }
        (ModelProvider::Anthropic, _) => ANTHROPIC,
        (ModelProvider::Gemini, _) => ModelCapabilities { video: COMMON_VIDEO_TYPES, ..GEMINI },
        (ModelProvider::Ollama, _) => LOCAL_VISION,
    }
}

/// Returns the files that a model accepts.
pub(crate) fn capabilities_for(target: &ModelTarget) -> ModelCapabilities {
    let listed = table_capabilities(target);
    let Some(accepts) = &target.accepts else { return listed };
    let supported = wire_capabilities(target);
    // The table's types and limits apply only where it lists such files for the model at all.
    let types = |kind: MediaKind, listed: &'static [&'static str], supported: &'static [&'static str]| match kind {
        kind if !accepts.contains(&kind) => &[],
        _ if listed.is_empty() => supported,
        _ => listed,
    };
    ModelCapabilities {
        images: types(MediaKind::Image, listed.images, supported.images),
        pdf: types(MediaKind::Pdf, listed.pdf, supported.pdf),
        audio: types(MediaKind::Audio, listed.audio, supported.audio),
        video: types(MediaKind::Video, listed.video, supported.video),
        max_document_bytes: listed.max_document_bytes.max(supported.max_document_bytes),
        ..if listed.images.is_empty() { supported } else { listed }
    }
}

/// Looks a model up in the table.
fn table_capabilities(target: &ModelTarget) -> ModelCapabilities {
    let model = target.model.to_lowercase();
    let is_match = |row: &&CapabilityRow| {
        let server_matches = match row.server {
            ServerScope::Vendor => !target.is_custom_server,
            ServerScope::Custom => target.is_custom_server,
            ServerScope::Any => true,
        };
        let name_matches = |name: &&str| match name.strip_prefix('=') {
            Some(exact) => model == exact,
            None => model.contains(*name),
        };
        server_matches && row.providers.contains(&target.provider) && row.names.iter().any(name_matches)
    };
    TABLE.iter().find(is_match).map_or(TEXT_ONLY, |row| row.capabilities)
}

/// The files in a request so far.
#[derive(Debug, Default)]
pub(crate) struct RequestFileBudget {
    images: usize,
    bytes: u64,
}

/// How large an image may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageLimits {
    /// The longest side, in pixels.
    pub(crate) max_side: u32,
    pub(crate) max_bytes: u64,
}

/// The files that one model accepts, and the setting that changes it.
#[derive(Debug, Clone)]
pub(crate) struct FileRules {
    model: String,
    /// The server's name for people.
    provider_name: &'static str,
    provider: ModelProvider,
    /// Whether the provider itself answers, and not a server with its API.
    is_vendor: bool,
    capabilities: ModelCapabilities,
}

impl FileRules {
    pub(crate) fn new(target: &ModelTarget) -> Self {
        Self {
            model: target.name.clone(),
            provider_name: target.display_name(),
            provider: target.provider,
            is_vendor: !target.is_custom_server,
            capabilities: capabilities_for(target),
        }
    }

    /// Adds a file to a request, or returns the reason why it can't be sent.
    pub(crate) fn admit_file(&self, used: &mut RequestFileBudget, file: &ModelFile) -> Result<(), String> {
        let abilities = &self.capabilities;
        let kind = MediaKind::from_mime(&file.mime).filter(|kind| abilities.types(*kind).contains(&file.mime.as_str()));
        let Some(kind) = kind else { return Err(self.refusal(file)) };
        let is_image = kind == MediaKind::Image;
        let limit = if is_image { abilities.max_image_bytes } else { abilities.max_document_bytes };
        if file.bytes == 0 {
            return Err("it is empty".to_owned());
        }
        if file.bytes > limit {
            return Err(format!(
                "it is {}, this model accepts up to {}",
                size::format_bytes(file.bytes),
                size::format_bytes(limit)
            ));
        }
        let side = file.media.width.max(file.media.height).unwrap_or(0);
        if let Some(max_side) = abilities.max_image_side.filter(|max_side| is_image && side > *max_side) {
            return Err(format!("it is {side} pixels long, this model accepts up to {max_side}"));
        }
        if is_image && file.media.animated && !abilities.accepts_animation {
            return Err("this model accepts no animated images".to_owned());
        }
        if is_image && used.images >= abilities.max_images {
            return Err(format!("this model accepts up to {} images at once", abilities.max_images));
        }
        if used.bytes + file.bytes > abilities.max_request_bytes {
            return Err(format!(
                "this model accepts up to {} of files at once",
                size::format_bytes(abilities.max_request_bytes)
            ));
        }
        used.images += usize::from(is_image);
        used.bytes += file.bytes;
        Ok(())
    }

    /// How large a copy of an image has to be, where the model takes images but not this one; `None` where it takes it, or
    /// no copy would help.
    pub(crate) fn copy_limits(&self, file: &ModelFile) -> Option<ImageLimits> {
        let abilities = &self.capabilities;
        let is_picture = file.kind() == "image" && file.mime != "image/svg+xml" && file.bytes > 0;
        if !is_picture || abilities.images.is_empty() {
            return None;
        }
        let side = file.media.width.max(file.media.height).unwrap_or(0);
        let is_taken = abilities.images.contains(&file.mime.as_str())
            && file.bytes <= abilities.max_image_bytes
            && abilities.max_image_side.is_none_or(|max_side| side <= max_side)
            && (abilities.accepts_animation || !file.media.animated);
        let max_side = abilities.max_image_side.unwrap_or(COPY_SIDE).min(COPY_SIDE);
        (!is_taken).then_some(ImageLimits { max_side, max_bytes: abilities.max_image_bytes })
    }

    /// The most images in one request.
    pub(crate) fn max_images(&self) -> usize {
        self.capabilities.max_images
    }

    /// What the model takes besides text.
    pub(crate) fn input_support(&self) -> InputSupport {
        let types = MediaKind::ALL.iter().flat_map(|kind| self.capabilities.types(*kind));
        let types: BTreeSet<String> = types.map(|mime| (*mime).to_owned()).collect();
        InputSupport {
            // A server of the operator's own would fetch what others name from within the operator's network.
            image_urls: self.is_vendor && self.provider.fetches_images() && !self.capabilities.images.is_empty(),
            max_document_bytes: self.capabilities.max_document_bytes,
            partial_types: types.clone(),
            types,
            document_text: true,
        }
    }

    /// Adds the address of an image to a request, or returns the reason why it can't be sent.
    pub(crate) fn admit_image_url(&self, used: &mut RequestFileBudget) -> Result<(), String> {
        let abilities = &self.capabilities;
        if abilities.images.is_empty() {
            return Err(format!("this model accepts {}", abilities.describe_types()));
        }
        if !self.provider.fetches_images() {
            return Err("this model's provider fetches no addresses".to_owned());
        }
        if used.images >= abilities.max_images {
            return Err(format!("this model accepts up to {} images at once", abilities.max_images));
        }
        used.images += 1;
        Ok(())
    }

    /// Explains that the provider has refused a request for a file, or for one of several. Whether the file or the model is
    /// the cause is unknown: a provider says neither in a common form.
    pub(crate) fn refused_reason(&self, kind: MediaKind, reason: RefusalReason) -> String {
        let (provider, files) = (self.provider_name, kind.plural_name());
        match reason {
            RefusalReason::File => {
                format!("{provider} refused it; it may be damaged, or this model may not accept {files}")
            }
            RefusalReason::MessageFiles => format!(
                "{provider} refused the {files} of this message; one file may be damaged, or this model may not accept {files}"
            ),
            RefusalReason::RequestFiles => {
                format!("{provider} refused the request for its {files}, and the file at fault is unknown")
            }
        }
    }

    /// Lists the accepted types, and the setting that adds the refused kind where one does.
    fn refusal(&self, file: &ModelFile) -> String {
        let accepted = format!("this model accepts {}", self.capabilities.describe_types());
        let is_addable =
            |kind: &MediaKind| self.provider.file_kinds().contains(kind) && self.capabilities.types(*kind).is_empty();
        match MediaKind::from_mime(&file.mime).filter(is_addable) {
            Some(kind) => format!(
                "{accepted}; if it does accept {}, the person who runs this bot can set `models.{}.accepts`",
                kind.plural_name(),
                self.model
            ),
            None => accepted,
        }
    }
}

impl ModelCapabilities {
    /// The accepted types of a kind.
    fn types(&self, kind: MediaKind) -> &'static [&'static str] {
        match kind {
            MediaKind::Image => self.images,
            MediaKind::Pdf => self.pdf,
            MediaKind::Audio => self.audio,
            MediaKind::Video => self.video,
        }
    }

    /// Describes the accepted types.
    fn describe_types(&self) -> String {
        let types: Vec<String> = MediaKind::ALL
            .iter()
            .flat_map(|kind| self.types(*kind))
            .map(|mime| mime.rsplit('/').next().unwrap_or_default().to_uppercase())
            .collect();
        match types.as_slice() {
            [] => "no files, only text".to_owned(),
            types => format!("only {}", types.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests;
