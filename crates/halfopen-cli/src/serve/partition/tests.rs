use super::*;
use halfopen::core::policy::Surface;
use halfopen::store::Location;
use test_case::test_case;

fn partitions(split_by: &[&str], max: u32) -> Partitions {
    let handle = Arc::new(Handle::open(&Location::Memory).unwrap());
    let mut policy = Policy::built_in("llm", Surface::Serve);
    policy.split_by = split_by.iter().map(|word| (*word).to_owned()).collect();
    policy.max_partitions = std::num::NonZeroU32::new(max).unwrap();
    let names = Arc::new(Fingerprints::of_this_process());
    Partitions::make(&handle, &names, &Arc::new(policy)).unwrap()
}

fn fields(fields: &[(&str, &str)]) -> HeaderMap {
    let read = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    fields.iter().map(read).collect()
}

fn route_of(partitions: &Partitions, sent: &[(&str, &str)], credential: Option<&str>, body: &str) -> (String, String) {
    let headers = fields(sent);
    let asked = Asked { headers: &headers, path: "/v1/chat", body: body.as_bytes(), credential };
    let route = partitions.judges(&asked).route.clone();
    (route.place.to_string(), route.account.map_or_else(String::new, |account| account.to_string()))
}

#[test]
fn a_call_that_brings_nothing_is_judged_by_one_circuit() {
    let partitions = partitions(&["credential"], 64);
    assert_eq!(route_of(&partitions, &[], None, ""), ("llm".to_owned(), String::new()));
    let headers = HeaderMap::new();
    let asked = Asked { headers: &headers, path: "/", body: b"", credential: None };
    assert!(Arc::ptr_eq(&partitions.judges(&asked), &partitions.judges(&asked)));
}

/// S099
#[test_case("us-east.example.com", "us-east.example.com")]
#[test_case("US-East.Example.com", "us-east.example.com"; "letter case")]
#[test_case("us-east.example.com.", "us-east.example.com"; "a dot at its end")]
#[test_case("us-east.example.com:443", "us-east.example.com"; "the default port")]
#[test_case("us-east.example.com.:443", "us-east.example.com"; "both")]
#[test_case("us-east.example.com:8443", "us-east.example.com:8443"; "another port is another region")]
fn a_region_has_one_spelling(written: &str, expected: &str) {
    let partitions = partitions(&["region", "credential"], 64);
    let (place, account) = route_of(&partitions, &[("halfopen-region", written)], Some("main"), "");
    assert_eq!(place, format!("llm@region={expected}"));
    assert_eq!(account, "llm@credential=main");
}

/// S037
#[test]
fn a_callers_key_is_told_apart_and_not_named() {
    let partitions = partitions(&["credential"], 64);
    let of = |key: &str| route_of(&partitions, &[("x-api-key", key)], None, "").1;
    let name = of("sk-live-first");
    assert!(name.starts_with("llm@credential=") && !name.contains("sk-live"), "{name}");
    assert_eq!(name, of("sk-live-first"));
    assert_ne!(name, of("sk-live-second"));
    let bearer = route_of(&partitions, &[("authorization", "Bearer sk-live-first")], None, "").1;
    assert_eq!(bearer, name, "the same key in another field");
    let hourly = route_of(&partitions, &[("authorization", "Bearer ya29.x")], None, "").1;
    assert_eq!(hourly, "llm@credential=default");
    assert!(!format!("{partitions:?}").contains("sk-live"));
}

#[test_case(&["credential", "model"], r#"{"model":"gpt-5"}"#, "llm@credential+model=main+gpt-5"; "both")]
#[test_case(&["credential", "model"], "", "llm@credential=main"; "a body that names no model")]
#[test_case(&["model"], r#"{"model":"a b@c=d+e"}"#, "llm@model=a%20b%40c%3Dd%2Be"; "a name that must be spelled out")]
#[test_case(&["header:X-Tenant"], "", "llm@x-tenant=acme"; "a field")]
#[test_case(&["header:X-Other"], "", ""; "a field that is not sent")]
#[test_case(&["argument:--model"], "", ""; "a command's argument")]
fn an_account_is_what_the_policy_splits_by(split_by: &[&str], body: &str, expected: &str) {
    let partitions = partitions(split_by, 64);
    assert_eq!(route_of(&partitions, &[("x-tenant", "acme")], Some("main"), body).1, expected);
}

#[test]
fn only_a_split_by_model_looks_at_bodies() {
    assert_eq!(partitions(&["credential", "region"], 64).body_bytes_wanted(), 0);
    assert_eq!(partitions(&["model"], 64).body_bytes_wanted(), BODY_BYTES_LOOKED_AT);
}

