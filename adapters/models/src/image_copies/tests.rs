//! Which images are copied, how often, and what is sent in their place.

use bytes::Bytes;
use rstest::rstest;
use satchel_domain::{AttachmentId, AttachmentSource, Filename, NewAttachment, Sender, Timestamp};
use satchel_ports::{BlobError, MockBlobs, MockImageScaler};
use uuid::Uuid;

use super::*;
use crate::settings::{ModelProvider, ModelSettings, ModelTarget};

fn rules(provider: ModelProvider, model: &str) -> FileRules {
    let settings = ModelSettings {
        name: "main".into(),
        provider,
        base_url: None,
        api_key: Some("key".to_owned().into()),
        model: Some(model.into()),
        accepts: None,
    };
    FileRules::new(&ModelTarget::new(settings).unwrap())
}

fn image(mime: &str, bytes: u64, side: u32, animated: bool) -> ModelFile {
    let media = MediaInfo { width: Some(side), height: Some(10), animated, ..MediaInfo::default() };
    let stored = StoredBlob { sha256: Sha256::digest(mime), bytes, mime: mime.into(), media };
    let (id, name) = (AttachmentId(Uuid::from_u128(5)), Filename::from_untrusted("photo"));
    NewAttachment::new(id, AttachmentSource::User, name, stored, Timestamp(0)).into()
}

fn ann() -> WorkShare {
    WorkShare::from_sender("web:a".parse().unwrap(), &Sender::new("7", "Ann"))
}

fn scaled() -> ScaledImage {
    ScaledImage { mime: "image/jpeg".into(), width: 40, height: 30, content: Bytes::from_static(b"small") }
}

fn copies(scaler: MockImageScaler) -> ImageCopies {
    let mut blobs = MockBlobs::new();
    blobs.expect_put().returning(|_, hint, limit| {
        assert_eq!((hint.bytes, limit), (Some(5), 5));
        let media = MediaInfo::default();
        Ok(StoredBlob { sha256: Sha256::digest("small"), bytes: 5, mime: "text/plain".into(), media })
    });
    ImageCopies::new(Arc::new(scaler), Arc::new(blobs))
}

fn user(file: ModelFile) -> ModelMessage {
    ModelMessage::User { text: "look".into(), attachments: vec![file] }
}

#[rstest]
#[case::as_it_is(ModelProvider::OpenAi, "gpt-5", image("image/png", 1_000, 500, false), None)]
#[case::too_many_bytes(
    ModelProvider::Anthropic,
    "claude-sonnet-4-5",
    image("image/png", 9_000_000, 500, false),
    Some(3_932_160)
)]
#[case::too_long(
    ModelProvider::Anthropic,
    "claude-sonnet-4-5",
    image("image/jpeg", 1_000, 9_000, false),
    Some(3_932_160)
)]
#[case::moving(ModelProvider::OpenAi, "gpt-5", image("image/gif", 1_000, 500, true), Some(20_000_000))]
#[case::moving_and_taken(ModelProvider::Anthropic, "claude-sonnet-4-5", image("image/gif", 1_000, 500, true), None)]
#[case::other_type(ModelProvider::OpenAi, "gpt-5", image("image/tiff", 1_000, 500, false), Some(20_000_000))]
#[case::photo_of_a_phone(ModelProvider::OpenAi, "gpt-5", image("image/heic", 1_000, 500, false), Some(20_000_000))]
#[case::photo_for_claude(
    ModelProvider::Anthropic,
    "claude-sonnet-4-5",
    image("image/heif", 1_000, 500, false),
    Some(3_932_160)
)]
#[case::photo_that_is_taken(ModelProvider::Gemini, "gemini-2.5-flash", image("image/heic", 1_000, 500, false), None)]
#[case::drawing(ModelProvider::OpenAi, "gpt-5", image("image/svg+xml", 1_000, 500, false), None)]
#[case::blind_model(ModelProvider::OpenAi, "gpt-3.5-turbo", image("image/tiff", 1_000, 500, false), None)]
#[case::recording(ModelProvider::OpenAi, "gpt-5", image("audio/ogg", 90_000_000, 0, false), None)]
fn only_images_that_are_not_taken_are_copied(
    #[case] provider: ModelProvider,
    #[case] model: &str,
    #[case] file: ModelFile,
    #[case] max_bytes: Option<u64>,
) {
    let expected = max_bytes.map(|max_bytes| ImageLimits { max_side: 2_048, max_bytes });
    assert_eq!(rules(provider, model).copy_limits(&file), expected);
}

