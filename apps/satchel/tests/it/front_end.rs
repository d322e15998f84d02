//! The guide's program from a message to what hangs on the board, and its tool.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use satchel::embed::{
    ExtraTool, ModelScript, Ports, Satchel, SatchelOptions, ScriptedModel, build,
    domain::{InboundMessage, Sender},
    ports::ledger::OutboxQuery,
    scripted_model::{ScriptedAnswer, ScriptedPiece},
};
use satchel_wait::wait_until_async;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{board::Board, dice::Dice, run::run};

/// The files of all messages on the board, by name.
fn files(messages: &Path) -> BTreeMap<String, String> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    let messages: Vec<_> = entries(&messages.join("board=hall"));
    let files = messages.iter().flat_map(|message| -> Vec<_> { entries(message) });
    let named = files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path)));
    named.map(|(name, content)| (name, content.unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_hangs_on_the_board_once() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        // The second run brings the same message again, with the same key.
        run(directory.path()).await.unwrap();
        let files = files(&directory.path().join("messages"));
        assert_eq!(files.get("1-plan.txt").map(String::as_str), Some("to the mountains\n"), "{files:?}");
        assert!(files.len() == 2 && files.contains_key("text.md"), "{files:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_gives_the_person_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let answer = |pieces| ScriptedAnswer { pieces, ..ScriptedAnswer::default() };
    let call = ScriptedPiece::Call { name: "dice".to_owned(), arguments: json!({"count": 3}) };
    let answers = vec![answer(vec![call]), answer(vec![ScriptedPiece::Text("Here they are.".to_owned())])];
    let model = Arc::new(ScriptedModel::new(ModelScript { answers, ..ModelScript::default() }));
    let ports = Ports::local(&directory.path().join("data"), model).await.unwrap();
    let (archive, blobs) = (Arc::clone(&ports.ledger.archive), Arc::clone(&ports.blobs));
    let messages = directory.path().join("messages");
    let board = Board { directory: messages.clone(), blobs: Arc::clone(&blobs) };
    let dice = Dice { blobs };
    let ports = ports.channel(Arc::new(board)).tool(ExtraTool::without_paths(Arc::new(dice)));
    let Satchel { inbound, runner, .. } = build(ports, SatchelOptions::default()).unwrap();
    let stop = CancellationToken::new();
    let working = tokio::spawn(runner.run(stop.clone()));
    let message = InboundMessage {
        text: "roll three dice".to_owned(),
        ..InboundMessage::new("board:hall".parse().unwrap(), "1".to_owned(), Sender::new("7", "Ada"))
    };
    let turn = inbound.accept(message).await.unwrap().unwrap();
    let unsettled = OutboxQuery { unsettled_only: true, ..OutboxQuery::default() };
    wait_until_async("the turn is over and delivered", async || {
        archive.turn(turn).await.unwrap().is_some_and(|turn| turn.ending.is_some())
            && archive.parts(&unsettled).await.unwrap().is_empty()
    })
    .await;
    stop.cancel();
    working.await.unwrap();
    let rolls = &files(&messages)["1-rolls.txt"];
    assert_eq!(rolls.lines().map(|roll| roll.parse::<u64>().unwrap()).filter(|roll| (1..=6).contains(roll)).count(), 3);
}
