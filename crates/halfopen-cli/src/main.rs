//! The command `halfopen`.

use std::process::ExitCode;

use halfopen_cli::args::{Cli, Command};

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout with 0; anything else is a usage error.
            let code = if error.use_stderr() { halfopen_cli::exit::USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    ExitCode::from(match &cli.command {
        Command::Run(args) => halfopen_cli::run::run(&cli.shared, args),
        Command::Serve(args) => halfopen_cli::serve::serve(&cli.shared, args),
        Command::Drill(args) => halfopen_cli::drill::drill(&cli.shared, args),
        Command::Demo(args) => halfopen_cli::demo::demo(&cli.shared, args),
        Command::Drain(args) => halfopen_cli::drain::drain(&cli.shared, args),
        Command::Ops(command) => halfopen_cli::ops::run(&cli.shared, command),
    })
}
