//! Which command lines are understood, and which are refused.

use clap::CommandFactory;

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn valid_command_lines_parse() {
    for line in [
        "",
        "run",
        "run --open --wait-for-worker",
        "run --role agent --wait",
        "run --wait=2m",
        "--config a.yaml run --set a=b --set c=d --log debug",
        "chat",
        "chat --model small --conversation holiday",
        "chat --once hello --attach a.jpg --attach b.pdf --json --conversation holiday",
        "plan - --channel web --json",
        "plan a.json --channel telegram-local --set telegram.limits.text=500",
        "attachments list --conversation telegram:-100123/42 --json",
        "attachments show #17",
        "attachments export 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e --to out",
        "attachments usage --json",
        "attachments remove 17 #18 --conversation console:main",
        "attachments gc",
        "audit",
        "audit --conversation telegram:-100123 --since 7d --limit 5 --json",
        "backup create /mnt/backup --with-secrets --keep 7",
        "backup list /mnt/backup --json",
        "backup verify /mnt/backup",
        "backup held --json",
        "backup release --unsettled send --received answer --missed run",
        "backup release --unsettled drop --received drop --missed skip",
        "backup restore /mnt/backup --to data --backup 20260302T180411.042Z-1a2b3c4d",
        "outbox list --all",
        "outbox discard 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e",
        "pair list --json",
        "pair approve abcd-efgh",
        "pair revoke telegram -123",
        "config show --json",
        "config schema",
        "init",
        "init --yes --force --no-check --model openai_responses --model-name m --base-url http://h --api-key k",
        "init --telegram-token 1:a --discord-token b",
        "doctor --json",
        "healthcheck",
        "healthcheck --role agent",
        "web link",
        "web logins --json",
        "web logout 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6f",
        "web logout --all",
        "task run NAME --input k=v --input l=m=n --attach a.jpg --json --conversation holiday",
        "task list --json",
        "send telegram:-100123 hello --attach a.pdf --attach - --key k --json",
        "send main -",
        "completions zsh",
        "man share/man/man1",
        "send web:family --attach a.pdf",
        "migrate --to cluster.yaml --skip-lost --config here.yaml",
        "chat --once --attach -",
        "attachments resolve a.yaml",
        "attachments resolve a.yaml --task t --input a=b --input c=d=e --no-fetch --json",
    ] {
        let words = std::iter::once("satchel").chain(line.split_whitespace());
        assert!(Cli::try_parse_from(words).is_ok(), "{line}");
    }
}

/// The words of every command, hidden ones included.
fn command_lines(command: &clap::Command, path: &[String]) -> Vec<Vec<String>> {
    let below = command.get_subcommands().flat_map(|subcommand| {
        let path: Vec<String> = path.iter().cloned().chain([subcommand.get_name().to_owned()]).collect();
        command_lines(subcommand, &path)
    });
    std::iter::once(path.to_vec()).chain(below).collect()
}

#[test]
fn every_command_answers_help() {
    let lines = command_lines(&Cli::command(), &["satchel".to_owned()]);
    assert!(lines.len() > 30 && lines.contains(&vec!["satchel".to_owned(), "migrate".to_owned()]), "{lines:?}");
    for line in lines {
        for option in ["--help", "-h"] {
            let words = line.iter().map(String::as_str).chain([option]);
            let error = Cli::try_parse_from(words).expect_err("help is no command");
            assert_eq!((error.kind(), error.exit_code()), (clap::error::ErrorKind::DisplayHelp, 0), "{line:?}");
            assert!(error.to_string().contains("Usage: satchel"), "{line:?}: {error}");
        }
    }
}

/// The words of every command that takes a conversation, with a value for whatever else it needs.
fn lines_with_conversation(command: &clap::Command, path: &[String], lines: &mut Vec<Vec<String>>) {
    if command.get_arguments().any(|argument| argument.get_id() == "conversation") {
        let mut line = path.to_vec();
        for argument in command.get_arguments() {
            match argument.get_long() {
                _ if argument.get_id() == "help" => {}
                Some(long) if argument.get_id() == "conversation" || argument.is_required_set() => {
                    line.extend([format!("--{long}"), "17".to_owned()]);
                    if argument.get_id() == "conversation" {
                        *line.last_mut().expect("it was just added") = "CONVERSATION".to_owned();
                    }
                }
                Some(_) => {}
                None if argument.get_id() == "conversation" => line.push("CONVERSATION".to_owned()),
                None => line.push("17".to_owned()),
            }
        }
        lines.push(line);
    }
    for subcommand in command.get_subcommands() {
        let path: Vec<String> = path.iter().cloned().chain([subcommand.get_name().to_owned()]).collect();
        lines_with_conversation(subcommand, &path, lines);
    }
}

#[test]
fn short_and_full_name_mean_same_conversation_everywhere() {
    let mut lines = Vec::new();
    lines_with_conversation(&Cli::command(), &["satchel".to_owned()], &mut lines);
    assert!(lines.len() >= 9, "{lines:?}");
    for line in lines {
        let parse = |name: &str| {
            let words = line.iter().map(|word| if word == "CONVERSATION" { name } else { word.as_str() });
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line:?}: {error}"))
        };
        let parsed = format!("{:?}", parse("main"));
        assert_eq!(parsed, format!("{:?}", parse("console:main")), "{line:?}");
        assert!(parsed.contains("\"main\""), "{parsed}");
    }
}

#[test]
fn script_help_names_directory_of_files() {
    let error = Cli::try_parse_from(["satchel", "script", "run", "--help"]).expect_err("it is help");
    let help = error.to_string();
    assert!(help.contains("./files/scripts;") && help.contains("./files/NAME"), "{help}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for line in [
        "walk",
        "chat --json",
        "chat --attach a.jpg",
        "chat --conversation a:b",
        "chat --conversation a+b",
        "send telegram:1",
        "send telegram: hello",
        "outbox list --conversation Telegram:1",
        "plan a.json",
        "plan a.json --channel fax",
        "attachments show seventeen",
        "audit --since 7",
        "audit --limit 0",
        "attachments remove",
        "attachments export 17",
        "attachments resolve",
        "attachments resolve a.yaml --input a",
        "backup create",
        "backup create /mnt/backup --keep 0",
        "backup restore /mnt/backup",
        "backup release --unsettled answer",
        "backup restore /mnt/backup --to data --backup yesterday",
        "outbox show 17",
        "pair",
        "pair approve ABCD",
        "web",
        "web link now",
        "web logout",
        "web logout 17",
        "web logout --all 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e",
        "pair revoke telegram",
        "pair revoke Telegram 5",
        "config",
        "task",
        "task run",
        "task run NAME --input k",
        "init --whatever",
        "init --model chatgpt",
        "init --api-key k",
    ] {
        let words = std::iter::once("satchel").chain(line.split_whitespace());
        let error = Cli::try_parse_from(words).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}
