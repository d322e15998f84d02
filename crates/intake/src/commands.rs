//! The commands that people give to Satchel itself; the model never sees them.

use std::fmt::Write;

use satchel_domain::{
    Attachment, ConversationId, OutgoingResponse, Part, PartState, Visibility, filename::is_hidden, size,
};
use satchel_ports::{
    Ledger, LedgerError,
    ledger::{AttachmentKey, AttachmentQuery, HistoryChange, OutboxQuery},
};

/// How many files or parts a list shows.
const LISTED: u32 = 30;

/// How many of the newest files are looked through for those that the person may see.
const LOOKED_THROUGH: u32 = 500;

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
    /// Explains the commands.
    Help,
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
}

/// Answers a command.
///
/// # Errors
/// When the ledger can't be read.
pub async fn answer(
    command: &Command,
    ledger: &dyn Ledger,
    conversation: &ConversationId,
) -> Result<CommandAnswer, LedgerError> {
    let response = match command {
        Command::Files => files(ledger, conversation).await?,
        Command::Resend(numbers) => resend(ledger, conversation, numbers).await?,
        Command::Outbox => outbox(ledger, conversation).await?,
        // A turn that a `/stop` has stopped consumes it; one that is answered by itself found nothing to stop.
        Command::Stop => OutgoingResponse::of_text("Nothing is running."),
        Command::New => OutgoingResponse::of_text(
            "A new conversation. What was said before is out of my sight; your files are still here: /files",
        ),
        Command::Help => OutgoingResponse::of_text(HELP),
    };
    let history = if *command == Command::New { HistoryChange::Reset } else { HistoryChange::Append(Vec::new()) };
    Ok(CommandAnswer { response, history })
}

const HELP: &str = "\
Write to me, send me files, and ask for files back.

- `/files` lists the files of this conversation, each with its number
- `/resend 17` sends file #17 again; several numbers send several
- `/outbox` shows what is on its way and what could not be delivered
- `/stop` stops what I am doing and sends what is done so far
- `/new` begins a new conversation; files stay
- `/help` shows this";

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
            None => unknown.push(as_code(given)),
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
    format!("#{number} {} {mime} {}", as_code(filename.as_str()), size::human(*bytes))
}

/// A name as code, so that nothing in it is read as Markdown.
fn as_code(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !is_hidden(*c) && *c != '`').take(150).collect();
    format!("`{shown}`")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use satchel_domain::{AttachmentId, Filename, Media, Sha256, Source, Timestamp};
    use satchel_ports::MockLedger;
    use uuid::Uuid;

    use super::*;

    #[rstest]
    #[case("/files", Some(Command::Files))]
    #[case("  /HELP \n", Some(Command::Help))]
    #[case("/resend 17 #18", Some(Command::Resend(vec!["17".into(), "#18".into()])))]
    #[case("/resend", Some(Command::Resend(vec![])))]
    #[case("/stop", Some(Command::Stop))]
    #[case("/stop that", None)]
    #[case("/tool file_list {}", None)]
    #[case("files", None)]
    #[case("", None)]
    fn only_what_satchel_knows_is_a_command(#[case] text: &str, #[case] command: Option<Command>) {
        assert_eq!(Command::parse(text), command);
    }

    fn conversation() -> ConversationId {
        "console:main".parse().unwrap()
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
        let answer = answer(&command, &ledger, &conversation()).await.unwrap();
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
        let text = answer(&Command::Files, &ledger, &conversation()).await.unwrap().response.text.unwrap();
        assert!(text.contains("- #3 `*b*.jpg` image/jpeg 245 KB\n"), "{text}");
    }

    #[tokio::test]
    async fn only_new_forgets_the_history() {
        let ledger = MockLedger::new();
        let new = answer(&Command::New, &ledger, &conversation()).await.unwrap();
        assert_eq!(new.history, HistoryChange::Reset);
        let stop = answer(&Command::Stop, &ledger, &conversation()).await.unwrap();
        assert_eq!(stop.history, HistoryChange::Append(Vec::new()));
    }
}
