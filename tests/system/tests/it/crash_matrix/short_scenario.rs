//! Short scenarios on Telegram: messages of every form, a group that migrates, a topic that is deleted, a tool that needs a
//! confirmation, a script that is stopped, a chain of tasks, a reminder, a notification of another program, a file behind its
//! question, tables as rich messages, and a reply that is shown by previews.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use satchel_domain::{ChannelCapabilities, ConversationId, HistoryMessage, capabilities::StreamRule};
use satchel_fake_kit::{DUPLICATE_LABEL, FakeFile, Transcript, TranscriptMessage, VisibleItem};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_local::scripted_model::{AnswerOrder, ModelScript, ScriptedAnswer, ScriptedPiece};
use satchel_system::{
    crash::{ChannelAdapter, CrashOptions, CrashReport, OTHER_AGENT, storage::StorageOptions},
    real_binary::script_worker,
};
use serde_json::json;
use tempfile::TempDir;

use super::{
    records,
    report::{MatrixReport, visible_items},
    run::{RunOutcome, Scenario, SignalFiles},
    storage::MatrixStorage,
    turn_scenario::{MatrixPlatform, call_piece, scripted_answer, text_piece},
};
use crate::test_platform::{PlatformRules, TestPlatform};

/// The person, and their chat with the bot.
const PERSON: i64 = 5;

/// The largest file that the fake server gives away.
const DOWNLOAD_BYTES: u64 = 4_096;

/// The name of the file that is larger.
const OVERSIZED_FILE: &str = "big.bin";

/// The file that the script makes.
const SCRIPT_FILE: &str = "made.txt";

/// Longest wait of the person for a visible change.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShortScenarioKind {
    /// An album, a file that is too large, a voice note, a message that is edited while it waits, and commands.
    Arrivals,
    /// A group becomes a supergroup while a turn of it runs.
    Moved,
    /// A topic of a forum is deleted while a turn of it runs.
    TopicDeleted,
    /// A side-effecting tool waits for a person's confirmation.
    Confirmed,
    /// A script that has made a file is stopped.
    Stopped,
    /// A task that needs the file and the text of another one.
    Task,
    /// A reminder is made, and is due while the process dies.
    Reminded,
    /// Another program sends a notification with a file, and sends it once more after each crash.
    Notified,
    /// A file behind the question about it, while the model is called for the question alone.
    Joined,
    /// Replies with tables, which come as rich messages.
    Rich,
    /// The same on a server that knows none: each is refused first, and its text is sent.
    RichRefused,
    /// A reply that is shown by previews while it grows.
    Previewed,
}

impl ShortScenarioKind {
    pub(crate) const ALL: [Self; 12] = [
        Self::Arrivals,
        Self::Moved,
        Self::TopicDeleted,
        Self::Confirmed,
        Self::Stopped,
        Self::Task,
        Self::Reminded,
        Self::Notified,
        Self::Joined,
        Self::Rich,
        Self::RichRefused,
        Self::Previewed,
    ];
}

/// What the person writes in [`ShortScenarioKind::Joined`], and what they read: one answer to both, or one to each where the
/// process that takes the second message in is another one than that of the first.
const QUESTION: &str = "what is it?";
const FILE_CAPTION: &str = "this one";
const ANSWER_TO_BOTH: &str = "I have read both.";
const ANSWERS_TO_EACH: [&str; 2] = ["I have no file.", "I have a file."];

/// How long the model takes to answer the question alone: longer than its file takes to arrive.
const ANSWERING_TIME_MS: u64 = 900;

/// What the model writes in [`ShortScenarioKind::Previewed`], and how long it takes from one piece to the next.
const PREVIEWED_PIECES: [&str; 3] = ["It grows", " and grows", " until it is complete."];
const WRITING_TIME_MS: u64 = 150;

/// The tasks of [`ShortScenarioKind::Task`].
const PLAYBOOK: &str = "\
agents:
  - { id: painter, instructions: x, actions: [{ id: paint, prompt: 'paint {{ input.what }}' }] }
  - id: critic
    instructions: x
    attachments: [{ type: file, path: style.txt }]
    actions:
      - id: judge
        prompt: 'judge: {{ .tasks.paint.output.text }}'
        attachments: [{ type: file, path: '{{ .tasks.paint.output.path }}' }]
