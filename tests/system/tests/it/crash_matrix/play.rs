//! Short scenes on Telegram: what arrives in every form, a group that moves, a tool that waits for a person's word, and a
//! script that is stopped.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use satchel_domain::{ChannelCapabilities, HistoryMessage, capabilities::StreamRule};
use satchel_fake_kit::{FakeFile, Transcript, TranscriptMessage, VisibleItem};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_local::scripted_model::{AnswerOrder, ModelScript, ScriptedAnswer};
use satchel_system::{
    crash::{ChannelAdapter, CrashOptions},
    real_binary::script_worker,
};
use serde_json::json;
use tempfile::TempDir;

use super::{
    memory,
    run::{Files, Outcome, Scenario},
    scene::{Platform, answer, call, said},
    verdict::{Verdict, shown},
};
use crate::test_platform::{PlatformRules, TestPlatform};

/// The person, and their chat with the bot.
const PERSON: i64 = 5;

/// The largest file that the fake server gives away.
const DOWNLOAD_BYTES: u64 = 4_096;

/// The name of the file that is larger.
const TOO_LARGE: &str = "big.bin";

/// The file that the script makes.
const MADE: &str = "made.txt";

/// The longest that the person waits for something to show.
const LIMIT: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plot {
    /// An album, a file that is too large, a voice note, a message that is edited while it waits, and commands.
    Arrivals,
    /// A group becomes a supergroup while a turn of it runs.
    Moved,
    /// A tool with an effect waits for a person's word.
    Confirmed,
    /// A script that has made a file is stopped.
    Stopped,
}

/// A scene of its own.
pub(crate) struct Play {
    plot: Plot,
    /// An empty directory.
    shared: TempDir,
}

impl Play {
    pub(crate) fn new(plot: Plot) -> Self {
        Self { plot, shared: tempfile::tempdir().expect("a directory") }
    }

    fn answers(&self) -> Vec<ScriptedAnswer> {
        let wait = || call("wait_for_person", json!({}));
        match self.plot {
            Plot::Arrivals => vec![
                answer("album", [said("Both came.")]),
                answer("large", [said("It did not come.")]),
                answer("voice", [said("I heard it.")]),
                answer("wait", [wait()]),
                answer("wait", [said("I have waited.")]),
                answer("edited", [said("As it was edited.")]),
                answer("draft", [said("As it was before.")]),
            ],
            Plot::Moved => vec![
                answer("wait", [wait()]),
                answer("wait", [said("Asked in the group.")]),
                answer("second", [said("Asked in the supergroup.")]),
            ],
            Plot::Confirmed => {
                vec![answer("count", [call("tally", json!({}))]), answer("count", [said("It is counted.")])]
            }
            Plot::Stopped => {
                let script =
                    format!("attachment_create(content=\"made\", filename={MADE:?})\nwait_for_person()\nreturn 1\n");
                vec![
                    answer("make", [call("execute_script", json!({"script": script}))]),
                    answer("make", [said("It is made.")]),
                ]
            }
        }
    }
}

impl Scenario for Play {
    fn options(&self) -> CrashOptions {
        CrashOptions {
            data: PathBuf::new(),
            shared: self.shared.path().to_owned(),
            tally: PathBuf::new(),
            reached: PathBuf::new(),
            done: PathBuf::new(),
            confirms: self.plot == Plot::Confirmed,
            platform: String::new(),
            adapter: ChannelAdapter::Telegram,
            capabilities: ChannelCapabilities {
                stream: StreamRule::None,
                ..PlatformRules::of_platform(ChannelAdapter::Telegram).capabilities()
            },
            channel: TestPlatform::conversation(ChannelAdapter::Telegram).channel().clone(),
            turns: match self.plot {
                Plot::Arrivals => 8,
                Plot::Moved => 2,
                Plot::Confirmed | Plot::Stopped => 1,
            },
            script: ModelScript { pick: AnswerOrder::ByProgress, answers: self.answers() },
            script_worker: (self.plot == Plot::Stopped).then(script_worker),
            points: None,
            crash_at: None,
        }
    }

    async fn open(&self) -> TestPlatform {
        let rules = TelegramRules { download_bytes: Some(DOWNLOAD_BYTES), ..TelegramRules::default() };
        let telegram = FakeTelegram::start(rules).await.expect("a loopback port");
        telegram.private_chat(telegram.person(PERSON, "Ann"));
        TestPlatform::Telegram(telegram)
    }

