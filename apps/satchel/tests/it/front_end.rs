//! The guide's program from a message to what hangs on the board, and its tool.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    sync::Arc,
    thread,
};

use async_trait::async_trait;
use satchel::embed::{
    ExtraTool, FetchSettings, HttpFetcher, ModelScript, Ports, Satchel, SatchelOptions, ScriptedModel, build,
    domain::{Filename, InboundMessage, Sender, ToolOutcome, reference_block::AttachmentReference},
    ports::{
        Blobs, SafetyTier, Tool, ToolContext, ToolError, ToolSpec, Turns,
        ledger::{AttachmentQuery, OutboxQuery},
    },
    scripted_model::{ScriptedAnswer, ScriptedPiece},
};
use satchel_wait::wait_until_async;
use serde_json::{Value, json};
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

/// A model that makes a call and then says this, and keeps its requests.
fn model_that_calls(name: &str, arguments: Value, text: &str) -> Arc<ScriptedModel> {
    let answer = |piece| ScriptedAnswer { pieces: vec![piece], ..ScriptedAnswer::default() };
    let call = ScriptedPiece::Call { name: name.to_owned(), arguments };
    let answers = vec![answer(call), answer(ScriptedPiece::Text(text.to_owned()))];
    Arc::new(ScriptedModel::new(ModelScript { answers, ..ModelScript::default() }).with_request_log(2))
}

/// Runs the turn of a message until its reply is delivered.
async fn run_turn(ports: Ports, options: SatchelOptions, message: InboundMessage) {
    let archive = Arc::clone(&ports.ledger.archive);
    let Satchel { inbound, runner, .. } = build(ports, options).unwrap();
    let stop = CancellationToken::new();
    let working = tokio::spawn(runner.run(stop.clone()));
    let turn = inbound.accept(message).await.unwrap().unwrap();
    let unsettled = OutboxQuery { unsettled_only: true, ..OutboxQuery::default() };
    wait_until_async("the turn is over and delivered", async || {
        archive.turn(turn).await.unwrap().is_some_and(|turn| turn.ending.is_some())
            && archive.parts(&unsettled).await.unwrap().is_empty()
    })
    .await;
    stop.cancel();
    working.await.unwrap();
}

fn message(text: &str) -> InboundMessage {
    InboundMessage {
        text: text.to_owned(),
        ..InboundMessage::new("board:hall".parse().unwrap(), "1".to_owned(), Sender::new("7", "Ada"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_gives_the_person_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let model = model_that_calls("dice", json!({"count": 3}), "Here they are.");
    let ports = Ports::local(&directory.path().join("data"), model).await.unwrap();
    let blobs = Arc::clone(&ports.blobs);
    let messages = directory.path().join("messages");
    let board = Board { directory: messages.clone(), blobs: Arc::clone(&blobs) };
    let dice = Dice { blobs };
    let ports = ports.channel(Arc::new(board)).tool(ExtraTool::without_paths(Arc::new(dice)));
    run_turn(ports, SatchelOptions::default(), message("roll three dice")).await;
    let rolls = &files(&messages)["1-rolls.txt"];
    assert_eq!(rolls.lines().map(|roll| roll.parse::<u64>().unwrap()).filter(|roll| (1..=6).contains(roll)).count(), 3);
}

/// A tool that stores and records a file, and says nothing of it.
struct Hoard {
    blobs: Arc<dyn Blobs>,
    turns: Arc<dyn Turns>,
}

#[async_trait]
impl Tool for Hoard {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "hoard".to_owned(),
            description: "Keeps a file.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
            tier: SafetyTier::SideEffecting,
            time_limit: None,
        }
    }

    async fn call(&self, _: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let file = context.store_file(&*self.blobs, Filename::from_untrusted("hoard.txt"), "gold").await.unwrap();
        self.turns.register_files(context.call.turn, &[file]).await.unwrap();
        Ok(ToolOutcome::from_text("kept"))
    }
}

/// A response is folded from outcomes and planned as it is: what waits anywhere else is delivered by nothing.
#[tokio::test(flavor = "multi_thread")]
async fn file_that_no_outcome_names_is_not_delivered() {
    let directory = tempfile::tempdir().unwrap();
    let model = model_that_calls("hoard", json!({}), "All is kept.");
    let ports = Ports::local(&directory.path().join("data"), model).await.unwrap();
    let archive = Arc::clone(&ports.ledger.archive);
    let messages = directory.path().join("messages");
    let board = Board { directory: messages.clone(), blobs: Arc::clone(&ports.blobs) };
    let hoard = Hoard { blobs: Arc::clone(&ports.blobs), turns: Arc::clone(&ports.ledger.turns) };
    let ports = ports.channel(Arc::new(board)).tool(ExtraTool::without_paths(Arc::new(hoard)));
    run_turn(ports, SatchelOptions::default(), message("keep the gold")).await;
    let known = archive.attachments(&AttachmentQuery::default()).await.unwrap();
    assert_eq!(known.iter().map(|file| file.filename.as_str()).collect::<Vec<_>>(), ["hoard.txt"]);
    assert_eq!(files(&messages), BTreeMap::from([("text.md".to_owned(), "All is kept.".to_owned())]));
}

/// Serves a text under any path of this machine, and returns its address.
fn serve(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            let _lines = head.take_while(|line| !line.is_empty()).count();
            let length = text.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            let _is_heard = stream.write_all(format!("{head}{text}").as_bytes());
        }
    });
    format!("http://{address}")
}

/// As the guide says it: the message names an address, the options its host, and the model fetches the file.
#[tokio::test(flavor = "multi_thread")]
async fn referenced_file_is_named_to_the_model_and_fetched() {
    let address = serve("to the mountains\n");
    for (download_hosts, expected) in [
        (vec!["127.0.0.1".to_owned()], "to the mountains\n"),
        (vec!["files.example.org".to_owned()], "files from 127.0.0.1 are not fetched here"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let model = model_that_calls("attachment.download", json!({"downloadDir": "/shared/in"}), "Fetched.");
        let ports = Ports::local(&directory.path().join("data"), Arc::clone(&model) as _).await.unwrap();
        let board = Board { directory: directory.path().join("messages"), blobs: Arc::clone(&ports.blobs) };
        let settings = FetchSettings { allowed: vec!["127.0.0.0/8".parse().unwrap()], ..FetchSettings::default() };
        let ports = Ports { fetcher: Arc::new(HttpFetcher::new(settings)), ..ports }.channel(Arc::new(board));
        let references = vec![AttachmentReference::new(format!("{address}/plan.txt?signature=secret"))];
        let options = SatchelOptions { download_hosts, ..SatchelOptions::default() };
        run_turn(ports, options, InboundMessage { references, ..message("read the plan") }).await;
        let requests = model.requests();
        let [first, second] =
            requests.iter().map(|request| format!("{:?}", request.messages)).collect::<Vec<_>>().try_into().unwrap();
        assert!(
            first.contains("The message names 1 file that is not fetched yet.") && first.contains("plan.txt"),
            "{first}"
        );
        assert!(!first.contains("secret") && !second.contains("secret"), "{second}");
        let fetched = fs::read_dir(directory.path().join("data/workspaces/board=hall/shared/in"));
        let fetched = fetched.into_iter().flatten().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        assert!(second.contains(expected) || fetched.collect::<Vec<_>>() == [expected], "{second}");
    }
}
