//! How the outcomes of a turn's tools become one response.
//!
//! The seven rules are those of ADR 0002; each has a test of its own below.

use crate::{
    Attachment, Ending, OutgoingResponse, RecordedOutcome, Visibility, VoiceRequest,
    filename::is_visually_empty,
    markdown::{append_paragraph, has_block, start_paragraph, trim_blank_edges},
};

/// The reply when a turn yields nothing at all, which is an error of the agent.
pub const EMPTY_RESPONSE_TEXT: &str = "I finished without anything to send. Please ask again, perhaps in other words.";

/// What becomes of the texts that a model writes before it calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InterimText {
    /// They are part of the reply.
    #[default]
    Keep,
    /// The reply has the model's last text alone.
    Last,
}

/// Folds a turn into its response, whose text is that of the model's last message; [`with_interim_texts`] puts the texts
/// before it in front.
///
/// `messages` are the texts of the model's messages, oldest first; `outcomes` are those of its tool calls in the
/// order in which the model requested them, whatever order they finished in.
#[must_use]
pub fn fold(messages: &[String], outcomes: &[RecordedOutcome], ending: &Ending) -> OutgoingResponse {
    let attachments = fold_attachments(outcomes);
    let voice = outcomes.iter().rev().find_map(|outcome| outcome.voice.clone());
    let last_message = visible_texts(messages).pop();
    let text = match (last_message, ending.user_message()) {
        (Some(message), Some(ending_text)) => Some(append_paragraph(message, &ending_text)),
        (Some(message), None) => Some(message.to_owned()),
        (None, Some(ending_text)) => Some(ending_text),
        (None, None) if attachments.is_empty() && voice.is_none() => Some(EMPTY_RESPONSE_TEXT.to_owned()),
        (None, None) => None,
    };
    // A voice request without a text speaks the reply's text; without either there is nothing to speak.
    let voice = voice.filter(|voice| text.is_some() || voice.text.as_ref().is_some_and(|text| !text.trim().is_empty()));
    if text.is_none() && voice.is_none() && attachments.is_empty() {
        return OutgoingResponse::from_text(EMPTY_RESPONSE_TEXT);
    }
    OutgoingResponse { text, voice, attachments }
}

/// Puts the files of the tasks that ran before into a response. Each task decides about its own files alone.
#[must_use]
pub fn with_earlier_files(response: OutgoingResponse, earlier: &[Attachment], ending: &Ending) -> OutgoingResponse {
    if earlier.is_empty() {
        return response;
    }
    let mut attachments: Vec<Attachment> = Vec::new();
    for attachment in earlier.iter().chain(&response.attachments) {
        merge_attachment(&mut attachments, attachment);
    }
    let is_empty = *ending == Ending::Done && response.text.as_deref() == Some(EMPTY_RESPONSE_TEXT);
    OutgoingResponse { text: response.text.filter(|_| !is_empty), attachments, ..response }
}

/// Puts the texts of a turn's messages before its last one that says something in front of the response's text, in their
/// order. One that the last repeats isn't put there, and a voice without a text of its own still speaks the last one alone.
#[must_use]
pub fn with_interim_texts(response: OutgoingResponse, messages: &[String]) -> OutgoingResponse {
    let mut texts = visible_texts(messages);
    let (Some(last), Some(text)) = (texts.pop(), &response.text) else { return response };
    let interim = join_texts(texts.into_iter().filter(|text| !has_block(last, text)));
    if interim.is_empty() {
        return response;
    }
    let spoken = |voice: VoiceRequest| voice.text.filter(|own| !own.trim().is_empty()).or_else(|| Some(text.clone()));
    let voice = response.voice.map(|voice| VoiceRequest { text: spoken(voice) });
    OutgoingResponse { text: Some(start_paragraph(&interim) + text), voice, ..response }
}

/// Joins the texts that say something, as paragraphs in their order. One that the next repeats stands once.
#[must_use]
pub fn join_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts = visible_texts(texts);
    let mut joined = String::new();
    for (index, text) in texts.iter().enumerate() {
        if texts.get(index + 1).is_none_or(|next| !has_block(next, text)) {
            joined = start_paragraph(&joined);
            joined.push_str(text);
        }
    }
    joined
}

