-- The schema as a new database has it. An older one comes to the same by the steps in `migrations`.
--
-- Ids are UUIDs as 16 bytes, moments are milliseconds since 1970, objects are JSON. Rows name their conversation by the
-- number of its lane. `sequence` columns give the order of arrival; they never repeat.

-- One row a conversation: who works on it, and its counters.
CREATE TABLE lanes (
    id            INTEGER PRIMARY KEY,
    conversation  TEXT    NOT NULL UNIQUE,
    channel       TEXT    NOT NULL,
    holder        BLOB,                          -- NULL once it was released
    token         INTEGER NOT NULL DEFAULT 0,    -- the fencing token of the last claim
    expires_at    INTEGER NOT NULL DEFAULT 0,
    last_number   INTEGER NOT NULL DEFAULT 0,    -- of an attachment
    history_after INTEGER NOT NULL DEFAULT 0     -- history up to this sequence is no longer shown
) STRICT;
CREATE INDEX lanes_held ON lanes (holder) WHERE holder IS NOT NULL;

-- What people have set for a conversation. They are only read with a turn, so they are no part of the lane's row, which
-- every verb reads and every claim writes.
CREATE TABLE conversation_settings (
    lane    INTEGER PRIMARY KEY REFERENCES lanes (id),
    voice   INTEGER NOT NULL DEFAULT 0,          -- 1 where every reply is spoken too
    agent   TEXT,                                -- that somebody chose, by name
    persona TEXT,                                -- in place of the agent's instructions
    model   TEXT,                                -- that somebody chose, by name
    blocks  INTEGER,                             -- 1 where people read texts in blocks, 0 where they can't; else NULL
    blocks_offered_at INTEGER                    -- when a reply last had the button that shows some
) STRICT;

-- How conversations are listed where people have a list of them. Most have no row.
CREATE TABLE conversation_listings (
    lane              INTEGER PRIMARY KEY REFERENCES lanes (id),
    name              TEXT,                        -- that somebody gave it
    pinned            INTEGER NOT NULL DEFAULT 0,
    archived_through  INTEGER NOT NULL DEFAULT 0,  -- archived unless a turn came behind this sequence
    forgotten_through INTEGER NOT NULL DEFAULT 0,  -- of the turns up to this sequence only the keys of messages are left
    workspace_left    INTEGER NOT NULL DEFAULT 0   -- 1 once it is forgotten, until its workspace is removed
) STRICT;

CREATE TABLE turns (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB    NOT NULL UNIQUE,
    lane         INTEGER NOT NULL REFERENCES lanes (id),
    state        TEXT    NOT NULL CHECK (state IN ('queued', 'completed', 'merged')),
    album        TEXT,
    ready_at     INTEGER NOT NULL,
    crashes      INTEGER NOT NULL DEFAULT 0,
    merged_into  BLOB    REFERENCES turns (id),
    ending       TEXT,
    response     TEXT,
    completed_at INTEGER,
    indexed      INTEGER NOT NULL DEFAULT 0,     -- 1 once the search index has it
    replaced_by  BLOB    REFERENCES turns (id)   -- the turn that answered its messages once more
) STRICT;
CREATE INDEX turns_queued ON turns (lane, sequence) WHERE state = 'queued';
CREATE INDEX turns_lane ON turns (lane, sequence);
CREATE INDEX turns_unindexed ON turns (sequence) WHERE NOT indexed AND state = 'completed';
CREATE INDEX turns_forgotten ON turns (sequence) WHERE indexed AND state = 'merged';

CREATE TABLE inbox (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB    NOT NULL UNIQUE,        -- a new one when an edit replaces the message
    lane         INTEGER NOT NULL REFERENCES lanes (id),
    turn         BLOB    NOT NULL REFERENCES turns (id),
    message      TEXT    NOT NULL,               -- its conversation is that of the lane, whatever it says
    received_at  INTEGER NOT NULL,
    steered_into BLOB    REFERENCES turns (id),  -- journalled as injected, not yet consumed
    consumed_by  BLOB    REFERENCES turns (id)
) STRICT;
CREATE INDEX inbox_turn ON inbox (turn, sequence);
CREATE INDEX inbox_waiting ON inbox (lane, sequence) WHERE consumed_by IS NULL;
CREATE INDEX inbox_steered ON inbox (consumed_by, sequence) WHERE consumed_by <> turn;

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
    lane         INTEGER NOT NULL REFERENCES lanes (id),
    number       INTEGER NOT NULL,
    turn         BLOB    NOT NULL REFERENCES turns (id),
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
    link_revocations INTEGER NOT NULL DEFAULT 0, -- changes whenever the links to it are revoked
    UNIQUE (lane, number)
) STRICT;
CREATE INDEX attachments_turn ON attachments (turn, sequence);
CREATE INDEX attachments_sha256 ON attachments (sha256);
CREATE INDEX attachments_kept ON attachments (lane, number, source, visibility) WHERE forgotten_at IS NULL;

