//! Adds the credential that the policy names, at the moment a call is sent.
//!
//! A secret is read as late as possible and kept as short as possible in reach of anything that prints: it is a
//! [`Secret`] from the first byte on, which shows `***`, and a sensitive header value, which shows nothing either. A
//! file is read anew when it changes, so that a secret is rotated without a word to the gateway; a variable cannot
//! change while a process runs, so it is read when the policy is put in force.
//!
//! A secret that is missing is our own fault: the call is answered by us, names the variable or the file, and says
//! nothing to the breaker. It does not go out without one, because the answer to that (a 401) would be the dependency's
//! word against the credential.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use halfopen::config::{self, SecretFrom};
use halfopen_core::redact;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::problem::{Kind, Problem};

/// The field by which a caller chooses among the configured credentials.
pub(super) const CHOOSES: HeaderName = HeaderName::from_static("halfopen-credential");

/// The longest secret, in bytes. Servers refuse heads long before that.
const SECRET_BYTES_MAX: u64 = 16 << 10;

/// How coarse the times of files may be: a file that changed shorter ago than that is not recognised by its time.
const FILE_TIME_STEP: Duration = Duration::from_millis(50);

/// What is sent and never shown.
#[derive(Clone)]
pub(super) struct Secret(HeaderValue);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// The credentials of one dependency; the first is the default.
#[derive(Debug, Default)]
pub(super) struct Credentials(Vec<Credential>);

/// One credential.
#[derive(Debug)]
pub(super) struct Credential {
    /// Its name in circuits, status and metrics.
    pub(super) name: String,
    header: HeaderName,
    scheme: Option<String>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Variable { name: String, read: Result<Secret, Fault> },
    File { path: PathBuf, last: Mutex<Option<Seen>> },
}

/// What a file said, and how it is recognised as unchanged.
#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    secret: Secret,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A caller asks for a credential that the policy does not name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unknown {
    /// There are others.
    #[error("The policy names no credential `{asked}` for `{dependency}`; it names {known}.")]
    Other {
        /// As asked, without what may be a secret.
        asked: String,
        /// Of which dependency.
        dependency: String,
        /// Those it names.
        known: String,
    },
    /// There are none.
    #[error("The policy names no credential for `{dependency}`; leave `Halfopen-Credential` out.")]
    None {
        /// Of which dependency.
        dependency: String,
    },
}

/// A secret cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credential `{name}`: {place} {fault}")]
pub(super) struct Missing {
    name: String,
    place: String,
    fault: Fault,
}

/// What is wrong with the place a secret is read from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("is not set")]
    NotSet,
    #[error("is empty")]
    Empty,
    #[error("holds more than {} KiB", SECRET_BYTES_MAX >> 10)]
    TooLong,
    #[error("holds a character that no header field may hold")]
    Character,
    #[error("cannot be read: {0}")]
    Unreadable(std::io::ErrorKind),
}

impl Credentials {
    /// Makes them out of the policy; reads the variables.
    pub(super) fn make(written: &[config::Credential]) -> Self {
        Self(written.iter().filter_map(Credential::make).collect())
    }

