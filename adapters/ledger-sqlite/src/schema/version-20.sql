-- A data directory of version 20: its schema, and what a real one held.
PRAGMA foreign_keys = OFF;

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
    model   TEXT                                 -- that somebody chose, by name
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
CREATE INDEX turns_unindexed ON turns (sequence) WHERE indexed = 0 AND state = 'completed';

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
    UNIQUE (lane, number)
) STRICT;
CREATE INDEX attachments_turn ON attachments (turn, sequence);
CREATE INDEX attachments_sha256 ON attachments (sha256);
CREATE INDEX attachments_kept ON attachments (lane, number) WHERE forgotten_at IS NULL;

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
CREATE INDEX parts_unsettled ON parts (lane, turn_sequence, position) WHERE settled = 0;
CREATE INDEX parts_unreported ON parts (lane, turn_sequence, position) WHERE state = 'failed' AND reported = 0;
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

-- Sums, so that a quota is checked without counting files.
CREATE TABLE usage (
    scope           TEXT    NOT NULL CHECK (scope IN ('conversation', 'person')),
    name            TEXT    NOT NULL,            -- the conversation, or `channel:id` of the person
    files           INTEGER NOT NULL DEFAULT 0,
    bytes           INTEGER NOT NULL DEFAULT 0,  -- of the files
    workspace_bytes INTEGER NOT NULL DEFAULT 0,  -- with what is set aside for writes that run
    PRIMARY KEY (scope, name)
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
    ended_at INTEGER
) STRICT;
CREATE INDEX reminders_next ON reminders (next_at, id) WHERE ended_at IS NULL;
CREATE INDEX reminders_person ON reminders (person) WHERE ended_at IS NULL;
CREATE INDEX reminders_lane ON reminders (lane);
CREATE INDEX reminders_ended ON reminders (ended_at) WHERE ended_at IS NOT NULL;

