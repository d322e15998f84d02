-- Who may talk to Satchel besides those whom the configuration names, and what its channels could not read.

CREATE TABLE unreadable_updates (
    sequence    INTEGER PRIMARY KEY AUTOINCREMENT,
    channel     TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    raw         TEXT    NOT NULL,                -- as the platform sent it
    reason      TEXT    NOT NULL,
    received_at INTEGER NOT NULL,
    UNIQUE (channel, key)
) STRICT;

-- Who was let in by a code.
CREATE TABLE people (
    channel   TEXT    NOT NULL,
    id        TEXT    NOT NULL,                  -- the channel's own of the person
    person    TEXT    NOT NULL,
    let_in_at INTEGER NOT NULL,
    let_in_by TEXT    NOT NULL,
    PRIMARY KEY (channel, id)
) STRICT, WITHOUT ROWID;

-- Codes, kept beyond their end for a while, so that one that comes late is told so.
CREATE TABLE pairings (
    code         TEXT    NOT NULL PRIMARY KEY,
    channel      TEXT    NOT NULL,
    id           TEXT    NOT NULL,               -- of the person
    person       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,               -- where they asked; a lane only once they are answered
    state        TEXT    NOT NULL CHECK (state IN ('open', 'let_in', 'refused')),
    issued_at    INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pairings_person ON pairings (channel, id);

-- Wrong codes, counted by who said them.
CREATE TABLE wrong_codes (
    said_by TEXT    NOT NULL PRIMARY KEY,
    tries   INTEGER NOT NULL,
    until   INTEGER NOT NULL                     -- when they are forgotten
) STRICT, WITHOUT ROWID;
