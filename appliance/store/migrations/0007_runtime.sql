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
CREATE UNIQUE INDEX hold_on ON hold (source) WHERE ended_utc IS NULL;

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
