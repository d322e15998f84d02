-- What a copy that was restored from a backup holds back until its owner decides.
CREATE TABLE restored_copy (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    backup_at   INTEGER NOT NULL,
    original    TEXT    NOT NULL,
    released_at INTEGER
) STRICT;
CREATE TABLE held_turns (
    turn     BLOB    NOT NULL PRIMARY KEY REFERENCES turns (id),
    received INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE held_parts (
    part         BLOB NOT NULL PRIMARY KEY REFERENCES parts (id) ON DELETE CASCADE,
    state        TEXT NOT NULL,
    state_detail TEXT NOT NULL
) STRICT, WITHOUT ROWID;
