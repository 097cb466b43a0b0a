//! Touches the world: the command `halfopen`, its arguments, its messages, its exit codes.

pub mod args;
pub mod exit;
pub mod log;
pub mod ui;
pub mod duration;
pub mod alerts;
mod shown;
mod tls;
mod post;
mod otlp;
mod token;
pub mod gateway_url;
mod work;
pub mod run;
pub mod serve;
pub mod ops;
pub mod drain;
pub mod drill;
pub mod demo;
#[doc(hidden)]
pub mod edges;
