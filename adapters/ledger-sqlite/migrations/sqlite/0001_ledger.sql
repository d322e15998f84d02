-- Ids are UUIDs as 16 bytes, moments are milliseconds since 1970, objects are JSON.
-- `sequence` columns give the order of arrival; they never repeat.

-- One row a conversation: who works on it, and its counters.
CREATE TABLE lanes (
    conversation  TEXT    NOT NULL PRIMARY KEY,
    channel       TEXT    NOT NULL,
    owner         BLOB,                          -- NULL once it was released
    token         INTEGER NOT NULL DEFAULT 0,    -- the fencing token of the last claim
    expires_at    INTEGER NOT NULL DEFAULT 0,
    last_number   INTEGER NOT NULL DEFAULT 0,    -- of an attachment
    history_after INTEGER NOT NULL DEFAULT 0     -- history up to this sequence is no longer shown
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_owned ON lanes (owner) WHERE owner IS NOT NULL;

CREATE TABLE turns (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB    NOT NULL UNIQUE,
    conversation TEXT    NOT NULL REFERENCES lanes (conversation),
    state        TEXT    NOT NULL CHECK (state IN ('queued', 'completed', 'merged')),
    album        TEXT,
    ready_at     INTEGER NOT NULL,
    crashes      INTEGER NOT NULL DEFAULT 0,
    merged_into  BLOB    REFERENCES turns (id),
    ending       TEXT,
    response     TEXT,
    completed_at INTEGER
) STRICT;
CREATE INDEX turns_queued ON turns (conversation, sequence) WHERE state = 'queued';

CREATE TABLE inbox (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB    NOT NULL UNIQUE,        -- a new one when an edit replaces the message
    conversation TEXT    NOT NULL REFERENCES lanes (conversation),
    turn         BLOB    NOT NULL REFERENCES turns (id),
    message      TEXT    NOT NULL,
    received_at  INTEGER NOT NULL,
    steered_into BLOB    REFERENCES turns (id),  -- journalled as injected, not yet consumed
    consumed_by  BLOB    REFERENCES turns (id)
) STRICT;
CREATE INDEX inbox_turn ON inbox (turn, sequence);
CREATE INDEX inbox_waiting ON inbox (conversation, sequence) WHERE consumed_by IS NULL;

-- What has been received, edits included: the key is stored once per channel.
CREATE TABLE inbox_keys (
    channel TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    message INTEGER NOT NULL REFERENCES inbox (sequence),
    PRIMARY KEY (channel, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE attachments (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB    NOT NULL UNIQUE,
    conversation TEXT    NOT NULL REFERENCES lanes (conversation),
    number       INTEGER NOT NULL,
    turn         BLOB    NOT NULL REFERENCES turns (id),
    sha256       BLOB    NOT NULL,
    record       TEXT    NOT NULL,
    UNIQUE (conversation, number)
) STRICT;
CREATE INDEX attachments_turn ON attachments (turn, sequence);
CREATE INDEX attachments_sha256 ON attachments (sha256);

CREATE TABLE inbox_files (
    message    INTEGER NOT NULL REFERENCES inbox (sequence),
    position   INTEGER NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('waiting', 'stored', 'refused')),
    reference  TEXT    NOT NULL,
    attachment BLOB    REFERENCES attachments (id),
    refused    TEXT,
    PRIMARY KEY (message, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
    turn     BLOB    NOT NULL REFERENCES turns (id),
    position INTEGER NOT NULL,
    ordinal  INTEGER,                            -- of the call, where the entry is an outcome
    entry    TEXT    NOT NULL,
    PRIMARY KEY (turn, position)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX journal_outcomes ON journal (turn, ordinal) WHERE ordinal IS NOT NULL;

CREATE TABLE history (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT NOT NULL REFERENCES lanes (conversation),
    turn         BLOB NOT NULL REFERENCES turns (id),
    message      TEXT NOT NULL
) STRICT;
CREATE INDEX history_conversation ON history (conversation, sequence);

CREATE TABLE parts (
    id               BLOB    NOT NULL PRIMARY KEY,
    conversation     TEXT    NOT NULL REFERENCES lanes (conversation),
    turn             BLOB    NOT NULL REFERENCES turns (id),
    turn_sequence    INTEGER NOT NULL,           -- with the position: the order of the lane
    position         INTEGER NOT NULL,
    kind             TEXT    NOT NULL,
    content          TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    state_detail     TEXT    NOT NULL,
    settled          INTEGER NOT NULL,
    open_stream      INTEGER NOT NULL DEFAULT 0, -- 1 while its turn streams into it
    told             INTEGER NOT NULL DEFAULT 0, -- 1 once the model knows that it failed
    attempts         INTEGER NOT NULL,
    first_attempt_at INTEGER,
    labelled         INTEGER NOT NULL,
    target           TEXT,
    reply_to         TEXT,
    last_message     TEXT,                       -- the last message that it was sent as
    voice_sha256     BLOB,                       -- the bytes that its prepare step made
    created_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX parts_lane ON parts (conversation, turn_sequence, position);
CREATE INDEX parts_turn ON parts (turn, position);
CREATE INDEX parts_unsettled ON parts (conversation, turn_sequence, position) WHERE settled = 0;
CREATE INDEX parts_untold ON parts (conversation, turn_sequence) WHERE state = 'failed' AND told = 0;
CREATE INDEX parts_sent ON parts (conversation, turn_sequence, position) WHERE last_message IS NOT NULL;
CREATE INDEX parts_voice ON parts (voice_sha256) WHERE voice_sha256 IS NOT NULL;
