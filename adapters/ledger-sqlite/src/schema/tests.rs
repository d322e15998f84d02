//! A database of the version before: converted at the first start, with a copy that stays as it was.

use std::{
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelName, ConversationId, Filename, MediaInfo, NewAttachment,
    PartState, Sha256, StoredBlob, Timestamp,
};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::ledger::{
    Archive, AttachmentKey, AttachmentQuery, ConversationSearch, Conversations, InboundFileState, Leases, Outbox,
    OutboxQuery, Pairings, SearchTerms, Storage, Transcription, TurnQuery, Turns, UsageQuery, UsageScope, WorkFilter,
};
use satchel_wait::wait_until;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::{Settings, SqliteLedger};

/// What a data directory of the oldest version held.
const OLDEST: &str = include_str!("version-20.sql");

/// Tells a process of a test, which is killed, what data directory to open.
const DIRECTORY_TO_OPEN: &str = "SATCHEL_TEST_DIRECTORY_TO_OPEN";

fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    connection
}

/// A data directory as the oldest version has left it.
fn older_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    connect(&directory.path().join("satchel.db")).execute_batch(OLDEST).unwrap();
    directory
}

fn count(connection: &Connection, table: &str) -> i64 {
    connection.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

async fn open(directory: &Path) -> SqliteLedger {
    SqliteLedger::open(directory, Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap()
}

#[tokio::test]
async fn previous_files_turns_and_people_are_read() {
    let directory = older_directory();
    let ledger = open(directory.path()).await;
    let main: ConversationId = "console:main".parse().unwrap();
    let files = ledger
        .attachments(&AttachmentQuery { conversation: Some(main.clone()), ..AttachmentQuery::default() })
        .await
        .unwrap();
    let facts = |file: &Attachment| (file.number.get(), file.filename.to_string(), file.bytes, file.source);
    assert_eq!(
        files.iter().map(facts).collect::<Vec<_>>(),
        [(2, "list.txt".to_owned(), 14, AttachmentSource::Tool), (1, "a.txt".to_owned(), 10, AttachmentSource::User)]
    );
    let first = &files[1];
    assert_eq!(first.sha256.to_string(), "f3877e8a3d98f809d9f844060fbea2864a4b66980a22ff22297014d0c168db2e");
    assert_eq!(
        (first.mime.as_str(), first.created_at, &first.conversation),
        ("text/plain", Timestamp(1_795_818_120_653), &main)
    );
    let forgotten = ledger.attachment(&main, AttachmentKey::Number(3)).await.unwrap().unwrap();
    assert!(forgotten.is_forgotten());

    let turns = ledger.turns(&TurnQuery { conversation: main.clone(), before: None, limit: 100 }).await.unwrap();
    assert_eq!(turns.len(), 6);
    assert_eq!(turns[0].response.as_ref().unwrap().attachments, std::slice::from_ref(first));
    assert_eq!(turns[0].parts[1].operation.files()[0].attachment, *first);
    assert_eq!(turns[0].messages[0].files, [InboundFileState::Stored(first.clone())]);
    assert_eq!(turns[0].messages[0].message.conversation, main, "that of its row");
    assert_eq!(ledger.history(&main, 100).await.unwrap().len(), 13);
    assert_eq!(ledger.list_people().await.unwrap()[0].approved_by, "console:owner");
    assert_eq!(ledger.count_undecodable().await.unwrap()[0].updates, 1);
}

/// A turn that has asked a person, a message behind it, and a part that was under way, as their process left them.
#[tokio::test]
async fn previous_work_goes_on() {
    let directory = older_directory();
    let ledger = open(directory.path()).await;
    let channels = [ChannelName::new("console").unwrap()];
    let mut claimed = Vec::new();
    while let Some(lane) = ledger.claim_lane(&channels, WorkFilter::Any).await.unwrap() {
        claimed.push(lane);
    }
    claimed.sort_by_key(|lane| lane.lease.conversation.to_string());
    let [asks, main] = claimed.as_slice() else { panic!("{claimed:?}") };

    let turn = asks.turn.as_ref().unwrap();
    assert_eq!((turn.messages[0].message.text.as_str(), turn.journal.len()), ("make a file secret.txt: x", 1));
    let parts = ledger.parts(&OutboxQuery::default()).await.unwrap();
    let open_part = parts.iter().find(|part| part.question.is_some()).unwrap();
    assert!(matches!(open_part.state, PartState::Open { .. }), "{:?}", open_part.state);
    let behind = ledger.list_queued_behind(&asks.lease, turn.id).await.unwrap();
    assert_eq!(behind[0].message.conversation, asks.lease.conversation);
    assert_eq!(behind[0].transcriptions[&0], Transcription::Text("and then".to_owned()));

    let under_way = ledger.next_part(&main.lease).await.unwrap().unwrap();
    assert_eq!((under_way.state.clone(), under_way.attempts), (PartState::Sending, 1));
    let blob = StoredBlob { sha256: Sha256([7; 32]), bytes: 3, mime: "text/plain".into(), media: MediaInfo::default() };
    let name = Filename::from_untrusted("new.txt");
    let file = NewAttachment::new(AttachmentId(Uuid::from_u128(9)), AttachmentSource::Tool, name, blob, Timestamp(5));
    let stored = ledger.register_files(turn.id, &[file]).await.unwrap();
    assert_eq!(stored[0].number.get(), 1, "numbers count by conversation");
}

/// The size of a workspace counts for the person who wrote there last, until it shrinks.
#[tokio::test]
async fn previous_workspaces_count_for_their_writers() {
    let directory = older_directory();
    let ledger = open(directory.path()).await;
    let bytes = async || {
        let query = UsageQuery::Scopes(vec![UsageScope::Person("console:owner".parse().unwrap())]);
        ledger.usages(&query).await.unwrap()[0].workspace_bytes
    };
    assert_eq!(bytes().await, 24);
    ledger.record_workspace(&"console:main".parse().unwrap(), 10).await.unwrap();
    assert_eq!(bytes().await, 10);
}

/// Killed at many moments, the database is always either as it was or converted, and the copy is whole.
#[tokio::test(flavor = "multi_thread")]
async fn killed_conversion_loses_nothing() {
    if let Ok(directory) = std::env::var(DIRECTORY_TO_OPEN) {
        // The process that is killed.
        drop(open(Path::new(&directory)).await);
        return std::future::pending().await;
    }
    let directory = older_directory();
    let path = directory.path().join("satchel.db");
    // Long enough a conversion to be killed in.
    let connection = connect(&path);
    let many = "WITH RECURSIVE counted (n) AS (VALUES (100) UNION ALL SELECT n + 1 FROM counted WHERE n < 30000)
         INSERT INTO attachments (id, lane, number, turn, source, filename, mime, bytes, sha256, media, description,
                                  visibility, created_at)
         SELECT randomblob(16), lane, counted.n, turn, source, filename, mime, bytes, sha256, media, description,
                visibility, created_at FROM attachments, counted WHERE number = 1;
         WITH RECURSIVE counted (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM counted WHERE n < 30000)
         INSERT INTO turns (id, lane, state, ready_at) SELECT randomblob(16), 1, 'completed', 0 FROM counted;";
    connection.execute_batch(many).unwrap();
    let turns = count(&connection, "turns");
    drop(connection);
    let copies = || list_copies(directory.path(), "satchel.db").unwrap();
    let mut unconverted = 0;
    for delay in (0..10).map(|step| Duration::from_millis(step * 12)) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "schema::tests::killed_conversion_loses_nothing"])
            .env(DIRECTORY_TO_OPEN, directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("there is a copy", || {
            let is_alive = child.try_wait().unwrap().is_none();
            assert!(is_alive || !copies().is_empty(), "it ended before it made a copy");
            !copies().is_empty()
        })
        .await;
        // A little later each time, to meet every moment of the conversion.
        tokio::time::sleep(delay).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let found = connect(&path);
        let sound: String = found.query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
        let found_version = version(&found).unwrap();
        assert!((OLDEST_VERSION..=newest_version()).contains(&found_version), "{found_version}");
        assert_eq!((count(&found, "attachments"), count(&found, "turns")), (29_904, turns));
        drop(found);
        for copy in copies() {
            assert_eq!(count(&connect(&copy), "attachments"), 29_904);
            fs::remove_file(&copy).unwrap();
        }
        if found_version == newest_version() {
            break;
        }
        unconverted += 1;
    }
    assert!(unconverted > 0, "none was killed in the midst of it");
    let ledger = open(directory.path()).await;
    let main: ConversationId = "console:main".parse().unwrap();
    let last = ledger.attachment(&main, AttachmentKey::Number(30_000)).await.unwrap().unwrap();
    assert_eq!(last.filename.as_str(), "a.txt");
}

