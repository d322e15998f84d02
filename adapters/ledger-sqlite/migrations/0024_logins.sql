-- The logins of browsers to the page. What proves one is stored nowhere.
CREATE TABLE logins (
    id         BLOB    NOT NULL PRIMARY KEY,
    issuer     TEXT    NOT NULL,                 -- the fingerprint of the token under which it was made
    client     TEXT    NOT NULL,                 -- the browser, in a few words
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,                 -- the last use that was recorded
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
