-- What this installation alone knows, by what it is for.
CREATE TABLE installation_secrets (
    name   TEXT COLLATE "C" PRIMARY KEY,
    secret TEXT NOT NULL
);

-- Who made a reminder, when, and in which turn; and which turn cancelled it. The key of one that a model made names the call.
ALTER TABLE reminders ADD COLUMN author TEXT NOT NULL DEFAULT 'person' CHECK (author IN ('person', 'model'));
ALTER TABLE reminders ADD COLUMN made_at BIGINT;
ALTER TABLE reminders ADD COLUMN turn UUID;
ALTER TABLE reminders ADD COLUMN cancelled_in UUID;
UPDATE reminders SET author = 'model' WHERE instr(key, '/') > 0;
CREATE INDEX reminders_turn ON reminders (turn) WHERE turn IS NOT NULL;
CREATE INDEX reminders_cancelled ON reminders (cancelled_in) WHERE cancelled_in IS NOT NULL;

-- For whom the bytes of a workspace count besides its conversation. So far that was the person who wrote there last.
CREATE TABLE workspace_shares (
    lane   BIGINT NOT NULL REFERENCES lanes (id),
    person TEXT COLLATE "C" NOT NULL,
    bytes  BIGINT NOT NULL,
    PRIMARY KEY (lane, person)
);
INSERT INTO workspace_shares (lane, person, bytes)
    SELECT lane, person, workspace_bytes FROM (
        SELECT lanes.id AS lane, usage.workspace_bytes,
            (SELECT CASE WHEN COALESCE(CAST(json_extract(inbox.message, '$.group') AS BOOLEAN), FALSE) THEN NULL
                    ELSE lanes.channel || ':' || json_extract(inbox.message, '$.sender.id') END
                FROM turns JOIN inbox ON inbox.turn = turns.id
                WHERE turns.lane = lanes.id AND turns.state <> 'merged'
                AND json_extract(inbox.message, '$.errand') IS NULL
                ORDER BY turns.sequence DESC, inbox.sequence DESC LIMIT 1) AS person
        FROM usage JOIN lanes ON lanes.conversation = usage.name
        WHERE usage.scope = 'conversation' AND usage.workspace_bytes > 0
    ) AS held WHERE person IS NOT NULL;
