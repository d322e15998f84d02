//! Who may talk, as the configuration is read.

use std::path::Path;

use satchel_domain::Sender;

use crate::config::{ConfigSources, LoadedConfig, load_text, origin::ConfigProblems};

fn load(yaml: &str) -> Result<LoadedConfig, ConfigProblems> {
    let directory = tempfile::tempdir().unwrap();
    let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory.path() };
    load_text(Path::new("satchel.yaml"), yaml, &sources)
}

#[test]
fn owners_are_asked_where_their_ids_say_how() {
    let yaml = "telegram: { owners: [12, '@ada', '-100', '', 'console:13', 14], allow_users: [15] }\n\
                discord: { owners: [16] }\n";
    let loaded = load(yaml).unwrap();
    let access = loaded.config().access();
    let telegram = "telegram:1".parse::<satchel_domain::ConversationId>().unwrap().channel().clone();
    let rules = access.channel_rules(&telegram).unwrap();
    let chats: Vec<String> = rules.owner_chats.iter().map(ToString::to_string).collect();
    assert_eq!(chats, ["telegram:12", "telegram:14"]);
    assert!(
        access.is_owner(&telegram, &Sender::new("12", "Ada")) && !access.is_owner(&telegram, &Sender::new("15", ""))
    );
    assert!(rules.is_allowed(&Sender::new("15", "Bob")) && !rules.is_allowed(&Sender::new("16", "Eve")));
    let discord = "discord:1".parse::<satchel_domain::ConversationId>().unwrap().channel().clone();
    assert!(access.is_owner(&discord, &Sender::new("16", "Bob")));
    let chats: Vec<String> =
        access.channel_rules(&discord).unwrap().owner_chats.iter().map(ToString::to_string).collect();
    assert_eq!(chats, ["discord:@16"], "it is opened when it is needed");
}

#[test]
fn default_access_is_closed_on_platforms_only() {
    let loaded = load("log: info\n").unwrap();
    let access = loaded.config().access();
    for (place, strict) in [("telegram:1", true), ("discord:1", true), ("web:a", false), ("console:main", false)] {
        let channel = place.parse::<satchel_domain::ConversationId>().unwrap().channel().clone();
        let rules = access.channel_rules(&channel);
        assert_eq!(rules.is_some_and(|rules| !rules.is_allowed(&Sender::new("1", "Ada"))), strict, "{place}");
    }
}

#[test]
fn nobody_makes_everybody_an_owner() {
    for section in ["telegram", "discord"] {
        let problems = load(&format!("{section}:\n  owners: [12, '*']\n")).unwrap_err().to_string();
        assert!(problems.contains(&format!("`{section}.owners` must name each owner")), "{problems}");
        assert!(problems.contains("satchel.yaml:2"), "{problems}");
    }
    assert!(load("telegram: { allow_users: ['*'] }\n").is_ok());
}
