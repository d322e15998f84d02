//! What a restored copy holds back, and what becomes of it.

use std::{sync::Arc, time::Duration};

use satchel_domain::{
    AttachmentId, AttachmentSource, ChannelName, FileReference, Filename, InboundMessage, MediaInfo, NewAttachment,
    PartContent, Sender, Sha256, StoredBlob,
};
use satchel_local::UuidV7;
use satchel_ports::{
    Archive, Inbox, Leases, Logins, ManualClock, Outbox, Storage, Turns,
    ledger::{AttachmentQuery, ClaimMode, NewLogin, OutboxQuery, QueuedMessage, WorkFilter},
};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::Settings;

const BACKUP_AT: Timestamp = Timestamp(1_000_000);
const RELEASED_AT: Timestamp = Timestamp(9_000_000);

const REPLY: Uuid = Uuid::from_u128(7);

async fn open(directory: &TempDir, now: Timestamp) -> SqliteLedger {
    let (clock, ids) = (Arc::new(ManualClock::at(now)), Arc::new(UuidV7));
    SqliteLedger::open(directory.path(), Settings::default(), clock, ids).await.unwrap()
}

fn message(key: &str, sent_at: i64) -> InboundMessage {
    let conversation = "discord:7".parse().unwrap();
    let sent_at = Some(Timestamp(sent_at));
    let text = format!("text of {key}");
    InboundMessage { sent_at, text, ..InboundMessage::new(conversation, key.to_owned(), Sender::new("1", "Ann")) }
}

fn uploaded() -> StoredBlob {
    StoredBlob {
        sha256: Sha256::digest("a photo"),
        bytes: 7,
        mime: "image/png".to_owned(),
        media: MediaInfo::default(),
    }
}

/// A copy with a reply that was not sent and a message with a file that was not answered.
async fn restored() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let ledger = open(&directory, BACKUP_AT).await;
    let answered = ledger.receive(&message("answered", 1), ClaimMode::IfFree).await.unwrap();
    let files = vec![FileReference::stored(&uploaded(), Filename::from_untrusted("photo.png"))];
    ledger.receive(&InboundMessage { files, ..message("queued", 2) }, ClaimMode::Never).await.unwrap();
    let reply: PartContent = PartContent::Notice { text: "the reply".to_owned() };
    let insert = async move |db: &Database| {
        db.run("UPDATE inbox SET consumed_by = turn WHERE turn = $1", params![answered.turn.0]).await?;
        db.run("UPDATE turns SET state = 'completed', indexed = TRUE WHERE id = $1", params![answered.turn.0]).await?;
        db.run(
            "INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, \
                 attempts, labelled, created_at) VALUES ($1, 1, $2, 1, 0, 'notice', $3, 'pending', $4, 0, 0, 0, 1)",
            params![REPLY, answered.turn.0, Json(&reply), Json(&PartState::Pending)],
        )
        .await
    };
    ledger.write("inserting", insert).await.unwrap();
    ledger.hold_back(BACKUP_AT, PathBuf::from("/srv/satchel")).await.unwrap();
    directory
}

async fn claim(ledger: &SqliteLedger) -> Option<(Option<String>, bool)> {
    let claimed = ledger.claim_lane(&[ChannelName::new("discord").unwrap()], WorkFilter::Any).await.unwrap()?;
    Some((claimed.turn.map(|turn| turn.messages[0].message.key.clone()), claimed.unsettled))
}

fn keys(messages: &[QueuedMessage]) -> Vec<&str> {
    messages.iter().map(|queued| queued.message.key.as_str()).collect()
}

async fn release(directory: &TempDir, unsettled: HeldChoice, received: HeldChoice) -> SqliteLedger {
    open(directory, RELEASED_AT).await.release_held(ReleaseRequest { unsettled, received }).await.unwrap();
    // The process that runs is another one than that of the command.
    open(directory, RELEASED_AT).await
}