    async fn act(&self, platform: &TestPlatform, files: &Files) {
        let TestPlatform::Telegram(telegram) = platform else { return };
        match self.plot {
            Plot::Arrivals => arrive(telegram, files).await,
            Plot::Moved => move_away(telegram, files).await,
            Plot::Confirmed => confirm(telegram, files).await,
            Plot::Stopped => {
                telegram.person_sends(PERSON, PERSON, document("note.txt", "make"));
                // A script that was interrupted is not run again, and then the turn comes to its end.
                let is_answered = || telegram.transcript().visible(PERSON).next().is_some();
                wait_until("the script waits", || files.reached.exists() || is_answered()).await;
                telegram.person_says(PERSON, PERSON, "/stop");
            }
        }
    }

    fn platform(&self) -> Platform {
        Platform::Telegram
    }

    fn judge(&self, outcome: &Outcome, undisturbed: &Outcome) -> Verdict {
        let mut verdict = Verdict { needs_tool: self.plot == Plot::Confirmed, ..Verdict::with_counts(outcome) };
        let (report, expected) = match (&outcome.report, &undisturbed.report) {
            (Ok(report), Ok(expected)) => (report, expected),
            (Err(why), _) | (_, Err(why)) => {
                verdict.other.push(format!("the turns did not end: {why}"));
                return verdict;
            }
        };
        verdict.given_up = report.parts.iter().filter(|(_, state)| state == "failed").count();
        if self.plot == Plot::Stopped {
            self.judge_stop(outcome, &mut verdict);
            return verdict;
        }
        // A group that has moved is where it was last used, under an id that the server chooses.
        let [here, there] = [report, expected].map(|report| &report.conversations[0].conversation);
        let (talk, reply) = without_talk_about_calls(&outcome.transcript);
        let (_, usual) = without_talk_about_calls(&undisturbed.transcript);
        let usual: Vec<VisibleItem> = usual.visible(there).flat_map(shown).collect();
        verdict.judge_messages(&reply, here, &usual);
        // A question that nobody knows to have arrived is put once more.
        let most = usize::from(verdict.needs_tool) + 2 * outcome.deaths;
        if talk > most {
            verdict.other.push(format!("{talk} messages are about the call instead of {most}"));
        }
        if self.plot == Plot::Arrivals
            && !outcome.transcript.visible_texts(here).iter().any(|text| text.contains(TOO_LARGE))
        {
            verdict.other.push(format!("nobody told the person that {TOO_LARGE} was not taken"));
        }
        if report.endings.iter().any(|ending| ending != "done") {
            verdict.other.push(format!("the turns ended as {:?}", report.endings));
        }
        if memory::identities(report) != memory::identities(expected) {
            let (known, expected) = (memory::identities(report), memory::identities(expected));
            verdict.other.push(format!("the files are {known:#?} instead of {expected:#?}"));
        }
        verdict.other.extend(memory::common_problems(outcome, report, expected));
        verdict
    }
}

impl Play {
    /// Whatever comes first, the word of the person or the end of the turn: the person is told how it ended, and what the
    /// script had made is kept.
    fn judge_stop(&self, outcome: &Outcome, verdict: &mut Verdict) {
        let Ok(report) = &outcome.report else { return };
        let chats = outcome.transcript.conversations.keys();
        let texts: Vec<&str> = chats.flat_map(|chat| outcome.transcript.visible_texts(chat)).collect();
        let ends = ["topped", "It is made."];
        if !texts.iter().any(|text| ends.iter().any(|end| text.contains(end))) {
            verdict.lost.push(format!("how the turn ended, of {texts:?}"));
        }
        let files = outcome.transcript.conversations.keys().flat_map(|chat| outcome.transcript.visible_files(chat));
        let is_stopped = texts.iter().any(|text| text.contains("topped"));
        if is_stopped && !files.map(|file| file.filename.as_str()).chain(texts).any(|known| known.contains(MADE)) {
            verdict.lost.push(format!("{MADE}, which the stopped script had made"));
        }
        if is_stopped && !report.history().any(names_made_file) {
            let history: Vec<&HistoryMessage> = report.history().collect();
            verdict.other.push(format!("the model does not read of {MADE} in {history:#?}"));
        }
        for chat in outcome.transcript.conversations.keys() {
            let duplicates = outcome.transcript.duplicates(chat);
            verdict.duplicates += duplicates.len();
            verdict.unlabelled += duplicates.iter().filter(|duplicate| !duplicate.labelled).count();
            verdict.labels += outcome.transcript.visible(chat).filter(|message| message.is_labelled()).count();
        }
        verdict.other.extend(memory::unkept_files(outcome, report));
    }
}

