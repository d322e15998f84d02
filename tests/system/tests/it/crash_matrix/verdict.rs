//! What is right and wrong about what stands on the platform in the end.

use std::collections::BTreeSet;

use satchel_domain::{ConversationId, MessageRef, Sha256};
use satchel_fake_kit::{MessageKind, Transcript, TranscriptMessage, VisibleItem};
use satchel_system::crash::CrashReport;

use super::{
    memory::{self, is_doubtful},
    run::Outcome,
    scene::{ANSWER, DeliveredFile, OVERSIZE, Platform, Scene},
};

#[derive(Debug, Default)]
pub(crate) struct Verdict {
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
    pub(crate) given_up: usize,
    /// What stands before something that belongs ahead of it.
    pub(crate) out_of_order: usize,
    /// How many processes died.
    pub(crate) deaths: usize,
    /// Whether the tool with an effect belongs to the scene.
    pub(crate) needs_tool: bool,
    /// How often it ran.
    pub(crate) tool_runs: usize,
    /// Whether the model was told that it may have run.
    pub(crate) told_unknown: bool,
    /// Whatever else is wrong.
    pub(crate) other: Vec<String>,
}

impl Verdict {
    /// A verdict that knows no more than what was counted.
    pub(crate) fn with_counts(outcome: &Outcome) -> Self {
        let told_unknown = outcome.report.as_ref().is_ok_and(|report| is_doubtful(report, "tally"));
        Self { tool_runs: outcome.tool_runs, deaths: outcome.deaths, told_unknown, ..Self::default() }
    }

    /// Judges a run by the scene, and its memory by that of a run in which nobody died.
    pub(crate) fn new(scene: &Scene, outcome: &Outcome, undisturbed: &Outcome) -> Self {
        let transcript = &outcome.transcript;
        let conversation = &scene.conversation;
        let visible: Vec<&TranscriptMessage> = transcript.visible(conversation).collect();
        let mut verdict = Self { needs_tool: true, ..Self::with_counts(outcome) };

        let mut expected = scene.chunks.clone();
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
            None if scene.has_everything => verdict.lost.push("the voice".to_owned()),
            None => {}
        }
        if voices.len() > 1 {
            verdict.other.push("the voice was spoken anew after it may have arrived".to_owned());
        }
        // What a script had made when it was interrupted is named to the model, which may send it.
        let was_interrupted = outcome.report.as_ref().is_ok_and(|report| is_doubtful(report, "execute_script"));
        let made = scene.made.iter().filter(|_| !was_interrupted);
        expected.extend(scene.files.iter().chain(made).map(|file| VisibleItem::File(file.sha256)));
        let notices: Vec<VisibleItem> = visible
            .iter()
            .filter(|message| message.contents.text.contains(OVERSIZE))
            .flat_map(|message| shown(message))
            .collect();
        match notices.first() {
            Some(notice) => expected.push(notice.clone()),
            None if scene.has_everything => verdict.lost.push("the notice".to_owned()),
            None => {}
        }
        expected.push(VisibleItem::Text(ANSWER.to_owned()));

