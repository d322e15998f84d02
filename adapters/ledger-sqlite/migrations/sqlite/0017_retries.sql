-- A turn that was answered once more names the turn that took its place.
ALTER TABLE turns ADD COLUMN replaced_by BLOB REFERENCES turns (id);