tasks:
  - { id: judge, agent: critic, action: judge, allow: everyone }
  - { id: paint, agent: painter, action: paint }
";

/// The file that the first task delivers, and the one that the second task's agent always gets.
const TASK_FILES: [&str; 2] = ["cat.txt", "style.txt"];

/// A scene of its own.
pub(crate) struct ShortScenario {
    kind: ShortScenarioKind,
    storage: Arc<MatrixStorage>,
    /// Empty but for the files of tasks.
    shared: TempDir,
}

impl ShortScenario {
    pub(crate) fn new(kind: ShortScenarioKind, storage: Arc<MatrixStorage>) -> Self {
        let shared = tempfile::tempdir().expect("a directory");
        if kind == ShortScenarioKind::Task {
            for name in TASK_FILES {
                std::fs::write(shared.path().join(name), name).expect("a file can be made");
            }
        }
        Self { kind, storage, shared }
    }

    fn answers(&self) -> Vec<ScriptedAnswer> {
        let wait = || call_piece("wait_for_person", json!({}));
        match self.kind {
            ShortScenarioKind::Arrivals => vec![
                scripted_answer("album", [text_piece("Both came.")]),
                scripted_answer("large", [text_piece("It did not come.")]),
                scripted_answer("voice", [text_piece("I heard it.")]),
                scripted_answer("wait", [wait()]),
                scripted_answer("wait", [text_piece("I have waited.")]),
                scripted_answer("edited", [text_piece("As it was edited.")]),
                scripted_answer("draft", [text_piece("As it was before.")]),
            ],
            ShortScenarioKind::Moved => vec![
                scripted_answer("wait", [wait()]),
                scripted_answer("wait", [text_piece("Asked in the group.")]),
                scripted_answer("second", [text_piece("Asked in the supergroup.")]),
            ],
            ShortScenarioKind::TopicDeleted => {
                vec![scripted_answer("wait", [wait()]), scripted_answer("wait", [text_piece("Asked in the topic.")])]
            }
            ShortScenarioKind::Confirmed => {
                vec![
                    scripted_answer("count", [call_piece("tally", json!({}))]),
                    scripted_answer("count", [text_piece("It is counted.")]),
                ]
            }
            ShortScenarioKind::Task => vec![
                scripted_answer(
                    "paint a cat",
                    [call_piece("tally", json!({})), call_piece("attachment.add", json!({"path": "/shared/cat.txt"}))],
                ),
                scripted_answer("paint a cat", [text_piece("It is painted.")]),
                // The output of the first task is known, whatever happened to the process.
                scripted_answer("judge: It is painted.", [text_piece("A fine cat.")]),
            ],
            ShortScenarioKind::Reminded => Vec::new(),
            ShortScenarioKind::Previewed => {
                let pieces = PREVIEWED_PIECES.map(|piece| [text_piece(piece), ScriptedPiece::WaitMs(WRITING_TIME_MS)]);
                vec![scripted_answer("write", pieces.into_iter().flatten())]
            }
            ShortScenarioKind::Joined => vec![
                scripted_answer(&format!("{QUESTION}\n{FILE_CAPTION}"), [text_piece(ANSWER_TO_BOTH)]),
                scripted_answer(QUESTION, [ScriptedPiece::WaitMs(ANSWERING_TIME_MS), text_piece(ANSWERS_TO_EACH[0])]),
                scripted_answer(FILE_CAPTION, [text_piece(ANSWERS_TO_EACH[1])]),
            ],
            ShortScenarioKind::Rich | ShortScenarioKind::RichRefused => vec![
                scripted_answer("planets", [text_piece("| Planet | Moons |\n|---|---|\n| Mars | 2 |")]),
                scripted_answer("rivers", [text_piece("| River | Length |\n|---|---|\n| Nile | 6650 km |")]),
            ],
            ShortScenarioKind::Notified => vec![scripted_answer("hello", [text_piece("Hi.")])],
            ShortScenarioKind::Stopped => {
                let script = format!(
                    "attachment_create(content=\"made\", filename={SCRIPT_FILE:?})\nwait_for_person()\nreturn 1\n"
                );
                vec![
                    scripted_answer("make", [call_piece("execute_script", json!({"script": script}))]),
                    scripted_answer("make", [text_piece("It is made.")]),
                ]
            }
        }
    }
}

