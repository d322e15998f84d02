-- Forgotten turns leave the search index behind the commit that forgets them; those of earlier versions have left it.
UPDATE turns SET indexed = FALSE WHERE indexed AND state = 'merged';
CREATE INDEX turns_forgotten ON turns (sequence) WHERE indexed AND state = 'merged';

-- The words of a row leave the indexes with it, and those that earlier versions left there go now.
INSERT INTO search_index (search_index, rank) VALUES ('secure-delete', 1);
INSERT INTO name_index (name_index, rank) VALUES ('secure-delete', 1);
INSERT INTO search_index (search_index) VALUES ('optimize');
INSERT INTO name_index (name_index) VALUES ('optimize');

-- Whether something was forgotten that is not erased everywhere yet.
CREATE TABLE pending_erasure (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    requests INTEGER NOT NULL                    -- another number whenever something is forgotten
) STRICT;
-- What earlier versions deleted is still in unused space.
INSERT INTO pending_erasure (id, requests) VALUES (1, 1);
