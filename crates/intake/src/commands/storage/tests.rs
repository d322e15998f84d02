//! What `/usage` and `/forget` answer, and what they may do.

use std::{
    num::NonZeroU64,
    sync::{Arc, Mutex},
};

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ConversationId, Filename, MediaInfo, Sender, Sha256, Timestamp, TurnId,
    Visibility,
};
use satchel_ports::{MockBlobs, MockLedger, MockWorkspace};
use uuid::Uuid;

use super::*;
use crate::{
    access::{AccessPolicy, ChannelAccess},
    forget::BLOB_GRACE,
};

fn file(number: u64) -> Attachment {
    Attachment {
        id: AttachmentId(Uuid::from_u128(u128::from(number))),
        number: NonZeroU64::new(number).unwrap(),
        conversation: conversation(),
        source: AttachmentSource::User,
        filename: Filename::from_untrusted("plan.pdf"),
        mime: "application/pdf".into(),
        bytes: 245_000,
        sha256: Sha256([7; 32]),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    }
}

fn conversation() -> ConversationId {
    "telegram:-1".parse().unwrap()
}

/// Somebody in a group whose channel has one owner, `1`.
struct Person {
    sender: Sender,
    conversation: ConversationId,
    access: AccessPolicy,
}

impl Person {
    fn new(id: &str) -> Self {
        let rules = ChannelAccess { owners: vec!["1".into()], ..ChannelAccess::default() };
        let access = AccessPolicy::new([(conversation().channel().clone(), rules)]);
        Self { sender: Sender::new(id, "Ada"), conversation: conversation(), access }
    }

    fn asked(&self, group: bool) -> CommandContext<'_> {
        CommandContext {
            turn: TurnId(Uuid::nil()),
            repeated: false,
            conversation: &self.conversation,
            group,
            sender: &self.sender,
            access: &self.access,
            now: Timestamp(0),
        }
    }
}

/// What stands behind the command, the answer, and the requests that the ledger got.
async fn forgets(person: &Person, group: bool, given: &str, outcome: ForgetOutcome) -> (String, Vec<ForgetRequest>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let mut ledger = MockLedger::default();
    let seen = Arc::clone(&requests);
    ledger.storage.expect_forget_file().returning(move |request| {
        seen.lock().unwrap().push(request.clone());
        Ok(outcome.clone())
    });
    ledger.storage.expect_find_unreferenced().returning(|blobs| Ok(blobs.to_vec()));
    let mut blobs = MockBlobs::new();
    blobs.expect_mark().withf(|_, grace| *grace == BLOB_GRACE).returning(|_, _| Ok(()));
    blobs.expect_sweep().returning(|| Ok(245_000));
    let mut workspace = MockWorkspace::new();
    workspace.expect_remove().returning(|_, _| Ok(7));
    let services = StorageServices { blobs: &blobs, workspace: &workspace, quotas: Quotas::NONE };
    let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
    let answer =
        forget_files(&ledger.storage, &person.asked(group), &given, &services, &ChangeLog::default()).await.unwrap();
    let requests = requests.lock().unwrap().clone();
    (answer.text.unwrap(), requests)
}

#[tokio::test]
async fn forgotten_files_are_listed_and_others_give_reason() {
    let person = Person::new("7");
    for (outcome, says) in [
        (ForgetOutcome::Forgotten(Box::new(file(17))), "Removed #17 (application/pdf, 245 KB)."),
        (ForgetOutcome::AlreadyForgotten(Timestamp(1)), "#17 is already removed."),
        (ForgetOutcome::NotFound, "There is no file #17 here. `/files` lists them all."),
        (
            ForgetOutcome::Unsettled,
            "I kept #17 for now: it is still being sent. Please try again later; `/outbox` shows its progress.",
        ),
        (
            ForgetOutcome::InUse,
            "I kept #17 for now: a message I haven't answered yet needs it. Please try again after my reply.",
        ),
        (
            ForgetOutcome::NotPermitted,
            "I kept #17: only an owner, or the person who sent or requested it, can remove it.",
        ),
    ] {
        let (text, requests) = forgets(&person, false, "#17", outcome).await;
        assert_eq!(text, says);
        assert_eq!(requests, [ForgetRequest { conversation: conversation(), number: 17, restricted_to: None }]);
    }
}

