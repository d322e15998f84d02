-- What files take up, whom they count for, and which were forgotten.

ALTER TABLE attachments ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;  -- that it counts for; 0 once it is forgotten
ALTER TABLE attachments ADD COLUMN person TEXT;           -- `channel:id` of the person whose turn it came with, if any
ALTER TABLE attachments ADD COLUMN forgotten_at INTEGER;  -- the row stays as the tombstone of its number
UPDATE attachments SET
    bytes = json_extract(record, '$.bytes'),
    person = (SELECT substr(inbox.conversation, 1, instr(inbox.conversation, ':')) || json_extract(message, '$.sender.id')
              FROM inbox WHERE inbox.turn = attachments.turn AND json_extract(message, '$.errand') IS NULL
              ORDER BY sequence LIMIT 1);
CREATE INDEX attachments_kept ON attachments (conversation, number) WHERE forgotten_at IS NULL;

-- Sums, so that a quota is checked without counting files.
CREATE TABLE usage (
    scope           TEXT    NOT NULL CHECK (scope IN ('conversation', 'person')),
    name            TEXT    NOT NULL,            -- the conversation, or `channel:id` of the person
    files           INTEGER NOT NULL DEFAULT 0,
    bytes           INTEGER NOT NULL DEFAULT 0,  -- of the files
    workspace_bytes INTEGER NOT NULL DEFAULT 0,  -- with what is set aside for writes that run
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
INSERT INTO usage (scope, name, files, bytes)
SELECT 'conversation', conversation, COUNT(*), SUM(bytes) FROM attachments GROUP BY conversation;
INSERT INTO usage (scope, name, files, bytes)
SELECT 'person', person, COUNT(*), SUM(bytes) FROM attachments WHERE person IS NOT NULL GROUP BY person;
