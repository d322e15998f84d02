-- Whether people of a conversation read texts in blocks, and when they were last offered to try.
ALTER TABLE conversation_settings ADD COLUMN blocks BOOLEAN;
ALTER TABLE conversation_settings ADD COLUMN blocks_offered_at BIGINT;