        verdict.judge_messages(transcript, conversation, &expected);
        verdict.judge_files(scene, &visible);
        match (&outcome.report, &undisturbed.report) {
            (Ok(report), Ok(undisturbed)) => verdict.judge_report(scene, outcome, report, undisturbed),
            (Err(why), _) => verdict.other.push(format!("the turns did not end: {why}")),
            (Ok(_), Err(why)) => verdict.other.push(format!("the undisturbed turns did not end: {why}")),
        }
        verdict
    }

    /// Holds what stands in a conversation against what should stand there, in this order and once.
    pub(crate) fn judge_messages(
        &mut self,
        transcript: &Transcript,
        conversation: &ConversationId,
        expected: &[VisibleItem],
    ) {
        let visible: Vec<&TranscriptMessage> = transcript.visible(conversation).collect();
        self.lost.extend(transcript.missing(conversation, expected).iter().map(|lost| format!("{lost:?}")));
        self.out_of_order = transcript.out_of_order(conversation, expected).len();
        let together = |message: &MessageRef| {
            let found = visible.iter().find(|known| known.id == *message);
            found.and_then(|found| found.album.clone()).unwrap_or_else(|| message.clone())
        };
        let duplicates = transcript.duplicates(conversation);
        let repeated = |labelled: bool| -> BTreeSet<MessageRef> {
            let some = duplicates.iter().filter(|duplicate| !labelled || !duplicate.labelled);
            some.map(|duplicate| together(&duplicate.message)).collect()
        };
        self.duplicates = repeated(false).len();
        self.unlabelled = repeated(true).len();
        let is_orphan = |message: &&TranscriptMessage| !shown(message).iter().all(|shown| expected.contains(shown));
        self.orphans = visible.iter().filter(|message| is_orphan(message)).count();
        let labelled = visible.iter().filter(|message| message.is_labelled()).map(|message| together(&message.id));
        self.labels = labelled.collect::<BTreeSet<_>>().len();
    }

    /// Names, types and descriptions are those that the files were given.
    fn judge_files(&mut self, scene: &Scene, visible: &[&TranscriptMessage]) {
        for file in visible.iter().flat_map(|message| &message.contents.files) {
            let shown = DeliveredFile::shown(file);
            let mut expected = scene.files.iter().chain(&scene.made).filter(|file| file.sha256 == shown.sha256);
            if let Some(expected) = expected.next().filter(|expected| **expected != shown) {
                self.other.push(format!("a file stands there as {shown:?} instead of {expected:?}"));
            }
        }
    }

    fn judge_report(&mut self, scene: &Scene, outcome: &Outcome, report: &CrashReport, undisturbed: &CrashReport) {
        if report.endings != ["done", "done"] {
            self.other.push(format!("two messages became turns that ended as {:?}", report.endings));
        }
        let failed: Vec<_> = report.parts.iter().filter(|(_, state)| state == "failed").collect();
        let expected = usize::from(scene.has_everything);
        if failed.len() < expected {
            self.other.push(format!("{OVERSIZE} can't be sent, but {failed:?} failed"));
        }
        self.given_up = failed.len().saturating_sub(expected);
        let saved = scene.sent[0].sha256().to_string();
        if !is_doubtful(report, "attachment_save") && !report.tool_answers().any(|answer| answer.contains(&saved)) {
            self.other.push("the model was not told what it saved".to_owned());
        }
        self.other.extend(memory::problems(scene, outcome, report, undisturbed));
    }

    /// Whether nothing at all is amiss, as it must be when nobody dies.
    pub(crate) fn is_flawless(&self) -> bool {
        let tool_runs = usize::from(self.needs_tool);
        self.problems(Platform::Discord).is_empty() && self.tool_runs == tool_runs && !self.told_unknown
    }

    /// What breaks a promise.
    pub(crate) fn problems(&self, platform: Platform) -> Vec<String> {
        let mut problems = self.other.clone();
        problems.extend(self.lost.iter().map(|lost| format!("lost: {lost}")));
        // What stands in the history is found there, but for the streamed message, which was not yet itself.
        let (repeats, forgotten) = (platform.repeats(), usize::from(platform.forgets()));
        // A part that has its label is not looked for there again, and a second doubt about it repeats it.
        let labelled_again = forgotten * self.deaths.saturating_sub(1);
        let (in_doubt, repeats) = (self.deaths * repeats.max(forgotten), self.deaths * repeats + labelled_again);
        for (wrong, what) in [
            (self.out_of_order > 0, "out of order"),
            (self.duplicates > repeats, "more duplicates than the one in doubt"),
            (self.duplicates + self.orphans > in_doubt, "more messages than the one in doubt"),
            (self.labels > in_doubt, "more labels than parts in doubt"),
            (self.unlabelled > 0, "a duplicate without a label"),
            (self.given_up > 0, "a part was given up"),
            (self.orphans > self.labels, "half a message was left behind without a label on the whole"),
            (self.tool_runs > 1, "the tool ran twice"),
            (self.needs_tool && self.tool_runs == 0 && !self.told_unknown, "the tool did not run and nobody was told"),
        ] {
            if wrong {
                problems.push(what.to_owned());
            }
        }
        problems
    }
}

pub(crate) fn shown(message: &TranscriptMessage) -> Vec<VisibleItem> {
    let text = message.contents.text.trim_start();
    let text = text.strip_prefix(satchel_fake_kit::DUPLICATE_LABEL).unwrap_or(text).trim();
    let words = (!text.is_empty()).then(|| VisibleItem::Text(text.to_owned()));
    words.into_iter().chain(message.contents.files.iter().map(|file| VisibleItem::File(file.sha256))).collect()
}