#[tokio::test]
async fn copy_replaces_image_and_is_made_once() {
    let mut scaler = MockImageScaler::new();
    scaler.expect_scale().once().returning(|request, _| {
        assert_eq!((request.max_side, request.max_bytes), (2_048, 20_000_000));
        assert_eq!(request.work_share, Some(ann()), "workers are shared between people");
        Ok(scaled())
    });
    let (copies, rules) = (copies(scaler), rules(ModelProvider::OpenAi, "gpt-5"));
    let original = image("image/tiff", 1_000, 500, false);
    let messages = [
        user(original.clone()),
        ModelMessage::Context { parts: vec![ContentPart::File(Box::new(original.clone()))] },
        ModelMessage::Tool { call: "1".into(), text: String::new(), attachments: vec![original.clone()] },
    ];
    for _request in 0..2 {
        let replaced = copies.replace(&messages, &rules, Some(&ann())).await;
        let files: Vec<&ModelFile> = replaced.iter().flat_map(message_files).collect();
        assert_eq!(files.len(), 3);
        for file in files {
            assert_eq!((file.mime.as_str(), file.bytes, file.sha256), ("image/jpeg", 5, Sha256::digest("small")));
            assert_eq!((file.media.width, file.media.height, file.id), (Some(40), Some(30), original.id));
        }
    }
}

#[tokio::test]
async fn image_that_can_not_be_copied_stays_and_is_tried_once() {
    let mut scaler = MockImageScaler::new();
    let reason = "it is damaged".to_owned();
    scaler.expect_scale().once().returning(move |_, _| Err(ImageError::Unreadable { reason: reason.clone() }));
    let (copies, rules) = (copies(scaler), rules(ModelProvider::OpenAi, "gpt-5"));
    let messages = [user(image("image/tiff", 1_000, 500, false))];
    for _request in 0..2 {
        assert_eq!(*copies.replace(&messages, &rules, None).await, messages);
    }
}

/// The attack: images that each take a worker's whole time, before a model that must answer meanwhile.
#[tokio::test(start_paused = true)]
async fn request_does_not_wait_for_slow_copies() {
    struct Endless;
    #[async_trait::async_trait]
    impl ImageScaler for Endless {
        async fn scale(&self, _: &ImageRequest, _: &CancellationToken) -> Result<ScaledImage, ImageError> {
            std::future::pending().await
        }
    }
    let copies = ImageCopies::new(Arc::new(Endless), Arc::new(MockBlobs::new()));
    let messages = [1, 2, 3].map(|bytes| user(image("image/tiff", bytes, 500, false)));
    let started_at = tokio::time::Instant::now();
    let replaced = copies.replace(&messages, &rules(ModelProvider::OpenAi, "gpt-5"), None).await;
    assert_eq!((&*replaced, started_at.elapsed()), (&messages[..], MAX_WAIT));
}

#[tokio::test]
async fn full_store_leaves_the_image() {
    let mut scaler = MockImageScaler::new();
    scaler.expect_scale().returning(|_, _| Ok(scaled()));
    let mut blobs = MockBlobs::new();
    blobs.expect_put().returning(|_, _, limit| Err(BlobError::TooLarge { limit }));
    let copies = ImageCopies::new(Arc::new(scaler), Arc::new(blobs));
    let messages = [user(image("image/tiff", 1_000, 500, false))];
    assert_eq!(*copies.replace(&messages, &rules(ModelProvider::OpenAi, "gpt-5"), None).await, messages);
}

#[tokio::test]
async fn conversation_without_such_images_is_not_copied() {
    let copies = copies(MockImageScaler::new());
    let messages = [user(image("image/png", 1_000, 500, false)), ModelMessage::Note { text: "x".into() }];
    let replaced = copies.replace(&messages, &rules(ModelProvider::OpenAi, "gpt-5"), None).await;
    assert!(matches!(replaced, Cow::Borrowed(_)));
}
