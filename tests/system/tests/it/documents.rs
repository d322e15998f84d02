//! A document from a person on Telegram to the model's wire: the real binary, its decoder worker, and the strict fakes.

mod recordings;

use std::process::Stdio;

use satchel_fake_kit::FakeFile;
use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, RecordedRequest, ScriptedCall};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_requirements::required;
use satchel_system::real_binary::{TestHome, decoder_worker};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

const ANN: i64 = 41;

const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/// The most memory that a large file may cost beyond a small one, in and out.
const MAX_EXTRA_BYTES: u64 = 4 << 20;

/// A GIF of one pixel that is repeated for ever, and a frame of it.
const MOVING_GIF_START: &[u8] =
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\x00\x00\x00\x00\x00!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00";
const MOVING_GIF_FRAME: &[u8] =
    b"!\xf9\x04\x00\x0a\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00";

/// Satchel between Ann and a model.
struct DocumentHarness {
    telegram: FakeTelegram,
    model: FakeModelServer,
    chat: i64,
    satchel: Child,
    _home: TestHome,
}

impl DocumentHarness {
    async fn start() -> Self {
        Self::with_settings("").await
    }

    /// With more settings.
    async fn with_settings(settings: &str) -> Self {
        let _worker = decoder_worker();
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
        telegram.person(ANN, "Ann");
        let chat = telegram.private_chat(ANN);
        let model = FakeModelServer::start().await.expect("a loopback port");
        let home = TestHome::new();
        let (wire, key) = (ModelWire::OpenAiChat, FakeModelServer::KEY);
        home.write_file(
            "satchel.yaml",
            format!(
                "telegram: {{ token: '{}', api_url: '{}', owners: [{ANN}] }}\nweb: {{ listen: off }}\n\
                 delivery: {{ pace: off }}\n{settings}models:\n  main: {{ provider: openai, base_url: '{}', api_key: '{key}', \
                 model: '{}' }}\n",
                telegram.token(),
                telegram.api_url(),
                model.base_url(wire),
                wire.model()
            ),
        );
        let mut command: Command = home.satchel_command(&["run"]).into();
        let satchel = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn();
        Self { telegram, model, chat, satchel: satchel.expect("the binary can be started"), _home: home }
    }

    /// Sends a message, and waits for the reply.
    async fn send(&self, message: PersonMessage, reply: &str) {
        self.model.reply(ModelReply::text(reply));
        self.telegram.person_sends(self.chat, ANN, message);
        let has_reply = self
            .telegram
            .wait_until(|transcript| transcript.visible(self.chat).any(|message| message.words.text == reply));
        if has_reply.await.is_err() {
            unreachable!("no reply {reply}:\n{}", self.telegram.transcript());
        }
    }

    /// Sends a document, lets the model read it in the next turn, and returns what the model then has on its wire.
    async fn read(&self, name: &str, content: &'static [u8]) -> RecordedRequest {
        let file = FakeFile::from_bytes(name, DOCX, content);
        self.send(PersonMessage::file(FileKind::Document, file), &format!("I have {name}.")).await;
        let id = self.id_of(name);
        self.call("attachment_read", &json!({ "id": id }), &format!("I have read {name}.")).await
    }

    /// Sends a file of unknown content, and has the model send it back. Returns what the model had on its wire when the
    /// file came.
    async fn pass_through(&self, name: &str, bytes: u64) -> RecordedRequest {
        let returned = self.telegram.transcript().files(self.chat).len() + 1;
        let file = FakeFile::generated(name, "application/octet-stream", bytes, bytes);
        let sha256 = file.sha256();
        self.send(PersonMessage::file(FileKind::Document, file), &format!("I have {name}.")).await;
        let request = self.model.last();
        let id = self.id_of(name);
        self.call("response_attachments", &json!({ "ids": [id] }), &format!("Here is {name}.")).await;
        let is_returned = self.telegram.wait_until(|transcript| transcript.files(self.chat).len() == returned);
        is_returned.await.expect("the file is sent back");
        let transcript = self.telegram.transcript();
        assert_eq!(transcript.files(self.chat)[returned - 1].sha256, sha256, "{name} is not what was sent");
        request
    }

    /// The most memory that Satchel has held so far, in bytes.
    fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.satchel.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    }

    /// The id of a file that came with the last message, as the model was told.
    fn id_of(&self, name: &str) -> String {
        let words = self.model.last().user_text();
        let (_, rest) = words.rsplit_once(&format!("\"{name}\" id ")).expect("the addendum names the file");
        rest.split_whitespace().next().expect("an id").to_owned()
    }

    /// Lets the model call a tool in the next turn, and returns what it then has on its wire.
    async fn call(&self, tool: &str, arguments: &Value, reply: &str) -> RecordedRequest {
        self.model.reply(ModelReply::calls([ScriptedCall::new(tool, &arguments.to_string())]));
        self.send(PersonMessage::text("go on"), reply).await;
        self.model.last()
    }
}

