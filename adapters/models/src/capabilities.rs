//! What a model can be shown, as data: which types, how large, how many. Pure.
//!
//! What isn't allowed is not sent but named to the model in words, with the reason. What is allowed says the table, or
//! the operator instead of it.

use satchel_domain::{Attachment, size};

use crate::{
    media_kind::MediaKind,
    settings::{ModelProvider, ModelTarget},
};

const MB: u64 = 1_000_000;

const USUAL_IMAGES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/gif"];
const PLAIN_IMAGES: &[&str] = &["image/png", "image/jpeg"];
const GEMINI_IMAGES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
const PDF: &[&str] = &["application/pdf"];
const GEMINI_AUDIO: &[&str] =
    &["audio/ogg", "audio/mpeg", "audio/mp3", "audio/wav", "audio/flac", "audio/aac", "audio/aiff"];
/// The two formats that OpenAI names.
const USUAL_AUDIO: &[&str] = &["audio/wav", "audio/mpeg", "audio/mp3"];
const USUAL_VIDEO: &[&str] = &["video/mp4", "video/webm", "video/quicktime"];

/// What a model can be shown. Sizes are those of the files; on the wire they are a third larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelCapabilities {
    pub(crate) images: &'static [&'static str],
    pub(crate) image_bytes: u64,
    /// The most images in one request.
    pub(crate) most_images: usize,
    /// The longest side of an image in pixels, where the provider refuses longer ones.
    pub(crate) longest_side: Option<u32>,
    /// Whether a moving image is taken.
    pub(crate) moving: bool,
    pub(crate) pdf: &'static [&'static str],
    pub(crate) audio: &'static [&'static str],
    pub(crate) video: &'static [&'static str],
    /// The largest file that is no image.
    pub(crate) document_bytes: u64,
    /// The most bytes of files in one request.
    pub(crate) request_bytes: u64,
}

/// Sees nothing: every file is told in words.
const TEXT_ONLY: ModelCapabilities = ModelCapabilities {
    images: &[],
    image_bytes: 0,
    most_images: 0,
    longest_side: None,
    moving: false,
    pdf: &[],
    audio: &[],
    video: &[],
    document_bytes: 0,
    request_bytes: 0,
};

/// 50 MB of image bytes and 500 images a request, PNG, JPEG, WebP and GIF that doesn't move:
/// <https://platform.openai.com/docs/guides/images-vision>; PDFs up to 32 MB:
/// <https://platform.openai.com/docs/guides/pdf-files>.
const OPENAI: ModelCapabilities = ModelCapabilities {
    images: USUAL_IMAGES,
    image_bytes: 20 * MB,
    most_images: 500,
    longest_side: None,
    moving: false,
    pdf: PDF,
    audio: &[],
    video: &[],
    document_bytes: 32 * MB,
    request_bytes: 36 * MB,
};

/// 5 MiB an image, counted in base64; 100 images; 8000 pixels, 2000 when there are more than 20; 32 MB a request:
/// <https://platform.claude.com/docs/en/build-with-claude/vision>.
const ANTHROPIC: ModelCapabilities = ModelCapabilities {
    images: USUAL_IMAGES,
    image_bytes: 5 * 1024 * 1024 / 4 * 3,
    most_images: 20,
    longest_side: Some(8000),
    moving: true,
    pdf: PDF,
    audio: &[],
    video: &[],
    document_bytes: 22 * MB,
    request_bytes: 22 * MB,
};

/// 20 MB a request, inline data included: <https://ai.google.dev/gemini-api/docs/image-understanding>; audio:
/// <https://ai.google.dev/gemini-api/docs/audio>.
const GEMINI: ModelCapabilities = ModelCapabilities {
    images: GEMINI_IMAGES,
    image_bytes: 14 * MB,
    most_images: 3000,
    longest_side: None,
    moving: false,
    pdf: PDF,
    audio: GEMINI_AUDIO,
    video: &[],
    document_bytes: 14 * MB,
    request_bytes: 14 * MB,
};

/// A server of one's own with a model that sees. What llama.cpp decodes everywhere is PNG and JPEG.
const LOCAL_VISION: ModelCapabilities = ModelCapabilities {
    images: PLAIN_IMAGES,
    image_bytes: 20 * MB,
    most_images: 16,
    longest_side: None,
    moving: false,
    pdf: &[],
    audio: &[],
    video: &[],
    document_bytes: 0,
    request_bytes: 40 * MB,
};

/// Whose server a row speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerScope {
    Vendor,
    Custom,
    Any,
}