/// Whether a message tells the model of the file that the script made. The call itself holds its name, too.
fn names_made_file(message: &HistoryMessage) -> bool {
    match message {
        HistoryMessage::Tool { text, attachments, .. } => {
            text.contains(MADE) || attachments.iter().any(|file| file.filename.as_str() == MADE)
        }
        HistoryMessage::Note { text } => text.contains(MADE),
        _ => false,
    }
}

/// How many messages are a question about a call, or what became of it, and the transcript without them. A question that a
/// dead process has asked may stay open, and a press that came twice is answered.
fn without_talk_about_calls(transcript: &Transcript) -> (usize, Transcript) {
    let is_talk = |message: &TranscriptMessage| {
        let starts = ["May I use", "Allowed by", "There is no open question with that code"];
        starts.iter().any(|words| message.contents.text.starts_with(words))
    };
    let mut rest = transcript.clone();
    let mut count = 0;
    for messages in rest.conversations.values_mut() {
        count += messages.extract_if(.., |message| is_talk(message)).count();
    }
    (count, rest)
}

fn document(name: &str, caption: &str) -> PersonMessage {
    // With a file every message is a turn of its own, in whatever state the others are.
    PersonMessage::file(
        FileKind::Document,
        FakeFile::from_bytes(name, "text/plain", format!("the content of {name}\n")),
    )
    .caption(caption)
}

async fn arrive(telegram: &FakeTelegram, files: &Files) {
    let photo = |n| PersonMessage::file(FileKind::Photo, FakeFile::photo(format!("p{n}.png"), 64, 48, n, 400));
    telegram.person_sends_album(PERSON, PERSON, vec![photo(1).caption("album"), photo(2)]);
    let large = FakeFile::generated(TOO_LARGE, "application/octet-stream", 1, DOWNLOAD_BYTES + 1);
    telegram.person_sends(PERSON, PERSON, PersonMessage::file(FileKind::Document, large).caption("large"));
    let voice = FakeFile::from_bytes("voice.ogg", "audio/ogg", [b"OggS".as_slice(), &[0; 400]].concat());
    telegram.person_sends(PERSON, PERSON, PersonMessage::file(FileKind::Voice, voice).caption("voice"));
    telegram.queue_update(json!({"message": {"message_id": "no number"}}));
    telegram.person_sends(PERSON, PERSON, document("wait.txt", "wait"));
    let draft = telegram.person_sends(PERSON, PERSON, document("draft.txt", "draft"));
    telegram.person_edits(PERSON, PERSON, draft, "edited");
    // The turn before it ends only once both are taken.
    wait_until("everything is taken", || telegram.unconfirmed_updates() == 0).await;
    finish_waiting(&files.done);
    for command in ["/voice off", "/files", "/resend 1"] {
        telegram.person_says(PERSON, PERSON, command);
    }
}

async fn move_away(telegram: &FakeTelegram, files: &Files) {
    let mention = |words: &str| format!("@{} {words}", telegram.bot().1);
    let group = telegram.group("Family", &[PERSON]);
    telegram.person_sends(group, PERSON, document("first.txt", &mention("wait")));
    wait_until("the turn runs", || files.reached.exists()).await;
    let supergroup = telegram.migrate(group);
    wait_until("the move is taken", || telegram.unconfirmed_updates() == 0).await;
    finish_waiting(&files.done);
    telegram.person_sends(supergroup, PERSON, document("second.txt", &mention("second")));
}

async fn confirm(telegram: &FakeTelegram, files: &Files) {
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

fn finish_waiting(done: &Path) {
    std::fs::write(done, "").expect("a file can be made");
}

async fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(LOOK).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, waiting).await.is_ok(), "{what}: not within {LIMIT:?}");
}
