-- The agent: approvals and codes, checks that are due later, escalation tickets, model calls, what a session's model was shown.

ALTER TABLE action ADD COLUMN after_steps TEXT NOT NULL DEFAULT '';   -- ids of steps it needs, parted by spaces
ALTER TABLE action ADD COLUMN expects TEXT NOT NULL DEFAULT '';       -- the effect that is wanted, in words

ALTER TABLE confirmation ADD COLUMN code TEXT NOT NULL DEFAULT '';    -- digits to be read back with the yes; empty: none
ALTER TABLE confirmation ADD COLUMN wrong_codes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE confirmation ADD COLUMN code_read_by TEXT;                -- admission of the answer in which the code was read back
ALTER TABLE confirmation ADD COLUMN answered_who TEXT;                -- principal of whoever answered, JSON
ALTER TABLE confirmation ADD COLUMN answered_mono_ns INTEGER;         -- when the answer came, within answered_boot_id
ALTER TABLE confirmation ADD COLUMN answered_boot_id TEXT;

-- One row a decision about a call that does something: what was allowed, refused or made to ask, by which rule, for whom.
CREATE TABLE approval (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    action_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    subject TEXT NOT NULL,             -- what the call is about: a tag's key, an asset, a topic; may be empty
    decision TEXT NOT NULL CHECK (decision IN ('allow', 'ask', 'deny', 'reset')),
    rule TEXT NOT NULL,
    why TEXT NOT NULL,
    who TEXT NOT NULL,                 -- principal, JSON
    facts TEXT NOT NULL,               -- value, unit and limits of a write; whose yes it was, and whether with the code; JSON
    is_automatic INTEGER NOT NULL CHECK (is_automatic IN (0, 1)),   -- denied without a person having looked at it
    decided_utc TEXT NOT NULL,
    decided_mono_ns INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    clock_synced INTEGER NOT NULL CHECK (clock_synced IN (0, 1)),
    epoch INTEGER NOT NULL
) STRICT;
CREATE INDEX approval_by_session ON approval (session_id, seq);
CREATE INDEX approval_breaker ON approval (session_id, seq) WHERE decision IN ('deny', 'reset') OR rule = 'consent';
CREATE INDEX approval_by_subject ON approval (tool, subject, seq) WHERE decision = 'allow';

-- A check somebody asked for that is made later, once.
CREATE TABLE scheduled_check (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    asked_turn_id TEXT NOT NULL,
    lane TEXT NOT NULL,
    language TEXT NOT NULL,
    principal TEXT NOT NULL,           -- of whoever asked for it, JSON
    intent TEXT NOT NULL,
    slots TEXT NOT NULL,
    what TEXT NOT NULL,                -- in words that are understood again
    after_s REAL NOT NULL,             -- how long after it was asked for it is due
    due_utc TEXT NOT NULL,
    due_mono_ns INTEGER NOT NULL,      -- within boot_id
    boot_id TEXT NOT NULL,
    clock_synced INTEGER NOT NULL CHECK (clock_synced IN (0, 1)),
    status TEXT NOT NULL CHECK (status IN ('waiting', 'started', 'missed', 'cancelled')),
    why TEXT NOT NULL DEFAULT '',
    admission_id TEXT,
    created_utc TEXT NOT NULL,
    ended_utc TEXT,
    CHECK ((status = 'waiting') = (ended_utc IS NULL)),
    CHECK ((status = 'started') = (admission_id IS NOT NULL))
) STRICT;
CREATE INDEX scheduled_check_waiting ON scheduled_check (due_utc) WHERE status = 'waiting';

-- What the appliance could not bring to an end and hands to people (T5).
CREATE TABLE ticket (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    turn_id TEXT NOT NULL,
    action_id TEXT NOT NULL UNIQUE,
    tool TEXT NOT NULL,
    input TEXT NOT NULL,               -- arguments as JSON, what must not be logged left out
    error_code TEXT NOT NULL,
    error TEXT NOT NULL,
    state_hash TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'resolved', 'auto_resolved', 'expired')),
    told TEXT NOT NULL,                -- names of the webhooks it was queued for, parted by spaces; may be empty
    untold_utc TEXT,                   -- when it was found that none of them had taken it, and said
    opened_utc TEXT NOT NULL,
    opened_mono_ns INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    clock_synced INTEGER NOT NULL CHECK (clock_synced IN (0, 1)),
    closed_utc TEXT,
    closed_by TEXT NOT NULL DEFAULT '',
    note TEXT NOT NULL DEFAULT '',
    CHECK ((status = 'open') = (closed_utc IS NULL))
) STRICT;
CREATE INDEX ticket_open ON ticket (seq) WHERE status = 'open';

-- The messages of a ticket: what became of them is in their deliveries.
CREATE TABLE ticket_message (
    delivery_id TEXT PRIMARY KEY,
    ticket_id TEXT NOT NULL,
    change TEXT NOT NULL               -- opened, or how it was closed
) STRICT;
CREATE INDEX ticket_message_of ON ticket_message (ticket_id);

ALTER TABLE delivery ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;    -- all of them; attempts counts those that may have arrived

-- One row a call of a language model, whatever came of it (A4).
CREATE TABLE model_call (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,
    outcome TEXT NOT NULL,             -- ok, partial, or the reason of the failure
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    tokens_cached INTEGER NOT NULL,
    is_estimated INTEGER NOT NULL CHECK (is_estimated IN (0, 1)),
    duration_ms REAL NOT NULL,
    cost REAL,                         -- NULL: not known
    currency TEXT NOT NULL DEFAULT '',
    began_utc TEXT NOT NULL
) STRICT;
CREATE INDEX model_call_by_session ON model_call (session_id, seq);
CREATE INDEX model_call_by_day ON model_call (began_utc);

-- What a session's model is shown of memory and playbooks, frozen when it was first needed (L5).
CREATE TABLE session_snapshot (
    session_id TEXT PRIMARY KEY REFERENCES session (id),
    playbooks_commit TEXT NOT NULL,
    digest TEXT NOT NULL,
    content TEXT NOT NULL,             -- JSON
    taken_utc TEXT NOT NULL
) STRICT;

-- Session tokens that somebody ended before their time, by their id.
CREATE TABLE revoked_token (
    id TEXT PRIMARY KEY,
    revoked_by TEXT NOT NULL,
    note TEXT NOT NULL,
    revoked_utc TEXT NOT NULL
) STRICT;

-- The least that the time is known to be, for tokens: a machine without a clock goes on from it after a restart.
CREATE TABLE token_time (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at_least_utc TEXT NOT NULL,
    mono_ns INTEGER NOT NULL,          -- within boot_id
    boot_id TEXT NOT NULL
) STRICT;
