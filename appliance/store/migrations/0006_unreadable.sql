-- Messages on topics that carry alarms of which an alarm could not be taken.

CREATE TABLE alarm_unreadable (
    topic TEXT PRIMARY KEY,            -- '#': all topics beyond the first so many
    count INTEGER NOT NULL,            -- alarms; one that the broker delivers twice may be counted twice
    accepted INTEGER NOT NULL DEFAULT 0,     -- so many of them somebody has looked into
    newest_why TEXT NOT NULL,
    newest_utc TEXT NOT NULL
) STRICT, WITHOUT ROWID;