struct CapabilityRow {
    providers: &'static [ModelProvider],
    server: ServerScope,
    /// The row is meant if the model's name, in lower case, holds one of these; one with `=` is the whole name.
    names: &'static [&'static str],
    abilities: ModelCapabilities,
}

const EVERY: &[&str] = &[""];
const BOTH_OPENAI: &[ModelProvider] = &[ModelProvider::OpenAi, ModelProvider::OpenAiResponses];
const WITHOUT_PDF: ModelCapabilities = ModelCapabilities { pdf: &[], document_bytes: 0, ..OPENAI };

/// The families of open models that see, by the names under which Ollama and other servers list them.
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

/// The first row that fits counts.
const TABLE: &[CapabilityRow] = &[
    CapabilityRow {
        providers: BOTH_OPENAI,
        server: ServerScope::Vendor,
        names: &["gpt-3.5", "=gpt-4", "gpt-4-0", "gpt-4-1", "o1-mini", "o1-preview", "o3-mini", "gpt-oss"],
        abilities: TEXT_ONLY,
    },
    CapabilityRow {
        providers: BOTH_OPENAI,
        server: ServerScope::Vendor,
        names: &["gpt-4-turbo"],
        abilities: WITHOUT_PDF,
    },
    CapabilityRow { providers: BOTH_OPENAI, server: ServerScope::Vendor, names: EVERY, abilities: OPENAI },
    // Gemma 3 has small siblings that don't see.
    CapabilityRow {
        providers: &[ModelProvider::OpenAi, ModelProvider::OpenAiResponses, ModelProvider::Ollama],
        server: ServerScope::Any,
        names: &["gemma3:1b", "gemma3:270m", "gemma-3-1b", "gemma-3-270m"],
        abilities: TEXT_ONLY,
    },
    CapabilityRow {
        providers: BOTH_OPENAI,
        server: ServerScope::Custom,
        names: GATEWAY_VISION_MODELS,
        abilities: OPENAI,
    },
    CapabilityRow {
        providers: BOTH_OPENAI,
        server: ServerScope::Custom,
        names: OPEN_WEIGHT_VISION_MODELS,
        abilities: LOCAL_VISION,
    },
    CapabilityRow {
        providers: &[ModelProvider::Ollama],
        server: ServerScope::Any,
        names: OPEN_WEIGHT_VISION_MODELS,
        abilities: LOCAL_VISION,
    },
    CapabilityRow {
        providers: &[ModelProvider::Anthropic],
        server: ServerScope::Any,
        names: &["claude-2", "instant"],
        abilities: TEXT_ONLY,
    },
    CapabilityRow {
        providers: &[ModelProvider::Anthropic],
        server: ServerScope::Any,
        names: &["claude-3-haiku", "claude-3-opus", "claude-3-sonnet"],
        abilities: ModelCapabilities { pdf: &[], document_bytes: 0, ..ANTHROPIC },
    },
    CapabilityRow {
        providers: &[ModelProvider::Anthropic],
        server: ServerScope::Any,
        names: EVERY,
        abilities: ANTHROPIC,
    },
    CapabilityRow {
        providers: &[ModelProvider::Gemini],
        server: ServerScope::Any,
        names: &["gemma"],
        abilities: ModelCapabilities { pdf: &[], audio: &[], document_bytes: 0, ..GEMINI },
    },
    CapabilityRow { providers: &[ModelProvider::Gemini], server: ServerScope::Any, names: EVERY, abilities: GEMINI },
];

/// What the operator can say that a model takes: all that a request to it can hold.
fn wire_abilities(target: &ModelTarget) -> ModelCapabilities {
    match (target.provider, target.is_elsewhere) {
        (ModelProvider::OpenAi, false) => ModelCapabilities { audio: USUAL_AUDIO, video: USUAL_VIDEO, ..OPENAI },
        (ModelProvider::OpenAiResponses, false) => OPENAI,
        (ModelProvider::OpenAi, true) => ModelCapabilities {
            pdf: PDF,
            audio: USUAL_AUDIO,
            video: USUAL_VIDEO,
            document_bytes: OPENAI.document_bytes,
            ..LOCAL_VISION
        },
        (ModelProvider::OpenAiResponses, true) => {
            ModelCapabilities { pdf: PDF, document_bytes: OPENAI.document_bytes, ..LOCAL_VISION }
        }
        (ModelProvider::Anthropic, _) => ANTHROPIC,
        (ModelProvider::Gemini, _) => ModelCapabilities { video: USUAL_VIDEO, ..GEMINI },
        (ModelProvider::Ollama, _) => LOCAL_VISION,
    }
}

