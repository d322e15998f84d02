//! The terminal as a person uses it: through a pipe, and on a real terminal where tmux can make one.

mod terminal;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use satchel_system::real_binary::{Household, Ran, await_end, type_lines};
use serde_json::Value;

/// Starts `satchel chat` on pipes.
fn chat(household: &Household) -> Child {
    let mut command = household.satchel(&["chat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary can be started")
}

/// What is typed, to the end of the input, and what comes of it.
fn converse(household: &Household, lines: &[&str]) -> Ran {
    let mut child = chat(household);
    type_lines(&mut child, lines);
    await_end(child)
}

/// Sends a signal to one process.
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{name} was sent");
}

/// Waits until something is so.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn outbox(household: &Household) -> Vec<Value> {
    let listed = household.run(&["outbox", "list", "--all", "--json"]);
    listed.assert_orderly("outbox");
    // Before the conversation has begun there is no data to look at.
    if listed.code() == Some(1) && listed.stderr.contains("there is no data in") {
        return Vec::new();
    }
    listed.json().as_array().cloned().unwrap_or_default()
}

fn states(household: &Household) -> Vec<String> {
    outbox(household).iter().map(|part| part["state"]["state"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn piped_conversation_is_answered_in_order_with_files() {
    let household = Household::new();
    household.file("a.txt", "the a");
    household.file("my photo.txt", "the photo");
    let mut command = household.satchel(&["chat"]);
    let screen = household.root().join("screen");
    command.stdin(Stdio::piped()).stdout(std::fs::File::create(&screen).expect("a file")).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    let shown = || std::fs::read_to_string(&screen).unwrap_or_default();
    // Each is said once the answer before it is there: what comes meanwhile is put into the running turn.
    for (said, answered) in [
        ("/attach a.txt", "+ a.txt (5 B)"),
        ("/attach 'my photo.txt'", "2 files go with your next message"),
        ("save all to trip", "`/shared/trip/my photo.txt` (9 B)"),
        ("list /shared/trip", "In `/shared/trip`:"),
        ("send me a.txt", "-a.txt"),
        ("/files", "To get one back, send `/resend` and its number."),
    ] {
        let before = shown().len();
        type_lines(&mut child, &[said]);
        until(answered, || shown().get(before..).is_some_and(|more| more.contains(answered)));
        until("all of the answer is sent", || states(&household).iter().all(|state| state == "sent"));
    }
    let ran = await_end(child);
    ran.assert_orderly("a conversation");
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    let delivered: Vec<String> = std::fs::read_dir(household.work().join("files"))
        .expect("a file came back")
        .flatten()
        .map(|entry| std::fs::read_to_string(entry.path()).expect("it can be read"))
        .collect();
    assert_eq!(delivered, ["the a"]);
}

#[test]
fn unattachable_file_is_reported_and_conversation_continues() {
    let household = Household::new();
    let ran = converse(&household, &["/attach gone.txt", "/attach", "/nonsense", "list my files", "/quit"]);
    ran.assert_orderly("complaints");
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    let shown = format!("{}{}", ran.stdout, ran.stderr);
    assert!(shown.contains("gone.txt was not attached: there is no such file"), "{shown}");
}

/// Killed at any moment after its message was taken, the reply is complete after the next start, every file once.
#[test]
fn killed_chat_is_completed_by_next_one() {
    for wait_ms in [0, 5, 15, 30, 60, 120] {
        let household = Household::new();
        household.file("a.bin", (0..2_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761) as u8).collect::<Vec<u8>>());
        let mut child = chat(&household);
        type_lines(&mut child, &["/attach a.bin", "save this as kept.bin and send it back"]);
        let wal = household.data().join("satchel.db-wal");
        until("the message is taken", || std::fs::read(&wal).is_ok_and(|log| find(&log, b"and send it back")));
        std::thread::sleep(Duration::from_millis(wait_ms));
        signal(&child, "-KILL");
        let killed = await_end(child);
        let before = killed.stdout.matches("On its way").count();

        // The next one has nothing to say; it only finds the work.
        let mut child = chat(&household);
        let mut all = Vec::new();
        until("the reply is complete", || {
            all = states(&household);
            all.len() >= 2 && all.iter().all(|state| state == "sent" || state == "replaced")
        });
        type_lines(&mut child, &["/quit"]);
        let next = await_end(child);
        next.assert_orderly("the next start");
        assert_eq!(next.code(), Some(0), "{wait_ms}: {next:#?}");

        let delivered: Vec<_> =
            std::fs::read_dir(household.work().join("files")).expect("a file came back").flatten().collect();
        assert_eq!(delivered.len(), 1, "{wait_ms}: the file stands there once: {delivered:?}");
        let (sent, back) = (household.work().join("a.bin"), delivered[0].path());
        assert!(std::fs::read(sent).ok() == std::fs::read(back).ok(), "{wait_ms}: it is the same file");
        let kept = household.data().join("workspaces/console=main/shared/kept.bin");
        // A save that was under way is not repeated by itself; then the reply says so.
        let unknown = next.stdout.contains("outcome unknown");
        assert!(kept.is_file() || unknown, "{wait_ms}: it was saved, or that is in doubt and told: {next:#?}");
        let after = next.stdout.matches("On its way").count();
        assert!(before + after >= 1, "{wait_ms}: the text was shown: {killed:#?} {next:#?}");
        if before + after > 1 {
            assert!(
                next.stdout.contains("possible duplicate"),
                "{wait_ms}: a repeat says that it may be one: {next:#?}"
            );
        }
    }
}

fn find(within: &[u8], words: &[u8]) -> bool {
    within.windows(words.len()).any(|window| window == words)
}

#[test]
fn a_graceful_stop_leaves_nothing_in_doubt() {
    for (name, wait_ms) in [("-TERM", 0), ("-TERM", 20), ("-TERM", 60), ("-TERM", 200), ("-INT", 200)] {
        let household = Household::new();
        household.file("a.bin", vec![5; 3_000_000]);
        let mut child = chat(&household);
        let lines = ["/attach a.bin", "save this as a.bin and send it back", "list my files", "send everything"];
        type_lines(&mut child, &lines);
        let wal = household.data().join("satchel.db-wal");
        until("a message is taken", || std::fs::read(&wal).is_ok_and(|log| find(&log, b"and send it back")));
        std::thread::sleep(Duration::from_millis(wait_ms));
        signal(&child, name);
        let ran = await_end(child);
        let case = format!("{name} after {wait_ms} ms");
        ran.assert_orderly(&case);
        assert_eq!(ran.code(), Some(0), "{case}: {ran:#?}");
        for state in states(&household) {
            assert!(!["sending", "in_doubt"].contains(&state.as_str()), "{case}: a part is {state}");
        }
        let next = household.run(&["chat", "--once", "what did I send", "--json"]);
        assert_eq!(next.code(), Some(0), "{case}: {next:#?}");
        assert!(!next.stdout.contains("possible duplicate"), "{case}: {next:#?}");
        let left = states(&household).into_iter().filter(|state| state != "sent" && state != "replaced").count();
        assert_eq!(left, 0, "{case}: what was left is delivered by the next");
    }
}

/// Runs `chat` with these arguments and this on standard input.
fn piped(household: &Household, arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = household.satchel(&["chat"]);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    child.stdin.as_mut().expect("standard input is piped").write_all(input).expect("it is read");
    await_end(child)
}

#[test]
fn standard_input_reaches_the_message_of_once() {
    let household = Household::new();
    let appended = piped(&household, &["--once", "write a.txt:", "--json"], b"from a pipe\n");
    assert_eq!(appended.code(), Some(0), "{appended:#?}");
    let alone = piped(&household, &["--once", "--json"], b"list my files\n");
    assert_eq!((alone.code(), alone.stderr.as_str()), (Some(0), ""), "{alone:#?}");
    let ledger = std::fs::read(household.data().join("satchel.db-wal")).unwrap_or_default();
    let ledger = [ledger, std::fs::read(household.data().join("satchel.db")).expect("it exists")].concat();
    assert!(find(&ledger, b"write a.txt:\\n\\nfrom a pipe") || find(&ledger, b"write a.txt:\n\nfrom a pipe"));
    assert!(find(&ledger, b"list my files"));
    let nothing = household.run(&["chat", "--once"]);
    assert_eq!(nothing.code(), Some(2), "{nothing:#?}");
    assert!(nothing.stderr.contains("there is no message"), "{nothing:#?}");
}

/// Catches: a command that waits in silence for the end of a pipe that somebody keeps open.
#[test]
fn open_standard_input_is_named_while_waiting() {
    let household = Household::new();
    let mut command = household.satchel(&["chat", "--once", "list my files"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a log is UTF-8");
    assert!(line.starts_with("waiting for the end of standard input"), "{line}");
    drop(child.stdin.take());
    assert_eq!(await_end(child).code(), Some(0));
}

#[test]
fn attached_stdin_leaves_no_copy() {
    let household = Household::new();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.wrapping_mul(2_654_435_761) as u8).collect();
    let saved = piped(&household, &["--once", "save this as kept.bin", "--attach", "-", "--json"], &bytes);
    assert_eq!(saved.code(), Some(0), "{saved:#?}");
    let kept = std::fs::read(household.data().join("workspaces/console=main/shared/kept.bin"));
    assert!(kept.is_ok_and(|kept| kept == bytes), "{saved:#?}");
    let names = std::fs::read_dir(household.data()).expect("it exists").flatten().map(|entry| entry.file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().starts_with("stdin-")));
}

#[test]
fn banner_goes_to_standard_error() {
    let ran = converse(&Household::new(), &["/quit"]);
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    assert!(ran.stderr.contains("Satchel · ") && ran.stderr.contains("data in "), "{ran:#?}");
    assert_eq!(ran.stdout, "", "{ran:#?}");
}
