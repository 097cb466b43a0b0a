//! What is shown of circuits, of jobs and of the journal, in the forms that scripts and programs rely on.
//!
//! `status --json` and `GET /circuits`, `why --json` and `GET /circuits/{id}`, `events --json` and `GET /events` are the
//! same documents, because they are written here and nowhere else. [`Told`] can be read back from its document, so that
//! the commands show a running gateway's circuits in the same words as those of a store they opened themselves.

pub(crate) mod when;
mod audit;
mod circuit;
mod dependency;
mod event;
mod job;
mod progress;
mod read;

pub(crate) use audit::audit_document;
pub(crate) use circuit::{Line, SHADOW, Told, fate, named, next_step, state_word};
pub(crate) use dependency::dependencies;
pub(crate) use event::{circuit_of, event_json};
pub(crate) use job::{does, job_document, job_line};
pub(crate) use progress::{Progress, jobs_json};
pub(crate) use read::event as read_event;
pub(crate) use when::When;
