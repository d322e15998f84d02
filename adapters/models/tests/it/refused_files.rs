//! A file that would make a provider refuse the whole request is not sent, or is left out of the next request. The model
//! reads a note about it.

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

/// Why a file alone isn't sent once it was refused.
fn refused(wire: ModelWire) -> String {
    format!("{} refused it; it may be damaged, or this model may not accept images.", who(wire))
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
        for (file, reason) in [(chart, "its first bytes are not what its type says".to_owned()), (cut, refused(wire))] {
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
        let note = format!("You can't see the file \"cut.png\" (image/png, 45 B): {}", refused(wire));
        assert!(asked[1].user_text().contains(&note), "{wire:?}: {}", asked[1].user_text());

        let again = ask(&model, request(messages)).await;
        assert_eq!(again.error, None, "{wire:?}");
        assert_eq!(stage.server.requests().len(), 3, "{wire:?}: it isn't sent, and so not refused, a second time");
        assert!(stage.server.last().user_text().contains(&note), "{wire:?}");
    }
}

/// An agent's own files come first, in each of its turns: leaving out the newest image doesn't help there.
#[tokio::test]
async fn good_image_is_kept_when_an_older_one_is_refused() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let model = stage.model(wire);
        let parts = vec![ContentPart::File(Box::new(damaged(&stage, "logo.png").await))];
        let good = stage.file("good.png", "image/png", PNG).await;
        let messages = vec![ModelMessage::Context { parts }, user("look", vec![good.clone()])];
        for (messages, requests, notes) in
            [(messages.clone(), 3, 1), (messages, 4, 1), (vec![user("look", vec![good])], 5, 0)]
        {
            assert_eq!(ask(&model, request(messages)).await.error, None, "{wire:?}");
            assert_eq!(stage.server.requests().len(), requests, "{wire:?}: only what is refused is remembered");
            let asked = stage.server.last();
            let shown: Vec<_> = asked.files().into_iter().map(|file| file.bytes).collect();
            let text = asked.user_text();
            assert_eq!((shown, text.matches(&refused(wire)).count()), (vec![PNG.to_vec()], notes), "{wire:?}: {text}");
            assert!(!text.contains("You can't see the file \"good.png\""), "{wire:?}: {text}");
        }
    }
}

#[tokio::test]
async fn all_images_are_left_out_when_each_is_refused() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let model = stage.model(wire);
        let parts = vec![ContentPart::File(Box::new(damaged(&stage, "logo.png").await))];
        let other = stage.file("cut.png", "image/png", &[cut_png(), vec![0]].concat()).await;
        let messages = vec![ModelMessage::Context { parts }, user("look", vec![other])];
        for requests in [4, 5] {
            assert_eq!(ask(&model, request(messages.clone())).await.error, None, "{wire:?}");
            assert_eq!(stage.server.requests().len(), requests, "{wire:?}");
            let asked = stage.server.last();
            assert!(asked.files().is_empty(), "{wire:?}");
            assert_eq!(asked.user_text().matches(&refused(wire)).count(), 2, "{wire:?}: {}", asked.user_text());
        }
    }
}

/// With three images or more, one turn's requests find out one after another which of them is refused.
#[tokio::test]
async fn image_that_may_be_fine_is_not_called_damaged() {
    let stage = Stage::new().await;
    let model = stage.model(ModelWire::Anthropic);
    let second = [PNG, b"\0"].concat();
    let messages = vec![
        user("one", vec![damaged(&stage, "one.png").await]),
        assistant("Seen."),
        user("two", vec![stage.file("two.png", "image/png", &second).await]),
        assistant("Seen."),
        user("three", vec![stage.file("three.png", "image/png", PNG).await]),
    ];
    let unknown = "the server refused the request for its images, and the file at fault is unknown.";
    let both = [second, PNG.to_vec()];
    for (requests, shown, unknown_count) in [(3, &both[1..], 2), (6, &both[..], 0), (7, &both[..], 0)] {
        assert_eq!(ask(&model, request(messages.clone())).await.error, None);
        assert_eq!(stage.server.requests().len(), requests);
        let asked = stage.server.last();
        let text = asked.user_text();
        let bytes: Vec<_> = asked.files().into_iter().map(|file| file.bytes).collect();
        assert_eq!((bytes.as_slice(), text.matches(unknown).count()), (shown, unknown_count), "{text}");
        let called_damaged = text.matches("may be damaged").count();
        assert_eq!(called_damaged, usize::from(unknown_count == 0), "{text}");
    }
}

#[tokio::test]
async fn image_that_was_never_sent_is_not_suspected() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let chart = stage.file("chart.png", "image/png", b"chart data").await;
        let messages =
            vec![user("first", vec![damaged(&stage, "cut.png").await]), assistant("Seen."), user("look", vec![chart])];
        assert_eq!(ask(&stage.model(wire), request(messages)).await.error, None, "{wire:?}");
        assert_eq!(stage.server.requests().len(), 2, "{wire:?}: each request differs from the one before");
        let text = stage.server.last().user_text();
        for (file, reason) in [
            ("\"cut.png\" (image/png, 45 B)", refused(wire).as_str()),
            ("\"chart.png\" (image/png, 10 B)", "its first bytes are not what its type says."),
        ] {
            assert!(text.contains(&format!("You can't see the file {file}: {reason}")), "{wire:?}: {text}");
        }
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
    let reason = "the server refused the images of this message; one file may be damaged, or this model may not accept \
                  images.";
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
    let note = format!("You can't see the image at https://a.example/gone.png: {}", refused(ModelWire::OpenAiChat));
    assert!(text.contains(&note), "{text}");
}

#[tokio::test]
async fn refusal_without_files_is_an_error() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.reply(ModelReply::fault(ModelFault::Says(ProviderErrorCase::Image)).every_time());
        let photo = stage.file("photo.png", "image/png", PNG).await;
        // A request that holds no image isn't refused for one. Ollama reports a fault of the server, which is retried.
        let (begin, retryable, attempts) = match wire {
            ModelWire::Ollama => ("Ollama returned a server error", true, 4),
            _ => ("the server refused the request (400)", false, 1),
        };
        for (files, requests) in [(Vec::new(), attempts), (vec![photo], 2 * attempts + 1)] {
            let error = ask(&stage.model(wire), request(vec![user("look", files)])).await.error;
            let error = error.unwrap_or_else(|| panic!("{wire:?}: it was refused each time"));
            assert!(error.reason.starts_with(begin) && error.retryable == retryable, "{wire:?}: {error}");
            assert_eq!(stage.server.requests().len(), requests, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn document_is_not_left_out_for_an_image_that_no_request_holds() {
    for wire in [ModelWire::OpenAiChat, ModelWire::OpenAiResponses, ModelWire::Anthropic, ModelWire::Gemini] {
        let stage = Stage::new().await;
        let model = stage.model(wire);
        stage.server.reply(ModelReply::fault(ModelFault::Says(ProviderErrorCase::Image)));
        let messages = vec![user("read", vec![stage.file("report.pdf", "application/pdf", PDF).await])];
        assert!(ask(&model, request(messages.clone())).await.error.is_some(), "{wire:?}");
        assert_eq!(ask(&model, request(messages)).await.error, None, "{wire:?}");
        assert_eq!(stage.server.requests().len(), 2, "{wire:?}");
        let shown: Vec<_> = stage.server.last().files().into_iter().map(|file| file.bytes).collect();
        assert_eq!(shown, [PDF], "{wire:?}");
    }
}
