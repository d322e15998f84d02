//! Old files go once a day and their conversation is told, on a real ledger.

use std::num::NonZeroU64;

use satchel_domain::{
    AttachmentId, AttachmentSource, Ending, Filename, MediaInfo, NewAttachment, OutgoingResponse, Sha256, ToolOutcome,
    Visibility, part::Plan,
};
use satchel_intake::InboundService;
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{LocalBus, SystemClock, UuidV7};
use satchel_ports::{
    Ledger, MockLedger, MockWorkspace, Turns,
    ledger::{ClaimMode, CompletedTurn, HistoryChange, TurnQuery},
};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::*;

fn place() -> ConversationId {
    "console:main".parse().unwrap()
}

fn file(number: u64, created_at: Timestamp) -> NewAttachment {
    NewAttachment {
        id: AttachmentId(Uuid::from_u128(u128::from(number))),
        source: AttachmentSource::User,
        filename: Filename::from_untrusted(&format!("{number}.txt")),
        mime: "text/plain".into(),
        bytes: 100,
        sha256: Sha256([u8::try_from(number).unwrap(); 32]),
        media: MediaInfo::default(),
        description: String::new(),
        created_at,
        visibility: Visibility::Deliver,
    }
}

#[test]
fn oldest_files_beyond_a_limit_expire() {
    let day_file = |day: u64| file(day, Timestamp(day.cast_signed() * DAY_MS)).numbered(place(), NonZeroU64::MIN);
    let files: Vec<Attachment> = (1..=5).map(day_file).collect();
    let usage = Usage { scope: UsageScope::Conversation(place()), files: 5, bytes: 500, workspace_bytes: 9_999 };
    let now = Timestamp(10 * DAY_MS + DAY_MS / 2);
    for (limits, expired) in [
        (RetentionLimits::default(), 0),
        (RetentionLimits { items: Some(3), ..RetentionLimits::default() }, 2),
        (RetentionLimits { items: Some(5), ..RetentionLimits::default() }, 0),
        (RetentionLimits { bytes: Some(399), ..RetentionLimits::default() }, 2),
        (RetentionLimits { bytes: Some(500), ..RetentionLimits::default() }, 0),
        (RetentionLimits { days: Some(7), ..RetentionLimits::default() }, 3),
        (RetentionLimits { items: Some(4), bytes: Some(100), days: Some(8) }, 4),
    ] {
        assert_eq!(count_expired(&files, &usage, limits, now), expired, "{limits:?}");
    }
}

/// A conversation with this many files, in a turn that is complete.
async fn with_files(count: u64) -> (tempfile::TempDir, Arc<SqliteLedger>) {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(SystemClock::new());
    let now = clock.now();
    let ledger = SqliteLedger::open(directory.path(), Settings::default(), clock, Arc::new(UuidV7)).await;
    let ledger = Arc::new(ledger.unwrap());
    let message = InboundMessage::new(place(), "1".into(), Sender::new("owner", "Ada"));
    let received = ledger.receive(&message, ClaimMode::IfFree).await.unwrap();
    let (lease, turn) = (received.claimed.unwrap().lease, received.turn);
    let attachments = (1..=count).map(|number| file(number, now).into()).collect();
    let made = ToolOutcome { attachments, ..ToolOutcome::from_text("made") };
    ledger.journal_outcome(&lease, turn, 0, &made, &[]).await.unwrap();
    let completed = CompletedTurn {
        turn,
        ending: Ending::Done,
        response: OutgoingResponse::from_text("made"),
        plan: Plan { parts: Vec::new() },
        history: HistoryChange::Append(Vec::new()),
        setting: None,
        steered: Vec::new(),
        injected_texts: Default::default(),
        reported_failures: Vec::new(),
        reply_to: None,
        changes: Vec::new(),
        answered: None,
        hands_over: false,
    };
    ledger.complete_turn(&lease, &completed).await.unwrap();
    (directory, ledger)
}

