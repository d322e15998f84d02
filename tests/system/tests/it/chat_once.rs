//! `satchel chat --once` as scripts use it: it answers its own message, whatever else waits in the conversation or runs in it.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, ReplyPiece};
use satchel_system::real_binary::{ProcessOutput, TestHome, run_to_end, type_lines, wait_for_exit};

/// How long a model writes, by its own clock.
const WRITING_TIME: Duration = Duration::from_secs(600);

const ALARM: &str = "The oven is hot.";

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary can be started")
}

/// What a chat prints that shows the conversation and is told one more thing.
fn show_conversation(home: &TestHome, line: &str) -> ProcessOutput {
    let mut command = home.satchel_command(&["chat"]);
    command.stdin(Stdio::piped());
    let mut child = spawn(command);
    type_lines(&mut child, &[line]);
    let output = wait_for_exit(child);
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    output
}

/// A home whose model is a server.
fn home_with_model(server: &FakeModelServer) -> TestHome {
    let home = TestHome::new();
    let (url, key) = (server.base_url(ModelWire::OpenAiChat), FakeModelServer::KEY);
    let model = ModelWire::OpenAiChat.model();
    home.write_file(
        "satchel.yaml",
        format!("models:\n  main: {{ provider: openai, base_url: '{url}', api_key: '{key}', model: '{model}' }}\n"),
    );
    home
}

fn once(home: &TestHome, text: &str) -> Command {
    home.satchel_command(&["chat", "--once", text, "--json"])
}

async fn answered(mut command: Command) -> ProcessOutput {
    let output = tokio::task::spawn_blocking(move || run_to_end(&mut command)).await.expect("it runs");
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    output
}

#[test]
fn notification_that_waits_is_left_to_a_chat_that_shows_it() {
    for form in [&["--json"][..], &[]] {
        let home = TestHome::new();
        assert_eq!(home.run_once("list my files", &[]).exit_code(), Some(0));
        let sent = home.run(&["send", "main", ALARM]);
        assert_eq!(sent.exit_code(), Some(0), "{sent:#?}");

        let own = home.run(&[&["chat", "--once", "what did I send"], form].concat());
        assert_eq!(own.exit_code(), Some(0), "{own:#?}");
        assert!(!own.stdout.contains(ALARM), "{form:?}: {own:#?}");
        let listed = home.run(&["outbox", "list"]);
        assert!(listed.stdout.contains(ALARM), "{form:?}: it still waits: {listed:#?}");

        let shown = show_conversation(&home, "list my files");
        assert!(shown.stdout.contains(ALARM), "{form:?}: {shown:#?}");
        let left = home.run(&["outbox", "list"]);
        assert!(left.stdout.starts_with("the outbox is empty"), "{form:?}: {left:#?}");
    }
}

#[test]
fn notification_that_waits_is_not_forgotten() {
    let home = TestHome::new();
    assert_eq!(home.run_once("list my files", &[]).exit_code(), Some(0));
    let sent = home.run(&["send", "main", ALARM]);
    assert_eq!(sent.exit_code(), Some(0), "{sent:#?}");
    assert_eq!(home.run(&["chat", "--once", "/forget all"]).exit_code(), Some(0));
    let refused = home.run(&["chat", "--once", "/forget all yes"]);
    assert!(refused.stdout.contains("Nothing was removed"), "{refused:#?}");
    let shown = show_conversation(&home, "list my files");
    assert!(shown.stdout.contains(ALARM), "{shown:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_of_killed_job_is_left_to_a_chat_that_shows_it() {
    let server = FakeModelServer::start().await.expect("a loopback port");
    let home = home_with_model(&server);
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("Too late.".to_owned())];
    server.reply(ModelReply::pieces(pieces).when("first"));
    let mut killed = spawn(once(&home, "the first job"));
    server.wait_until(|requests| requests.len() == 1).await.expect("the model is asked");
    killed.kill().expect("it runs");
    killed.wait().expect("it was killed");

    server.reply(ModelReply::text("Second answer.").when("second"));
    let second = answered(once(&home, "the second job")).await;
    assert_eq!(second.reply(), "Second answer.");
    assert!(!second.stdout.contains("first"), "{second:#?}");
    assert_eq!(server.requests().len(), 2, "nobody asked for the first job again");

    server.reply(ModelReply::text("First answer.").when("first"));
    server.reply(ModelReply::text("Third answer.").when("third"));
    // Steering would put a text into the turn that is taken up again; what is attached to it makes it a turn of its own.
    home.write_file("note.txt", "a note");
    let mut chat = home.satchel_command(&["chat"]);
    chat.stdin(Stdio::piped());
    let mut child = spawn(chat);
    type_lines(&mut child, &["/attach note.txt", "the third thing"]);
    let shown = tokio::task::spawn_blocking(move || wait_for_exit(child)).await.expect("it runs");
    assert_eq!(shown.exit_code(), Some(0), "{shown:#?}");
    assert!(shown.stdout.contains("First answer.") && shown.stdout.contains("Third answer."), "{shown:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_side_by_side_each_get_the_answer_to_their_own_message() {
    let server = FakeModelServer::start().await.expect("a loopback port");
    let home = home_with_model(&server);
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("Answer 1.".to_owned())];
    server.reply(ModelReply::pieces(pieces).when("job 1"));
    (2..=5).for_each(|job| server.reply(ModelReply::text(&format!("Answer {job}.")).when(&format!("job {job}"))));
    let first = spawn(once(&home, "job 1"));
    server.wait_until(|requests| requests.len() == 1).await.expect("the first one is under way");
    let others = (2..=5).map(|job| spawn(once(&home, &format!("job {job}"))));
    let jobs: Vec<Child> = std::iter::once(first).chain(others).collect();
    server.clock().advance(WRITING_TIME);
    for (job, child) in (1..).zip(jobs) {
        let output = tokio::task::spawn_blocking(move || wait_for_exit(child)).await.expect("it runs");
        assert_eq!(output.exit_code(), Some(0), "{output:#?}");
        assert_eq!(output.reply(), format!("Answer {job}."), "{output:#?}");
        let parts = output.json()["parts"].as_array().map_or(0, Vec::len);
        assert_eq!(parts, 1, "{output:#?}");
    }
    assert_eq!(server.requests().len(), 5, "each message was a turn of its own");
}

