-- How conversations are listed, and an index of what was said in them. The turns of an older database are indexed behind
-- its first start. Entries of the journal get their time.
CREATE TABLE conversation_listings (
    lane              INTEGER PRIMARY KEY REFERENCES lanes (id),
    name              TEXT,
    pinned            INTEGER NOT NULL DEFAULT 0,
    archived_through  INTEGER NOT NULL DEFAULT 0,
    forgotten_through INTEGER NOT NULL DEFAULT 0,
    workspace_left    INTEGER NOT NULL DEFAULT 0
) STRICT;
ALTER TABLE turns ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX turns_unindexed ON turns (sequence) WHERE indexed = 0 AND state = 'completed';
CREATE INDEX inbox_files_attachment ON inbox_files (attachment) WHERE attachment IS NOT NULL;
CREATE VIRTUAL TABLE search_index USING fts5 (channel, text, files, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3');
CREATE VIRTUAL TABLE name_index USING fts5 (name, tokenize = "unicode61 remove_diacritics 2");
ALTER TABLE journal ADD COLUMN created_at INTEGER;