/// Its tables are others than those of a new database, and none of its rows must be touched.
#[tokio::test]
async fn older_database_than_the_oldest_is_refused() {
    let directory = older_directory();
    let path = directory.path().join("satchel.db");
    for found in [OLDEST_VERSION - 1, 0] {
        connect(&path).pragma_update(None, "user_version", found).unwrap();
        let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
        let error = SqliteLedger::open(directory.path(), Settings::default(), clock, ids).await.unwrap_err();
        assert!(error.to_string().contains(&format!("has schema version {found}")), "{error}");
        assert!(error.to_string().contains(&format!("from version {OLDEST_VERSION} on")), "{error}");
        assert_eq!((version(&connect(&path)).unwrap(), count(&connect(&path), "parts")), (found, 9));
    }
}

#[tokio::test]
async fn previous_database_is_copied_before_migration() {
    let directory = older_directory();
    // As a start that was killed in the midst of it leaves it.
    let unfinished = directory.path().join("satchel.db.version-20.partial");
    fs::write(&unfinished, "half a copy").unwrap();
    // And as an update leaves it from which somebody has gone back.
    fs::write(directory.path().join("satchel.db.version-20"), "a database of last month").unwrap();
    drop(open(directory.path()).await);
    let copy = directory.path().join("satchel.db.version-20");
    assert_eq!(list_copies(directory.path(), "satchel.db").unwrap(), std::slice::from_ref(&copy));
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let old = connect(&copy);
    assert_eq!(version(&old).unwrap(), OLDEST_VERSION);
    assert_eq!(count(&old, "parts"), 9);

    let fresh = tempfile::tempdir().unwrap();
    drop(open(fresh.path()).await);
    assert_eq!(list_copies(fresh.path(), "satchel.db").unwrap(), [] as [PathBuf; 0], "a new one has nothing to keep");
}

