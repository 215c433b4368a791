-- Memory tiers two and three. One row, its full-text entry and its vector are written in one transaction.

CREATE TABLE memory (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE,          -- the same write again is the same memory
    tier TEXT NOT NULL CHECK (tier IN ('episodic', 'semantic')),
    scope TEXT NOT NULL,
    asset TEXT NOT NULL,
    fault TEXT NOT NULL,
    text TEXT NOT NULL,
    facts TEXT NOT NULL,
    source_session TEXT NOT NULL,
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    verified INTEGER NOT NULL CHECK (verified IN (0, 1)),
    occurred_utc TEXT NOT NULL,
    stored_utc TEXT NOT NULL
) STRICT;
CREATE INDEX memory_time ON memory (scope, tier, occurred_utc);

CREATE VIRTUAL TABLE memory_text USING fts5 (body, tokenize = 'porter unicode61');

CREATE TABLE memory_vector (
    memory_seq INTEGER PRIMARY KEY REFERENCES memory (seq),
    fingerprint TEXT NOT NULL,         -- model name, version and dimension: spaces never mix
    bits BLOB NOT NULL,
    int8 BLOB NOT NULL,
    scale REAL NOT NULL
) STRICT;

CREATE TABLE memory_rejected (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at_utc TEXT NOT NULL,
    reason TEXT NOT NULL,
    tier TEXT NOT NULL,
    scope TEXT NOT NULL,
    digest TEXT NOT NULL
) STRICT;
