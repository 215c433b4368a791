-- Memory tiers two and three. One row, its full-text entry, its vector and its operation are written in one transaction.

CREATE TABLE memory (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE,          -- the same write again is the same memory
    tier TEXT NOT NULL CHECK (tier IN ('episodic', 'semantic')),
    scope TEXT NOT NULL CHECK (scope <> ''),
    asset TEXT NOT NULL,
    fault TEXT NOT NULL,
    text TEXT NOT NULL,
    facts TEXT NOT NULL,
    digest TEXT NOT NULL,              -- of the text, folded to words: the same words again are known without a vector
    source_session TEXT NOT NULL CHECK (source_session <> ''),
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    verified INTEGER NOT NULL CHECK (verified IN (0, 1)),
    occurred_utc TEXT NOT NULL,
    stored_utc TEXT NOT NULL,
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0)
) STRICT;
CREATE INDEX memory_time ON memory (scope, tier, occurred_utc);
CREATE INDEX memory_case ON memory (scope, tier, asset, fault, occurred_utc);
CREATE INDEX memory_fault ON memory (scope, tier, fault, occurred_utc);
CREATE INDEX memory_words ON memory (scope, tier, digest);
CREATE INDEX memory_age ON memory (tier, occurred_utc);

-- Han runs are split into pairs of characters before they come here: unicode61 would take a whole sentence for one word.
CREATE VIRTUAL TABLE memory_text USING fts5 (body, tokenize = 'porter unicode61');
CREATE VIRTUAL TABLE memory_term USING fts5vocab (memory_text, 'row');

CREATE TABLE memory_vector (
    memory_seq INTEGER PRIMARY KEY REFERENCES memory (seq),
    fingerprint TEXT NOT NULL,         -- model name, version, dimension and weights: spaces never mix
    bits BLOB NOT NULL,                -- signs, most significant bit first
    int8 BLOB NOT NULL,                -- one signed byte a dimension; times scale is the value
    scale REAL NOT NULL CHECK (scale > 0),
    CHECK (length(bits) * 8 = length(int8))
) STRICT;

-- What is held, kept by the database itself so that the size bound is checked without a scan.
CREATE TABLE memory_volume (
    tier TEXT PRIMARY KEY,
    memories INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO memory_volume VALUES ('episodic', 0, 0), ('semantic', 0, 0);

CREATE TRIGGER memory_counted AFTER INSERT ON memory BEGIN
    UPDATE memory_volume SET memories = memories + 1, bytes = bytes + new.size_bytes WHERE tier = new.tier;
END;
CREATE TRIGGER memory_uncounted AFTER DELETE ON memory BEGIN
    UPDATE memory_volume SET memories = memories - 1, bytes = bytes - old.size_bytes WHERE tier = old.tier;
    DELETE FROM memory_vector WHERE memory_seq = old.seq;
    DELETE FROM memory_text WHERE rowid = old.seq;
END;

CREATE TABLE memory_rejected (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at_utc TEXT NOT NULL,
    key TEXT NOT NULL,
    reason TEXT NOT NULL,
    tier TEXT NOT NULL,
    scope TEXT NOT NULL,
    source_session TEXT NOT NULL,
    digest TEXT NOT NULL,
    UNIQUE (key, digest)               -- a rejected write tried again is the same rejection
) STRICT;
