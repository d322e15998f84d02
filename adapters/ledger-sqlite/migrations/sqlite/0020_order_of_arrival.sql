-- Each part keeps the newest message of the inbox at the moment of its first attempt. What was started before is ordered by
-- the times that were stored; a message of the same millisecond came later.
ALTER TABLE parts ADD COLUMN first_attempt_after INTEGER;
UPDATE parts SET first_attempt_after = COALESCE(ordered.newest, 0) FROM (
    SELECT part, MAX(sequence) OVER (ORDER BY at, is_message ROWS UNBOUNDED PRECEDING) AS newest FROM (
        SELECT NULL AS part, sequence, received_at AS at, 1 AS is_message FROM inbox
        UNION ALL SELECT id, NULL, first_attempt_at, 0 FROM parts WHERE first_attempt_at IS NOT NULL
    )
) AS ordered WHERE ordered.part = parts.id;
