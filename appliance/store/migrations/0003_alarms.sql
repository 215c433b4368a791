-- The alarm journal: every event with what became of it; latched alarms; inhibitions; chatter; the account of each source.

CREATE TABLE alarm_event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,          -- the same event again is the same row
    digest TEXT NOT NULL,              -- of what it told
    source TEXT NOT NULL,
    alarm_id TEXT NOT NULL,
    activation TEXT NOT NULL,          -- the source's own id
    told_id TEXT NOT NULL,             -- source, alarm and activation as the source names them
    activation_id TEXT NOT NULL,       -- the activation it was counted to: told_id, unless another source had told of it
    change TEXT NOT NULL CHECK (change IN ('raised', 'cleared')),
    value REAL,
    unit TEXT NOT NULL,
    source_utc TEXT,
    source_mono_ns INTEGER,
    sequence INTEGER,
    is_state INTEGER NOT NULL CHECK (is_state IN (0, 1)),
    was_missed INTEGER NOT NULL CHECK (was_missed IN (0, 1)),
    disposition TEXT NOT NULL CHECK (
        disposition IN ('announce', 'repeat', 'merged', 'shelved', 'suppressed', 'out_of_service', 'chatter', 'flood', 'state')),
    admission_id TEXT UNIQUE REFERENCES admission (id),
    duplicates INTEGER NOT NULL DEFAULT 0,   -- how often it came again
    epoch INTEGER REFERENCES owner (epoch),
    journalled_utc TEXT NOT NULL,
    journalled_mono_ns INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    clock_synced INTEGER NOT NULL CHECK (clock_synced IN (0, 1)),
    CHECK (disposition <> 'announce' OR admission_id IS NOT NULL)
) STRICT;
CREATE INDEX alarm_event_of ON alarm_event (activation_id, seq);
CREATE INDEX alarm_event_told ON alarm_event (told_id) WHERE told_id <> activation_id;
CREATE INDEX alarm_event_recent ON alarm_event (alarm_id, boot_id, journalled_mono_ns) WHERE change = 'raised';

-- What was admitted before there was a journal was announced.
INSERT INTO alarm_event (key, digest, source, alarm_id, activation, told_id, activation_id, change, value, unit, source_utc,
                         source_mono_ns, is_state, was_missed, disposition, admission_id, epoch, journalled_utc,
                         journalled_mono_ns, boot_id, clock_synced)
SELECT dedupe_key, digest, payload ->> '$.source', payload ->> '$.alarm_id', payload ->> '$.activation',
       payload ->> '$.activation_id', payload ->> '$.activation_id', payload ->> '$.change', payload ->> '$.value',
       payload ->> '$.unit', payload ->> '$.source_utc', payload ->> '$.source_mono_ns', 0, 0, 'announce', id, epoch, admitted_utc,
       admitted_mono_ns, boot_id, clock_synced
FROM admission WHERE kind = 'alarm' ORDER BY seq;

CREATE TABLE alarm_rebuilt (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    activation_id TEXT NOT NULL UNIQUE,
    alarm_id TEXT NOT NULL,
    source TEXT NOT NULL,              -- who raised it
    asset TEXT NOT NULL,
    priority TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('normal', 'unacknowledged', 'acknowledged', 'returned_unacknowledged', 'latched')),
    value REAL,
    unit TEXT NOT NULL,
    session_id TEXT REFERENCES session (id),
    leader TEXT,                       -- activation whose conversation it shares, as one that chatters; NULL: its own
    source_utc TEXT,
    source_mono_ns INTEGER,
    raised_utc TEXT NOT NULL,
    raised_mono_ns INTEGER NOT NULL,
    raised_after INTEGER NOT NULL,     -- newest admission then: what was said later than this could be about it
    cleared_utc TEXT,
    acknowledged_utc TEXT,
    acknowledged_by TEXT,
    revision INTEGER NOT NULL DEFAULT 1 CHECK (revision > 0)   -- one more with each change
) STRICT;
INSERT INTO alarm_rebuilt (seq, activation_id, alarm_id, source, asset, priority, state, value, unit, session_id, source_utc,
                           source_mono_ns, raised_utc, raised_mono_ns, raised_after, cleared_utc, acknowledged_utc, acknowledged_by)
