//! The terminal as a person uses it: through a pipe, and on a real terminal where tmux can make one.

mod terminal;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use satchel_system::real_binary::{ProcessOutput, TestHome, type_lines, wait_for_exit, workspace_root};
use serde_json::Value;

/// Starts `satchel chat` on pipes.
fn start_chat(home: &TestHome) -> Child {
    let mut command = home.satchel_command(&["chat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary can be started")
}

/// What is typed, to the end of the input, and what comes of it.
fn run_chat(home: &TestHome, lines: &[&str]) -> ProcessOutput {
    let mut child = start_chat(home);
    type_lines(&mut child, lines);
    wait_for_exit(child)
}

/// Sends a signal to one process.
fn send_signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "{name} was sent");
}

/// Waits until something is so.
fn wait_until(condition: &str, mut is_met: impl FnMut() -> bool) {
    let started_at = Instant::now();
    while !is_met() {
        assert!(started_at.elapsed() < Duration::from_secs(30), "never: {condition}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn list_outbox(home: &TestHome) -> Vec<Value> {
    let output = home.run(&["outbox", "list", "--all", "--json"]);
    output.assert_no_crash("outbox");
    // Before the conversation has begun there is no data to look at.
    if output.exit_code() == Some(1) && output.stderr.contains("there is no data in") {
        return Vec::new();
    }
    output.json().as_array().cloned().unwrap_or_default()
}

fn part_states(home: &TestHome) -> Vec<String> {
    list_outbox(home).iter().map(|part| part["state"]["state"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What the README shows of the second day, without lines that depend on the time and the directory.
#[test]
fn second_day_of_the_readme_is_what_a_terminal_shows() {
    let readme = std::fs::read_to_string(workspace_root().join("README.md")).expect("there is a README");
    let day = readme.split_once("## The second day").expect("it has a second day").1;
    let transcript = day.split("```").nth(1).expect("it is shown").split_once('\n').expect("it has lines").1;
    let home = TestHome::new();
    let mut command = home.satchel_command(&["chat"]);
    let screen = home.root().join("screen");
    command.stdin(Stdio::piped()).stdout(std::fs::File::create(&screen).expect("a file")).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    let mut shown = 0;
    for exchange in transcript.split("you › ").skip(1) {
        let (typed, reply) = exchange.split_once('\n').expect("there is a reply");
        let before = std::fs::metadata(&screen).map_or(0, |screen| screen.len() as usize);
        type_lines(&mut child, &[typed]);
        // Through a pipe there are no lines about who speaks and which tool runs.
        let is_other = |line: &&str| {
            let depends = line.contains("2026-") || line.contains("/tmp/") || line.starts_with("Reminder: ");
            line.is_empty() || depends || line.starts_with('·') || line.starts_with("satchel ›")
        };
        for line in reply.lines().map(str::trim).filter(|line| !is_other(line)) {
            // A terminal shows Markdown without its marks.
            let unmarked = |text: &str| text.replace(['`', '*'], "");
            wait_until(line, || {
                let text = std::fs::read_to_string(&screen).unwrap_or_default();
                unmarked(text.get(before..).unwrap_or_default()).contains(&unmarked(line))
            });
            shown += 1;
        }
        wait_until("the reply is delivered", || part_states(&home).iter().all(|state| state == "sent"));
    }
    assert!(shown > 6, "{shown} lines are compared");
    assert_eq!(wait_for_exit(child).exit_code(), Some(0));
}

#[test]
fn reminder_comes_in_this_session_or_in_the_next_one() {
    let home = TestHome::new();
    let mut command = home.satchel_command(&["chat"]);
    let screen = home.root().join("screen");
    command.stdin(Stdio::piped()).stdout(std::fs::File::create(&screen).expect("a file")).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    let shows = |text: &str| std::fs::read_to_string(&screen).unwrap_or_default().contains(text);
    type_lines(&mut child, &["/remind in 1s tea"]);
    wait_until("the reminder comes", || shows("Reminder: tea"));
    type_lines(&mut child, &["/remind in 1s bread"]);
    let first = wait_for_exit(child);
    assert_eq!(first.exit_code(), Some(0), "{first:#?}");
    let mut next = start_chat(&home);
    let output = BufReader::new(next.stdout.take().expect("it is piped"));
    let is_for_bread = |line: &String| line.contains("Reminder: bread");
    // It ends with the session only if the one before has shown it.
    let has_come = shows("Reminder: bread") || output.lines().map_while(Result::ok).any(|line| is_for_bread(&line));
    assert!(has_come, "what fell due between the two sessions comes in the next one");
    let second = wait_for_exit(next);
    assert_eq!(second.exit_code(), Some(0), "{second:#?}");
}

#[test]
fn piped_conversation_is_answered_in_order_with_files() {
    let home = TestHome::new();
    home.write_file("a.txt", "the a");
    home.write_file("my photo.txt", "the photo");
    let mut command = home.satchel_command(&["chat"]);
    let screen = home.root().join("screen");
    command.stdin(Stdio::piped()).stdout(std::fs::File::create(&screen).expect("a file")).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    let read_screen = || std::fs::read_to_string(&screen).unwrap_or_default();
    // Each is said once the answer before it is there: what comes meanwhile is put into the running turn.
    for (said, answered) in [
        ("/attach a.txt", "+ a.txt (5 B)"),
        ("/attach 'my photo.txt'", "2 files go with your next message"),
        ("save all to trip", "`/shared/trip/my photo.txt` (9 B)"),
        ("list /shared/trip", "In `/shared/trip`:"),
        ("send me a.txt", "-a.txt"),
        ("/files", "To get one back, send `/resend` and its number."),
    ] {
        let before = read_screen().len();
        type_lines(&mut child, &[said]);
        wait_until(answered, || read_screen().get(before..).is_some_and(|more| more.contains(answered)));
        wait_until("all of the answer is sent", || part_states(&home).iter().all(|state| state == "sent"));
    }
    let output = wait_for_exit(child);
    output.assert_no_crash("a conversation");
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let delivered: Vec<String> = std::fs::read_dir(home.work_directory().join("files"))
        .expect("a file came back")
        .flatten()
        .map(|entry| std::fs::read_to_string(entry.path()).expect("it can be read"))
        .collect();
    assert_eq!(delivered, ["the a"]);
}

#[test]
fn unattachable_file_is_reported_and_conversation_continues() {
    let home = TestHome::new();
    let output = run_chat(&home, &["/attach gone.txt", "/attach", "/nonsense", "list my files", "/quit"]);
    output.assert_no_crash("complaints");
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let shown = format!("{}{}", output.stdout, output.stderr);
    assert!(shown.contains("gone.txt was not attached: there is no such file"), "{shown}");
}

/// Killed at any moment after its message was taken, the reply is complete after the next start, every file once.
#[test]
fn killed_chat_is_completed_by_next_one() {
    for wait_ms in [0, 5, 15, 30, 60, 120] {
        let home = TestHome::new();
        home.write_file("a.bin", (0..2_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761) as u8).collect::<Vec<u8>>());
        let mut child = start_chat(&home);
        type_lines(&mut child, &["/attach a.bin", "save this as kept.bin and send it back"]);
        let wal = home.data_directory().join("satchel.db-wal");
        wait_until("the message is taken", || {
            std::fs::read(&wal).is_ok_and(|log| contains_bytes(&log, b"and send it back"))
        });
        std::thread::sleep(Duration::from_millis(wait_ms));
        send_signal(&child, "-KILL");
        let killed = wait_for_exit(child);
        let before = killed.stdout.matches("On its way").count();

        // The next one has nothing to say; it only finds the work.
        let mut child = start_chat(&home);
        let mut all = Vec::new();
        wait_until("the reply is complete", || {
            all = part_states(&home);
            all.len() >= 2 && all.iter().all(|state| state == "sent" || state == "replaced")
        });
        type_lines(&mut child, &["/quit"]);
        let next = wait_for_exit(child);
        next.assert_no_crash("the next start");
        assert_eq!(next.exit_code(), Some(0), "{wait_ms}: {next:#?}");

        let delivered: Vec<_> =
            std::fs::read_dir(home.work_directory().join("files")).expect("a file came back").flatten().collect();
        assert_eq!(delivered.len(), 1, "{wait_ms}: the file stands there once: {delivered:?}");
        let (sent, back) = (home.work_directory().join("a.bin"), delivered[0].path());
        assert!(std::fs::read(sent).ok() == std::fs::read(back).ok(), "{wait_ms}: it is the same file");
        let kept = home.data_directory().join("workspaces/console=main/shared/kept.bin");
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

fn contains_bytes(content: &[u8], text: &[u8]) -> bool {
    content.windows(text.len()).any(|window| window == text)
}

#[test]
fn graceful_stop_leaves_nothing_in_doubt() {
    for (name, wait_ms) in [("-TERM", 0), ("-TERM", 20), ("-TERM", 60), ("-TERM", 200), ("-INT", 200)] {
        let home = TestHome::new();
        home.write_file("a.bin", vec![5; 3_000_000]);
        let mut child = start_chat(&home);
        let lines = ["/attach a.bin", "save this as a.bin and send it back", "list my files", "send everything"];
        type_lines(&mut child, &lines);
        let wal = home.data_directory().join("satchel.db-wal");
        wait_until("a message is taken", || {
            std::fs::read(&wal).is_ok_and(|log| contains_bytes(&log, b"and send it back"))
        });
        std::thread::sleep(Duration::from_millis(wait_ms));
        send_signal(&child, name);
        let output = wait_for_exit(child);
        let case = format!("{name} after {wait_ms} ms");
        output.assert_no_crash(&case);
        assert_eq!(output.exit_code(), Some(0), "{case}: {output:#?}");
        for state in part_states(&home) {
            assert!(!["sending", "in_doubt"].contains(&state.as_str()), "{case}: a part is {state}");
        }
        let next = run_chat(&home, &["what did I send"]);
        assert_eq!(next.exit_code(), Some(0), "{case}: {next:#?}");
        assert!(!next.stdout.contains("possible duplicate"), "{case}: {next:#?}");
        let left = part_states(&home).into_iter().filter(|state| state != "sent" && state != "replaced").count();
        assert_eq!(left, 0, "{case}: what was left is delivered by the next");
    }
}

/// Runs `chat` with these arguments and this on standard input.
fn run_with_input(home: &TestHome, arguments: &[&str], input: &[u8]) -> ProcessOutput {
    let mut command = home.satchel_command(&["chat"]);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    child.stdin.as_mut().expect("standard input is piped").write_all(input).expect("it is read");
    wait_for_exit(child)
}

#[test]
fn standard_input_reaches_the_message_of_once() {
    let home = TestHome::new();
    let appended = run_with_input(&home, &["--once", "write a.txt:", "--json"], b"from a pipe\n");
    assert_eq!(appended.exit_code(), Some(0), "{appended:#?}");
    let alone = run_with_input(&home, &["--once", "--json"], b"list my files\n");
    assert_eq!((alone.exit_code(), alone.stderr.as_str()), (Some(0), ""), "{alone:#?}");
    let ledger = std::fs::read(home.data_directory().join("satchel.db-wal")).unwrap_or_default();
    let ledger = [ledger, std::fs::read(home.data_directory().join("satchel.db")).expect("it exists")].concat();
    assert!(
        contains_bytes(&ledger, b"write a.txt:\\n\\nfrom a pipe")
            || contains_bytes(&ledger, b"write a.txt:\n\nfrom a pipe")
    );
    assert!(contains_bytes(&ledger, b"list my files"));
    let nothing = home.run(&["chat", "--once"]);
    assert_eq!(nothing.exit_code(), Some(2), "{nothing:#?}");
    assert!(nothing.stderr.contains("there is no message"), "{nothing:#?}");
}

/// Catches: a command that waits in silence for the end of a pipe that somebody keeps open.
#[test]
fn open_standard_input_is_named_while_waiting() {
    let home = TestHome::new();
    let mut command = home.satchel_command(&["chat", "--once", "list my files"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a log is UTF-8");
    assert!(line.starts_with("waiting for the end of standard input"), "{line}");
    drop(child.stdin.take());
    assert_eq!(wait_for_exit(child).exit_code(), Some(0));
}

#[test]
fn attached_stdin_leaves_no_copy() {
    let home = TestHome::new();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.wrapping_mul(2_654_435_761) as u8).collect();
    let saved = run_with_input(&home, &["--once", "save this as kept.bin", "--attach", "-", "--json"], &bytes);
    assert_eq!(saved.exit_code(), Some(0), "{saved:#?}");
    let kept = std::fs::read(home.data_directory().join("workspaces/console=main/shared/kept.bin"));
    assert!(kept.is_ok_and(|kept| kept == bytes), "{saved:#?}");
    let names = std::fs::read_dir(home.data_directory()).expect("it exists").flatten().map(|entry| entry.file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().starts_with("stdin-")));
}

#[test]
fn banner_goes_to_standard_error() {
    let output = run_chat(&TestHome::new(), &["/quit"]);
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert!(output.stderr.contains("Satchel · ") && output.stderr.contains("data in "), "{output:#?}");
    assert_eq!(output.stdout, "", "{output:#?}");
}
