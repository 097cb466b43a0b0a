//! `halfopen man`: the manual pages, made of the same lists that `--help` shows, so that they are never older than it.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use super::{Done, Failure, OK, out};
use crate::args::Cli;
use crate::exit;

/// Arguments of `halfopen man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for a page of each command; without it the first page is printed
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

pub(super) fn run(args: &ManArgs) -> Done {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page).map_err(|error| Failure::new(exit::IO, error))?;
        out::text(&String::from_utf8_lossy(&page))?;
        return OK;
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .map_err(|error| Failure::new(exit::IO, format!("cannot write pages into {}: {error}", dir.display())))?;
    OK
}