SELECT seq, activation_id, alarm_id, substr(activation_id, 1, instr(activation_id, ':' || alarm_id || ':') - 1), asset, priority,
       state, value, unit, session_id, source_utc, source_mono_ns, raised_utc, raised_mono_ns,
       coalesce((SELECT min(admission.seq) FROM alarm_event JOIN admission ON admission.id = alarm_event.admission_id
                 WHERE alarm_event.activation_id = alarm.activation_id), 0),
       cleared_utc, acknowledged_utc, acknowledged_by
FROM alarm ORDER BY seq;
DROP TABLE alarm;
ALTER TABLE alarm_rebuilt RENAME TO alarm;
CREATE INDEX alarm_live ON alarm (seq) WHERE state <> 'normal';
CREATE INDEX alarm_active ON alarm (alarm_id) WHERE cleared_utc IS NULL;
CREATE INDEX alarm_leader ON alarm (leader) WHERE leader IS NOT NULL;

CREATE TABLE alarm_source (
    source TEXT PRIMARY KEY,
    seen INTEGER NOT NULL,             -- events handed in: new ones, duplicates and conflicts
    conflicts INTEGER NOT NULL DEFAULT 0,    -- refused: a known event with other content
    last_sequence INTEGER,
    missing INTEGER NOT NULL DEFAULT 0,      -- numbers that never came
    accepted INTEGER NOT NULL DEFAULT 0,     -- so many of them somebody has looked into
    restarts INTEGER NOT NULL DEFAULT 0,     -- its numbers began anew
    holes TEXT NOT NULL DEFAULT '[]',  -- [[first, last], …]: the newest missing numbers, which may still come
    since_utc TEXT NOT NULL,
    last_utc TEXT NOT NULL
) STRICT;
INSERT INTO alarm_source (source, seen, since_utc, last_utc)
SELECT source, count(*), min(journalled_utc), max(journalled_utc) FROM alarm_event GROUP BY source;

CREATE TABLE alarm_inhibition (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    alarm_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('shelved', 'suppressed', 'out_of_service')),
    reason TEXT NOT NULL CHECK (trim(reason) <> ''),
    by TEXT NOT NULL CHECK (trim(by) <> ''),
    for_s REAL CHECK (for_s > 0),      -- shelved only: it ends by itself
    began_utc TEXT NOT NULL,
    began_mono_ns INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    clock_synced INTEGER NOT NULL CHECK (clock_synced IN (0, 1)),
    ended_utc TEXT,
    ended_by TEXT,
    CHECK ((kind = 'shelved') = (for_s IS NOT NULL)),
    CHECK ((ended_utc IS NULL) = (ended_by IS NULL))
) STRICT;
CREATE UNIQUE INDEX alarm_inhibition_now ON alarm_inhibition (alarm_id, kind) WHERE ended_utc IS NULL;

CREATE TABLE alarm_chatter (
    alarm_id TEXT PRIMARY KEY,
    leader TEXT NOT NULL,              -- the activation that began it: the others share its conversation
    raises INTEGER NOT NULL,
    since_utc TEXT NOT NULL,
    last_mono_ns INTEGER NOT NULL,     -- newest raise
    boot_id TEXT NOT NULL
) STRICT;

CREATE TABLE alarm_feed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    p0_seq INTEGER NOT NULL            -- operations of lane P0 up to here were told to those who follow the alarms
) STRICT;
INSERT INTO alarm_feed SELECT 1, coalesce(max(seq), 0) FROM operation WHERE lane = 'P0';