/// A chat in which an answer is being written.
#[tokio::test(flavor = "multi_thread")]
async fn job_beside_an_open_chat_is_no_part_of_the_chats_turn() {
    let server = FakeModelServer::start().await.expect("a loopback port");
    let home = home_with_model(&server);
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("A story.".to_owned())];
    server.reply(ModelReply::pieces(pieces).when("story"));
    server.reply(ModelReply::text("Job done.").when("job"));
    let mut chat = home.satchel_command(&["chat"]);
    chat.stdin(Stdio::piped());
    let mut chat = spawn(chat);
    type_lines(&mut chat, &["tell me a story"]);
    server.wait_until(|requests| requests.len() == 1).await.expect("the model is asked");
    let job = spawn(once(&home, "the job"));
    server.clock().advance(WRITING_TIME);
    let job = tokio::task::spawn_blocking(move || wait_for_exit(job)).await.expect("it runs");
    assert_eq!(job.exit_code(), Some(0), "{job:#?}");
    assert_eq!(job.reply(), "Job done.");
    let chat = tokio::task::spawn_blocking(move || wait_for_exit(chat)).await.expect("it runs");
    assert!(chat.stdout.contains("A story.") && !chat.stdout.contains("Job done."), "{chat:#?}");
}

/// What a job sends may be anything, also what looks like a command and what is one.
#[tokio::test(flavor = "multi_thread")]
async fn text_with_a_slash_and_task_wait_beside_a_busy_chat() {
    let server = FakeModelServer::start().await.expect("a loopback port");
    let home = home_with_model(&server);
    std::fs::create_dir(home.work_directory().join("playbooks")).expect("a new directory");
    home.write_file(
        "playbooks/tasks.yaml",
        "agents: [{ id: clerk, instructions: You count., actions: [{ id: count, prompt: Count the sheep. }] }]\n\
         tasks: [{ id: sheep, agent: clerk, action: count }]\n",
    );
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("A story.".to_owned())];
    server.reply(ModelReply::pieces(pieces).when("story"));
    server.reply(ModelReply::text("It rotates.").when("syslog"));
    server.reply(ModelReply::text("Nine."));
    let mut chat = home.satchel_command(&["chat"]);
    chat.stdin(Stdio::piped());
    let mut chat = spawn(chat);
    type_lines(&mut chat, &["tell me a story"]);
    server.wait_until(|requests| requests.len() == 1).await.expect("the model is asked");
    let jobs = [
        (spawn(once(&home, "/var/log/syslog grows, why?")), "It rotates."),
        (spawn(home.satchel_command(&["task", "run", "sheep", "--json"])), "Nine."),
    ];
    server.clock().advance(WRITING_TIME);
    for (job, answer) in jobs {
        let job = tokio::task::spawn_blocking(move || wait_for_exit(job)).await.expect("it runs");
        assert_eq!(job.exit_code(), Some(0), "{job:#?}");
        assert_eq!(job.reply(), answer);
    }
    let chat = tokio::task::spawn_blocking(move || wait_for_exit(chat)).await.expect("it runs");
    assert!(chat.stdout.contains("A story."), "{chat:#?}");
    assert!(!chat.stdout.contains("It rotates.") && !chat.stdout.contains("Nine."), "{chat:#?}");
    assert_eq!(server.requests().len(), 3, "each message was a turn of its own");
}
