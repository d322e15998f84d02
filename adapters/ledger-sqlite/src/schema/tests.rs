//! A database of the version before: converted at the first start, with a copy that stays as it was.

use std::{
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelName, ConversationId, Filename, MediaInfo, MessageRef,
    NewAttachment, PartContent, PartState, Sha256, StoredBlob, Timestamp, TurnId, part::Operation,
};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::ledger::{
    Archive, AttachmentKey, AttachmentQuery, ConversationSearch, Conversations, InboundFileState, Leases, Outbox,
    OutboxQuery, Pairings, SearchTerms, Transcription, TurnQuery, Turns, WorkFilter,
};
use satchel_wait::wait_until;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::{Settings, SqliteLedger};

/// The version before questions became parts.
const BEFORE_QUESTIONS: i64 = 10;

/// The version before the messages in which replies grow became drafts and the records of files columns, and what a real
/// data directory of it held.
const BEFORE_DRAFTS: i64 = 11;
const REAL_ROWS: &str = include_str!("version-11.sql");

/// The last version that counted its steps in a table, and that table.
const LAST_COUNTED_IN_TABLE: i64 = 13;
const TABLE_OF_STEPS: &str = "CREATE TABLE _sqlx_migrations (
    version BIGINT PRIMARY KEY, description TEXT NOT NULL, installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    success BOOLEAN NOT NULL, checksum BLOB NOT NULL, execution_time BIGINT NOT NULL
);";

/// Before the settings of conversations had a table of their own.
const BEFORE_SETTINGS: i64 = 14;

/// Tells a process of a test, which is killed, what data directory to open.
const DIRECTORY_TO_OPEN: &str = "SATCHEL_TEST_DIRECTORY_TO_OPEN";

const TURN: Uuid = Uuid::from_u128(1);

fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    connection
}

/// A data directory as an earlier version has left it, with these rows.
fn older_directory(version: i64, rows: &'static str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut connection = connect(&directory.path().join("satchel.db"));
    let steps = usize::try_from(version).unwrap();
    MIGRATIONS.to_version(&mut connection, steps).unwrap();
    if version <= LAST_COUNTED_IN_TABLE {
        connection.pragma_update(None, "user_version", 0).unwrap();
        connection.execute_batch(TABLE_OF_STEPS).unwrap();
        for step in 1..=version {
            let insert = "INSERT INTO _sqlx_migrations VALUES (?1, 'a step', CURRENT_TIMESTAMP, TRUE, x'00', 1)";
            connection.execute(insert, [step]).unwrap();
        }
    }
    connection.execute_batch(rows).unwrap();
    directory
}

/// A running turn with a reply under way, which has asked twice.
const ROWS: &str = "INSERT INTO lanes (conversation, channel) VALUES ('telegram:5', 'telegram');
         INSERT INTO turns (id, conversation, state, ready_at)
             VALUES (x'00000000000000000000000000000001', 'telegram:5', 'queued', 0);
         INSERT INTO parts (id, conversation, turn, turn_sequence, position, kind, content, state, state_detail, settled,
                            attempts, labelled, created_at)
             VALUES (x'0000000000000000000000000000000a', 'telegram:5', x'00000000000000000000000000000001', 1, 0, 'text',
                     '{\"kind\":\"text\",\"text\":\"hello\",\"markup\":\"rich\"}', 'pending', '{\"state\":\"pending\"}', 0,
                     0, 0, 7);
         INSERT INTO questions VALUES
             (x'0000000000000000000000000000000b', 'telegram:5', x'00000000000000000000000000000001', '41', 8),
             (x'0000000000000000000000000000000c', 'telegram:5', x'00000000000000000000000000000001', NULL, 9);";

/// A running turn whose reply has been streamed into message 41, and one whose message isn't known; a reply that takes
/// back message 42, and one that took back what nobody knew.
const STREAMED_ROWS: &str =
    "INSERT INTO lanes (conversation, channel) VALUES ('telegram:5', 'telegram'), ('telegram:6', 'telegram');
    INSERT INTO turns (id, conversation, state, ready_at)
        VALUES (x'00000000000000000000000000000001', 'telegram:5', 'queued', 0),
               (x'00000000000000000000000000000002', 'telegram:6', 'queued', 0),
               (x'00000000000000000000000000000003', 'telegram:6', 'completed', 0);
    INSERT INTO parts (id, conversation, turn, turn_sequence, position, kind, content, state, state_detail, settled,
                       attempts, first_attempt_at, labelled, target, created_at, open_stream, streamed)
        VALUES (x'0000000000000000000000000000000a', 'telegram:5', x'00000000000000000000000000000001', 1, 0, 'text',
                '{\"kind\":\"text\",\"text\":\"\",\"markup\":\"rich\"}', 'sending', '{\"state\":\"sending\"}', 0,
                1, 7, 0, '41', 7, 1, 1),
               (x'0000000000000000000000000000000b', 'telegram:6', x'00000000000000000000000000000002', 2, 0, 'text',
                '{\"kind\":\"text\",\"text\":\"\",\"markup\":\"rich\"}', 'sending', '{\"state\":\"sending\"}', 0,
                1, 8, 0, NULL, 8, 1, 1),
               (x'0000000000000000000000000000000c', 'telegram:6', x'00000000000000000000000000000003', 3, 0, 'withdraw',
                '{\"kind\":\"withdraw\"}', 'pending', '{\"state\":\"pending\"}', 0, 0, NULL, 0, '42', 9, 0, 1),
               (x'0000000000000000000000000000000d', 'telegram:6', x'00000000000000000000000000000003', 3, 1, 'withdraw',
                '{\"kind\":\"withdraw\"}', 'sent', '{\"state\":\"sent\",\"messages\":[]}', 1, 1, 9, 0, NULL, 9, 0, 1);";

