//! Lists the dependencies that can be asked about.

use std::collections::BTreeSet;

use halfopen::handle::Handle;
use halfopen::store::StoreError;
use halfopen_core::policy::{Policy, Surface};

/// Returns the names that a question about a dependency may hold: those of the policy, and those that the store knows
/// circuits or jobs of. A question about another one is a slip of the pen, and no answer of nothing.
///
/// # Errors
///
/// If the store cannot be read.
pub(crate) fn dependencies<'a>(
    policy: impl Iterator<Item = &'a str>,
    handle: &Handle,
) -> Result<BTreeSet<String>, StoreError> {
    let mut known: BTreeSet<String> = policy.map(str::to_owned).collect();
    let circuits = handle.circuits(&|dependency| Policy::built_in(dependency, Surface::Serve))?;
    known.extend(circuits.into_iter().map(|view| view.id.dependency().to_owned()));
    known.extend(handle.job_figures()?.into_keys());
    Ok(known)
}
