//! Decides which circuits judge a call: its place and, where it is known, its account.
//!
//! The place is the dependency, or one region of it that the caller names (`Halfopen-Region`). The account is what
//! `split_by` says: the credential (by its configured name, else by a keyed fingerprint of the key the caller brings),
//! the model, the value of a request field; several of them together make one account,
//! `llm@credential+model=main+gpt-5`. `argument:NAME` is a word for commands and means nothing here.
//!
//! Every partition is a [`Guard`] with a snapshot of its own, made on first use. There are at most `max_partitions`
//! regions and as many accounts: what comes later shares one that is called `other`, and that is said once, because
//! folding means that one caller's key can hold up another's. A caller that names new regions one after the other thus
//! dodges nothing for long.
//!
//! A partition that no call has used for [`IDLE_MAX`], that no call is under way in and whose circuits let everybody
//! through is forgotten when the next new one is seen, so that its name's place is free again: keys that are changed
//! now and then do not end in `other`. One that refuses keeps its place for as long as it does.
//!
//! The common route (no region, nothing to split by) is one load; any other is one hash of what the call brings and one
//! look into a map that is rarely written. Names are built only when a partition is first seen, and nothing here reads
//! the store: a new partition's first call asks the door, on a thread that may wait.

mod model;
mod token;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use halfopen::fingerprint::Fingerprints;
use halfopen::guard::Guard;
use halfopen::handle::{Handle, Route};
use halfopen_core::circuit_id::{CircuitId, CircuitIdError};
use halfopen_core::policy::{Mode, Policy};
use halfopen_core::redact;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::ui;
pub(in crate::serve) use token::KEY_FIELDS;

/// The field by which a caller names the region its call goes to.
const REGION: HeaderName = HeaderName::from_static("halfopen-region");

/// What stands behind a dependency's name in the circuits that only watch: enforcing processes never look there.
const SHADOW: &str = "~observe";

/// The partition that all those share for which there is no place any more.
const OTHER: &str = "other";

/// The account of callers whose tokens change so often that they tell nobody apart.
const DEFAULT: &str = "default";

/// The longest value in a circuit's name, in bytes; longer ones end in a fingerprint.
const VALUE_BYTES_MAX: usize = 80;

/// How long a partition is remembered that no call uses.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// How exactly its last use is known. Nothing is forgotten more often than this.
const USED_EVERY: Duration = Duration::from_secs(30);

/// How much of a body is looked at for the name of the model, in bytes.
pub(super) const BODY_BYTES_LOOKED_AT: usize = 256 << 10;

/// The partitions of one dependency.
#[derive(Debug)]
pub(super) struct Partitions {
    handle: Arc<Handle>,
    fingerprints: Arc<Fingerprints>,
    policy: Arc<Policy>,
    /// The name of the dependency in circuits.
    name: String,
    split: Vec<Part>,
    whole: OnceLock<Arc<Judges>>,
    seen: RwLock<HashMap<Brought, Arc<Judges>>>,
    /// What [`Brought`] is hashed with.
    hashed_with: [RandomState; 2],
    told_apart: Mutex<ToldApart>,
    folded: AtomicU64,
    said: AtomicBool,
    made_at: Instant,
}

/// What a call brings, as it is remembered here: two hashes under keys that this process draws and nobody sees, so that
/// no caller can make one that meets another's. It stands nowhere else, so it needs no [`Fingerprints`], which cost more.
type Brought = [u64; 2];

/// The circuits that judge the calls of one partition.
#[derive(Debug)]
pub(super) struct Judges {
    /// Which they are.
    pub(super) route: Route,
    /// The door to them, with a snapshot in front.
    pub(super) guard: Guard,
    /// What `Halfopen-Circuit` says: the account, if there is one, for it is the narrower name.
    pub(super) field: HeaderValue,
    /// Its places among [`ToldApart`].
    region: Option<String>,
    account: Option<String>,
    /// When it was last used, as [`Partitions::since_made`] says.
    used: AtomicU64,
}

/// What a call brings that it can be told apart by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// The fields as the caller sent them.
    pub(super) headers: &'a HeaderMap,
    /// What stands behind the dependency's name, with query.
    pub(super) path: &'a str,
    /// The beginning of the body, as far as [`Partitions::body_bytes_wanted`] asks for it.
    pub(super) body: &'a [u8],
    /// The configured credential that is sent with the call.
    pub(super) credential: Option<&'a str>,
}

