//! Promises about what files take up, about quotas, about files that are forgotten and links that are revoked.

use satchel_domain::{
    Attachment, AttachmentId, CallId, HistoryMessage, InboundMessage, InboxId, LinkRevocation, NewAttachment,
    OutgoingResponse, Sender, SystemTask, Timestamp, ToolCall, ToolOutcome, TurnId, Visibility,
};
use satchel_ports::ledger::{
    AttachmentKey, AttachmentQuery, ClaimMode, CompletedTurn, ForgetOutcome, ForgetRequest, HistoryChange,
    InboundFileState, JournalEntry, Lease, Ledger, LedgerError, PersonKey, QuotaExceeded, QuotaScope, ReleaseMode,
    Settlement, SteeringMessage, Transcription, Usage, UsageQuery, UsageScope, WorkFilter,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    LedgerFixture, completed_turn, conversation, file_part, message, model_message, new_file, receive, sent_settlement,
    settle, settlement, with_files,
};

fn message_from(sender: &str, conversation_id: &str, key: &str) -> InboundMessage {
    InboundMessage {
        conversation: conversation(conversation_id),
        sender: Sender::new(sender, "Ada"),
        ..message(key, "hello")
    }
}

fn sized_file(bytes: u64) -> NewAttachment {
    NewAttachment { bytes, ..new_file("plan.pdf") }
}

async fn store_file(ledger: &Ledger, lease: &Lease, turn: TurnId, bytes: u64) -> Result<Attachment, LedgerError> {
    let outcome = ToolOutcome { attachments: vec![sized_file(bytes).into()], ..ToolOutcome::from_text("made") };
    Ok(ledger.turns.journal_outcome(lease, turn, 0, &outcome, &[]).await?.attachments.remove(0))
}

/// The whole of a scope: the number of files, their bytes, and those of the workspace.
async fn usage_totals(ledger: &Ledger, scope: UsageScope) -> (u64, u64, u64) {
    let found = ledger.storage.usages(&UsageQuery::Scopes(vec![scope])).await.unwrap();
    found.first().map_or((0, 0, 0), |Usage { files, bytes, workspace_bytes, .. }| (*files, *bytes, *workspace_bytes))
}

fn person_scope(key: &str) -> UsageScope {
    UsageScope::Person(key.parse().unwrap())
}

fn expect_quota_exceeded<T: std::fmt::Debug>(result: Result<T, LedgerError>) -> QuotaExceeded {
    match result {
        Err(LedgerError::QuotaExceeded(exceeded)) => exceeded,
        other => panic!("not refused by a quota: {other:?}"),
    }
}

fn forget_request(file: &Attachment) -> ForgetRequest {
    ForgetRequest { conversation: file.conversation.clone(), number: file.number.get(), restricted_to: None }
}

/// Catches: a quota that is checked after the file is stored, that forgets what is stored, or that refuses the last byte.
pub async fn file_beyond_quota_is_refused(fixture: &impl LedgerFixture) {
    let ledger = fixture.open_with_quotas(10, 100).await;
    let (lease, turn) = receive(&ledger, &with_files(message("1", "hello"), &["a.txt"])).await;
    store_file(&ledger, &lease, turn, 7).await.unwrap();
    let full = QuotaExceeded { scope: QuotaScope::Conversation, used: 7, quota: 10, needed: 4 };
    assert_eq!(expect_quota_exceeded(store_file(&ledger, &lease, turn, 4).await), full);
    let registered = ledger.turns.register_files(turn, &[sized_file(4)]).await;
    assert_eq!(expect_quota_exceeded(registered), full);
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let brought = sized_file(4);
    assert_eq!(expect_quota_exceeded(ledger.turns.store_file(&lease, queued.id, 0, &brought).await), full);
    let two = [2, 2].map(sized_file);
    expect_quota_exceeded(ledger.turns.register_files(turn, &two).await);
    let scope = UsageScope::Conversation(lease.conversation.clone());
    assert_eq!(usage_totals(&ledger, scope.clone()).await, (1, 7, 0), "nothing of what was refused counts");
    ledger.turns.register_files(turn, &[sized_file(3)]).await.unwrap();
    assert_eq!(usage_totals(&ledger, scope).await, (2, 10, 0));
}