#[tokio::test]
async fn unsettled_parts_and_messages_are_held_back() {
    let directory = restored().await;
    let copy = find_restored_copy(directory.path()).unwrap().unwrap();
    let expected = RestoredCopy { backup_at: BACKUP_AT, original: PathBuf::from("/srv/satchel"), released_at: None };
    assert_eq!(copy, expected);
    let ledger = open(&directory, RELEASED_AT).await;
    assert_eq!(claim(&ledger).await, None, "nothing is sent and nothing answered");
    let held = ledger.held_back().await.unwrap().unwrap();
    assert_eq!((held.parts.len(), keys(&held.unanswered), keys(&held.received)), (1, vec!["queued"], vec![]));
    let repeated = ledger.receive(&message("queued", 2), ClaimMode::Never).await.unwrap();
    assert!(repeated.duplicate);
    let blob = uploaded().sha256;
    assert_eq!(ledger.find_unreferenced(&[blob]).await.unwrap(), [], "its file stays until it is decided");
}

#[tokio::test]
async fn dropped_parts_and_messages_stay_unsent() {
    let directory = restored().await;
    let ledger = release(&directory, HeldChoice::Drop, HeldChoice::Drop).await;
    assert_eq!(claim(&ledger).await, None);
    let held = ledger.held_back().await.unwrap().unwrap();
    assert_eq!((held.parts.len(), held.unanswered.len(), held.copy.released_at), (0, 0, Some(RELEASED_AT)));
    let parts = ledger.parts(&OutboxQuery::default()).await.unwrap();
    assert_eq!(parts[0].state, PartState::Failed { reason: FailureReason::HeldBack }, "it can be looked up");
    let repeated = ledger.receive(&message("queued", 2), ClaimMode::IfFree).await.unwrap();
    assert!(repeated.duplicate && repeated.claimed.is_none());
}

#[tokio::test]
async fn released_parts_and_messages_are_sent() {
    let directory = restored().await;
    let ledger = release(&directory, HeldChoice::Resume, HeldChoice::Drop).await;
    assert_eq!(claim(&ledger).await, Some((Some("queued".to_owned()), true)));
    let query = OutboxQuery { unsettled_only: true, ..OutboxQuery::default() };
    let parts = ledger.parts(&query).await.unwrap();
    assert_eq!((parts.len(), parts[0].state.clone(), parts[0].created_at), (1, PartState::Pending, RELEASED_AT));
    ledger.discard_part(parts[0].id).await.unwrap();
}

#[tokio::test]
async fn messages_sent_before_release_wait_for_owner() {
    let directory = restored().await;
    let ledger = release(&directory, HeldChoice::Drop, HeldChoice::Drop).await;
    let before = RELEASED_AT.0 - 1;
    for key in ["missed", "missed", "missed too"] {
        let received = ledger.receive(&message(key, before), ClaimMode::IfFree).await.unwrap();
        assert!(received.claimed.is_none(), "{key}");
    }
    let held = ledger.held_back().await.unwrap().unwrap();
    assert_eq!((keys(&held.unanswered), keys(&held.received)), (vec![], vec!["missed", "missed too"]));
    assert_eq!(claim(&ledger).await, None);
    let later = message("new", RELEASED_AT.saturating_add(Duration::from_secs(1)).0);
    let received = ledger.receive(&later, ClaimMode::IfFree).await.unwrap();
    assert_eq!(received.claimed.unwrap().turn.unwrap().messages[0].message.key, "new");
    drop(ledger);
    let ledger = release(&directory, HeldChoice::Drop, HeldChoice::Resume).await;
    assert_eq!(claim(&ledger).await, Some((Some("missed".to_owned()), false)), "in the order in which they came");
    assert!(ledger.held_back().await.unwrap().unwrap().received.is_empty());
    assert_eq!(find_restored_copy(directory.path()).unwrap().unwrap().released_at, Some(RELEASED_AT));
}

