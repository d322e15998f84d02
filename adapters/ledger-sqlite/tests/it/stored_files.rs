//! What rows hold of a file: its record stands in one table, all others name it by its id.

use std::{collections::BTreeMap, sync::Arc};

use rusqlite::Connection;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, Ending, Filename, HistoryMessage, InboundMessage, MediaInfo,
    MessageRef, NewAttachment, OutcomeFile, OutgoingResponse, Part, PartContent, PartState, Picture, Sender, Sha256,
    StoredBlob, Timestamp, ToolOutcome, TurnId, ViewedFile,
    delivery::DeliveryRules,
    part::{FileForm, FileItem, Plan, PlannedPart},
};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::ledger::{
    Archive, ClaimMode, CompletedTurn, ForgetOutcome, ForgetRequest, HistoryChange, Inbox, JournalEntry, Lease, Outbox,
    Settlement, Storage, Turns,
};
use tempfile::TempDir;
use uuid::Uuid;

/// What only the record of the file may hold.
const TRACES: [&str; 3] = ["secret.pdf", "application/x-secret", "0707070707"];

/// What a row says of the file otherwise than its record does.
const DESCRIPTION: &str = "the hidden plan";

struct Stage {
    ledger: SqliteLedger,
    lease: Lease,
    turn: TurnId,
    directory: TempDir,
}

impl Stage {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
        let ledger = SqliteLedger::open(directory.path(), Settings::default(), clock, ids).await.unwrap();
        let message = InboundMessage::new("console:a".parse().unwrap(), "1".into(), Sender::new("7", "Ada"));
        let received = ledger.receive(&message, ClaimMode::IfFree).await.unwrap();
        Self { ledger, lease: received.claimed.unwrap().lease, turn: received.turn, directory }
    }

    async fn register_file(&self) -> Attachment {
        let stored = StoredBlob {
            sha256: Sha256([7; 32]),
            bytes: 3,
            mime: "application/x-secret".into(),
            media: MediaInfo::default(),
        };
        let (id, name) = (AttachmentId(Uuid::from_u128(5)), Filename::from_untrusted("secret.pdf"));
        let file = NewAttachment::new(id, AttachmentSource::Tool, name, stored, Timestamp(9));
        self.ledger.register_files(self.turn, &[file]).await.unwrap().remove(0)
    }

    /// Completes the turn with a file in its journal, its history, its response and its one part, which is sent.
    async fn send_file(&self) -> Attachment {
        let file = self.register_file().await;
        let (name, stored) = (file.filename.clone(), file.stored());
        let picture = Some(Picture { filename: name, stored });
        let outcome = ToolOutcome {
            attachments: vec![file.clone().into()],
            viewed_files: vec![ViewedFile { file: OutcomeFile::Stored(file.clone()), picture }],
            selection: Some(vec![file.clone().into()]),
            ..ToolOutcome::from_text("made")
        };
        self.ledger.journal_outcome(&self.lease, self.turn, 0, &outcome, &[]).await.unwrap();
        let described = Attachment { description: DESCRIPTION.into(), ..file.clone() };
        let item = FileItem { attachment: described.clone(), form: FileForm::Document, caption: String::new() };
        let attachments = vec![described.clone()];
        let said = HistoryMessage::Person {
            text: "this".into(),
            attachments: attachments.clone(),
            refused: vec![],
            origin: None,
        };
        let completed = CompletedTurn {
            turn: self.turn,
            ending: Ending::Done,
            response: OutgoingResponse { attachments, ..OutgoingResponse::default() },
            plan: Plan { parts: vec![PlannedPart::new(PartContent::File(item))] },
            history: HistoryChange::Append(vec![said]),
            setting: None,
            steered: Vec::new(),
            injected_texts: Default::default(),
            reported_failures: Vec::new(),
            reply_to: None,
            changes: Vec::new(),
            answered: None,
            hands_over: false,
        };
        let part = self.ledger.complete_turn(&self.lease, &completed).await.unwrap().unwrap();
        self.ledger.save_part(&self.lease, &part).await.unwrap();
        let sent = Part { state: PartState::Sent { messages: vec![MessageRef("9".into())] }, ..part };
        let (children, rules) = (Vec::new(), DeliveryRules::default());
        self.ledger.settle_part(&self.lease, &Settlement { part: sent, children, notice: None, rules }).await.unwrap();
        described
    }

    fn database(&self) -> Connection {
        Connection::open(self.directory.path().join("satchel.db")).unwrap()
    }

    /// The text of every table, in which blobs stand in hexadecimal digits.
    fn tables(&self) -> BTreeMap<String, String> {
        let database = self.database();
        let mut columns = database
            .prepare(
                "SELECT tables.name, group_concat('quote(\"' || columns.name || '\")', ' || '', '' || ') \
                 FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns \
                 WHERE tables.type = 'table' GROUP BY tables.name",
            )
            .unwrap();
        let columns = columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let mut tables = BTreeMap::new();
        for (table, row) in columns.map(Result::<(String, String), _>::unwrap) {
            let rows = format!("SELECT COALESCE(group_concat({row}, char(10)), '') FROM \"{table}\"");
            tables.insert(table, database.query_row(&rows, [], |row| row.get(0)).unwrap());
        }
        tables
    }

    /// The tables in which this text stands.
    fn tables_with(&self, text: &str) -> Vec<String> {
        let tables = self.tables().into_iter().filter(|(_, rows)| rows.contains(text));
        tables.map(|(table, _)| table).collect()
    }
}

