//! People on Discord: a stranger is let in by a button, a tool asks whoever asked for it, and slash commands are the
//! same commands as everywhere.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

use std::{fs::File, process::Stdio, time::Duration};

use satchel_fake_discord::{DiscordMessage, DiscordRules, DiscordTranscript, EPHEMERAL, FakeDiscord, Tier};
use satchel_system::real_binary::{Household, finish};
use serde_json::json;
use tokio::{
    process::{Child, Command},
    task::spawn_blocking,
};

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

const ANN: u64 = 41;
const BOB: u64 = 42;
const EVE: u64 = 43;

/// Ann's server, and the channel in which all three are.
const SERVER: u64 = 1_000;
const FAMILY: u64 = 1_001;

struct Home {
    discord: FakeDiscord,
    household: Household,
    _satchel: Child,
}

impl Home {
    /// Satchel runs and Ann owns it; tools that change something ask first.
    async fn furnish() -> Self {
        let discord = FakeDiscord::start(DiscordRules::unpaced()).await.expect("a loopback port");
        for (id, name) in [(ANN, "Ann"), (BOB, "Bob"), (EVE, "Eve")] {
            discord.person(id, name);
        }
        discord.channel(discord.guild(SERVER, "Home", Tier::None), FAMILY, "family");
        let household = Household::new();
        let (token, url) = (discord.token(), discord.api_url());
        household.file(
            "satchel.yaml",
            format!(
                "discord: {{ token: '{token}', api_url: '{url}', owners: [{ANN}] }}\n\
                 web: {{ listen: off }}\ndelivery: {{ pace: off }}\nmodel: offline\n\
                 tools: {{ confirm: [side_effecting] }}\n"
            ),
        );
        let log = File::create(household.root().join("log")).expect("a log can be written");
        let mut command: Command = household.satchel(&["run", "--log", "debug"]).into();
        command.stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let satchel = command.spawn().expect("the binary can be started");
        let home = Self { discord, household, _satchel: satchel };
        home.sees("a bot that listens and offers commands", |_| {
            home.discord.gateway().connected() > 0 && !home.discord.commands().is_empty()
        })
        .await;
        home
    }

