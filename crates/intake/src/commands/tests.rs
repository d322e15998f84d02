//! How messages are read as commands, and what they answer.

use std::sync::LazyLock;

use rstest::rstest;
use satchel_domain::{AgentDirectory, Sender, Timestamp, TurnId, agent::AgentChat};
use satchel_ports::{MockBlobs, MockFileLinks, MockLedger, MockWorkspace, ledger::Quotas};
use uuid::Uuid;

use super::*;
use crate::access::{AccessPolicy, ChannelAccess, IMPLICIT_OWNER_ID};

#[rstest]
#[case("/files", Some(ChatCommand::Files(1)))]
#[case("/files 3", Some(ChatCommand::Files(3)))]
#[case("/files 0", Some(ChatCommand::NamedFiles(named("0", 1))))]
#[case("/files rent  contract", Some(ChatCommand::NamedFiles(named("rent  contract", 1))))]
#[case("/files rent /2", Some(ChatCommand::NamedFiles(named("rent", 2))))]
#[case("  /HELP \n", Some(ChatCommand::Explain(Explanation::Commands)))]
#[case("/resend 17 #18", Some(ChatCommand::Resend(vec!["17".into(), "#18".into()])))]
#[case("/resend", Some(ChatCommand::Resend(vec![])))]
#[case("/unlink #17", Some(ChatCommand::Unlink(vec!["#17".into()])))]
#[case("/undo", Some(ChatCommand::Undo))]
#[case("/undo that", None)]
#[case("/stop", Some(ChatCommand::Stop))]
#[case("/stop that", None)]
#[case("/voice", Some(ChatCommand::Voice(None)))]
#[case("/Voice  ON", Some(ChatCommand::Voice(Some(true))))]
#[case("/voice off", Some(ChatCommand::Voice(Some(false))))]
#[case("/voice of the people", None)]
#[case("/rich", Some(ChatCommand::Rich(BlockCommand::Show)))]
#[case("/Rich ON", Some(ChatCommand::Rich(BlockCommand::Set(true))))]
#[case("/rich sample", Some(ChatCommand::Rich(BlockCommand::Sample)))]
#[case("/rich people", None)]
#[case("/agent", Some(ChatCommand::Agent(None)))]
#[case("/Agent Kids", Some(ChatCommand::Agent(Some("Kids".into()))))]
#[case("/agent of change", Some(ChatCommand::Agent(Some("of change".into()))))]
#[case("/persona", Some(ChatCommand::Persona(PersonaCommand::Show)))]
#[case("/Persona  You are\n Ada ", Some(ChatCommand::Persona(PersonaCommand::Set("You are\n Ada".into()))))]
#[case("/model", Some(ChatCommand::Model(None)))]
#[case("/model Small", Some(ChatCommand::Model(Some("Small".into()))))]
#[case("/pair", Some(ChatCommand::Pair(PairCommand::Help)))]
#[case("/PAIR List", Some(ChatCommand::Pair(PairCommand::List)))]
#[case("/start", Some(ChatCommand::Explain(Explanation::Commands)))]
#[case("/start from-a-link", Some(ChatCommand::Explain(Explanation::Commands)))]
#[case("/allow", Some(ChatCommand::Explain(Explanation::Decisions)))]
#[case("/refuse ", Some(ChatCommand::Explain(Explanation::Decisions)))]
#[case("/allow ABCD2345", Some(ChatCommand::Allow("ABCD2345".into())))]
#[case("/allow me to explain", None)]
#[case("/tool file_list {}", None)]
#[case("files", None)]
#[case("", None)]
fn only_what_satchel_knows_is_a_command(#[case] text: &str, #[case] command: Option<ChatCommand>) {
    assert_eq!(ChatCommand::parse(text), command);
}

fn named(text: &str, page: usize) -> FindCommand {
    FindCommand { text: text.to_owned(), page }
}

#[rstest]
#[case::letter_missing("/file", Some("files"))]
#[case::letter_added("/Newt", Some("new"))]
#[case::letter_changed("/resent 17", Some("resend"))]
#[case::neighbours_swapped("/flies", Some("files"))]
#[case::pairing("/pairs list", Some("pair"))]
#[case::two_letters("/fils3", None)]
#[case::another_word("/weather", None)]
#[case::one_of_the_model("/tool", None)]
#[case::slash_alone("/", None)]
#[case::path("/etc/hosts", None)]
#[case::other_letters("/файл", None)]
fn command_one_letter_off_gets_hint(#[case] text: &str, #[case] nearest: Option<&str>) {
    let hint = match ChatCommand::parse(text) {
        Some(ChatCommand::Explain(Explanation::Hint { nearest, .. })) => Some(nearest),
        None => None,
        Some(command) => panic!("{command:?}"),
    };
    assert_eq!(hint, nearest);
}

