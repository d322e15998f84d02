//! The commands that people give to Satchel itself; the model never sees them.

use std::fmt::Write;

use satchel_domain::{
    Attachment, Button, ConversationId, OutgoingResponse, Part, PartState, Visibility, filename::as_code, size,
};
use satchel_ports::{
    Ledger, LedgerError,
    ledger::{AttachmentKey, AttachmentQuery, HistoryChange, OutboxQuery},
};

use crate::pairing::{self, Asked, PairCommand};

/// How many files or parts a list shows.
const LISTED: u32 = 30;

/// How many of the newest files are looked through for those that the person may see.
const LOOKED_THROUGH: u32 = 500;

/// How much of a name is shown, in characters.
const SHOWN: usize = 150;

/// How many files one `/resend` sends.
const RESENT: usize = 20;

/// A command. What begins with a slash and is none of these goes to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Lists the conversation's files.
    Files,
    /// Sends files again, by their numbers; as given, so that a mistake can be named.
    Resend(Vec<String>),
    /// Lists what is still to be delivered or could not be.
    Outbox,
    /// Stops the running turn.
    Stop,
    /// Begins the conversation anew.
    New,
    /// Allows the tool call with this code.
    Allow(String),
    /// Refuses the tool call with this code.
    Refuse(String),
    /// Sets whether every reply is spoken too; `None` asks whether it is.
    Voice(Option<bool>),
    /// Says who may talk; for owners.
    Pair(PairCommand),
    /// Explains the commands.
    Help,
}

/// How a conversation stands with spoken replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Speaking {
    /// Whether there is anything to speak with.
    pub possible: bool,
    /// Whether the person wants every reply spoken too.
    pub wanted: bool,
}

impl Command {
    /// Reads a message as a command.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let name = words.next()?.strip_prefix('/')?.to_lowercase();
        let arguments: Vec<String> = words.map(str::to_owned).collect();
        match (name.as_str(), arguments.is_empty()) {
            ("files", true) => Some(Self::Files),
            ("resend", _) => Some(Self::Resend(arguments)),
            ("outbox", true) => Some(Self::Outbox),
            ("stop", true) => Some(Self::Stop),
            ("new", true) => Some(Self::New),
            ("help", true) => Some(Self::Help),
            ("voice", true) => Some(Self::Voice(None)),
            ("voice", false) => match arguments.join(" ").to_lowercase().as_str() {
                "on" => Some(Self::Voice(Some(true))),
                "off" => Some(Self::Voice(Some(false))),
                _ => None,
            },
            ("pair", _) => Some(Self::Pair(PairCommand::parse(&arguments))),
            ("allow" | "refuse", _) => {
                let [code] = arguments.as_slice() else { return None };
                Some(if name == "allow" { Self::Allow(code.clone()) } else { Self::Refuse(code.clone()) })
            }
            _ => None,
        }
    }
}

/// What a command answers and does to the history.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandAnswer {
    /// What the person gets.
    pub response: OutgoingResponse,
    /// What the history becomes; commands themselves are not kept in it.
    pub history: HistoryChange,
    /// What can be pressed beneath the answer.
    pub buttons: Vec<Button>,
}

/// Answers a command.
///
/// # Errors
/// When the ledger can't be read.
pub async fn answer(
    command: &Command,
    ledger: &dyn Ledger,
    asked: &Asked<'_>,
    speaking: Speaking,
) -> Result<CommandAnswer, LedgerError> {
    let conversation = asked.conversation;
    let response = match command {
        Command::Files => files(ledger, conversation).await?,
        Command::Resend(numbers) => resend(ledger, conversation, numbers).await?,
        Command::Outbox => outbox(ledger, conversation).await?,
        // A turn that a `/stop` has stopped consumes it; one that is answered by itself found nothing to stop.
        Command::Stop => OutgoingResponse::of_text("Nothing is running."),
        Command::New => OutgoingResponse::of_text(
            "A new conversation. What was said before is out of my sight; your files are still here: /files",
        ),
        // A word that counts is consumed by the turn that waited for it.
        Command::Allow(_) | Command::Refuse(_) => OutgoingResponse::of_text(
            "Nothing waits for this word: it was answered already, it ran out, or it isn't yours to give.",
        ),
        Command::Voice(wish) => voice(ledger, conversation, *wish, speaking).await?,
        Command::Pair(command) => pairing::answer(command, ledger, asked).await?,
        Command::Help if asked.by_owner() => OutgoingResponse::of_text(format!("{HELP}\n{HELP_FOR_OWNERS}")),
        Command::Help => OutgoingResponse::of_text(HELP),
    };
    let history = if *command == Command::New { HistoryChange::Reset } else { HistoryChange::Append(Vec::new()) };
    Ok(CommandAnswer { response, history, buttons: Vec::new() })
}

