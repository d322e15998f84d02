//! Files that a provider would refuse a whole request for: they are not sent, or left out once it has, and the model is told.

use satchel_fake_model::{
    ModelFault, ModelReply, ModelWire, ProviderErrorCase, ReplyPiece, RequestStatus, ScriptedCall,
};
use satchel_ports::{ModelFile, ModelMessage, language_model::ContentPart};

use crate::stage::{PDF, PNG, Stage, ask, renamed, request, tool, user};

/// A PNG that ends in its pixels.
fn cut_png() -> Vec<u8> {
    [PNG, b"\0\0\0\x0cIDATx\x9cc\xf8"].concat()
}

async fn damaged(stage: &Stage, name: &str) -> ModelFile {
    stage.file(name, "image/png", &cut_png()).await
}

/// The server is another than the provider's own, as far as Satchel knows.
fn who(wire: ModelWire) -> &'static str {
    if wire == ModelWire::Ollama { "Ollama" } else { "the server" }
}

fn assistant(text: &str) -> ModelMessage {
    ModelMessage::Assistant { text: text.into(), calls: Vec::new() }
}

#[tokio::test]
async fn file_of_other_bytes_than_its_type_is_named_and_not_sent() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let chart = stage.file("chart.png", "image/png", b"chart data").await;
        let photo = stage.file("photo.jpg", "image/jpeg", PNG).await;
        let report = stage.file("report.pdf", "application/pdf", b"<!DOCTYPE html>").await;
        let good = stage.file("good.png", "image/png", PNG).await;
        let files = vec![chart, photo, report, good];
        let answer = ask(&stage.model(wire), request(vec![user("look", files)])).await;
        assert_eq!(answer.error, None, "{wire:?}");
        assert_eq!(stage.server.requests().len(), 1, "{wire:?}");
        let asked = stage.server.last();
        let shown: Vec<_> = asked.files().into_iter().map(|file| file.bytes).collect();
        assert_eq!(shown, [PNG], "{wire:?}");
        let text = asked.user_text();
        for note in [
            "You can't see the file \"chart.png\" (image/png, 10 B): its first bytes are not what its type says.",
            "You can't see the file \"photo.jpg\" (image/jpeg, 33 B): its first bytes are not what its type says.",
        ] {
            assert!(text.contains(note), "{wire:?}: {text}");
        }
        let pdf_note = "\"report.pdf\" (application/pdf, 15 B): its first bytes are not what its type says.";
        assert_eq!(text.contains(pdf_note), wire != ModelWire::Ollama, "{wire:?}: {text}");
    }
}

#[tokio::test]
async fn recording_of_other_bytes_than_its_type_is_named() {
    let stage = Stage::new().await;
    let note = stage.file("note.ogg", "audio/ogg", b"not a recording").await;
    let answer = ask(&stage.model(ModelWire::Gemini), request(vec![user("listen", vec![note])])).await;
    assert_eq!(answer.error, None);
    let told = "\"note.ogg\" (audio/ogg, 15 B): its first bytes are not what its type says.";
    assert!(stage.server.last().user_text().contains(told), "{}", stage.server.last().user_text());
}

#[tokio::test]
async fn file_of_a_tool_is_checked_too() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let model = stage.model(wire);
        stage.server.reply(ModelReply::calls([ScriptedCall::new("file_read", r#"{"path": "a"}"#)]));
        let calls = renamed(&ask(&model, request(vec![user("draw", Vec::new())])).await.calls, 1);
        let chart = stage.file("chart.png", "image/png", b"chart data").await;
        let cut = damaged(&stage, "cut.png").await;
        for (file, reason) in [
            (chart, "its first bytes are not what its type says".to_owned()),
            (cut, format!("{} could not process it, so it may be damaged", who(wire))),
        ] {
            let name = file.filename.to_string();
            let messages = vec![
                user("draw", Vec::new()),
                ModelMessage::Assistant { text: String::new(), calls: calls.clone() },
                tool(&calls[0], "drawn", vec![file]),
            ];
            let answer = ask(&model, request(messages)).await;
            assert_eq!(answer.error, None, "{wire:?} {name}");
            let asked = stage.server.last();
            let text = format!("{}\n{}", asked.results()[0].text(), asked.user_text());
            let note = format!("You can't see the file \"{name}\" (");
            assert!(text.contains(&note) && text.contains(&reason), "{wire:?}: {text}");
            assert!(asked.files().is_empty() && asked.results()[0].files().is_empty(), "{wire:?} {name}");
        }
    }
}

#[tokio::test]
async fn damaged_image_is_left_out_once_it_was_refused() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let model = stage.model(wire);
        let good = stage.file("good.png", "image/png", PNG).await;
        let messages =
            vec![user("first", vec![good]), assistant("Seen."), user("look", vec![damaged(&stage, "cut.png").await])];
        let answer = ask(&model, request(messages.clone())).await;
        assert_eq!((answer.text().as_str(), answer.error), ("Hello from the fake model.", None), "{wire:?}");
        let asked = stage.server.requests();
        assert_eq!(asked.len(), 2, "{wire:?}");
        assert!(matches!(asked[0].status, RequestStatus::Refused(_)), "{wire:?}: {:?}", asked[0].status);
        let shown: Vec<_> = asked[1].files().into_iter().map(|file| file.bytes).collect();
        assert_eq!(shown, [PNG], "{wire:?}: the other message keeps its image");
        let note = format!(
            "You can't see the file \"cut.png\" (image/png, 45 B): {} could not process it, so it may be damaged.",
            who(wire)
        );
        assert!(asked[1].user_text().contains(&note), "{wire:?}: {}", asked[1].user_text());

        let again = ask(&model, request(messages)).await;
        assert_eq!(again.error, None, "{wire:?}");
        assert_eq!(stage.server.requests().len(), 3, "{wire:?}: it isn't sent, and so not refused, a second time");
        assert!(stage.server.last().user_text().contains(&note), "{wire:?}");
    }
}