/// One word of `split_by`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Credential,
    Model,
    Field(HeaderName),
}

/// The values that have a partition of their own, with when they were last used.
#[derive(Debug, Default)]
struct ToldApart {
    regions: BTreeMap<String, u64>,
    accounts: BTreeMap<String, u64>,
    /// When it was last seen what can be forgotten.
    looked_through: u64,
}

impl Partitions {
    /// Returns the partitions of the dependency that `policy` is for.
    ///
    /// # Errors
    ///
    /// The dependency's name cannot name a circuit.
    pub(super) fn make(
        handle: &Arc<Handle>,
        fingerprints: &Arc<Fingerprints>,
        policy: &Arc<Policy>,
    ) -> Result<Self, CircuitIdError> {
        let name = match policy.mode {
            Mode::Enforce => policy.dependency.clone(),
            Mode::Observe => format!("{}{SHADOW}", policy.dependency),
        };
        CircuitId::whole(&name)?;
        Ok(Self {
            handle: Arc::clone(handle),
            fingerprints: Arc::clone(fingerprints),
            policy: Arc::clone(policy),
            name,
            split: policy.split_by.iter().filter_map(|word| Part::read(word)).collect(),
            whole: OnceLock::new(),
            seen: RwLock::new(HashMap::new()),
            hashed_with: [RandomState::new(), RandomState::new()],
            told_apart: Mutex::new(ToldApart::default()),
            folded: AtomicU64::new(0),
            said: AtomicBool::new(false),
            made_at: Instant::now(),
        })
    }

    /// Returns how much of a request's body must be at hand before its circuits are known: 0 unless the policy splits
    /// by model. What is longer, or comes later, is judged without.
    pub(super) fn body_bytes_wanted(&self) -> usize {
        if self.split.contains(&Part::Model) { BODY_BYTES_LOOKED_AT } else { 0 }
    }

