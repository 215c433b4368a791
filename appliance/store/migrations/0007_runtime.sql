-- The durable runtime: how an input joins a running turn, interrupts, leases, the global hold, webhooks, the machine's identity.

ALTER TABLE appliance ADD COLUMN machine TEXT NOT NULL DEFAULT '';   -- fingerprint of the hardware; empty until it is known

ALTER TABLE admission ADD COLUMN arrival TEXT NOT NULL DEFAULT 'queue' CHECK (arrival IN ('queue', 'steer', 'redirect'));

CREATE TABLE interrupt (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    turn_id TEXT NOT NULL REFERENCES turn (id),
    action_id TEXT REFERENCES action (id),   -- the step to cancel; NULL: the whole turn
    cause TEXT NOT NULL CHECK (cause IN ('user', 'system')),
    by TEXT NOT NULL,
    reason TEXT NOT NULL,
    asked_utc TEXT NOT NULL,
    handled_utc TEXT                          -- NULL until the turn obeyed, or had ended before it could
) STRICT;
CREATE INDEX interrupt_open ON interrupt (turn_id, seq) WHERE handled_utc IS NULL;

CREATE TABLE lease (
    turn_id TEXT PRIMARY KEY REFERENCES turn (id),
    lane TEXT NOT NULL,
    epoch INTEGER NOT NULL REFERENCES owner (epoch),
    boot_id TEXT NOT NULL,
    renewed_mono_ns INTEGER NOT NULL,
    expires_mono_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE hold (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL CHECK (source IN ('person', 'key_switch')),
    by TEXT NOT NULL,
    reason TEXT NOT NULL,
    began_utc TEXT NOT NULL,
    ended_utc TEXT,
    ended_by TEXT,
    CHECK ((ended_utc IS NULL) = (ended_by IS NULL))
) STRICT;
CREATE UNIQUE INDEX hold_on ON hold (source, by) WHERE ended_utc IS NULL;   -- several persons may hold, each once

-- A CHECK cannot be widened in place: the table is made anew with its rows, under the same sequence.
CREATE TABLE delivery_wider (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL CHECK (channel IN ('speech', 'mqtt', 'webhook')),
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
    ended_utc TEXT,
    topic TEXT,                              -- MQTT: the topic; webhook: its configured name
    payload TEXT,
    retain INTEGER NOT NULL DEFAULT 0
        CHECK (retain IN (0, 1) AND (channel = 'speech') = (topic IS NULL) AND (topic IS NULL) = (payload IS NULL))
) STRICT;
INSERT INTO delivery_wider SELECT * FROM delivery;
DELETE FROM sqlite_sequence WHERE name = 'delivery_wider';
INSERT INTO sqlite_sequence (name, seq) SELECT 'delivery_wider', seq FROM sqlite_sequence WHERE name = 'delivery';
DROP TABLE delivery;
ALTER TABLE delivery_wider RENAME TO delivery;
CREATE INDEX delivery_open ON delivery (channel, priority DESC, seq) WHERE status IN ('pending', 'attempting');
CREATE INDEX delivery_of_turn ON delivery (turn_id);

-- With thousands of open conversations, what concerns one of them is found without looking at the others.
CREATE INDEX admission_started ON admission (turn_id) WHERE status = 'started';
CREATE INDEX turn_open ON turn (lane) WHERE state IN ('planning', 'executing', 'confirming');
CREATE INDEX confirmation_of_turn ON confirmation (turn_id) WHERE status = 'pending';

-- What a clock that is set meanwhile must not move: durations are of the monotonic clock, and wall time counts between boots only
-- when it was disciplined at both ends.
ALTER TABLE delivery ADD COLUMN clock_synced INTEGER NOT NULL DEFAULT 0 CHECK (clock_synced IN (0, 1));   -- when it was queued
ALTER TABLE delivery ADD COLUMN ended_mono_ns INTEGER;
ALTER TABLE delivery ADD COLUMN ended_boot_id TEXT;
-- An answer is to a question that had been asked, and was open, when it was admitted: told by the admissions' order, as no clock
-- spans restarts. Answers that wait while the appliance is updated are to none.
ALTER TABLE confirmation ADD COLUMN asked_after_seq INTEGER NOT NULL DEFAULT 0;    -- the newest admission when it was asked
ALTER TABLE confirmation ADD COLUMN closed_after_seq INTEGER;                      -- and when it was closed
ALTER TABLE delivery ADD COLUMN tried_after_seq INTEGER;   -- and when it may first have been heard; NULL: it has not been
UPDATE confirmation SET asked_after_seq = (SELECT coalesce(max(seq), 0) FROM admission) WHERE status = 'pending';
UPDATE delivery SET tried_after_seq = (SELECT coalesce(max(seq), 0) FROM admission)
    WHERE channel = 'speech' AND (status IN ('attempting', 'delivered', 'failed') OR may_be_repeat = 1);
CREATE INDEX confirmation_closed ON confirmation (closed_after_seq) WHERE closed_after_seq IS NOT NULL;

ALTER TABLE delivery ADD COLUMN tells_effect INTEGER NOT NULL DEFAULT 0 CHECK (tells_effect IN (0, 1));   -- no stop takes it back
ALTER TABLE delivery ADD COLUMN unsaid INTEGER NOT NULL DEFAULT 0;   -- of how many answers that were not said it tells
ALTER TABLE alarm ADD COLUMN raised_boot_id TEXT;   -- of raised_mono_ns
ALTER TABLE announcement ADD COLUMN first_clock_synced INTEGER NOT NULL DEFAULT 0 CHECK (first_clock_synced IN (0, 1));

CREATE TRIGGER operation_head_never_back BEFORE UPDATE ON operation_head
WHEN new.lane IS NOT old.lane OR new.seq < old.seq OR (new.seq = old.seq AND new.hash IS NOT old.hash)
BEGIN SELECT RAISE(ABORT, 'the operation log is append-only'); END;
CREATE TRIGGER operation_head_stays BEFORE DELETE ON operation_head BEGIN SELECT RAISE(ABORT, 'the operation log is append-only'); END;

-- Damaged ledgers that were set aside, what could be saved of each, and numbers of the operation log that did not come through.
CREATE TABLE salvage (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    why TEXT NOT NULL,
    set_aside TEXT NOT NULL,           -- name of the damaged file, beside this one
    account TEXT NOT NULL,             -- JSON: rows before and after of every table that lost some, and the rest of the loss
    is_lossy INTEGER NOT NULL CHECK (is_lossy IN (0, 1)),
    at_utc TEXT NOT NULL,
    told_utc TEXT,                     -- what was under way is stopped, and words about it are queued
    settled_utc TEXT,                  -- NULL until a person has taken note
    settled_by TEXT,
    note TEXT NOT NULL DEFAULT '',
    CHECK ((settled_utc IS NULL) = (settled_by IS NULL))
) STRICT;

CREATE TABLE operation_lost (
    lane TEXT NOT NULL,
    seq INTEGER NOT NULL,
    salvage INTEGER NOT NULL REFERENCES salvage (seq),
    what TEXT NOT NULL CHECK (what IN ('lost', 'rechained')),
    hash TEXT NOT NULL,                -- the number's hash before, empty when nobody knows it
    PRIMARY KEY (lane, seq, salvage)
) STRICT, WITHOUT ROWID;

-- Signs that this ledger may be a copy: other hardware than it was written on, or older content than was here before.
CREATE TABLE identity_fault (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    what TEXT NOT NULL CHECK (what IN ('machine_changed', 'ledger_restored')),
    detail TEXT NOT NULL,
    found_utc TEXT NOT NULL,
    adopted_utc TEXT,                  -- NULL until a person says that this machine goes on with it
    adopted_by TEXT,
    note TEXT NOT NULL DEFAULT '',
    CHECK ((adopted_utc IS NULL) = (adopted_by IS NULL))
) STRICT;
CREATE UNIQUE INDEX identity_fault_open ON identity_fault (what, detail) WHERE adopted_utc IS NULL;
