//! People on Discord: strangers are approved by a button, a tool needs its requester's confirmation, and slash commands
//! are the chat commands.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

use std::{fs::File, process::Stdio, time::Duration};

use satchel_fake_discord::{DiscordMessage, DiscordRules, DiscordTranscript, EPHEMERAL, FakeDiscord, Tier};
use satchel_system::real_binary::{TestHome, run_to_end};
use serde_json::json;
use tokio::{
    process::{Child, Command},
    task::spawn_blocking,
};

/// Longest wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

const ANN: u64 = 41;
const BOB: u64 = 42;
const EVE: u64 = 43;

/// Ann's server, and the channel in which all three are.
const SERVER: u64 = 1_000;
const FAMILY: u64 = 1_001;

struct DiscordPeopleHarness {
    discord: FakeDiscord,
    home: TestHome,
    _satchel: Child,
}

impl DiscordPeopleHarness {
    /// Satchel runs and Ann owns it; tools that change something ask first.
    async fn start() -> Self {
        let discord = FakeDiscord::start(DiscordRules::unpaced()).await.expect("a loopback port");
        for (id, name) in [(ANN, "Ann"), (BOB, "Bob"), (EVE, "Eve")] {
            discord.person(id, name);
        }
        discord.channel(discord.guild(SERVER, "Home", Tier::None), FAMILY, "family");
        let home = TestHome::new();
        let (token, url) = (discord.token(), discord.api_url());
        home.write_file(
            "satchel.yaml",
            format!(
                "discord: {{ token: '{token}', api_url: '{url}', owners: [{ANN}] }}\n\
                 web: {{ listen: off }}\ndelivery: {{ pace: off }}\nmodel: offline\n\
                 tools: {{ confirm: [side_effecting] }}\n"
            ),
        );
        let log = File::create(home.root().join("log")).expect("a log can be written");
        let mut command: Command = home.satchel_command(&["run", "--log", "debug"]).into();
        command.stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let satchel = command.spawn().expect("the binary can be started");
        let harness = Self { discord, home, _satchel: satchel };
        harness
            .wait_until("a bot that listens and offers commands", |_| {
                harness.discord.gateway().connected() > 0 && !harness.discord.commands().is_empty()
            })
            .await;
        harness
    }

