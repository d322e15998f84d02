-- The agent that somebody chose for a conversation, by name; NULL where nobody did.

ALTER TABLE lanes ADD COLUMN agent TEXT;
