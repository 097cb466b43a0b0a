-- What programs are told of ended jobs lies among the alerts, by the job's dependency; alerts to owners have none.
ALTER TABLE alerts ADD COLUMN dependency TEXT;
DROP INDEX alerts_by_due;
CREATE INDEX alerts_by_due ON alerts (dependency, due_at_ms) WHERE due_at_ms IS NOT NULL;

-- How many programs were told of jobs, and of how many jobs nobody was.
CREATE TABLE on_done_figures (
    dependency TEXT PRIMARY KEY NOT NULL,
    told       INTEGER NOT NULL DEFAULT 0,
    given_up   INTEGER NOT NULL DEFAULT 0,
    dropped    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Who asked for a job and by which key, and whether a program is told of its end.
ALTER TABLE jobs ADD COLUMN caller TEXT;
ALTER TABLE jobs ADD COLUMN key TEXT;
ALTER TABLE jobs ADD COLUMN on_done INTEGER NOT NULL DEFAULT 0;
