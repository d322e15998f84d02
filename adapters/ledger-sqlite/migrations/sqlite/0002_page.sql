-- What a page that shows conversations reads, and the files that it stores before their message is sent.

ALTER TABLE inbox_files ADD COLUMN sha256 BLOB;  -- of a file whose bytes lay in the blob store before the message came
CREATE INDEX inbox_files_kept ON inbox_files (sha256) WHERE sha256 IS NOT NULL AND state = 'waiting';

CREATE INDEX turns_conversation ON turns (conversation, sequence);
CREATE INDEX inbox_steered ON inbox (consumed_by, sequence) WHERE consumed_by <> turn;

-- In the order in which it is read, or the reader takes the index of all parts.
DROP INDEX parts_untold;
CREATE INDEX parts_untold ON parts (conversation, turn_sequence, position) WHERE state = 'failed' AND told = 0;