    /// Returns that which is sent with a call: the one the caller names, else the default, if there is any.
    ///
    /// # Errors
    ///
    /// The caller names one that the policy does not.
    pub(super) fn chosen(&self, dependency: &str, headers: &HeaderMap) -> Result<Option<&Credential>, Unknown> {
        let Some(asked) = headers.get(CHOOSES) else { return Ok(self.0.first()) };
        if self.0.is_empty() {
            return Err(Unknown::None { dependency: dependency.to_owned() });
        }
        let found = self.0.iter().find(|credential| credential.name.as_bytes() == asked.as_bytes());
        found.map(Some).ok_or_else(|| Unknown::Other {
            asked: redact::line(&String::from_utf8_lossy(asked.as_bytes())),
            dependency: dependency.to_owned(),
            known: self.0.iter().map(|credential| format!("`{}`", credential.name)).collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns them, the default first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Credential> {
        self.0.iter()
    }
}

impl Credential {
    fn make(written: &config::Credential) -> Option<Self> {
        // The policy's reader refuses what is no name of a header field.
        let header = HeaderName::from_bytes(written.header.as_bytes()).ok()?;
        let scheme = written.scheme.clone().filter(|scheme| !scheme.is_empty());
        let source = match &written.from {
            SecretFrom::File(path) => Source::File { path: placed(path), last: Mutex::new(None) },
            SecretFrom::Env(name) => {
                let read = match std::env::var_os(name) {
                    None => Err(Fault::NotSet),
                    Some(value) => secret(value.as_encoded_bytes(), scheme.as_deref()),
                };
                Source::Variable { name: name.clone(), read }
            }
        };
        Some(Self { name: written.name.clone(), header, scheme, source })
    }

    /// Puts the secret into the fields of a request, in the place of what the caller sent there.
    ///
    /// # Errors
    ///
    /// The secret cannot be had now.
    pub(super) fn put(&self, headers: &mut HeaderMap) -> Result<(), Missing> {
        let secret = self.secret()?;
        headers.insert(self.header.clone(), secret.0);
        Ok(())
    }

    /// Reads the secret, without sending it.
    ///
    /// # Errors
    ///
    /// The secret cannot be had now.
    pub(super) fn secret(&self) -> Result<Secret, Missing> {
        match &self.source {
            Source::Variable { read, .. } => read.clone(),
            Source::File { path, last } => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                from_file(path, self.scheme.as_deref(), &mut last)
            }
        }
        .map_err(|fault| Missing { name: self.name.clone(), place: self.source.place(), fault })
    }

    /// Returns the field the secret is sent in.
    pub(super) fn header(&self) -> &HeaderName {
        &self.header
    }
}

/// Puts the folder in which systemd keeps a service's credentials into a path that begins with its variable. Without the
/// variable the path stays as it is written, and so it is shown as missing.
/// <https://systemd.io/CREDENTIALS/>
fn placed(path: &Path) -> PathBuf {
    let rest = path.strip_prefix("$CREDENTIALS_DIRECTORY").or_else(|_| path.strip_prefix("${CREDENTIALS_DIRECTORY}"));
    match (rest, std::env::var_os("CREDENTIALS_DIRECTORY")) {
        (Ok(rest), Some(folder)) => Path::new(&folder).join(rest),
        (Ok(_), None) | (Err(_), _) => path.to_owned(),
    }
}

impl Source {
    fn place(&self) -> String {
        match self {
            Self::Variable { name, .. } => format!("the variable {name}"),
            Self::File { path, .. } => format!("the file {}", path.display()),
        }
    }
}

impl Unknown {
    /// Returns the answer to the caller.
    pub(super) fn problem(&self) -> Problem {
        Problem::new(Kind::BadField, self.to_string())
    }
}

impl Missing {
    /// Returns the answer to the caller.
    pub(super) fn problem(&self, dependency: &str) -> Problem {
        let detail = format!("{}{} Nothing was sent.", capital(&self.to_string()), ".");
        Problem::new(Kind::NoCredential, detail).dependency(dependency)
    }
}

fn capital(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Reads the file, unless it is as it was.
fn from_file(path: &Path, scheme: Option<&str>, last: &mut Option<Seen>) -> Result<Secret, Fault> {
    let unreadable = |cause: std::io::Error| Fault::Unreadable(cause.kind());
    let found = std::fs::metadata(path).map_err(unreadable)?;
    let stamp = Stamp::of(&found);
    if let Some(seen) = last.as_ref().filter(|seen| seen.stamp == stamp) {
        return Ok(seen.secret.clone());
    }
    *last = None;
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err(Fault::TooLong);
    }
    let secret = secret(bytes.trim_ascii_end(), scheme)?;
    // A change that follows at once may leave all of the stamp as it is.
    let settled = found
        .modified()
        .is_ok_and(|modified| SystemTime::now().duration_since(modified).is_ok_and(|ago| ago > FILE_TIME_STEP));
    if settled {
        *last = Some(Seen { stamp, secret: secret.clone() });
    }
    Ok(secret)
}

/// Returns what is sent for a secret that reads so.
fn secret(bytes: &[u8], scheme: Option<&str>) -> Result<Secret, Fault> {
    if bytes.is_empty() {
        return Err(Fault::Empty);
    }
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err(Fault::TooLong);
    }
    let value = match scheme {
        None => HeaderValue::from_bytes(bytes),
        Some(scheme) => HeaderValue::from_bytes(&[scheme.as_bytes(), b" ", bytes].concat()),
    };
    let mut value = value.map_err(|_| Fault::Character)?;
    value.set_sensitive(true);
    Ok(Secret(value))
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn from(from: SecretFrom, header: &str, scheme: Option<&str>) -> config::Credential {
        config::Credential {
            name: "main".to_owned(),
            from,
            header: header.to_owned(),
            scheme: scheme.map(str::to_owned),
        }
    }

    fn of_file(text: &str) -> (tempfile::NamedTempFile, Credential) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let written = from(SecretFrom::File(file.path().to_owned()), "Authorization", Some("Bearer"));
        let credential = Credential::make(&written).unwrap();
        (file, credential)
    }

