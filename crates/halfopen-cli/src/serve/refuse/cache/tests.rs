use super::*;
use halfopen::fingerprint::Fingerprints;
use http::Method;
use http::header::{HeaderName, HeaderValue};
use test_case::test_case;

const KIB: u64 = 1 << 10;

/// A cache and the keys of requests to it.
struct World {
    cache: Arc<Cache>,
    fingerprints: Arc<Fingerprints>,
}

/// A request that is a plain GET where it says nothing else.
#[derive(Clone)]
struct Asks {
    method: Method,
    path: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    credential: Option<&'static str>,
    partition: &'static str,
    harmless: bool,
    body: &'static [u8],
}

impl Default for Asks {
    fn default() -> Self {
        Self {
            method: Method::GET,
            path: "/a",
            headers: Vec::new(),
            credential: None,
            partition: "up",
            harmless: false,
            body: b"",
        }
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn fields(fields: &[(&str, &str)]) -> HeaderMap {
    let read = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    fields.iter().map(read).collect()
}

impl World {
    fn new(bytes_max: u64) -> Self {
        let bounds = config::Cache { max_age: Duration::from_secs(100), bytes_max };
        Self { cache: Arc::new(Cache::new(bounds)), fingerprints: Arc::new(Fingerprints::of_this_process()) }
    }

    fn key(&self, asks: &Asks) -> Arc<Key> {
        let key = Key::of(
            &self.fingerprints,
            &Of {
                dependency: "up",
                partition: asks.partition,
                credential: asks.credential,
                method: &asks.method,
                path: asks.path,
                headers: &fields(&asks.headers),
                bodiless: asks.body.is_empty(),
                harmless: asks.harmless,
            },
        );
        key.body_is([asks.body]);
        Arc::new(key)
    }

    fn keep_with(&self, asks: &Asks, answer: &[(&str, &str)], body: &[u8], now: i64) -> bool {
        let mut came = fields(answer);
        came.insert("content-length", HeaderValue::from(body.len()));
        let Some(mut filling) = self.cache.begin(&self.key(asks), StatusCode::OK, &came, &came, at(now)) else {
            return false;
        };
        let whole = body.chunks(7).all(|piece| filling.push(piece));
        filling.keep();
        whole
    }

    fn keep(&self, asks: &Asks, body: &str) -> bool {
        self.keep_with(asks, &[], body.as_bytes(), 0)
    }

    fn find(&self, asks: &Asks) -> Option<String> {
        self.find_at(asks, 1)
    }

    fn find_at(&self, asks: &Asks, now: i64) -> Option<String> {
        let (answer, _) = self.cache.find(&self.key(asks), at(now))?;
        Some(String::from_utf8(answer.body.to_vec()).unwrap())
    }
}

#[test]
fn the_last_good_answer_of_the_same_request_is_found() {
    let world = World::new(64 * KIB);
    let asks = Asks::default();
    assert_eq!(world.find(&asks), None);
    assert!(world.keep(&asks, "first"));
    assert!(world.keep(&asks, "second"));
    assert_eq!(world.find(&asks).as_deref(), Some("second"));
}

#[test_case(Asks { path: "/b", ..Asks::default() }; "another path")]
#[test_case(Asks { path: "/a?x=1", ..Asks::default() }; "another query")]
#[test_case(Asks { method: Method::HEAD, ..Asks::default() }; "another method")]
#[test_case(Asks { headers: vec![("authorization", "Bearer other")], ..Asks::default() }; "another caller")]
#[test_case(Asks { headers: vec![("x-api-key", "other")], ..Asks::default() }; "another caller by another field")]
#[test_case(Asks { headers: vec![("cookie", "session=2")], ..Asks::default() }; "another session")]
#[test_case(Asks { credential: Some("spare"), ..Asks::default() }; "another credential")]
#[test_case(Asks { partition: "up@region=eu", ..Asks::default() }; "another partition")]
#[test_case(Asks { headers: vec![("cache-control", "no-cache")], ..Asks::default() }; "a caller that wants nothing old")]
fn another_request_gets_nothing(other: Asks) {
    let world = World::new(64 * KIB);
    world.keep(&Asks::default(), "mine");
    assert_eq!(world.find(&other), None);
    assert!(world.find(&Asks::default()).is_some());
}

#[test_case(Method::GET, false, true)]
#[test_case(Method::HEAD, false, true)]
#[test_case(Method::POST, true, true; "a post that may be sent twice")]
#[test_case(Method::POST, false, false)]
#[test_case(Method::PUT, true, false)]
#[test_case(Method::DELETE, true, false)]
#[test_case(Method::PATCH, true, false)]
fn answers_of_requests_that_only_ask_are_kept(method: Method, harmless: bool, kept: bool) {
    let world = World::new(64 * KIB);
    let asks = Asks { method, harmless, ..Asks::default() };
    assert_eq!(world.keep(&asks, "x"), kept);
    assert_eq!(world.find(&asks).is_some(), kept);
}

#[test]
fn a_post_is_the_same_only_with_the_same_body() {
    let world = World::new(64 * KIB);
    let post = |body| Asks { method: Method::POST, harmless: true, body, ..Asks::default() };
    world.keep(&post(b"page one"), "text one");
    assert_eq!(world.find(&post(b"page one")).as_deref(), Some("text one"));
    assert_eq!(world.find(&post(b"page two")), None);
}

#[test]
fn an_answer_is_used_until_it_is_too_old() {
    let world = World::new(64 * KIB);
    world.keep_with(&Asks::default(), &[("age", "30")], b"x", 0);
    assert!(world.find_at(&Asks::default(), 70).is_some());
    assert_eq!(world.find_at(&Asks::default(), 71), None);
    assert_eq!(world.cache.bytes(), 0);
}

#[test]
fn an_answer_is_found_by_those_it_varies_for() {
    let world = World::new(64 * KIB);
    let german = Asks { headers: vec![("accept-language", "de")], ..Asks::default() };
    let french = Asks { headers: vec![("accept-language", "fr")], ..Asks::default() };
    world.keep_with(&german, &[("vary", "Accept-Language, accept")], b"Seite", 0);
    assert_eq!(world.find(&german).as_deref(), Some("Seite"));
    assert_eq!(world.find(&french), None);
    world.keep_with(&french, &[("vary", "Accept-Language, accept")], b"page", 0);
    assert_eq!(world.find(&german).as_deref(), Some("Seite"));
    assert!(!world.keep_with(&german, &[("vary", "*")], b"x", 0));
}

/// S152
#[test]
fn an_encoded_answer_is_for_those_who_accept_its_encoding() {
    let world = World::new(64 * KIB);
    let zipped = Asks { headers: vec![("accept-encoding", "gzip")], ..Asks::default() };
    world.keep_with(&zipped, &[("content-encoding", "gzip")], b"bytes", 0);
    assert!(world.find(&zipped).is_some());
    assert_eq!(world.find(&Asks::default()), None);
}

#[test]
fn a_write_drops_what_was_kept_for_its_path() {
    let world = World::new(64 * KIB);
    world.keep(&Asks::default(), "before");
    let write = world.key(&Asks { method: Method::PUT, ..Asks::default() });
    assert!(write.changes_something());
    world.cache.drop_target(&write);
    assert_eq!((world.find(&Asks::default()), world.cache.bytes()), (None, 0));
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let world = World::new(3 * KIB);
    let paths = ["/1", "/2", "/3", "/4", "/5"].map(|path| Asks { path, ..Asks::default() });
    let body = "x".repeat(300);
    for asks in &paths[..3] {
        assert!(world.keep(asks, &body));
    }
    assert!(world.find(&paths[0]).is_some());
    world.keep(&paths[3], &body);
    assert!(world.cache.bytes() <= 3 * KIB);
    assert!(world.find(&paths[0]).is_some(), "it was used");
    assert!(world.find(&paths[1]).is_none(), "it was not");
    assert!(world.find(&paths[3]).is_some());
}

#[test]
fn what_is_larger_than_the_cache_is_not_begun_or_given_up() {
    let world = World::new(2 * KIB);
    assert!(!world.keep(&Asks::default(), &"x".repeat(4096)));
    let came = fields(&[("transfer-encoding", "chunked")]);
    let mut filling = world.cache.begin(&world.key(&Asks::default()), StatusCode::OK, &came, &came, at(0)).unwrap();
    assert!(filling.push(&[0; 1024]));
    assert!(!filling.push(&[0; 1024]));
    assert!(!filling.push(b"x"));
    filling.keep();
    assert_eq!((world.cache.bytes(), world.cache.filling.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn answers_that_are_filled_at_once_share_one_bound() {
    let world = World::new(4 * KIB);
    let came = fields(&[("transfer-encoding", "chunked")]);
    let begin = |path| {
        let key = world.key(&Asks { path, ..Asks::default() });
        world.cache.begin(&key, StatusCode::OK, &came, &came, at(0)).unwrap()
    };
    let (mut one, mut other) = (begin("/1"), begin("/2"));
    assert!(one.push(&[0; 2048]));
    assert!(!other.push(&[0; 2048]));
    drop(one);
    assert!(begin("/3").push(&[0; 2048]));
}

#[test]
fn an_answer_that_breaks_off_is_not_kept() {
    let world = World::new(64 * KIB);
    let came = fields(&[("content-length", "10")]);
    let mut filling = world.cache.begin(&world.key(&Asks::default()), StatusCode::OK, &came, &came, at(0)).unwrap();
    filling.push(b"half");
    drop(filling);
    assert_eq!(world.find(&Asks::default()), None);
}

#[test]
fn variants_of_one_path_are_bounded() {
    let world = World::new(1024 * KIB);
    for n in 0..200 {
        let asks = Asks { partition: Box::leak(format!("p{n}").into_boxed_str()), ..Asks::default() };
        world.keep(&asks, "x");
    }
    let kept = world.cache.kept();
    assert_eq!(kept.by_target.values().map(Vec::len).sum::<usize>(), VARIANTS_MAX);
    assert_eq!(kept.by_use.len(), VARIANTS_MAX);
}
