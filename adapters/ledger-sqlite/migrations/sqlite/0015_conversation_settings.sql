-- The settings of a conversation get a table of their own, with a persona and a model.
CREATE TABLE conversation_settings (
    lane    INTEGER PRIMARY KEY REFERENCES lanes (id),
    voice   INTEGER NOT NULL DEFAULT 0,
    agent   TEXT,
    persona TEXT,
    model   TEXT
) STRICT;
INSERT INTO conversation_settings (lane, voice, agent)
    SELECT id, voice, agent FROM lanes WHERE voice <> 0 OR agent IS NOT NULL;
ALTER TABLE lanes DROP COLUMN agent;
ALTER TABLE lanes DROP COLUMN voice;
