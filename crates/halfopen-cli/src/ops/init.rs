//! `halfopen init`: a policy to start from, in which every line can be left as it is.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::config::default_path;

use super::{Done, Failure, OK};
use crate::args::Shared;
use crate::{exit, ui};

/// The policy that is written.
pub(super) const STARTER: &str = include_str!("starter.yaml");

/// Arguments of `halfopen init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Where to write [default: --policy, else $XDG_CONFIG_HOME/halfopen/halfopen.yaml]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Overwrite a file that is there
    #[arg(long, env = "HALFOPEN_FORCE", value_parser = BoolishValueParser::new())]
    pub force: bool,
}

pub(super) fn run(shared: &Shared, args: &InitArgs) -> Done {
    let named = args.file.clone().or_else(|| shared.policy.clone()).filter(|path| !path.as_os_str().is_empty());
    let Some(path) = named.or_else(default_path) else {
        return Err(Failure::new(exit::USAGE, "there is no place for a policy: HOME is not set")
            .hint("name a file: halfopen init halfopen.yaml"));
    };
    let shown = path.display();
    let cannot = |error: std::io::Error| Failure::new(exit::IO, format!("{shown} cannot be written: {error}"));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    let mut options = OpenOptions::new();
    options.write(true);
    if args.force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = match options.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::new(exit::USAGE, format!("{shown} is there already and was left as it is"))
                .hint("halfopen init --force overwrites it, halfopen check explains it"));
        }
        Err(error) => return Err(cannot(error)),
    };
    file.write_all(STARTER.as_bytes()).map_err(cannot)?;
    ui::say_with_hint(
        &format!("wrote {shown}"),
        &format!("edit it, then halfopen check {}", ui::shell_word(&shown.to_string())),
    );
    OK
}
