//! A file that is saved into a workspace is on disk before it has its name, and its name before the tool answers.

use std::process::Command;

use satchel_requirements::required;
use satchel_system::real_binary::TestHome;

use super::{
    WAL, find_durable_line,
    system_calls::{SystemCall, find_position, find_strace, run_traced},
};

/// Saves a file with these words, and returns what the kernel was asked for.
fn trace_save(home: &TestHome, text: &str, content: &str) -> Vec<SystemCall> {
    let file = home.write_file("a.txt", content);
    let mut command: Command = home.satchel_command(&["chat", "--once", text, "--json"]);
    command.arg("--attach").arg(&file);
    let traced = run_traced(command);
    assert_eq!(traced.output.exit_code(), Some(0), "{:?}", traced.output);
    traced.calls
}

/// Asserts that these bytes were synced under the copy's temporary name before it got its own, and its own before the
/// tool's outcome was. Returns how often they were synced under the temporary one.
fn assert_durable(calls: &[SystemCall], content: &str) -> usize {
    let named = &calls[find_position(calls, "the copy gets its name", |call| {
        call.is_rename() && call.text.contains("\"kept.txt\"") && call.text.trim_end().ends_with("= 0")
    })];
    let (_, name) = named.text.split_once("\".satchel-").expect("it had a temporary name");
    let temporary = format!("/.satchel-{}>", name.split('"').next().expect("a name ends"));
    let of_copy = |call: &&SystemCall| call.text.contains(&temporary);
    let writes = calls.iter().filter(of_copy).filter(|call| call.is_write());
    let written = writes.map(|call| call.end_line).max().expect("its bytes are written");
    assert!(calls.iter().filter(of_copy).any(|call| call.is_write() && call.text.contains(content)));
    let syncs = calls.iter().filter(of_copy).filter(|call| call.is_sync());
    let synced = syncs.filter(|call| call.start_line > written && call.end_line < named.start_line).count();
    let of_directory = |call: &&SystemCall| call.is_sync() && call.text.contains("/notes") && !call.text.contains(WAL);
    let directory = calls.iter().filter(of_directory).find(|call| call.start_line > named.end_line);
    // An earlier call's outcome may lie on the same page of the log. strace writes quotes behind a backslash.
    let answered = find_durable_line(calls, &format!(r#"\"bytes_written\":{}"#, content.len()));
    assert!(directory.is_some_and(|sync| sync.end_line < answered), "the name is on disk before the outcome");
    synced
}

/// Catches: a copy that gets its name while its bytes are in the system's memory alone, so that a power cut leaves an
/// empty file where the tool has said that one was saved.
#[test]
fn copy_is_synced_before_rename() {
    let Some(()) = required(find_strace()) else { return };
    let home = TestHome::new();
    let first = trace_save(&home, "save this as notes/kept.txt", "written first");
    assert_eq!(assert_durable(&first, "written first"), 1, "a new file");
    let second = trace_save(&home, "save this as notes/kept.txt, overwrite", "written over it");
    assert_eq!(assert_durable(&second, "written over it"), 1, "in another one's place");
}
