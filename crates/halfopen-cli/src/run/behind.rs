//! Looks through commands that only start another one (`timeout 60 claude …`, `sh -c 'claude …'`) to the one behind.
//!
//! It serves to choose the rule pack, never the circuit: what cannot be told for certain is left as it is.

use std::ffi::OsString;
use std::path::Path;

/// A command that starts another one and adds nothing of its own to what that prints or returns.
struct Wrapper {
    name: &'static str,
    /// Its short options that take a value.
    short: &'static str,
    /// Its long options that take a value.
    long: &'static [&'static str],
    /// How many arguments stand before the command.
    arguments: usize,
    /// Whether `NAME=VALUE` may stand before the command.
    assigns: bool,
}

const fn wrapper(name: &'static str, short: &'static str, long: &'static [&'static str]) -> Wrapper {
    Wrapper { name, short, long, arguments: 0, assigns: false }
}

const WRAPPERS: [Wrapper; 10] = [
    Wrapper { arguments: 1, ..wrapper("timeout", "ks", &["kill-after", "signal"]) },
    Wrapper { assigns: true, ..wrapper("env", "uCSa", &["unset", "chdir", "split-string", "argv0"]) },
    wrapper("nice", "n", &["adjustment"]),
    wrapper("nohup", "", &[]),
    wrapper("stdbuf", "ioe", &["input", "output", "error"]),
    wrapper("setsid", "", &[]),
    wrapper("ionice", "cnpPu", &["class", "classdata", "pid", "pgid", "uid"]),
    wrapper("time", "fo", &["format", "output"]),
    wrapper("exec", "a", &[]),
    wrapper("command", "", &[]),
];

/// Shells that take a script with `-c`.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

/// What a script does before the one command it is for, without calling anything.
const PREPARES: [&str; 7] = ["cd", "set", "export", "unset", "umask", "ulimit", "shopt"];

/// The command behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    /// Its base name.
    pub name: String,
    /// At which of our words it begins; `None` if it stands in a script.
    pub at: Option<usize>,
}

/// Returns the command behind all that only start it: the command itself if there is nothing to look through.
#[must_use]
pub(super) fn look_through(command: &[OsString]) -> Behind {
    let mut at = 0;
    loop {
        let name = base_name(command.get(at));
        let rest = command.get(at + 1..).unwrap_or_default();
        let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == name);
        if let Some(further) = wrapper.and_then(|wrapper| wrapper.command_in(rest)) {
            at += 1 + further;
            continue;
        }
        let Some(script) = script_of(&name, rest) else { return Behind { name, at: Some(at) } };
        return match only_command(&script) {
            Some(words) => Behind { at: None, ..look_through(&words) },
            None => Behind { name, at: None },
        };
    }
}

