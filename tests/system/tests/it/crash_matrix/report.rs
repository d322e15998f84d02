//! Checks the final messages on the platform.

use std::collections::BTreeSet;

use satchel_domain::{ConversationId, MessageRef, Sha256};
use satchel_fake_kit::{MessageKind, Transcript, TranscriptMessage, VisibleItem};
use satchel_system::crash::CrashReport;

use super::{
    records::{self, has_unknown_outcome},
    run::RunOutcome,
    turn_scenario::{DeliveredFile, MatrixPlatform, OVERSIZED_FILE, SECOND_REPLY, TurnScenario},
};

#[derive(Debug, Default)]
pub(crate) struct MatrixReport {
    /// What a person should see and does not.
    pub(crate) lost: Vec<String>,
    /// The messages, or albums, that repeat something.
    pub(crate) duplicates: usize,
    /// Those of them that don't say that they may.
    pub(crate) unlabelled: usize,
    /// Messages that are no part of the reply, such as half of a streamed one.
    pub(crate) orphans: usize,
    /// The messages, or albums, that say that they may be a repeat.
    pub(crate) labels: usize,
    /// How many parts failed that the scene doesn't let fail.
    pub(crate) failed_parts: usize,
    /// What stands before something that belongs ahead of it.
    pub(crate) out_of_order: usize,
    /// How many processes died.
    pub(crate) deaths: usize,
    /// Whether the tool with an effect belongs to the scene.
    pub(crate) needs_tool: bool,
    /// How often it ran.
    pub(crate) tool_runs: usize,
    /// Whether the model was told that it may have run.
    pub(crate) reported_unknown: bool,
    /// Whatever else is wrong.
    pub(crate) other_problems: Vec<String>,
}

impl MatrixReport {
    /// Creates a report with the counters of a run.
    pub(crate) fn from_counts(outcome: &RunOutcome) -> Self {
        let reported_unknown = outcome.report.as_ref().is_ok_and(|report| has_unknown_outcome(report, "tally"));
        Self { tool_runs: outcome.tool_runs, deaths: outcome.deaths, reported_unknown, ..Self::default() }
    }

    /// Checks a run against the scenario, and its records against an undisturbed run.
    pub(crate) fn new(scenario: &TurnScenario, outcome: &RunOutcome, undisturbed: &RunOutcome) -> Self {
        let transcript = &outcome.transcript;
        let conversation = &scenario.conversation;
        let visible: Vec<&TranscriptMessage> = transcript.visible(conversation).collect();
        let mut report = Self { needs_tool: true, ..Self::from_counts(outcome) };

        let mut expected = scenario.chunks.clone();
        let voices: BTreeSet<Sha256> = visible
            .iter()
            // Where a voice has no words under it, one that may be a repeat comes as a file that has.
            .filter(|message| message.kind == MessageKind::Voice || message.is_labelled())
            .flat_map(|message| &message.contents.files)
            .filter(|file| file.mime == "audio/ogg")
            .map(|file| file.sha256)
            .collect();
        match voices.iter().next() {
            Some(voice) => expected.push(VisibleItem::File(*voice)),
            None if scenario.has_everything => report.lost.push("the voice".to_owned()),
            None => {}
        }
        if voices.len() > 1 {
            report.other_problems.push("the voice was spoken anew after it may have arrived".to_owned());
        }
        // What a script had made when it was interrupted is named to the model, which may send it.
        let was_interrupted = outcome.report.as_ref().is_ok_and(|report| has_unknown_outcome(report, "execute_script"));
        let made = scenario.script_files.iter().filter(|_| !was_interrupted);
        expected.extend(scenario.reply_files.iter().chain(made).map(|file| VisibleItem::File(file.sha256)));
        let notices: Vec<VisibleItem> = visible
            .iter()
            .filter(|message| message.contents.text.contains(OVERSIZED_FILE))
            .flat_map(|message| visible_items(message))
            .collect();
        match notices.first() {
            Some(notice) => expected.push(notice.clone()),
            None if scenario.has_everything => report.lost.push("the notice".to_owned()),
            None => {}
        }
        expected.push(VisibleItem::Text(SECOND_REPLY.to_owned()));

        report.check_messages(transcript, conversation, &expected);
        report.check_files(scenario, &visible);
        match (&outcome.report, &undisturbed.report) {
            (Ok(crash_report), Ok(undisturbed)) => report.check_report(scenario, outcome, crash_report, undisturbed),
            (Err(why), _) => report.other_problems.push(format!("the turns did not end: {why}")),
            (Ok(_), Err(why)) => report.other_problems.push(format!("the undisturbed turns did not end: {why}")),
        }
        report
    }