/// Catches: a person's quota that each of their conversations has anew, and one that binds somebody else.
pub async fn person_quota_spans_conversations(fixture: &impl LedgerFixture) {
    let ledger = fixture.open_with_quotas(100, 10).await;
    let (first, turn) = receive(&ledger, &message_from("7", "telegram:-1", "1")).await;
    store_file(&ledger, &first, turn, 7).await.unwrap();
    let (second, turn) = receive(&ledger, &message_from("7", "telegram:-2", "2")).await;
    let full = QuotaExceeded { scope: QuotaScope::Person, used: 7, quota: 10, needed: 4 };
    assert_eq!(expect_quota_exceeded(store_file(&ledger, &second, turn, 4).await), full);
    let (other, turn) = receive(&ledger, &message_from("8", "telegram:-3", "3")).await;
    store_file(&ledger, &other, turn, 10).await.unwrap();
    assert_eq!(usage_totals(&ledger, person_scope("telegram:7")).await, (1, 7, 0));
    assert_eq!(usage_totals(&ledger, person_scope("telegram:8")).await, (1, 10, 0));
    let all = ledger.storage.usages(&UsageQuery::All).await.unwrap();
    let sizes: Vec<u64> = all.iter().map(|usage| usage.bytes).collect();
    assert_eq!(sizes, [10, 10, 7, 7], "the largest first, each conversation and each person");
}

/// Catches: an owner who can't store, and a schedule's files that count for the person who wrote last.
pub async fn owners_and_system_tasks_have_no_person_quota(fixture: &impl LedgerFixture) {
    let ledger = fixture.open_with_quotas(10, 5).await;
    let (lease, turn) = receive(&ledger, &message_from("owner", "telegram:1", "1")).await;
    store_file(&ledger, &lease, turn, 50).await.unwrap();
    assert_eq!(usage_totals(&ledger, person_scope("telegram:owner")).await, (1, 50, 0), "it counts all the same");
    let errand = SystemTask::RunSchedule { name: "report".to_owned(), due: "today".to_owned() };
    let scheduled = InboundMessage { system_task: Some(errand), ..message_from("7", "telegram:2", "2") };
    let (lease, turn) = receive(&ledger, &scheduled).await;
    store_file(&ledger, &lease, turn, 10).await.unwrap();
    assert_eq!(usage_totals(&ledger, person_scope("telegram:7")).await, (0, 0, 0));
    assert_eq!(expect_quota_exceeded(store_file(&ledger, &lease, turn, 1).await).scope, QuotaScope::Conversation);
}

/// What a model answers once it has read what somebody else has sent meanwhile.
fn answer_to(person: &str, message: u128) -> JournalEntry {
    let steered = SteeringMessage {
        id: InboxId(Uuid::from_u128(message)),
        sender: Sender::new(person, "Ben"),
        text: "and this".to_owned(),
        origin: None,
    };
    model_message("", vec![steered])
}

/// The attack: somebody speaks a second after an owner, whose files have no quota, and the files count for the owner.
pub async fn calls_count_for_last_sender(fixture: &impl LedgerFixture) {
    let ledger = fixture.open_with_quotas(100, 5).await;
    let (lease, turn) = receive(&ledger, &message_from("owner", "telegram:1", "1")).await;
    ledger.turns.journal_message(&lease, turn, &answer_to("7", 1)).await.unwrap();
    let full = QuotaExceeded { scope: QuotaScope::Person, used: 0, quota: 5, needed: 6 };
    assert_eq!(expect_quota_exceeded(store_file(&ledger, &lease, turn, 6).await), full);
    assert_eq!(expect_quota_exceeded(ledger.turns.register_files(turn, &[sized_file(6)]).await), full);
    assert_eq!(expect_quota_exceeded(ledger.storage.reserve_workspace(&lease.conversation, 6).await), full);
    store_file(&ledger, &lease, turn, 4).await.unwrap();
    assert_eq!(usage_totals(&ledger, person_scope("telegram:7")).await, (1, 4, 0));
    assert_eq!(usage_totals(&ledger, person_scope("telegram:owner")).await, (0, 0, 0));

    // The other way round, an owner's file counts for the owner, and what somebody else wanted has no more room for that.
    let (lease, turn) = receive(&ledger, &message_from("8", "telegram:2", "2")).await;
    ledger.turns.journal_message(&lease, turn, &answer_to("owner", 2)).await.unwrap();
    assert_eq!(expect_quota_exceeded(store_file(&ledger, &lease, turn, 6).await), full);
    store_file(&ledger, &lease, turn, 5).await.unwrap();
    assert_eq!(usage_totals(&ledger, person_scope("telegram:owner")).await, (1, 5, 0));
    assert_eq!(usage_totals(&ledger, person_scope("telegram:8")).await, (0, 0, 0));
}

