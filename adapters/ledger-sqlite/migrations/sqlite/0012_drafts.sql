-- The message in which a reply grows is a draft, which is open once its message is known. A draft beside which no text
-- is sent is deleted: an operation without content.

ALTER TABLE parts RENAME COLUMN open_stream TO draft;

UPDATE parts SET state = 'open', state_detail = json_object('state', 'open', 'message', target),
                 last_message = target, target = NULL
WHERE draft = 1 AND settled = 0 AND target IS NOT NULL;

-- Of one whose message nobody knows only the doubt stays.
UPDATE parts SET kind = 'text', content = '{"kind":"text","text":"","markup":"rich"}', state = 'replaced',
                 state_detail = '{"state":"replaced","by":[]}', settled = 1, labelled = 1
WHERE kind = 'withdraw' AND target IS NULL AND attempts > 0 AND settled = 0;
DELETE FROM parts WHERE kind = 'withdraw' AND target IS NULL;
UPDATE parts SET kind = 'delete', content = 'null' WHERE kind = 'withdraw';
