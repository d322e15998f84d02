//! What a model reads, on the wire of every provider: the real binary with its configuration, one turn after the other.

use std::path::PathBuf;

use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, RecordedRequest, ScriptedCall};
use satchel_system::real_binary::{ProcessOutput, TestHome, run_to_end};
use serde_json::{Value, json};

/// A picture of one red pixel, as far as its header tells.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde";

/// Enough of a PDF to be taken for one.
const PDF: &[u8] = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n";

/// A conversation at the terminal with a model behind one wire.
struct WireHarness {
    server: FakeModelServer,
    home: TestHome,
}

impl WireHarness {
    /// `model` is what the configuration says of the model besides the server, `settings` what it says besides models.
    async fn start(wire: ModelWire, model: &str, settings: &str) -> Self {
        let server = FakeModelServer::start().await.expect("a loopback port");
        let home = TestHome::new();
        let provider = match wire {
            ModelWire::OpenAiChat => "openai",
            ModelWire::OpenAiResponses => "openai_responses",
            ModelWire::Anthropic => "anthropic",
            ModelWire::Gemini => "gemini",
            ModelWire::Ollama => "ollama",
        };
        let (url, key) = (server.base_url(wire), FakeModelServer::KEY);
        home.write_file(
            "satchel.yaml",
            format!(
                "{settings}models:\n  main: {{ provider: {provider}, base_url: '{url}', api_key: '{key}', {model} }}\n"
            ),
        );
        Self { server, home }
    }

    /// A turn in a process of its own, on a machine in Berlin.
    async fn run_turn(&self, text: &str, files: &[PathBuf]) -> ProcessOutput {
        let mut command = self.home.satchel_command(&["chat", "--once", text, "--json"]);
        command.env("TZ", "Europe/Berlin");
        for file in files {
            command.arg("--attach").arg(file);
        }
        let output = tokio::task::spawn_blocking(move || run_to_end(&mut command)).await.expect("it runs");
        assert_eq!(output.exit_code(), Some(0), "{output:#?}");
        output
    }

    /// Shows the model a file, lets it view that again in the next turn, and returns what it then read.
    async fn view_file_again(&self, name: &str, bytes: &[u8]) -> Vec<RecordedRequest> {
        let file = self.home.write_file(name, bytes);
        self.server.reply(ModelReply::text("Seen."));
        self.run_turn("look", &[file]).await;
        let call = ScriptedCall::new("attachment_view", &json!({ "id": self.attachment_id(name) }).to_string());
        self.server.reply(ModelReply::calls([call]));
        self.server.reply(ModelReply::text("Seen again."));
        let output = self.run_turn("look again", &[]).await;
        assert_eq!(output.json()["response"]["attachments"].as_array().map_or(0, Vec::len), 0, "it isn't delivered");
        self.server.requests()
    }

    /// The id of a file, as the first request tells it.
    fn attachment_id(&self, name: &str) -> String {
        let words = self.server.requests()[0].user_text();
        let (_, rest) = words.split_once(&format!("\"{name}\" id ")).expect("the addendum names the file");
        rest.split_whitespace().next().expect("an id").to_owned()
    }
}

fn model_setting(wire: ModelWire) -> String {
    format!("model: '{}'", wire.model())
}

/// The messages of a request as they stand on the wire.
fn request_messages(asked: &RecordedRequest) -> &[Value] {
    let field = match asked.wire {
        ModelWire::OpenAiResponses => "input",
        ModelWire::Gemini => "contents",
        ModelWire::OpenAiChat | ModelWire::Anthropic | ModelWire::Ollama => "messages",
    };
    asked.body[field].as_array().expect("a request holds messages")
}

/// The bytes of the files that stand in a request, wherever the wire has a place for them.
fn request_files(asked: &RecordedRequest) -> Vec<Vec<u8>> {
    let results = asked.results();
    let inside = results.iter().flat_map(|result| result.files());
    inside.chain(asked.files()).map(|file| file.bytes).collect()
}

#[tokio::test]
async fn earlier_image_is_viewed_on_every_wire() {
    for wire in ModelWire::ALL {
        let harness = WireHarness::start(wire, &model_setting(wire), "").await;
        let asked = harness.view_file_again("beach.png", PNG).await;
        assert_eq!(asked.len(), 3, "{wire:?}");
        let id = harness.attachment_id("beach.png");
        assert!(request_files(&asked[1]).is_empty(), "{wire:?}: an older turn's file is named, not shown");
        assert!(asked[1].user_text().contains(&format!("[attachment {id} beach.png image/png")), "{wire:?}");
        assert_eq!(request_files(&asked[2]), [PNG], "{wire:?}");
        let result = &asked[2].results()[0];
        match wire {
            ModelWire::Anthropic => assert_eq!(result.files().len(), 1, "native: in the answer itself"),
            _ => {
                assert!(result.text().contains("Its files are shown in the next message."), "{wire:?}");
                assert!(asked[2].user_text().contains("The files that `attachment_view` returned."), "{wire:?}");
            }
        }
        assert!(result.text().contains(&id) && result.text().contains("beach.png"), "{wire:?}: {}", result.text());

        harness.server.reply(ModelReply::text("You're welcome."));
        harness.run_turn("thanks", &[]).await;
        assert!(request_files(&harness.server.last()).is_empty(), "{wire:?}: no bytes in the history");
    }
}