#[tokio::test]
async fn undo_says_what_came_back_and_what_is_blocked() {
    let path = |text: &str| text.parse::<WorkspacePath>().unwrap();
    let many = (0..30).map(|number| path(&format!("/tmp/{number:02}"))).collect();
    for (files, says) in [
        (RestoredFiles::default(), "There is nothing to bring back. Deleted files are kept for a day."),
        (
            RestoredFiles { restored: vec![path("/shared/a*.txt")], blocked: vec![path("/tmp/b")], failure: None },
            "Brought back `/shared/a*.txt`.\nI kept `/tmp/b` in the trash: something else has the name now. Rename or \
             delete that, then send `/undo` again to bring it back.",
        ),
        (RestoredFiles { restored: many, ..RestoredFiles::default() }, "`/tmp/18`, `/tmp/19`, 10 more."),
    ] {
        let mut workspace = MockWorkspace::new();
        workspace
            .expect_restore()
            .withf(|at, request| *at == conversation() && *request == Uuid::nil())
            .returning(move |_, _| Ok(files.clone()));
        let blobs = MockBlobs::new();
        let services = StorageServices { blobs: &blobs, workspace: &workspace, quotas: Quotas::NONE };
        let text = restore_files(&Person::new("7").asked(true), &services, &ChangeLog::default()).await.text.unwrap();
        assert!(text.ends_with(says), "{text}");
    }
}

#[tokio::test]
async fn forgotten_bytes_are_removed_unless_referenced() {
    for unreferenced in [true, false] {
        let mut ledger = MockLedger::default();
        ledger.storage.expect_forget_file().returning(|_| Ok(ForgetOutcome::Forgotten(Box::new(file(17)))));
        ledger
            .storage
            .expect_find_unreferenced()
            .returning(move |blobs| Ok(if unreferenced { blobs.to_vec() } else { Vec::new() }));
        let mut blobs = MockBlobs::new();
        let times = usize::from(unreferenced);
        blobs.expect_mark().withf(|marked, _| marked == [file(17).sha256]).times(times).returning(|_, _| Ok(()));
        blobs.expect_sweep().times(times).returning(|| Ok(1));
        let request = ForgetRequest { conversation: conversation(), number: 17, restricted_to: None };
        forget_file(&ledger.storage, &blobs, &request).await.unwrap();
    }
}

