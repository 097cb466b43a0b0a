-- Jobs of one lane can also be performed by the same workers: `http`, or `command:UID:HOST`. Lanes from before hold any.
ALTER TABLE lanes ADD COLUMN kind TEXT;
