//! What structured bodies and events say about waiting. The moment is noon of Monday 2 March 2026, UTC.

use halfopen_core::hint::{HintInput, PackHints, Surroundings, Unit, read};
use halfopen_core::time::{ReadAt, Timestamp};
use halfopen_core::verdict::{Class, HintSource, Scope};

const NOON_MS: i64 = 1_772_452_800_000;

fn noon() -> ReadAt {
    ReadAt::utc(Timestamp::from_millis(NOON_MS))
}

/// Reads bodies, the oldest first, of a failure of `class`.
fn said(class: Class, bodies: &[&str], pack: &PackHints) -> Option<halfopen_core::verdict::Hint> {
    let json: Vec<serde_json::Value> =
        bodies.iter().map(|body| serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}"))).collect();
    let input = HintInput { class, headers: &[], json: &json, texts: &[], kind: Surroundings::Http, pack };
    read(&input, &noon())
}

/// Bodies of a rate limit and the wait in milliseconds.
const BODIES: &[(&str, Option<u128>)] = &[
    (r#"{"retry_after": 64.57, "global": false}"#, Some(64_570)),
    (r#"{"retry_after": 5}"#, Some(5_000)),
    (r#"{"retry_after": "7"}"#, Some(7_000)),
    (r#"{"retry_after_ms": 5}"#, Some(5)),
    (r#"{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":2000}"#, Some(2_000)),
    (r#"{"retryAfterMillis": "1500"}"#, Some(1_500)),
    (r#"{"error":{"retry_after":300,"reason":{".tag":"too_many_requests"}}}"#, Some(300_000)),
    (r#"{"ok":false,"error_code":429,"parameters":{"retry_after":35}}"#, Some(35_000)),
    (r#"{"kind":"Status","details":{"retryAfterSeconds":1},"code":429}"#, Some(1_000)),
    (r#"{"errors":[{"extensions":{"code":"ComplexityException","retry_in_seconds":12}}]}"#, Some(12_000)),
    (
        r#"{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"26s"}]}}"#,
        Some(26_000),
    ),
    (
        r#"[{"error":{"details":[{"@type":"x/google.rpc.RetryInfo","retryDelay":"33740.910400305s"}]}}]"#,
        Some(33_740_911),
    ),
    (
        r#"{"error":{"details":[{"@type":"x/google.rpc.RetryInfo","retryDelay":{"seconds":39,"nanos":500000000}}]}}"#,
        Some(39_500),
    ),
    (
        r#"{"error":{"details":[{"metadata":{"quotaResetTimeStamp":"2026-03-02T21:03:14Z","quotaResetDelay":"32594s"}}]}}"#,
        Some(32_594_000),
    ),
    (
        r#"{"error":{"details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"58s"}]}}"#,
        None,
    ),
    (
        r#"{"error":{"details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},{"retryDelay":"58s"}]}}"#,
        Some(58_000),
    ),
    (r#"{"error":{"details":[{"metadata":{"window_start_time":"1791270000","quota_limit_value":"60"}}]}}"#, None),
    (r#"{"error":{"type":"usage_limit_reached","resets_at":1772466672,"resets_in_seconds":13872}}"#, Some(13_872_000)),
    (r#"{"error":{"type":"usage_limit_reached","resets_at":1772456400}}"#, Some(3_600_000)),
    (
        r#"{"json":{"ratelimit":540.5,"errors":[["RATELIMIT","you are doing that too much","ratelimit"]]}}"#,
        Some(540_500),
    ),
    (r#"{"rateLimitNext":"2026-03-02T12:00:49.123456Z","rateLimit":2,"rateLimitRemaining":0}"#, Some(49_124)),
    (r#"{"Error":"Too many requests.","RateLimitResetTime":"2026-03-02T12:08:49.9856571Z"}"#, Some(529_986)),
    (r#"{"fault":{"code":900803,"nextAccessTime":"2026-Mar-02 12:00:37+0000 UTC"}}"#, Some(37_000)),
    (r#"{"error":"Model example/m is currently loading","estimated_time":1809.18}"#, Some(1_809_180)),
    (
        r#"{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":752,"throttleStatus":{"maximumAvailable":1000.0,"currentlyAvailable":252,"restoreRate":50.0}}}}"#,
        Some(10_000),
    ),
    (
        r#"{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1772452860000"}}}}"#,
        Some(60_000),
    ),
    (r#"{"error":{"metadata":{"headers":{"X-RateLimit-Remaining":"4","X-RateLimit-Reset":"1772452860000"}}}}"#, None),
    (
        r#"{"responses":[{"status":200,"headers":{"Retry-After":"99"}},{"status":429,"headers":{"Retry-After":"10"}}]}"#,
        Some(10_000),
    ),
    (
        r#"{"responses":[{"status":429,"headers":{"Retry-After":"10"}},{"status":429,"headers":{"Retry-After":["25"]}}]}"#,
        Some(25_000),
    ),
    (r#"{"responses":[{"status":429,"headers":{"Retry-After":10}}]}"#, Some(10_000)),
    (r#"{"responseHeaders":{"x-ratelimit-remaining-tokens":"0","x-ratelimit-reset-tokens":"6m0s"}}"#, Some(360_000)),
    (r#"{"status":200,"retry_after":5}"#, Some(5_000)),
    (r#"{"resets_at":1772456400,"resets_in_seconds":60}"#, Some(60_000)),
    (r#"{"next_access_time":"2026-03-02T12:00:37Z"}"#, Some(37_000)),
    (r#"{"block_expires":1772452837}"#, Some(37_000)),
    (r#"{"limit_expires":1772452837}"#, Some(37_000)),
    (r#"{"limit_resets":1772452837}"#, None),
    (r#"{"rate_limit_resets":1772452837}"#, Some(37_000)),
    (r#"{"primary_window":{"used_percent":12,"reset_at":1772456400}}"#, None),
    (r#"{"interval":{"reset_at":1772456400},"period":{"reset_at":1772456400}}"#, None),
    (r#"{"error":{"details":[{"metadata":{"quota_unit":"1/d/{project}"}},{"retryDelay":"58s"}]}}"#, None),
    (r#"{"error":{"details":[{"metadata":{"quota_unit":"1/min/{project}"}},{"retryDelay":"58s"}]}}"#, Some(58_000)),
    (r#"{"status":"allowed","resetsAt":1772456400,"rateLimitType":"five_hour"}"#, None),
    (r#"{"status":"allowed","resets_at":1772456400,"rate_limit_type":"five_hour"}"#, None),
    (r#"{"status":"rejected","resets_at":1772456400,"rate_limit_type":"five_hour"}"#, Some(3_600_000)),
    (r#"{"cost":{"requestedQueryCost":752,"throttleStatus":{"currentlyAvailable":252,"restoreRate":0}}}"#, None),
    (r#"{"cost":{"requestedQueryCost":100,"throttleStatus":{"currentlyAvailable":500,"restoreRate":-50}}}"#, None),
    (r#"{"cost":{"requestedQueryCost":100,"throttleStatus":{"currentlyAvailable":500,"restoreRate":50}}}"#, None),
    (r#"{"retry_after":[30]}"#, Some(30_000)),
    (r#"{"retry_after":[30,60]}"#, None),
    (r#"{"error":{"message":"{\"error\":{\"retry_after\":9}}"}}"#, Some(9_000)),
    (r#"{"message":"429 {\"error\":{\"retryDelay\":\"4s\"}} upstream"}"#, Some(4_000)),
    (r#"{"rate_limit":{"limit":100,"remaining":0,"reset":1772452845}}"#, Some(45_000)),
    (r#"{"rate_limit":{"limit":100,"remaining":41,"reset":1772452845}}"#, None),
    (r#"{"retry_after":5,"rate_limit":{"remaining":0,"reset":1772455200}}"#, Some(5_000)),
    (r#"{"blockedUntil":"2026-03-02T12:15:00+00:00"}"#, Some(900_000)),
    (r#"{"reset_in":"1m30s"}"#, Some(90_000)),
    (r#"{"resetTime":"2026-03-02T11:00:00Z"}"#, Some(0)),
    (r#"{"retryAfter":"Mon, 02 Mar 2026 12:00:30 GMT"}"#, Some(30_000)),
    (r#"{"subtype":"api_retry","retry_delay_ms":1180}"#, None),
    (r#"{"subtype":"api_retry","retry_delay_ms":2892000}"#, Some(2_892_000)),
    (
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1772456400,"rateLimitType":"five_hour"}}"#,
        Some(3_600_000),
    ),
    (
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1772456400,"overageStatus":"rejected"}}"#,
        None,
    ),
    (
        r#"{"rate_limit_info":{"status":"rejected","resetsAt":1772456400,"unifiedWindows":{"five_hour":{"utilization":1,"resetsAt":1772456400},"seven_day":{"utilization":0.84,"resetsAt":1772712000}}}}"#,
        Some(3_600_000),
    ),
    (
        r#"{"rate_limit_info":{"status":"rejected","resetsAt":1772456400,"unifiedWindows":{"five_hour":{"utilization":1,"resetsAt":1772456400},"seven_day":{"utilization":1.02,"resetsAt":1772712000}}}}"#,
        Some(259_200_000),
    ),
    (r#"{"retry_after": null}"#, None),
    (r#"{"retry_after": -5}"#, None),
    (r#"{"retry_after": "soon"}"#, None),
    (r#"{"retry_after": true}"#, None),
    (r#"{"retry_after": 1e300}"#, None),
    (r#"{"retry_after": 99999999999999999999}"#, None),
    (r#"{"limit": 30, "window": 300, "interval": 60, "period": 3600}"#, None),
    (r#"{"expires_in": 3600, "ttl": 60, "timeout": 30, "created": 1772455200}"#, None),
    (r#"{"max_retries": 3, "retries": 2, "retry": true, "retryable": true}"#, None),
    (r#""Too many requests""#, None),
    ("429", None),
];

/// S117, for bodies: the unit is in the name.
#[test]
fn bodies_are_read_by_the_names_of_their_fields() {
    let pack = PackHints::default();
    let wrong: Vec<String> = BODIES
        .iter()
        .map(|(body, wait)| (body, wait, said(Class::RateLimited, &[body], &pack).map(|hint| hint.wait.as_millis())))
        .filter(|(_, wait, got)| got != *wait)
        .map(|(body, wait, got)| format!("{body}\n    wants {wait:?}, got {got:?}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), BODIES.len(), wrong.join("\n"));
}

#[test]
fn the_last_body_that_speaks_counts_and_a_refused_window_keeps_counting() {
    let pack = PackHints::default();
    let wait = |bodies: &[&str]| said(Class::UsageLimit, bodies, &pack).map(|hint| hint.wait.as_secs());
    assert_eq!(wait(&[r#"{"retry_after":17}"#, r#"{"retry_after":11}"#, r#"{"message":"no"}"#]), Some(11));
    let week = r#"{"rate_limit_info":{"status":"rejected","resetsAt":1772712000,"rateLimitType":"seven_day"}}"#;
    let hours = r#"{"rate_limit_info":{"status":"rejected","resetsAt":1772456400,"rateLimitType":"five_hour"}}"#;
    assert_eq!(wait(&[week, hours]), Some(259_200));
    assert_eq!(wait(&[hours, week]), Some(259_200));
    assert_eq!(wait(&[week, r#"{"retry_after":11}"#]), Some(259_200));
}

/// However a body is nested, its reading ends; what stands deeper than 24 levels says nothing.
#[test]
fn bodies_are_read_to_a_bounded_depth() {
    let pack = PackHints::default();
    let wait = |body: String| said(Class::RateLimited, &[&body], &pack).map(|hint| hint.wait.as_secs());
    let lists = |depth, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth, inner: &str| format!("{}{inner}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let quoted = r#"{"message":"429 {\"retry_after\":9}"}"#;
    assert_eq!(wait(lists(24, r#"{"retry_after":9}"#)), Some(9));
    assert_eq!(wait(lists(25, r#"{"retry_after":9}"#)), None);
    assert_eq!(wait(objects(24, r#"{"retry_after":9}"#)), Some(9));
    assert_eq!(wait(objects(25, r#"{"retry_after":9}"#)), None);
    assert_eq!(wait(lists(21, quoted)), Some(9));
    assert_eq!(wait(lists(22, quoted)), None);
}

#[test]
fn values_and_quoted_bodies_are_read_to_a_bounded_length() {
    let pack = PackHints::default();
    let wait = |body: String| said(Class::RateLimited, &[&body], &pack).map(|hint| hint.wait.as_secs());
    let padded = |length: usize| format!(r#"{{"retry_after":"9s{}"}}"#, ".".repeat(length - 2));
    assert_eq!(wait(padded(128)), Some(9));
    assert_eq!(wait(padded(129)), None);
    let quoted = |length: usize| format!(r#"{{"message":"{} {{\"retry_after\":9}}"}}"#, "x".repeat(length - 18));
    assert_eq!(wait(quoted(64 * 1024)), Some(9));
    assert_eq!(wait(quoted(64 * 1024 + 1)), None);
}

/// What one body says of the whole answer holds for the others and for the text.
#[test]
fn a_quota_of_a_day_and_a_service_of_beijing_are_known_from_any_body() {
    let pack = PackHints::default();
    let wait = |bodies: &[&str], text: &str| {
        let json: Vec<serde_json::Value> = bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect();
        let (class, kind) = (Class::RateLimited, Surroundings::Http);
        let input = HintInput { class, headers: &[], json: &json, texts: &[text], kind, pack: &pack };
        read(&input, &noon()).map(|hint| hint.wait.as_secs())
    };
    let day = r#"{"quotaId":"GenerateRequestsPerDayPerProject"}"#;
    for bodies in [&[day, "{}"], &["{}", day]] {
        assert_eq!(wait(bodies, "Please retry in 39s."), None);
    }
    assert_eq!(wait(&["{}", "{}"], "Please retry in 39s."), Some(39));
    let code = r#"{"error":{"code":"1308"}}"#;
    for bodies in [&[code, "{}"], &["{}", code]] {
        assert_eq!(wait(bodies, "Your limit will reset at 2026-03-02 21:00:00"), Some(3600));
    }
    assert_eq!(wait(&[r#"{"code":"1301"}"#], "Your limit will reset at 2026-03-02 21:00:00"), Some(9 * 3600));
}

#[test]
fn a_window_of_one_model_covers_only_that_model() {
    let pack = PackHints::default();
    let opus = r#"{"rate_limit_info":{"status":"rejected","resetsAt":1772712000,"rateLimitType":"seven_day_opus"}}"#;
    let hint = said(Class::UsageLimit, &[opus], &pack).expect("a hint");
    assert_eq!((hint.source, hint.scope), (HintSource::Body, Scope::Part("model".to_owned())));
    // A longer window of all models beats it and covers everything.
    let all = r#"{"rate_limit_info":{"status":"rejected","resetsAt":1772799999,"rateLimitType":"seven_day"}}"#;
    let hint = said(Class::UsageLimit, &[opus, all], &pack).expect("a hint");
    assert_eq!((hint.wait.as_secs(), hint.scope), (347_199, Scope::Whole));
    let hint = said(Class::UsageLimit, &[all, opus], &pack).expect("a hint");
    assert_eq!((hint.wait.as_secs(), hint.scope), (347_199, Scope::Whole));
    let gemini = r#"{"error":{"details":[{"violations":[{"quotaId":"TokensPerModelPerMinute","quotaDimensions":{"model":"gemini-2.5-flash"}}]},{"retryDelay":"26s"}]}}"#;
    let hint = said(Class::RateLimited, &[gemini], &pack).expect("a hint");
    assert_eq!(hint.scope, Scope::Part("model".to_owned()));
    let scope = |body| said(Class::RateLimited, &[body], &pack).expect("a hint").scope;
    let named = r#"{"violations":[{"quotaDimensions":{"model":"gemini-2.5-flash"}}],"retryDelay":"26s"}"#;
    assert_eq!(scope(named), Scope::Part("model".to_owned()));
    let placed = r#"{"violations":[{"quotaDimensions":{"location":"global"}}],"retryDelay":"26s"}"#;
    assert_eq!(scope(placed), Scope::Whole);
    let told = r#"{"errors":[{"message":"You have exhausted your capacity on this model."}],"retry_after":26}"#;
    assert_eq!(scope(told), Scope::Part("model".to_owned()));
}

#[test]
fn a_pack_names_units_defaults_floors_and_what_to_ignore() {
    let discord = PackHints { units: vec![("retry_after".into(), Unit::Ms)], ..PackHints::default() };
    let hint = said(Class::RateLimited, &[r#"{"retry_after":6457}"#], &discord).expect("a hint");
    assert_eq!(hint.wait.as_millis(), 6457);

    let airtable = PackHints { default_wait_ms: Some(30_000), floor_ms: 30_000, ..PackHints::default() };
    let hint = said(Class::RateLimited, &["{}"], &airtable).expect("a hint");
    assert_eq!((hint.wait.as_secs(), hint.source), (30, HintSource::PackDefault));
    let hint = said(Class::RateLimited, &[r#"{"retry_after":1}"#], &airtable).expect("a hint");
    assert_eq!((hint.wait.as_secs(), hint.source), (30, HintSource::Body));

    let google = PackHints { daily_reset_zone: Some("America/Los_Angeles".into()), ..PackHints::default() };
    let hint = said(Class::UsageLimit, &["{}"], &google).expect("a hint");
    assert_eq!((hint.wait.as_secs(), hint.source), (20 * 3600, HintSource::PackDefault));
    assert_eq!(said(Class::RateLimited, &["{}"], &google), None, "a limit of minutes does not wait for midnight");

    let deaf = PackHints { ignore: vec!["retry_after".into()], ..PackHints::default() };
    assert_eq!(said(Class::RateLimited, &[r#"{"retry_after":6457}"#], &deaf), None);

    let beijing = PackHints { zone: Some("Asia/Shanghai".into()), ..PackHints::default() };
    let hint = said(Class::RateLimited, &[r#"{"resetTime":"2026-03-02 21:00:00"}"#], &beijing).expect("a hint");
    assert_eq!(hint.wait.as_secs(), 3600);
    let lost = PackHints { zone: Some("Mars/Phobos".into()), ..PackHints::default() };
    assert_eq!(lost.unknown_zones(), ["Mars/Phobos"]);
}

#[test]
fn a_quota_is_not_refilled_within_minutes() {
    let pack = PackHints::default();
    let wait = |body| said(Class::QuotaExhausted, &[body], &pack).map(|hint| hint.wait.as_secs());
    assert_eq!(wait(r#"{"retry_after":599}"#), None);
    assert_eq!(wait(r#"{"retry_after":600}"#), Some(600));
}

/// What a program prints may be anything, so a failure that no rule knows is waited for only as a service says.
#[test]
fn an_unknown_failure_has_a_hint_only_where_a_service_states_it() {
    let pack = PackHints::default();
    let json = [serde_json::json!({"retry_after": 7})];
    let wait = |headers: &[(&str, &str)], json: &[serde_json::Value], texts: &[&str], kind| {
        let input = HintInput { class: Class::UnknownFailure, headers, json, texts, kind, pack: &pack };
        read(&input, &noon()).map(|hint| hint.wait.as_secs())
    };
    assert_eq!(wait(&[("retry-after", "7")], &[], &[], Surroundings::Http), Some(7));
    assert_eq!(wait(&[], &json, &[], Surroundings::Http), Some(7));
    assert_eq!(wait(&[], &[], &["Please retry after 7 seconds."], Surroundings::Http), None);
    assert_eq!(wait(&[("retry-after", "7")], &json, &["Retry after 7 s."], Surroundings::Command), None);
}

/// A machine whose clock is beyond the calendar still reads spans, and instants as passed or as too far to believe.
#[test]
fn a_clock_beyond_the_calendar_is_at_its_end() {
    let wait = |wall_ms, value| {
        let pack = PackHints::default();
        let at = ReadAt { wall_ms, ..noon() };
        let headers = [("retry-after", value)];
        let kind = Surroundings::Http;
        let input =
            HintInput { class: Class::RateLimited, headers: &headers, json: &[], texts: &[], kind, pack: &pack };
        read(&input, &at).map(|hint| hint.wait.as_secs())
    };
    let instant = "Mon, 02 Mar 2026 12:00:00 GMT";
    assert_eq!((wait(i64::MAX, "30"), wait(i64::MAX, instant)), (Some(30), Some(0)));
    assert_eq!(wait(i64::MIN, "30"), Some(30));
    assert_eq!(wait(i64::MIN, instant), Some(379_477_476_001));
}

#[test]
fn what_no_waiting_heals_has_no_hint() {
    let pack = PackHints { default_wait_ms: Some(1), ..PackHints::default() };
    for class in [Class::Success, Class::Auth, Class::InvalidRequest] {
        assert_eq!(said(class, &[r#"{"retry_after":30}"#], &pack), None, "{class}");
    }
}
