-- What a look-up goes by, where a channel tells whether a message exists by its id alone.

ALTER TABLE parts ADD COLUMN streamed INTEGER NOT NULL DEFAULT 0;        -- 1 where the message may show a part of it only
ALTER TABLE parts ADD COLUMN searched INTEGER NOT NULL DEFAULT 0;        -- 1 once an attempt was found not to have arrived
ALTER TABLE parts ADD COLUMN labelled_sends INTEGER NOT NULL DEFAULT 0;
UPDATE parts SET streamed = 1 WHERE settled = 0 AND position = 0 AND attempts > 0;

-- Questions that were put to people while their turn runs.
CREATE TABLE questions (
    id           BLOB    NOT NULL PRIMARY KEY,
    conversation TEXT    NOT NULL REFERENCES lanes (conversation),
    turn         BLOB    NOT NULL REFERENCES turns (id),
    message      TEXT,                           -- NULL while nobody knows whether it arrived, or as what
    asked_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX questions_conversation ON questions (conversation, asked_at);
