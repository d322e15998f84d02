//! Rows of every table, with a value in every column, and texts that a careless copy would change.

use satchel_ledger::transfer::{TABLES, Value};

/// What has to be escaped, and must stay.
const TEXT: &str = "tab\t, line\n, return\r, back\\slash, \\N, \\., ü, 🙂, 'quotes\"";

/// JSON in the order in which it was written, with an escape that looks like NUL's.
const JSON: &str = r#"{"text":"a\\u0000b","b":1,"a":2}"#;

pub(super) type SampleRow = Vec<(&'static str, Value)>;

fn number(value: i64) -> Value {
    Value::Integer(value)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// An id, or a digest, of so many equal bytes.
fn bytes(byte: u8, length: usize) -> Value {
    Value::Bytes(vec![byte; length])
}

fn turn_id(number: u8) -> Value {
    bytes(number, 16)
}

/// The rows of all tables, in the order in which they can be added.
pub(super) fn sample_rows() -> Vec<(&'static str, Vec<SampleRow>)> {
    TABLES.into_iter().map(|table| (table, rows_of(table))).collect()
}

fn rows_of(table: &str) -> Vec<SampleRow> {
    match table {
        "turns" => (1..=3).map(turn).collect(),
        "lanes" => (1..=2).map(lane).collect(),
        "inbox" | "inbox_keys" | "inbox_files" | "attachments" => received(table),
        "journal" | "history" | "parts" | "audit" => vec![worked(table)],
        "paired_people" | "pairings" | "wrong_codes" | "person_settings" | "usage" | "workspace_shares" => {
            vec![person(table)]
        }
        "reminders" => vec![reminder()],
        _ => vec![rest(table)],
    }
}

fn lane(id: i64) -> SampleRow {
    vec![
        ("id", number(id)),
        ("conversation", text(&format!("web:{id}"))),
        ("channel", text("web")),
        ("token", number(41 + id)),
        ("last_number", number(9)),
        ("history_after", number(2)),
    ]
}

/// The first was answered by the last, which comes behind it.
fn turn(id: u8) -> SampleRow {
    let other = || if id == 1 { turn_id(3) } else { Value::Null };
    vec![
        ("sequence", number(i64::from(id) * 10)),
        ("id", turn_id(id)),
        ("lane", number(1)),
        ("state", text("completed")),
        ("album", text("an album")),
        ("ready_at", number(1_700_000_000_000)),
        ("crashes", number(1)),
        ("merged_into", other()),
        ("ending", text("\"answered\"")),
        ("response", text(JSON)),
        ("completed_at", number(1_700_000_000_001)),
        ("replaced_by", other()),
    ]
}

fn received(table: &str) -> Vec<SampleRow> {
    let message = |sequence: i64, consumed_by: Value| {
        vec![
            ("sequence", number(sequence)),
            ("id", bytes(0x20 + sequence as u8, 16)),
            ("lane", number(1)),
            ("turn", turn_id(1)),
            ("message", text(JSON)),
            ("received_at", number(1_700_000_000_000 + sequence)),
            ("steered_into", turn_id(2)),
            ("consumed_by", consumed_by),
        ]
    };
    match table {
        "inbox" => vec![message(4, turn_id(1)), message(5, Value::Null)],
        // Behind each other byte by byte, and the other way round in most languages.
        "inbox_keys" => ["Zebra", "apple", "äpfel"]
            .map(|key| vec![("channel", text("web")), ("key", text(key)), ("message", number(4))])
            .to_vec(),
        "attachments" => vec![vec![
            ("sequence", number(6)),
            ("id", bytes(0x61, 16)),
            ("lane", number(1)),
            ("number", number(1)),
            ("turn", turn_id(1)),
            ("source", text("user")),
            ("filename", text(TEXT)),
            ("mime", text("text/plain")),
            ("bytes", number(7)),
            ("sha256", bytes(0x5c, 32)),
            ("media", text("{}")),
            ("description", text("")),
            ("visibility", text("deliver")),
            ("created_at", number(1_700_000_000_003)),
            ("person", text("web:ann")),
            ("forgotten_at", Value::Null),
            ("link_revocations", number(2)),
        ]],
        _ => vec![vec![
            ("message", number(5)),
            ("position", number(0)),
            ("state", text("waiting")),
            ("reference", text(JSON)),
            ("attachment", bytes(0x61, 16)),
            ("refused", text("too large")),
            ("sha256", bytes(0x0a, 32)),
            ("transcription", text(TEXT)),
        ]],
    }
}

fn worked(table: &str) -> SampleRow {
    match table {
        "journal" => vec![
            ("turn", turn_id(2)),
            ("position", number(0)),
            ("ordinal", number(3)),
            ("entry", text(JSON)),
            ("created_at", number(1_700_000_000_004)),
        ],
        "history" => {
            vec![("lane", number(2)), ("sequence", number(1)), ("turn", turn_id(2)), ("message", text(JSON))]
        }
        "audit" => vec![
            ("sequence", number(77)),
            ("at", number(1_700_000_000_005)),
            ("lane", number(2)),
            ("turn", turn_id(2)),
            ("change", text(JSON)),
        ],
        _ => part(),
    }
}

fn part() -> SampleRow {
    let flags = ["settled", "draft", "reported", "streamed", "searched", "labelled"];
    let numbers = ["turn_sequence", "position", "attempts", "labelled_sends", "call", "created_at"];
    let texts =
        ["kind", "content", "target", "state", "state_detail", "reply_to", "last_message", "unanswered", "closing"];
    // The clock was set back behind the first message.
    let started = [("first_attempt_at", number(1_600_000_000_000)), ("first_attempt_after", number(4))];
    let ids = [("id", bytes(0x71, 16)), ("lane", number(1)), ("turn", turn_id(1)), ("voice_sha256", bytes(0xff, 32))];
    let flags = flags.into_iter().enumerate().map(|(index, column)| (column, number(index as i64 % 2)));
    let numbers = numbers.into_iter().enumerate().map(|(index, column)| (column, number(index as i64)));
    flags.chain(numbers).chain(texts.map(|column| (column, text(TEXT)))).chain(ids).chain(started).collect()
}

fn person(table: &str) -> SampleRow {
    match table {
        "paired_people" => vec![
            ("channel", text("web")),
            ("id", text("7")),
            ("person", text(JSON)),
            ("approved_at", number(5)),
            ("approved_by", text("web:ann")),
        ],
        "pairings" => vec![
            ("sequence", number(2)),
            ("code", text("ABCD-EFGH")),
            ("channel", text("web")),
            ("id", text("7")),
            ("person", text(JSON)),
            ("conversation", text("web:x")),
            ("state", text("open")),
            ("issued_at", number(1)),
            ("expires_at", number(2)),
        ],
        "wrong_codes" => vec![("sender", text("web:eve")), ("attempts", number(4)), ("expires_at", number(2))],
        "person_settings" => vec![("person", text("web:ann")), ("timezone", text("Europe/Berlin"))],
        "workspace_shares" => vec![("lane", number(1)), ("person", text("web:ann")), ("bytes", number(4096))],
        _ => vec![
            ("scope", text("person")),
            ("name", text("web:ann")),
            ("files", number(1)),
            ("bytes", number(7)),
            ("workspace_bytes", number(4096)),
        ],
    }
}

fn reminder() -> SampleRow {
    vec![
        ("id", number(12)),
        ("key", text("a call")),
        ("lane", number(1)),
        ("person", text("web:ann")),
        ("sender", text(JSON)),
        ("in_group", number(1)),
        ("content", text(JSON)),
        ("next_at", number(1_800_000_000_000)),
        ("cron", text("0 9 * * *")),
        ("timezone", text("Europe/Berlin")),
        ("ended_at", number(1_800_000_000_001)),
        ("author", text("model")),
        ("made_at", number(1_700_000_000_006)),
        ("turn", turn_id(2)),
        ("cancelled_in", turn_id(3)),
    ]
}

fn rest(table: &str) -> SampleRow {
    match table {
        "conversation_settings" => vec![
            ("lane", number(1)),
            ("voice", number(1)),
            ("agent", text("cook")),
            ("persona", text(TEXT)),
            ("model", text("small")),
            ("blocks", number(1)),
            ("blocks_offered_at", number(1_700_000_000_007)),
        ],
        "conversation_listings" => vec![
            ("lane", number(1)),
            ("name", text("Holiday")),
            ("pinned", number(1)),
            ("archived_through", number(3)),
            ("forgotten_through", number(2)),
            ("workspace_left", number(1)),
        ],
        "bookmarks" => vec![("channel", text("discord")), ("bookmark", text(JSON))],
        "undecodable_updates" => vec![
            ("sequence", number(3)),
            ("channel", text("telegram")),
            ("key", text("9")),
            ("raw", text(JSON)),
            ("reason", text(TEXT)),
            ("received_at", number(4)),
        ],
        "logins" => vec![
            ("id", bytes(0x81, 16)),
            ("issuer", text("a fingerprint")),
            ("client", text(TEXT)),
            ("created_at", number(1_700_000_000_005)),
            ("used_at", number(1_700_000_000_006)),
            ("expires_at", number(1_700_000_000_007)),
        ],
        "installation_secrets" => vec![("name", text("question codes")), ("secret", text("0123456789abcdef"))],
        "restored_copy" => vec![
            ("id", number(1)),
            ("backup_at", number(5)),
            ("original", text("/var/lib/satchel")),
            ("released_at", number(6)),
        ],
        "held_turns" => vec![("turn", turn_id(3)), ("received", number(1))],
        "held_parts" => vec![("part", bytes(0x71, 16)), ("state", text("sending")), ("state_detail", text(JSON))],
        other => unreachable!("no sample of {other}"),
    }
}
