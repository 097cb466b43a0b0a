-- One row per circuit; `form` is what halfopen_core::snapshot writes, `wake_at_ms` when time alone changes it.
CREATE TABLE circuits (
    id            TEXT PRIMARY KEY NOT NULL,
    wake_at_ms    INTEGER,
    updated_at_ms INTEGER NOT NULL,
    form          TEXT NOT NULL
) WITHOUT ROWID;

-- The journal, in the order of commits; `body` is the event record as JSON.
CREATE TABLE events (
    seq        INTEGER PRIMARY KEY,
    at_ms      INTEGER NOT NULL,
    dependency TEXT NOT NULL,
    transition INTEGER NOT NULL,
    body       TEXT NOT NULL
);
CREATE INDEX events_by_dependency ON events (dependency, at_ms);

-- The anchor of the boot this file was last used in. One row.
CREATE TABLE boot (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    boot_id   TEXT NOT NULL,
    anchor_ms INTEGER NOT NULL
);

-- An event as schema 1 wrote it.
INSERT INTO events (at_ms, dependency, transition, body) VALUES (1796040000000, 'ocr', 1,
    '{"at_ms":1796040000000,"event":"tripped","dependency":"ocr","partition":null,"from_state":"closed","to_state":"open","generation":1,"reason":"failures","queued_count":null,"probe_result":null,"details":{}}');
