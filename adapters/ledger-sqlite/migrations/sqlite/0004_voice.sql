-- Words that were spoken, in and out.

ALTER TABLE lanes ADD COLUMN voice INTEGER NOT NULL DEFAULT 0;  -- 1 where every reply is spoken too
ALTER TABLE inbox_files ADD COLUMN heard TEXT;                  -- of a voice note: its words, or why there are none