impl Scenario for ShortScenario {
    fn options(&self) -> CrashOptions {
        CrashOptions {
            data: PathBuf::new(),
            storage: StorageOptions::Disk,
            shared: self.shared.path().to_owned(),
            tally: PathBuf::new(),
            reached: PathBuf::new(),
            done: PathBuf::new(),
            confirms: self.kind == ShortScenarioKind::Confirmed,
            reminds: self.kind == ShortScenarioKind::Reminded,
            notifies: self.kind == ShortScenarioKind::Notified,
            platform: String::new(),
            adapter: ChannelAdapter::Telegram,
            capabilities: self.capabilities(),
            channel: TestPlatform::conversation(ChannelAdapter::Telegram).channel().clone(),
            turns: match self.kind {
                ShortScenarioKind::Arrivals => 9,
                ShortScenarioKind::Moved
                | ShortScenarioKind::Reminded
                | ShortScenarioKind::Notified
                | ShortScenarioKind::Joined
                | ShortScenarioKind::Rich
                | ShortScenarioKind::RichRefused => 2,
                ShortScenarioKind::TopicDeleted
                | ShortScenarioKind::Confirmed
                | ShortScenarioKind::Stopped
                | ShortScenarioKind::Task
                | ShortScenarioKind::Previewed => 1,
            },
            script: ModelScript { pick: AnswerOrder::ByProgress, answers: self.answers() },
            playbook: (self.kind == ShortScenarioKind::Task).then(|| PLAYBOOK.to_owned()),
            script_worker: (self.kind == ShortScenarioKind::Stopped).then(script_worker),
            points: None,
            crash_at: None,
        }
    }

    async fn open(&self) -> TestPlatform {
        let rules = TelegramRules {
            download_bytes: Some(DOWNLOAD_BYTES),
            knows_rich_messages: self.kind != ShortScenarioKind::RichRefused,
            ..TelegramRules::default()
        };
        let telegram = FakeTelegram::start(rules).await.expect("a loopback port");
        telegram.private_chat(telegram.person(PERSON, "Ann"));
        TestPlatform::Telegram(telegram)
    }

    fn storage(&self) -> &MatrixStorage {
        &self.storage
    }

    async fn act_as_person(&self, platform: &TestPlatform, files: &SignalFiles) {
        let TestPlatform::Telegram(telegram) = platform else { return };
        match self.kind {
            ShortScenarioKind::Arrivals => send_arrivals(telegram, files).await,
            ShortScenarioKind::Moved => migrate_group(telegram, files).await,
            ShortScenarioKind::TopicDeleted => delete_topic(telegram, files).await,
            ShortScenarioKind::Confirmed => confirm_calls(telegram, files).await,
            ShortScenarioKind::Task => {
                telegram.person_sends(PERSON, PERSON, document("note.txt", "/task judge what=\"a cat\""));
            }
            ShortScenarioKind::Reminded => {
                telegram.person_says(PERSON, PERSON, "/remind in 1s tea");
            }
            ShortScenarioKind::Notified => {
                telegram.person_says(PERSON, PERSON, "hello");
            }
            ShortScenarioKind::Rich | ShortScenarioKind::RichRefused => {
                // With a file each is a turn of its own.
                telegram.person_sends(PERSON, PERSON, document("first.txt", "planets"));
                telegram.person_sends(PERSON, PERSON, document("second.txt", "rivers"));
            }
            ShortScenarioKind::Previewed => {
                telegram.person_says(PERSON, PERSON, "write");
            }
            ShortScenarioKind::Joined => {
                telegram.person_says(PERSON, PERSON, QUESTION);
                // With a database server on a busy machine, the file could come too late to belong to it.
                if matches!(self.storage(), MatrixStorage::Disk) {
                    wait_until("the question is taken", || telegram.unconfirmed_updates() == 0).await;
                }
                telegram.person_sends(PERSON, PERSON, document("note.txt", FILE_CAPTION));
                // A command is a turn of its own, and the last one.
                telegram.person_says(PERSON, PERSON, "/files");
            }
            ShortScenarioKind::Stopped => {
                telegram.person_sends(PERSON, PERSON, document("note.txt", "make"));
                // A script that was interrupted is not run again, and then the turn comes to its end.
                let is_answered = || telegram.transcript().visible(PERSON).next().is_some();
                wait_until("the script waits", || files.reached.exists() || is_answered()).await;
                telegram.person_says(PERSON, PERSON, "/stop");
            }
        }
    }

