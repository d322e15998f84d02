//! The tables of `docs/delivery.md`: what the machine answers in each state to each event.
//!
//! The document is the expectation, written by `cargo xtask docs` and read by people: what changes in the machine shows
//! there as a changed cell.

use std::{collections::BTreeSet, fmt::Write, num::NonZeroU64};

use super::{
    super::{
        draft::table::{draft_answers, drafts},
        tests::part,
    },
    tests::capabilities,
    *,
};
use crate::{
    AttachmentId, AttachmentSource, CallId, Filename, MediaInfo, NewAttachment, Sha256, StoredBlob,
    capabilities::LookupRule,
    delivery::OnDoubt,
    part::{CallQuestion, FileForm, FileItem, Markup},
};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/delivery.md");

/// Set by `cargo xtask docs`.
const WRITE: &str = "SATCHEL_WRITE_DOCS";

/// When everything in the tables happens: a minute after the part was planned and first started.
pub(in crate::delivery) const NOW: Timestamp = Timestamp(60_000);

pub(in crate::delivery) const KEY: Idempotency = Idempotency::Key { window_ms: Some(120_000) };
pub(in crate::delivery) const EXPIRED_KEY: Idempotency = Idempotency::Key { window_ms: Some(30_000) };

/// A part on its channel, with what an operator has decided about doubt.
#[derive(Clone)]
struct Case {
    name: &'static str,
    part: Part,
    channel: ChannelCapabilities,
    rules: DeliveryRules,
    /// How a retry under the key has failed since the part was taken up.
    failed_retry: Option<SendError>,
}

impl Case {
    fn new(name: &'static str, state: PartState) -> Self {
        let rules = DeliveryRules::default();
        Self {
            name,
            part: part(state),
            channel: capabilities(Idempotency::None, LookupRule::None),
            rules,
            failed_retry: None,
        }
    }

    fn on(self, idempotency: Idempotency, look_up: LookupRule) -> Self {
        Self { channel: capabilities(idempotency, look_up), ..self }
    }

    fn with(mut self, change: impl FnOnce(&mut Part)) -> Self {
        change(&mut self.part);
        self
    }

    fn resume(&self, started_here: bool, now: Timestamp) -> (Delivery, DeliveryPlan) {
        Delivery::resume(self.part.clone(), started_here, &self.channel, now, self.rules)
    }

    /// The part in doubt, after the retry under the key has failed if it has.
    fn in_doubt(&self) -> Delivery {
        let Some(error) = &self.failed_retry else { return self.resume(false, NOW).0 };
        let mut delivery = self.calling(Attempt::Retry);
        let plan = delivery.on(DeliveryEvent::Answered(Attempt::Retry, Err(error.clone())), NOW);
        assert_eq!(plan.1, Continuation::Perform(DeliveryAction::Sleep(NOW)));
        delivery
    }

    /// The part with this call under way.
    fn calling(&self, attempt: Attempt) -> Delivery {
        let (mut delivery, mut plan) = self.resume(true, NOW);
        for _ in 0..20 {
            plan = match plan.1 {
                Continuation::Perform(DeliveryAction::Call(call)) if call == attempt => return delivery,
                // The full retry is refused, so that the text is retried alone.
                Continuation::Perform(DeliveryAction::Call(call)) if attempt == Attempt::RetryText => {
                    delivery.on(DeliveryEvent::Answered(call, Err(refused())), NOW)
                }
                Continuation::Perform(DeliveryAction::Call(call)) => {
                    delivery.on(DeliveryEvent::Answered(call, arrived()), NOW)
                }
                Continuation::Perform(DeliveryAction::Probe) => delivery.on(DeliveryEvent::ProbeEnded(Ok(())), NOW),
                Continuation::Perform(DeliveryAction::Sleep(until)) => delivery.on(DeliveryEvent::TimeReached, until),
                other => panic!("{}: {other:?}", self.name),
            };
        }
        panic!("{}: no {attempt:?}", self.name);
    }
}

fn arrived() -> Result<Vec<MessageRef>, SendError> {
    Ok(vec![MessageRef("m1".into())])
}