#[tokio::test]
async fn record_of_a_file_stands_in_one_table() {
    let stage = Stage::new().await;
    let file = stage.send_file().await;
    // The one call that made a picture of the file tells what it is called and where it lies.
    for trace in TRACES {
        assert_eq!(stage.tables_with(trace), ["attachments", "journal"], "{trace}");
    }
    let id = file.id.to_string();
    assert_eq!(stage.tables_with(&id), ["history", "journal", "parts", "turns"]);
    assert_eq!(stage.tables_with(DESCRIPTION), ["history", "parts", "turns"], "where it differs from the record");
}

#[tokio::test]
async fn forgotten_file_leaves_its_id_alone() {
    let stage = Stage::new().await;
    let file = stage.send_file().await;
    let request = ForgetRequest { conversation: file.conversation.clone(), number: 1, restricted_to: None };
    let forgotten = stage.ledger.forget_file(&request).await.unwrap();
    assert!(matches!(forgotten, ForgetOutcome::Forgotten(_)), "{forgotten:?}");
    for trace in TRACES.into_iter().chain([DESCRIPTION]) {
        assert_eq!(stage.tables_with(trace), [""; 0], "{trace}");
    }
    let id = file.id.to_string();
    assert_eq!(stage.tables_with(&id), ["history", "journal", "parts", "turns"]);
}

/// Rows of earlier versions hold a copy of the record.
#[tokio::test]
async fn copies_of_records_are_read_and_forgotten_too() {
    let stage = Stage::new().await;
    let file = stage.send_file().await;
    let database = stage.database();
    let copy = serde_json::to_string(&file).unwrap();
    for sql in [
        "UPDATE turns SET response = json_set(response, '$.attachments[0]', json($1))",
        "UPDATE history SET message = json_set(message, '$.attachments[0]', json($1))",
        "UPDATE parts SET content = json_set(content, '$.attachment', json($1))",
        "UPDATE journal SET entry = json_set(entry, '$.outcome.selection[0]', json($1), '$.outcome.viewed_files[0]', json($1))",
    ] {
        database.execute(sql, [&copy]).unwrap();
    }
    assert_eq!(stage.tables_with("secret.pdf"), ["attachments", "history", "journal", "parts", "turns"]);
    assert_eq!(stage.ledger.history(&file.conversation, 9).await.unwrap()[0].files(), std::slice::from_ref(&file));
    let record = stage.ledger.turn(stage.turn).await.unwrap().unwrap();
    assert_eq!(record.response.unwrap().attachments, std::slice::from_ref(&file));
    assert_eq!(record.parts[0].operation.files()[0].attachment, file);

    let request = ForgetRequest { conversation: file.conversation, number: 1, restricted_to: None };
    stage.ledger.forget_file(&request).await.unwrap();
    for trace in TRACES.into_iter().chain([DESCRIPTION]) {
        assert_eq!(stage.tables_with(trace), [""; 0], "{trace}");
    }
}

/// A page that an earlier version showed as a picture was a copy of its document's record with the picture's bytes.
#[tokio::test]
async fn copy_with_other_bytes_is_read_as_its_document() {
    let stage = Stage::new().await;
    let file = stage.register_file().await;
    let viewed = vec![OutcomeFile::Stored(file.clone()).into()];
    let outcome = ToolOutcome { viewed_files: viewed, ..ToolOutcome::from_text("shown") };
    stage.ledger.journal_outcome(&stage.lease, stage.turn, 0, &outcome, &[]).await.unwrap();
    let drawn = Attachment { sha256: Sha256([8; 32]), mime: "image/png".into(), ..file.clone() };
    let database = stage.database();
    let update = "UPDATE journal SET entry = json_set(entry, '$.outcome.viewed_files[0]', json($1))";
    database.execute(update, [serde_json::to_string(&drawn).unwrap()]).unwrap();
    let journal = stage.ledger.next_turn(&stage.lease).await.unwrap().unwrap().journal;
    let files: Vec<&Attachment> = journal.iter().flat_map(JournalEntry::files).collect();
    assert_eq!(files, [&file]);
}
