-- What this installation alone knows, by what it is for.
CREATE TABLE installation_secrets (
    name   TEXT PRIMARY KEY,
    secret TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Who made a reminder, when, and in which turn. The key of one that a model made names the call.
ALTER TABLE reminders ADD COLUMN author TEXT NOT NULL DEFAULT 'person' CHECK (author IN ('person', 'model'));
ALTER TABLE reminders ADD COLUMN made_at INTEGER;
ALTER TABLE reminders ADD COLUMN turn BLOB;
UPDATE reminders SET author = 'model' WHERE instr(key, '/') > 0;
CREATE INDEX reminders_turn ON reminders (turn) WHERE turn IS NOT NULL;
