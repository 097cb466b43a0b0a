//! Writes to people: tables, durations, hints, warnings.
