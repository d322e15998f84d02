-- A turn that was answered once more names the turn that took its place. The search index begins anew, since it gets the
-- number of the lane.
ALTER TABLE turns ADD COLUMN replaced_by BLOB REFERENCES turns (id);
DROP TABLE search_index;
CREATE VIRTUAL TABLE search_index USING fts5 (channel, text, files, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3');
UPDATE turns SET indexed = 0 WHERE indexed = 1;
