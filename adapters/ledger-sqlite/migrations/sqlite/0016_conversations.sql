-- How conversations are listed, and an index of what was said in them. The turns of an older database are indexed behind
-- its first start.
CREATE TABLE conversation_listings (
    lane              INTEGER PRIMARY KEY REFERENCES lanes (id),
    name              TEXT,
    pinned            INTEGER NOT NULL DEFAULT 0,
    archived_through  INTEGER NOT NULL DEFAULT 0,
    forgotten_through INTEGER NOT NULL DEFAULT 0
) STRICT;
ALTER TABLE turns ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX turns_unindexed ON turns (sequence) WHERE indexed = 0 AND state = 'completed';
CREATE VIRTUAL TABLE search_index USING fts5 (scope, text, files, tokenize = "unicode61 remove_diacritics 2");
INSERT INTO search_index (search_index, rank) VALUES ('secure-delete', 1);