fn count(connection: &Connection, table: &str) -> i64 {
    connection.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

async fn open(directory: &Path) -> SqliteLedger {
    SqliteLedger::open(directory, Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap()
}

#[tokio::test]
async fn previous_questions_become_parts() {
    let directory = older_directory(BEFORE_QUESTIONS, ROWS);
    let ledger = open(directory.path()).await;
    let parts = ledger.turn(TurnId(TURN)).await.unwrap().unwrap().parts;
    assert_eq!(parts.iter().map(|part| part.position).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(parts[0].content(), Some(&PartContent::from_text("hello")));
    let replaced = PartState::Replaced { by: Vec::new() };
    assert!(parts[1..].iter().all(|part| part.state == replaced), "nothing of them is shown");
    assert!(parts[0].question.is_none() && parts[1..].iter().all(|part| part.question.is_some()));

    let claimed = ledger.claim_lane(&[ChannelName::new("telegram").unwrap()], WorkFilter::Any).await.unwrap().unwrap();
    assert_eq!(ledger.next_part(&claimed.lease).await.unwrap().unwrap().id, parts[0].id);
    assert_eq!(claimed.turn.unwrap().unreported_failures, []);
    let recorded = ledger.list_recorded_messages(&parts[0].conversation, parts[0].id).await.unwrap();
    assert_eq!(recorded.other.iter().map(|recorded| recorded.message.0.as_str()).collect::<Vec<_>>(), ["41"]);
    assert!(recorded.other_doubt, "the second question may have arrived");
}

#[tokio::test]
async fn previous_streams_become_drafts() {
    let directory = older_directory(BEFORE_DRAFTS, STREAMED_ROWS);
    let ledger = open(directory.path()).await;
    for (key, open) in [("5", Some("41")), ("6", None)] {
        let conversation: ConversationId = format!("telegram:{key}").parse().unwrap();
        let claimed =
            ledger.claim_lane(std::slice::from_ref(conversation.channel()), WorkFilter::Any).await.unwrap().unwrap();
        assert_eq!(claimed.lease.conversation, conversation);
        let draft = claimed.turn.unwrap().draft.unwrap();
        let state = open.map_or(PartState::Sending, |id| PartState::Open { message: MessageRef(id.to_owned()) });
        assert_eq!((&draft.state, draft.target(), draft.attempts), (&state, None, 1));
    }
    let parts = ledger.turn(TurnId(Uuid::from_u128(3))).await.unwrap().unwrap().parts;
    let deletion = Operation::Delete { message: MessageRef("42".to_owned()) };
    assert_eq!(parts.iter().map(|part| &part.operation).collect::<Vec<_>>(), [&deletion]);
}

#[tokio::test]
async fn previous_files_turns_and_people_are_read() {
    let directory = older_directory(BEFORE_DRAFTS, REAL_ROWS);
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
    let directory = older_directory(BEFORE_DRAFTS, REAL_ROWS);
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

/// Killed at many moments, the database is always either as it was or converted, and the copy is whole.
#[tokio::test(flavor = "multi_thread")]
async fn killed_conversion_loses_nothing() {
    if let Ok(directory) = std::env::var(DIRECTORY_TO_OPEN) {
        // The process that is killed.
        drop(open(Path::new(&directory)).await);
        return std::future::pending().await;
    }
    let directory = older_directory(BEFORE_DRAFTS, REAL_ROWS);
    let path = directory.path().join("satchel.db");
    // Long enough a conversion to be killed in.
    let connection = connect(&path);
    let many = "WITH RECURSIVE counted (n) AS (VALUES (100) UNION ALL SELECT n + 1 FROM counted WHERE n < 30000)
         INSERT INTO attachments (id, conversation, number, turn, sha256, record, bytes)
         SELECT randomblob(16), conversation, counted.n, turn, sha256, record, bytes FROM attachments, counted
         WHERE number = 1;
         WITH RECURSIVE counted (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM counted WHERE n < 30000)
         INSERT INTO turns (id, conversation, state, ready_at) SELECT randomblob(16), 'console:main', 'completed', 0
         FROM counted;";
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
        assert!((BEFORE_DRAFTS..=newest_version()).contains(&found_version), "{found_version}");
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

#[tokio::test]
async fn previous_database_is_copied_before_migration() {
    let directory = older_directory(BEFORE_QUESTIONS, ROWS);
    // As a start that was killed in the midst of it leaves it.
    let unfinished = directory.path().join("satchel.db.version-10.partial");
    fs::write(&unfinished, "half a copy").unwrap();
    // And as an update leaves it from which somebody has gone back.
    fs::write(directory.path().join("satchel.db.version-10"), "a database of last month").unwrap();
    drop(open(directory.path()).await);
    let copy = directory.path().join("satchel.db.version-10");
    assert_eq!(list_copies(directory.path(), "satchel.db").unwrap(), std::slice::from_ref(&copy));
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let old = connect(&copy);
    assert_eq!(version(&old).unwrap(), BEFORE_QUESTIONS);
    assert_eq!(count(&old, "questions"), 2);

    let fresh = tempfile::tempdir().unwrap();
    drop(open(fresh.path()).await);
    assert_eq!(list_copies(fresh.path(), "satchel.db").unwrap(), [] as [PathBuf; 0], "a new one has nothing to keep");
}

#[tokio::test]
async fn converted_database_equals_new_one() {
    let directory = older_directory(BEFORE_DRAFTS, REAL_ROWS);
    drop(open(directory.path()).await);
    let converted = connect(&directory.path().join("satchel.db"));
    assert_eq!(version(&converted).unwrap(), newest_version());
    assert_eq!(count(&converted, "sqlite_schema WHERE name = '_sqlx_migrations'"), 0);
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

#[tokio::test]
async fn settings_of_conversations_are_converted() {
    const LANES: &str = "INSERT INTO lanes (conversation, channel, voice, agent) VALUES
        ('telegram:1', 'telegram', 0, NULL), ('telegram:2', 'telegram', 1, NULL), ('telegram:3', 'telegram', 0, 'kids');";
    let directory = older_directory(BEFORE_SETTINGS, LANES);
    drop(open(directory.path()).await);
    let converted = connect(&directory.path().join("satchel.db"));
    let mut read = converted
        .prepare(
            "SELECT conversation, settings.voice, agent, persona, model FROM conversation_settings AS settings \
                  JOIN lanes ON lanes.id = settings.lane ORDER BY conversation",
        )
        .unwrap();
    type Settings = (String, bool, Option<String>, Option<String>, Option<String>);
    let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))).unwrap();
    let rows: Vec<Settings> = rows.map(Result::unwrap).collect();
    let expected = [("telegram:2", true, None), ("telegram:3", false, Some("kids"))];
    let expected = expected.map(|(chat, voice, agent)| (chat.to_owned(), voice, agent.map(str::to_owned), None, None));
    assert_eq!(rows, expected, "who has set nothing has no row");
}

/// By the times that were stored, as they were compared before.
#[tokio::test]
async fn first_attempts_get_their_newest_message() {
    let directory = older_directory(BEFORE_DRAFTS, STREAMED_ROWS);
    let turn = "x'00000000000000000000000000000001'";
    let message = |sequence: i64, received_at: i64| {
        format!(
            "INSERT INTO inbox (sequence, id, conversation, turn, message, received_at)
                     VALUES ({sequence}, randomblob(16), 'telegram:5', {turn}, '{{}}', {received_at});"
        )
    };
    // First attempts were made at 7 and 8.
    let messages = [(3, 7), (4, 8), (6, 7), (9, 9)].map(|(sequence, received_at)| message(sequence, received_at));
    connect(&directory.path().join("satchel.db")).execute_batch(&messages.concat()).unwrap();
    drop(open(directory.path()).await);
    let converted = connect(&directory.path().join("satchel.db"));
    let sql = "SELECT first_attempt_at, first_attempt_after FROM parts ORDER BY id";
    let mut read = converted.prepare(sql).unwrap();
    let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(Option<i64>, Option<i64>)> = rows.map(Result::unwrap).collect();
    assert_eq!(rows, [(Some(7), Some(0)), (Some(8), Some(6)), (None, None)]);
}

/// What an earlier version stored is found, once it is indexed.
#[tokio::test]
async fn turns_of_an_earlier_version_are_indexed() {
    let directory = older_directory(BEFORE_DRAFTS, REAL_ROWS);
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

/// As a Satchel of before leaves it, which was started once more and has refused the database, or was killed in its first
/// start.
#[tokio::test]
async fn empty_table_of_steps_is_ignored() {
    for directory in [older_directory(BEFORE_DRAFTS, REAL_ROWS), tempfile::tempdir().unwrap()] {
        let path = directory.path().join("satchel.db");
        if path.exists() {
            drop(open(directory.path()).await);
        }
        connect(&path).execute_batch(TABLE_OF_STEPS).unwrap();
        for _ in 0..2 {
            drop(open(directory.path()).await);
        }
        assert_eq!(version(&connect(&path)).unwrap(), newest_version());
    }
}
