-- The ledger: ownership, admissions, sessions, turns, actions, effects, alarms, deliveries, work orders, operations.
-- Times are ISO-8601 UTC text for people; *_mono_ns compare only within one boot_id. Order is always a sequence.
-- "check" lists mirror the enums of appliance.contracts.

CREATE TABLE appliance (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    origin TEXT NOT NULL,              -- this appliance's name in the operation log
    created_utc TEXT NOT NULL
) STRICT;

CREATE TABLE owner (
    epoch INTEGER PRIMARY KEY AUTOINCREMENT,
    instance TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_started TEXT NOT NULL,         -- start time of the pid in clock ticks, so a reused pid is recognised
    boot_id TEXT NOT NULL,
    started_utc TEXT NOT NULL,
    ended_utc TEXT,                    -- written by a clean shutdown only: its receipt
    CHECK (pid > 0)
) STRICT;

CREATE TABLE admission (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    door TEXT NOT NULL,
    kind TEXT NOT NULL,
    lane TEXT NOT NULL,
    dedupe_key TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    payload TEXT NOT NULL,
    priority INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'started', 'unknown', 'terminal')),
    outcome TEXT CHECK (outcome IN ('done', 'failed', 'refused', 'interrupted')),
    epoch INTEGER REFERENCES owner (epoch),
    resumes TEXT REFERENCES admission (id),
    turn_id TEXT,
    admitted_utc TEXT NOT NULL,
    admitted_mono_ns INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    clock_synced INTEGER NOT NULL CHECK (clock_synced IN (0, 1)),
    ended_utc TEXT,
    CHECK ((status = 'terminal') = (outcome IS NOT NULL))
) STRICT;
CREATE INDEX admission_queue ON admission (priority DESC, seq) WHERE status = 'queued';
CREATE INDEX admission_open ON admission (lane, seq) WHERE status IN ('queued', 'started', 'unknown');

CREATE TRIGGER admission_never_back BEFORE UPDATE OF status ON admission
WHEN (CASE old.status WHEN 'queued' THEN 0 WHEN 'started' THEN 1 WHEN 'unknown' THEN 2 ELSE 3 END)
   > (CASE new.status WHEN 'queued' THEN 0 WHEN 'started' THEN 1 WHEN 'unknown' THEN 2 ELSE 3 END)
   OR (old.status = 'terminal' AND new.outcome IS NOT old.outcome)
BEGIN SELECT RAISE(ABORT, 'admission status never goes back'); END;

CREATE TABLE session (
    id TEXT PRIMARY KEY,
    lane TEXT NOT NULL,
    asset TEXT,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed')),
    opened_utc TEXT NOT NULL,
    closed_utc TEXT
) STRICT;
CREATE UNIQUE INDEX session_open_per_lane ON session (lane) WHERE state = 'open';

CREATE TABLE turn (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES session (id),
    admission_id TEXT NOT NULL REFERENCES admission (id),
    lane TEXT NOT NULL,
    language TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('idle', 'listening', 'planning', 'executing', 'confirming', 'failed', 'abandoned')),
    intent TEXT NOT NULL,
    plan TEXT,
    context TEXT NOT NULL,
    blocking_reason TEXT NOT NULL,
    failure TEXT NOT NULL,
    state_hash TEXT NOT NULL,
    lifespan_s REAL NOT NULL,
    spent_s REAL NOT NULL DEFAULT 0,   -- running time used; stands still while a question is open and while the appliance is down
    offline INTEGER NOT NULL CHECK (offline IN (0, 1)),
    opened_utc TEXT NOT NULL,
    updated_utc TEXT NOT NULL
) STRICT;
CREATE INDEX turn_by_session ON turn (session_id, seq);

CREATE TABLE action (
    id TEXT PRIMARY KEY,
    turn_id TEXT NOT NULL REFERENCES turn (id),
    position INTEGER NOT NULL,
    step_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    condition TEXT NOT NULL,
    optional INTEGER NOT NULL CHECK (optional IN (0, 1)),
    state TEXT NOT NULL CHECK (state IN ('pending', 'started', 'waiting', 'done', 'skipped', 'failed', 'unknown')),
    result TEXT,
    UNIQUE (turn_id, position),
    UNIQUE (turn_id, step_id)
) STRICT;