#[rstest]
#[case::run_already(&["/forget 2"], true)]
#[case::run_before_another_edit(&["/forget 2", "hm"], true)]
#[case::only_explained(&["/flies"], true)]
#[case::no_command(&["files, please"], true)]
#[case::without_text(&[""], true)]
#[case::no_edit(&[], false)]
fn edited_command_is_not_run(#[case] earlier: &[&str], #[case] is_refused: bool) {
    let (last, before) = earlier.split_last().map_or((None, &[][..]), |(last, before)| (Some(*last), before));
    let message = InboundMessage {
        earlier_text: last.map(str::to_owned),
        earlier_commands: before.iter().map(|&text| text.to_owned()).collect(),
        ..InboundMessage::new(conversation(), "1".into(), Sender::new("owner", "Owner"))
    };
    let forgotten = InboundMessage { edits_forgotten: true, ..message.clone() };
    let expected = "I don't run edited commands, so I did nothing. Please send it again as a new message.";
    for text in ["/forget 3", "/help", "/new", "/remind in 2h water the plants", "/allow A1"] {
        let command = ChatCommand::parse(text).unwrap();
        let reply = edited_command_reply(&message, &command).map(|reply| reply.response.text.unwrap());
        assert_eq!(reply.as_deref(), is_refused.then_some(expected), "{text}");
        assert!(edited_command_reply(&forgotten, &command).is_some(), "it may have been run: {text}");
    }
    let unknown = ChatCommand::parse("/flies").unwrap();
    assert_eq!(edited_command_reply(&message, &unknown), None, "the hint says what to send");
}

#[tokio::test]
async fn hint_names_only_offered_commands() {
    let ledger = Ledger::from(MockLedger::default());
    let strict = without_owner();
    let text = async |text: &str, access: &AccessPolicy| {
        let command = ChatCommand::parse(text).unwrap();
        let answer = handle_command(
            &command,
            &ledger,
            &command_context(access),
            VoiceStatus::default(),
            &no_offers(),
            None,
            &storage(),
        )
        .await
        .unwrap();
        replied(answer).response.text.unwrap()
    };
    assert_eq!(
        text("/flies", &strict).await,
        "I don't know the command `/flies`. Did you mean `/files`? `/help` lists all commands."
    );
    assert!(text("/pairr list", &access()).await.contains("`/pair`"));
    assert_eq!(text("/pairr list", &strict).await, "I don't know the command `/pairr`. `/help` lists all commands.");
    assert_eq!(
        text("/agents", &access()).await,
        "I don't know the command `/agents`. `/help` lists all commands.",
        "there is no choice"
    );
    assert!(text("/allow", &strict).await.contains("`/allow CODE`"));
}

fn conversation() -> ConversationId {
    "console:main".parse().unwrap()
}

/// The default agent alone, and no tasks.
fn no_offers() -> CommandOffers<'static> {
    static ALONE: LazyLock<AgentDirectory> = LazyLock::new(AgentDirectory::default);
    static NO_TASKS: LazyLock<TaskDirectory> = LazyLock::new(TaskDirectory::default);
    static CONVERSATION: LazyLock<ConversationId> = LazyLock::new(conversation);
    let chat = AgentChat { conversation: &CONVERSATION, parents: &[], person: None };
    let agents = AgentChoice { directory: &ALONE, chosen: None, chat };
    let models = ModelOffers { names: &[], usual: "usual", chosen: None };
    static ZONE: LazyLock<Zone> = LazyLock::new(|| Zone::find("UTC").unwrap());
    CommandOffers {
        agents,
        models,
        persona: None,
        tasks: &NO_TASKS,
        zone: &ZONE,
        reminders: None,
        starter: TaskStarter::Owner,
        blocks: BlockStatus::default(),
    }
}

fn replied(outcome: CommandOutcome) -> CommandReply {
    match outcome {
        CommandOutcome::Reply(reply) => reply,
        CommandOutcome::RunTask(request) => panic!("{request:?} runs"),
    }
}

/// A storage that no command of these looks into.
fn storage() -> StorageServices<'static> {
    static UNUSED: LazyLock<(MockBlobs, MockWorkspace)> = LazyLock::new(Default::default);
    StorageServices { blobs: &UNUSED.0, workspace: &UNUSED.1, quotas: Quotas::NONE }
}