/// Catches: a turn that can never be completed, since its reply names files for which there is no more room, and a file
/// that counts once more for every reply that it goes with.
pub async fn completed_turn_ignores_quotas(fixture: &impl LedgerFixture) {
    let ledger = fixture.open_with_quotas(10, 10).await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let made = store_file(&ledger, &lease, turn, 10).await.unwrap();
    drop(ledger);
    fixture.after_death();
    let ledger = fixture.open_with_quotas(5, 5).await;
    let lease = ledger
        .leases
        .claim_lane(&[lease.conversation.channel().clone()], WorkFilter::Any)
        .await
        .unwrap()
        .unwrap()
        .lease;
    ledger.turns.complete_turn(&lease, &completed_turn(turn, vec![file_part(&made), file_part(&made)])).await.unwrap();
    assert_eq!(usage_totals(&ledger, UsageScope::Conversation(lease.conversation)).await, (1, 10, 0));
}

/// Catches: a workspace that is beyond the quotas, one that is counted twice, and one of a group that a person has alone.
pub async fn workspace_counts_for_quotas(fixture: &impl LedgerFixture) {
    let ledger = fixture.open_with_quotas(100, 10).await;
    let (lease, turn) = receive(&ledger, &message_from("7", "telegram:7", "1")).await;
    ledger.storage.reserve_workspace(&lease.conversation, 6).await.unwrap();
    let full = QuotaExceeded { scope: QuotaScope::Person, used: 6, quota: 10, needed: 5 };
    assert_eq!(expect_quota_exceeded(ledger.storage.reserve_workspace(&lease.conversation, 5).await), full);
    assert_eq!(expect_quota_exceeded(store_file(&ledger, &lease, turn, 5).await), full);
    ledger.storage.record_workspace(&lease.conversation, 2).await.unwrap();
    assert_eq!(usage_totals(&ledger, person_scope("telegram:7")).await, (0, 0, 2));
    assert_eq!(usage_totals(&ledger, UsageScope::Conversation(lease.conversation.clone())).await, (0, 0, 2));
    store_file(&ledger, &lease, turn, 5).await.unwrap();

    let in_group = InboundMessage { group: true, ..message_from("7", "telegram:-1", "2") };
    let (group, _) = receive(&ledger, &in_group).await;
    ledger.storage.reserve_workspace(&group.conversation, 100).await.unwrap();
    assert_eq!(
        expect_quota_exceeded(ledger.storage.reserve_workspace(&group.conversation, 1).await).scope,
        QuotaScope::Conversation
    );
    assert_eq!(usage_totals(&ledger, person_scope("telegram:7")).await, (1, 5, 2));
}

/// The attack: somebody removes what another person has written into a workspace, and has more room elsewhere for it, while
/// the other one stays full for good.
pub async fn workspace_bytes_are_released_from_their_writer(fixture: &impl LedgerFixture) {
    let ledger = fixture.open_with_quotas(100, 10).await;
    let bytes = async |person: &str| usage_totals(&ledger, person_scope(person)).await.2;
    let (elsewhere, _) = receive(&ledger, &message_from("8", "telegram:8", "1")).await;
    ledger.storage.record_workspace(&elsewhere.conversation, 9).await.unwrap();
    let (lease, turn) = receive(&ledger, &message_from("7", "telegram:7", "2")).await;
    ledger.storage.record_workspace(&lease.conversation, 8).await.unwrap();
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap();
    let (lease, _) = receive(&ledger, &message_from("8", "telegram:7", "3")).await;
    ledger.storage.record_workspace(&lease.conversation, 9).await.unwrap();
    assert_eq!((bytes("telegram:7").await, bytes("telegram:8").await), (8, 10));

    // What a person has written is released first, then what others have.
    ledger.storage.record_workspace(&lease.conversation, 3).await.unwrap();
    assert_eq!((bytes("telegram:7").await, bytes("telegram:8").await), (3, 9));
    ledger.storage.record_workspace(&lease.conversation, 0).await.unwrap();
    assert_eq!((bytes("telegram:7").await, bytes("telegram:8").await), (0, 9));
    assert_eq!(usage_totals(&ledger, UsageScope::Conversation(lease.conversation.clone())).await, (0, 0, 0));
    let full = QuotaExceeded { scope: QuotaScope::Person, used: 9, quota: 10, needed: 2 };
    assert_eq!(expect_quota_exceeded(ledger.storage.reserve_workspace(&lease.conversation, 2).await), full);
}

