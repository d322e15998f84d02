-- Rows name their conversation by the number of its lane, so that renaming a conversation is one row.
--
-- All tables are made anew beside the old ones, filled, and take their names: children go first, so that no row is ever
-- without what it refers to.

PRAGMA defer_foreign_keys = ON;

CREATE TABLE new_lanes (
    id            INTEGER PRIMARY KEY,
    conversation  TEXT    NOT NULL UNIQUE,
    channel       TEXT    NOT NULL,
    holder        BLOB,                          -- NULL once it was released
    token         INTEGER NOT NULL DEFAULT 0,    -- the fencing token of the last claim
    expires_at    INTEGER NOT NULL DEFAULT 0,
    last_number   INTEGER NOT NULL DEFAULT 0,    -- of an attachment
    history_after INTEGER NOT NULL DEFAULT 0,    -- history up to this sequence is no longer shown
    voice         INTEGER NOT NULL DEFAULT 0,    -- 1 where every reply is spoken too
    agent         TEXT                           -- that somebody chose, by name
) STRICT;

CREATE TABLE new_turns (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB    NOT NULL UNIQUE,
    lane         INTEGER NOT NULL REFERENCES new_lanes (id),
    state        TEXT    NOT NULL CHECK (state IN ('queued', 'completed', 'merged')),
    album        TEXT,
    ready_at     INTEGER NOT NULL,
    crashes      INTEGER NOT NULL DEFAULT 0,
    merged_into  BLOB    REFERENCES new_turns (id),
    ending       TEXT,
    response     TEXT,
    completed_at INTEGER
) STRICT;

CREATE TABLE new_inbox (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB    NOT NULL UNIQUE,        -- a new one when an edit replaces the message
    lane         INTEGER NOT NULL REFERENCES new_lanes (id),
    turn         BLOB    NOT NULL REFERENCES new_turns (id),
    message      TEXT    NOT NULL,               -- its conversation is that of the lane, whatever it says
    received_at  INTEGER NOT NULL,
    steered_into BLOB    REFERENCES new_turns (id),  -- journalled as injected, not yet consumed
    consumed_by  BLOB    REFERENCES new_turns (id)
) STRICT;

