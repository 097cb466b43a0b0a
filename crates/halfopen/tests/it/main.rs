//! The store and the door from outside: one binary, one file per subject.

#![cfg(feature = "sqlite")]

#[cfg(test)]
mod world;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod jobs_decided;
mod alerts;
#[cfg(test)]
mod jobs_processes;
#[cfg(test)]
mod upgrade;
#[cfg(test)]
mod sqlite_file;
#[cfg(test)]
mod door;
mod draining;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod lost;
mod on_done;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod processes;