fn refused() -> SendError {
    SendError::Refused { refusal: Refusal::Other, reason: "no".to_owned() }
}

pub(in crate::delivery) fn forbidden() -> SendError {
    SendError::Forbidden { reason: "no".to_owned() }
}

fn not_sent() -> SendError {
    SendError::NotSent { retry_after_ms: Some(7_000), reason: "429".to_owned() }
}

fn doubtful(name: &'static str) -> Case {
    Case::new(name, PartState::InDoubt { until: NOW, reason: "reset".to_owned() })
}

/// A text with a file on its message.
fn with_file() -> PartContent {
    let stored =
        StoredBlob { sha256: Sha256([0; 32]), bytes: 1, mime: "text/plain".to_owned(), media: MediaInfo::default() };
    let (id, name) = (AttachmentId(uuid::Uuid::from_u128(3)), Filename::from_untrusted("a.txt"));
    let conversation = "console:main".parse().expect("a conversation");
    let new_file = NewAttachment::new(id, AttachmentSource::Tool, name, stored, Timestamp(0));
    let attachment = new_file.numbered(conversation, NonZeroU64::MIN);
    let file = FileItem { attachment, form: FileForm::Document, caption: String::new() };
    PartContent::Text { text: "hello".to_owned(), markup: Markup::Rich, files: vec![file] }
}

/// Makes a part the post of this.
fn show(content: PartContent) -> impl FnOnce(&mut Part) {
    move |part| part.operation = Operation::Post { content }
}

fn edit_of_m0(part: &mut Part) {
    *part = part.clone().into_edit_of(MessageRef("m0".into()));
}

/// Makes a part the deletion of a draft.
fn delete_m0(part: &mut Part) {
    part.operation = Operation::Delete { message: MessageRef("m0".into()) };
}

fn question(part: &mut Part) {
    let call = CallId { turn: part.turn, ordinal: 0 };
    let content = PartContent::question("May I?", Vec::new());
    part.operation = Operation::Post { content };
    part.question = Some(CallQuestion { call, unanswered: "No longer needed".to_owned(), closing: None });
}

/// A question that was closed before it was known to stand.
fn closed_question(part: &mut Part) {
    question(part);
    if let Some(question) = &mut part.question {
        question.closing = Some("Allowed".to_owned());
    }
}

fn voice() -> PartContent {
    PartContent::Voice { text: "hello".into(), in_text: false, prepared: None, as_file: false, caption: String::new() }
}

/// Answers in the words of the document: the state that the part is in, what is done first, and what follows.
fn describe(delivery: &Delivery, plan: &DeliveryPlan, now: Timestamp) -> String {
    let (effects, continuation) = plan;
    let part = delivery.part();
    let mut words = match &part.state {
        PartState::Failed { reason } => format!("**failed** ({})", failure(reason)),
        state => format!("**{}**", describe_state(state)),
    };
    if part.labelled && !part.state.is_settled() {
        words.push_str(" with label");
    }
    words.push(':');
    for effect in effects {
        words.push_str(match effect {
            DeliveryEffect::Save => " save,",
            DeliveryEffect::Record => " record,",
            DeliveryEffect::Publish => " publish,",
            DeliveryEffect::RemoveDuplicates => " remove duplicates,",
        });
    }
    words.push(' ');
    words.push_str(&match continuation {
        Continuation::Rest => "rest".to_owned(),
        Continuation::Settle => "settle".to_owned(),
        Continuation::Replace(children) => format!("settle with {} in its place", children.len()),
        Continuation::Perform(action) => describe_action(delivery, action, now),
    });
    words
}

pub(in crate::delivery) fn describe_state(state: &PartState) -> String {
    state.as_str().replace('_', " ")
}

