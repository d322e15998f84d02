-- Statements name booleans as both engines do, and an index is only used for the condition that it names.
DROP INDEX turns_unindexed;
CREATE INDEX turns_unindexed ON turns (sequence) WHERE NOT indexed AND state = 'completed';
DROP INDEX parts_unsettled;
CREATE INDEX parts_unsettled ON parts (lane, turn_sequence, position) WHERE NOT settled;
DROP INDEX parts_unreported;
CREATE INDEX parts_unreported ON parts (lane, turn_sequence, position) WHERE state = 'failed' AND NOT reported;

-- Files are counted by what this index has of them.
DROP INDEX attachments_kept;
CREATE INDEX attachments_kept ON attachments (lane, number, source, visibility) WHERE forgotten_at IS NULL;

-- The links to a file are revoked in its row.
ALTER TABLE attachments ADD COLUMN link_revocations INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attachments ADD COLUMN links_revoked_at INTEGER;
