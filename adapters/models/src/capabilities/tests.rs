//! Tests of the table of abilities.

use satchel_domain::{AttachmentId, AttachmentSource, Filename, MediaInfo, Sha256, Visibility};
use secrecy::SecretString;
use uuid::Uuid;

use super::*;
use crate::settings::ModelSettings;

fn abilities(provider: ModelProvider, base_url: Option<&str>, model: &str) -> ModelCapabilities {
    let settings = ModelSettings {
        name: "main".into(),
        provider,
        base_url: base_url.map(SecretString::from),
        api_key: Some(SecretString::from("k")),
        model: Some(model.into()),
        accepts: None,
    };
    capabilities_for(&ModelTarget::new(settings).unwrap())
}

fn file(mime: &str, bytes: u64) -> ModelFile {
    ModelFile {
        id: AttachmentId(Uuid::from_u128(5)),
        number: None,
        source: AttachmentSource::User,
        filename: Filename::from_untrusted("x"),
        mime: mime.into(),
        bytes,
        sha256: Sha256([0; 32]),
        media: MediaInfo::default(),
        visibility: Visibility::Deliver,
    }
}

/// The rules of a model of Ollama's, to which a request can bring nothing but images.
fn rules(abilities: ModelCapabilities) -> FileRules {
    let (provider, provider_name) = (ModelProvider::Ollama, "Ollama");
    FileRules { model: "main".into(), provider_name, provider, is_vendor: true, capabilities: abilities }
}

#[test]
fn models_see_what_their_makers_say() {
    const BOX: Option<&str> = Some("http://box/v1");
    for (provider, base_url, model, wanted) in [
        (ModelProvider::OpenAi, None, "gpt-5.4-mini", OPENAI),
        (ModelProvider::OpenAi, None, "gpt-4o", OPENAI),
        (ModelProvider::OpenAi, None, "some-model-of-next-year", OPENAI),
        (ModelProvider::OpenAi, None, "gpt-4", TEXT_ONLY),
        (ModelProvider::OpenAi, None, "gpt-3.5-turbo", TEXT_ONLY),
        (ModelProvider::OpenAi, None, "gpt-4-turbo", OPENAI_WITHOUT_PDF),
        (ModelProvider::OpenAiResponses, None, "o3-mini", TEXT_ONLY),
        (ModelProvider::OpenAi, BOX, "my-model", TEXT_ONLY),
        (ModelProvider::OpenAi, BOX, "anthropic/claude-haiku-4.5", OPENAI),
        (ModelProvider::OpenAi, BOX, "Qwen2.5-VL-7B", LOCAL_VISION),
        (ModelProvider::Anthropic, None, "claude-haiku-4-5", ANTHROPIC),
        (ModelProvider::Anthropic, None, "claude-2.1", TEXT_ONLY),
        (ModelProvider::Gemini, None, "gemini-3.5-flash", GEMINI),
        (ModelProvider::Ollama, None, "llama3.2", TEXT_ONLY),
        (ModelProvider::Ollama, None, "llama3.2-vision:11b", LOCAL_VISION),
        (ModelProvider::Ollama, None, "gemma3", LOCAL_VISION),
        (ModelProvider::Ollama, None, "gemma3:1b", TEXT_ONLY),
        (ModelProvider::Ollama, None, "qwen3:8b", TEXT_ONLY),
    ] {
        assert_eq!(abilities(provider, base_url, model), wanted, "{provider:?} {model}");
    }
    assert_eq!(abilities(ModelProvider::Anthropic, None, "claude-3-haiku-20240307").pdf, [""; 0]);
    for provider in [
        ModelProvider::OpenAi,
        ModelProvider::OpenAiResponses,
        ModelProvider::Anthropic,
        ModelProvider::Gemini,
        ModelProvider::Ollama,
    ] {
        let eyes = abilities(provider, None, provider.default_model());
        assert!(!eyes.images.is_empty(), "the default of {provider:?} sees");
    }
}

