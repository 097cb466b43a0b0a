//! What must hold for any string of bytes as a walk of a circuit. The fuzz target, the properties and the replay of its
//! corpus share it; each includes the world, the walk and the model beside it.

use crate::model;
use crate::walk::Walk;

/// Walks along `bytes`, checks every stop, and compares with the naive model.
///
/// # Panics
///
/// If it does not hold.
pub(crate) fn circuit(bytes: &[u8]) {
    Walk::along(bytes, |walk, step, done| walk.check(step, done));
    model::compare(bytes);
}