pub(super) fn access() -> AccessPolicy {
    AccessPolicy::default().with_owner_on([conversation().channel().clone()])
}

/// A channel on which nobody owns the bot.
pub(super) fn without_owner() -> AccessPolicy {
    AccessPolicy::new([(conversation().channel().clone(), ChannelAccess::default())])
}

pub(super) fn command_context(access: &AccessPolicy) -> CommandContext<'_> {
    static PLACE: LazyLock<(ConversationId, Sender)> =
        LazyLock::new(|| (conversation(), Sender::new(IMPLICIT_OWNER_ID, "Owner")));
    CommandContext {
        turn: TurnId(Uuid::nil()),
        repeated: false,
        conversation: &PLACE.0,
        group: false,
        sender: &PLACE.1,
        access,
        now: Timestamp(0),
    }
}

/// What a command that needs neither voice nor files is answered.
async fn reply(command: &ChatCommand, access: &AccessPolicy, links: Option<&dyn FileLinks>) -> CommandReply {
    let (ledger, voice) = (Ledger::from(MockLedger::default()), VoiceStatus::default());
    let context = command_context(access);
    replied(handle_command(command, &ledger, &context, voice, &no_offers(), links, &storage()).await.unwrap())
}

#[rstest]
#[case::told_while_on(None, true, true, "Voice replies are on here", None)]
#[case::told_while_off(None, true, false, "Voice replies are off. Turn them on with", None)]
#[case::told_without_a_voice(None, false, true, "`speech.speak`", None)]
#[case::on(Some(true), true, false, "Voice replies are on here", Some(true))]
#[case::off(Some(false), true, true, "Voice replies are off. Turn them on again", Some(false))]
#[case::off_without_a_voice(Some(false), false, true, "Voice replies are off. Turn them on again", Some(false))]
#[case::nothing_to_speak_with(Some(true), false, false, "`speech.speak`", None)]
#[tokio::test]
async fn voice_command_sets_reports_and_checks_availability(
    #[case] wish: Option<bool>,
    #[case] possible: bool,
    #[case] wanted: bool,
    #[case] says: &str,
    #[case] set: Option<bool>,
) {
    let speaking = VoiceStatus { available: possible, enabled: wanted };
    let answer = handle_command(
        &ChatCommand::Voice(wish),
        &Ledger::from(MockLedger::default()),
        &command_context(&access()),
        speaking,
        &no_offers(),
        None,
        &storage(),
    )
    .await
    .unwrap();
    let answer = replied(answer);
    assert!(answer.response.text.as_ref().unwrap().contains(says), "{answer:?}");
    assert_eq!(answer.setting, set.map(ConversationSetting::VoiceReplies));
    assert_eq!((answer.response.voice, answer.history), (None, HistoryChange::Append(Vec::new())));
}

#[tokio::test]
async fn only_owners_read_which_setting_helps() {
    let strict = without_owner();
    for (command, key) in [("/voice on", "`speech.speak`"), ("/unlink 17", "`web.public_url`")] {
        for (access, names_key) in [(access(), true), (strict.clone(), false)] {
            let command = ChatCommand::parse(command).unwrap();
            let text = reply(&command, &access, None).await.response.text.unwrap();
            assert_eq!(
                (text.contains(key), text.contains("ask the person who runs this bot")),
                (names_key, !names_key),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn only_an_owner_hears_of_pairing() {
    let help = async |access: &AccessPolicy| {
        reply(&ChatCommand::Explain(Explanation::Commands), access, None).await.response.text.unwrap()
    };
    assert!(help(&access()).await.contains("`/pair list`"));
    let strict = without_owner();
    assert!(!help(&strict).await.contains("/pair"));
}

#[tokio::test]
async fn unlink_command_is_offered_only_with_links() {
    let links = MockFileLinks::new();
    for links in [None, Some(&links as &dyn FileLinks)] {
        let help = reply(&ChatCommand::Explain(Explanation::Commands), &access(), links).await;
        assert_eq!(help.response.text.unwrap().contains("- `/unlink 17`"), links.is_some());
        let features = CommandFeatures { links: links.is_some(), ..CommandFeatures::default() };
        assert_eq!(command_menu(features).iter().any(|(name, _)| *name == "unlink"), links.is_some());
    }
}

#[tokio::test]
async fn only_new_forgets_the_history() {
    let new = reply(&ChatCommand::New, &access(), None).await;
    assert_eq!(new.history, HistoryChange::Reset);
    let stop = reply(&ChatCommand::Stop, &access(), None).await;
    assert_eq!(stop.history, HistoryChange::Append(Vec::new()));
}