    async fn wait_until(&self, description: &str, is_met: impl Fn(&DiscordTranscript) -> bool) {
        let condition_met = async {
            while !is_met(&self.discord.transcript()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(REPLY_TIMEOUT, condition_met).await.is_err() {
            let log = std::fs::read_to_string(self.home.root().join("log")).unwrap_or_default();
            panic!("{description} is not seen:\n{}\n{log}", self.discord.transcript());
        }
    }

    /// Waits until the bot's `nth` message stands in a channel.
    async fn wait_for_message(&self, channel: u64, nth: usize) -> DiscordMessage {
        self.wait_until(&format!("message {nth} in {channel}"), |seen| {
            public_messages(seen, channel).nth(nth).is_some()
        })
        .await;
        public_messages(&self.discord.transcript(), channel).nth(nth).expect("it was there").clone()
    }

    /// Presses the button of a message with these words on it.
    fn press_button(&self, person: u64, message: &DiscordMessage, label: &str) {
        let button = message.buttons.iter().flatten().find(|button| button.label == label).expect("the button");
        self.discord.person_presses(person, message.id, button.custom_id.as_ref().expect("it says something"));
    }

    /// Approves Bob with Ann's button.
    async fn approve_bob(&self) {
        let (bobs, anns) = (self.discord.direct(BOB), self.discord.direct(ANN));
        self.discord.person_says(bobs, BOB, "hello");
        let reply = self.wait_for_message(bobs, 0).await.content;
        assert!(reply.starts_with("I don't know you yet. Ask the owner to approve code "), "{reply}");
        let question = self.wait_for_message(anns, 0).await;
        assert!(question.content.contains("Bob") && question.content.contains("42"), "{}", question.content);
        self.press_button(ANN, &question, "Approve");
        let welcome = self.wait_for_message(bobs, 1).await.content;
        assert!(welcome.starts_with("You're approved. Send me a message"), "{welcome}");
        assert!(self.wait_for_message(anns, 1).await.content.contains("is approved. I've told them."));
    }
}

/// The bot's messages, without what only one person saw in answer to a command.
fn public_messages(transcript: &DiscordTranscript, channel: u64) -> impl Iterator<Item = &DiscordMessage> {
    transcript.visible(channel).filter(|message| message.flags & EPHEMERAL == 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn discord_button_approves_strangers_and_commands_are_offered() {
    let harness = DiscordPeopleHarness::start().await;
    harness.approve_bob().await;
    let (discord, bobs) = (&harness.discord, harness.discord.direct(BOB));

    let offered: Vec<_> =
        discord.commands().iter().filter_map(|command| Some(command["name"].as_str()?.to_owned())).collect();
    let expected = ["files", "find", "resend", "forget", "usage", "undo", "outbox", "stop", "new", "voice", "help"];
    assert_eq!(offered, [&expected[..], &["remind", "schedules", "timezone"]].concat());
    discord.person_commands(bobs, BOB, "files", &[]);
    assert!(harness.wait_for_message(bobs, 2).await.content.starts_with("No files here yet"));
    discord.person_commands(bobs, BOB, "resend", &[("words", json!("17"))]);
    let answered = harness.wait_for_message(bobs, 3).await.content;
    assert!(answered.contains("17"), "{answered}");
    harness
        .wait_until("an answer to each command", |seen| {
            let interactions = seen.channels.values().flat_map(|channel| &channel.interactions);
            interactions.filter(|done| done.answer.is_some()).count() == 3
        })
        .await;

    // Eve is nobody's friend; in the server she is not even answered.
    discord.person_says(FAMILY, EVE, &format!("{} hello", discord.mention()));
    discord.person_says(FAMILY, BOB, &format!("{} /outbox", discord.mention()));
    assert_eq!(harness.wait_for_message(FAMILY, 0).await.content, "Everything has been delivered.");
    assert_eq!(discord.transcript().visible(FAMILY).count(), 1);
    assert!(discord.transcript().pings().is_empty(), "nobody was notified");
}

#[tokio::test(flavor = "multi_thread")]
async fn discord_question_is_for_requester_and_counts_once() {
    let harness = DiscordPeopleHarness::start().await;
    harness.approve_bob().await;
    let discord = &harness.discord;
    discord.person_says(FAMILY, BOB, &format!("{} write notes.txt: buy milk", discord.mention()));
    let question = harness.wait_for_message(FAMILY, 0).await;
    assert!(question.content.contains("file_write"), "{}", question.content);
    harness.press_button(EVE, &question, "Allow");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let still = discord.transcript();
    assert!(still.files(FAMILY).is_empty(), "her word is none:\n{still}");
    assert!(still.message(question.id).is_some_and(|message| !message.buttons.is_empty()), "{still}");
    harness.press_button(BOB, &question, "Allow");
    harness.press_button(BOB, &question, "Allow");
    harness.wait_until("the file", |seen| seen.files(FAMILY).len() == 1).await;
    harness
        .wait_until("a question that is answered", |seen| {
            let question = seen.message(question.id).expect("it stands");
            question.buttons.is_empty() && question.content.contains("Allowed by `Bob`")
        })
        .await;
    harness
        .wait_until("that the second press came too late", |seen| {
            seen.texts(FAMILY).iter().any(|text| text.starts_with("There is no open question with that code"))
        })
        .await;
    assert_eq!(discord.transcript().files(FAMILY).len(), 1, "it ran once");
}

/// Catches: a pin, a preview or a changed name that is answered as an edit, and an edited command that is run.
#[tokio::test(flavor = "multi_thread")]
async fn discord_answers_real_edits_and_runs_no_edited_command() {
    let harness = DiscordPeopleHarness::start().await;
    let (discord, anns) = (&harness.discord, harness.discord.direct(ANN));
    let greeting = discord.person_says(anns, ANN, &format!("hello <@{BOB}>"));
    harness.wait_for_message(anns, 0).await;
    discord.person_edits(anns, ANN, greeting, &format!("hello again <@{BOB}>"));
    harness.wait_for_message(anns, 1).await;
    let command = discord.person_says(anns, ANN, "/files");
    let answer = harness.wait_for_message(anns, 2).await.content;
    assert!(answer.starts_with("No files here yet"), "{answer}");

    discord.person(BOB, "Robert");
    for message in [greeting, command] {
        discord.pins_message(message);
        discord.resolves_embeds(message);
        discord.person_saves_unchanged(message);
    }
    discord.person_edits(anns, ANN, command, "/new");
    let answer = harness.wait_for_message(anns, 3).await.content;
    assert_eq!(answer, "I don't run edited commands, so I did nothing. Please send it again as a new message.");
    discord.person_says(anns, ANN, "/files");
    let answer = harness.wait_for_message(anns, 4).await.content;
    assert!(answer.starts_with("No files here yet"), "{answer}");
}

/// The attack: whoever may not talk here edits what was passed over, or presses a button that others are asked with;
/// and whoever might decide about a call is revoked before they do.
#[tokio::test(flavor = "multi_thread")]
async fn discord_ignores_edits_and_presses_of_strangers() {
    let harness = DiscordPeopleHarness::start().await;
    harness.approve_bob().await;
    let discord = &harness.discord;
    discord.person_says(FAMILY, BOB, &format!("{} write notes.txt: buy milk", discord.mention()));
    let question = harness.wait_for_message(FAMILY, 0).await;
    assert!(question.content.contains("file_write"), "{}", question.content);

    let passed_over = discord.person_says(FAMILY, EVE, &format!("{} hello", discord.mention()));
    discord.person_edits(FAMILY, EVE, passed_over, &format!("{} /help", discord.mention()));
    harness.press_button(EVE, &question, "Allow");
    let mut revoke = harness.home.satchel_command(&["pair", "revoke", "discord", &BOB.to_string()]);
    let revoked = spawn_blocking(move || run_to_end(&mut revoke)).await.expect("a command ends");
    assert_eq!(revoked.stdout, "revoked: 42 on discord\n", "{revoked:?}");
    harness.press_button(BOB, &question, "Allow");
    harness.press_button(ANN, &question, "Refuse");
    let refusal = |text: &&str| text.contains("the person refused this call");
    harness.wait_until("that the call was refused", |seen| seen.texts(FAMILY).iter().any(refusal)).await;

    // A conversation's messages are answered in their order, so that nothing else can come any more.
    discord.person_says(FAMILY, ANN, &format!("{} /files", discord.mention()));
    let last = |text: &&str| text.starts_with("No files here yet");
    harness.wait_until("the answer to the last message", |seen| seen.texts(FAMILY).iter().any(last)).await;
    let seen = discord.transcript();
    assert_eq!(public_messages(&seen, FAMILY).count(), 3, "the question, the refusal, and the answer to Ann:\n{seen}");
    assert!(seen.files(FAMILY).is_empty(), "{seen}");
}
