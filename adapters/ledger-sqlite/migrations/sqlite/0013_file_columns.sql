-- A file's record is columns, and columns have the words of the code.

ALTER TABLE attachments ADD COLUMN source      TEXT    NOT NULL DEFAULT 'user';
ALTER TABLE attachments ADD COLUMN filename    TEXT    NOT NULL DEFAULT '';
ALTER TABLE attachments ADD COLUMN mime        TEXT    NOT NULL DEFAULT '';
ALTER TABLE attachments ADD COLUMN media       TEXT    NOT NULL DEFAULT '{}';  -- what its header tells, as JSON
ALTER TABLE attachments ADD COLUMN description TEXT    NOT NULL DEFAULT '';
ALTER TABLE attachments ADD COLUMN visibility  TEXT    NOT NULL DEFAULT 'deliver';
ALTER TABLE attachments ADD COLUMN created_at  INTEGER NOT NULL DEFAULT 0;
UPDATE attachments SET
    source = record ->> 'source',
    filename = record ->> 'filename',
    mime = record ->> 'mime',
    media = COALESCE(json_extract(record, '$.media'), '{}'),
    description = COALESCE(record ->> 'description', ''),
    visibility = COALESCE(record ->> 'visibility', 'deliver'),
    created_at = record ->> 'created_at';
ALTER TABLE attachments DROP COLUMN record;

ALTER TABLE lanes RENAME COLUMN owner TO holder;
DROP INDEX lanes_owned;
CREATE INDEX lanes_held ON lanes (holder) WHERE holder IS NOT NULL;
ALTER TABLE inbox_files RENAME COLUMN heard TO transcription;
ALTER TABLE parts RENAME COLUMN told TO reported;
DROP INDEX parts_untold;
CREATE INDEX parts_unreported ON parts (conversation, turn_sequence, position) WHERE state = 'failed' AND reported = 0;
ALTER TABLE unreadable_updates RENAME TO undecodable_updates;

-- Who was approved by a code, codes, and wrong codes by who sent them.
ALTER TABLE people RENAME TO paired_people;
ALTER TABLE paired_people RENAME COLUMN let_in_at TO approved_at;
ALTER TABLE paired_people RENAME COLUMN let_in_by TO approved_by;
ALTER TABLE wrong_codes RENAME COLUMN said_by TO sender;
ALTER TABLE wrong_codes RENAME COLUMN tries TO attempts;
ALTER TABLE wrong_codes RENAME COLUMN until TO expires_at;

CREATE TABLE new_pairings (
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
INSERT INTO new_pairings
SELECT sequence, code, channel, id, person, conversation, iif(state = 'let_in', 'approved', state), issued_at, expires_at
FROM pairings;
DROP TABLE pairings;
ALTER TABLE new_pairings RENAME TO pairings;
CREATE INDEX pairings_person ON pairings (channel, id);