    /// Compares the visible messages with the expected ones: in this order, each once.
    pub(crate) fn check_messages(
        &mut self,
        transcript: &Transcript,
        conversation: &ConversationId,
        expected: &[VisibleItem],
    ) {
        let visible: Vec<&TranscriptMessage> = transcript.visible(conversation).collect();
        self.lost.extend(transcript.missing(conversation, expected).iter().map(|lost| format!("{lost:?}")));
        self.out_of_order = transcript.out_of_order(conversation, expected).len();
        let album_or_message = |message: &MessageRef| {
            let found = visible.iter().find(|known| known.id == *message);
            found.and_then(|found| found.album.clone()).unwrap_or_else(|| message.clone())
        };
        let duplicates = transcript.duplicates(conversation);
        let repeats = |labelled: bool| -> BTreeSet<MessageRef> {
            let some = duplicates.iter().filter(|duplicate| !labelled || !duplicate.labelled);
            some.map(|duplicate| album_or_message(&duplicate.message)).collect()
        };
        self.duplicates = repeats(false).len();
        self.unlabelled = repeats(true).len();
        let is_orphan =
            |message: &&TranscriptMessage| !visible_items(message).iter().all(|shown| expected.contains(shown));
        self.orphans = visible.iter().filter(|message| is_orphan(message)).count();
        let labelled =
            visible.iter().filter(|message| message.is_labelled()).map(|message| album_or_message(&message.id));
        self.labels = labelled.collect::<BTreeSet<_>>().len();
    }

    /// Names, types and descriptions are those that the files were given.
    fn check_files(&mut self, scenario: &TurnScenario, visible: &[&TranscriptMessage]) {
        for file in visible.iter().flat_map(|message| &message.contents.files) {
            let delivered = DeliveredFile::from_transcript(file);
            let mut expected = scenario
                .reply_files
                .iter()
                .chain(&scenario.script_files)
                .filter(|file| file.sha256 == delivered.sha256);
            if let Some(expected) = expected.next().filter(|expected| **expected != delivered) {
                self.other_problems.push(format!("a file stands there as {delivered:?} instead of {expected:?}"));
            }
        }
    }

    fn check_report(
        &mut self,
        scenario: &TurnScenario,
        outcome: &RunOutcome,
        crash_report: &CrashReport,
        undisturbed: &CrashReport,
    ) {
        if crash_report.endings != ["done", "done"] {
            self.other_problems.push(format!("two messages became turns that ended as {:?}", crash_report.endings));
        }
        let failed: Vec<_> = crash_report.parts.iter().filter(|(_, state)| state == "failed").collect();
        let expected = usize::from(scenario.has_everything);
        if failed.len() < expected {
            self.other_problems.push(format!("{OVERSIZED_FILE} can't be sent, but {failed:?} failed"));
        }
        self.failed_parts = failed.len().saturating_sub(expected);
        let saved = scenario.inbound_files[0].sha256().to_string();
        if !has_unknown_outcome(crash_report, "attachment_save")
            && !crash_report.tool_results().any(|answer| answer.contains(&saved))
        {
            self.other_problems.push("the model was not told what it saved".to_owned());
        }
        self.other_problems.extend(records::all_problems(scenario, outcome, crash_report, undisturbed));
    }

    /// Returns whether the run has no problem at all, as an undisturbed one must.
    pub(crate) fn is_flawless(&self) -> bool {
        let tool_runs = usize::from(self.needs_tool);
        self.problems(MatrixPlatform::Discord).is_empty() && self.tool_runs == tool_runs && !self.reported_unknown
    }

    /// What breaks a promise.
    pub(crate) fn problems(&self, platform: MatrixPlatform) -> Vec<String> {
        let mut problems = self.other_problems.clone();
        problems.extend(self.lost.iter().map(|lost| format!("lost: {lost}")));
        // What stands in the history is found there, but for the streamed message, which was not yet itself.
        let (repeats, forgotten) = (platform.max_repeats_per_kill(), usize::from(platform.has_forgotten_keys()));
        // A part that has its label is not looked for there again, and a second doubt about it repeats it.
        let labelled_again = forgotten * self.deaths.saturating_sub(1);
        let (in_doubt, repeats) = (self.deaths * repeats.max(forgotten), self.deaths * repeats + labelled_again);
        for (is_broken, promise) in [
            (self.out_of_order > 0, "out of order"),
            (self.duplicates > repeats, "more duplicates than the one in doubt"),
            (self.duplicates + self.orphans > in_doubt, "more messages than the one in doubt"),
            (self.labels > in_doubt, "more labels than parts in doubt"),
            (self.unlabelled > 0, "a duplicate without a label"),
            (self.failed_parts > 0, "a part was given up"),
            (self.orphans > self.labels, "half a message was left behind without a label on the whole"),
            (self.tool_runs > 1, "the tool ran twice"),
            (
                self.needs_tool && self.tool_runs == 0 && !self.reported_unknown,
                "the tool did not run and nobody was told",
            ),
        ] {
            if is_broken {
                problems.push(promise.to_owned());
            }
        }
        problems
    }
}

pub(crate) fn visible_items(message: &TranscriptMessage) -> Vec<VisibleItem> {
    let text = message.contents.text.trim_start();
    let text = text.strip_prefix(satchel_fake_kit::DUPLICATE_LABEL).unwrap_or(text).trim();
    let words = (!text.is_empty()).then(|| VisibleItem::Text(text.to_owned()));
    words.into_iter().chain(message.contents.files.iter().map(|file| VisibleItem::File(file.sha256))).collect()
}
