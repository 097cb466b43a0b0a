//! Keeps a call that its dependency cannot do now: what is stored of a command, and when it is not stored.
//!
//! A job must do later, on the same machine and for the same user, what the caller asked for now, and the store must
//! hold no secret. So of the environment only what is named is kept: by value a few variables that say who and where
//! somebody is ([`BASE`], `LC_*`) and those of `--env`; by name alone those of `--env-from`, which are read when the job
//! runs. Keeping everything but what looks like a secret was refused: what does not look like one would be kept. The
//! executable is looked up now, so that another `PATH` later does not choose another program.
//!
//! Standard input is read to its end, as a command that reads all of it would have. Whatever cannot be kept whole is not
//! kept, and the caller is told why.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use halfopen::handle::Handle;
use halfopen::handle::jobs::{Accepted, EnqueueError, JobKey, NewJob, Receipt};
use halfopen::store::{Location, StoreError};
use halfopen_core::job::{self, BeyondTtl, CommandRequest, JobId, JobRequest, KEY_LIVES, Reason, Safety, Terms};
use halfopen_core::redact;
use halfopen_core::time::Timestamp;
use rustix::process::Signal;
use sha2::{Digest as _, Sha256};

use super::RunArgs;
use super::child::signals::Signals;
use super::child::source::{Source, Unread};
use super::plan::Plan;

/// Set for a command that is a job, to its id: a run inside it does not keep the same work a second time.
pub(super) const JOB_VARIABLE: &str = "HALFOPEN_JOB";
/// The variable in which a command finds its idempotency key.
pub(super) const KEY_VARIABLE: &str = "HALFOPEN_IDEMPOTENCY_KEY";

/// Variables that are kept with their values: who somebody is, where programs and files are, how text looks.
const BASE: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// How long standard input may take to end where an attempt has no limit.
const INPUT_WITHIN: Duration = Duration::from_secs(600);

/// Whose keys those are that were made out of what a command does.
const MADE: &str = "made by halfopen run";

/// A variable's name and its value.
type Variable = (Vec<u8>, Vec<u8>);

/// A call that was kept.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// The job.
    pub receipt: Receipt,
    /// Whether it was there already.
    pub joined: bool,
    /// Set if the time that was stated lies beyond its time to live, so that it waits for a person.
    pub beyond: Option<BeyondTtl>,
}

/// Why a call was not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotKept {
    /// It carries a secret.
    #[error("{0} carries a secret, and secrets are not stored")]
    Secret(String),
    /// A variable that was to be kept is not set, or was named without sense.
    #[error("variable `{0}` is not set")]
    NotSet(String),
    /// Its input is longer than is kept.
    #[error("its standard input is longer than is kept (replay_body_bytes_max, {0} bytes)")]
    InputTooLong(u64),
    /// Its input did not end.
    #[error("its standard input did not end within {}", crate::duration::show(*.0))]
    InputEndless(Duration),
    /// Its input cannot be read.
    #[error("its standard input cannot be read: {0}")]
    Input(io::Error),
    /// We were told to end.
    #[error("it was cancelled")]
    Cancelled(Signal),
    /// There is no such command.
    #[error("there is no executable `{0}`")]
    NoCommand(String),
    /// The folder we are in is not there any more.
    #[error("the working directory is not to be had: {0}")]
    NoFolder(io::Error),
    /// It would expire before it could be sent.
    #[error(transparent)]
    Beyond(BeyondTtl),
    /// The key belongs to another call.
    #[error("the idempotency key was used for job {0} with another command or input")]
    KeyTaken(JobId),
    /// There is no room.
    #[error("{0}")]
    Full(EnqueueError),
    /// It cannot be made durable.
    #[error("the store cannot keep it: {0}")]
    NotDurable(EnqueueError),
}

impl NotKept {
    /// Returns it as a word of reports.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Secret(_) => "caller_secret",
            Self::NotSet(_) => "env_not_set",
            Self::InputTooLong(_) => "input_too_long",
            Self::InputEndless(_) => "input_endless",
            Self::Input(_) => "input_unreadable",
            Self::Cancelled(_) => "cancelled",
            Self::NoCommand(_) => "not_found",
            Self::NoFolder(_) => "no_folder",
            Self::Beyond(_) => "hint_beyond_ttl",
            Self::KeyTaken(_) => "key_taken",
            Self::Full(_) => "queue_full",
            Self::NotDurable(_) => "not_durable",
        }
    }

    /// Returns what its caller can do about it.
    pub(super) const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Secret(_) => Some(
                "--env-from NAME hands a secret on in a variable: only its name is stored, its value is read when the job \
                 runs",
            ),
            Self::InputTooLong(_) | Self::InputEndless(_) | Self::Input(_) => {
                Some("-n gives the command an empty standard input; or name a file as an argument")
            }
            Self::Full(_) => Some("halfopen jobs list; halfopen drain --once"),
            Self::KeyTaken(_) => Some("another call needs another key"),
            Self::NotSet(_)
            | Self::Cancelled(_)
            | Self::NoCommand(_)
            | Self::NoFolder(_)
            | Self::Beyond(_)
            | Self::NotDurable(_) => None,
        }
    }
}

