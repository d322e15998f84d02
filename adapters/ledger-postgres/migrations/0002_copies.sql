-- A ledger that was moved here names its origin until it is activated.
ALTER TABLE schema_version ADD COLUMN moved_from TEXT;