/// The attack: a picture that ends in its pixels. A provider refuses the whole request for it, in the turn and in each later
/// one that has it in its history.
#[tokio::test]
async fn damaged_picture_ends_no_turn() {
    for wire in [ModelWire::OpenAiChat, ModelWire::Anthropic] {
        let harness = WireHarness::start(wire, &model_setting(wire), "").await;
        let cut = harness.home.write_file("cut.png", [PNG, b"\0\0\0\x0cIDATx\x9cc\xf8"].concat());
        for (text, files, reply, requests) in
            [("look", vec![cut], "I can't see it.", 2), ("thanks", vec![], "You're welcome.", 3)]
        {
            harness.server.reply(ModelReply::text(reply));
            let output = harness.run_turn(text, &files).await;
            assert_eq!(output.json()["response"]["text"], reply, "{wire:?}");
            let asked = harness.server.requests();
            assert_eq!(asked.len(), requests, "{wire:?}: it is refused once");
            assert!(request_files(&asked[requests - 1]).is_empty(), "{wire:?}");
        }
        let asked = &harness.server.requests()[1];
        let note = "You can't see the file \"cut.png\" (image/png, 45 B): the server refused it; it may be damaged, or \
                    this model may not accept images.";
        assert!(asked.user_text().contains(note), "{wire:?}: {}", asked.user_text());
    }
}

#[tokio::test]
async fn document_is_viewed_or_refused_by_wire() {
    for wire in ModelWire::ALL {
        let harness = WireHarness::start(wire, &model_setting(wire), "").await;
        let asked = harness.view_file_again("report.pdf", PDF).await;
        if wire == ModelWire::Ollama {
            let told =
                "You can't see the file \"report.pdf\" (application/pdf, 15 B): this model accepts only PNG, JPEG.";
            assert!(asked[2].results()[0].text().ends_with(told), "{}", asked[2].results()[0].text());
            assert!(request_files(&asked[2]).is_empty());
        } else {
            assert_eq!(request_files(&asked[2]), [PDF], "{wire:?}");
        }
    }
}

#[tokio::test]
async fn refused_view_names_required_setting() {
    let unlisted = |more: &str| format!("model: my-own-model{more}");
    let wire = ModelWire::OpenAiChat;
    let blind = WireHarness::start(wire, &unlisted(""), "").await;
    blind.server.add_model("my-own-model");
    let asked = blind.view_file_again("beach.png", PNG).await;
    let told = "this model accepts no files, only text; if it does accept images, the person who runs this bot can set \
                `models.main.accepts`.";
    assert!(asked[2].results()[0].text().ends_with(told), "{}", asked[2].results()[0].text());

    let seeing = WireHarness::start(wire, &unlisted(", accepts: [image]"), "").await;
    seeing.server.add_model("my-own-model");
    let asked = seeing.view_file_again("beach.png", PNG).await;
    assert_eq!((request_files(&asked[0]), request_files(&asked[2])), (vec![PNG.to_vec()], vec![PNG.to_vec()]));
}

#[tokio::test]
async fn configured_instructions_follow_built_in_ones() {
    for wire in ModelWire::ALL {
        let harness = WireHarness::start(wire, &model_setting(wire), "instructions_file: who.md\n").await;
        harness.home.write_file("who.md", "You are Ada's librarian.\nNever rhyme.\n");
        harness.run_turn("hi", &[]).await;
        let system = harness.server.last().system;
        assert!(system.starts_with("You are Satchel"), "{wire:?}: {system}");
        assert!(
            system.ends_with("says who you are here:\nYou are Ada's librarian.\nNever rhyme."),
            "{wire:?}: {system}"
        );
    }
}

#[tokio::test]
async fn message_time_is_stable_across_requests() {
    for wire in ModelWire::ALL {
        let harness = WireHarness::start(wire, &model_setting(wire), "").await;
        harness.run_turn("see you tomorrow", &[]).await;
        harness.run_turn("and the day after", &[]).await;
        let asked = harness.server.requests();
        let [first, second] = asked.as_slice() else { panic!("{wire:?}: two requests") };
        let words = first.user_text();
        let (heading, text) = words.split_once("\n\n").expect("a heading stands before the message");
        let (when, place) = heading.split_once(" (Europe/Berlin, UTC+0").expect(heading);
        let weekdays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        let weekday = weekdays.iter().find_map(|day| when.strip_prefix(&format!("[[satchel.note]]{day} ")));
        let date = weekday.expect(heading);
        assert!(date.starts_with("20") && date.len() == "2026-11-23 18:05".len(), "{wire:?}: {heading}");
        assert!(place.ends_with(":00), on console:[[/satchel.note]]"), "{wire:?}: {heading}");
        assert_eq!(text, "see you tomorrow", "{wire:?}");

        assert!(!first.system.contains(date), "{wire:?}: the system prompt holds no time");
        assert_eq!(first.system, second.system, "{wire:?}");
        assert_eq!(first.body["tools"], second.body["tools"], "{wire:?}");
        let (before, after) = (request_messages(first), request_messages(second));
        assert_eq!(after[..before.len()], *before, "{wire:?}: a provider's cache of the first request holds");
        assert!(after.len() > before.len() && second.user_text().matches("on console:").count() == 2, "{wire:?}");
    }
}
