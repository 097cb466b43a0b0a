//! `halfopen jobs output ID`: what a job gave, as it came.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen_core::job::{JobId, JobResult};

use super::super::place::Place;
use super::super::remote::{At, Remote};
use super::super::{Done, Failure, OK};
use super::{known, possible};
use crate::{exit, ui};

/// Arguments of `halfopen jobs output`.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// The job
    #[arg(value_name = "ID")]
    pub id: JobId,
    /// Write it to FILE, whole or not at all
    #[arg(long, env = "HALFOPEN_OUTPUT", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What the command said on standard error, secrets replaced, instead of its standard output
    #[arg(long, env = "HALFOPEN_STDERR", value_parser = BoolishValueParser::new())]
    pub stderr: bool,
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(place: &Place, args: &OutputArgs) -> Done {
    let handle = place.open_existing()?;
    let detail = known(place, &handle, args.id)?;
    let state = detail.view.job.state();
    let Some(result) = detail.result else {
        let message = format!("job {} is {state} and has given nothing so far", args.id);
        return Err(Failure::new(exit::FOUND, message).hint(possible(args.id, state)));
    };
    let (bytes, cut) = match (result, args.stderr) {
        (JobResult::Command { stderr, .. }, true) => (stderr.into_bytes(), false),
        (JobResult::Command { stdout, cut, .. }, false) => (stdout, cut),
        (JobResult::Http { .. } | JobResult::Stated(_), true) => {
            let message = format!("job {} is no command and has no standard error", args.id);
            return Err(Failure::new(exit::USAGE, message));
        }
        (JobResult::Http { body, cut, .. }, false) => (body, cut),
        (JobResult::Stated(words), false) => ((words + "\n").into_bytes(), false),
    };
    hand_on(args, &bytes, cut)
}

/// Prints what a job of a running gateway gave.
pub(super) fn of_gateway(gateway: &Remote, args: &OutputArgs) -> Done {
    if args.stderr {
        let failure = Failure::new(exit::USAGE, "a gateway does not tell what a command said on standard error");
        return Err(failure.hint("leave --stderr out, or ask on the machine of the store, without --url"));
    }
    let (bytes, cut) = gateway.kept(&format!("/jobs/{}/result", args.id))?;
    hand_on(args, &bytes, cut)
}

fn hand_on(args: &OutputArgs, bytes: &[u8], cut: bool) -> Done {
    match &args.output {
        Some(path) => write_whole(path, bytes)
            .map_err(|error| Failure::new(exit::IO, format!("{} cannot be written: {error}", path.display())))?,
        None => write_out(bytes)?,
    }
    if cut {
        ui::warn(&format!("that is not all: only the first {} bytes of it were kept", bytes.len()));
    }
    OK
}

fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        // A reader that left has what it wanted.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::new(exit::IO, format!("standard output cannot be written: {error}"))),
    }
}

/// Writes a file beside its place and renames it; a device or a pipe is written as it is.
fn write_whole(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or_else(|| std::path::Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}
