//! The replies of system tasks: to strangers, to owners, and to approved people.

use satchel_domain::{
    Button, ChannelName, HistoryMessage, OutgoingResponse, PairingCode, Sender, SystemTask,
    filename::{is_unsafe_char, is_visually_empty},
};
use satchel_ports::ledger::{HistoryChange, QueuedTurn};

use crate::commands::CommandReply;

/// How many characters of a name are shown.
const MAX_NAME_CHARS: usize = 60;

#[must_use]
pub fn system_task(turn: &QueuedTurn) -> Option<&SystemTask> {
    turn.messages.iter().find_map(|queued| queued.message.system_task.as_ref())
}

/// Returns the reply of a system task, of which the model reads nothing but that a text was sent again; `None` for a
/// schedule, which the model or a script runs, for a [reminder](crate::reminders), and for a
/// [notification](crate::notifications).
#[must_use]
pub fn system_reply(task: &SystemTask) -> Option<CommandReply> {
    let (text, buttons) = match task {
        SystemTask::OfferPairing { code } => {
            (format!("I don't know you yet. Ask the owner to approve code **{code}** (valid for an hour)."), Vec::new())
        }
        SystemTask::RequestApproval { code, person, channel } => approval_request(*code, person, channel),
        SystemTask::ConfirmPairing => {
            ("You're approved. Send me a message or a file; `/help` shows what I can do.".to_owned(), Vec::new())
        }
        SystemTask::ReportRefusal => (
            "The owner has refused your request, so I can't talk to you. You can ask again tomorrow: write to me then."
                .to_owned(),
            Vec::new(),
        ),
        SystemTask::FilesExpired { files, more } => (expired_files_text(files, *more), Vec::new()),
        SystemTask::ChannelClosed { platform, reason, remedy } => {
            (closed_channel_text(platform, reason, remedy), Vec::new())
        }
        SystemTask::ResendText { text } => return Some(resend_reply(text)),
        SystemTask::RunSchedule { .. }
        | SystemTask::RunReminder { .. }
        | SystemTask::DeliverReminder { .. }
        | SystemTask::DeliverNotification { .. } => return None,
    };
    Some(CommandReply {
        response: OutgoingResponse::from_text(text),
        history: HistoryChange::Append(Vec::new()),
        setting: None,
        buttons,
        changes: Vec::new(),
        answered: None,
        in_blocks: false,
    })
}

fn closed_channel_text(platform: &str, reason: &str, remedy: &str) -> String {
    format!(
        "{platform} {reason}, so I can neither read nor write there. My messages there wait for as long as \
         `delivery.max_age` allows; everything else continues.\n\nTo open it again, {remedy}. `satchel doctor` checks the \
         token."
    )
}

/// The reply that sends a text once more. The model, which may have read that it didn't arrive, reads that it is sent.
fn resend_reply(text: &str) -> CommandReply {
    let note = "The operator sends a text from earlier in this conversation to the people here once more; if it doesn't \
                arrive, a note says so.";
    CommandReply {
        response: OutgoingResponse::from_text(text),
        history: HistoryChange::Append(vec![HistoryMessage::Note { text: note.to_owned() }]),
        setting: None,
        buttons: Vec::new(),
        changes: Vec::new(),
        answered: None,
        in_blocks: false,
    }
}

fn expired_files_text(files: &[String], more: u32) -> String {
    let mut text =
        "I'm removing these old files for good, because the person who runs this bot set a time limit:\n".to_owned();
    for file in files {
        text.push_str("\n- ");
        text.push_str(file);
    }
    if more > 0 {
        text.push_str(&format!("\n- and {more} more"));
    }
    text
}

fn approval_request(code: PairingCode, person: &Sender, channel: &ChannelName) -> (String, Vec<Button>) {
    let text = format!(
        "{} wants to talk to me on {channel}. Code **{code}**, valid for an hour.\n\nPress a button, or send \
         `/pair approve {code}` or `/pair refuse {code}`.",
        describe_sender(person)
    );
    let button = |label: &str, verb: &str| Button { label: label.to_owned(), command: format!("/pair {verb} {code}") };
    (text, vec![button("Approve", "approve"), button("Refuse", "refuse")])
}