    fn platform(&self) -> MatrixPlatform {
        MatrixPlatform::Telegram
    }

    fn check(&self, outcome: &RunOutcome, undisturbed: &RunOutcome) -> MatrixReport {
        let mut matrix_report = MatrixReport {
            needs_tool: matches!(self.kind, ShortScenarioKind::Confirmed | ShortScenarioKind::Task),
            ..MatrixReport::from_counts(outcome)
        };
        let (report, expected) = match (&outcome.report, &undisturbed.report) {
            (Ok(report), Ok(expected)) => (report, expected),
            (Err(error), _) | (_, Err(error)) => {
                matrix_report.other_problems.push(format!("the turns did not end: {error}"));
                return matrix_report;
            }
        };
        matrix_report.failed_parts = report.parts.iter().filter(|(_, state)| state == "failed").count();
        if self.kind == ShortScenarioKind::Stopped {
            self.check_stop(outcome, &mut matrix_report);
            return matrix_report;
        }
        if self.kind == ShortScenarioKind::Reminded {
            check_reminder(outcome, &mut matrix_report);
            return matrix_report;
        }
        if self.kind == ShortScenarioKind::Joined {
            check_joined(outcome, report, &mut matrix_report);
            return matrix_report;
        }
        // A group that has moved is where it was last used, under an id that the server chooses.
        let [conversation, undisturbed_conversation] =
            &[report, expected].map(|report| self.shown_in(&report.conversations[0].conversation));
        let (call_messages, reply) = split_call_messages(&outcome.transcript);
        let (_, undisturbed_reply) = split_call_messages(&undisturbed.transcript);
        let expected_items: Vec<VisibleItem> =
            undisturbed_reply.visible(undisturbed_conversation).flat_map(visible_items).collect();
        matrix_report.check_messages(&reply, conversation, &expected_items);
        // However often its process died, a question is asked once.
        let questions = usize::from(self.kind == ShortScenarioKind::Confirmed);
        let is_closed = |message: &TranscriptMessage| message.contents.text.contains("Allowed by");
        if call_messages.len() != questions || !call_messages.iter().all(is_closed) {
            matrix_report
                .other_problems
                .push(format!("instead of {questions} closed questions there are {call_messages:#?}"));
        }
        matrix_report.labels += call_messages.iter().filter(|message| message.is_labelled()).count();
        if self.kind == ShortScenarioKind::Arrivals
            && !outcome.transcript.visible_texts(conversation).iter().any(|text| text.contains(OVERSIZED_FILE))
        {
            matrix_report.other_problems.push(format!("nobody told the person that {OVERSIZED_FILE} was not taken"));
        }
        if self.kind == ShortScenarioKind::Previewed {
            check_previewed(outcome, &mut matrix_report);
        }
        if report.endings.iter().any(|ending| ending != "done") {
            matrix_report.other_problems.push(format!("the turns ended as {:?}", report.endings));
        }
        if records::file_identities(report) != records::file_identities(expected) {
            let (known, expected) = (records::file_identities(report), records::file_identities(expected));
            matrix_report.other_problems.push(format!("the files are {known:#?} instead of {expected:#?}"));
        }
        matrix_report.other_problems.extend(records::common_problems(outcome, report, expected));
        matrix_report
    }
}

