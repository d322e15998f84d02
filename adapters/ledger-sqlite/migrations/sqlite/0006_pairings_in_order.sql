-- Codes keep the order in which they were asked for, also those of one millisecond.

ALTER TABLE pairings RENAME TO pairings_without_order;
DROP INDEX pairings_person;

CREATE TABLE pairings (
    sequence     INTEGER PRIMARY KEY,
    code         TEXT    NOT NULL UNIQUE,
    channel      TEXT    NOT NULL,
    id           TEXT    NOT NULL,               -- of the person
    person       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,               -- where they asked; a lane only once they are answered
    state        TEXT    NOT NULL CHECK (state IN ('open', 'let_in', 'refused')),
    issued_at    INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX pairings_person ON pairings (channel, id);

INSERT INTO pairings (code, channel, id, person, conversation, state, issued_at, expires_at)
SELECT code, channel, id, person, conversation, state, issued_at, expires_at
FROM pairings_without_order ORDER BY issued_at, code;

DROP TABLE pairings_without_order;
