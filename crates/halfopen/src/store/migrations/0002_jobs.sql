-- Jobs that the same circuits judge lie in one lane, which counts them. `account` is empty where none is known.
CREATE TABLE lanes (
    id            INTEGER PRIMARY KEY,
    dependency    TEXT NOT NULL,
    place         TEXT NOT NULL,
    account       TEXT NOT NULL,
    queued        INTEGER NOT NULL DEFAULT 0,
    running       INTEGER NOT NULL DEFAULT 0,
    done          INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0,
    expired       INTEGER NOT NULL DEFAULT 0,
    manual_review INTEGER NOT NULL DEFAULT 0,
    cancelled     INTEGER NOT NULL DEFAULT 0,
    accepted      INTEGER NOT NULL DEFAULT 0,
    pruned        INTEGER NOT NULL DEFAULT 0,
    open_bytes    INTEGER NOT NULL DEFAULT 0
);

-- One row per job; `form` is what halfopen_core::snapshot writes. `shelf` is where the next one is looked for,
-- `wake_at_ms` when time alone changes it, `entries` how long its history is.
CREATE TABLE jobs (
    seq        INTEGER PRIMARY KEY,
    mark       INTEGER NOT NULL,
    lane       INTEGER NOT NULL,
    shelf      INTEGER NOT NULL,
    wake_at_ms INTEGER,
    bytes      INTEGER NOT NULL,
    entries    INTEGER NOT NULL,
    scope      BLOB,
    order_key  BLOB,
    line       INTEGER,
    form       TEXT NOT NULL
);
CREATE INDEX jobs_by_shelf ON jobs (lane, shelf);
CREATE INDEX jobs_by_wake ON jobs (wake_at_ms) WHERE wake_at_ms IS NOT NULL;

-- What a job sends (part 0) and what came back (part 1); a large body lies in a file beside the store.
CREATE TABLE job_payloads (
    seq  INTEGER NOT NULL,
    part INTEGER NOT NULL,
    head TEXT NOT NULL,
    body BLOB,
    file TEXT,
    PRIMARY KEY (seq, part)
) WITHOUT ROWID;
CREATE INDEX job_payload_files ON job_payloads (file) WHERE file IS NOT NULL;

CREATE TABLE job_history (
    seq  INTEGER NOT NULL,
    n    INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (seq, n)
) WITHOUT ROWID;

-- Idempotency keys, by a digest of dependency, caller and key.
CREATE TABLE job_keys (
    scope   BLOB PRIMARY KEY NOT NULL,
    seq     INTEGER NOT NULL,
    payload BLOB NOT NULL
) WITHOUT ROWID;

-- Open jobs that must not overtake each other; the first in the line of a key is the one that may run.
CREATE TABLE job_order (
    order_key BLOB NOT NULL,
    line      INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    PRIMARY KEY (order_key, line)
) WITHOUT ROWID;