    /// Returns the circuits that judge a call. Does not block.
    pub(super) fn judges(&self, asked: &Asked<'_>) -> Arc<Judges> {
        let region = asked.headers.get(REGION).filter(|region| !region.is_empty());
        let found = self.values(asked);
        if region.is_none() && found.is_empty() {
            return Arc::clone(self.whole.get_or_init(|| Arc::new(self.guarded(None, None))));
        }
        let (key, used) = (self.key(region, &found), self.since_made(Instant::now()));
        if let Some(judges) = self.seen.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            judges.note_use(used);
            return Arc::clone(judges);
        }
        self.first_seen(key, region, &found, used)
    }

    /// Returns how many times [`USED_EVERY`] has passed.
    fn since_made(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.made_at).as_secs() / USED_EVERY.as_secs()
    }

    /// Returns how many calls were judged by a partition that several share because there are too many.
    #[cfg_attr(not(test), expect(dead_code, reason = "the operators' side reports it"))]
    pub(super) fn folded(&self) -> u64 {
        self.folded.load(Ordering::Relaxed)
    }

    /// Returns what the call brings for each word of `split_by`; nothing at all if it brings nothing for any.
    fn values<'a>(&self, asked: &Asked<'a>) -> Vec<Option<Value<'a>>> {
        let value = |part: &Part| match part {
            Part::Credential => match asked.credential {
                Some(name) => Some(Value::Plain(name.into())),
                None => token::find(asked.headers).map(|found| match found {
                    token::Token::Static(key) => Value::Secret(key.into()),
                    token::Token::Changing => Value::Plain(DEFAULT.into()),
                }),
            },
            Part::Model => model::find(asked.path, asked.body).map(Value::Plain),
            Part::Field(name) => match asked.headers.get(name)?.to_str() {
                Ok(value) => {
                    Some(value.trim()).filter(|value| !value.is_empty()).map(|value| Value::Plain(value.into()))
                }
                Err(_) => None,
            },
        };
        let mut found = Vec::new();
        for (at, part) in self.split.iter().enumerate() {
            let value = value(part);
            // A vector that stays empty owns no memory.
            if value.is_some() && found.is_empty() {
                found.reserve_exact(self.split.len());
                found.resize(at, None);
            }
            if value.is_some() || !found.is_empty() {
                found.push(value);
            }
        }
        found
    }

    /// Returns the name under which the partition of such a call is remembered.
    fn key(&self, region: Option<&HeaderValue>, found: &[Option<Value<'_>>]) -> Brought {
        let region = region.map_or(&b""[..], HeaderValue::as_bytes);
        let values = found.iter().flat_map(|value| match value {
            None => [&b"-"[..], b""],
            Some(Value::Plain(text)) => [b"=", text.as_bytes()],
            Some(Value::Secret(text)) => [b"*", text.as_bytes()],
        });
        self.hashed(std::iter::once(region).chain(values))
    }

    /// Returns the hashes of some parts, which are told apart.
    fn hashed<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> Brought {
        let [mut one, mut other] = self.hashed_with.each_ref().map(RandomState::build_hasher);
        for part in parts {
            for hasher in [&mut one, &mut other] {
                hasher.write_usize(part.len());
                hasher.write(part);
            }
        }
        [one.finish(), other.finish()]
    }

    #[cold]
    fn first_seen(
        &self,
        key: Brought,
        region: Option<&HeaderValue>,
        found: &[Option<Value<'_>>],
        used: u64,
    ) -> Arc<Judges> {
        let region = region.map(|region| self.spelled(&normal(&String::from_utf8_lossy(region.as_bytes()))));
        let account = self.account(found);
        let max = self.policy.max_partitions.get() as usize;
        let mut told_apart = self.told_apart.lock().unwrap_or_else(PoisonError::into_inner);
        self.forget_idle(&mut told_apart, used);
        let (region, region_folded) = fold(&mut told_apart.regions, region, max, used);
        let (account, account_folded) = match account {
            None => (None, false),
            Some((key, value)) => {
                let (value, folded) = fold(&mut told_apart.accounts, Some(value), max, used);
                (value.map(|value| (key, value)), folded)
            }
        };
        drop(told_apart);
        let folded = region_folded || account_folded;
        // What is folded is remembered under the name of what it is folded into: callers choose how many there are.
        let key = if folded {
            self.folded.fetch_add(1, Ordering::Relaxed);
            self.say_folded();
            let words = [region.as_deref(), account.as_ref().map(|(_, value)| value.as_str())];
            self.hashed(std::iter::once(&b"folded"[..]).chain(words.map(|word| word.unwrap_or("").as_bytes())))
        } else {
            key
        };
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(judges) = seen.get(&key) {
            judges.note_use(used);
            return Arc::clone(judges);
        }
        // Different spellings of one partition make different keys, and pairs of regions and accounts multiply. What
        // is dropped here is only the snapshot; the circuit is in the store.
        if seen.len() >= max.saturating_mul(4)
            && let Some(one) = seen.keys().next().copied()
        {
            seen.remove(&one);
        }
        let judges = Arc::new(self.guarded(region, account));
        judges.note_use(used);
        seen.insert(key, Arc::clone(&judges));
        judges
    }

    /// Forgets what has not been used for long and is not needed, and with it the names that only it had.
    fn forget_idle(&self, told_apart: &mut ToldApart, used: u64) {
        if told_apart.looked_through == used {
            return;
        }
        told_apart.looked_through = used;
        let idle_max = IDLE_MAX.as_secs() / USED_EVERY.as_secs();
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, judges| {
            let last = judges.used.load(Ordering::Relaxed);
            let unused = used.saturating_sub(last) > idle_max;
            let needed = Arc::strong_count(judges) > 1 || !judges.guard.is_at_rest();
            let last = if unused && needed { used } else { last };
            let (regions, accounts) = (&mut told_apart.regions, &mut told_apart.accounts);
            for (names, name) in [(regions, &judges.region), (accounts, &judges.account)] {
                if let Some(named_at) = name.as_ref().and_then(|name| names.get_mut(name)) {
                    *named_at = last.max(*named_at);
                }
            }
            needed || !unused
        });
        drop(seen);
        let in_use = |_: &String, named_at: &mut u64| used.saturating_sub(*named_at) <= idle_max;
        told_apart.regions.retain(in_use);
        told_apart.accounts.retain(in_use);
    }

    /// Returns the key and the value of the account, if the call brings anything to know it by.
    fn account(&self, found: &[Option<Value<'_>>]) -> Option<(String, String)> {
        let (mut key, mut value) = (String::new(), String::new());
        for (part, found) in self.split.iter().zip(found) {
            let Some(found) = found else { continue };
            if !key.is_empty() {
                key.push('+');
                value.push('+');
            }
            key.push_str(part.word());
            value.push_str(&match found {
                Value::Plain(text) => self.spelled(text),
                Value::Secret(text) => self.fingerprints.of([text.as_bytes()]).to_string(),
            });
        }
        (!key.is_empty()).then_some((key, value))
    }

    /// Returns a value as it can stand in a circuit's name: short, without what names may not have, without a secret.
    fn spelled(&self, value: &str) -> String {
        if redact::redact(value) != value {
            return self.fingerprints.of([value.as_bytes()]).to_string();
        }
        let mut spelled = String::with_capacity(value.len());
        for c in value.chars() {
            if matches!(c, '@' | '=' | '+' | '%') || c.is_whitespace() || c.is_control() {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().for_each(|byte| spelled.push_str(&format!("%{byte:02X}")));
            } else {
                spelled.push(c);
            }
        }
        if spelled.len() > VALUE_BYTES_MAX {
            let end = (0..=VALUE_BYTES_MAX / 2).rev().find(|end| spelled.is_char_boundary(*end)).unwrap_or(0);
            spelled.truncate(end);
            spelled.push('~');
            spelled.push_str(&self.fingerprints.of([value.as_bytes()]).to_string());
        }
        spelled
    }

    /// Returns the circuits of a region and an account, which is a key and a value.
    fn guarded(&self, region: Option<String>, account: Option<(String, String)>) -> Judges {
        // A name that is too long after all is judged as one with the rest.
        let part = |key: &str, value: &str| CircuitId::part(&self.name, key, value).ok();
        let whole = || match CircuitId::whole(&self.name) {
            Ok(id) => id,
            Err(_) => unreachable!("the name was checked when the partitions were made"),
        };
        let place = region.as_deref().and_then(|region| part("region", region)).unwrap_or_else(whole);
        let narrow = account.as_ref().and_then(|(key, value)| part(key, value));
        let guard = Guard::unread(&self.handle, Route { place, account: narrow }, Policy::clone(&self.policy));
        Judges { region, account: account.map(|(_, value)| value), ..Judges::of(guard) }
    }

    fn say_folded(&self) {
        if !self.said.swap(true, Ordering::Relaxed) {
            let max = self.policy.max_partitions;
            ui::warn(&format!(
                "{}: more than {max} partitions are told apart; further ones share the circuit `{OTHER}`, so one caller \
                 can hold up another; raise `max_partitions` or change `split_by`",
                self.name
            ));
        }
    }
}

impl Judges {
    fn of(guard: Guard) -> Self {
        let route = guard.route().clone();
        let narrow = route.account.as_ref().unwrap_or(&route.place).to_string();
        let field = HeaderValue::try_from(narrow).unwrap_or_else(|_| HeaderValue::from_static("unnamed"));
        Self { route, guard, field, region: None, account: None, used: AtomicU64::new(0) }
    }

    /// Written rarely, because every write takes the line from all who read it.
    fn note_use(&self, used: u64) {
        if self.used.load(Ordering::Relaxed) < used {
            self.used.store(used, Ordering::Relaxed);
        }
    }
}

/// What a call brings for one word of `split_by`.
#[derive(Clone, Debug)]
enum Value<'a> {
    Plain(std::borrow::Cow<'a, str>),
    Secret(std::borrow::Cow<'a, str>),
}

impl Part {
    fn read(word: &str) -> Option<Self> {
        match word.split_once(':') {
            None if word == "credential" => Some(Self::Credential),
            None if word == "model" => Some(Self::Model),
            Some(("header", name)) => HeaderName::from_bytes(name.as_bytes()).ok().map(Self::Field),
            // A region is the caller's to name, wherever one is; arguments are a command's.
            None | Some(_) => None,
        }
    }

    fn word(&self) -> &str {
        match self {
            Self::Credential => "credential",
            Self::Model => "model",
            Self::Field(name) => name.as_str(),
        }
    }
}

/// Returns the one spelling of a region, which may be a host: lower case, no dot at its end, no default port.
fn normal(region: &str) -> String {
    let region = region.trim().to_ascii_lowercase();
    let region = region.strip_suffix(":443").or_else(|| region.strip_suffix(":80")).unwrap_or(&region);
    region.strip_suffix('.').unwrap_or(region).to_owned()
}

/// Returns the value if there is place for one more, else the one that all others share, and whether that is so.
fn fold(known: &mut BTreeMap<String, u64>, value: Option<String>, max: usize, used: u64) -> (Option<String>, bool) {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return (None, false) };
    if known.len() >= max && !known.contains_key(&value) {
        return (Some(OTHER.to_owned()), true);
    }
    known.insert(value.clone(), used);
    (Some(value), false)
}

#[cfg(test)]
mod tests;
