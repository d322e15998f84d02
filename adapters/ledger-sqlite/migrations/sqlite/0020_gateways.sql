-- Which process receives the messages of a platform.
CREATE TABLE gateways (
    channel TEXT    PRIMARY KEY,
    holder  BLOB,
    token   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