/// What is needed to keep a call.
pub(super) struct Keeper<'a> {
    /// What was planned.
    pub plan: &'a Plan,
    /// What was asked for.
    pub args: &'a RunArgs,
    /// The door.
    pub handle: &'a Handle,
    /// Signals to us, also while input is read.
    pub signals: &'a mut Signals,
    /// Its input.
    pub source: &'a mut Source,
    /// Not before then, by the dependency's own word.
    pub stated: Option<Timestamp>,
}

impl Keeper<'_> {
    /// Keeps the call, for a person if there is a reason for that. It is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// Why it was not kept. Nothing was changed then.
    pub(super) fn keep(&mut self, review: Option<Reason>) -> Result<Kept, NotKept> {
        let (plan, args) = (self.plan, self.args);
        if plan.store == Location::Memory {
            // It would end with this process.
            return Err(NotKept::NotDurable(StoreError::Lost("it is in memory".to_owned()).into()));
        }
        let request = self.request()?;
        let made = args.idempotency_key.is_none();
        let key = match &args.idempotency_key {
            Some(key) => Some(JobKey { caller: String::new(), key: key.clone() }),
            None if args.no_coalesce => None,
            None => Some(JobKey { caller: MADE.to_owned(), key: self.digest(&request) }),
        };
        let new = NewJob {
            terms: Terms {
                place: plan.route.place.clone(),
                account: plan.route.account.clone(),
                ttl: args.ttl.unwrap_or_else(|| job::ttl(&plan.policy)),
                on_expiry: plan.policy.on_open.on_expiry,
                safety: self.safety(),
                keep: plan.wiring.queue.keep_done,
            },
            request: JobRequest::Command(request),
            key,
            order_key: args.order_key.clone(),
            review,
            retry_at: self.stated,
            bounds: plan.wiring.queue,
            caller: None,
            on_done: !plan.wiring.on_done.is_empty(),
        };
        let kept = if made { self.handle.enqueue_or_join(new) } else { self.handle.enqueue(new) };
        match kept {
            Ok(Accepted::New(receipt)) => Ok(Kept { receipt, joined: false, beyond: None }),
            Ok(Accepted::Replayed(receipt)) => Ok(Kept { receipt, joined: true, beyond: None }),
            Err(EnqueueError::BeyondTtl(beyond)) => Err(NotKept::Beyond(beyond)),
            Err(EnqueueError::KeyTaken(id)) => Err(NotKept::KeyTaken(id)),
            Err(full @ (EnqueueError::TooManyJobs { .. } | EnqueueError::TooManyBytes { .. })) => {
                Err(NotKept::Full(full))
            }
            Err(error) => Err(NotKept::NotDurable(error)),
        }
    }

    /// Returns what makes a second execution harmless.
    fn safety(&self) -> Safety {
        match &self.plan.wiring.idempotency {
            Some(idempotency) if self.args.idempotency_key.is_some() => {
                let pack = self.plan.classifier.defaults().idempotency.as_ref().map(|known| known.lifetime);
                Safety::Keyed { lifetime: idempotency.lifetime.or(pack).unwrap_or(KEY_LIVES) }
            }
            _ if !self.plan.classifier.defaults().failed_attempts_have_effects => Safety::Idempotent,
            _ => Safety::Unsafe,
        }
    }

    /// Returns the command as it is stored.
    fn request(&mut self) -> Result<CommandRequest, NotKept> {
        let args = self.args;
        let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
        if let Some(secret) = redact::secret_in_args(words.iter().map(AsRef::as_ref)) {
            return Err(NotKept::Secret(format!("argument {} (`{}`)", secret.index, secret.shown)));
        }
        let env = self.environment()?;
        let cwd = std::env::current_dir().map_err(NotKept::NoFolder)?;
        let name = args.command.first().cloned().unwrap_or_default();
        let executable = find(&name, &cwd, std::env::var_os("PATH").as_deref())
            .ok_or_else(|| NotKept::NoCommand(name.to_string_lossy().into_owned()))?;
        let (max, within) = (self.plan.policy.replay_body_bytes_max, self.plan.policy.timeout.unwrap_or(INPUT_WITHIN));
        let stdin = self.source.whole(max, within, self.signals).map_err(|unread| match unread {
            Unread::TooLong => NotKept::InputTooLong(max),
            Unread::Endless => NotKept::InputEndless(within),
            Unread::Cancelled(signal) => NotKept::Cancelled(signal),
            Unread::Failed(error) => NotKept::Input(error),
        })?;
        Ok(CommandRequest {
            host: host(),
            user: rustix::process::getuid().as_raw(),
            executable: executable.into_os_string().as_bytes().to_vec(),
            argv: args.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
            cwd: cwd.as_os_str().as_bytes().to_vec(),
            env,
            env_from: args.env_from.clone(),
            stdin,
            output: None,
            profile: args.profile.clone(),
            timeout: args.timeout,
        })
    }

    /// Returns the variables that are kept with their values.
    fn environment(&self) -> Result<Vec<Variable>, NotKept> {
        let mut kept = Vec::new();
        for (name, value) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let named = self.args.env_from.iter().any(|other| *other == *text);
            if named || !(BASE.contains(&&*text) || text.starts_with("LC_")) {
                continue;
            }
            let shown = value.to_string_lossy();
            if redact::redact(&shown) != *shown {
                return Err(NotKept::Secret(format!("variable `{text}`")));
            }
            kept.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        for name in &self.args.env {
            let value = std::env::var_os(name).ok_or_else(|| NotKept::NotSet(name.clone()))?;
            let pair = format!("{name}={}", value.to_string_lossy());
            if redact::redact(&pair) != pair {
                return Err(NotKept::Secret(format!("variable `{name}`")));
            }
            kept.retain(|(other, _)| other != name.as_bytes());
            kept.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        if let Some(missing) = self.args.env_from.iter().find(|name| std::env::var_os(name).is_none()) {
            return Err(NotKept::NotSet(missing.clone()));
        }
        kept.extend(
            self.args.idempotency_key.iter().map(|key| (KEY_VARIABLE.as_bytes().to_vec(), key.as_bytes().to_vec())),
        );
        kept.sort();
        Ok(kept)
    }

    /// Returns the key of a command that was given none: the same command on the same input in the same folder is the
    /// same work. Of the environment only what was named for it counts, so that a shell's and cron's are no difference.
    fn digest(&self, request: &CommandRequest) -> String {
        let mut hasher = Sha256::new();
        let mut add = |word: &[u8]| {
            hasher.update((word.len() as u64).to_le_bytes());
            hasher.update(word);
        };
        let route = &self.plan.route;
        add(route.place.to_string().as_bytes());
        add(route.account.as_ref().map(ToString::to_string).unwrap_or_default().as_bytes());
        add(self.args.order_key.as_deref().unwrap_or_default().as_bytes());
        add(&request.cwd);
        add(&request.stdin);
        for name in &self.args.env {
            let value = std::env::var_os(name).unwrap_or_default();
            add(name.as_bytes());
            add(value.as_bytes());
        }
        add(request.env_from.join(",").as_bytes());
        for word in &request.argv {
            add(word);
        }
        hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the name of this machine.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns whether we run inside a job.
pub(super) fn inside_a_job() -> bool {
    std::env::var_os(JOB_VARIABLE).is_some_and(|id| !id.is_empty())
}

/// Returns the file that a command's name means, as `execvp` finds it.
fn find(name: &OsStr, cwd: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.as_bytes().contains(&b'/') {
        let file = cwd.join(name);
        return is_executable(&file).then_some(file);
    }
    let path = path.map_or_else(|| OsString::from("/usr/bin:/bin"), OsStr::to_owned);
    // An empty or relative entry means the folder we are in.
    std::env::split_paths(&path).map(|folder| cwd.join(folder).join(name)).find(|file| is_executable(file))
}

/// Returns whether a file is there and somebody may execute it.
pub(super) fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_as_a_shell_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for name in ["a/tool", "b/tool", "a/text"] {
            std::fs::create_dir_all(place(name).parent().unwrap()).unwrap();
            std::fs::write(place(name), "").unwrap();
        }
        for name in ["b/tool", "a/tool"] {
            std::fs::set_permissions(place(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = std::env::join_paths([place("b"), place("a")]).unwrap();
        let found = |name: &str| find(OsStr::new(name), folder.path(), Some(&path));
        assert_eq!(found("tool"), Some(place("b/tool")));
        assert_eq!(found("a/tool"), Some(place("a/tool")), "a path is taken from the folder we are in");
        assert_eq!(found("text"), None, "it cannot be executed");
        assert_eq!(found("a"), None, "a folder");
        assert_eq!(found(""), None);
    }
}