/// The commands as platforms list them while a person types: name and what it does.
pub const MENU: [(&str, &str); 7] = [
    ("files", "the files of this conversation"),
    ("resend", "send a file again, by its number"),
    ("outbox", "what is on its way or was not delivered"),
    ("stop", "stop what I am doing"),
    ("new", "begin a new conversation"),
    ("voice", "speak my replies: on or off"),
    ("help", "what I can do"),
];

const HELP: &str = "\
Write to me, send me files, and ask for files back.

- `/files` lists the files of this conversation, each with its number
- `/resend 17` sends file #17 again; several numbers send several
- `/outbox` shows what is on its way and what could not be delivered
- `/stop` stops what I am doing and sends what is done so far
- `/new` begins a new conversation; files stay
- `/voice on` speaks my replies too, `/voice off` only writes them
- `/allow` and `/refuse` with a code answer me when I ask whether I may use a tool
- `/help` shows this";

const HELP_FOR_OWNERS: &str = "- `/pair list` shows who asks to talk to me and whom you let in; `/pair` says more";

async fn files(ledger: &dyn Ledger, conversation: &ConversationId) -> Result<OutgoingResponse, LedgerError> {
    let query = AttachmentQuery { conversation: Some(conversation.clone()), turn: None, limit: Some(LOOKED_THROUGH) };
    let mut newest = ledger.attachments(&query).await?;
    newest.retain(|attachment| attachment.visibility == Visibility::Deliver);
    let more = newest.len() > LISTED as usize;
    newest.truncate(LISTED as usize);
    if newest.is_empty() {
        return Ok(OutgoingResponse::of_text("No files here yet. Send me one."));
    }
    let mut text = "Your files, newest first:\n\n".to_owned();
    for attachment in &newest {
        let _ = writeln!(text, "- {}", described(attachment));
    }
    if more {
        let _ = writeln!(text, "- … and older ones");
    }
    text.push_str("\n`/resend` and a number brings one back.");
    Ok(OutgoingResponse::of_text(text))
}

async fn resend(
    ledger: &dyn Ledger,
    conversation: &ConversationId,
    numbers: &[String],
) -> Result<OutgoingResponse, LedgerError> {
    if numbers.is_empty() {
        return Ok(OutgoingResponse::of_text("Which file? `/resend 17` sends #17 again; `/files` lists them all."));
    }
    if numbers.len() > RESENT {
        let text = format!("`/resend` takes at most {RESENT} numbers at once, these are {}.", numbers.len());
        return Ok(OutgoingResponse::of_text(text));
    }
    let mut attachments: Vec<Attachment> = Vec::new();
    let mut unknown = Vec::new();
    for given in numbers {
        let number = given.trim_matches([',', '#']).parse().ok();
        let found = match number {
            Some(number) => ledger.attachment(conversation, AttachmentKey::Number(number)).await?,
            None => None,
        };
        match found {
            Some(attachment) if attachments.iter().any(|known| known.id == attachment.id) => {}
            Some(attachment) => attachments.push(Attachment { visibility: Visibility::Deliver, ..attachment }),
            None => unknown.push(as_code(given, SHOWN)),
        }
    }
    let text = (!unknown.is_empty()).then(|| {
        format!("There is no file {} here. A file's number stands before it in `/files`.", unknown.join(", "))
    });
    Ok(OutgoingResponse { text, voice: None, attachments })
}