/// Catches: a name or an address that stays in a row, a number that is given anew, and bytes that still count.
pub async fn forgotten_file_leaves_every_row(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let raw = serde_json::json!({ "document": { "file_name": "secret.pdf" } });
    let mut brings = InboundMessage { raw, ..with_files(message("1", "hello"), &["keep.txt", "secret.pdf"]) };
    brings.files[1].platform_id = Some("unique-7".into());
    brings.files[1].source_url = Some("https://cdn.example/7/secret.pdf".into());
    let (lease, turn) = receive(&ledger, &brings).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let other_file = new_file("keep.txt");
    let other_file = ledger.turns.store_file(&lease, queued.id, 0, &other_file).await.unwrap();
    let secret = new_file("secret.pdf");
    let secret = ledger.turns.store_file(&lease, queued.id, 1, &secret).await.unwrap();
    ledger.turns.record_transcription(&lease, queued.id, 1, &Transcription::Text("bring bread".into())).await.unwrap();
    let viewed = ToolOutcome { selection: Some(vec![secret.clone().into()]), ..ToolOutcome::from_text("selected") };
    ledger.turns.journal_outcome(&lease, turn, 0, &viewed, &[]).await.unwrap();
    let described = Attachment { description: "the hidden plan".into(), mime: "text/secret".into(), ..secret.clone() };
    let attachments = vec![other_file.clone(), described.clone()];
    let text = "hello\n[voice message, transcribed] bring bread".to_owned();
    let said = HistoryMessage::Person { text, attachments: attachments.clone(), refused: vec![], origin: None };
    let done = CompletedTurn {
        response: OutgoingResponse { text: None, voice: None, attachments },
        history: HistoryChange::Append(vec![said]),
        setting: None,
        ..completed_turn(turn, vec![file_part(&described)])
    };
    let part = ledger.turns.complete_turn(&lease, &done).await.unwrap().expect("it is begun");
    settle(&ledger, &lease, &sent_settlement(&part, "5")).await;
    let raw = serde_json::json!({ "reply_to_message": { "document": { "file_name": "secret.pdf" } } });
    let reply =
        ledger.inbox.receive(&InboundMessage { raw, ..message("2", "what is it?") }, ClaimMode::Never).await.unwrap();
    let raw = serde_json::json!({ "reply_to_message": { "document": { "file_unique_id": "unique-7" } } });
    let another =
        ledger.inbox.receive(&InboundMessage { raw, ..message("2b", "and now?") }, ClaimMode::Never).await.unwrap();

    match ledger.storage.forget_file(&forget_request(&secret)).await.unwrap() {
        ForgetOutcome::Forgotten(was) => assert_eq!(*was, secret),
        other => panic!("not forgotten: {other:?}"),
    }
    let record = ledger.archive.turn(turn).await.unwrap().unwrap();
    let history = ledger.archive.history(&lease.conversation, 9).await.unwrap();
    let reply = ledger.archive.turn(reply.turn).await.unwrap().unwrap();
    let another = ledger.archive.turn(another.turn).await.unwrap().unwrap();
    let stored_text = format!("{record:?} {history:?} {reply:?} {another:?}");
    let traces = ["secret.pdf", "id-of-secret", "bring bread", "hidden plan", "text/secret", "unique-7", "cdn.example"];
    for trace in traces.into_iter().chain([secret.sha256.to_string().as_str()]) {
        assert!(!stored_text.contains(trace), "{trace} is still known: {stored_text}");
    }
    assert!(stored_text.contains("keep.txt") && stored_text.contains(&other_file.sha256.to_string()));
    assert!(matches!(&record.messages[0].files[1], InboundFileState::Stored(file) if file.is_forgotten()));
    let tombstone =
        ledger.archive.attachment(&lease.conversation, AttachmentKey::Id(secret.id)).await.unwrap().unwrap();
    assert!(tombstone.is_forgotten() && tombstone.number == secret.number);
    let here = AttachmentQuery { conversation: Some(lease.conversation.clone()), ..AttachmentQuery::default() };
    assert_eq!(ledger.archive.attachments(&here).await.unwrap(), std::slice::from_ref(&other_file));
    let unreferenced = ledger.storage.find_unreferenced(&[secret.sha256, other_file.sha256]).await.unwrap();
    assert_eq!(unreferenced, [secret.sha256]);
    assert_eq!(
        usage_totals(&ledger, UsageScope::Conversation(lease.conversation.clone())).await,
        (1, other_file.bytes, 0)
    );
    assert_eq!(usage_totals(&ledger, person_scope("console:7")).await, (1, other_file.bytes, 0));

    let again = ledger.storage.forget_file(&forget_request(&secret)).await.unwrap();
    assert!(matches!(again, ForgetOutcome::AlreadyForgotten(at) if at > Timestamp(0)), "{again:?}");
    let never = ForgetRequest { number: 99, ..forget_request(&secret) };
    assert_eq!(ledger.storage.forget_file(&never).await.unwrap(), ForgetOutcome::NotFound);
    let (lease, turn) = receive(&ledger, &message("3", "next")).await;
    assert_eq!(store_file(&ledger, &lease, turn, 1).await.unwrap().number.get(), 3, "its number is nobody else's");
    let stale = ToolOutcome { selection: Some(vec![secret.clone().into()]), ..ToolOutcome::from_text("selected") };
    let stale = ledger.turns.journal_outcome(&lease, turn, 1, &stale, &[]).await.unwrap();
    assert!(stale.selection.unwrap()[0].is_forgotten(), "who has read its record before brings it back");
    let sent = completed_turn(turn, vec![file_part(&secret)]);
    let part = ledger.turns.complete_turn(&lease, &sent).await.unwrap().expect("it is begun");
    assert!(part.operation.files()[0].attachment.is_forgotten(), "who has read its record before sends it");
}

