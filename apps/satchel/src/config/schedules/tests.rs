//! Schedules as they are configured: what each mistake is told, and what becomes of what is right.

use std::{fs, path::Path};

use satchel_domain::Timestamp;

use super::*;
use crate::config::{ConfigSources, LoadedConfig, load_text, origin::ConfigProblems};

const CHANNELS: &str = "telegram: { token: '1:a' }\n";

/// Stands behind everything else, so that it moves no line.
const TASKS: &str = "agents: [{ id: a, instructions: x, actions: [{ id: b, prompt: '{{ input.city }} {{ input.day }}' }] }]\n\
                     tasks: [{ id: weather, agent: a, action: b }]\n";

fn load(directory: &Path, yaml: &str) -> Result<LoadedConfig, ConfigProblems> {
    let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory };
    let path = directory.join("etc/satchel.yaml");
    load_text(&path, &format!("{CHANNELS}{yaml}{TASKS}"), &sources)
}

/// A directory with scripts beside the configuration file.
fn place() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let beside = directory.path().join("etc");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("report.star"), "return 1\n").unwrap();
    fs::write(beside.join("blank.star"), " \n").unwrap();
    fs::write(beside.join("bytes.star"), [0xff]).unwrap();
    fs::write(beside.join("long.star"), vec![b'#'; 300_000]).unwrap();
    directory
}

fn complaint(yaml: &str) -> String {
    let place = place();
    match load(place.path(), yaml) {
        Ok(_) => "accepted".to_owned(),
        Err(problems) => problems.to_string().replace(&place.path().display().to_string(), "<dir>"),
    }
}

/// A schedule in which all is right but for what is given.
fn with(lines: &str) -> String {
    let given = |key: &str| lines.lines().any(|line| line.trim_start().starts_with(&format!("{key}:")));
    let does = ["prompt", "script", "script_file", "task"].into_iter().any(given);
    let mut yaml = "schedules:\n  report:\n".to_owned();
    for (key, line) in [("cron", "cron: '@daily'"), ("conversation", "conversation: telegram:7")] {
        if !given(key) {
            yaml += &format!("    {line}\n");
        }
    }
    if !does {
        yaml += "    prompt: hi\n";
    }
    lines.lines().for_each(|line| yaml += &format!("    {line}\n"));
    yaml
}