/// Returns the last part of a command's path.
#[must_use]
pub(super) fn base_name(command: Option<&OsString>) -> String {
    command
        .and_then(|command| Path::new(command).file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns whether a command of this name is a shell.
#[must_use]
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

impl Wrapper {
    /// Returns where the command stands among the wrapper's arguments, if there is one.
    fn command_in(&self, arguments: &[OsString]) -> Option<usize> {
        let (mut at, mut left, mut options) = (0, self.arguments, true);
        while let Some(word) = arguments.get(at).map(|word| word.to_string_lossy()) {
            if options && word == "--" {
                options = false;
            } else if options && word.starts_with('-') {
                at += usize::from(self.takes_next(&word));
            } else if self.assigns && word.contains('=') {
                options = false;
            } else if left > 0 {
                (left, options) = (left - 1, false);
            } else {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// Returns whether the value of an option is the next word.
    fn takes_next(&self, option: &str) -> bool {
        match option.strip_prefix("--") {
            Some(long) => self.long.contains(&long),
            // Of joined letters the first that takes a value takes the rest of the word, if there is one.
            None => option[1..].find(|letter| self.short.contains(letter)).is_some_and(|at| at + 2 == option.len()),
        }
    }
}

/// Returns the script that a shell is given with `-c`.
fn script_of(shell: &str, arguments: &[OsString]) -> Option<String> {
    if !is_shell(shell) {
        return None;
    }
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        match word.strip_prefix(['-', '+']) {
            None => return None,
            Some(letters) if letters.starts_with('-') => {}
            Some(letters) if word.starts_with('-') && letters.contains('c') => {
                return words.find(|word| !word.starts_with(['-', '+'])).map(std::borrow::Cow::into_owned);
            }
            // `-o pipefail`.
            Some(letters) if letters.ends_with(['o', 'O']) => drop(words.next()),
            Some(_) => {}
        }
    }
    None
}

/// Returns the words of the one command that a script is for; `None` if there are several, or none.
fn only_command(script: &str) -> Option<Vec<OsString>> {
    let mut commands = commands_of(script)?.into_iter().filter_map(|words| {
        let words: Vec<String> = words.into_iter().skip_while(|word| is_assignment(word)).collect();
        let first = words.first()?;
        (!PREPARES.contains(&first.as_str())).then_some(words)
    });
    let only = commands.next()?;
    commands.next().is_none().then(|| only.into_iter().map(OsString::from).collect())
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_of_a_name)
    })
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Splits a script into its commands and their words, as far as that is needed to tell which commands they are: nothing
/// is expanded. `None` if a quote is not closed.
fn commands_of(script: &str) -> Option<Vec<Vec<String>>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let (mut quote, mut chars) = (None, script.chars().peekable());
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(chars.next()),
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            // `2>&1` and `&>file` join no commands.
            (None, '&') if word.as_ref().is_some_and(|word| word.ends_with(['>', '<'])) => {
                word.get_or_insert_default().push(c);
            }
            (None, '&') if chars.peek() == Some(&'>') => word.get_or_insert_default().push(c),
            (None, ';' | '&' | '|' | '\n' | '(' | ')' | '`') => {
                commands.last_mut()?.extend(word.take());
                commands.push(Vec::new());
            }
            (None, _) if c.is_whitespace() => commands.last_mut()?.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    commands.last_mut()?.extend(word);
    quote.is_none().then_some(commands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn seen(words: &[&str]) -> (String, Option<usize>) {
        let behind = look_through(&words.iter().map(OsString::from).collect::<Vec<_>>());
        (behind.name, behind.at)
    }

    #[test_case(&["claude", "-p", "x"], 0)]
    #[test_case(&["timeout", "60", "claude"], 1 + 1)]
    #[test_case(&["timeout", "-k", "5", "-s", "INT", "60", "/opt/claude"], 6)]
    #[test_case(&["timeout", "-k5", "--signal=INT", "--foreground", "60", "claude"], 5)]
    #[test_case(&["timeout", "-vk", "5", "60", "claude"], 4; "joined letters")]
    #[test_case(&["timeout", "--kill-after", "5", "--", "60", "claude"], 5)]
    #[test_case(&["/usr/bin/env", "FOO=1", "B=", "claude"], 3)]
    #[test_case(&["env", "-i", "-u", "HOME", "-C", "/", "A=1", "claude"], 7)]
    #[test_case(&["env", "-", "claude"], 2)]
    #[test_case(&["nice", "claude"], 1)]
    #[test_case(&["nice", "-n", "5", "claude"], 3)]
    #[test_case(&["nice", "-5", "claude"], 2)]
    #[test_case(&["nohup", "claude"], 1)]
    #[test_case(&["stdbuf", "-oL", "-e", "0", "claude"], 4)]
    #[test_case(&["setsid", "-w", "claude"], 2)]
    #[test_case(&["ionice", "-c", "3", "claude"], 3)]
    #[test_case(&["ionice", "-c2", "-n7", "claude"], 3)]
    #[test_case(&["time", "-p", "claude"], 2)]
    #[test_case(&["time", "-f", "%e", "-o", "f", "claude"], 5)]
    #[test_case(&["nohup", "nice", "-n", "5", "timeout", "60", "claude"], 6; "several")]
    fn a_wrapper_is_looked_through(words: &[&str], at: usize) {
        assert_eq!(seen(words), ("claude".to_owned(), Some(at)));
    }

    #[test_case(&["sh", "-c", "claude -p x"])]
    #[test_case(&["bash", "-euo", "pipefail", "-c", "claude -p 'a; b | c'"])]
    #[test_case(&["bash", "-lc", "cd /srv && FOO=1 exec claude -p \"$(cat prompt)\" > out 2>&1"])]
    #[test_case(&["sh", "-ec", "set -u; timeout 60 claude # | jq"])]
    #[test_case(&["timeout", "60", "sh", "-c", "claude"])]
    #[test_case(&["sh", "-c", "sh -c 'claude'"])]
    fn the_one_command_of_a_script_is_found_but_has_no_place_of_its_own(words: &[&str]) {
        assert_eq!(seen(words), ("claude".to_owned(), None));
    }

    #[test_case(&["sh", "-c", "git pull && claude"], "sh"; "two commands")]
    #[test_case(&["sh", "-c", "curl x | jq ."], "sh"; "a pipeline")]
    #[test_case(&["sh", "-c", "claude; exit 1"], "sh"; "a code of its own")]
    #[test_case(&["sh", "-c", "claude 'x"], "sh"; "a broken script")]
    #[test_case(&["sh", "-c", ""], "sh"; "an empty script")]
    #[test_case(&["sh", "script.sh"], "sh"; "a file")]
    #[test_case(&["timeout", "60"], "timeout"; "nothing behind")]
    #[test_case(&["env", "-S", "claude -p"], "env"; "a command in one word")]
    #[test_case(&["env"], "env"; "only a listing")]
    #[test_case(&["ionice", "-p", "17"], "ionice"; "a process that runs")]
    #[test_case(&[], ""; "no command at all")]
    fn what_cannot_be_told_stays_as_it_is(words: &[&str], name: &str) {
        assert_eq!(seen(words).0, name);
    }
}