/// Catches: a file that is forgotten before it is sent, or under the hands of a turn.
pub async fn needed_file_is_not_forgotten(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let made = store_file(&ledger, &lease, turn, 1).await.unwrap();
    assert_eq!(
        ledger.storage.forget_file(&forget_request(&made)).await.unwrap(),
        ForgetOutcome::InUse,
        "its turn runs"
    );
    let part =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, vec![file_part(&made)])).await.unwrap().unwrap();
    assert_eq!(
        ledger.storage.forget_file(&forget_request(&made)).await.unwrap(),
        ForgetOutcome::Unsettled,
        "it is being sent"
    );
    settle(&ledger, &lease, &sent_settlement(&part, "5")).await;

    let (lease, turn) = receive(&ledger, &message("2", "send it again")).await;
    let selected = ToolOutcome { selection: Some(vec![made.clone().into()]), ..ToolOutcome::from_text("selected") };
    ledger.turns.journal_outcome(&lease, turn, 0, &selected, &[]).await.unwrap();
    assert_eq!(
        ledger.storage.forget_file(&forget_request(&made)).await.unwrap(),
        ForgetOutcome::InUse,
        "a later turn has taken it up"
    );
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    assert!(matches!(ledger.storage.forget_file(&forget_request(&made)).await.unwrap(), ForgetOutcome::Forgotten(_)));
}

/// A call of a turn with the outcome that it had.
fn call(turn: TurnId, ordinal: u32, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: CallId { turn, ordinal }, name: name.to_owned(), arguments }
}