    async fn sees(&self, what: &str, is_there: impl Fn(&DiscordTranscript) -> bool) {
        let seen = async {
            while !is_there(&self.discord.transcript()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, seen).await.is_err() {
            let log = std::fs::read_to_string(self.household.root().join("log")).unwrap_or_default();
            panic!("{what} is not seen:\n{}\n{log}", self.discord.transcript());
        }
    }

    /// Waits until the bot's `nth` message stands in a channel.
    async fn reads(&self, channel: u64, nth: usize) -> DiscordMessage {
        self.sees(&format!("message {nth} in {channel}"), |seen| for_all(seen, channel).nth(nth).is_some()).await;
        for_all(&self.discord.transcript(), channel).nth(nth).expect("it was there").clone()
    }

    /// Presses the button of a message with these words on it.
    fn presses(&self, person: u64, message: &DiscordMessage, label: &str) {
        let button = message.buttons.iter().flatten().find(|button| button.label == label).expect("the button");
        self.discord.person_presses(person, message.id, button.custom_id.as_ref().expect("it says something"));
    }

    /// Lets Bob in by Ann's button.
    async fn lets_bob_in(&self) {
        let (bobs, anns) = (self.discord.direct(BOB), self.discord.direct(ANN));
        self.discord.person_says(bobs, BOB, "hello");
        let told = self.reads(bobs, 0).await.content;
        assert!(told.starts_with("I don't know you yet. Ask the owner to approve code "), "{told}");
        let asked = self.reads(anns, 0).await;
        assert!(asked.content.contains("Bob") && asked.content.contains("42"), "{}", asked.content);
        self.presses(ANN, &asked, "Approve");
        let welcome = self.reads(bobs, 1).await.content;
        assert!(welcome.starts_with("You're approved. Send me a message"), "{welcome}");
        assert!(self.reads(anns, 1).await.content.contains("is approved. I've told them."));
    }
}

/// The bot's messages, without what only one person saw in answer to a command.
fn for_all(seen: &DiscordTranscript, channel: u64) -> impl Iterator<Item = &DiscordMessage> {
    seen.visible(channel).filter(|message| message.flags & EPHEMERAL == 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn discord_button_approves_strangers_and_commands_are_offered() {
    let home = Home::furnish().await;
    home.lets_bob_in().await;
    let (discord, bobs) = (&home.discord, home.discord.direct(BOB));

    let offered: Vec<_> =
        discord.commands().iter().filter_map(|command| Some(command["name"].as_str()?.to_owned())).collect();
    assert_eq!(offered, ["files", "resend", "forget", "usage", "outbox", "stop", "new", "voice", "help"]);
    discord.person_commands(bobs, BOB, "files", &[]);
    assert!(home.reads(bobs, 2).await.content.starts_with("No files here yet"));
    discord.person_commands(bobs, BOB, "resend", &[("words", json!("17"))]);
    let answered = home.reads(bobs, 3).await.content;
    assert!(answered.contains("17"), "{answered}");
    home.sees("an answer to each command", |seen| {
        let interactions = seen.channels.values().flat_map(|channel| &channel.interactions);
        interactions.filter(|done| done.answer.is_some()).count() == 3
    })
    .await;

    // Eve is nobody's friend; in the server she is not even answered.
    discord.person_says(FAMILY, EVE, &format!("{} hello", discord.mention()));
    discord.person_says(FAMILY, BOB, &format!("{} /outbox", discord.mention()));
    assert_eq!(home.reads(FAMILY, 0).await.content, "Everything has been delivered.");
    assert_eq!(discord.transcript().visible(FAMILY).count(), 1);
    assert!(discord.transcript().pings().is_empty(), "nobody was notified");
}

#[tokio::test(flavor = "multi_thread")]
async fn discord_question_is_for_requester_and_counts_once() {
    let home = Home::furnish().await;
    home.lets_bob_in().await;
    let discord = &home.discord;
    discord.person_says(FAMILY, BOB, &format!("{} write notes.txt: buy milk", discord.mention()));
    let question = home.reads(FAMILY, 0).await;
    assert!(question.content.contains("file_write"), "{}", question.content);
    home.presses(EVE, &question, "Allow");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let still = discord.transcript();
    assert!(still.files(FAMILY).is_empty(), "her word is none:\n{still}");
    assert!(still.message(question.id).is_some_and(|message| !message.buttons.is_empty()), "{still}");
    home.presses(BOB, &question, "Allow");
    home.presses(BOB, &question, "Allow");
    home.sees("the file", |seen| seen.files(FAMILY).len() == 1).await;
    home.sees("a question that is answered", |seen| {
        let question = seen.message(question.id).expect("it stands");
        question.buttons.is_empty() && question.content.contains("Allowed by `Bob`")
    })
    .await;
    home.sees("that the second press came too late", |seen| {
        seen.texts(FAMILY).iter().any(|text| text.starts_with("There is no open question with that code"))
    })
    .await;
    assert_eq!(discord.transcript().files(FAMILY).len(), 1, "it ran once");
}

/// The attack: whoever may not talk here edits what was passed over, or presses a button that others are asked with; and
/// whoever might decide about a call is revoked before they do.
#[tokio::test(flavor = "multi_thread")]
async fn discord_ignores_edits_and_presses_of_strangers() {
    let home = Home::furnish().await;
    home.lets_bob_in().await;
    let discord = &home.discord;
    discord.person_says(FAMILY, BOB, &format!("{} write notes.txt: buy milk", discord.mention()));
    let question = home.reads(FAMILY, 0).await;
    assert!(question.content.contains("file_write"), "{}", question.content);

    let passed_over = discord.person_says(FAMILY, EVE, &format!("{} hello", discord.mention()));
    discord.person_edits(FAMILY, EVE, passed_over, &format!("{} /help", discord.mention()));
    home.presses(EVE, &question, "Allow");
    let mut revoke = home.household.satchel(&["pair", "revoke", "discord", &BOB.to_string()]);
    let revoked = spawn_blocking(move || finish(&mut revoke)).await.expect("a command ends");
    assert_eq!(revoked.stdout, "revoked: 42 on discord\n", "{revoked:?}");
    home.presses(BOB, &question, "Allow");
    home.presses(ANN, &question, "Refuse");
    let refusal = |text: &&str| text.contains("the person refused this call");
    home.sees("that the call was refused", |seen| seen.texts(FAMILY).iter().any(refusal)).await;

    // A conversation's messages are answered in their order, so that nothing else can come any more.
    discord.person_says(FAMILY, ANN, &format!("{} /files", discord.mention()));
    let last = |text: &&str| text.starts_with("No files here yet");
    home.sees("the answer to the last message", |seen| seen.texts(FAMILY).iter().any(last)).await;
    let seen = discord.transcript();
    assert_eq!(for_all(&seen, FAMILY).count(), 3, "the question, the refusal, and the answer to Ann:\n{seen}");
    assert!(seen.files(FAMILY).is_empty(), "{seen}");
}
