-- How far each channel's stream has been taken in, where the platform doesn't remember it for us.

CREATE TABLE bookmarks (
    channel  TEXT PRIMARY KEY,
    bookmark TEXT NOT NULL  -- JSON, in the words of the channel's adapter
) STRICT;