/// An agent's own files come first, in each of its turns: leaving out the newest image doesn't help there.
#[tokio::test]
async fn all_images_are_left_out_when_the_newest_is_not_to_blame() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let parts = vec![ContentPart::File(Box::new(damaged(&stage, "logo.png").await))];
        let good = stage.file("good.png", "image/png", PNG).await;
        let messages = vec![ModelMessage::Context { parts }, user("look", vec![good])];
        let answer = ask(&stage.model(wire), request(messages)).await;
        assert_eq!(answer.error, None, "{wire:?}");
        assert_eq!(stage.server.requests().len(), 3, "{wire:?}");
        let asked = stage.server.last();
        assert!(asked.files().is_empty(), "{wire:?}");
        assert_eq!(asked.user_text().matches("so it may be damaged").count(), 2, "{wire:?}: {}", asked.user_text());
    }
}

/// One of an album is damaged: which one is unknown, so that each may be viewed alone.
#[tokio::test]
async fn images_of_an_album_can_be_viewed_one_by_one() {
    let wire = ModelWire::OpenAiChat;
    let stage = Stage::new().await;
    let model = stage.model(wire);
    let good = stage.file("good.png", "image/png", PNG).await;
    let album = vec![good.clone(), damaged(&stage, "cut.png").await];
    stage.server.reply(ModelReply::calls([ScriptedCall::new("file_read", r#"{"path": "a"}"#)]));
    let first = ask(&model, request(vec![user("look", album.clone())])).await;
    let reason = "the server could not process the images of this message, of which one may be damaged.";
    let text = stage.server.last().user_text();
    assert_eq!(text.matches(reason).count(), 2, "{text}");
    let calls = renamed(&first.calls, 1);
    let messages = vec![
        user("look", album),
        ModelMessage::Assistant { text: String::new(), calls: calls.clone() },
        tool(&calls[0], "", vec![good]),
    ];
    assert_eq!(ask(&model, request(messages)).await.error, None);
    let shown: Vec<_> = stage.server.last().files().into_iter().map(|file| file.bytes).collect();
    assert_eq!(shown, [PNG]);
}

/// A server may find out only when it has begun to answer, with a status that says that all is well.
#[tokio::test]
async fn refusal_within_the_stream_is_handled_like_a_status() {
    for wire in ModelWire::ALL {
        for reply in [
            ModelReply::fault(ModelFault::Says(ProviderErrorCase::Image)),
            ModelReply::pieces([ReplyPiece::Trouble(ProviderErrorCase::Image)]),
        ] {
            let stage = Stage::new().await;
            stage.server.reply(reply);
            stage.server.reply(ModelReply::text("I can't see it."));
            let photo = stage.file("photo.png", "image/png", PNG).await;
            let report = stage.file("report.pdf", "application/pdf", PDF).await;
            let answer = ask(&stage.model(wire), request(vec![user("look", vec![photo, report])])).await;
            assert_eq!((answer.text().as_str(), answer.error), ("I can't see it.", None), "{wire:?}");
            let asked = stage.server.requests();
            assert_eq!(asked.len(), 2, "{wire:?}");
            let shown: Vec<_> = asked[1].files().into_iter().map(|file| file.bytes).collect();
            let kept = if wire == ModelWire::Ollama { vec![] } else { vec![PDF.to_vec()] };
            assert_eq!(shown, kept, "{wire:?}: it was refused for its image alone");
        }
    }
}

#[tokio::test]
async fn refused_image_address_is_named() {
    let stage = Stage::new().await;
    stage.server.reply(ModelReply::fault(ModelFault::Says(ProviderErrorCase::Image)));
    let parts = vec![ContentPart::ImageUrl("https://a.example/gone.png".into())];
    let messages = vec![ModelMessage::Context { parts }, user("what is it?", Vec::new())];
    assert_eq!(ask(&stage.model(ModelWire::OpenAiChat), request(messages)).await.error, None);
    let text = stage.server.last().user_text();
    let note = "You can't see the image at https://a.example/gone.png: the server could not process it";
    assert!(text.contains(note), "{text}");
}

#[tokio::test]
async fn refusal_without_files_is_an_error() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.reply(ModelReply::fault(ModelFault::Says(ProviderErrorCase::Image)).every_time());
        let photo = stage.file("photo.png", "image/png", PNG).await;
        for (files, requests) in [(Vec::new(), 1), (vec![photo], 3)] {
            let error = ask(&stage.model(wire), request(vec![user("look", files)])).await.error;
            let error = error.unwrap_or_else(|| panic!("{wire:?}: it was refused each time"));
            let begin = format!("{} could not process the images in this request", who(wire));
            assert!(error.reason.starts_with(&begin) && !error.retryable, "{wire:?}: {error}");
            assert_eq!(stage.server.requests().len(), requests, "{wire:?}");
        }
    }
}
