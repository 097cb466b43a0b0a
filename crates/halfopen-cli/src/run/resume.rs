//! Goes on where an interrupted run of an agent stopped, in the tool's own session, instead of from the beginning.
//!
//! Only with `--resume`, and only where the rule pack knows how. The session is the one that the tool named in its
//! output, else one that we chose for the first attempt. The prompt is never sent again: the arguments that go on
//! replace it, and standard input, which may hold it, stays empty.

use std::ffi::OsString;

use halfopen_core::classify::Resume;

/// How a call goes on after an interruption.
#[derive(Debug)]
pub(super) struct Session<'a> {
    how: &'a Resume,
    /// At which word the tool's own command begins, behind what only starts it.
    at: usize,
    /// The session, as far as it is known.
    id: Option<String>,
}

/// Where `{session}` stands in a pack's arguments.
const SESSION: &str = "{session}";

impl<'a> Session<'a> {
    /// Returns how the call can go on; the tool's own command begins at word `at`.
    #[must_use]
    pub(super) fn new(how: &'a Resume, at: usize) -> Self {
        Self { how, at, id: None }
    }

    /// Returns the command of the first attempt: with a session of our choice, where the tool takes one and the user
    /// has not chosen one.
    #[must_use]
    pub(super) fn first(&mut self, command: &[OsString]) -> Vec<OsString> {
        let chosen = command.iter().skip(self.at + 1).any(|word| is_flag_of(word, &self.how.session_flags));
        if self.how.open_with.is_empty() || chosen {
            return command.to_vec();
        }
        let id = new_session();
        let mut first: Vec<OsString> = command.iter().take(self.at + 1).cloned().collect();
        first.extend(filled(&self.how.open_with, &id));
        first.extend(command.iter().skip(self.at + 1).cloned());
        self.id = Some(id);
        first
    }

    /// Notes the session that the tool named.
    pub(super) fn named(&mut self, id: Option<&String>) {
        if let Some(id) = id {
            self.id = Some(id.clone());
        }
    }

    /// Returns the command that goes on: the arguments that go on stand in the place of the prompt, which is the last
    /// argument that is neither a flag nor the value of one, or came by standard input. `None` as long as no session is
    /// known, or where the prompt cannot be told.
    #[must_use]
    pub(super) fn next(&self, command: &[OsString], prompt_by_stdin: bool) -> Option<Vec<OsString>> {
        let id = self.id.as_ref()?;
        let (program, arguments) = command.split_at_checked(self.at + 1)?;
        let (mut kept, prompt) = self.without_session(arguments);
        let go_on: Vec<OsString> = filled(&self.how.go_on_with, id).collect();
        match prompt {
            Some(at) => drop(kept.splice(at..=at, go_on)),
            None if prompt_by_stdin => kept.extend(go_on),
            None => return None,
        }
        Some([program, &kept].concat())
    }

    /// Returns the arguments without those that choose a session, and where the prompt stands among them.
    fn without_session(&self, arguments: &[OsString]) -> (Vec<OsString>, Option<usize>) {
        let mut kept = Vec::new();
        let mut prompt = None;
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            if !text.starts_with('-') || text == "-" {
                prompt = Some(kept.len());
                kept.push(word.clone());
                continue;
            }
            let takes_next = !text.contains('=') && is_flag_of(word, &self.how.value_flags);
            let value = if takes_next { words.next() } else { None };
            if !is_flag_of(word, &self.how.session_flags) {
                kept.push(word.clone());
                kept.extend(value.cloned());
            }
        }
        (kept, prompt)
    }
}

/// Returns whether a word is one of `flags`, alone or as `--flag=value`.
fn is_flag_of(word: &OsString, flags: &[String]) -> bool {
    let text = word.to_string_lossy();
    let name = text.split_once('=').map_or(&*text, |(name, _)| name);
    flags.iter().any(|flag| flag == name)
}

fn filled<'a>(words: &'a [String], id: &'a str) -> impl Iterator<Item = OsString> + 'a {
    words.iter().map(move |word| OsString::from(word.replace(SESSION, id)))
}

/// Returns the name of a new session, in the form of a random UUID (RFC 9562 section 5.4).
fn new_session() -> String {
    let bits = fastrand::u128(..);
    let bits = (bits & !(0xF << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how() -> Resume {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Resume {
            open_with: words(&["--session-id", "{session}"]),
            go_on_with: words(&["--resume", "{session}", "Continue where you stopped."]),
            session_flags: words(&["--session-id", "--resume", "-r", "--continue", "-c"]),
            value_flags: words(&["--model", "--output-format", "--resume"]),
        }
    }

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn text(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_attempt_opens_a_session_and_the_next_goes_on_in_it_without_the_prompt() {
        let how = how();
        let mut session = Session::new(&how, 0);
        let command = words("claude -p --model opus Tidy --output-format=json");
        let first = text(&session.first(&command));
        let id = first.split(' ').nth(2).unwrap().to_owned();
        assert_eq!(first, format!("claude --session-id {id} -p --model opus Tidy --output-format=json"));
        assert_eq!(
            text(&session.next(&command, false).unwrap()),
            format!("claude -p --model opus --resume {id} Continue where you stopped. --output-format=json")
        );
    }

    #[test]
    fn what_only_starts_the_tool_stays_in_front() {
        let how = how();
        let mut session = Session::new(&how, 3);
        let command = words("timeout -k 5s claude -p Tidy");
        let first = text(&session.first(&command));
        assert!(first.starts_with("timeout -k 5s claude --session-id ") && first.ends_with(" -p Tidy"), "{first}");
        let next = text(&session.next(&command, false).unwrap());
        assert!(next.starts_with("timeout -k 5s claude -p --resume "), "{next}");
    }

    #[test]
    fn a_prompt_that_came_by_standard_input_is_replaced_at_the_end() {
        let how = how();
        let mut session = Session::new(&how, 0);
        let command = words("claude -p --model opus");
        let _ = session.first(&command);
        assert_eq!(session.next(&command, false), None, "nobody knows where the prompt is");
        assert!(text(&session.next(&command, true).unwrap()).ends_with("Continue where you stopped."));
    }

    #[test]
    fn a_session_that_the_tool_names_goes_before_ours() {
        let how = how();
        let mut session = Session::new(&how, 0);
        let command = words("claude -p x");
        let _ = session.first(&command);
        session.named(Some(&"abc".to_owned()));
        assert!(text(&session.next(&command, false).unwrap()).contains("--resume abc"));
    }

    #[test]
    fn a_session_that_the_user_chose_is_left_alone() {
        let how = how();
        let mut session = Session::new(&how, 0);
        let command = words("claude --resume mine -p x");
        assert_eq!(session.first(&command), command);
        assert_eq!(session.next(&command, false), None, "nothing is known yet");
        session.named(Some(&"mine".to_owned()));
        assert_eq!(
            text(&session.next(&command, false).unwrap()),
            "claude -p --resume mine Continue where you stopped."
        );
    }

    #[test]
    fn sessions_look_like_random_uuids_and_differ() {
        let (a, b) = (new_session(), new_session());
        assert_ne!(a, b);
        assert_eq!(a.len(), 36);
        assert_eq!(&a[14..15], "4");
        assert!("89ab".contains(&a[19..20]));
    }
}
