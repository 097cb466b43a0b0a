//! Jobs from outside: one binary, one file per subject.

#[cfg(test)]
mod steps;
