//! Who may talk, as the configuration is read.

use std::path::Path;

use satchel_domain::{Sender, capabilities::StreamRule};
use satchel_routing::tables;

use crate::config::{ConfigSources, LoadedConfig, load_text, origin::ConfigProblems};

fn load(yaml: &str) -> Result<LoadedConfig, ConfigProblems> {
    let directory = tempfile::tempdir().unwrap();
    let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory.path() };
    load_text(Path::new("satchel.yaml"), yaml, &sources)
}

#[test]
fn owners_are_asked_where_their_ids_say_how() {
    let yaml = "telegram: { owners: [12, 14], allow_users: [15, '@ada'] }\n\
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
    // A topic of their chat is theirs, too.
    let is_owners = |chat: &str| access.is_owner_chat(&chat.parse().unwrap());
    assert!(is_owners("telegram:12/7") && !is_owners("telegram:15/7") && !is_owners("telegram:-12/7"));
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

/// Catches: an owner, a group or a channel that is accepted and never matches anybody, or whoever has the name tomorrow.
#[test]
fn names_in_place_of_ids_are_refused_where_they_stand() {
    let yaml = "telegram:\n  owners:\n    - 12\n    - '@anna'\n    - Anna\n    - -100\n    - telegram:13\n    - ''\n    - 012\n  \
                groups:\n    - Family\n    - 5\n    - '@abc def'\n    - '*'\n    - -100123\n    - -100123/42\n    - '@family_chat'\n    \
                - telegram:-100123\ndiscord:\n  owners: ['@81384', anna]\n  channels: [general, '@81384', '*', 81384, 'discord:7']\n";
    let problems = load(yaml).unwrap_err().to_string();
    let owner = |line: &str, section: &str, entry: &str| {
        format!("satchel.yaml:{line}: `{section}.owners` holds {entry:?}: write the person's id, a number")
    };
    let expected = [
        owner("4:7", "telegram", "@anna"),
        owner("5:7", "telegram", "Anna"),
        owner("6:7", "telegram", "-100"),
        owner("7:7", "telegram", "telegram:13"),
        owner("8:7", "telegram", ""),
        owner("9:7", "telegram", "012"),
        "satchel.yaml:11:7: `telegram.groups` holds \"Family\": write the id of the group, such as -1001234567890"
            .to_owned(),
        "satchel.yaml:12:7: `telegram.groups` holds \"5\": write the id of the group".to_owned(),
        "satchel.yaml:13:7: `telegram.groups` holds \"@abc def\": write the id of the group".to_owned(),
        owner("20:12", "discord", "@81384"),
        owner("20:22", "discord", "anna"),
        "satchel.yaml:21:14: `discord.channels` holds \"general\": write the id of the channel".to_owned(),
        "satchel.yaml:21:23: `discord.channels` holds \"@81384\": write the id of the channel".to_owned(),
    ];
    for line in &expected {
        assert!(problems.contains(line), "{line} is missing in:\n{problems}");
    }
    assert_eq!(problems.lines().count(), expected.len(), "{problems}");
}

#[test]
fn names_in_the_environment_are_refused_too() {
    let directory = tempfile::tempdir().unwrap();
    let environment = [("SATCHEL_TELEGRAM__OWNERS".into(), "12,@anna".into())];
    let set = ["telegram.groups=Family,*".to_owned()];
    let sources = ConfigSources { file: None, set: &set, environment: &environment, cwd: directory.path() };
    let problems = load_text(Path::new("satchel.yaml"), "", &sources).unwrap_err().to_string();
    assert!(problems.contains("SATCHEL_TELEGRAM__OWNERS: `telegram.owners` holds \"@anna\""), "{problems}");
    assert!(problems.contains("--set: `telegram.groups` holds \"Family\""), "{problems}");
}

#[test]
fn chats_are_given_agents_by_id() {
    let yaml = "telegram:\n  agents: { -100123: default, 5: Default, '-100123/42': default }\n\
                discord:\n  agents: { 81384788765712384: default, '@80351110224678912': default }\n";
    let loaded = load(yaml).unwrap_or_else(|problems| panic!("{problems}"));
    let config = loaded.config();
    let mut chats: Vec<String> = config
        .telegram
        .chat_agents()
        .into_keys()
        .chain(config.discord.chat_agents().into_keys())
        .map(|chat| chat.to_string())
        .collect();
    chats.sort_unstable();
    assert_eq!(
        chats,
        [
            "discord:81384788765712384",
            "discord:@80351110224678912",
            "telegram:-100123",
            "telegram:-100123/42",
            "telegram:5"
        ]
    );
}

#[test]
fn chat_is_locked_to_its_agent() {
    let yaml = "telegram:\n  agents: { -100123: { agent: default, locked: true }, 5: { agent: default }, 6: default }\n\
                discord:\n  agents:\n    '@80351110224678912': { agent: default, locked: on }\n";
    let loaded = load(yaml).unwrap_or_else(|problems| panic!("{problems}"));
    let config = loaded.config();
    let locked = config.telegram.locked_chats().into_iter().chain(config.discord.locked_chats());
    let mut locked: Vec<String> = locked.map(|chat| chat.to_string()).collect();
    locked.sort_unstable();
    assert_eq!(locked, ["discord:@80351110224678912", "telegram:-100123"]);
    assert_eq!(config.telegram.chat_agents().len(), 3);
    for wrong in
        ["{ agent: default, lock: true }", "{ locked: true }", "{ agent: default, locked: perhaps }", "[default]"]
    {
        let problems = load(&format!("telegram:\n  agents: {{ 5: {wrong} }}\n")).unwrap_err().to_string();
        assert!(
            problems.contains("`telegram.agents` must be a section with ids of chats and names of agents"),
            "{problems}"
        );
    }
    let unknown = load("telegram:\n  agents: { 5: { agent: cook, locked: true } }\n").unwrap_err().to_string();
    assert!(unknown.contains("`telegram.agents.5` names the agent \"cook\", known are default"), "{unknown}");
}

#[test]
fn environment_gives_agents_as_assignments() {
    let directory = tempfile::tempdir().unwrap();
    let set = ["telegram.agents=-100123=default, 5=default".to_owned(), "discord.agents.7=default".to_owned()];
    let sources = ConfigSources { file: None, set: &set, environment: &[], cwd: directory.path() };
    let loaded = load_text(Path::new("satchel.yaml"), "", &sources).unwrap_or_else(|problems| panic!("{problems}"));
    let config = loaded.config();
    assert_eq!((config.telegram.chat_agents().len(), config.discord.chat_agents().len()), (2, 1));
}

/// Another spelling of a number would be equal to no chat, and the chat would have the default agent.
#[test]
fn other_spellings_of_chat_ids_are_refused() {
    for (platform, chat) in [
        ("telegram", "+123"),
        ("telegram", "0123"),
        ("telegram", "-0"),
        ("telegram", "-100123/042"),
        ("telegram", "-100123/+4"),
        ("discord", "+81384"),
        ("discord", "@+81384"),
        ("discord", "081384"),
    ] {
        let problems = load(&format!("{platform}:\n  agents: {{ '{chat}': default }}\n")).unwrap_err().to_string();
        assert!(problems.contains(&format!("names the chat {chat:?}")), "{chat}: {problems}");
    }
}

#[test]
fn unknown_agents_and_chats_keep_their_place() {
    let yaml = "agents: [{ id: kids, instructions: x }]\ntelegram:\n  agents:\n    -100123: kids\n    5: cook\n    '@ada': kids\n\
                discord:\n  agents: { '0': kids }\n";
    let problems = load(yaml).unwrap_err().to_string();
    let expected = [
        "satchel.yaml:5:5: `telegram.agents.5` names the agent \"cook\", known are default, kids",
        "satchel.yaml:6:5: `telegram.agents` names the chat \"@ada\": write the id alone",
        "satchel.yaml:8:13: `discord.agents` names the chat \"0\": write the id alone",
    ];
    assert_eq!(problems.lines().count(), expected.len(), "{problems}");
    for line in expected {
        assert!(problems.contains(line), "{line} is missing in:\n{problems}");
    }
}

#[test]
fn groups_of_programs_are_read_from_every_origin() {
    let directory = tempfile::tempdir().unwrap();
    let file = "nats: { groups: { desk: [orders, 7], 'hr/payroll': [hr] } }\n";
    let flag = vec!["nats.groups=desk=orders, desk=7,hr/payroll=hr".to_owned()];
    for (yaml, set) in [(file, Vec::new()), ("", flag)] {
        let sources = ConfigSources { file: None, set: &set, environment: &[], cwd: directory.path() };
        let loaded = load_text(Path::new("satchel.yaml"), yaml, &sources).unwrap_or_else(|error| panic!("{error}"));
        let groups = &loaded.config().nats.groups.0;
        assert_eq!(groups.len(), 2, "{groups:?}");
        assert_eq!(groups["desk"], ["orders", "7"]);
        assert_eq!(groups["hr/payroll"], ["hr"]);
    }
}

#[test]
fn group_errors_keep_their_location() {
    let yaml =
        "nats:\n  groups:\n    desk: []\n    sales: [orders, '*']\n    'de sk': [orders]\n    help.desk: [a.b]\n";
    let problems = load(yaml).unwrap_err().to_string();
    let expected = [
        "satchel.yaml:3:5: `nats.groups.desk` must list each member",
        "satchel.yaml:4:5: `nats.groups.sales` must list each member",
        "satchel.yaml:5:5: `nats.groups` names the conversation \"de sk\": write what follows `nats:`",
        // Its own place can't be found by a key with a dot.
        "satchel.yaml:2:3: `nats.groups.help.desk` must list each member",
    ];
    assert_eq!(problems.lines().count(), expected.len(), "{problems}");
    for line in expected {
        assert!(problems.contains(line), "{line} is missing in:\n{problems}");
    }
}

/// A permission for `nats.orders.>` covers all that is below the name.
#[test]
fn group_below_a_program_lists_it() {
    let load_groups =
        |groups: &str| load(&format!("nats:\n  allow_users: [orders]\n  owners: [ada]\n  groups:\n{groups}"));
    let yaml = "    orders/x: [hr]\n    orders: [hr]\n    ada/y: [orders]\n    hr: [orders]\n    orders.x: [hr]\n";
    let problems = load_groups(yaml).unwrap_err().to_string();
    let expected = [
        "satchel.yaml:5:5: `nats.groups.orders/x` has the name of the program orders, or one below it",
        "satchel.yaml:6:5: `nats.groups.orders` has the name of the program orders, or one below it",
        "satchel.yaml:7:5: `nats.groups.ada/y` has the name of the program ada, or one below it",
        // It is no allowed sender, and a member of other groups.
        "satchel.yaml:8:5: `nats.groups.hr` has the name of the program hr, or one below it",
    ];
    assert_eq!(problems.lines().count(), expected.len(), "{problems}");
    for line in expected {
        assert!(problems.contains(line), "{line} is missing in:\n{problems}");
    }
    let loaded = load_groups("    orders/x: [hr, orders]\n    team/x: [hr]\n    desk: [orders, hr]\n");
    assert!(loaded.is_ok(), "{:?}", loaded.err().map(|problems| problems.to_string()));
}

#[test]
fn streaming_on_telegram_is_by_edits_unless_set_otherwise() {
    let edits = tables::telegram().stream;
    for (setting, expected) in [
        ("log: info", edits),
        ("telegram: { streaming: edits }", edits),
        ("telegram: { streaming: drafts }", tables::TELEGRAM_DRAFTS),
        ("telegram: { streaming: off }", StreamRule::None),
    ] {
        let loaded = load(&format!("{setting}\n")).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.config().telegram.limits().stream, expected, "{setting}");
    }
}