/// Completes a turn whose model made calls, with the history that it leaves.
async fn complete_with_calls(ledger: &Ledger, lease: &Lease, turn: TurnId, calls: Vec<(ToolCall, ToolOutcome)>) {
    let requests: Vec<ToolCall> = calls.iter().map(|(call, _)| call.clone()).collect();
    let entry = JournalEntry::Model {
        agent: None,
        task: None,
        steered: Vec::new(),
        text: String::new(),
        calls: requests.clone(),
        awaiting_decision: Vec::new(),
        changing_calls: Some(Vec::new()),
    };
    ledger.turns.journal_message(lease, turn, &entry).await.unwrap();
    let mut history = vec![HistoryMessage::Model { text: "I look".into(), calls: requests }];
    for (call, outcome) in calls {
        let ordinal = call.id.ordinal;
        let recorded = ledger.turns.journal_outcome(lease, turn, ordinal, &outcome, &[]).await.unwrap();
        let text = recorded.to_model_text();
        history.push(HistoryMessage::Tool { call: call.id, text, attachments: recorded.attachments });
    }
    let completed = CompletedTurn { history: HistoryChange::Append(history), ..completed_turn(turn, Vec::new()) };
    ledger.turns.complete_turn(lease, &completed).await.unwrap();
    ledger.leases.release(lease, ReleaseMode::Always).await.unwrap();
}

