-- The reminders that people make in chat, and each person's time zone.
CREATE TABLE reminders (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    key      TEXT    NOT NULL UNIQUE,
    lane     INTEGER NOT NULL REFERENCES lanes (id),
    person   TEXT    NOT NULL,
    sender   TEXT    NOT NULL,
    in_group INTEGER NOT NULL,
    content  TEXT    NOT NULL,
    next_at  INTEGER NOT NULL,
    cron     TEXT,
    timezone TEXT,
    ended_at INTEGER
) STRICT;
CREATE INDEX reminders_next ON reminders (next_at, id) WHERE ended_at IS NULL;
CREATE INDEX reminders_person ON reminders (person) WHERE ended_at IS NULL;
CREATE INDEX reminders_lane ON reminders (lane);
CREATE INDEX reminders_ended ON reminders (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE person_settings (
    person   TEXT PRIMARY KEY,
    timezone TEXT NOT NULL
) STRICT, WITHOUT ROWID;