#[tokio::test]
async fn range_forgets_each_number_and_leaves_out_gaps() {
    let person = Person::new("7");
    let (text, requests) = forgets(&person, false, "3-5", ForgetOutcome::Forgotten(Box::new(file(3)))).await;
    assert_eq!(requests.iter().map(|request| request.number).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!(text.lines().count(), 3);
    let (text, _) = forgets(&person, false, "3-5", ForgetOutcome::NotFound).await;
    assert_eq!(text, "There is no file with any of these numbers here. `/files` lists them all.");
}

#[tokio::test]
async fn wrong_words_behind_forget_remove_nothing() {
    let person = Person::new("7");
    for (given, says) in [
        ("", "Which file?"),
        ("plan.pdf", "`plan.pdf` is not a file number"),
        ("17 all", "`all` is not a file number"),
        ("2 9-8", "`9-8` is no range: its first number is larger than its last. Nothing was removed."),
        ("9-8, 2", "`9-8` is no range"),
        ("2 3 - 8", "`-` is not a file number"),
        ("2 workspace:/etc/passwd", "Nothing was removed."),
        ("1-18446744073709551615", "at most 100 files at once"),
        ("workspace:/etc/passwd", "I can't read `workspace:/etc/passwd`"),
        ("workspace:/shared/../vault/key", "I can't read"),
    ] {
        let (text, requests) = forgets(&person, false, given, ForgetOutcome::NotFound).await;
        assert!(text.contains(says), "{given}: {text}");
        assert!(requests.is_empty(), "{given}");
    }
}

/// The attack: somebody in a group removes what others have brought.
#[tokio::test]
async fn only_its_person_or_owner_forgets_group_file() {
    let stranger = Person::new("7");
    let (_, requests) = forgets(&stranger, true, "17", ForgetOutcome::NotPermitted).await;
    assert_eq!(requests[0].restricted_to, Some("telegram:7".parse().unwrap()));
    let (text, _) = forgets(&stranger, true, "workspace:/shared/a", ForgetOutcome::NotFound).await;
    assert!(text.starts_with("I kept `/shared/a`: in a group only an owner"), "{text}");
    let owner = Person::new("1");
    let (_, requests) = forgets(&owner, true, "17", ForgetOutcome::NotFound).await;
    assert_eq!(requests[0].restricted_to, None);
    for (person, group) in [(&owner, true), (&stranger, false)] {
        let (text, _) = forgets(person, group, "workspace:/shared/a", ForgetOutcome::NotFound).await;
        assert_eq!(text, "Removed `/shared/a` from the workspace.");
    }
}

/// Mutations: a file that is gone is said to be there, or is audited as one that stays.
#[tokio::test]
async fn unconfirmed_removal_is_not_called_a_failure() {
    let mut workspace = MockWorkspace::new();
    workspace.expect_remove().returning(|_, path| {
        Err(WorkspaceError::RemovalUnconfirmed { path: path.clone(), reason: "input/output error".to_owned() })
    });
    let blobs = MockBlobs::new();
    let services = StorageServices { blobs: &blobs, workspace: &workspace, quotas: Quotas::NONE };
    let (path, changes) = ("/shared/a".parse().unwrap(), ChangeLog::default());
    let text = remove_workspace_file(&Person::new("7").asked(false), &services, &path, &changes).await;
    assert_eq!(
        text,
        "Removed `/shared/a` from the workspace, but the disk didn't confirm it: input/output error. After a power cut \
         the file may be back."
    );
    assert_eq!(changes.to_vec()[0].outcome.as_str(), "unconfirmed");
}

#[tokio::test]
async fn usage_shows_sums_quotas_and_largest_files() {
    let mut ledger = MockLedger::default();
    ledger.storage.expect_usages().returning(|query| {
        let UsageQuery::Scopes(scopes) = query else { panic!("{query:?}") };
        let usage = |scope: &UsageScope| match scope {
            UsageScope::Conversation(_) => {
                Usage { scope: scope.clone(), files: 2, bytes: 1_000_000, workspace_bytes: 500_000 }
            }
            UsageScope::Person(person) => {
                assert!(["telegram:7", "telegram:1"].contains(&person.to_string().as_str()), "{person}");
                Usage { scope: scope.clone(), files: 1, bytes: 3_000_000, workspace_bytes: 0 }
            }
        };
        Ok(scopes.iter().map(usage).collect())
    });
    ledger
        .archive
        .expect_attachments()
        .withf(|query| query.order == AttachmentOrder::Largest)
        .returning(|_| Ok(vec![file(17)]));
    let (blobs, workspace) = (MockBlobs::new(), MockWorkspace::new());
    let quotas = Quotas { conversation: 10_000_000_000, person: 20_000_000_000 };
    let services = StorageServices { blobs: &blobs, workspace: &workspace, quotas };
    let (ledger, person) = (Ledger::from(ledger), Person::new("7"));
    let text = show_usage(&ledger, &person.asked(true), &services).await.unwrap().text.unwrap();
    assert_eq!(
        text,
        "Here: 2 files, 1 MB, and 500 KB in the workspace: 1.5 MB of 10 GB\n\
         You, across all conversations: 1 file, 3 MB of 20 GB\n\n\
         The largest files here:\n\n- #17 `plan.pdf` application/pdf 245 KB\n\n\
         `/forget 17` removes file #17 for good."
    );
    let owner = Person::new("1");
    let text = show_usage(&ledger, &owner.asked(true), &services).await.unwrap().text.unwrap();
    assert!(
        text.contains("3 MB\nAs an owner you have no quota; only the disk limits you.") && !text.contains("20 GB"),
        "{text}"
    );
}

/// Mutation: what people delete and restore with commands is in no log.
#[tokio::test]
async fn commands_record_what_they_change() {
    let path = |text: &str| text.parse::<WorkspacePath>().unwrap();
    let restored = RestoredFiles {
        restored: vec![path("/shared/a"), path("/tmp/b")],
        blocked: vec![path("/tmp/c")],
        failure: Some("`/tmp` failed: no disk".to_owned()),
    };
    let mut workspace = MockWorkspace::new();
    workspace.expect_restore().times(1).return_once(move |_, _| Ok(restored));
    workspace
        .expect_restore()
        .returning(|_, _| Err(WorkspaceError::Failed { path: "/tmp".parse().unwrap(), reason: "no disk".to_owned() }));
    workspace.expect_remove().returning(|_, path| match path.file_name() {
        Some("gone") => Err(WorkspaceError::NotFound(path.clone())),
        _ => Ok(7),
    });
    let (ledger, blobs) = (MockLedger::default(), MockBlobs::new());
    let services = StorageServices { blobs: &blobs, workspace: &workspace, quotas: Quotas::NONE };
    let (person, changes) = (Person::new("7"), ChangeLog::default());
    let context = person.asked(false);
    let partial = restore_files(&context, &services, &changes).await.text.unwrap();
    assert!(
        partial
            .contains("Brought back `/shared/a`, `/tmp/b`.\nI couldn't bring everything back: `/tmp` failed: no disk."),
        "{partial}"
    );
    restore_files(&context, &services, &changes).await;
    let arguments = ["workspace:/tmp/b".to_owned(), "workspace:gone".to_owned()];
    forget_files(&ledger.storage, &context, &arguments, &services, &changes).await.unwrap();
    let line = |change: &FileChange| {
        let path = change.path.as_ref().map_or("?".to_owned(), ToString::to_string);
        let (action, outcome) = (change.action.as_str(), change.outcome.as_str());
        format!("{} {} {action} {path} {:?} {outcome}", change.person.id, change.tool, change.bytes)
    };
    assert_eq!(
        changes.to_vec().iter().map(line).collect::<Vec<_>>(),
        [
            "7 /undo restore /shared/a None done",
            "7 /undo restore /tmp/b None done",
            "7 /undo restore ? None failed",
            "7 /undo restore ? None failed",
            "7 /forget delete /tmp/b Some(7) done",
            "7 /forget delete /shared/gone None failed",
        ]
    );
}

/// Mutation: a command that runs again records that nothing was done, although the process that died did it.
#[tokio::test]
async fn repeated_commands_record_unknown_changes() {
    let mut workspace = MockWorkspace::new();
    workspace.expect_restore().returning(|_, _| Ok(RestoredFiles::default()));
    workspace.expect_remove().returning(|_, path| Err(WorkspaceError::NotFound(path.clone())));
    let (ledger, blobs) = (MockLedger::default(), MockBlobs::new());
    let services = StorageServices { blobs: &blobs, workspace: &workspace, quotas: Quotas::NONE };
    let person = Person::new("7");
    for (repeated, outcomes) in [(false, vec!["failed"]), (true, vec!["unknown", "unknown"])] {
        let (changes, context) = (ChangeLog::default(), CommandContext { repeated, ..person.asked(false) });
        let undone = restore_files(&context, &services, &changes).await.text.unwrap();
        let arguments = ["workspace:/tmp/b".to_owned()];
        let forgotten =
            forget_files(&ledger.storage, &context, &arguments, &services, &changes).await.unwrap().text.unwrap();
        for text in [undone, forgotten] {
            assert_eq!(text.starts_with("I was interrupted while I "), repeated, "{text}");
        }
        let changes = changes.to_vec();
        assert_eq!(changes.iter().map(|change| change.outcome.as_str()).collect::<Vec<_>>(), outcomes);
    }
}

/// Mutation: a file of the workspace is removed, and then the ledger fails, so that its line is lost.
#[tokio::test]
async fn workspace_files_are_forgotten_last() {
    let mut ledger = MockLedger::default();
    ledger.storage.expect_forget_file().returning(|_| Err(LedgerError::Full));
    let (blobs, workspace) = (MockBlobs::new(), MockWorkspace::new());
    let services = StorageServices { blobs: &blobs, workspace: &workspace, quotas: Quotas::NONE };
    let (person, changes) = (Person::new("7"), ChangeLog::default());
    let arguments = ["workspace:/tmp/b".to_owned(), "17".to_owned()];
    let forgotten = forget_files(&ledger.storage, &person.asked(false), &arguments, &services, &changes).await;
    assert!(forgotten.is_err() && changes.to_vec().is_empty());
}