fn describe_action(delivery: &Delivery, action: &DeliveryAction, now: Timestamp) -> String {
    match action {
        DeliveryAction::Prepare => "prepare".to_owned(),
        DeliveryAction::Probe => "probe".to_owned(),
        DeliveryAction::Search => "search".to_owned(),
        DeliveryAction::Replan(..) => "replan".to_owned(),
        DeliveryAction::Sleep(until) if *until <= now => "go on at once".to_owned(),
        DeliveryAction::AwaitAccount(_) => "await the account".to_owned(),
        DeliveryAction::Sleep(until) => {
            let seconds = format!("{:.1}", until.saturating_duration_since(now).as_secs_f64());
            format!("sleep {} s", seconds.trim_end_matches(".0"))
        }
        DeliveryAction::Call(Attempt::Plain) => match &delivery.part().operation {
            Operation::Post { .. } => "send".to_owned(),
            Operation::Edit { .. } => "edit".to_owned(),
            Operation::Delete { .. } => "delete".to_owned(),
        },
        DeliveryAction::Call(Attempt::Retry) => "retry under the key".to_owned(),
        DeliveryAction::Call(Attempt::RetryText) => "retry the text alone under the key".to_owned(),
        DeliveryAction::Call(Attempt::Complete) => "edit to the whole".to_owned(),
    }
}

fn failure(reason: &FailureReason) -> &'static str {
    match reason {
        FailureReason::TooLarge { .. } => "too large",
        FailureReason::Refused { .. } => "refused",
        FailureReason::Forbidden { .. } => "forbidden",
        FailureReason::Expired { .. } => "expired",
        FailureReason::MayHaveArrived { .. } => "may have arrived",
        FailureReason::SynthesisFailed { .. } => "not spoken",
        FailureReason::Unreadable { .. } => "unreadable",
        FailureReason::Discarded => "discarded",
        FailureReason::NotNeeded => "not needed",
        FailureReason::HeldBack => "held back",
    }
}