#[test]
fn more_partitions_than_allowed_share_one_and_are_counted() {
    let partitions = partitions(&["header:X-Tenant"], 2);
    let of = |tenant: &str| route_of(&partitions, &[("x-tenant", tenant)], None, "").1;
    assert_eq!((of("a"), of("b")), ("llm@x-tenant=a".to_owned(), "llm@x-tenant=b".to_owned()));
    assert_eq!(partitions.folded(), 0);
    for tenant in ["c", "d", "c", "e"] {
        assert_eq!(of(tenant), "llm@x-tenant=other");
    }
    assert_eq!((of("a"), partitions.folded()), ("llm@x-tenant=a".to_owned(), 4));
}

/// Keys that change now and then do not end in `other`; what is in use, or refuses, keeps its name.
#[test]
fn the_place_of_a_partition_that_nobody_uses_is_free_again() {
    let mut partitions = partitions(&["header:X-Tenant"], 3);
    let of = |partitions: &Partitions, tenant: &str| route_of(partitions, &[("x-tenant", tenant)], None, "").1;
    let judges = |partitions: &Partitions, tenant: &str| {
        let headers = fields(&[("x-tenant", tenant)]);
        partitions.judges(&Asked { headers: &headers, path: "/", body: b"", credential: None })
    };
    for tenant in ["old", "busy", "held"] {
        assert_eq!(of(&partitions, tenant), format!("llm@x-tenant={tenant}"));
        judges(&partitions, tenant).guard.refresh();
    }
    let held = "llm@x-tenant=held".parse().unwrap();
    let hour = Some(std::time::Duration::from_secs(3600));
    partitions.handle.hold(&held, &partitions.policy, halfopen::core::event::State::Open, hour, "ann", "").unwrap();
    judges(&partitions, "held").guard.refresh();
    let under_way = judges(&partitions, "busy");
    assert_eq!(of(&partitions, "new"), "llm@x-tenant=other");
    let deadline = Instant::now() + Duration::from_secs(60);
    // A guard that was not refreshed for a moment is not known to be at rest.
    while of(&partitions, "new") == "llm@x-tenant=other" {
        assert!(Instant::now() < deadline, "its place is never free");
        partitions.made_at = partitions.made_at.checked_sub(IDLE_MAX + USED_EVERY).unwrap();
    }
    assert_eq!(of(&partitions, "new"), "llm@x-tenant=new");
    assert_eq!(of(&partitions, "busy"), "llm@x-tenant=busy");
    assert_eq!(of(&partitions, "held"), "llm@x-tenant=held");
    assert_eq!(of(&partitions, "old"), "llm@x-tenant=other");
    drop(under_way);
}

#[test]
fn a_new_partition_is_found_without_a_look_into_the_store() {
    let partitions = partitions(&["header:X-Tenant"], 3);
    let headers = fields(&[("x-tenant", "a")]);
    let judges = partitions.judges(&Asked { headers: &headers, path: "/", body: b"", credential: None });
    assert!(judges.guard.quick().is_none(), "the first call asks the door, on a thread that may wait");
    drop(judges.guard.ask_owned(halfopen::core::permit::Ask::Fresh).unwrap());
    assert!(judges.guard.quick().is_some());
}

#[test]
fn what_is_remembered_is_bounded_whatever_callers_send() {
    let partitions = partitions(&["header:X-Tenant"], 3);
    for n in 0..200 {
        let (tenant, region) = (format!("t{}", n % 7), format!("r{n}"));
        route_of(&partitions, &[("x-tenant", tenant.as_str()), ("halfopen-region", region.as_str())], None, "");
    }
    assert!(partitions.seen.read().unwrap().len() <= 12);
    assert_eq!(partitions.told_apart.lock().unwrap().regions.len(), 3);
}

#[test]
fn a_value_that_is_a_secret_or_too_long_is_not_spelled_out() {
    let partitions = partitions(&["header:X-Tenant"], 64);
    let of = |tenant: &str| route_of(&partitions, &[("x-tenant", tenant)], None, "").1;
    assert!(!of("ghp_0123456789abcdefghij").contains("0123"));
    let (long, longer) = ("x".repeat(500), "x".repeat(501));
    assert!(of(&long).len() < 120);
    assert_ne!(of(&long), of(&longer));
}

#[test]
fn a_policy_that_observes_has_circuits_of_its_own() {
    let handle = Arc::new(Handle::open(&Location::Memory).unwrap());
    let mut policy = Policy::built_in("llm", Surface::Serve);
    policy.mode = Mode::Observe;
    let names = Arc::new(Fingerprints::of_this_process());
    let partitions = Partitions::make(&handle, &names, &Arc::new(policy)).unwrap();
    assert_eq!(route_of(&partitions, &[], Some("main"), "").0, "llm~observe");
}