#[tokio::test]
async fn held_album_and_held_edit_are_one_turn_each() {
    let directory = restored().await;
    let ledger = release(&directory, HeldChoice::Drop, HeldChoice::Drop).await;
    let before = RELEASED_AT.0 - 1;
    let mut turns = Vec::new();
    for key in ["photo 1", "photo 2"] {
        let item = InboundMessage { album: Some("a".into()), ..message(key, before) };
        turns.push(ledger.receive(&item, ClaimMode::IfFree).await.unwrap().turn);
    }
    assert_eq!(turns[0], turns[1], "an album is one turn");
    let original = ledger.receive(&message("typo", before), ClaimMode::IfFree).await.unwrap().turn;
    let edit = InboundMessage { edit_of: Some("typo".into()), ..message("typo, mended", before) };
    assert_eq!(ledger.receive(&edit, ClaimMode::IfFree).await.unwrap().turn, original);
    let held = ledger.held_back().await.unwrap().unwrap();
    assert_eq!(keys(&held.received), ["photo 1", "photo 2", "typo, mended"]);
    // Once it is released, an edit is a message like any other.
    let later = InboundMessage { edit_of: Some("answered".into()), ..message("later", RELEASED_AT.0 + 1) };
    assert!(ledger.receive(&later, ClaimMode::IfFree).await.unwrap().claimed.is_some());
}

#[tokio::test]
async fn edit_of_released_message_replaces_it() {
    let directory = restored().await;
    let ledger = release(&directory, HeldChoice::Resume, HeldChoice::Drop).await;
    let edit = InboundMessage { edit_of: Some("queued".into()), ..message("queued, mended", RELEASED_AT.0 - 1) };
    ledger.receive(&edit, ClaimMode::Never).await.unwrap();
    assert_eq!(claim(&ledger).await, Some((Some("queued, mended".to_owned()), true)));
    assert!(ledger.held_back().await.unwrap().unwrap().received.is_empty());
}

/// The original goes on counting from what the backup has, and so does each copy of it.
#[tokio::test]
async fn copies_have_link_counts_of_their_own() {
    let mut counts = Vec::new();
    for _copy in 0..2 {
        let directory = tempfile::tempdir().unwrap();
        let ledger = open(&directory, BACKUP_AT).await;
        let turn = ledger.receive(&message("draw it", 1), ClaimMode::Never).await.unwrap().turn;
        let (id, name) = (AttachmentId(Uuid::from_u128(5)), Filename::from_untrusted("photo.png"));
        let file = NewAttachment::new(id, AttachmentSource::Tool, name, uploaded(), BACKUP_AT);
        ledger.register_files(turn, &[file]).await.unwrap();
        ledger.revoke_links(id).await.unwrap();
        ledger.hold_back(BACKUP_AT, PathBuf::from("/srv/satchel")).await.unwrap();
        let files = ledger.attachments(&AttachmentQuery::default()).await.unwrap();
        let count = files[0].link_revocation.expect("its links are revoked").count;
        assert_eq!(ledger.revoke_links(id).await.unwrap().unwrap().count, count + 1);
        counts.push(count);
    }
    assert!(counts.iter().all(|count| *count > 1_000) && counts[0] != counts[1], "{counts:?}");
}

#[tokio::test]
async fn other_databases_hold_nothing_back() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(find_restored_copy(directory.path()).unwrap(), None);
    let ledger = open(&directory, RELEASED_AT).await;
    assert!(ledger.held_back().await.unwrap().is_none());
    assert!(ledger.receive(&message("old", 1), ClaimMode::IfFree).await.unwrap().claimed.is_some());
}

/// One that was ended since the backup must not come back with it.
#[tokio::test]
async fn restored_copy_has_no_logins() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = open(&directory, BACKUP_AT).await;
    let login = NewLogin {
        issuer: "a token".to_owned(),
        client: "Firefox on Linux".to_owned(),
        expires_at: RELEASED_AT.saturating_add(Duration::from_secs(60)),
    };
    let login = ledger.create_login(&login, 9).await.unwrap();
    ledger.hold_back(BACKUP_AT, PathBuf::from("/srv/satchel")).await.unwrap();
    let ledger = release(&directory, HeldChoice::Resume, HeldChoice::Resume).await;
    assert_eq!(ledger.find_login(login.id).await.unwrap(), None);
    assert_eq!(ledger.list_logins().await.unwrap(), []);
}
