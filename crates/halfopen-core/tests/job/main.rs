//! Jobs from outside: one binary, one file per subject.

#[cfg(test)]
mod keeping;
#[cfg(test)]
mod steps;