async fn outbox(ledger: &dyn Ledger, conversation: &ConversationId) -> Result<OutgoingResponse, LedgerError> {
    let query = OutboxQuery { conversation: Some(conversation.clone()), limit: Some(LISTED), ..OutboxQuery::default() };
    let parts = ledger.outbox(&query).await?;
    if parts.is_empty() {
        return Ok(OutgoingResponse::of_text("Everything has been delivered."));
    }
    let mut text = "Not delivered, newest first:\n\n".to_owned();
    for part in &parts {
        let _ = writeln!(text, "- {}: {}", what_of(part), standing(&part.state));
    }
    Ok(OutgoingResponse::of_text(text.trim_end()))
}

/// Sets whether replies are spoken, or tells. What nobody can speak is not promised.
async fn voice(
    ledger: &dyn Ledger,
    conversation: &ConversationId,
    wish: Option<bool>,
    speaking: Speaking,
) -> Result<OutgoingResponse, LedgerError> {
    const NOT_SET_UP: &str = "I have no voice here: whoever runs me can give me one (`speech.speak`).";
    let Some(wish) = wish else {
        return Ok(OutgoingResponse::of_text(match speaking {
            Speaking { possible: false, .. } => NOT_SET_UP,
            Speaking { wanted: true, .. } => "I speak my replies here, and write them too. `/voice off` ends that.",
            Speaking { wanted: false, .. } => "I only write my replies here. With `/voice on` I speak them too.",
        }));
    };
    if wish && !speaking.possible {
        return Ok(OutgoingResponse::of_text(NOT_SET_UP));
    }
    ledger.set_voice(conversation, wish).await?;
    Ok(OutgoingResponse::of_text(match wish {
        true => "From now on I speak my replies here, and write them too. `/voice off` ends that.",
        false => "From now on I only write my replies here. `/voice on` makes me speak them too.",
    }))
}

fn what_of(part: &Part) -> String {
    match part.content.files() {
        [] => part.content.kind().to_owned(),
        files => files.iter().map(|item| described(&item.attachment)).collect::<Vec<_>>().join(", "),
    }
}

fn standing(state: &PartState) -> String {
    match state {
        PartState::Pending => "waiting for its turn".to_owned(),
        PartState::Sending => "being sent".to_owned(),
        PartState::Waiting { reason, .. } => format!("will be tried again ({reason})"),
        PartState::InDoubt { reason, .. } => format!("may have arrived, is being checked ({reason})"),
        PartState::Failed { reason } => reason.to_string(),
        PartState::Sent { .. } | PartState::Replaced { .. } => "delivered".to_owned(),
    }
}