/// Catches: a file whose own words stay in what tools have answered about it, here or in a later turn.
pub async fn results_of_reading_forgotten_file_are_replaced(fixture: &impl LedgerFixture) {
    const WORDS: &str = "the xylophone plan";
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &with_files(message("1", "hello"), &["plan.txt", "other.txt"])).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let file = ledger.turns.store_file(&lease, queued.id, 0, &new_file("plan.txt")).await.unwrap();
    let other = ledger.turns.store_file(&lease, queued.id, 1, &new_file("other.txt")).await.unwrap();
    let words = || ToolOutcome::from_text(WORDS);
    let saved = json!({ "saved": true, "path": "/shared/docs/plan.txt", "sha256": file.sha256.to_string() });
    let whole = NewAttachment { visibility: Visibility::Internal, ..new_file("answer-2.txt") };
    let calls = vec![
        (call(turn, 0, "attachment.read", json!({ "id": file.id })), words()),
        (
            call(turn, 1, "attachment_save", json!({ "index": 0, "path": "docs/plan.txt" })),
            ToolOutcome::from_data(saved),
        ),
        (
            call(turn, 2, "execute_script", json!({ "script": format!("attachment_read(id='{}')", file.id) })),
            ToolOutcome { attachments: vec![whole.clone().into()], ..words() },
        ),
    ];
    complete_with_calls(&ledger, &lease, turn, calls).await;

    let (lease, later) = receive(&ledger, &message("2", "what was in it?")).await;
    // A list has what `attachment.list` answers with, the address of the bytes as well.
    let address = |file: &Attachment| file.sha256.to_string();
    let listed = json!({ "attachments": [
        { "id": file.id, "number": 1, "filename": "plan.txt", "bytes": 3, "sha256": address(&file) },
        { "id": other.id, "number": 2, "filename": "other.txt", "bytes": 3, "sha256": address(&other) },
    ] });
    let calls = vec![
        (call(later, 0, "file_read", json!({ "path": "~/docs/plan.txt" })), words()),
        (call(later, 1, "attachment.read", json!({ "id": file.id.to_string().to_uppercase() })), words()),
        (call(later, 2, "attachment.list", json!({})), ToolOutcome::from_data(listed)),
        (call(later, 3, "file_read", json!({ "path": "docs/other.txt" })), ToolOutcome::from_text("the piano plan")),
    ];
    complete_with_calls(&ledger, &lease, later, calls).await;

    let forgotten = ledger.storage.forget_file(&forget_request(&file)).await.unwrap();
    assert!(matches!(forgotten, ForgetOutcome::Forgotten(_)), "{forgotten:?}");
    let history = ledger.archive.history(&lease.conversation, 20).await.unwrap();
    let mut stored = format!("{history:?}");
    for turn in [turn, later] {
        let record = ledger.archive.turn(turn).await.unwrap().unwrap();
        stored.push_str(&format!("{:?}", record.calls));
    }
    assert!(!stored.contains("xylophone"), "its words: {stored}");
    assert!(!stored.contains(&file.sha256.to_string()), "its address: {stored}");
    let is_list_rewritten = stored.contains(r#"\"forgotten\":true"#) && !stored.contains(r#"\"plan.txt\""#);
    assert!(is_list_rewritten, "its name: {stored}");
    let is_other_listed = stored.contains(r#"\"other.txt\""#) && stored.contains(&address(&other));
    assert!(is_other_listed, "the list keeps other files: {stored}");
    assert_eq!(stored.matches("the piano plan").count(), 2, "another file's result stays: {stored}");
    let key = AttachmentKey::Id(whole.id);
    let hidden = ledger.archive.attachment(&lease.conversation, key).await.unwrap().unwrap();
    assert!(hidden.is_forgotten(), "what was made of it for the model alone");
    let scope = UsageScope::Conversation(lease.conversation.clone());
    assert_eq!(usage_totals(&ledger, scope).await, (1, other.bytes, 0));
}

/// Catches: a result that a running turn has still to remember when its file is gone, and a file that is forgotten while
/// what was made of it for the model alone is kept.
pub async fn file_that_running_turn_reads_is_not_forgotten(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "make one")).await;
    let made = store_file(&ledger, &lease, turn, 1).await.unwrap();
    let saved = json!({ "saved": true, "path": "/shared/made.txt", "sha256": made.sha256.to_string() });
    let whole = NewAttachment { visibility: Visibility::Internal, ..new_file("answer-2.txt") };
    let long = ToolOutcome { attachments: vec![whole.clone().into()], ..ToolOutcome::from_text("its beginning") };
    let calls = vec![
        (call(turn, 1, "attachment_save", json!({ "index": 0, "path": "made.txt" })), ToolOutcome::from_data(saved)),
        (call(turn, 2, "attachment.read", json!({ "id": made.id })), long),
    ];
    complete_with_calls(&ledger, &lease, turn, calls).await;
    let arguments =
        [("file_read", json!({ "path": "made.txt" })), ("attachment.read", json!({ "id": whole.id, "offset": 8192 }))];
    for (key, (tool, arguments)) in ["2", "3"].into_iter().zip(arguments) {
        let (lease, running) = receive(&ledger, &message(key, "read it")).await;
        let entry = JournalEntry::Model {
            agent: None,
            task: None,
            steered: Vec::new(),
            text: String::new(),
            calls: vec![call(running, 0, tool, arguments)],
            awaiting_decision: Vec::new(),
            changing_calls: Some(Vec::new()),
        };
        ledger.turns.journal_message(&lease, running, &entry).await.unwrap();
        assert_eq!(ledger.storage.forget_file(&forget_request(&made)).await.unwrap(), ForgetOutcome::InUse, "{tool}");
        ledger.turns.complete_turn(&lease, &completed_turn(running, Vec::new())).await.unwrap();
        ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap();
    }
    assert!(matches!(ledger.storage.forget_file(&forget_request(&made)).await.unwrap(), ForgetOutcome::Forgotten(_)));
    let key = AttachmentKey::Id(whole.id);
    assert!(ledger.archive.attachment(&made.conversation, key).await.unwrap().unwrap().is_forgotten());
}

/// Catches: somebody in a group who removes what another person has brought.
pub async fn only_its_person_forgets_a_file(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message_from("7", "telegram:-1", "1")).await;
    let made = store_file(&ledger, &lease, turn, 1).await.unwrap();
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let asked_by =
        |key: &str| ForgetRequest { restricted_to: Some(key.parse::<PersonKey>().unwrap()), ..forget_request(&made) };
    assert_eq!(ledger.storage.forget_file(&asked_by("telegram:8")).await.unwrap(), ForgetOutcome::NotPermitted);
    assert!(matches!(ledger.storage.forget_file(&asked_by("telegram:7")).await.unwrap(), ForgetOutcome::Forgotten(_)));
    let late = ledger.storage.forget_file(&asked_by("telegram:8")).await.unwrap();
    assert_eq!(late, ForgetOutcome::NotPermitted, "nobody else learns that it was theirs to forget");
}