impl ShortScenario {
    fn capabilities(&self) -> ChannelCapabilities {
        let rules = PlatformRules::for_platform(ChannelAdapter::Telegram).capabilities();
        let is_rich = matches!(self.kind, ShortScenarioKind::Rich | ShortScenarioKind::RichRefused);
        ChannelCapabilities {
            stream: match self.kind {
                ShortScenarioKind::Previewed => StreamRule::Previews { interval_ms: 20, ttl_ms: 30_000 },
                _ => StreamRule::None,
            },
            joins_messages: self.kind == ShortScenarioKind::Joined,
            ..rules.with_block_choice(is_rich.then_some(true))
        }
    }

    /// Where people read what is sent to a conversation: of a topic that is gone, in its chat.
    fn shown_in(&self, conversation: &ConversationId) -> ConversationId {
        match self.kind {
            ShortScenarioKind::TopicDeleted => conversation.chat(),
            _ => conversation.clone(),
        }
    }

    /// Whichever comes first, the person's `/stop` or the end of the turn: the person reads how it ended, and the
    /// script's file is kept.
    fn check_stop(&self, outcome: &RunOutcome, matrix_report: &mut MatrixReport) {
        let Ok(report) = &outcome.report else { return };
        let chats = outcome.transcript.conversations.keys();
        let texts: Vec<&str> = chats.flat_map(|chat| outcome.transcript.visible_texts(chat)).collect();
        let ends = ["topped", "It is made."];
        if !texts.iter().any(|text| ends.iter().any(|end| text.contains(end))) {
            matrix_report.lost.push(format!("how the turn ended, of {texts:?}"));
        }
        let files = outcome.transcript.conversations.keys().flat_map(|chat| outcome.transcript.visible_files(chat));
        let is_stopped = texts.iter().any(|text| text.contains("topped"));
        if is_stopped && !files.map(|file| file.filename.as_str()).chain(texts).any(|known| known.contains(SCRIPT_FILE))
        {
            matrix_report.lost.push(format!("{SCRIPT_FILE}, which the stopped script had made"));
        }
        if is_stopped && !report.history().any(names_script_file) {
            let history: Vec<&HistoryMessage> = report.history().collect();
            matrix_report.other_problems.push(format!("the model does not read of {SCRIPT_FILE} in {history:#?}"));
        }
        count_duplicates(outcome, matrix_report);
        matrix_report.other_problems.extend(records::missing_blobs(outcome, report));
    }
}

/// The person reads one answer to both messages, or one to each in their order; and each message is remembered once.
fn check_joined(outcome: &RunOutcome, report: &CrashReport, matrix_report: &mut MatrixReport) {
    let chats = outcome.transcript.conversations.keys();
    let texts: Vec<&str> = chats.flat_map(|chat| outcome.transcript.visible_texts(chat)).collect();
    let place = |expected: &str| texts.iter().position(|text| text.ends_with(expected));
    let both = place(ANSWER_TO_BOTH);
    let each = ANSWERS_TO_EACH.map(place);
    let is_one = both.is_some() && each == [None, None];
    let are_two = both.is_none() && each.iter().all(Option::is_some) && each.is_sorted();
    if !is_one && !are_two {
        matrix_report.lost.push(format!("one answer to both messages, or one to each, of {texts:?}"));
    }
    for written in [QUESTION, FILE_CAPTION] {
        let has_text = |message: &&HistoryMessage| match message {
            HistoryMessage::Person { text, .. } => text.contains(written),
            _ => false,
        };
        let times = report.history().filter(has_text).count();
        if times != 1 {
            matrix_report.other_problems.push(format!("{written:?} is remembered {times} times"));
        }
    }
    count_duplicates(outcome, matrix_report);
    matrix_report.other_problems.extend(records::missing_blobs(outcome, report));
}

