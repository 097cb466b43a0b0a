//! Reads the command line of the comparison.

use anyhow::{Context as _, Result, bail};

pub(crate) const HELP: &str = "\
Measures `halfopen serve` beside nginx, HAProxy, Caddy and bare hyper proxies.

Usage: run.sh [REPETITIONS] [OPTIONS]

  REPETITIONS            How often every cell is measured (default 3, at least 1)
  --seconds N            Length of one cell of requests (default 3, 1 to 600)
  --growth N             Requests of the run in which memory may grow (default 1000000; 0 leaves it out)
  --only NAME,NAME       Compare these alone; ratios need `hyper` and `direct` among them
  --peer 'NAME=COMMAND'  Compare one more; {port} and {dependency} in COMMAND become ports on 127.0.0.1
  --help                 Print this

A whole repetition with 8 compared takes about 5 minutes. A look whether all of it works: run.sh 1 --seconds 1 --growth 50000
";

/// What to measure, and how long.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) repetitions: usize,
    /// Length of one cell of requests, in seconds.
    pub(crate) seconds: u64,
    /// Requests of the run in which memory may grow; 0 for none.
    pub(crate) growth: u64,
    only: Vec<String>,
    /// Further gateways: name and command.
    pub(crate) named: Vec<(String, String)>,
}

impl Options {
    /// Reads the words after the program's name; nothing is returned if help was asked for.
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut options = Self { repetitions: 3, seconds: 3, growth: 1_000_000, only: Vec::new(), named: Vec::new() };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} wants a value; see --help"));
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--seconds" => options.seconds = number(&word, &value()?, 1, 600)?,
                "--growth" => options.growth = number(&word, &value()?, 0, 1_000_000_000)?,
                "--only" => options.only = value()?.split(',').map(|name| name.trim().to_owned()).collect(),
                "--peer" => {
                    let text = value()?;
                    let Some((name, command)) = text.split_once('=') else {
                        bail!("--peer {text}: expected NAME=COMMAND");
                    };
                    options.named.push((name.to_owned(), command.to_owned()));
                }
                _ if word.starts_with('-') => bail!("unknown option {word}; see --help"),
                _ => options.repetitions = usize::try_from(number("REPETITIONS", &word, 1, 1000)?)?,
            }
        }
        Ok(Some(options))
    }

    /// Returns whether the peer of this name is to be compared.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

fn number(what: &str, word: &str, least: u64, greatest: u64) -> Result<u64> {
    let value: u64 = word.parse().with_context(|| format!("{what} {word}: not a whole number"))?;
    if !(least..=greatest).contains(&value) {
        bail!("{what} {word}: allowed are {least} to {greatest}");
    }
    Ok(value)
}