/// The texts that say something, without blank lines around them.
fn visible_texts<'a, T: AsRef<str> + ?Sized + 'a>(texts: impl IntoIterator<Item = &'a T>) -> Vec<&'a str> {
    let visible = texts.into_iter().map(|text| text.as_ref()).filter(|text: &&str| !is_visually_empty(text));
    visible.map(trim_blank_edges).collect()
}

/// Adds a voice reply to a response where the person turned voice replies on, unless it has a voice already or the turn
/// ended early: how a turn ended must be readable.
#[must_use]
pub fn with_voice_reply(response: OutgoingResponse, ending: &Ending) -> OutgoingResponse {
    let is_speakable =
        *ending == Ending::Done && response.text.as_deref().is_some_and(|text| text != EMPTY_RESPONSE_TEXT);
    match response.voice {
        None if is_speakable => OutgoingResponse { voice: Some(VoiceRequest::default()), ..response },
        _ => response,
    }
}

/// Returns the files to deliver: the last selection and the files made after it, or else all deliverable files.
fn fold_attachments(outcomes: &[RecordedOutcome]) -> Vec<Attachment> {
    let last_selecting = outcomes.iter().rposition(|outcome| outcome.selection.is_some());
    let selected = last_selecting.and_then(|at| outcomes[at].selection.as_deref()).unwrap_or_default();
    let mut merged: Vec<Attachment> = Vec::new();
    for attachment in selected {
        let attachment = Attachment { visibility: Visibility::Deliver, ..attachment.clone() };
        merge_attachment(&mut merged, &attachment);
    }
    let later = &outcomes[last_selecting.map_or(0, |at| at + 1)..];
    for attachment in later.iter().flat_map(|outcome| &outcome.attachments) {
        merge_attachment(&mut merged, attachment);
    }
    merged.retain(|attachment| attachment.visibility == Visibility::Deliver);
    merged
}

/// Merges the selections of several outcomes, if any of them selects; for a tool that calls others.
#[must_use]
pub fn merge_selections(outcomes: &[RecordedOutcome]) -> Option<Vec<Attachment>> {
    outcomes.iter().any(|outcome| outcome.selection.is_some()).then(|| fold_attachments(outcomes))
}

/// Adds a file, or joins it with the one that it repeats: the first position and id stay, the later description wins,
/// `deliver` beats `internal`.
fn merge_attachment(merged: &mut Vec<Attachment>, attachment: &Attachment) {
    let is_same_file = |existing: &Attachment| {
        existing.id == attachment.id
            || (existing.sha256 == attachment.sha256 && existing.filename == attachment.filename)
    };
    let Some(existing) = merged.iter_mut().find(|existing| is_same_file(existing)) else {
        merged.push(attachment.clone());
        return;
    };
    if !attachment.description.is_empty() {
        existing.description.clone_from(&attachment.description);
    }
    if attachment.visibility == Visibility::Deliver {
        existing.visibility = Visibility::Deliver;
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::{AttachmentId, AttachmentSource, Filename, MediaInfo, Sha256, Timestamp};

    fn file(id: u128, content: u8, name: &str) -> Attachment {
        Attachment {
            id: AttachmentId(Uuid::from_u128(id)),
            number: NonZeroU64::MIN,
            conversation: "console:main".parse().expect("a conversation"),
            source: AttachmentSource::Tool,
            filename: Filename::from_untrusted(name),
            mime: "text/plain".to_owned(),
            bytes: 1,
            sha256: Sha256([content; 32]),
            media: MediaInfo::default(),
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Deliver,
            link_revocation: None,
        }
    }

    fn made(attachments: Vec<Attachment>) -> RecordedOutcome {
        RecordedOutcome { attachments, ..RecordedOutcome::default() }
    }

    fn messages(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn ids(response: &OutgoingResponse) -> Vec<u128> {
        response.attachments.iter().map(|attachment| attachment.id.0.as_u128()).collect()
    }

    #[test]
    fn rule_1_files_stand_in_call_order() {
        let outcomes = [made(vec![file(3, 3, "c"), file(1, 1, "a")]), made(vec![file(2, 2, "b")])];
        assert_eq!(ids(&fold(&messages(&["x"]), &outcomes, &Ending::Done)), [3, 1, 2]);
    }

    #[test]
    fn rule_2_a_file_is_delivered_once() {
        let internal = Attachment { visibility: Visibility::Internal, ..file(1, 1, "a") };
        let described = Attachment { description: "later".into(), ..file(1, 1, "a") };
        let same_bytes_same_name = file(9, 1, "a");
        let same_bytes_other_name = file(4, 1, "z");
        let outcomes =
            [made(vec![internal, file(2, 2, "b")]), made(vec![described, same_bytes_same_name, same_bytes_other_name])];
        let response = fold(&[], &outcomes, &Ending::Done);
        assert_eq!(ids(&response), [1, 2, 4], "first position wins, deliver beats internal");
        assert_eq!(response.attachments[0].description, "later");
    }

    #[test]
    fn rule_3_unselected_internal_files_stay_internal() {
        let internal = Attachment { visibility: Visibility::Internal, ..file(1, 1, "a") };
        let outcomes = [made(vec![internal.clone(), file(2, 2, "b")])];
        assert_eq!(ids(&fold(&messages(&["x"]), &outcomes, &Ending::Done)), [2]);

        let select =
            |chosen: Vec<Attachment>| RecordedOutcome { selection: Some(chosen), ..RecordedOutcome::default() };
        let earlier_turn = file(7, 7, "old");
        let outcomes = [
            made(vec![internal.clone(), file(2, 2, "b")]),
            select(vec![file(2, 2, "b")]),
            select(vec![earlier_turn, internal]),
            made(vec![file(5, 5, "late")]),
        ];
        assert_eq!(
            ids(&fold(&messages(&["x"]), &outcomes, &Ending::Done)),
            [7, 1, 5],
            "the last selection, then later files"
        );

        let outcomes = [made(vec![file(2, 2, "b")]), select(vec![])];
        assert_eq!(ids(&fold(&messages(&["x"]), &outcomes, &Ending::Done)), [] as [u128; 0], "[] withholds all");
    }

    /// A script is one call that makes files and may select among them: what it made after its selection stands in that
    /// selection already, and what it made before was left out on purpose.
    #[test]
    fn rule_3_selection_covers_own_call() {
        let internal = Attachment { visibility: Visibility::Internal, ..file(2, 2, "b") };
        let script = |selection: Vec<Attachment>| RecordedOutcome {
            attachments: vec![file(1, 1, "a"), internal.clone(), file(3, 3, "c")],
            selection: Some(selection),
            ..RecordedOutcome::default()
        };
        for (selection, sent) in
            [(vec![file(3, 3, "c")], vec![3]), (vec![internal.clone(), file(1, 1, "a")], vec![2, 1]), (vec![], vec![])]
        {
            let outcomes = [made(vec![file(7, 7, "before")]), script(selection)];
            assert_eq!(ids(&fold(&messages(&["x"]), &outcomes, &Ending::Done)), sent);
            let later = [&outcomes[..], &[made(vec![file(9, 9, "later")])]].concat();
            assert_eq!(ids(&fold(&messages(&["x"]), &later, &Ending::Done)), [&sent[..], &[9]].concat());
        }
    }

    #[test]
    fn rule_4_last_voice_request_wins() {
        let speak = |text: Option<&str>| RecordedOutcome {
            voice: Some(VoiceRequest { text: text.map(str::to_owned) }),
            ..RecordedOutcome::default()
        };
        let response = fold(&messages(&["x"]), &[speak(Some("one")), speak(None)], &Ending::Done);
        assert_eq!(response.voice, Some(VoiceRequest { text: None }));
        let only_voice = fold(&[], &[speak(Some("one"))], &Ending::Done);
        assert_eq!((only_voice.text, only_voice.voice.is_some()), (None, true));
        let nothing_to_speak = fold(&[], &[speak(None)], &Ending::Done);
        assert_eq!(nothing_to_speak.text.as_deref(), Some(EMPTY_RESPONSE_TEXT));
    }

    #[test]
    fn voice_reply_skips_explicit_voice_and_early_end() {
        let text = OutgoingResponse::from_text("hello");
        let spoken = with_voice_reply(text.clone(), &Ending::Done);
        assert_eq!(spoken, OutgoingResponse { voice: Some(VoiceRequest { text: None }), ..text.clone() });
        let own = OutgoingResponse { voice: Some(VoiceRequest { text: Some("hi".into()) }), ..text.clone() };
        let files = OutgoingResponse { attachments: vec![file(1, 1, "a")], ..OutgoingResponse::default() };
        for unchanged in [own, files, OutgoingResponse::from_text(EMPTY_RESPONSE_TEXT)] {
            assert_eq!(with_voice_reply(unchanged.clone(), &Ending::Done), unchanged);
        }
        assert_eq!(with_voice_reply(text.clone(), &Ending::Cancelled), text);
    }

    #[test]
    fn files_of_earlier_tasks_precede_and_outlast_a_selection() {
        let chosen = RecordedOutcome { selection: Some(vec![file(2, 2, "b")]), ..RecordedOutcome::default() };
        let last = fold(&messages(&["x"]), &[made(vec![file(3, 3, "c")]), chosen], &Ending::Done);
        let earlier = [file(1, 1, "a"), file(2, 2, "b")];
        assert_eq!(ids(&with_earlier_files(last.clone(), &earlier, &Ending::Done)), [1, 2], "each file once");
        assert_eq!(with_earlier_files(last.clone(), &[], &Ending::Done), last);
        let empty = with_earlier_files(fold(&[], &[], &Ending::Done), &earlier, &Ending::Done);
        assert_eq!((ids(&empty), empty.text), (vec![1, 2], None), "there is something to send");
        let stopped = with_earlier_files(fold(&[], &[], &Ending::Cancelled), &earlier, &Ending::Cancelled);
        assert_eq!(stopped.text, Ending::Cancelled.user_message());
    }

    #[test]
    fn rule_5_last_nonempty_message_ends_the_text() {
        let response = fold(&messages(&["looking", "here it is", "  "]), &[made(vec![file(1, 1, "a")])], &Ending::Done);
        assert_eq!(response.text.as_deref(), Some("here it is"), "a file never takes the text away");
        let files_only = fold(&messages(&[""]), &[made(vec![file(1, 1, "a")])], &Ending::Done);
        assert_eq!((files_only.text, files_only.attachments.len()), (None, 1));
        assert_eq!(fold(&[], &[], &Ending::Done).text.as_deref(), Some(EMPTY_RESPONSE_TEXT));
        let invisible = fold(&messages(&["\u{200B}\u{2060}\u{200D} "]), &[], &Ending::Done);
        assert_eq!(invisible.text.as_deref(), Some(EMPTY_RESPONSE_TEXT));
    }

    fn kept(texts: &[&str], outcomes: &[RecordedOutcome], ending: &Ending) -> OutgoingResponse {
        with_interim_texts(fold(&messages(texts), outcomes, ending), &messages(texts))
    }

    #[test]
    fn rule_5_texts_of_all_messages_are_the_text() {
        for (texts, expected) in [
            (&["Milk, bread.", "Saved."][..], "Milk, bread.\n\nSaved."),
            (
                &["\n Looking… \n", "\u{200B}", "", "Found it.\n\n- a", "Done."][..],
                " Looking…\n\nFound it.\n\n- a\n\nDone.",
            ),
            (&["Run:\n```sh\nls", "It ran."][..], "Run:\n```sh\nls\n```\n\nIt ran."),
            (&["Milk, bread.", ""][..], "Milk, bread."),
            // A text that the last one repeats is in the reply once.
            (&[" Saved.", "\nSaved.\n"][..], "Saved."),
            (
                &["Milk\nBread", "Looking…", "Here:\n\nMilk\nBread\n\nSaved."][..],
                "Looking…\n\nHere:\n\nMilk\nBread\n\nSaved.",
            ),
            (&["Milk", "Milk and bread."][..], "Milk\n\nMilk and bread."),
            // So does what is announced again.
            (
                &["Let me look…", "Let me look…", "Let me look… once more", "Here."][..],
                "Let me look…\n\nLet me look… once more\n\nHere.",
            ),
        ] {
            assert_eq!(kept(texts, &[], &Ending::Done).text.as_deref(), Some(expected), "{texts:?}");
        }
        let with_file = kept(&["Milk, bread.", "Saved."], &[made(vec![file(1, 1, "a")])], &Ending::Done);
        assert_eq!((ids(&with_file), with_file.text.as_deref()), (vec![1], Some("Milk, bread.\n\nSaved.")));
        assert_eq!(kept(&["", " "], &[], &Ending::Done), OutgoingResponse::from_text(EMPTY_RESPONSE_TEXT));
        assert_eq!(
            with_interim_texts(OutgoingResponse::default(), &messages(&["a", "b"])),
            OutgoingResponse::default()
        );
        let stopped = kept(&["Milk, bread.", "Sav"], &[], &Ending::Cancelled);
        let sentence = Ending::Cancelled.user_message().expect("an early end has words");
        assert_eq!(stopped.text, Some(format!("Milk, bread.\n\nSav\n\n{sentence}")));
    }

    #[test]
    fn rule_5_voice_speaks_the_last_text() {
        let speak = |text: Option<&str>| RecordedOutcome {
            voice: Some(VoiceRequest { text: text.map(str::to_owned) }),
            ..RecordedOutcome::default()
        };
        for (own, spoken) in [(None, "Saved."), (Some(" "), "Saved."), (Some("Hi."), "Hi.")] {
            let response = kept(&["Milk, bread.", "Saved."], &[speak(own)], &Ending::Done);
            assert_eq!(response.text.as_deref(), Some("Milk, bread.\n\nSaved."));
            assert_eq!(response.voice.and_then(|voice| voice.text).as_deref(), Some(spoken));
        }
        let alone = kept(&["Saved."], &[speak(None)], &Ending::Done);
        assert_eq!(alone.voice, Some(VoiceRequest { text: None }), "there is nothing else to leave out");
    }

    #[test]
    fn rule_6_early_end_delivers_results_with_reason() {
        let outcomes = [made(vec![file(1, 1, "a")])];
        for ending in [
            Ending::Budget { limit: "25 model calls".into() },
            Ending::Cancelled,
            Ending::ModelFailed { reason: "no answer".into() },
            Ending::Failed { reason: "The task `report` failed.".into() },
            Ending::Crashed { times: 3 },
        ] {
            let sentence = ending.user_message().expect("an early end has words");
            let response = fold(&messages(&["so far"]), &outcomes, &ending);
            assert_eq!(ids(&response), [1]);
            assert_eq!(response.text, Some(format!("so far\n\n{sentence}")));
            let unsaid = fold(&messages(&[" "]), &outcomes, &ending);
            assert_eq!((ids(&unsaid), unsaid.text), (vec![1], Some(sentence)), "files alone don't tell it");
        }
    }

    #[test]
    fn ending_text_leaves_code_and_indentation_intact() {
        let stopped = fold(&messages(&["Run:\n```sh\nls"]), &[], &Ending::Cancelled);
        let sentence = Ending::Cancelled.user_message().expect("an early end has words");
        assert_eq!(stopped.text, Some(format!("Run:\n```sh\nls\n```\n\n{sentence}")));
        let indented = fold(&messages(&["\n    let x = 1;\n    x\n"]), &[], &Ending::Done);
        assert_eq!(indented.text.as_deref(), Some("    let x = 1;\n    x"));
    }

    fn outcomes() -> impl Strategy<Value = Vec<RecordedOutcome>> {
        let attachment =
            (0u128..12, 0u8..6, 0u8..3, any::<bool>()).prop_map(|(id, content, name, internal)| Attachment {
                visibility: if internal { Visibility::Internal } else { Visibility::Deliver },
                ..file(id, content, &format!("{name}.txt"))
            });
        let files = proptest::collection::vec(attachment, 0..6);
        let outcome = (files.clone(), proptest::option::weighted(0.2, files)).prop_map(|(attachments, selection)| {
            RecordedOutcome { attachments, selection, ..RecordedOutcome::default() }
        });
        proptest::collection::vec(outcome, 0..8)
    }

    proptest! {
        /// Each text is in the reply, the last one at its end, and nothing else is.
        #[test]
        fn no_text_is_lost_or_repeated(texts in proptest::collection::vec("[ab]{0,2}(\n\n[ab]{1,2})?", 0..6)) {
            let joined = with_interim_texts(fold(&texts, &[], &Ending::Done), &texts).text.unwrap_or_default();
            let visible = visible_texts(&texts);
            prop_assert!(visible.iter().all(|text| has_block(&joined, text)), "{joined:?}");
            prop_assert!(joined.ends_with(visible.last().copied().unwrap_or(EMPTY_RESPONSE_TEXT)));
            let blocks = |text: &str| text.split("\n\n").map(str::to_owned).collect::<Vec<_>>();
            let written: Vec<_> = visible.iter().flat_map(|text| blocks(text)).collect();
            prop_assert!(visible.is_empty() || blocks(&joined).iter().all(|block| written.contains(block)));
        }

        /// Rule 7 is the signature: there is nothing else that a response could be made of.
        #[test]
        fn fold_loses_and_repeats_nothing_and_is_nonempty(outcomes in outcomes(), text in "[a ]{0,3}") {
            let response = fold(std::slice::from_ref(&text), &outcomes, &Ending::Done);
            prop_assert!(response.text.is_some() || !response.attachments.is_empty());
            prop_assert!(response.text.as_ref().is_none_or(|text| !text.trim().is_empty()));
            let files = &response.attachments;
            for (at, one) in files.iter().enumerate() {
                prop_assert_eq!(one.visibility, Visibility::Deliver);
                prop_assert!(!files[at + 1..].iter().any(|two| two.id == one.id
                    || (two.sha256 == one.sha256 && two.filename == one.filename)));
            }
            let selecting = outcomes.iter().rposition(|outcome| outcome.selection.is_some());
            let expected = outcomes.iter().skip(selecting.map_or(0, |at| at + 1)).flat_map(|outcome| &outcome.attachments)
                .filter(|file| file.visibility == Visibility::Deliver)
                .chain(selecting.iter().flat_map(|at| outcomes[*at].selection.iter().flatten()));
            for file in expected {
                prop_assert!(files.iter().any(|sent| sent.id == file.id
                    || (sent.sha256 == file.sha256 && sent.filename == file.filename)));
            }
        }
    }
}
