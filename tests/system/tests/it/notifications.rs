//! What other programs send with `satchel send`, as Ann gets it on Telegram from the real binary.

use std::{
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

use satchel_fake_model::{ModelReply, ReplyPiece};
use satchel_system::real_binary::{ProcessOutput, run_to_end, wait_for_exit};

use crate::day::{
    harness::{DayHarness, TestChat},
    telegram::TelegramChat,
    text_reply,
};

const CHAT: &str = "telegram:41";

/// How long the model writes, by its own clock.
const WRITING_TIME: Duration = Duration::from_secs(600);

type Harness = DayHarness<TelegramChat>;

/// A server to which Ann has written.
async fn started() -> Harness {
    let mut harness = DayHarness::new(TelegramChat::open().await).await;
    harness.start().await;
    greet(&harness).await;
    harness
}

async fn greet(harness: &Harness) {
    harness.model.reply(text_reply("Good morning."));
    harness.chat.send("hello");
    harness.wait_for_text("Good morning.").await;
}

fn send(harness: &Harness, arguments: &[&str]) -> ProcessOutput {
    let arguments: Vec<&str> = ["send"].into_iter().chain(arguments.iter().copied()).collect();
    run_to_end(&mut harness.command_line(&arguments))
}

fn assert_sent(output: &ProcessOutput) {
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
}

/// The output of a program that reads this from its standard input.
fn run_with_input(command: &mut Command, input: &[u8]) -> ProcessOutput {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the binary can be started");
    child.stdin.take().expect("it is piped").write_all(input).expect("it reads its input");
    wait_for_exit(child)
}

fn count(harness: &Harness, text: &str) -> usize {
    harness.chat.texts().iter().filter(|sent| sent.contains(text)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn notification_arrives_once_and_the_model_knows_it() {
    let harness = started().await;
    harness.write_local_file("report.txt", b"all is well");
    let arguments = [CHAT, "The backup is *done*.", "--attach", "report.txt", "--key", "backup/1", "--json"];
    let first = send(&harness, &arguments);
    assert_sent(&first);
    assert_eq!((&first.json()["running"], &first.json()["conversation"]), (&true.into(), &CHAT.into()));
    harness.wait_for_text("The backup is done.").await;
    harness.wait_for_file("report.txt", 1).await;
    let second = send(&harness, &arguments);
    assert_sent(&second);
    assert_eq!(second.json()["turn"], first.json()["turn"]);

    let other = send(&harness, &[CHAT, "The backup failed.", "--key", "backup/1"]);
    assert_eq!(other.exit_code(), Some(2), "{other:#?}");
    assert!(other.stderr.contains("the key `backup/1` belongs to another message"), "{other:#?}");
    let piped = run_with_input(&mut harness.command_line(&["send", CHAT, "-"]), b"from a pipe\n");
    assert_sent(&piped);
    harness.wait_for_text("from a pipe").await;

    harness.model.reply(text_reply("It worked."));
    harness.chat.send("did it work?");
    harness.wait_for_text("It worked.").await;
    let request = harness.last_request();
    assert!(request.contains("Another program sent this"), "{request}");
    assert!(request.contains("> The backup is *done*.") && request.contains("report.txt"), "{request}");
    let texts = (count(&harness, "The backup is done."), count(&harness, "The backup failed."));
    assert_eq!(texts, (1, 0), "{:?}", harness.chat.texts());
    assert_eq!(harness.model.requests().len(), 2, "no model is asked for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_it_waits_and_a_kill_sends_it_once() {
    let mut harness = started().await;
    harness.stop().await;
    let sent = send(&harness, &[CHAT, "The disk is full."]);
    assert_sent(&sent);
    assert!(sent.stderr.contains("Satchel is not running with this data") && sent.stderr.contains("`satchel run`"));
    harness.start().await;
    harness.wait_for_text("The disk is full.").await;
    harness.kill().await;
    harness.start().await;
    greet(&harness).await;
    assert_eq!(count(&harness, "The disk is full."), 1, "{:?}", harness.chat.texts());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_behind_the_answer_that_is_written() {
    let harness = started().await;
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("A long answer.".to_owned())];
    harness.model.reply(ModelReply::pieces(pieces));
    harness.chat.send("tell me a story");
    harness.wait_until("the request", |_| harness.model.requests().len() == 2).await;
    assert_sent(&send(&harness, &[CHAT, "The backup is done."]));
    // Until then it could belong to the question.
    tokio::time::sleep(Duration::from_millis(600)).await;
    harness.chat.send("and another one");
    harness.model.reply(text_reply("A second answer."));
    harness.model.clock().advance(WRITING_TIME);
    harness.wait_for_text("A second answer.").await;
    let texts = harness.chat.texts();
    let place = |text: &str| {
        let place = texts.iter().position(|sent| sent.contains(text));
        place.unwrap_or_else(|| panic!("{text:?} isn't among {texts:?}"))
    };
    assert!(place("A long answer.") < place("The backup is done."), "{texts:?}");
    assert!(place("The backup is done.") < place("A second answer."), "{texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_sent_is_refused_by_name() {
    let harness = started().await;
    for (arguments, reason) in [
        (&["telegram:42", "x"][..], "there is no conversation `telegram:42`"),
        (&[CHAT, ""], "there is nothing to send"),
        (&[CHAT, "x", "--attach", "none.txt"], "failed to read `none.txt`"),
        (&[CHAT, "x", "--attach", "."], "failed to read `.`"),
        (&[CHAT, "-", "--attach", "-"], "`-` can be used once"),
        (&[CHAT, "x", "--key", "a b"], "a key consists of"),
        (&["--set", "attachments.max_inbound_file_bytes=1MB", CHAT, "--attach", "/dev/zero"], "the limit of 1 MB"),
    ] {
        let refused = send(&harness, arguments);
        assert_ne!(refused.exit_code(), Some(0), "{arguments:?}");
        assert!(refused.stderr.contains(reason), "{arguments:?}: {}", refused.stderr);
    }
    let long = run_with_input(&mut harness.command_line(&["send", CHAT, "-"]), &vec![b'x'; 100_001]);
    assert!(long.stderr.contains("longer than 100 KB; send it as a file"), "{long:#?}");
    assert_eq!(harness.chat.texts().len(), 1, "{:?}", harness.chat.texts());
}
