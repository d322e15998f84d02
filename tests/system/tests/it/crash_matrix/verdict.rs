//! What is right and wrong about what stands on the platform in the end.

use std::collections::BTreeSet;

use satchel_domain::{MessageRef, Sha256};
use satchel_fakes::{Shown, TranscriptMessage, transcript::MessageKind};

use super::{
    run::Outcome,
    scene::{ANSWER, OVERSIZE, Platform, Scene},
};

/// What was found.
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
    /// What stands before something that belongs ahead of it.
    pub(crate) out_of_order: usize,
    /// How often the tool with an effect ran.
    pub(crate) tool_runs: usize,
    /// Whether the model was told that it may have run.
    pub(crate) told_unknown: bool,
    /// Whatever else is wrong.
    pub(crate) other: Vec<String>,
}

impl Verdict {
    pub(crate) fn on(scene: &Scene, outcome: &Outcome) -> Self {
        let transcript = &outcome.transcript;
        let conversation = &scene.conversation;
        let visible: Vec<&TranscriptMessage> = transcript.visible(conversation).collect();
        let mut verdict = Self { tool_runs: outcome.tool_runs, ..Self::default() };

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
            Some(voice) => expected.push(Shown::File(*voice)),
            None if scene.has_everything => verdict.lost.push("the voice".to_owned()),
            None => {}
        }
        if voices.len() > 1 {
            verdict.other.push("the voice was spoken anew after it may have arrived".to_owned());
        }
        expected.extend(scene.files.iter().cloned());
        let notices: Vec<Shown> = visible
            .iter()
            .filter(|message| message.contents.text.contains(OVERSIZE))
            .flat_map(|message| shown(message))
            .collect();
        match notices.first() {
            Some(notice) => expected.push(notice.clone()),
            None if scene.has_everything => verdict.lost.push("the notice".to_owned()),
            None => {}
        }
        expected.push(Shown::Text(ANSWER.to_owned()));

        verdict.lost.extend(transcript.missing(conversation, &expected).iter().map(|lost| format!("{lost:?}")));
        verdict.out_of_order = transcript.out_of_order(conversation, &expected).len();
        let together = |message: &MessageRef| {
            let found = visible.iter().find(|known| known.id == *message);
            found.and_then(|found| found.album.clone()).unwrap_or_else(|| message.clone())
        };
        let duplicates = transcript.duplicates(conversation);
        let repeated = |labelled: bool| -> BTreeSet<MessageRef> {
            let some = duplicates.iter().filter(|duplicate| !labelled || !duplicate.labelled);
            some.map(|duplicate| together(&duplicate.message)).collect()
        };
        verdict.duplicates = repeated(false).len();
        verdict.unlabelled = repeated(true).len();
        verdict.orphans =
            visible.iter().filter(|message| !shown(message).iter().all(|shown| expected.contains(shown))).count();
        let labelled = visible.iter().filter(|message| message.is_labelled()).map(|message| together(&message.id));
        verdict.labels = labelled.collect::<BTreeSet<_>>().len();
        verdict.judge_report(scene, outcome);
        verdict
    }

    fn judge_report(&mut self, scene: &Scene, outcome: &Outcome) {
        let report = match &outcome.report {
            Ok(report) => report,
            Err(why) => return self.other.push(format!("the turns did not end: {why}")),
        };
        self.told_unknown =
            report.tool_answers.iter().any(|answer| answer.contains("outcome unknown") && answer.contains("tally"));
        if report.endings != ["done", "done"] {
            self.other.push(format!("two messages became turns that ended as {:?}", report.endings));
        }
        let failed: Vec<_> = report.parts.iter().filter(|(_, state)| state == "failed").collect();
        if failed.len() != usize::from(scene.has_everything) {
            self.other.push(format!("nothing but {OVERSIZE} can't be sent, but {failed:?} failed"));
        }
        let saved = scene.sent.sha256().to_string();
        let knows = |answer: &String| {
            answer.contains(&saved) || answer.contains("outcome unknown") && answer.contains("attachment_save")
        };
        if !report.tool_answers.iter().any(knows) {
            self.other.push("the person's file was not saved".to_owned());
        }
    }

    /// Whether nothing at all is amiss, as it must be when nobody dies.
    pub(crate) fn is_flawless(&self) -> bool {
        self.problems(Platform::WithKeys).is_empty() && self.tool_runs == 1 && !self.told_unknown
    }

    /// What breaks a promise.
    pub(crate) fn problems(&self, platform: Platform) -> Vec<String> {
        let mut problems = self.other.clone();
        problems.extend(self.lost.iter().map(|lost| format!("lost: {lost}")));
        let in_doubt = usize::from(platform.repeats() || platform.forgets());
        // What stands in the history is found there, but for the streamed message, which was not yet itself.
        let repeats = usize::from(platform.repeats());
        for (wrong, what) in [
            (self.out_of_order > 0, "out of order"),
            (self.duplicates > repeats, "more duplicates than the one in doubt"),
            (self.duplicates + self.orphans > in_doubt, "more messages than the one in doubt"),
            (self.labels > in_doubt, "more labels than parts in doubt"),
            (self.unlabelled > 0, "a duplicate without a label"),
            (self.orphans > self.labels, "half a message was left behind without a label on the whole"),
            (self.tool_runs > 1, "the tool ran twice"),
            (self.tool_runs == 0 && !self.told_unknown, "the tool did not run and nobody was told"),
        ] {
            if wrong {
                problems.push(what.to_owned());
            }
        }
        problems
    }
}

fn shown(message: &TranscriptMessage) -> Vec<Shown> {
    let text = message.contents.text.trim_start();
    let text = text.strip_prefix(satchel_fakes::transcript::DUPLICATE_LABEL).unwrap_or(text).trim();
    let words = (!text.is_empty()).then(|| Shown::Text(text.to_owned()));
    words.into_iter().chain(message.contents.files.iter().map(|file| Shown::File(file.sha256))).collect()
}
