-- What this installation alone knows, by what it is for.
CREATE TABLE installation_secrets (
    name   TEXT COLLATE "C" PRIMARY KEY,
    secret TEXT NOT NULL
);
