//! `satchel audit` over the real binary: what tools, scripts and commands changed, whether or not it succeeded.

use satchel_system::real_binary::{TestHome, script_worker};
use serde_json::Value;

/// Each line as tool, action, path, bytes, outcome; oldest first.
fn lines(records: &Value) -> Vec<String> {
    let text = |record: &Value, field: &str| record[field].as_str().unwrap_or("?").to_owned();
    let line = |record: &Value| {
        let [tool, action, path, outcome] = ["tool", "action", "path", "outcome"].map(|field| text(record, field));
        format!("{tool} {action} {path} {} {outcome}", record["bytes"])
    };
    records.as_array().into_iter().flatten().rev().map(line).collect()
}

/// Mutation: any way of changing a file that leaves no line, or one of another call.
#[test]
fn audit_lists_every_change_of_files() {
    let _worker = script_worker();
    let home = TestHome::new();
    let empty = home.run(&["audit"]);
    assert_eq!(empty.exit_code(), Some(1), "without data it says where it looked: {empty:#?}");
    let photo = home.write_file("photo.txt", "a photo");
    home.run_once("save this as /shared/photo.txt", &[&photo]);
    home.run_once("/tool file_write {\"path\": \"photo.txt\", \"content\": \"x\"}", &[]);
    let script = r#"/tool execute_script {"script": "file_write(path='/tmp/a', content='12345')"}"#;
    home.run_once(script, &[]);
    home.run_once("delete photo.txt", &[]);
    home.run_once("/undo", &[]);
    home.run_once("/forget workspace:/tmp/a", &[]);
    let records = home.run(&["audit", "--json"]).json();
    assert_eq!(
        lines(&records),
        [
            "attachment_save write /shared/photo.txt 7 done",
            "file_write write /shared/photo.txt null failed",
            "file_write write /tmp/a 5 done",
            "file_delete delete /shared/photo.txt 7 done",
            "/undo restore /shared/photo.txt null done",
            "/forget delete /tmp/a 5 done",
        ],
        "{records:#}"
    );
    let failed = &records[4];
    assert!(failed["reason"].as_str().is_some_and(|reason| reason.contains("exists already")), "{failed:#}");
    assert_eq!(failed["conversation"], "console:main", "{failed:#}");
    let table = home.run(&["audit", "--since", "1h", "--limit", "2"]);
    assert!(table.stdout.contains("/forget") && table.stdout.contains("/undo"), "{}", table.stdout);
    assert!(!table.stdout.contains("file_delete") && table.stderr.contains("older changes exist"), "{table:#?}");
    let other = home.run(&["audit", "--conversation", "console:other"]);
    assert_eq!(other.stdout, "no change of a file in the last 90 days matches\n");
}
