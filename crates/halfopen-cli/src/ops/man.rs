//! `halfopen man`: the manual pages, made of the same lists that `--help` shows, so that they are never older than it.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use super::{Done, Failure, OK, out};
use crate::args::{Cli, with_usage};
use crate::exit;

/// Arguments of `halfopen man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for a page of each command; without it the first page is printed
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

pub(super) fn run(args: &ManArgs) -> Done {
    let command = with_usage(Cli::command().disable_help_subcommand(true), &|command| synopsis(command));
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(|error| Failure::new(exit::IO, error))?;
        out::text(&String::from_utf8_lossy(&page))?;
        return OK;
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command, dir))
        .map_err(|error| Failure::new(exit::IO, format!("cannot write pages into {}: {error}", dir.display())))?;
    OK
}

/// Returns how a command is written: each option with its value, which the generator of pages leaves out, then what must
/// stand behind them.
fn synopsis(command: &clap::Command) -> String {
    let mut words = vec![command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned()];
    for option in command.get_arguments().filter(|option| !option.is_positional() && !option.is_hide_set()) {
        let takes_value = option.get_action().takes_values();
        let value = option.get_value_names().filter(|_| takes_value);
        let value = value.map(|names| format!(" <{}>", names.join("> <"))).unwrap_or_default();
        let name = match (option.get_long(), option.get_short()) {
            (Some(long), _) => format!("--{long}"),
            (None, Some(short)) => format!("-{short}"),
            (None, None) => continue,
        };
        let word = format!("{name}{value}");
        words.push(if option.is_required_set() { word } else { format!("[{word}]") });
    }
    for positional in command.get_positionals().filter(|positional| !positional.is_hide_set()) {
        words.extend(positional.is_last_set().then(|| "--".to_owned()));
        let name =
            positional.get_value_names().map_or_else(|| positional.get_id().to_string(), |names| names.join(" "));
        let many = if positional.get_num_args().is_some_and(|number| number.max_values() > 1) { "..." } else { "" };
        words.push(if positional.is_required_set() { format!("<{name}>{many}") } else { format!("[{name}]{many}") });
    }
    if command.has_subcommands() {
        words.push("<COMMAND>".to_owned());
    }
    words.join(" ")
}
