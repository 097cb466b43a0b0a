//! `halfopen serve`: an HTTP gateway in the place of dependencies.
//!
//! A program changes its base URL to `http://127.0.0.1:4141/d/NAME`, and from then on its calls are timed, classified,
//! tried again where that is safe, and broken off by policy. The way of a call: `listen` accepts it, `dispatch` tells
//! calls from operators' questions, `call` carries it through: `door` lets an attempt through, `attempt` makes it over
//! `upstream`'s connections with the caller's body (`upload`), `relay` carries the answer back, `judge` says what it was.
//!
//! Everything here is async; the door is not. Where the snapshot in front of the door ([`halfopen::guard`]) cannot
//! answer, the door is asked on a thread that may block.

mod access;
mod api;
mod args;
mod attempt;
mod body;
mod budget;
mod call;
mod counts;
mod credentials;
mod dashboard;
mod dependency;
mod descriptors;
mod dispatch;
mod door;
mod drills;
pub(crate) mod edges;
mod feed;
mod framing;
mod gateway;
mod headers;
mod journal;
mod judge;
mod listen;
mod metrics;
mod notify;
mod panics;
mod partition;
mod probe;
mod problem;
mod pulse;
mod queue;
mod refuse;
mod relay;
mod reload;
mod shutdown;
mod stall;
mod socket;
mod storeless;
mod target;
mod telemetry;
mod tell;
mod upload;
mod upstream;

pub use access::PublicHost;
pub use args::{Address, NamedUrl, ServeArgs};

pub(crate) use queue::HttpHand;

use crate::args::Shared;
use crate::log::Format;
use crate::{exit, log, ui};
use gateway::{Gateway, StartError};
use listen::Ended;

/// Serves until it is told to stop; returns the exit code.
#[must_use]
pub fn serve(shared: &Shared, args: &ServeArgs) -> u8 {
    log::begin(args.log_format, args.log_level);
    panics::told();
    match started(shared, args) {
        Ok(Ended::Whole) => exit::OK,
        Ok(Ended::BrokenOff) => exit::FAILED,
        Err(error) => {
            say_why(&error);
            error.exit_code()
        }
    }
}

/// Says why it does not serve. Whoever just started it reads that, not a log, unless the log is for programs.
fn say_why(error: &StartError) {
    let text = format!("error: {error}");
    match (log::format(), error.hint()) {
        (Some(Format::Json), Some(hint)) => ui::say_with_hint(&text, hint),
        (Some(Format::Json), None) => ui::error(&error.to_string()),
        (Some(Format::Text) | None, Some(hint)) => ui::raw(&format!("halfopen: {text}\n\nhint: {hint}\n")),
        (Some(Format::Text) | None, None) => ui::raw(&format!("halfopen: {text}\n")),
    }
}

fn started(shared: &Shared, args: &ServeArgs) -> Result<Ended, StartError> {
    let mut runtime = match args.threads.map(std::num::NonZeroUsize::get) {
        Some(1) => tokio::runtime::Builder::new_current_thread(),
        None | Some(_) => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Some(threads) = args.threads {
        runtime.worker_threads(threads.get());
    }
    let runtime = runtime.enable_all().thread_name("halfopen").build().map_err(StartError::Runtime)?;
    let gateway = Gateway::start(shared, args)?;
    runtime.block_on(listen::serve(gateway, args))
}