/// What a model can be shown.
pub(crate) fn capabilities_for(target: &ModelTarget) -> ModelCapabilities {
    let listed = table_abilities(target);
    let Some(accepts) = &target.accepts else { return listed };
    let widest = wire_abilities(target);
    // The types and limits of the table count as far as it knows the model to take such files at all.
    let types = |kind: MediaKind, listed: &'static [&'static str], widest: &'static [&'static str]| match kind {
        kind if !accepts.contains(&kind) => &[],
        _ if listed.is_empty() => widest,
        _ => listed,
    };
    ModelCapabilities {
        images: types(MediaKind::Image, listed.images, widest.images),
        pdf: types(MediaKind::Pdf, listed.pdf, widest.pdf),
        audio: types(MediaKind::Audio, listed.audio, widest.audio),
        video: types(MediaKind::Video, listed.video, widest.video),
        document_bytes: listed.document_bytes.max(widest.document_bytes),
        ..if listed.images.is_empty() { widest } else { listed }
    }
}

/// What the table says of a model.
fn table_abilities(target: &ModelTarget) -> ModelCapabilities {
    let model = target.model.to_lowercase();
    let fits = |row: &&CapabilityRow| {
        let server = match row.server {
            ServerScope::Vendor => !target.is_elsewhere,
            ServerScope::Custom => target.is_elsewhere,
            ServerScope::Any => true,
        };
        let name = |name: &&str| match name.strip_prefix('=') {
            Some(whole) => model == whole,
            None => model.contains(*name),
        };
        server && row.providers.contains(&target.provider) && row.names.iter().any(name)
    };
    TABLE.iter().find(fits).map_or(TEXT_ONLY, |row| row.abilities)
}

/// What has been taken into a request so far.
#[derive(Debug, Default)]
pub(crate) struct RequestFileBudget {
    images: usize,
    bytes: u64,
}

/// What one model can be shown, and how the operator can change it.
#[derive(Debug, Clone)]
pub(crate) struct FileRules {
    model: String,
    provider: ModelProvider,
    abilities: ModelCapabilities,
}

impl FileRules {
    pub(crate) fn new(target: &ModelTarget) -> Self {
        Self { model: target.name.clone(), provider: target.provider, abilities: capabilities_for(target) }
    }

    /// Takes a file into a request, or says why it can't be.
    pub(crate) fn admit_file(&self, taken: &mut RequestFileBudget, file: &Attachment) -> Result<(), String> {
        let abilities = &self.abilities;
        let kind = MediaKind::from_mime(&file.mime).filter(|kind| abilities.types(*kind).contains(&file.mime.as_str()));
        let Some(kind) = kind else { return Err(self.refusal(file)) };
        let is_image = kind == MediaKind::Image;
        let limit = if is_image { abilities.image_bytes } else { abilities.document_bytes };
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
        if let Some(longest) = abilities.longest_side.filter(|longest| is_image && side > *longest) {
            return Err(format!("it is {side} pixels long, this model accepts up to {longest}"));
        }
        if is_image && file.media.animated && !abilities.moving {
            return Err("this model accepts no animated images".to_owned());
        }
        if is_image && taken.images >= abilities.most_images {
            return Err(format!("this model accepts up to {} images at once", abilities.most_images));
        }
        if taken.bytes + file.bytes > abilities.request_bytes {
            return Err(format!(
                "this model accepts up to {} of files at once",
                size::format_bytes(abilities.request_bytes)
            ));
        }
        taken.images += usize::from(is_image);
        taken.bytes += file.bytes;
        Ok(())
    }

    /// Says which types are taken, and which setting adds the kind that was refused where one does.
    fn refusal(&self, file: &Attachment) -> String {
        let takes = format!("this model accepts {}", self.abilities.accepted());
        let is_addable =
            |kind: &MediaKind| self.provider.file_kinds().contains(kind) && self.abilities.types(*kind).is_empty();
        match MediaKind::from_mime(&file.mime).filter(is_addable) {
            Some(kind) => format!(
                "{takes}; if it does accept {}, the person who runs this bot can set `models.{}.accepts`",
                kind.plural(),
                self.model
            ),
            None => takes,
        }
    }
}

impl ModelCapabilities {
    /// The types of a kind that are taken.
    fn types(&self, kind: MediaKind) -> &'static [&'static str] {
        match kind {
            MediaKind::Image => self.images,
            MediaKind::Pdf => self.pdf,
            MediaKind::Audio => self.audio,
            MediaKind::Video => self.video,
        }
    }

    /// The accepted types in words.
    fn accepted(&self) -> String {
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