CREATE TABLE inbox_files (
    message       INTEGER NOT NULL REFERENCES inbox (sequence),
    position      INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN ('waiting', 'stored', 'refused')),
    reference     TEXT    NOT NULL,
    attachment    BLOB    REFERENCES attachments (id),
    refused       TEXT,
    sha256        BLOB,                          -- of a file whose bytes were stored before the message came
    transcription TEXT,                          -- of a voice note: its words, or why there are none
    PRIMARY KEY (message, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_files_attachment ON inbox_files (attachment) WHERE attachment IS NOT NULL;
CREATE INDEX inbox_files_kept ON inbox_files (sha256) WHERE sha256 IS NOT NULL AND state = 'waiting';

CREATE TABLE journal (
    turn       BLOB    NOT NULL REFERENCES turns (id),
    position   INTEGER NOT NULL,
    ordinal    INTEGER,                          -- of the call, where the entry is an outcome
    entry      TEXT    NOT NULL,
    created_at INTEGER,                          -- NULL in what version 15 and earlier wrote
    PRIMARY KEY (turn, position)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX journal_outcomes ON journal (turn, ordinal) WHERE ordinal IS NOT NULL;

-- In the order in which a turn reads it, so that no index has to be written and followed.
CREATE TABLE history (
    lane     INTEGER NOT NULL REFERENCES lanes (id),
    sequence INTEGER NOT NULL,                   -- within the lane
    turn     BLOB    NOT NULL REFERENCES turns (id),
    message  TEXT    NOT NULL,
    PRIMARY KEY (lane, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE parts (
    id               BLOB    NOT NULL PRIMARY KEY,
    lane             INTEGER NOT NULL REFERENCES lanes (id),
    turn             BLOB    NOT NULL REFERENCES turns (id),
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
    created_at       INTEGER NOT NULL,
    first_attempt_after INTEGER                  -- the newest message of the inbox at the first attempt
) STRICT;
CREATE INDEX parts_lane ON parts (lane, turn_sequence, position);
CREATE INDEX parts_turn ON parts (turn, position);
CREATE INDEX parts_unsettled ON parts (lane, turn_sequence, position) WHERE NOT settled;
CREATE INDEX parts_unreported ON parts (lane, turn_sequence, position) WHERE state = 'failed' AND NOT reported;
CREATE INDEX parts_sent ON parts (lane, turn_sequence, position) WHERE last_message IS NOT NULL;
CREATE INDEX parts_voice ON parts (voice_sha256) WHERE voice_sha256 IS NOT NULL;

-- Who changed which file of a workspace, and how it ended.
CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    lane     INTEGER NOT NULL REFERENCES lanes (id),
    turn     BLOB    NOT NULL REFERENCES turns (id),
    change   TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_lane ON audit (lane, sequence);
CREATE INDEX audit_at ON audit (at);

-- What was said, for searches: a row a completed turn, by its sequence. `channel` has two words, so that a search stays
-- within a channel or a conversation: `c` and the channel's name in hexadecimal digits, and `l` and the lane.
CREATE VIRTUAL TABLE search_index USING fts5 (channel, text, files, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3');

-- The names that people gave to conversations, by lane.
CREATE VIRTUAL TABLE name_index USING fts5 (name, tokenize = "unicode61 remove_diacritics 2");

-- The words of a row leave the indexes with it.
INSERT INTO search_index (search_index, rank) VALUES ('secure-delete', 1);
INSERT INTO name_index (name_index, rank) VALUES ('secure-delete', 1);

-- Sums, so that a quota is checked without counting files.
CREATE TABLE usage (
    scope           TEXT    NOT NULL CHECK (scope IN ('conversation', 'person')),
    name            TEXT    NOT NULL,            -- the conversation, or `channel:id` of the person
    files           INTEGER NOT NULL DEFAULT 0,
    bytes           INTEGER NOT NULL DEFAULT 0,  -- of the files
    workspace_bytes INTEGER NOT NULL DEFAULT 0,  -- with what is set aside for writes that run
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

-- For whom the bytes of a workspace count besides its conversation: for each person what they wrote there outside groups.
CREATE TABLE workspace_shares (
    lane   INTEGER NOT NULL REFERENCES lanes (id),
    person TEXT    NOT NULL,                     -- `channel:id`
    bytes  INTEGER NOT NULL,
    PRIMARY KEY (lane, person)
) STRICT, WITHOUT ROWID;

-- How far each channel's stream has been taken in, where the platform doesn't remember it for us.
CREATE TABLE bookmarks (
    channel  TEXT PRIMARY KEY,
    bookmark TEXT NOT NULL  -- JSON, in the words of the channel's adapter
) STRICT;

-- What a channel's adapter could not read.
CREATE TABLE undecodable_updates (
    sequence    INTEGER PRIMARY KEY AUTOINCREMENT,
    channel     TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    raw         TEXT    NOT NULL,                -- as the platform sent it
    reason      TEXT    NOT NULL,
    received_at INTEGER NOT NULL,
    UNIQUE (channel, key)
) STRICT;

-- Who was approved by a code.
CREATE TABLE paired_people (
    channel     TEXT    NOT NULL,
    id          TEXT    NOT NULL,                -- the channel's own of the person
    person      TEXT    NOT NULL,
    approved_at INTEGER NOT NULL,
    approved_by TEXT    NOT NULL,
    PRIMARY KEY (channel, id)
) STRICT, WITHOUT ROWID;

-- Codes, in the order in which they were asked for, kept beyond their end for a while, so that one that comes late is told
-- so.
CREATE TABLE pairings (
    sequence     INTEGER PRIMARY KEY,
    code         TEXT    NOT NULL UNIQUE,
    channel      TEXT    NOT NULL,
    id           TEXT    NOT NULL,               -- of the person
    person       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,               -- where they asked; a lane only once they are answered
    state        TEXT    NOT NULL CHECK (state IN ('open', 'approved', 'refused')),
    issued_at    INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX pairings_person ON pairings (channel, id);

-- Wrong codes, counted by who sent them.
CREATE TABLE wrong_codes (
    sender     TEXT    NOT NULL PRIMARY KEY,
    attempts   INTEGER NOT NULL,
    expires_at INTEGER NOT NULL                  -- when they are forgotten
) STRICT, WITHOUT ROWID;

-- What people want to be reminded of. One that has ended stays for a while, so that the turn that made it makes no second
-- one when it is run again.
CREATE TABLE reminders (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    key      TEXT    NOT NULL UNIQUE,            -- names the call or the turn that made it
    lane     INTEGER NOT NULL REFERENCES lanes (id),
    person   TEXT    NOT NULL,                   -- `channel:id` of who made it
    sender   TEXT    NOT NULL,                   -- the same person as the channel named them, as JSON
    in_group INTEGER NOT NULL,
    content  TEXT    NOT NULL,
    next_at  INTEGER NOT NULL,                   -- of one that has ended, when it was due last
    cron     TEXT,                               -- NULL where it is due once
    timezone TEXT,                               -- by name; NULL for the machine's
    ended_at INTEGER,
    author   TEXT NOT NULL DEFAULT 'person' CHECK (author IN ('person', 'model')),
    made_at  INTEGER,                            -- NULL in what version 24 and earlier wrote
    turn     BLOB,                               -- that made it; NULL in what version 24 and earlier wrote
    cancelled_in BLOB                            -- the turn that cancelled it, by a call or a command
) STRICT;
CREATE INDEX reminders_next ON reminders (next_at, id) WHERE ended_at IS NULL;
CREATE INDEX reminders_person ON reminders (person) WHERE ended_at IS NULL;
CREATE INDEX reminders_lane ON reminders (lane);
CREATE INDEX reminders_ended ON reminders (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX reminders_turn ON reminders (turn) WHERE turn IS NOT NULL;
CREATE INDEX reminders_cancelled ON reminders (cancelled_in) WHERE cancelled_in IS NOT NULL;

-- What people have set for themselves, by `channel:id`.
CREATE TABLE person_settings (
    person   TEXT PRIMARY KEY,
    timezone TEXT NOT NULL                       -- by name
) STRICT, WITHOUT ROWID;

-- The logins of browsers to the page. What proves one is stored nowhere.
CREATE TABLE logins (
    id         BLOB    NOT NULL PRIMARY KEY,
    issuer     TEXT    NOT NULL,                 -- the fingerprint of the token under which it was made
    client     TEXT    NOT NULL,                 -- the browser, in a few words
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,                 -- the last use that was recorded
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What this installation alone knows, by what it is for.
CREATE TABLE installation_secrets (
    name   TEXT PRIMARY KEY,
    secret TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The backup of which this database is a restored copy, if it is one.
CREATE TABLE restored_copy (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    backup_at   INTEGER NOT NULL,
    original    TEXT    NOT NULL,                -- the data directory that the backup was made of
    released_at INTEGER                          -- NULL until its owner has decided; what was sent before is held back
) STRICT;

-- Turns of a restored copy that wait for its owner. Meanwhile they count as completed.
CREATE TABLE held_turns (
    turn     BLOB    NOT NULL PRIMARY KEY REFERENCES turns (id),
    received INTEGER NOT NULL                    -- 1 where its message came after the copy was restored
) STRICT, WITHOUT ROWID;

-- Parts of a restored copy that wait for its owner, with the state that they had. Meanwhile they count as failed.
CREATE TABLE held_parts (
    part         BLOB NOT NULL PRIMARY KEY REFERENCES parts (id) ON DELETE CASCADE,
    state        TEXT NOT NULL,
    state_detail TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Whether something was forgotten that is not erased everywhere yet.
CREATE TABLE pending_erasure (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    requests INTEGER NOT NULL                    -- another number whenever something is forgotten
) STRICT;