/// Nothing stood in the chat but the reply, however far it had grown when its process died.
fn check_previewed(outcome: &RunOutcome, matrix_report: &mut MatrixReport) {
    let is_unfinished = |message: &&TranscriptMessage| {
        message.own && !(message.edits.is_empty() && message.contents.text.ends_with(PREVIEWED_PIECES[2]))
    };
    let unfinished: Vec<_> = outcome.transcript.conversations.values().flatten().filter(is_unfinished).collect();
    if !unfinished.is_empty() {
        matrix_report.other_problems.push(format!("a part of the reply stood in the chat: {unfinished:#?}"));
    }
}

/// The person reads that the reminder is made, and gets it once. When it is due depends on when it was made.
fn check_reminder(outcome: &RunOutcome, matrix_report: &mut MatrixReport) {
    let chats = outcome.transcript.conversations.keys();
    let texts: Vec<&str> = chats.flat_map(|chat| outcome.transcript.visible_texts(chat)).collect();
    for expected in ["I'll remind you on", "Reminder: tea"] {
        let unlabelled = texts.iter().filter(|text| text.starts_with(expected)).count();
        let labelled = texts.iter().filter(|text| !text.starts_with(expected) && text.contains(expected)).count();
        match unlabelled {
            0 if labelled == 0 => matrix_report.lost.push(format!("{expected:?}, of {texts:?}")),
            0 | 1 => {}
            _ => matrix_report.other_problems.push(format!("{expected:?} came {unlabelled} times: {texts:?}")),
        }
    }
    count_duplicates(outcome, matrix_report);
}

fn count_duplicates(outcome: &RunOutcome, matrix_report: &mut MatrixReport) {
    for chat in outcome.transcript.conversations.keys() {
        let duplicates = outcome.transcript.duplicates(chat);
        matrix_report.duplicates += duplicates.len();
        matrix_report.unlabelled += duplicates.iter().filter(|duplicate| !duplicate.labelled).count();
        matrix_report.labels += outcome.transcript.visible(chat).filter(|message| message.is_labelled()).count();
    }
}

/// Whether a message tells the model of the file that the script made. The call itself holds its name, too.
fn names_script_file(message: &HistoryMessage) -> bool {
    match message {
        HistoryMessage::Tool { text, attachments, .. } => {
            text.contains(SCRIPT_FILE) || attachments.iter().any(|file| file.filename.as_str() == SCRIPT_FILE)
        }
        HistoryMessage::Note { text } => text.contains(SCRIPT_FILE),
        _ => false,
    }
}

/// The messages that are a question about a call, or what became of it, and the transcript without them.
fn split_call_messages(transcript: &Transcript) -> (Vec<TranscriptMessage>, Transcript) {
    let is_call_message = |message: &TranscriptMessage| {
        let text = message.contents.text.trim_start();
        let text = text.strip_prefix(DUPLICATE_LABEL).unwrap_or(text).trim_start();
        let starts = ["May I use", "Allowed by", "There is no open question with that code"];
        starts.iter().any(|words| text.starts_with(words))
    };
    let mut other_messages = transcript.clone();
    let mut call_messages = Vec::new();
    for messages in other_messages.conversations.values_mut() {
        call_messages.extend(messages.extract_if(.., |message| is_call_message(message)));
    }
    (call_messages, other_messages)
}

fn document(name: &str, caption: &str) -> PersonMessage {
    // With a file every message is a turn of its own, in whatever state the others are.
    PersonMessage::file(
        FileKind::Document,
        FakeFile::from_bytes(name, "text/plain", format!("the content of {name}\n")),
    )
    .caption(caption)
}