/// Catches: a link that one process has revoked and another opens, and a count that a restart or `/forget` sets back, or that
/// covers more than one file.
pub async fn revoked_links_stay_revoked_in_every_process(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (lease, turn) = receive(&one, &message("1", "hello")).await;
    let [file, other] = &one.turns.register_files(turn, &["a", "b"].map(new_file)).await.unwrap()[..] else {
        panic!("two files")
    };
    assert_eq!((file.link_revocation, other.link_revocation), (None, None));
    let read = async |ledger: &Ledger, file: &Attachment| {
        let key = AttachmentKey::Number(file.number.get());
        ledger.archive.attachment(&lease.conversation, key).await.unwrap().unwrap().link_revocation
    };
    for (ledger, count) in [(&one, 1), (&two, 2), (&one, 3)] {
        let revoked = ledger.storage.revoke_links(file.id).await.unwrap();
        assert_eq!(revoked, Some(LinkRevocation { count, planned_count: count }));
        assert_eq!([read(&one, file).await, read(&two, file).await], [revoked; 2]);
    }
    let listed = two.archive.attachments(&AttachmentQuery::default()).await.unwrap();
    assert_eq!(listed.iter().map(|file| file.link_revocation).collect::<Vec<_>>(), [None, read(&one, file).await]);
    assert_eq!(one.storage.revoke_links(AttachmentId(Uuid::nil())).await.unwrap(), None, "there is no such file");

    one.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let forgotten = one.storage.forget_file(&forget_request(file)).await.unwrap();
    assert!(matches!(forgotten, ForgetOutcome::Forgotten(_)), "{forgotten:?}");
    drop((one, two));
    let later = fixture.open().await;
    assert_eq!(read(&later, file).await.map(|revoked| revoked.count), Some(3));
    assert_eq!(later.storage.revoke_links(file.id).await.unwrap().map(|revoked| revoked.count), Some(4));
}

/// Catches: a reply that was planned before a revocation and gets a link later, because a clock decides or a replaced part
/// counts as new; and a later reply that gets none. The clock stands still.
pub async fn reply_knows_of_later_revocations(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (lease, turn) = receive(&one, &message("1", "hello")).await;
    let file = one.turns.register_files(turn, &[new_file("a")]).await.unwrap().remove(0);
    let planned = completed_turn(turn, vec![file_part(&file)]);
    let part = one.turns.complete_turn(&lease, &planned).await.unwrap().expect("it is started");
    let is_revoked = async |turn: TurnId| -> Vec<bool> {
        let record = two.archive.turn(turn).await.unwrap().unwrap();
        let files = record.parts.iter().flat_map(|part| part.operation.files()).map(|item| &item.attachment);
        files.map(|file| file.link_revocation.is_some_and(|last| last.is_after_plan())).collect()
    };
    assert_eq!(is_revoked(turn).await, [false]);
    two.storage.revoke_links(file.id).await.unwrap();
    assert_eq!(is_revoked(turn).await, [true]);
    let replaced = Settlement { children: vec![file_part(&file)], ..settlement(part) };
    settle(&one, &lease, &replaced).await;
    assert_eq!(is_revoked(turn).await, [true, true]);

    let later = one.inbox.receive(&message("2", "once more"), ClaimMode::Never).await.unwrap().turn;
    one.turns.complete_turn(&lease, &completed_turn(later, vec![file_part(&file)])).await.unwrap();
    assert_eq!(is_revoked(later).await, [false]);
    two.storage.revoke_links(file.id).await.unwrap();
    assert_eq!(is_revoked(later).await, [true]);
}

/// Catches: a conversation that is empty under its new name, whatever it holds.
pub async fn renamed_conversation_keeps_its_usage(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message_from("7", "telegram:-1", "1")).await;
    store_file(&ledger, &lease, turn, 5).await.unwrap();
    ledger.storage.record_workspace(&lease.conversation, 4).await.unwrap();
    let renamed = conversation("telegram:-100");
    ledger.inbox.rename_conversation(&lease.conversation, &renamed).await.unwrap();
    assert_eq!(usage_totals(&ledger, UsageScope::Conversation(renamed)).await, (1, 5, 4));
    assert_eq!(usage_totals(&ledger, UsageScope::Conversation(lease.conversation)).await, (0, 0, 0));
}