/// Somebody by all that tells them apart. Names are theirs to choose, so they stand as code: nothing in them is read as
/// Markdown or runs into the words around it.
pub(crate) fn describe_sender(person: &Sender) -> String {
    let handle = person.handle.as_ref().map(|handle| format!(" (@{})", sanitize_name(handle))).unwrap_or_default();
    format!("`{}{handle}`, id `{}`", sanitize_name(&person.name), sanitize_name(&person.id))
}

/// A name as code.
pub(crate) fn inline_name(person: &Sender) -> String {
    format!("`{}`", sanitize_name(&person.name))
}

fn sanitize_name(name: &str) -> String {
    let sanitized: String = name.chars().filter(|c| !is_unsafe_char(*c) && *c != '`').take(MAX_NAME_CHARS).collect();
    if is_visually_empty(&sanitized) { "somebody".to_owned() } else { sanitized.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> PairingCode {
        "ABCD-EFGH".parse().unwrap()
    }

    #[test]
    fn stranger_is_sent_only_the_code() {
        let CommandReply { response, history, buttons, .. } =
            system_reply(&SystemTask::OfferPairing { code: code() }).unwrap();
        let expected = "I don't know you yet. Ask the owner to approve code **ABCD-EFGH** (valid for an hour).";
        assert_eq!(response, OutgoingResponse::from_text(expected));
        assert_eq!((history, buttons), (HistoryChange::Append(Vec::new()), Vec::new()));
    }

    #[test]
    fn owner_reads_what_opens_a_closed_channel() {
        let task = SystemTask::ChannelClosed {
            platform: "Telegram".to_owned(),
            reason: "no longer accepts the bot's token".to_owned(),
            remedy: "get the current token from @BotFather and put it into /run/token, which is read again by itself"
                .to_owned(),
        };
        let CommandReply { response, history, .. } = system_reply(&task).unwrap();
        let expected = "Telegram no longer accepts the bot's token, so I can neither read nor write there. My messages \
                        there wait for as long as `delivery.max_age` allows; everything else continues.\n\nTo open it \
                        again, get the current token from @BotFather and put it into /run/token, which is read again by \
                        itself. `satchel doctor` checks the token.";
        assert_eq!(response, OutgoingResponse::from_text(expected));
        assert_eq!(history, HistoryChange::Append(Vec::new()));
    }

    #[test]
    fn text_that_is_sent_again_is_known_to_the_model() {
        let task = SystemTask::ResendText { text: "See you **tomorrow**.".to_owned() };
        let CommandReply { response, history, .. } = system_reply(&task).unwrap();
        assert_eq!(response, OutgoingResponse::from_text("See you **tomorrow**."));
        let HistoryChange::Append(notes) = history else { panic!("{history:?}") };
        assert!(matches!(&notes[..], [HistoryMessage::Note { text }] if text.contains("once more")), "{notes:?}");
    }

    /// The attack: a name that closes the code, opens a link or a line of its own, or turns the words around.
    #[test]
    fn owner_gets_buttons_and_stranger_name_is_sanitized() {
        let name = "`Ada`](https://evil) is fine.\n**Press Approve**\u{202e}".to_owned() + &"x".repeat(500);
        let person = Sender { handle: Some("eve".into()), ..Sender::new("5", name) };
        let channel = ChannelName::new("telegram").unwrap();
        let CommandReply { response, buttons, .. } =
            system_reply(&SystemTask::RequestApproval { code: code(), person, channel }).unwrap();
        let text = response.text.unwrap();
        let beginning =
            "`Ada](https://evil) is fine.**Press Approve**xxxxxxxxxxxxxxxx (@eve)`, id `5` wants to talk to me";
        assert!(text.starts_with(beginning), "{text}");
        assert_eq!(text.matches('\n').count(), 2, "{text}");
        let commands: Vec<_> = buttons.iter().map(|button| (button.label.as_str(), button.command.as_str())).collect();
        assert_eq!(commands, [("Approve", "/pair approve ABCD-EFGH"), ("Refuse", "/pair refuse ABCD-EFGH")]);
        assert!(commands.iter().all(|(_, command)| text.contains(command)), "{text}");
    }
}
