//! Room for files: quotas that refuse by name, and files that people remove.

use std::sync::Arc;

use satchel_domain::Ending;
use satchel_fake_kit::FakeFile;
use satchel_ledger_sqlite::{QuotaRules, Settings, VerbSettings};
use satchel_local::{
    ModelScript, ScriptedModel,
    scripted_model::{AnswerOrder, ScriptedAnswer, ScriptedPiece},
};
use satchel_ports::ledger::Quotas;
use satchel_system::crash::ChannelAdapter;
use serde_json::json;

use crate::product::{Product, ProductSetup};

fn setup(conversation: u64) -> ProductSetup {
    let quotas = Quotas { conversation, person: 1 << 30 };
    let rules = QuotaRules { quotas, ..QuotaRules::default() };
    let verbs = VerbSettings { quotas: rules, ..VerbSettings::default() };
    let settings = Settings { verbs, ..Settings::default() };
    let mut setup = ProductSetup { settings, ..ProductSetup::for_platform(ChannelAdapter::Discord) };
    setup.behaviour.quotas = Some(quotas);
    setup
}

fn model(answers: Vec<ScriptedPiece>) -> Arc<ScriptedModel> {
    let request_count = answers.len();
    let answer = |piece| ScriptedAnswer { pieces: vec![piece], ..ScriptedAnswer::default() };
    let answers = answers.into_iter().map(answer).collect();
    Arc::new(ScriptedModel::new(ModelScript { pick: AnswerOrder::InOrder, answers }).with_request_log(request_count))
}

fn text_piece(text: &str) -> ScriptedPiece {
    ScriptedPiece::Text(text.to_owned())
}

fn file(name: &str, bytes: usize) -> FakeFile {
    FakeFile::from_bytes(name, "text/plain", "a".repeat(bytes))
}

#[tokio::test(flavor = "multi_thread")]
async fn full_quota_refuses_files_until_one_is_forgotten() {
    let model = model(vec![text_piece("one"), text_piece("two"), text_piece("three")]);
    let product = Product::start(setup(1_000), Arc::clone(&model) as _).await;
    product.send("keep this", vec![file("first.txt", 900)]).await;
    product.send("and this", vec![file("second.txt", 400)]).await;
    let full = "this conversation's storage is full: 900 B of 1 KB are used, and this needs 400 B";
    let read = format!("{:?}", model.requests()[1]);
    assert!(read.contains("second.txt") && read.contains(full), "the model reads why: {read}");
    let told = product.texts().join("\n");
    assert!(told.contains("second.txt") && told.contains(full) && told.contains("`/forget NUMBER`"), "{told}");

    product.send("/usage", Vec::new()).await;
    let shown = product.texts().pop().unwrap_or_default();
    assert!(shown.starts_with("Here: 1 file, 900 B of 1 KB\n") && shown.contains("#1 `first.txt`"), "{shown}");
    product.send("/forget 1", Vec::new()).await;
    assert_eq!(product.texts().pop().as_deref(), Some("Removed #1 (text/plain, 900 B)."));
    product.send("now", vec![file("third.txt", 400)]).await;
    let read = format!("{:?}", model.requests()[2]);
    assert!(read.contains("third.txt") && !read.contains("first.txt"), "its name is gone from the history: {read}");
    product.send("/resend 1", Vec::new()).await;
    let answer = product.texts().pop().unwrap_or_default();
    assert!(answer.contains("#1 was removed for good"), "{answer}");
    product.send("/files", Vec::new()).await;
    let listed = product.texts().pop().unwrap_or_default();
    assert!(listed.contains("#2 `third.txt`") && !listed.contains("#1 "), "{listed}");
    product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_files_over_quota_are_reported_to_model() {
    let call = |name: &str, arguments| ScriptedPiece::Call { name: name.to_owned(), arguments };
    let model = model(vec![
        call("file_write", json!({ "path": "report.txt", "content": "a".repeat(700) })),
        call("attachment.add", json!({ "path": "report.txt" })),
        text_piece("It did not fit."),
    ]);
    let product = Product::start(setup(500), Arc::clone(&model) as _).await;
    let record = product.send("write a report", Vec::new()).await;
    assert_eq!(record.ending, Some(Ending::Done));
    let read = format!("{:?}", model.requests().last().expect("the model was asked"));
    assert!(read.contains("report.txt") && read.contains("could not be stored and will not be delivered"), "{read}");
    assert!(read.contains("0 B of 500 B are used, and this needs 700 B"), "{read}");
    assert_eq!(product.texts().pop().as_deref(), Some("It did not fit."));
    assert_eq!(product.platform.transcript().visible_files(&product.conversation).len(), 0);
    product.stop().await;
}
