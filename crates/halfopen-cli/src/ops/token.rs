//! `halfopen token NAME`: a new token for an operator or a caller of a gateway.
//!
//! The token is written to standard output, once, and nowhere else; the gateway's file gets a line that knows it and from
//! which it cannot be told.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use clap::Args;

use super::{Done, Failure, OK, out};
use crate::token;
use crate::{exit, ui};

/// Arguments of `halfopen token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// Whose it is: stands in the journal beside what its owner does
    #[arg(value_name = "NAME")]
    pub name: String,
    /// File of tokens to append the line to; without it the line is shown on standard error
    #[arg(long, env = "HALFOPEN_FILE", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

pub(super) fn run(args: &TokenArgs) -> Done {
    let name =
        token::name_of(&args.name).map_err(|why| Failure::new(exit::USAGE, format!("`{}`: {why}", args.name)))?;
    let (token, line) = token::make(&name)
        .map_err(|error| Failure::new(exit::IO, format!("the system gives no random numbers: {error}")))?;
    match &args.file {
        None => ui::say_with_hint(
            &line,
            "append this line to the file named with --admin-token-file or --caller-token-file",
        ),
        Some(path) => {
            let cannot = |cause: &dyn std::fmt::Display| {
                Failure::new(exit::IO, format!("token file {} cannot be written: {cause}", path.display()))
            };
            let known = match path.exists() {
                true => token::Tokens::read(path).map(Some),
                false => Ok(None),
            };
            match known {
                Ok(Some(tokens)) if tokens.has_name(&name) => {
                    let failure =
                        Failure::new(exit::USAGE, format!("{} has a token named `{name}` already", path.display()));
                    return Err(failure.hint("remove its line to withdraw it, or choose another name"));
                }
                Ok(_) | Err(token::TokenFileError::Empty { .. }) => {}
                Err(error) => return Err(Failure::new(exit::USAGE, error)),
            }
            let mut file = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .open(path)
                .map_err(|error| cannot(&error))?;
            file.write_all(format!("{line}\n").as_bytes())
                .and_then(|()| file.sync_all())
                .map_err(|error| cannot(&error))?;
            ui::say(&format!("{} knows `{name}` now; a running gateway reads it on SIGHUP", path.display()));
        }
    }
    out::text(&format!("{token}\n"))?;
    OK
}
