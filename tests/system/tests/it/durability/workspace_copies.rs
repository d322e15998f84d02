//! A file that is saved into a workspace is on disk before it has its name, and its name before the tool answers.

use std::process::Command;

use satchel_requirements::required;
use satchel_system::real_binary::Household;

use super::{
    WAL, durable,
    system_calls::{SystemCall, find_strace, position, traced},
};

/// Saves a file with these words, and returns what the kernel was asked for.
fn saved(household: &Household, words: &str, content: &str) -> Vec<SystemCall> {
    let file = household.file("a.txt", content);
    let mut command: Command = household.satchel(&["chat", "--once", words, "--json"]);
    command.arg("--attach").arg(&file);
    let traced = traced(command);
    assert_eq!(traced.ran.code(), Some(0), "{:?}", traced.ran);
    traced.calls
}

/// Asserts that these bytes were synced under the copy's temporary name before it got its own, and its own before the
/// tool's outcome was. Returns how often they were synced under the temporary one.
fn assert_durable(calls: &[SystemCall], content: &str) -> usize {
    let named = &calls[position(calls, "the copy gets its name", |call| {
        call.is_rename() && call.text.contains("\"kept.txt\"") && call.text.trim_end().ends_with("= 0")
    })];
    let (_, name) = named.text.split_once("\".satchel-").expect("it had a temporary name");
    let temporary = format!("/.satchel-{}>", name.split('"').next().expect("a name ends"));
    let of_copy = |call: &&SystemCall| call.text.contains(&temporary);
    let writes = calls.iter().filter(of_copy).filter(|call| call.is_write());
    let written = writes.map(|call| call.ended).max().expect("its bytes are written");
    assert!(calls.iter().filter(of_copy).any(|call| call.is_write() && call.text.contains(content)));
    let syncs = calls.iter().filter(of_copy).filter(|call| call.is_sync());
    let synced = syncs.filter(|call| call.begun > written && call.ended < named.begun).count();
    let of_directory = |call: &&SystemCall| call.is_sync() && call.text.contains("/notes") && !call.text.contains(WAL);
    let directory = calls.iter().filter(of_directory).find(|call| call.begun > named.ended);
    // An earlier call's outcome may lie on the same page of the log. strace writes quotes behind a backslash.
    let answered = durable(calls, &format!(r#"\"bytes_written\":{}"#, content.len()));
    assert!(directory.is_some_and(|sync| sync.ended < answered), "the name is on disk before the outcome");
    synced
}

/// Catches: a copy that gets its name while its bytes are in the system's memory alone, so that a power cut leaves an
/// empty file where the tool has said that one was saved.
#[test]
fn a_saved_copy_is_synced_before_its_name() {
    let Some(()) = required(find_strace()) else { return };
    let household = Household::new();
    let first = saved(&household, "save this as notes/kept.txt", "written first");
    assert_eq!(assert_durable(&first, "written first"), 1, "a new file");
    let second = saved(&household, "save this as notes/kept.txt, overwrite", "written over it");
    assert_eq!(assert_durable(&second, "written over it"), 1, "in another one's place");
}