    fn sent(credential: &Credential) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer of-the-caller"));
        credential.put(&mut headers).map_err(|missing| missing.to_string())?;
        assert_eq!(headers.get_all("authorization").iter().count(), 1);
        Ok(headers["authorization"].to_str().unwrap().to_owned())
    }

    #[test]
    fn a_secret_takes_the_place_of_the_callers_own() {
        let (_file, credential) = of_file("sk-of-the-policy\n");
        assert_eq!(sent(&credential).unwrap(), "Bearer sk-of-the-policy");
    }

    #[test]
    fn a_secret_that_changes_is_sent_changed() {
        let (file, credential) = of_file("first");
        assert_eq!(sent(&credential).unwrap(), "Bearer first");
        for secret in ["other", "third", "fourth-and-longer"] {
            std::fs::write(file.path(), secret).unwrap();
            assert_eq!(sent(&credential).unwrap(), format!("Bearer {secret}"));
        }
        std::fs::remove_file(file.path()).unwrap();
        assert!(sent(&credential).unwrap_err().ends_with("cannot be read: entity not found"));
    }

    #[test]
    fn a_file_that_has_settled_is_not_read_twice() {
        let (file, credential) = of_file("first");
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        File::options().write(true).open(file.path()).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(sent(&credential).unwrap(), "Bearer first");
        let Source::File { last, .. } = &credential.source else { panic!("a file") };
        assert!(last.lock().unwrap().is_some());
    }

    /// S036
    #[test_case("", "is empty"; "nothing")]
    #[test_case(" \n", "is empty"; "white space")]
    #[test_case("sk-one\nsk-two", "no header field may hold"; "two lines")]
    #[test_case(&"sk-long".repeat(4000), "holds more than 16 KiB"; "too long")]
    fn what_is_no_secret_is_named_by_its_place_and_not_by_its_value(text: &str, cause: &str) {
        let (file, credential) = of_file(text);
        let error = sent(&credential).unwrap_err();
        assert!(error.contains(cause), "{error}");
        assert!(error.contains(file.path().to_str().unwrap()) && error.contains("`main`"), "{error}");
        assert!(!error.contains("sk-"), "{error}");
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let written = from(SecretFrom::Env("HALFOPEN_NO_SUCH_VARIABLE".to_owned()), "x-api-key", None);
        let missing = Credential::make(&written).unwrap().secret().unwrap_err();
        assert_eq!(missing.to_string(), "credential `main`: the variable HALFOPEN_NO_SUCH_VARIABLE is not set");
    }

    /// S036
    #[test]
    fn nothing_shows_a_secret() {
        let (_file, credential) = of_file("sk-of-the-policy");
        let secret = credential.secret().unwrap();
        let mut headers = HeaderMap::new();
        credential.put(&mut headers).unwrap();
        let shown = format!("{secret:?} {credential:?} {headers:?}");
        assert!(!shown.contains("sk-of-the-policy"), "{shown}");
    }

    #[test]
    fn a_caller_chooses_among_those_the_policy_names() {
        let named = |name: &str| config::Credential {
            name: name.to_owned(),
            ..from(SecretFrom::Env("PATH".to_owned()), "x-api-key", None)
        };
        let credentials = Credentials::make(&[named("main"), named("spare")]);
        let chosen = |asked: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(asked) = asked {
                headers.insert(CHOOSES, HeaderValue::from_static(asked));
            }
            let chosen = credentials.chosen("llm", &headers);
            chosen.map(|credential| credential.unwrap().name.clone()).map_err(|unknown| unknown.to_string())
        };
        assert_eq!(chosen(None).unwrap(), "main");
        assert_eq!(chosen(Some("spare")).unwrap(), "spare");
        let error = chosen(Some("Spare")).unwrap_err();
        assert_eq!(error, "The policy names no credential `Spare` for `llm`; it names `main`, `spare`.");
        assert!(!chosen(Some("sk-live-0123456789abcdef")).unwrap_err().contains("0123456789"));
    }
}
