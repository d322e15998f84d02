//! `attachment.download` in the built product: from a person's message to the workspace, and from there back out.

use std::sync::Arc;

use satchel_domain::Ending;
use satchel_fake_kit::FakeFile;
use satchel_local::{
    ModelScript, ScriptedModel,
    scripted_model::{AnswerOrder, ScriptedAnswer, ScriptedPiece},
};
use satchel_system::crash::ChannelAdapter;
use serde_json::{Value, json};

use crate::product::{Product, ProductSetup};

fn scripted_answer(when: &str, piece: ScriptedPiece) -> ScriptedAnswer {
    ScriptedAnswer { when: Some(when.to_owned()), pieces: vec![piece], ..ScriptedAnswer::default() }
}

fn call_piece(name: &str, arguments: Value) -> ScriptedPiece {
    ScriptedPiece::Call { name: name.to_owned(), arguments }
}

/// A person sends files, and asks for them later without naming any; the tool gets no argument, and the paths that it
/// answers with are what another tool needs.
#[tokio::test]
async fn earlier_files_download_without_arguments_and_are_resent() {
    let photo = FakeFile::photo("beach.jpg", 640, 480, 1, 300_000);
    let table = FakeFile::from_bytes("табель.csv", "text/csv", "a;b\n1;2\n");
    let path_of = |file: &FakeFile, extension: &str| {
        format!("/shared/Downloads/{}.{extension}", &file.sha256().to_string()[..10])
    };
    // The photo is a PNG, whatever its name says.
    let paths = [path_of(&photo, "png"), path_of(&table, "csv")];
    let answers = vec![
        scripted_answer("look", ScriptedPiece::Text("Seen.".to_owned())),
        scripted_answer("keep", call_piece("attachment.download", json!({}))),
        scripted_answer("keep", call_piece("attachment.add", json!({ "paths": paths }))),
        scripted_answer("keep", ScriptedPiece::Text("Kept.".to_owned())),
        scripted_answer("again", call_piece("attachment.download", json!({}))),
        scripted_answer("again", ScriptedPiece::Text("Still there.".to_owned())),
    ];
    let answered = answers.len();
    let model =
        Arc::new(ScriptedModel::new(ModelScript { pick: AnswerOrder::InOrder, answers }).with_request_log(answered));
    let product = Product::start(ProductSetup::for_platform(ChannelAdapter::Discord), Arc::clone(&model) as _).await;
    product.send("look", vec![photo.clone(), table.clone()]).await;
    let record = product.send("keep them", Vec::new()).await;
    assert_eq!((record.ending.as_ref(), record.routing_errors()), (Some(&Ending::Done), vec![]));
    let again = product.send("and again", Vec::new()).await;
    assert_eq!(again.ending, Some(Ending::Done));

    let transcript = product.platform.transcript();
    let sent_back = transcript.visible_files(&product.conversation).into_iter().filter(|file| file.form.is_some());
    let sent_back: Vec<_> = sent_back.map(|file| (file.filename.clone(), file.sha256)).collect();
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    assert_eq!(sent_back, [(name(&paths[0]), photo.sha256()), (name(&paths[1]), table.sha256())]);

    let said: Vec<String> = model.requests().iter().map(|request| format!("{request:?}")).collect();
    let last = said.last().expect("the model was asked");
    for path in &paths {
        assert!(last.matches(path.as_str()).count() >= 2, "both calls answer with {path}:\n{last}");
    }
    product.stop().await;
}