fn described(attachment: &Attachment) -> String {
    let Attachment { number, filename, mime, bytes, .. } = attachment;
    format!("#{number} {} {mime} {}", as_code(filename.as_str(), SHOWN), size::human(*bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use rstest::rstest;
    use satchel_domain::{AttachmentId, Filename, Media, Sender, Sha256, Source, Timestamp};
    use satchel_ports::MockLedger;
    use uuid::Uuid;

    use super::*;
    use crate::access::{Access, ChannelAccess, OWNER};

    #[rstest]
    #[case("/files", Some(Command::Files))]
    #[case("  /HELP \n", Some(Command::Help))]
    #[case("/resend 17 #18", Some(Command::Resend(vec!["17".into(), "#18".into()])))]
    #[case("/resend", Some(Command::Resend(vec![])))]
    #[case("/stop", Some(Command::Stop))]
    #[case("/stop that", None)]
    #[case("/voice", Some(Command::Voice(None)))]
    #[case("/Voice  ON", Some(Command::Voice(Some(true))))]
    #[case("/voice off", Some(Command::Voice(Some(false))))]
    #[case("/voice of the people", None)]
    #[case("/pair", Some(Command::Pair(PairCommand::Help)))]
    #[case("/PAIR List", Some(Command::Pair(PairCommand::List)))]
    #[case("/tool file_list {}", None)]
    #[case("files", None)]
    #[case("", None)]
    fn only_what_satchel_knows_is_a_command(#[case] text: &str, #[case] command: Option<Command>) {
        assert_eq!(Command::parse(text), command);
    }

    fn conversation() -> ConversationId {
        "console:main".parse().unwrap()
    }

    fn access() -> Access {
        Access::default()
    }

    fn asked(access: &Access) -> Asked<'_> {
        static PLACE: LazyLock<(ConversationId, Sender)> =
            LazyLock::new(|| (conversation(), Sender::new(OWNER, "Owner")));
        Asked { conversation: &PLACE.0, group: false, sender: &PLACE.1, access }
    }

    fn file(number: u64, name: &str) -> Attachment {
        Attachment {
            id: AttachmentId(Uuid::from_u128(u128::from(number))),
            number,
            conversation: conversation(),
            source: Source::User,
            filename: Filename::from_untrusted(name),
            mime: "image/jpeg".into(),
            bytes: 245_000,
            sha256: Sha256([0; 32]),
            media: Media::default(),
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Internal,
        }
    }

    #[tokio::test]
    async fn resend_brings_known_files_and_names_the_unknown() {
        let mut ledger = MockLedger::new();
        ledger
            .expect_attachment()
            .returning(|_, key| Ok((key == AttachmentKey::Number(17)).then(|| file(17, "a.jpg"))));
        let command = Command::parse("/resend #17 17 99 x`y").unwrap();
        let answer = answer(&command, &ledger, &asked(&access()), Speaking::default()).await.unwrap();
        assert_eq!(answer.response.attachments.len(), 1);
        assert_eq!(answer.response.attachments[0].visibility, Visibility::Deliver);
        assert!(answer.response.text.unwrap().contains("no file `99`, `xy` here"));
    }

    #[tokio::test]
    async fn files_are_listed_with_number_name_type_and_size() {
        let mut ledger = MockLedger::new();
        ledger
            .expect_attachments()
            .returning(|_| Ok(vec![Attachment { visibility: Visibility::Deliver, ..file(3, "*b*.jpg") }]));
        let text = answer(&Command::Files, &ledger, &asked(&access()), Speaking::default())
            .await
            .unwrap()
            .response
            .text
            .unwrap();
        assert!(text.contains("- #3 `*b*.jpg` image/jpeg 245 KB\n"), "{text}");
    }

    #[rstest]
    #[case::told_while_on(None, true, true, "I speak my replies here", None)]
    #[case::told_while_off(None, true, false, "I only write my replies", None)]
    #[case::told_without_a_voice(None, false, true, "`speech.speak`", None)]
    #[case::on(Some(true), true, false, "From now on I speak", Some(true))]
    #[case::off(Some(false), true, true, "From now on I only write", Some(false))]
    #[case::off_without_a_voice(Some(false), false, true, "From now on I only write", Some(false))]
    #[case::nothing_to_speak_with(Some(true), false, false, "`speech.speak`", None)]
    #[tokio::test]
    async fn voice_is_set_and_told_and_never_promised_in_vain(
        #[case] wish: Option<bool>,
        #[case] possible: bool,
        #[case] wanted: bool,
        #[case] says: &str,
        #[case] set: Option<bool>,
    ) {
        let mut ledger = MockLedger::new();
        let times = usize::from(set.is_some());
        ledger.expect_set_voice().withf(move |_, on| Some(*on) == set).times(times).returning(|_, _| Ok(()));
        let speaking = Speaking { possible, wanted };
        let answer = answer(&Command::Voice(wish), &ledger, &asked(&access()), speaking).await.unwrap();
        assert!(answer.response.text.as_ref().unwrap().contains(says), "{answer:?}");
        assert_eq!((answer.response.voice, answer.history), (None, HistoryChange::Append(Vec::new())));
    }

    #[tokio::test]
    async fn only_an_owner_hears_of_pairing() {
        let ledger = MockLedger::new();
        let help = async |access: &Access| {
            let answer = answer(&Command::Help, &ledger, &asked(access), Speaking::default()).await.unwrap();
            answer.response.text.unwrap()
        };
        assert!(help(&access()).await.contains("`/pair list`"));
        let strict = Access::of([(conversation().channel().clone(), ChannelAccess::default())]);
        assert!(!help(&strict).await.contains("/pair"));
    }

    #[tokio::test]
    async fn only_new_forgets_the_history() {
        let ledger = MockLedger::new();
        let new = answer(&Command::New, &ledger, &asked(&access()), Speaking::default()).await.unwrap();
        assert_eq!(new.history, HistoryChange::Reset);
        let stop = answer(&Command::Stop, &ledger, &asked(&access()), Speaking::default()).await.unwrap();
        assert_eq!(stop.history, HistoryChange::Append(Vec::new()));
    }
}