CREATE TABLE confirmation (
    id TEXT PRIMARY KEY,
    turn_id TEXT NOT NULL REFERENCES turn (id),
    action_id TEXT NOT NULL UNIQUE REFERENCES action (id),
    question TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'yes', 'no', 'abandoned')),
    delivery_id TEXT,
    asked_seq INTEGER NOT NULL UNIQUE,
    asked_utc TEXT NOT NULL,
    answered_by TEXT REFERENCES admission (id),
    answered_utc TEXT
) STRICT;
CREATE INDEX confirmation_pending ON confirmation (asked_seq) WHERE status = 'pending';

CREATE TABLE effect (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    action_id TEXT NOT NULL UNIQUE REFERENCES action (id),   -- at most one effect an action, whatever dies
    turn_id TEXT NOT NULL REFERENCES turn (id),
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,           -- resolved: exactly what is sent
    status TEXT NOT NULL CHECK (status IN ('intended', 'applied', 'none', 'unknown')),
    was_unknown INTEGER NOT NULL DEFAULT 0 CHECK (was_unknown IN (0, 1)),
    settled_by TEXT,                   -- 'reply', 'verify', or who settled an unknown
    note TEXT NOT NULL DEFAULT '',
    result TEXT,
    epoch INTEGER NOT NULL REFERENCES owner (epoch),
    intended_utc TEXT NOT NULL,
    ended_utc TEXT
) STRICT;
CREATE INDEX effect_open ON effect (seq) WHERE status IN ('intended', 'unknown');

CREATE TABLE alarm (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    activation_id TEXT NOT NULL UNIQUE,
    alarm_id TEXT NOT NULL,
    asset TEXT NOT NULL,
    priority TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('normal', 'unacknowledged', 'acknowledged', 'returned_unacknowledged')),
    value REAL,
    unit TEXT NOT NULL,
    session_id TEXT REFERENCES session (id),
    source_utc TEXT,
    source_mono_ns INTEGER,
    raised_utc TEXT NOT NULL,
    raised_mono_ns INTEGER NOT NULL,
    cleared_utc TEXT,
    acknowledged_utc TEXT,
    acknowledged_by TEXT
) STRICT;
CREATE INDEX alarm_live ON alarm (seq) WHERE state <> 'normal';

CREATE TABLE delivery (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL CHECK (channel IN ('speech', 'mqtt')),
    turn_id TEXT REFERENCES turn (id),
    language TEXT NOT NULL,
    lead TEXT NOT NULL,
    text TEXT NOT NULL,
    priority INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'attempting', 'delivered', 'failed', 'abandoned')),
    attempts INTEGER NOT NULL DEFAULT 0,
    may_be_repeat INTEGER NOT NULL DEFAULT 0 CHECK (may_be_repeat IN (0, 1)),
    failure TEXT NOT NULL DEFAULT '',
    queued_utc TEXT NOT NULL,
    queued_mono_ns INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    first_audio_mono_ns INTEGER,
    ended_utc TEXT
) STRICT;
CREATE INDEX delivery_open ON delivery (channel, priority DESC, seq) WHERE status IN ('pending', 'attempting');

CREATE TABLE work_order (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    turn_id TEXT REFERENCES turn (id),
    asset TEXT NOT NULL,
    title TEXT NOT NULL,
    detail TEXT NOT NULL,
    number TEXT,                       -- given by the coordinator, NULL until it is heard of
    status TEXT NOT NULL,
    created_utc TEXT NOT NULL
) STRICT;

CREATE TABLE operation (
    lane TEXT NOT NULL CHECK (lane IN ('P0', 'P1', 'P2', 'P3', 'P4')),
    seq INTEGER NOT NULL CHECK (seq > 0),
    kind TEXT NOT NULL,
    entity TEXT NOT NULL,
    payload TEXT NOT NULL,
    at_utc TEXT NOT NULL,
    clock_synced INTEGER NOT NULL CHECK (clock_synced IN (0, 1)),
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (lane, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE operation_head (
    lane TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,              -- newest written here
    hash TEXT NOT NULL,
    acknowledged_seq INTEGER NOT NULL DEFAULT 0   -- durable at the coordinator up to here
) STRICT;

CREATE TABLE downlink (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    cursor INTEGER NOT NULL
) STRICT;

CREATE TRIGGER operation_append_only_u BEFORE UPDATE ON operation BEGIN SELECT RAISE(ABORT, 'the operation log is append-only'); END;
CREATE TRIGGER operation_append_only_d BEFORE DELETE ON operation BEGIN SELECT RAISE(ABORT, 'the operation log is append-only'); END;
