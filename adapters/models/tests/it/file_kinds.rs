//! Which files a model is shown when its settings name the kinds that it accepts, as the provider reads it.

use satchel_fake_model::ModelWire;
use satchel_models::{MediaKind, ModelSettings, RemoteModel};

use crate::stage::{PDF, PNG, Stage, ask, provider, request, short_policy, user};

/// One file of each kind, with a type that every wire takes of it.
const FILES: [(MediaKind, &str, &str, &[u8]); 4] = [
    (MediaKind::Image, "a.png", "image/png", PNG),
    (MediaKind::Pdf, "b.pdf", "application/pdf", PDF),
    (MediaKind::Audio, "c.wav", "audio/wav", b"RIFF\0\0\0\0WAVE"),
    (MediaKind::Video, "d.mp4", "video/mp4", b"\0\0\0\x18ftypmp42"),
];

/// The model of which the table of abilities believes the least.
fn unlisted(wire: ModelWire) -> &'static str {
    match wire {
        ModelWire::OpenAiChat | ModelWire::OpenAiResponses => "my-own-model",
        ModelWire::Anthropic => "claude-2.1",
        ModelWire::Gemini => "gemma-3-27b-it",
        ModelWire::Ollama => "llama3.2",
    }
}

fn settings(stage: &Stage, wire: ModelWire, accepts: &[MediaKind]) -> ModelSettings {
    stage.server.add_model(unlisted(wire));
    ModelSettings { model: Some(unlisted(wire).into()), accepts: Some(accepts.to_vec()), ..stage.settings(wire) }
}

#[tokio::test]
async fn every_accepted_kind_reaches_an_unlisted_model() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let kinds = provider(wire).file_kinds();
        let mut files = Vec::new();
        for (_, name, mime, bytes) in FILES {
            files.push(stage.file(name, mime, bytes).await);
        }
        let model = stage.model_with(settings(&stage, wire, kinds));
        let answer = ask(&model, request(vec![user("look", files)])).await;
        assert_eq!(answer.error, None, "{wire:?}");
        let asked = stage.server.last();
        let shown: Vec<_> = asked.files().into_iter().map(|file| file.bytes).collect();
        let expected: Vec<_> =
            FILES.iter().filter(|(kind, ..)| kinds.contains(kind)).map(|(.., bytes)| bytes.to_vec()).collect();
        assert_eq!(shown, expected, "{wire:?}");
        for (_, name, ..) in FILES.iter().filter(|(kind, ..)| !kinds.contains(kind)) {
            assert!(asked.user_text().contains(&format!("You can't see the file \"{name}\"")), "{wire:?}: {name}");
        }
    }
}

#[tokio::test]
async fn a_kind_left_out_is_not_sent() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let photo = stage.file("a.png", "image/png", PNG).await;
        let settings = ModelSettings { accepts: Some(Vec::new()), ..stage.settings(wire) };
        let answer = ask(&stage.model_with(settings), request(vec![user("look", vec![photo])])).await;
        assert_eq!(answer.error, None, "{wire:?}");
        let asked = stage.server.last();
        assert!(asked.files().is_empty(), "{wire:?}: the table says that it sees, the operator that it doesn't");
        assert_eq!(stage.blobs.served(), 0, "{wire:?}: what isn't shown isn't read");
    }
}

#[tokio::test]
async fn a_refusal_names_the_setting_that_helps() {
    let stage = Stage::new().await;
    let settings = ModelSettings { accepts: None, ..settings(&stage, ModelWire::Ollama, &[]) };
    let files = vec![
        stage.file("a.png", "image/png", PNG).await,
        stage.file("b.pdf", "application/pdf", PDF).await,
        stage.file("c.csv", "text/csv", b"1;2").await,
        stage.file("d.svg", "image/svg+xml", b"<svg/>").await,
    ];
    ask(&stage.model_with(settings), request(vec![user("look", files)])).await;
    let words = stage.server.last().user_text();
    let hint = "this model accepts no files, only text; if it does accept images, the person who runs this bot can set \
                `models.main.accepts`.";
    assert!(words.contains(&format!("\"a.png\" (image/png, 33 B): {hint}")), "{words}");
    assert_eq!(words.matches("models.main.accepts").count(), 1, "where the setting can't help it isn't named: {words}");
}

#[tokio::test]
async fn the_limits_stay_with_accepted_kinds() {
    let stage = Stage::new().await;
    let mut large = stage.file("large.png", "image/png", PNG).await;
    large.bytes = 21_000_000;
    let heic = stage.file("photo.heic", "image/heic", b"ftypheic").await;
    let model = stage.model_with(settings(&stage, ModelWire::OpenAiChat, &[MediaKind::Image]));
    ask(&model, request(vec![user("look", vec![large, heic])])).await;
    let asked = stage.server.last();
    assert!(asked.files().is_empty());
    assert!(asked.user_text().contains("it is 21 MB, this model accepts up to 20 MB."), "{}", asked.user_text());
    assert!(asked.user_text().contains("this model accepts only PNG, JPEG."), "{}", asked.user_text());
}

#[tokio::test]
async fn a_kind_that_no_request_holds_is_refused() {
    let stage = Stage::new().await;
    for (wire, kind, says) in [
        (ModelWire::Ollama, MediaKind::Pdf, "holds pdf, which requests to Ollama can't contain; allowed are image"),
        (
            ModelWire::Anthropic,
            MediaKind::Audio,
            "holds audio, which requests to Anthropic can't contain; allowed are image, pdf",
        ),
        (
            ModelWire::OpenAiResponses,
            MediaKind::Video,
            "holds video, which requests to OpenAI can't contain; allowed are image, pdf",
        ),
    ] {
        let settings = settings(&stage, wire, &[MediaKind::Image, kind]);
        let refused = RemoteModel::with_policy(settings, stage.blobs.clone(), short_policy()).map(drop).unwrap_err();
        assert_eq!(refused.to_string(), format!("models.main.accepts: {says}"));
    }
}
