-- Floods: many alarms told in one conversation. Announcements: what was told of an alarm or a flood, to be told again while
-- nobody answers.

CREATE TABLE flood (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES session (id),   -- of the burst's first activation
    lane TEXT NOT NULL,                -- the session's
    told_count INTEGER NOT NULL,       -- members when their number was told last
    opened_utc TEXT NOT NULL,
    newest_mono_ns INTEGER NOT NULL,   -- when the last member came, within boot_id
    boot_id TEXT NOT NULL,
    closed_utc TEXT,
    is_calm INTEGER NOT NULL DEFAULT 0 CHECK (is_calm IN (0, 1) AND (is_calm = 0 OR closed_utc IS NOT NULL))
                                       -- over, and every alarm of it is gone
) STRICT;
CREATE UNIQUE INDEX flood_open ON flood ((1)) WHERE closed_utc IS NULL;   -- one at a time
CREATE INDEX flood_restless ON flood (seq) WHERE is_calm = 0;

CREATE TABLE flood_member (
    activation_id TEXT PRIMARY KEY,
    flood_id TEXT NOT NULL REFERENCES flood (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX flood_member_of ON flood_member (flood_id);

CREATE TABLE announcement (
    subject TEXT PRIMARY KEY,          -- an activation's id, or a flood's
    is_flood INTEGER NOT NULL CHECK (is_flood IN (0, 1)),
    turn_id TEXT NOT NULL REFERENCES turn (id),        -- that told it first
    last_turn_id TEXT NOT NULL REFERENCES turn (id),   -- that told it last
    was_heard INTEGER NOT NULL DEFAULT 0 CHECK (was_heard IN (0, 1)),   -- something was said before last_turn_id's words
    again INTEGER NOT NULL DEFAULT 0,  -- how often it was told again
    first_utc TEXT NOT NULL,
    first_mono_ns INTEGER NOT NULL,
    first_boot_id TEXT NOT NULL,
    last_mono_ns INTEGER NOT NULL,
    last_boot_id TEXT NOT NULL,
    is_over INTEGER NOT NULL DEFAULT 0 CHECK (is_over IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_of_turn ON delivery (turn_id);
CREATE INDEX announcement_open ON announcement (subject) WHERE is_over = 0;
