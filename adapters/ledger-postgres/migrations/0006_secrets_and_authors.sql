-- What this installation alone knows, by what it is for.
CREATE TABLE installation_secrets (
    name   TEXT COLLATE "C" PRIMARY KEY,
    secret TEXT NOT NULL
);

-- Who made a reminder, when, and in which turn. The key of one that a model made names the call.
ALTER TABLE reminders ADD COLUMN author TEXT NOT NULL DEFAULT 'person' CHECK (author IN ('person', 'model'));
ALTER TABLE reminders ADD COLUMN made_at BIGINT;
ALTER TABLE reminders ADD COLUMN turn UUID;
UPDATE reminders SET author = 'model' WHERE instr(key, '/') > 0;
CREATE INDEX reminders_turn ON reminders (turn) WHERE turn IS NOT NULL;
