-- A question about a call is a part like any other message, which stays open until it is closed.

ALTER TABLE parts ADD COLUMN call       INTEGER;  -- the ordinal of the call; NULL where the part is no question
ALTER TABLE parts ADD COLUMN unanswered TEXT;     -- what takes its place when the call ends without an answer
ALTER TABLE parts ADD COLUMN closing    TEXT;     -- what takes its place; NULL while it waits for the answer

-- Of the questions so far only their messages are known, which a look-up must not take for others. No call has their
-- ordinal.
INSERT INTO parts (id, conversation, turn, turn_sequence, position, kind, content, state, state_detail, settled, told,
                   attempts, first_attempt_at, labelled, last_message, created_at, call, unanswered)
SELECT questions.id, questions.conversation, questions.turn, turns.sequence,
       (SELECT COALESCE(MAX(position) + 1, 0) FROM parts WHERE parts.turn = questions.turn)
           + (SELECT COUNT(*) FROM questions AS earlier
              WHERE earlier.turn = questions.turn AND earlier.rowid < questions.rowid),
       'question', '{"kind":"question","text":"(a question that an earlier version asked)","buttons":[]}',
       CASE WHEN message IS NULL THEN 'failed' ELSE 'sent' END,
       CASE WHEN message IS NULL
            THEN '{"state":"failed","reason":{"why":"may_have_arrived","reason":"an earlier version asked it"}}'
            ELSE json_object('state', 'sent', 'messages', json_array(message)) END,
       1, 1, 1, asked_at, 0, message, asked_at, 4294967295, ''
FROM questions JOIN turns ON turns.id = questions.turn;

DROP TABLE questions;