#[tokio::test]
async fn converted_database_equals_new_one() {
    let directory = older_directory();
    drop(open(directory.path()).await);
    let converted = connect(&directory.path().join("satchel.db"));
    assert_eq!(version(&converted).unwrap(), newest_version());
    assert_eq!(count(&converted, "pragma_foreign_key_check"), 0);
    let fresh_directory = tempfile::tempdir().unwrap();
    drop(open(fresh_directory.path()).await);
    let fresh = connect(&fresh_directory.path().join("satchel.db"));
    // Without comments, quotes and spaces: renamed tables are quoted.
    let schema = |connection: &Connection| -> Vec<String> {
        let mut read = connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
        let statements = read.query_map([], |row| row.get(0)).unwrap().map(Result::<String, _>::unwrap);
        let words = |line: &str| line.split("--").next().unwrap_or_default().replace(['"', ' '], "");
        statements.map(|sql| sql.lines().map(words).collect()).collect()
    };
    assert_eq!(schema(&converted), schema(&fresh));
    let next: i64 =
        converted.query_row("SELECT seq FROM sqlite_sequence WHERE name = 'turns'", [], |row| row.get(0)).unwrap();
    assert_eq!(next, count(&converted, "turns"), "sequences go on where they were");
}

/// What an earlier version stored is found, once it is indexed.
#[tokio::test]
async fn turns_of_an_earlier_version_are_indexed() {
    let directory = older_directory();
    let ledger = open(directory.path()).await;
    let search = async |words: &str| {
        let (channel, terms) = (ChannelName::new("console").unwrap(), SearchTerms::parse(words).unwrap());
        let search = ConversationSearch { channel, conversation: None, terms, before: None, limit: 9 };
        ledger.search_conversations(&search).await.unwrap()
    };
    while ledger.index_turns(1).await.unwrap() > 0 {}
    let honey = search("HONEY").await;
    assert_eq!((honey.hits.len(), honey.unindexed), (1, 0), "{honey:?}");
    assert_eq!(honey.hits[0].title, "save this as notes.txt and send it back");
    assert_eq!(search("secret").await.hits, [], "its turn has not ended");
}

/// What earlier versions deleted is in free pages, and in what they left in the index.
#[tokio::test]
async fn deleted_words_of_an_earlier_version_are_erased() {
    let directory = older_directory();
    let path = directory.path().join("satchel.db");
    let deleted = "CREATE TABLE scratch (word TEXT); INSERT INTO scratch VALUES ('xylophone'); DROP TABLE scratch;
         INSERT INTO search_index (rowid, channel, text, files) VALUES (900, 'c l1', 'marimba', '');
         DELETE FROM search_index WHERE rowid = 900;";
    connect(&path).execute_batch(deleted).unwrap();
    let has_word = |word: &str| {
        let bytes = fs::read(&path).unwrap();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    assert!(has_word("xylophone") && has_word("marimba"));
    drop(open(directory.path()).await);
    assert!(!has_word("xylophone") && !has_word("marimba"));
    assert_eq!(count(&connect(&path), "pending_erasure"), 0, "it is done once");
}