#[test]
fn schedule_mistakes_report_position_and_allowed_values() {
    let wrong = [
        ("a list", "schedules:\n  - cron: x\n".to_owned()),
        ("nothing but a name", "schedules:\n  report: {}\n".to_owned()),
        ("no section", "schedules:\n  report: daily\n".to_owned()),
        (
            "an odd name",
            "schedules:\n  'my report': { cron: '@daily', prompt: hi, conversation: 'telegram:7' }\n".to_owned(),
        ),
        (
            "a dot in the name",
            "schedules:\n  my.report: { cron: '@daily', prompt: hi, conversation: 'telegram:7' }\n".to_owned(),
        ),
        ("no expression", with("cron: every morning")),
        ("a number", with("cron: 8")),
        ("a year", with("cron: 0 0 8 * * * 2030")),
        ("an hour that isn't", with("cron: 0 25 * * *")),
        ("a weekday that isn't", with("cron: 0 8 * * funday")),
        ("a day that never comes", with("cron: 0 8 31 2,4,6 *")),
        ("an unquoted star", with("cron: * * * * *")),
        ("an unquoted step", with("cron: */5 * * * *")),
        ("an unquoted name", with("cron: @daily")),
        ("a slip in the zone", with("timezone: Europe/Berln")),
        ("a city", with("timezone: Kathmandu")),
        ("no zone", with("timezone: Middle Earth")),
        ("a path as a zone", with("timezone: ../../etc/passwd")),
        ("a blank prompt", with("prompt: ' '")),
        ("two at once", with("prompt: hi\nscript: return 1")),
        ("a missing script", with("script_file: missing.star")),
        ("a directory", with("script_file: .")),
        ("a blank script", with("script_file: blank.star")),
        ("no text", with("script_file: bytes.star")),
        ("too long", with("script_file: long.star")),
        ("no conversation", with("conversation: ada")),
        ("another channel", with("conversation: console:main")),
        ("a channel that isn't set up", with("conversation: discord:81384788765712384")),
        ("no chat", with("conversation: telegram:@ada")),
        ("no topic", with("conversation: telegram:-100/x")),
        ("no page", with("conversation: web:a/b")),
        ("another policy", with("missed: run_twice")),
        ("no such task", with("task: wether")),
        ("inputs without a task", with("prompt: hi\ninput: { city: Berlin }")),
        ("no inputs", with("task: weather\ninput: Berlin")),
        ("an input's name", with("task: weather\ninput: { 'a b': c }")),
        ("a task and a prompt", with("task: weather\nprompt: hi")),
        ("neither on nor off", with("enabled: maybe")),
        ("a slip in a key", with("time_zone: UTC")),
        ("half of a key's name", with("zone: UTC")),
        ("the other half", with("file: report.star")),
    ];
    let told: Vec<String> = wrong.iter().map(|(name, yaml)| format!("## {name}\n{}", complaint(yaml))).collect();
    insta::assert_snapshot!(told.join("\n\n"));
    let off = "web: { listen: off }\n".to_owned() + &with("conversation: web:reports");
    assert!(complaint(&off).ends_with("is on web, which is not set up: give `web.listen`"), "{}", complaint(&off));
}

#[test]
fn valid_schedule_is_parsed_with_all_options() {
    let place = place();
    let read = |yaml: &str| {
        let config =
            load(place.path(), yaml).unwrap_or_else(|problems| panic!("{yaml}: {problems}")).into_config().unwrap();
        config.schedules
    };
    assert_eq!(read("schedules:\n"), []);
    let plain = read(&with("")).remove(0);
    let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
    assert_eq!(plain.cron, CronSchedule::parse("@daily", zone).unwrap(), "the machine's own clocks count");
    assert_eq!((plain.name.as_str(), plain.text.as_str(), plain.missed), ("report", "hi", MissedPolicy::RunOnce));
    assert!(plain.enabled);
    let full = "cron: 0 0 8 * * mon-fri\ntimezone: europe/berlin\nscript_file: report.star\nmissed: run_all\nenabled: off\n\
                conversation: telegram:-100123/42";
    let full = read(&with(full)).remove(0);
    let friday = Timestamp(1_795_199_400_000);
    assert_eq!(full.cron.format_local(full.cron.next(friday).unwrap()), "2026-11-23 08:00 Europe/Berlin");
    assert_eq!(full.text, "```starlark\nreturn 1\n```", "paths count from the file");
    assert_eq!((full.missed, full.enabled), (MissedPolicy::RunAll, false));
    let script = read(&with("script: |\n  x = 1\n  return x"));
    assert_eq!(script[0].text, "```starlark\nx = 1\nreturn x\n```");
    let task = read(&with("task: weather\ninput: { city: New York, day: 5 }"));
    assert_eq!(task[0].text, "/task weather city=\"New York\" day=\"5\"");
    for conversation in ["web:reports", "telegram:123", "telegram:-100123"] {
        assert_eq!(read(&with(&format!("conversation: {conversation}")))[0].conversation.to_string(), conversation);
    }
}

/// Machines without /usr/share/zoneinfo are common in containers; the zones that are built in are then all there is.
#[test]
fn the_zones_are_known_without_the_machines_help() {
    let bundled = jiff::tz::TimeZoneDatabase::bundled();
    assert!(bundled.get("Europe/Berlin").is_ok() && bundled.get("Asia/Kathmandu").is_ok());
    assert!(bundled.available().count() > 400);
}
