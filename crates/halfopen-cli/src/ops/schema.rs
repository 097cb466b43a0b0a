//! `halfopen schema`: the policy file's JSON Schema, for editors.

use super::{Done, OK, out};

pub(super) fn run() -> Done {
    out::json(&halfopen::config::schema::schema())?;
    OK
}
