-- A question about a call is a part like any other message, which stays open until it is closed.

ALTER TABLE parts ADD COLUMN call       INTEGER;  -- the ordinal of the call; NULL where the part is no question
ALTER TABLE parts ADD COLUMN unanswered TEXT;     -- what takes its place when the call ends without an answer
ALTER TABLE parts ADD COLUMN closing    TEXT;     -- what takes its place; NULL while it waits for the answer

-- Of the questions so far only their messages are known, which a look-up must not take for others. They are replaced by
-- nothing, so that nobody sees them, and those without a message leave a doubt. No call has their ordinal.
INSERT INTO parts (id, conversation, turn, turn_sequence, position, kind, content, state, state_detail, settled, told,
                   attempts, first_attempt_at, labelled, target, created_at, call, unanswered)
SELECT questions.id, questions.conversation, questions.turn, turns.sequence,
       (SELECT COALESCE(MAX(position) + 1, 0) FROM parts WHERE parts.turn = questions.turn)
           + ROW_NUMBER() OVER (PARTITION BY questions.turn ORDER BY asked_at) - 1,
       'question', '{"kind":"question","text":"","buttons":[]}', 'replaced', '{"state":"replaced","by":[]}',
       1, 1, 1, asked_at, message IS NULL, message, asked_at, 4294967295, ''
FROM questions JOIN turns ON turns.id = questions.turn;

DROP TABLE questions;