-- What people have set for themselves, by `channel:id`.
CREATE TABLE person_settings (
    person   TEXT PRIMARY KEY,
    timezone TEXT NOT NULL                       -- by name
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

INSERT INTO lanes (id, conversation, channel, holder, token, expires_at, last_number, history_after) VALUES (1, 'console:asks', 'console', x'01a21f1a4f4c76389a8bf1c851daba9e', 1, 1795818177679, 0, 0);
INSERT INTO lanes (id, conversation, channel, token, expires_at, last_number, history_after) VALUES (2, 'console:main', 'console', 6, 0, 3, 0);
INSERT INTO turns (sequence, id, lane, state, ready_at, crashes, ending, response, completed_at, indexed) VALUES (1, x'01a21f19e5ba7780adf940ec29105771', 2, 'completed', 1795818120634, 0, '"done"', '{"text":"Saved `a.txt` as `/shared/notes.txt` (10 B).\n\nOn its way: `a.txt`.","voice":null,"attachments":[{"id":"01a21f19-e5cd-7407-8a87-c071d439fb65"}]}', 1795818120674, 0);
INSERT INTO turns (sequence, id, lane, state, ready_at, crashes, ending, response, completed_at, indexed) VALUES (2, x'01a21f19e62773879729c1096547f9ed', 2, 'completed', 1795818120743, 0, '"done"', '{"text":"Wrote `/shared/list.txt` (14 B). It comes with this message.","voice":null,"attachments":[{"id":"01a21f19-e63c-72d3-8d1e-5be5d1fdaa0b"}]}', 1795818120770, 0);
INSERT INTO turns (sequence, id, lane, state, ready_at, crashes, ending, response, completed_at, indexed) VALUES (3, x'01a21f19e683773793f4bd1a731730d1', 2, 'completed', 1795818120835, 0, '"done"', '{"text":"Your files, newest first:\n\n- #2 `list.txt` text/plain 14 B\n- #1 `a.txt` text/plain 10 B\n\nTo get one back, send `/resend` and its number.","voice":null,"attachments":[]}', 1795818120840, 0);
INSERT INTO turns (sequence, id, lane, state, ready_at, crashes, ending, response, completed_at, indexed) VALUES (4, x'01a21f19e6cb73d5b2e6f1f71693b756', 2, 'completed', 1795818120907, 0, '"done"', '{"text":"I got 1 file but didn''t understand your message:\n- #3 `b.txt`, text/plain, 6 B\n\nI can save it (`save it to /shared`), show the text of one (`read b.txt`), or send it back (`send it back`); `help` shows the rest. I''m Satchel''s offline model: not an AI, I understand a few phrases about files.","voice":null,"attachments":[]}', 1795818120938, 0);
INSERT INTO turns (sequence, id, lane, state, ready_at, crashes, ending, response, completed_at, indexed) VALUES (5, x'01a21f19e7367204a2a7a75634d656ed', 2, 'completed', 1795818121014, 0, '"done"', '{"text":"There is no file #4 here. `/files` lists them all.","voice":null,"attachments":[]}', 1795818121036, 0);
INSERT INTO turns (sequence, id, lane, state, ready_at, crashes, ending, response, completed_at, indexed) VALUES (6, x'01a21f1a21847467bd467cd4a8c5cd17', 2, 'completed', 1795818135940, 0, '"done"', '{"text":"Removed #3 (text/plain, 6 B).","voice":null,"attachments":[]}', 1795818135949, 0);
INSERT INTO turns (sequence, id, lane, state, ready_at, crashes, indexed) VALUES (7, x'01a21f1a4f5f77c3aaf4aceed45923e1', 1, 'queued', 0, 0, 0);
INSERT INTO turns (sequence, id, lane, state, ready_at, crashes, indexed) VALUES (8, x'00000000000000000000000000000008', 1, 'queued', 0, 0, 0);
INSERT INTO inbox (sequence, id, lane, turn, message, received_at, consumed_by) VALUES (1, x'01a21f19e5ba7780adf940edc797df3b', 2, x'01a21f19e5ba7780adf940ec29105771', '{"key":"01a21f19-e5b8-7180-ab3e-7b5902a7c61f","edit_of":null,"sender":{"id":"owner","name":"you"},"text":"save this as notes.txt and send it back","files":[{"locator":"/home/ada/a.txt","filename":"a.txt","mime":null,"bytes":null,"caption":""}],"album":null,"message":null,"raw":null}', 1795818120634, x'01a21f19e5ba7780adf940ec29105771');
INSERT INTO inbox (sequence, id, lane, turn, message, received_at, consumed_by) VALUES (2, x'01a21f19e62773879729c10af25f6006', 2, x'01a21f19e62773879729c1096547f9ed', '{"key":"01a21f19-e626-76ac-9d00-f3cbbbcf8af6","edit_of":null,"sender":{"id":"owner","name":"you"},"text":"make a file list.txt: milk and honey","files":[],"album":null,"message":null,"raw":null}', 1795818120743, x'01a21f19e62773879729c1096547f9ed');
INSERT INTO inbox (sequence, id, lane, turn, message, received_at, consumed_by) VALUES (3, x'01a21f19e683773793f4bd1bb38b99eb', 2, x'01a21f19e683773793f4bd1a731730d1', '{"key":"01a21f19-e682-73aa-b187-5348e41cd533","edit_of":null,"sender":{"id":"owner","name":"you"},"text":"/files","files":[],"album":null,"message":null,"raw":null}', 1795818120835, x'01a21f19e683773793f4bd1a731730d1');
INSERT INTO inbox (sequence, id, lane, turn, message, received_at, consumed_by) VALUES (4, x'01a21f19e6cb73d5b2e6f1f8c82a6057', 2, x'01a21f19e6cb73d5b2e6f1f71693b756', '{"key":"01a21f19-e6c6-708a-b39b-060319d4528a","edit_of":null,"sender":{"id":"owner","name":"you"},"text":"and this one","files":[{"locator":"","filename":"forgotten file","mime":null,"bytes":null,"caption":""}],"album":null,"message":null}', 1795818120907, x'01a21f19e6cb73d5b2e6f1f71693b756');
INSERT INTO inbox (sequence, id, lane, turn, message, received_at, consumed_by) VALUES (5, x'01a21f19e7367204a2a7a757d0df81f3', 2, x'01a21f19e7367204a2a7a75634d656ed', '{"key":"01a21f19-e735-708e-9f1f-2af890cbdb8f","edit_of":null,"sender":{"id":"owner","name":"you"},"text":"/forget 4","files":[],"album":null,"message":null,"raw":null}', 1795818121014, x'01a21f19e7367204a2a7a75634d656ed');
INSERT INTO inbox (sequence, id, lane, turn, message, received_at, consumed_by) VALUES (6, x'01a21f1a21847467bd467cd5b01bfbf8', 2, x'01a21f1a21847467bd467cd4a8c5cd17', '{"key":"01a21f1a-2182-756b-9d3f-930459f03521","edit_of":null,"sender":{"id":"owner","name":"you"},"text":"/forget 3","files":[],"album":null,"message":null,"raw":null}', 1795818135940, x'01a21f1a21847467bd467cd4a8c5cd17');
INSERT INTO inbox (sequence, id, lane, turn, message, received_at) VALUES (7, x'01a21f1a4f5f77c3aaf4aceffe046e0f', 1, x'01a21f1a4f5f77c3aaf4aceed45923e1', '{"key":"01a21f1a-4f5d-760e-a4c7-15ac4b21573c","edit_of":null,"sender":{"id":"owner","name":"you"},"text":"make a file secret.txt: x","files":[],"album":null,"message":null,"raw":null}', 1795818147679);
INSERT INTO inbox (sequence, id, lane, turn, message, received_at) VALUES (8, x'00000000000000000000000000000018', 1, x'00000000000000000000000000000008', '{"key":"k8","edit_of":null,"sender":{"id":"owner","name":"you"},"text":"and then?","files":[{"locator":"/home/ada/note.ogg","filename":"note.ogg","mime":null,"bytes":null,"caption":""}],"album":null,"message":null,"raw":null}', 1795818150000);
INSERT INTO inbox_keys (channel, key, message) VALUES ('console', '01a21f19-e5b8-7180-ab3e-7b5902a7c61f', 1);
INSERT INTO inbox_keys (channel, key, message) VALUES ('console', '01a21f19-e626-76ac-9d00-f3cbbbcf8af6', 2);
INSERT INTO inbox_keys (channel, key, message) VALUES ('console', '01a21f19-e682-73aa-b187-5348e41cd533', 3);
INSERT INTO inbox_keys (channel, key, message) VALUES ('console', '01a21f19-e6c6-708a-b39b-060319d4528a', 4);
INSERT INTO inbox_keys (channel, key, message) VALUES ('console', '01a21f19-e735-708e-9f1f-2af890cbdb8f', 5);
INSERT INTO inbox_keys (channel, key, message) VALUES ('console', '01a21f1a-2182-756b-9d3f-930459f03521', 6);
INSERT INTO inbox_keys (channel, key, message) VALUES ('console', '01a21f1a-4f5d-760e-a4c7-15ac4b21573c', 7);
INSERT INTO inbox_keys (channel, key, message) VALUES ('console', 'k8', 8);
INSERT INTO inbox_files (message, position, state, reference, attachment) VALUES (1, 0, 'stored', '{"locator":"/home/ada/a.txt","filename":"a.txt","mime":null,"bytes":null,"caption":""}', x'01a21f19e5cd74078a87c071d439fb65');
INSERT INTO inbox_files (message, position, state, reference, attachment) VALUES (4, 0, 'stored', '{"locator":"","filename":"forgotten file","mime":null,"bytes":null,"caption":""}', x'01a21f19e6da70e08d934dfdf3df6577');
INSERT INTO inbox_files (message, position, state, reference, transcription) VALUES (8, 0, 'waiting', '{"locator":"/home/ada/note.ogg","filename":"note.ogg","mime":null,"bytes":null,"caption":""}', '{"words":"and then"}');
INSERT INTO attachments (sequence, id, lane, number, turn, source, filename, mime, bytes, sha256, media, description, visibility, created_at, person) VALUES (1, x'01a21f19e5cd74078a87c071d439fb65', 2, 1, x'01a21f19e5ba7780adf940ec29105771', 'user', 'a.txt', 'text/plain', 10, x'f3877e8a3d98f809d9f844060fbea2864a4b66980a22ff22297014d0c168db2e', '{}', '', 'deliver', 1795818120653, 'console:owner');
INSERT INTO attachments (sequence, id, lane, number, turn, source, filename, mime, bytes, sha256, media, description, visibility, created_at, person) VALUES (2, x'01a21f19e63c72d38d1e5be5d1fdaa0b', 2, 2, x'01a21f19e62773879729c1096547f9ed', 'tool', 'list.txt', 'text/plain', 14, x'7ad83b8af56c7df913983243aee81e8e195cefaa120de9b7866112febc1ec0f0', '{}', '', 'deliver', 1795818120764, 'console:owner');
INSERT INTO attachments (sequence, id, lane, number, turn, source, filename, mime, bytes, sha256, media, description, visibility, created_at, person, forgotten_at) VALUES (3, x'01a21f19e6da70e08d934dfdf3df6577', 2, 3, x'01a21f19e6cb73d5b2e6f1f71693b756', 'user', 'forgotten file', 'application/octet-stream', 0, x'0000000000000000000000000000000000000000000000000000000000000000', '{}', '', 'deliver', 1795818120922, 'console:owner', 1795818135946);
INSERT INTO journal (turn, position, entry) VALUES (x'01a21f19e5ba7780adf940ec29105771', 0, '{"entry":"model","agent":"default","steered":[],"text":"","calls":[{"id":{"turn":"01a21f19-e5ba-7780-adf9-40ec29105771","ordinal":0},"name":"attachment_save","arguments":{"index":0,"path":"/shared/notes.txt"}},{"id":{"turn":"01a21f19-e5ba-7780-adf9-40ec29105771","ordinal":1},"name":"response_attachments","arguments":{"ids":["01a21f19-e5cd-7407-8a87-c071d439fb65"]}}],"asks":[]}');
INSERT INTO journal (turn, position, ordinal, entry) VALUES (x'01a21f19e5ba7780adf940ec29105771', 1, 1, '{"entry":"outcome","ordinal":1,"outcome":{"data":{"queued":[{"id":"01a21f19-e5cd-7407-8a87-c071d439fb65","number":1,"filename":"a.txt","mimeType":"text/plain","bytes":10}]},"selection":[{"id":"01a21f19-e5cd-7407-8a87-c071d439fb65"}]}}');
INSERT INTO journal (turn, position, ordinal, entry) VALUES (x'01a21f19e5ba7780adf940ec29105771', 2, 0, '{"entry":"outcome","ordinal":0,"outcome":{"data":{"saved":true,"path":"/shared/notes.txt","mime_type":"text/plain","bytes_written":10,"source_index":0,"sha256":"f3877e8a3d98f809d9f844060fbea2864a4b66980a22ff22297014d0c168db2e"}}}');
INSERT INTO journal (turn, position, entry) VALUES (x'01a21f19e62773879729c1096547f9ed', 0, '{"entry":"model","agent":"default","steered":[],"text":"","calls":[{"id":{"turn":"01a21f19-e627-7387-9729-c1096547f9ed","ordinal":0},"name":"file_write","arguments":{"path":"/shared/list.txt","content":"milk and honey"}}],"asks":[]}');
INSERT INTO journal (turn, position, ordinal, entry) VALUES (x'01a21f19e62773879729c1096547f9ed', 1, 0, '{"entry":"outcome","ordinal":0,"outcome":{"data":{"written":true,"path":"/shared/list.txt","bytes_written":14}}}');
INSERT INTO journal (turn, position, entry) VALUES (x'01a21f19e62773879729c1096547f9ed', 2, '{"entry":"model","agent":"default","steered":[],"text":"","calls":[{"id":{"turn":"01a21f19-e627-7387-9729-c1096547f9ed","ordinal":1},"name":"attachment.add","arguments":{"paths":["/shared/list.txt"]}}],"asks":[]}');
INSERT INTO journal (turn, position, ordinal, entry) VALUES (x'01a21f19e62773879729c1096547f9ed', 3, 1, '{"entry":"outcome","ordinal":1,"outcome":{"data":{"ok":true,"attachments":[{"id":"01a21f19-e63c-72d3-8d1e-5be5d1fdaa0b","filename":"list.txt","mimeType":"text/plain","bytes":14}]},"attachments":[{"id":"01a21f19-e63c-72d3-8d1e-5be5d1fdaa0b"}]}}');
INSERT INTO journal (turn, position, entry) VALUES (x'01a21f1a4f5f77c3aaf4aceed45923e1', 0, '{"entry":"model","agent":"default","steered":[],"text":"","calls":[{"id":{"turn":"01a21f1a-4f5f-77c3-aaf4-aceed45923e1","ordinal":0},"name":"file_write","arguments":{"path":"/shared/secret.txt","content":"x"}}],"asks":[0]}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 1, x'01a21f19e5ba7780adf940ec29105771', '{"role":"person","text":"save this as notes.txt and send it back","attachments":[{"id":"01a21f19-e5cd-7407-8a87-c071d439fb65"}],"origin":{"sent_at":1795818120634}}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 2, x'01a21f19e5ba7780adf940ec29105771', '{"role":"model","text":"","calls":[{"id":{"turn":"01a21f19-e5ba-7780-adf9-40ec29105771","ordinal":0},"name":"attachment_save","arguments":{"index":0,"path":"/shared/notes.txt"}},{"id":{"turn":"01a21f19-e5ba-7780-adf9-40ec29105771","ordinal":1},"name":"response_attachments","arguments":{"ids":["01a21f19-e5cd-7407-8a87-c071d439fb65"]}}]}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 3, x'01a21f19e5ba7780adf940ec29105771', '{"role":"tool","call":{"turn":"01a21f19-e5ba-7780-adf9-40ec29105771","ordinal":0},"text":"{\"saved\":true,\"path\":\"/shared/notes.txt\",\"mime_type\":\"text/plain\",\"bytes_written\":10,\"source_index\":0,\"sha256\":\"f3877e8a3d98f809d9f844060fbea2864a4b66980a22ff22297014d0c168db2e\"}"}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 4, x'01a21f19e5ba7780adf940ec29105771', '{"role":"tool","call":{"turn":"01a21f19-e5ba-7780-adf9-40ec29105771","ordinal":1},"text":"{\"queued\":[{\"id\":\"01a21f19-e5cd-7407-8a87-c071d439fb65\",\"number\":1,\"filename\":\"a.txt\",\"mimeType\":\"text/plain\",\"bytes\":10}]}"}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 5, x'01a21f19e5ba7780adf940ec29105771', '{"role":"model","text":"Saved `a.txt` as `/shared/notes.txt` (10 B).\n\nOn its way: `a.txt`."}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 6, x'01a21f19e62773879729c1096547f9ed', '{"role":"person","text":"make a file list.txt: milk and honey","origin":{"sent_at":1795818120743}}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 7, x'01a21f19e62773879729c1096547f9ed', '{"role":"model","text":"","calls":[{"id":{"turn":"01a21f19-e627-7387-9729-c1096547f9ed","ordinal":0},"name":"file_write","arguments":{"path":"/shared/list.txt","content":"milk and honey"}}]}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 8, x'01a21f19e62773879729c1096547f9ed', '{"role":"tool","call":{"turn":"01a21f19-e627-7387-9729-c1096547f9ed","ordinal":0},"text":"{\"written\":true,\"path\":\"/shared/list.txt\",\"bytes_written\":14}"}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 9, x'01a21f19e62773879729c1096547f9ed', '{"role":"model","text":"","calls":[{"id":{"turn":"01a21f19-e627-7387-9729-c1096547f9ed","ordinal":1},"name":"attachment.add","arguments":{"paths":["/shared/list.txt"]}}]}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 10, x'01a21f19e62773879729c1096547f9ed', '{"role":"tool","call":{"turn":"01a21f19-e627-7387-9729-c1096547f9ed","ordinal":1},"text":"{\"ok\":true,\"attachments\":[{\"id\":\"01a21f19-e63c-72d3-8d1e-5be5d1fdaa0b\",\"filename\":\"list.txt\",\"mimeType\":\"text/plain\",\"bytes\":14}]}","attachments":[{"id":"01a21f19-e63c-72d3-8d1e-5be5d1fdaa0b"}]}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 11, x'01a21f19e62773879729c1096547f9ed', '{"role":"model","text":"Wrote `/shared/list.txt` (14 B). It comes with this message."}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 12, x'01a21f19e6cb73d5b2e6f1f71693b756', '{"role":"person","text":"and this one","attachments":[{"id":"01a21f19-e6da-70e0-8d93-4dfdf3df6577"}],"origin":{"sent_at":1795818120907}}');
INSERT INTO history (lane, sequence, turn, message) VALUES (2, 13, x'01a21f19e6cb73d5b2e6f1f71693b756', '{"role":"model","text":"I got 1 file but didn''t understand your message:\n- #3 `b.txt`, text/plain, 6 B\n\nI can save it (`save it to /shared`), show the text of one (`read b.txt`), or send it back (`send it back`); `help` shows the rest. I''m Satchel''s offline model: not an AI, I understand a few phrases about files."}');
INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, draft, reported, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, last_message, created_at, first_attempt_after) VALUES (x'01a21f19e5e3756eb10f9d4c6b63a01b', 2, x'01a21f19e5ba7780adf940ec29105771', 1, 0, 'text', '{"kind":"text","text":"Saved `a.txt` as `/shared/notes.txt` (10 B).\n\nOn its way: `a.txt`.","markup":"rich"}', 'sent', '{"state":"sent","messages":["01a21f19-e5e3-756e-b10f-9d4c6b63a01b"]}', 1, 0, 0, 1, 1795818120674, 0, 0, 0, 0, '01a21f19-e5e3-756e-b10f-9d4c6b63a01b', 1795818120674, 1);
INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, draft, reported, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, last_message, created_at, first_attempt_after) VALUES (x'01a21f19e5e3756eb10f9d4d84f630d4', 2, x'01a21f19e5ba7780adf940ec29105771', 1, 1, 'file', '{"kind":"file","attachment":{"id":"01a21f19-e5cd-7407-8a87-c071d439fb65"},"form":"document"}', 'sent', '{"state":"sent","messages":["/home/ada/files/1-a.txt"]}', 1, 0, 0, 1, 1795818120681, 0, 0, 0, 0, '/home/ada/files/1-a.txt', 1795818120674, 1);
INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, draft, reported, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, last_message, created_at, first_attempt_after) VALUES (x'01a21f19e64376a39015e7afeecf149a', 2, x'01a21f19e62773879729c1096547f9ed', 2, 0, 'text', '{"kind":"text","text":"Wrote `/shared/list.txt` (14 B). It comes with this message.","markup":"rich"}', 'sent', '{"state":"sent","messages":["01a21f19-e643-76a3-9015-e7afeecf149a"]}', 1, 0, 0, 1, 1795818120770, 0, 0, 0, 0, '01a21f19-e643-76a3-9015-e7afeecf149a', 1795818120770, 2);
INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, draft, reported, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, last_message, created_at, first_attempt_after) VALUES (x'01a21f19e64376a39015e7b02888f814', 2, x'01a21f19e62773879729c1096547f9ed', 2, 1, 'file', '{"kind":"file","attachment":{"id":"01a21f19-e63c-72d3-8d1e-5be5d1fdaa0b"},"form":"document"}', 'sent', '{"state":"sent","messages":["/home/ada/files/2-list.txt"]}', 1, 0, 0, 1, 1795818120775, 0, 0, 0, 0, '/home/ada/files/2-list.txt', 1795818120770, 2);
INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, draft, reported, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, last_message, created_at, first_attempt_after) VALUES (x'01a21f19e6887695903cedd23cd9cb67', 2, x'01a21f19e683773793f4bd1a731730d1', 3, 0, 'text', '{"kind":"text","text":"Your files, newest first:\n\n- #2 `list.txt` text/plain 14 B\n- #1 `a.txt` text/plain 10 B\n\nTo get one back, send `/resend` and its number.","markup":"rich"}', 'sent', '{"state":"sent","messages":["01a21f19-e688-7695-903c-edd23cd9cb67"]}', 1, 0, 0, 1, 1795818120840, 0, 0, 0, 0, '01a21f19-e688-7695-903c-edd23cd9cb67', 1795818120840, 3);
INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, draft, reported, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, last_message, created_at, first_attempt_after) VALUES (x'01a21f19e6eb706a8c07391431f59678', 2, x'01a21f19e6cb73d5b2e6f1f71693b756', 4, 0, 'text', '{"kind":"text","text":"I got 1 file but didn''t understand your message:\n- #3 `b.txt`, text/plain, 6 B\n\nI can save it (`save it to /shared`), show the text of one (`read b.txt`), or send it back (`send it back`); `help` shows the rest. I''m Satchel''s offline model: not an AI, I understand a few phrases about files.","markup":"rich"}', 'sent', '{"state":"sent","messages":["01a21f19-e6eb-706a-8c07-391431f59678"]}', 1, 0, 0, 1, 1795818120938, 0, 0, 0, 0, '01a21f19-e6eb-706a-8c07-391431f59678', 1795818120938, 4);
INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, draft, reported, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, last_message, created_at, first_attempt_after) VALUES (x'01a21f19e74c763db4ecb77c88c4f441', 2, x'01a21f19e7367204a2a7a75634d656ed', 5, 0, 'text', '{"kind":"text","text":"There is no file #4 here. `/files` lists them all.","markup":"rich"}', 'sent', '{"state":"sent","messages":["01a21f19-e74c-763d-b4ec-b77c88c4f441"]}', 1, 0, 0, 1, 1795818121036, 0, 0, 0, 0, '01a21f19-e74c-763d-b4ec-b77c88c4f441', 1795818121036, 5);
INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, draft, reported, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, created_at, first_attempt_after) VALUES (x'01a21f1a218d73f28c4acd6c43392779', 2, x'01a21f1a21847467bd467cd4a8c5cd17', 6, 0, 'text', '{"kind":"text","text":"Removed #3 (text/plain, 6 B).","markup":"rich"}', 'sending', '{"state":"sending"}', 0, 0, 0, 1, 1795818135949, 0, 0, 0, 0, 1795818135949, 6);
INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, draft, reported, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, last_message, call, unanswered, created_at, first_attempt_after) VALUES (x'01a21f1a4f6d73d282df8170194952af', 1, x'01a21f1a4f5f77c3aaf4aceed45923e1', 7, 0, 'question', '{"kind":"question","text":"May I use `file_write`?\n\n```\npath: \"/shared/secret.txt\"\ncontent: \"x\"\n```\n\nPress a button, or send `/allow GMCJXARM` or `/refuse GMCJXARM`. Without an answer within 10 min I won''t do it.","buttons":[{"label":"Allow","command":"/allow GMCJXARM"},{"label":"Refuse","command":"/refuse GMCJXARM"}]}', 'open', '{"state":"open","message":"01a21f1a-4f6d-73d2-82df-8170194952af"}', 0, 0, 0, 1, 1795818147693, 0, 0, 0, 0, '01a21f1a-4f6d-73d2-82df-8170194952af', 0, 'No longer needed: `file_write`', 1795818147693, 7);
INSERT INTO audit (sequence, at, lane, turn, change) VALUES (1, 1795818120672, 2, x'01a21f19e5ba7780adf940ec29105771', '{"person":{"id":"owner","name":"you"},"tool":"attachment_save","action":"write","path":"/shared/notes.txt","bytes":10,"outcome":"done"}');
INSERT INTO audit (sequence, at, lane, turn, change) VALUES (2, 1795818120751, 2, x'01a21f19e62773879729c1096547f9ed', '{"person":{"id":"owner","name":"you"},"tool":"file_write","action":"write","path":"/shared/list.txt","bytes":14,"outcome":"done"}');
INSERT INTO pairings (sequence, code, channel, id, person, conversation, state, issued_at, expires_at) VALUES (1, 'ABCDEFGH', 'telegram', '7', '{"id":"7","name":"Ada"}', 'telegram:7', 'approved', 1795817000000, 1795818000000);
INSERT INTO paired_people (channel, id, person, approved_at, approved_by) VALUES ('telegram', '7', '{"id":"7","name":"Ada"}', 1795818000000, 'console:owner');
INSERT INTO wrong_codes (sender, attempts, expires_at) VALUES ('telegram:9', 2, 9795818000000);
INSERT INTO undecodable_updates (sequence, channel, key, raw, reason, received_at) VALUES (1, 'telegram', 'k9', '{}', 'no chat', 1795818000000);
INSERT INTO usage (scope, name, files, bytes, workspace_bytes) VALUES ('conversation', 'console:main', 2, 24, 24);
INSERT INTO usage (scope, name, files, bytes, workspace_bytes) VALUES ('person', 'console:owner', 2, 24, 24);
UPDATE sqlite_sequence SET seq = 1 WHERE name = 'undecodable_updates';
UPDATE sqlite_sequence SET seq = 8 WHERE name = 'turns';
UPDATE sqlite_sequence SET seq = 8 WHERE name = 'inbox';
UPDATE sqlite_sequence SET seq = 3 WHERE name = 'attachments';
UPDATE sqlite_sequence SET seq = 2 WHERE name = 'audit';
PRAGMA user_version = 20;