#[tokio::test]
async fn model_reads_a_document_from_telegram() {
    let harness = DocumentHarness::start().await;
    let request = harness.read("contract.docx", include_bytes!("documents/contract.docx")).await;
    let read = request.results().last().expect("the call has a result").text();
    let expected = "#1 contract.docx, page 1 of 1\n[page 1]\nLease agreement\n\
                    The rent is 1,250 € a month & due on the first.\nTenant\tАда Лавлейс";
    assert!(read.contains(expected), "{read}");

    let request = harness.read("deep.docx", include_bytes!("documents/deep.docx")).await;
    let read = request.results().last().expect("the call has a result").text();
    let expected = "the text of deep.docx can't be read: its elements are nested deeper than 4096 levels";
    assert!(read.contains(expected), "{read}");
    harness.send(PersonMessage::text("thanks"), "You're welcome.").await;
}

/// The model takes no DOCX, and no images that move.
#[tokio::test]
async fn model_gets_text_and_still_images_in_place_of_what_it_does_not_take() {
    let harness = DocumentHarness::start().await;
    let file = FakeFile::from_bytes("contract.docx", DOCX, &include_bytes!("documents/contract.docx")[..]);
    harness.send(PersonMessage::file(FileKind::Document, file).caption("what is the rent?"), "1,250 €.").await;
    let text = harness.model.last().user_text();
    let heading = "#1 \"contract.docx\" (application/vnd.openxmlformats-officedocument.wordprocessingml.document, 999 B), as text, \
                   because you can't take the file itself; page 1 of 1.";
    let order = [heading, "The rent is 1,250 € a month", "what is the rent?"];
    let positions: Vec<_> = order.iter().map(|words| text.find(words)).collect();
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{positions:?}: {text}");

    let moving = [MOVING_GIF_START, MOVING_GIF_FRAME, MOVING_GIF_FRAME, &[0x3b]].concat();
    let file = FakeFile::from_bytes("wave.gif", "image/gif", moving);
    harness.send(PersonMessage::file(FileKind::Document, file).caption("who is that?"), "A pixel.").await;
    let [image] = harness.model.last().files().try_into().expect("one image");
    assert!(image.bytes.starts_with(b"\x89PNG") || image.bytes.starts_with(b"\xff\xd8"), "{:?}", image.bytes);
}

/// Were the file given to a decoder, the model would read that there is none.
#[tokio::test]
async fn large_binary_file_is_neither_decoded_nor_held() {
    let harness = DocumentHarness::with_settings("documents: { worker: /missing/satchel-decoder }\n").await;
    // The first file also costs what a process needs once.
    harness.pass_through("small.bin", 600_000).await;
    let before = harness.peak_memory().ok_or("a system that tells how much memory a process has held");
    let Some(before) = required(before) else { return };
    let request = harness.pass_through("large.bin", 10_000_000).await;
    let extra = harness.peak_memory().expect("it was told before").saturating_sub(before);
    let text = request.user_text();
    let reason = "\"large.bin\" (application/octet-stream, 10 MB) is not shown: it can't be read as text.";
    assert!(text.contains(reason), "{text}");
    assert!(extra <= MAX_EXTRA_BYTES, "{extra} bytes more than for a small file");
}

/// The worker draws the page, confined as it is.
#[tokio::test]
async fn model_sees_one_page_of_a_document() {
    let harness = DocumentHarness::start().await;
    let pdf = &include_bytes!("../../../../apps/satchel-decoder/tests/corpus/pdf/newsletter-reportlab-columns.pdf")[..];
    let file = FakeFile::from_bytes("news.pdf", "application/pdf", pdf);
    harness.send(PersonMessage::file(FileKind::Document, file), "I have it.").await;
    let id = harness.id_of("news.pdf");
    let request = harness.call("attachment_view", &json!({ "id": id, "page": 1 }), "I see it.").await;
    let text = request.results().last().expect("the call has a result").text();
    assert!(text.contains("#1 news.pdf: page 1 is shown as a picture; its text:\n#1 news.pdf, page 1 of 1"), "{text}");
    let pictures: Vec<_> = request.files().into_iter().filter(|file| file.mime.starts_with("image/")).collect();
    let [picture] = &pictures[..] else { panic!("{pictures:?}") };
    let is_image = picture.bytes.starts_with(b"\x89PNG") || picture.bytes.starts_with(b"\xff\xd8");
    assert!(is_image && picture.bytes.len() > 20_000, "it is drawn large: {} B", picture.bytes.len());
    let request = harness.call("attachment_view", &json!({ "id": id, "page": 2 }), "There is none.").await;
    let text = request.results().last().expect("the call has a result").text();
    assert!(text.contains("argument `page`: 2 is behind the end; news.pdf has 1 page"), "{text}");
}