fn task(ledger: &Arc<SqliteLedger>, limits: RetentionLimits) -> RetentionTask {
    task_with_notices_in(&Arc::clone(ledger).into(), ledger, limits)
}

/// A task whose notices go to another ledger than its files.
fn task_with_notices_in(notices: &Ledger, ledger: &Arc<SqliteLedger>, limits: RetentionLimits) -> RetentionTask {
    let (lanes, _) = mpsc::channel(64);
    let workspace = Arc::new(MockWorkspace::new());
    let (clock, bus) = (Arc::new(SystemClock::new()), Arc::new(LocalBus::new()));
    let intake = InboundService::new(notices, Arc::clone(&clock) as _, bus, lanes, Arc::default(), workspace, None);
    let Ledger { inbox, archive, storage, .. } = Arc::clone(ledger).into();
    RetentionTask { limits, inbox, archive, storage, clock, inbound: intake.internal_inbound() }
}

/// The files that are left, and what the conversation is told, message by message.
async fn state(ledger: &SqliteLedger) -> (Vec<u64>, Vec<SystemTask>) {
    let files = ledger.attachments(&AttachmentQuery::default()).await.unwrap();
    let query = TurnQuery { conversation: place(), limit: 9, before: None };
    let turns = ledger.turns(&query).await.unwrap();
    let told = turns.iter().flat_map(|turn| &turn.messages).filter_map(|queued| queued.message.system_task.clone());
    (files.iter().map(|file| file.number.get()).collect(), told.collect())
}

#[tokio::test]
async fn daily_retention_removes_old_files_and_notifies_conversation() {
    let (_directory, ledger) = with_files(4).await;
    let keep = |items| RetentionLimits { items: Some(items), ..RetentionLimits::default() };
    assert_eq!(task(&ledger, RetentionLimits::default()).run().await.unwrap(), 0);
    assert_eq!(state(&ledger).await, (vec![4, 3, 2, 1], vec![]), "nothing goes by itself");

    assert_eq!(task(&ledger, keep(2)).run().await.unwrap(), 2);
    let (files, told) = state(&ledger).await;
    assert_eq!(files, [4, 3]);
    let lines = ["#1 `1.txt` text/plain 100 B", "#2 `2.txt` text/plain 100 B"].map(str::to_owned).to_vec();
    assert_eq!(told, [SystemTask::FilesExpired { files: lines, more: 0 }]);

    assert_eq!(task(&ledger, keep(1)).run().await.unwrap(), 0, "once a day");
    assert_eq!(state(&ledger).await.0, [4, 3]);
}

/// A process that dies between the word and the deed.
#[tokio::test]
async fn conversation_is_told_once_whatever_the_process_survives() {
    let (_directory, ledger) = with_files(3).await;
    let task = task(&ledger, RetentionLimits { items: Some(1), ..RetentionLimits::default() });
    let query = AttachmentQuery { limit: Some(2), order: AttachmentOrder::Oldest, ..AttachmentQuery::default() };
    task.announce(&place(), &ledger.attachments(&query).await.unwrap(), task.clock.now()).await;
    assert_eq!(task.run().await.unwrap(), 2);
    let (files, told) = state(&ledger).await;
    assert_eq!((files, told.len()), (vec![3], 1));
}

#[tokio::test]
async fn files_stay_until_their_removal_is_announced() {
    let (_directory, ledger) = with_files(3).await;
    let limits = || RetentionLimits { items: Some(1), ..RetentionLimits::default() };
    let mut full = MockLedger::default();
    full.inbox.expect_receive().returning(|_, _| Err(LedgerError::Full));
    assert_eq!(task_with_notices_in(&full.into(), &ledger, limits()).run().await.unwrap(), 0);
    assert_eq!(state(&ledger).await, (vec![3, 2, 1], vec![]), "nothing goes without a word");
}
