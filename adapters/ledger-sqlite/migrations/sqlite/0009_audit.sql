-- Who changed which file of a workspace, and how it ended.

CREATE TABLE audit (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL,
    conversation TEXT    NOT NULL REFERENCES lanes (conversation),
    turn         BLOB    NOT NULL REFERENCES turns (id),
    change       TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_conversation ON audit (conversation, sequence);
CREATE INDEX audit_at ON audit (at);
