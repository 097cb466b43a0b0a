//! The places where bytes of strangers are read, as fuzz targets and the replay of their corpora reach them.
//!
//! Each function feeds one reader in the way in which the program feeds it and returns what came of it, in words that
//! can be compared. What must hold of that stands in `fuzz/holds/`. Nothing else may depend on this module: the readers
//! are private, and stay so.

pub use crate::drill::edges::{Rehearsed, rehearsed};
pub use crate::serve::edges::{Framed, Heard, asked, framed, heard};