#[test]
fn what_is_not_taken_is_told_why() {
    let gif = ModelFile { media: MediaInfo { animated: true, ..MediaInfo::default() }, ..file("image/gif", 9) };
    let wide = ModelFile {
        media: MediaInfo { width: Some(9000), height: Some(1), ..MediaInfo::default() },
        ..file("image/png", 9)
    };
    for (abilities, file, wanted) in [
        (OPENAI, file("image/png", 20 * MB), Ok(())),
        (OPENAI, file("image/png", 20 * MB + 1), Err("it is 20 MB, this model accepts up to 20 MB")),
        (OPENAI, file("image/heic", 9), Err("this model accepts only PNG, JPEG, WEBP, GIF, PDF")),
        (OPENAI, file("image/png", 0), Err("it is empty")),
        (OPENAI, gif.clone(), Err("this model accepts no animated images")),
        (ANTHROPIC, gif, Ok(())),
        (ANTHROPIC, wide.clone(), Err("it is 9000 pixels long, this model accepts up to 8000")),
        (GEMINI, wide, Ok(())),
        (GEMINI, file("audio/ogg", 9), Ok(())),
        (GEMINI, file("image/heic", 9), Ok(())),
        (LOCAL_VISION, file("application/pdf", 9), Err("this model accepts only PNG, JPEG")),
        (
            TEXT_ONLY,
            file("image/png", 9),
            Err(
                "this model accepts no files, only text; if it does accept images, the person who runs this bot can set \
                 `models.main.accepts`",
            ),
        ),
    ] {
        let told = rules(abilities).admit_file(&mut RequestFileBudget::default(), &file);
        assert_eq!(told, wanted.map_err(str::to_owned), "{file:?}");
    }
}

#[test]
fn a_request_holds_so_many_and_so_much() {
    let mut taken = RequestFileBudget::default();
    for _ in 0..20 {
        rules(ANTHROPIC).admit_file(&mut taken, &file("image/png", 9)).unwrap();
    }
    let told = rules(ANTHROPIC).admit_file(&mut taken, &file("image/png", 9)).unwrap_err();
    assert_eq!(told, "this model accepts up to 20 images at once");
    rules(ANTHROPIC).admit_file(&mut taken, &file("application/pdf", 9)).expect("a document is no image");
    let mut taken = RequestFileBudget::default();
    rules(GEMINI).admit_file(&mut taken, &file("image/png", 8 * MB)).unwrap();
    let told = rules(GEMINI).admit_file(&mut taken, &file("application/pdf", 8 * MB)).unwrap_err();
    assert_eq!(told, "this model accepts up to 14 MB of files at once");
    rules(GEMINI).admit_file(&mut taken, &file("application/pdf", 6 * MB)).expect("a smaller one still fits");
}

#[test]
fn anthropics_image_limit_holds_in_base64() {
    let encoded = ANTHROPIC.max_image_bytes.div_ceil(3) * 4;
    assert!(encoded <= 5 * 1024 * 1024, "{encoded}");
}

/// The attack: an address within the operator's network that a server there would fetch.
#[test]
fn only_vendors_are_given_addresses_that_others_name() {
    let support = |base_url: Option<&str>| {
        let settings = ModelSettings {
            name: "main".into(),
            provider: ModelProvider::OpenAi,
            base_url: base_url.map(|url| url.to_owned().into()),
            api_key: Some("key".to_owned().into()),
            model: Some("gpt-5".into()),
            accepts: None,
        };
        FileRules::new(&ModelTarget::new(settings).unwrap()).input_support()
    };
    let (vendor, own) = (support(None), support(Some("http://box:8000/v1/")));
    assert_eq!((vendor.image_urls, own.image_urls), (true, false));
    assert!(
        own.may_be_sent("image/tiff") && own.accepts("image/png", u64::MAX),
        "a copy of an image is always small enough"
    );
    assert_eq!([32_000_000, 32_000_001].map(|bytes| vendor.accepts("application/pdf", bytes)), [true, false]);
}
