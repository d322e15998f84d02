-- Statements are the same on SQLite, whose functions these are. They are written so that the planner puts their bodies in
-- the place of each call.

-- The value at a path of names, such as `$.sender.id`: a text as it is, an object as JSON.
CREATE FUNCTION json_extract(document TEXT, path TEXT) RETURNS TEXT LANGUAGE SQL STABLE
    AS $$ SELECT document::JSON #>> string_to_array(substr(path, 3), '.') $$;

-- The document without the value at a path of names.
CREATE FUNCTION json_remove(document TEXT, path TEXT) RETURNS TEXT LANGUAGE SQL STABLE
    AS $$ SELECT (document::JSONB #- string_to_array(substr(path, 3), '.'))::TEXT $$;

-- The place of the first occurrence of a text, from 1; 0 if there is none.
CREATE FUNCTION instr(text TEXT, part TEXT) RETURNS INTEGER LANGUAGE SQL IMMUTABLE
    AS $$ SELECT strpos(text, part) $$;

-- The values of a bound list.
CREATE FUNCTION rarray(list ANYARRAY) RETURNS TABLE (value ANYELEMENT) LANGUAGE SQL IMMUTABLE ROWS 20
    AS $$ SELECT unnest(list) $$;

ALTER TABLE search_index RENAME COLUMN sequence TO rowid;

-- Files are counted by what this index has of them.
DROP INDEX attachments_kept;
CREATE INDEX attachments_kept ON attachments (lane, number, source, visibility) WHERE forgotten_at IS NULL;

-- The links to a file are revoked in its row.
ALTER TABLE attachments ADD COLUMN link_revocations BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attachments ADD COLUMN links_revoked_at BIGINT;