async fn send_arrivals(telegram: &FakeTelegram, files: &SignalFiles) {
    let photo = |n| PersonMessage::file(FileKind::Photo, FakeFile::photo(format!("p{n}.png"), 64, 48, n, 400));
    telegram.person_sends_album(PERSON, PERSON, vec![photo(1).caption("album"), photo(2)]);
    let large = FakeFile::generated(OVERSIZED_FILE, "application/octet-stream", 1, DOWNLOAD_BYTES + 1);
    telegram.person_sends(PERSON, PERSON, PersonMessage::file(FileKind::Document, large).caption("large"));
    let voice = FakeFile::from_bytes("voice.ogg", "audio/ogg", [b"OggS".as_slice(), &[0; 400]].concat());
    telegram.person_sends(PERSON, PERSON, PersonMessage::file(FileKind::Voice, voice).caption("voice"));
    telegram.queue_update(json!({"message": {"message_id": "no number"}}));
    telegram.person_sends(PERSON, PERSON, document("wait.txt", "wait"));
    let draft = telegram.person_sends(PERSON, PERSON, document("draft.txt", "draft"));
    telegram.person_edits(PERSON, PERSON, draft, "edited");
    // The turn before it ends only once both are taken.
    wait_until("everything is taken", || telegram.unconfirmed_updates() == 0).await;
    release_waiting_tool(&files.released);
    let choose_agent = format!("/agent {OTHER_AGENT}");
    for command in ["/voice off", &choose_agent, "/files", "/resend 1"] {
        telegram.person_says(PERSON, PERSON, command);
    }
}

async fn migrate_group(telegram: &FakeTelegram, files: &SignalFiles) {
    let mention = |words: &str| format!("@{} {words}", telegram.bot().1);
    let group = telegram.group("Family", &[PERSON]);
    telegram.person_sends(group, PERSON, document("first.txt", &mention("wait")));
    wait_until("the turn runs", || files.reached.exists()).await;
    let supergroup = telegram.migrate(group);
    wait_until("the move is taken", || telegram.unconfirmed_updates() == 0).await;
    // Before the reply: what is in doubt is looked for from the newest message that was known before it was sent.
    telegram.person_sends(supergroup, PERSON, document("second.txt", &mention("second")));
    wait_until("the message is taken", || telegram.unconfirmed_updates() == 0).await;
    // The next turn fetches its file while the reply is sent. A death during the fetch would find the reply in any state,
    // and no other run would find it in the same.
    telegram.hold_downloads();
    release_waiting_tool(&files.released);
    wait_until("the reply is settled", || files.has_called_or_died("ledger.settle_part")).await;
    telegram.resume_downloads();
}

/// The reply is refused by the topic and sent to the chat: a death between the two is one in the midst of a send.
async fn delete_topic(telegram: &FakeTelegram, files: &SignalFiles) {
    let forum = telegram.forum("Family", &[PERSON]);
    let topic = telegram.topic(forum, "Taxes");
    let message = document("first.txt", &format!("@{} wait", telegram.bot().1)).in_topic(topic);
    telegram.person_sends(forum, PERSON, message);
    wait_until("the turn runs", || files.reached.exists()).await;
    telegram.delete_topic(forum, topic);
    release_waiting_tool(&files.released);
}

async fn confirm_calls(telegram: &FakeTelegram, files: &SignalFiles) {
    telegram.person_sends(PERSON, PERSON, document("note.txt", "count"));
    let mut pressed = BTreeSet::new();
    wait_until("the call has an end", || {
        let transcript = telegram.transcript();
        for question in transcript.visible(PERSON) {
            let can_be_pressed = question.buttons.iter().flatten().any(|button| button.label == "Allow");
            if can_be_pressed && pressed.insert(question.id) {
                let has_run = pressed.len() == 1 && files.tally.exists();
                assert!(!has_run, "the tool ran before anybody allowed it:\n{transcript}");
                telegram.person_presses(PERSON, question.id, "Allow");
            }
        }
        transcript.texts(PERSON).iter().any(|text| text.contains("It is counted."))
    })
    .await;
    assert!(!pressed.is_empty(), "nobody was asked:\n{}", telegram.transcript());
}

fn release_waiting_tool(done: &Path) {
    std::fs::write(done, "").expect("a file can be made");
}

async fn wait_until(condition: &str, mut is_met: impl FnMut() -> bool) {
    let waiting = async {
        while !is_met() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    assert!(tokio::time::timeout(WAIT_TIMEOUT, waiting).await.is_ok(), "{condition}: not within {WAIT_TIMEOUT:?}");
}
