-- What is remembered of incidents, so that each is told once; `wake_at_ms` is when it is to be told again or forgotten.
CREATE TABLE incidents (
    name       TEXT PRIMARY KEY NOT NULL,
    wake_at_ms INTEGER,
    form       TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX incidents_by_wake ON incidents (wake_at_ms) WHERE wake_at_ms IS NOT NULL;

-- One row per alert, in the order in which they came to be; `due_at_ms` is empty once every channel is done with it.
CREATE TABLE alerts (
    seq       INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    at_ms     INTEGER NOT NULL,
    due_at_ms INTEGER,
    form      TEXT NOT NULL
);
CREATE INDEX alerts_by_due ON alerts (due_at_ms) WHERE due_at_ms IS NOT NULL;