-- What has been received, edits included: the key is stored once per channel.
CREATE TABLE new_inbox_keys (
    channel TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    message INTEGER NOT NULL REFERENCES new_inbox (sequence),
    PRIMARY KEY (channel, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE new_attachments (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB    NOT NULL UNIQUE,
    lane         INTEGER NOT NULL REFERENCES new_lanes (id),
    number       INTEGER NOT NULL,
    turn         BLOB    NOT NULL REFERENCES new_turns (id),
    source       TEXT    NOT NULL CHECK (source IN ('user', 'tool', 'script', 'config')),
    filename     TEXT    NOT NULL,
    mime         TEXT    NOT NULL,
    bytes        INTEGER NOT NULL,               -- 0 once it is forgotten
    sha256       BLOB    NOT NULL,
    media        TEXT    NOT NULL,               -- what its header tells, as JSON
    description  TEXT    NOT NULL,
    visibility   TEXT    NOT NULL CHECK (visibility IN ('deliver', 'internal')),
    created_at   INTEGER NOT NULL,
    person       TEXT,                           -- `channel:id` of the person whose turn it came with, if any
    forgotten_at INTEGER,                        -- the row stays as the tombstone of its number
    UNIQUE (lane, number)
) STRICT;

CREATE TABLE new_inbox_files (
    message       INTEGER NOT NULL REFERENCES new_inbox (sequence),
    position      INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN ('waiting', 'stored', 'refused')),
    reference     TEXT    NOT NULL,
    attachment    BLOB    REFERENCES new_attachments (id),
    refused       TEXT,
    sha256        BLOB,                          -- of a file whose bytes were stored before the message came
    transcription TEXT,                          -- of a voice note: its words, or why there are none
    PRIMARY KEY (message, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE new_journal (
    turn     BLOB    NOT NULL REFERENCES new_turns (id),
    position INTEGER NOT NULL,
    ordinal  INTEGER,                            -- of the call, where the entry is an outcome
    entry    TEXT    NOT NULL,
    PRIMARY KEY (turn, position)
) STRICT, WITHOUT ROWID;

-- In the order in which a turn reads it, so that no index has to be written and followed.
CREATE TABLE new_history (
    lane     INTEGER NOT NULL REFERENCES new_lanes (id),
    sequence INTEGER NOT NULL,                   -- within the lane
    turn     BLOB    NOT NULL REFERENCES new_turns (id),
    message  TEXT    NOT NULL,
    PRIMARY KEY (lane, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE new_parts (
    id               BLOB    NOT NULL PRIMARY KEY,
    lane             INTEGER NOT NULL REFERENCES new_lanes (id),
    turn             BLOB    NOT NULL REFERENCES new_turns (id),
    turn_sequence    INTEGER NOT NULL,           -- with the position: the order of the lane
    position         INTEGER NOT NULL,
    kind             TEXT    NOT NULL,
    content          TEXT    NOT NULL,           -- 'null' for a deletion
    target           TEXT,                       -- the message that it edits or deletes
    state            TEXT    NOT NULL,
    state_detail     TEXT    NOT NULL,
    settled          INTEGER NOT NULL,
    draft            INTEGER NOT NULL DEFAULT 0, -- 1 while its turn runs and the reply grows in it
    reported         INTEGER NOT NULL DEFAULT 0, -- 1 once the model knows that it failed
    attempts         INTEGER NOT NULL,
    first_attempt_at INTEGER,
    streamed         INTEGER NOT NULL DEFAULT 0, -- 1 where the message may show a part of it only
    searched         INTEGER NOT NULL DEFAULT 0, -- 1 once an attempt was found not to have arrived
    labelled         INTEGER NOT NULL,
    labelled_sends   INTEGER NOT NULL DEFAULT 0,
    reply_to         TEXT,
    last_message     TEXT,                       -- the last message that it was sent as
    voice_sha256     BLOB,                       -- the bytes that its prepare step made
    call             INTEGER,                    -- the ordinal of the call that it asks about, where it is a question
    unanswered       TEXT,                       -- what takes a question's place when its call ends without an answer
    closing          TEXT,                       -- what takes its place; NULL while it waits for the answer
    created_at       INTEGER NOT NULL
) STRICT;

CREATE TABLE new_audit (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    lane     INTEGER NOT NULL REFERENCES new_lanes (id),
    turn     BLOB    NOT NULL REFERENCES new_turns (id),
    change   TEXT    NOT NULL
) STRICT;

INSERT INTO new_lanes (conversation, channel, holder, token, expires_at, last_number, history_after, voice, agent)
SELECT conversation, channel, holder, token, expires_at, last_number, history_after, voice, agent FROM lanes;

INSERT INTO new_turns
SELECT sequence, turns.id, new_lanes.id, state, album, ready_at, crashes, merged_into, ending, response, completed_at
FROM turns JOIN new_lanes USING (conversation) ORDER BY sequence;

INSERT INTO new_inbox
SELECT sequence, inbox.id, new_lanes.id, turn, json_remove(message, '$.conversation'), received_at, steered_into, consumed_by
FROM inbox JOIN new_lanes USING (conversation) ORDER BY sequence;

INSERT INTO new_inbox_keys SELECT channel, key, message FROM inbox_keys;

INSERT INTO new_attachments
SELECT sequence, attachments.id, new_lanes.id, number, turn, source, filename, mime, bytes, sha256, media, description,
       visibility, created_at, person, forgotten_at
FROM attachments JOIN new_lanes USING (conversation) ORDER BY sequence;

INSERT INTO new_inbox_files
SELECT message, position, state, reference, attachment, refused, sha256, transcription FROM inbox_files;

INSERT INTO new_journal SELECT turn, position, ordinal, entry FROM journal;

INSERT INTO new_history
SELECT new_lanes.id, sequence, turn, message FROM history JOIN new_lanes USING (conversation) ORDER BY new_lanes.id, sequence;

INSERT INTO new_parts
SELECT parts.id, new_lanes.id, turn, turn_sequence, position, kind, content, target, state, state_detail, settled, draft, reported,
       attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, reply_to, last_message, voice_sha256, call,
       unanswered, closing, created_at
FROM parts JOIN new_lanes USING (conversation) ORDER BY parts.rowid;

INSERT INTO new_audit
SELECT sequence, at, new_lanes.id, turn, change FROM audit JOIN new_lanes USING (conversation) ORDER BY sequence;

-- Numbers go on where they were, also where the last rows are gone.
DELETE FROM sqlite_sequence WHERE name LIKE 'new!_%' ESCAPE '!';
INSERT INTO sqlite_sequence (name, seq)
SELECT 'new_' || name, seq FROM sqlite_sequence WHERE name IN ('turns', 'inbox', 'attachments', 'audit');

-- A table is emptied row by row, each of which is looked for in `merged_into`.
CREATE INDEX old_turns_merged ON turns (merged_into) WHERE merged_into IS NOT NULL;

DROP TABLE audit;
DROP TABLE parts;
DROP TABLE history;
DROP TABLE journal;
DROP TABLE inbox_files;
DROP TABLE attachments;
DROP TABLE inbox_keys;
DROP TABLE inbox;
DROP TABLE turns;
DROP TABLE lanes;

ALTER TABLE new_lanes RENAME TO lanes;
ALTER TABLE new_turns RENAME TO turns;
ALTER TABLE new_inbox RENAME TO inbox;
ALTER TABLE new_inbox_keys RENAME TO inbox_keys;
ALTER TABLE new_attachments RENAME TO attachments;
ALTER TABLE new_inbox_files RENAME TO inbox_files;
ALTER TABLE new_journal RENAME TO journal;
ALTER TABLE new_history RENAME TO history;
ALTER TABLE new_parts RENAME TO parts;
ALTER TABLE new_audit RENAME TO audit;

CREATE INDEX lanes_held ON lanes (holder) WHERE holder IS NOT NULL;
CREATE INDEX turns_queued ON turns (lane, sequence) WHERE state = 'queued';
CREATE INDEX turns_lane ON turns (lane, sequence);
CREATE INDEX inbox_turn ON inbox (turn, sequence);
CREATE INDEX inbox_waiting ON inbox (lane, sequence) WHERE consumed_by IS NULL;
CREATE INDEX inbox_steered ON inbox (consumed_by, sequence) WHERE consumed_by <> turn;
CREATE INDEX inbox_files_kept ON inbox_files (sha256) WHERE sha256 IS NOT NULL AND state = 'waiting';
CREATE INDEX attachments_turn ON attachments (turn, sequence);
CREATE INDEX attachments_sha256 ON attachments (sha256);
CREATE INDEX attachments_kept ON attachments (lane, number) WHERE forgotten_at IS NULL;
CREATE UNIQUE INDEX journal_outcomes ON journal (turn, ordinal) WHERE ordinal IS NOT NULL;
CREATE INDEX parts_lane ON parts (lane, turn_sequence, position);
CREATE INDEX parts_turn ON parts (turn, position);
CREATE INDEX parts_unsettled ON parts (lane, turn_sequence, position) WHERE settled = 0;
CREATE INDEX parts_unreported ON parts (lane, turn_sequence, position) WHERE state = 'failed' AND reported = 0;
CREATE INDEX parts_sent ON parts (lane, turn_sequence, position) WHERE last_message IS NOT NULL;
CREATE INDEX parts_voice ON parts (voice_sha256) WHERE voice_sha256 IS NOT NULL;
CREATE INDEX audit_lane ON audit (lane, sequence);
CREATE INDEX audit_at ON audit (at);

-- The schema's version stands in the database's header from here on.
DROP TABLE IF EXISTS _sqlx_migrations;