pub(in crate::delivery) fn table(
    corner: &str,
    columns: &[&str],
    rows: impl IntoIterator<Item = (&'static str, Vec<String>)>,
) -> String {
    let mut text = format!("| {corner} | {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len() + 1));
    for (name, cells) in rows {
        assert_eq!(cells.len(), columns.len(), "{name}");
        writeln!(text, "| {name} | {} |", cells.join(" | ")).expect("a string takes everything");
    }
    text
}

/// Its number among the states: one that is new doesn't compile, and fails until the table has a row for it.
fn state_number(state: &PartState) -> usize {
    match state {
        PartState::Pending => 0,
        PartState::Sending => 1,
        PartState::Waiting { .. } => 2,
        PartState::InDoubt { .. } => 3,
        PartState::Open { .. } => 4,
        PartState::Sent { .. } => 5,
        PartState::Failed { .. } => 6,
        PartState::Replaced { .. } => 7,
    }
}

/// Its number among the calls, as of a state.
fn attempt_number(attempt: Attempt) -> usize {
    match attempt {
        Attempt::Plain => 0,
        Attempt::Retry => 1,
        Attempt::RetryText => 2,
        Attempt::Complete => 3,
    }
}

/// Its number among the answers, as of a state.
fn answer_number(answer: &Result<Vec<MessageRef>, SendError>) -> usize {
    match answer {
        Ok(_) => 0,
        Err(SendError::NotSent { .. }) => 1,
        Err(SendError::Refused { .. }) => 2,
        Err(SendError::Forbidden { .. }) => 3,
        Err(SendError::Unreadable { .. }) => 4,
        Err(SendError::InDoubt { .. }) => 5,
        Err(SendError::AccountRefused { .. }) => 6,
    }
}

/// Of so many kinds each is there.
fn assert_complete(numbers: impl Iterator<Item = usize>, kinds: usize) {
    assert_eq!(numbers.collect::<BTreeSet<_>>(), (0..kinds).collect());
}

/// What is done with a part when it is taken up, and when its time comes.
fn states() -> String {
    let never_started = |part: &mut Part| (part.attempts, part.first_attempt_at) = (0, None);
    let later = NOW.saturating_add(Duration::from_secs(3));
    let cases = [
        Case::new("pending", PartState::Pending).with(never_started),
        Case::new("pending, a voice without its recording", PartState::Pending).with(show(voice())),
        Case::new("pending, a notice", PartState::Pending)
            .with(show(PartContent::Notice { text: "0 of 1 sent".into() })),
        Case::new("sending", PartState::Sending),
        Case::new("waiting", PartState::Waiting { until: later, reason: "429".to_owned() }),
        Case::new(
            "waiting, a notice without an attempt",
            PartState::Waiting { until: later, reason: "401".to_owned() },
        )
        .with(never_started)
        .with(show(PartContent::Notice { text: "0 of 1 sent".into() })),
        Case::new("in doubt", PartState::InDoubt { until: later, reason: "reset".to_owned() }),
        Case::new("pending, a question that was closed", PartState::Pending).with(never_started).with(closed_question),
        Case::new("waiting, a question that was closed", PartState::Waiting { until: later, reason: "429".to_owned() })
            .with(closed_question),
        Case::new(
            "in doubt, a question that was closed",
            PartState::InDoubt { until: later, reason: "reset".to_owned() },
        )
        .with(closed_question),
        Case::new("open, a question", PartState::Open { message: MessageRef("m0".into()) }).with(question),
        Case::new("sent", PartState::Sent { messages: Vec::new() }),
        Case::new("failed", PartState::Failed { reason: FailureReason::Discarded }),
        Case::new("replaced", PartState::Replaced { by: Vec::new() }),
    ];
    assert_complete(cases.iter().map(|case| state_number(&case.part.state)), 8);
    let columns = ["taken up by who started it", "taken up by another", "its time has come", "too old"];
    table(
        "state",
        &columns,
        cases.map(|case| {
            let resumed = |started_here, now| {
                let (delivery, plan) = case.resume(started_here, now);
                describe(&delivery, &plan, now)
            };
            let (mut delivery, plan) = case.resume(false, NOW);
            let due = match plan.1 {
                Continuation::Perform(DeliveryAction::Sleep(until)) => {
                    let plan = delivery.on(DeliveryEvent::TimeReached, until);
                    describe(&delivery, &plan, until)
                }
                _ => "–".to_owned(),
            };
            let too_old = case.part.created_at.saturating_add(case.rules.max_age);
            (case.name, vec![resumed(true, NOW), resumed(false, NOW), due, resumed(false, too_old)])
        }),
    )
}

pub(in crate::delivery) fn answers_of_each_kind() -> Vec<(&'static str, Result<Vec<MessageRef>, SendError>)> {
    let reason = || "no".to_owned();
    vec![
        ("arrived", arrived()),
        ("not sent, wait 7 s", Err(not_sent())),
        ("refused", Err(refused())),
        ("forbidden", Err(forbidden())),
        ("unreadable file", Err(SendError::Unreadable { reason: reason() })),
        ("in doubt", Err(SendError::InDoubt { reason: reason() })),
        ("account refused", Err(SendError::AccountRefused { reason: reason() })),
    ]
}

/// What follows the channel's answer to each call.
fn answers() -> String {
    let sending = |name| Case::new(name, PartState::Sending);
    let streamed = |part: &mut Part| part.streamed = true;
    let known = edit_of_m0;
    let calls = [
        (sending("first send"), Attempt::Plain),
        (sending("first send, several files").with(show(with_file())), Attempt::Plain),
        (sending("send after a certain absence").with(|part| part.searched = true), Attempt::Plain),
        (sending("send with a label").with(|part| (part.labelled, part.labelled_sends) = (true, 1)), Attempt::Plain),
        (sending("edit of a streamed message").with(streamed).with(known), Attempt::Plain),
        (sending("first send of a question").with(question), Attempt::Plain),
        (
            sending("send of a question after a certain absence").with(question).with(|part| part.searched = true),
            Attempt::Plain,
        ),
        (sending("edit that closes a question").with(question).with(known), Attempt::Plain),
        (sending("deletion of a draft").with(delete_m0), Attempt::Plain),
        (doubtful("retry under the key").on(KEY, LookupRule::None), Attempt::Retry),
        (doubtful("retry of a question under the key").on(KEY, LookupRule::None).with(question), Attempt::Retry),
        (doubtful("retry of a streamed reply under the key").on(KEY, LookupRule::None).with(streamed), Attempt::Retry),
        (doubtful("retry of the text alone").on(KEY, LookupRule::None).with(show(with_file())), Attempt::RetryText),
        (doubtful("edit to the whole").on(KEY, LookupRule::None).with(streamed), Attempt::Complete),
        (doubtful("repeat of an edit in doubt").with(known), Attempt::Plain),
        (doubtful("repeat of the edit that closes a question").with(question).with(known), Attempt::Plain),
    ];
    let answers = answers_of_each_kind();
    assert_complete(calls.iter().map(|(_, attempt)| attempt_number(*attempt)), 4);
    assert_complete(answers.iter().map(|(_, answer)| answer_number(answer)), 7);
    let columns: Vec<&str> = answers.iter().map(|(name, _)| *name).collect();
    table(
        "call",
        &columns,
        calls.map(|(case, attempt)| {
            let cell = |(_, answer): &(&str, Result<Vec<MessageRef>, SendError>)| {
                let mut delivery = case.calling(attempt);
                let plan = delivery.on(DeliveryEvent::Answered(attempt, answer.clone()), NOW);
                describe(&delivery, &plan, NOW)
            };
            (case.name, answers.iter().map(cell).collect())
        }),
    )
}

/// What takes the place of a part that was refused, or whose bytes can't be made or read.
fn other_forms() -> String {
    let child =
        || vec![PlannedPart::new(PartContent::Text { text: "hello".into(), markup: Markup::Plain, files: Vec::new() })];
    let refused = || FailureReason::Refused { reason: "no".to_owned() };
    let unreadable = || FailureReason::Unreadable { reason: "no".to_owned() };
    let unspoken = || FailureReason::SynthesisFailed { reason: "no".to_owned() };
    let replanned = |outcome, failure| DeliveryEvent::Replanned(outcome, failure);
    let columns = ["there is another form", "the message to edit is gone", "there is none"];
    let rows = [
        (
            "refused",
            [
                replanned(ReplanOutcome::Children(child()), refused()),
                replanned(ReplanOutcome::SendNew, refused()),
                replanned(ReplanOutcome::GiveUp(refused()), refused()),
            ],
        ),
        (
            "unreadable, one of several files",
            [
                replanned(ReplanOutcome::Children(child()), unreadable()),
                replanned(ReplanOutcome::SendNew, unreadable()),
                replanned(ReplanOutcome::GiveUp(unreadable()), unreadable()),
            ],
        ),
        (
            "a voice that can't be made",
            [
                DeliveryEvent::NotPrepared(unspoken(), child()),
                DeliveryEvent::NotPrepared(unspoken(), Vec::new()),
                DeliveryEvent::NotPrepared(unspoken(), Vec::new()),
            ],
        ),
    ];
    table(
        "why",
        &columns,
        rows.map(|(name, events)| {
            let is_voice = matches!(events[0], DeliveryEvent::NotPrepared(..));
            let cell = |event| {
                let case = Case::new(name, if is_voice { PartState::Pending } else { PartState::Sending });
                let case = match is_voice {
                    true => case.with(show(voice())),
                    false => case.with(edit_of_m0),
                };
                let (mut delivery, _) = case.resume(true, NOW);
                let plan = delivery.on(event, NOW);
                describe(&delivery, &plan, NOW)
            };
            (name, events.map(cell).into())
        }),
    )
}

/// What is done about doubt once the channel answers again.
fn doubts() -> String {
    let ids = || doubtful("Telegram").on(Idempotency::None, LookupRule::MessageIds);
    let labelled = |part: &mut Part| (part.labelled, part.labelled_sends) = (true, 1);
    let exhausted = |part: &mut Part| (part.labelled, part.labelled_sends) = (true, 3);
    let held = |case: Case| Case { rules: DeliveryRules { on_doubt: OnDoubt::Hold, ..case.rules }, ..case };
    let failed = |error, case| Case { failed_retry: Some(error), ..case };
    let add_file = show(with_file());
    let rename = |case: Case, name| Case { name, ..case };
    let history = |name| doubtful(name).on(EXPIRED_KEY, LookupRule::History);
    let cases = [
        rename(ids(), "ids can be looked up"),
        rename(ids().with(exhausted), "ids can be looked up, three labelled sends"),
        rename(held(ids()), "ids can be looked up, doubt is held"),
        doubtful("the key is still known").on(KEY, LookupRule::History),
        failed(refused(), doubtful("the key is still known, a retry was refused").on(KEY, LookupRule::None)),
        failed(refused(), doubtful("the same, a text with files").on(KEY, LookupRule::None).with(add_file)),
        failed(forbidden(), doubtful("the key is still known, a retry was forbidden").on(KEY, LookupRule::None)),
        history("the key has expired, the history can be read"),
        history("the key has expired, the history can be read, sent with a label").with(labelled),
        history("the key has expired, the history can be read, a streamed reply").with(|part| part.streamed = true),
        doubtful("no key, nothing to look up"),
        doubtful("no key, nothing to look up, sent with a label").with(labelled),
        doubtful("no key, nothing to look up, three labelled sends").with(exhausted),
        held(doubtful("no key, nothing to look up, doubt is held")),
        rename(ids().with(question), "a question, ids can be looked up"),
        rename(ids().with(closed_question), "a question that was closed, ids can be looked up"),
        doubtful("a question that was closed, no key, nothing to look up").with(closed_question),
        doubtful("an edit").with(edit_of_m0),
    ];
    let found = |found| DeliveryEvent::SearchEnded(Ok(found));
    let events = [
        found(SearchResult::Found(vec![MessageRef("m1".into())])),
        found(SearchResult::Absent),
        found(SearchResult::Uncertain),
        DeliveryEvent::SearchEnded(Err(not_sent())),
    ];
    let columns =
        ["the probe fails", "it succeeds", "found", "certainly absent", "nothing certain", "no answer, wait 7 s"];
    table(
        "part in doubt",
        &columns,
        cases.map(|case| {
            let after_probe = |result| {
                let mut delivery = case.in_doubt();
                let plan = delivery.on(DeliveryEvent::ProbeEnded(result), NOW);
                (delivery, plan)
            };
            let (searching, plan) = after_probe(Ok(()));
            let (unreachable, wait) = after_probe(Err(not_sent()));
            let mut cells = vec![describe(&unreachable, &wait, NOW), describe(&searching, &plan, NOW)];
            let is_search = plan.1 == Continuation::Perform(DeliveryAction::Search);
            cells.extend(events.iter().map(|event| {
                let mut delivery = searching.clone();
                if !is_search {
                    return "–".to_owned();
                }
                let plan = delivery.on(event.clone(), NOW);
                describe(&delivery, &plan, NOW)
            }));
            (case.name, cells)
        }),
    )
}

/// Puts a table where the document has its place.
fn fill(document: &str, name: &str, table: &str) -> String {
    let begin = format!("<!-- {name}: written by `cargo xtask docs` -->\n");
    let end = format!("<!-- end of {name} -->\n");
    let (before, rest) = document.split_once(&begin).unwrap_or_else(|| panic!("docs/delivery.md has no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("docs/delivery.md has no {end}"));
    format!("{before}{begin}\n{table}\n{end}{after}")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the document is read and written; the machine is as pure as ever")]
fn delivery_document_equals_the_machine() {
    let document = std::fs::read_to_string(PATH).expect("there is a document");
    let tables = [
        ("states", states()),
        ("answers", answers()),
        ("other forms", other_forms()),
        ("doubts", doubts()),
        ("drafts", drafts()),
        ("draft answers", draft_answers()),
    ];
    let written = tables.iter().fold(document.clone(), |text, (name, table)| fill(&text, name, table));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(PATH, &written).expect("the document can be written");
    } else {
        assert!(document == written, "docs/delivery.md differs from the machine: run `cargo xtask docs`");
    }
}
