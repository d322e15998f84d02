//! Mistakes that used to be found only at the start, or one after the other: all of them are reported at once.

use super::*;

/// Fails unless these are the lines of the complaint, in any order.
fn assert_complaint(place: &Place, expected: &[&str]) {
    let complaint = place.complaint();
    for line in expected {
        assert!(complaint.contains(line), "{line} is missing in:\n{complaint}");
    }
    assert_eq!(complaint.lines().count(), expected.len(), "{complaint}");
}

#[test]
fn mistakes_of_every_kind_are_reported_at_once() {
    let place = Place::with(
        "telegram: { owners: ['@anna'], groups: [Family] }\n\
         storage: { data_dir: '~/data', database_url: postgres://h/d }\n\
         backup: { to: /backups }\n\
         delivery: { max_age: 12 }\n\
         agents:\n\
         \x20 - { id: cook, instructions: x, tools: [file_raed, attachment.*, 'map.*'], model: gone, color: red }\n\
         tasks: 5\n\
         schedules: { a: { cron: '@daily', conversation: 'web:a', task: gone } }\n",
    );
    fs::create_dir(place.dir.path().join("playbooks")).unwrap();
    let place = place.file("playbooks/a.yaml", "log: info\nagents: [{ id: kids, instructions: x, tools: [dice] }]\n");
    let expected = [
        "satchel.yaml:1:22: `telegram.owners` holds \"@anna\"",
        "satchel.yaml:1:41: `telegram.groups` holds \"Family\"",
        "satchel.yaml:2:12: `storage.data_dir` must be a path without `~`",
        "satchel.yaml:3:11: `backup.to` can't be used with a ledger in PostgreSQL",
        "satchel.yaml:4:13: `delivery.max_age` must be a duration",
        "agents.cook: `tools` holds \"file_raed\", which matches no tool: did you mean `file_read`?",
        "agents.cook: `tools` holds \"map.*\", which matches no tool: the tools are ",
        "agents.cook: `model` is \"gone\"",
        "agents.cook: unknown field `color`",
        "tasks: must be a list",
        // Whether there is such a task isn't known while some can't be read.
        "playbooks/a.yaml:1:1: `log` can't be set here",
        "agents.kids: `tools` holds \"dice\", which matches no tool",
    ];
    assert_complaint(&place, &expected);
}

#[test]
fn tools_of_agents_may_be_any_that_satchel_has() {
    let yaml = "agents: [{ id: a, instructions: x, tools: [send_voice, file_read, attachment.add, attachment_add, 'file_*'] }]\n";
    assert_eq!(Place::with(yaml).complaint(), "accepted");
}

#[test]
fn home_directory_is_refused_in_every_path() {
    for (yaml, expected) in [
        ("storage: { data_dir: '~/d' }\n", "`storage.data_dir` must be a path without `~`"),
        ("storage: { data_dir: '~bob/d' }\n", "`storage.data_dir` must be a path without `~`"),
        ("storage: { database_url: 'sqlite:~/satchel.db' }\n", "or a URL that begins with postgres:// without `~`"),
        ("storage: { blobs_url: 'file://~/blobs' }\n", "or a URL that begins with s3:// without `~`"),
        ("workspace: { shared_dir: '~' }\n", "`workspace.shared_dir` must be a path without `~`"),
        ("backup: { to: '~/b' }\n", "`backup.to` must be a path without `~`"),
        ("telegram: { token_file: '~/t' }\n", "`telegram.token_file` must be the path of a file without `~`"),
        (
            "schedules: { a: { cron: '@daily', conversation: 'web:a', script_file: '~/s' } }\n",
            "`schedules.a.script_file` must be a path without `~`",
        ),
        ("speech: { speak: { command: ['~/bin/say'] } }\n", "`speech.speak.command` names the program \"~/bin/say\""),
        ("documents: { ocr: { command: ['~/ocr'] } }\n", "`documents.ocr.command` names the program \"~/ocr\""),
        (
            "agents: [{ id: a, instructions: x, attachments: [{ type: file, path: '~/a' }] }]\n",
            "`path`: `~` isn't expanded",
        ),
    ] {
        let complaint = Place::with(yaml).complaint();
        assert!(complaint.contains(expected) && complaint.lines().count() == 1, "{yaml}{complaint}");
    }
    let elsewhere = Place::empty().env("SATCHEL_STORAGE__DATA_DIR", "~/d").complaint();
    assert!(elsewhere.starts_with("SATCHEL_STORAGE__DATA_DIR: `storage.data_dir` must be a path without `~`"));
    assert_eq!(Place::with("storage: { data_dir: './~d' }\n").complaint(), "accepted", "a name may begin with it");
}

#[test]
fn backups_of_what_is_in_no_directory_are_refused() {
    let yaml = "storage:\n  database_url: postgres://h/d\n  blobs_url: 's3://bucket/prefix'\nbackup: { to: backups }\n";
    let expected = [
        "satchel.yaml:4:11: `backup.to` can't be used with a ledger in PostgreSQL",
        "satchel.yaml:4:11: `backup.to` can't be used with files in a bucket",
    ];
    assert_complaint(&Place::with(yaml), &expected);
}
