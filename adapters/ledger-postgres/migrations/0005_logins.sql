-- The logins of browsers to the page. What proves one is stored nowhere.
CREATE TABLE logins (
    id         UUID NOT NULL PRIMARY KEY,
    issuer     TEXT NOT NULL,    -- the fingerprint of the token under which it was made
    client     TEXT NOT NULL,    -- the browser, in a few words
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,  -- the last use that was recorded
    expires_at BIGINT NOT NULL
);
