//! The promises of the hint reader, over arbitrary input.

use halfopen_core::hint::{HintInput, PackHints, Surroundings, Unit, advice, read};
use halfopen_core::time::{ReadAt, Timestamp};
use halfopen_core::verdict::{Class, Hint};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::Value;
use std::time::Duration;

/// One outcome, owned.
#[derive(Clone, Debug)]
struct Case {
    class: Class,
    headers: Vec<(String, String)>,
    json: Vec<Value>,
    texts: Vec<String>,
    command: bool,
    now_ms: i64,
    wall_ms: i64,
    zone: &'static str,
}

impl Case {
    fn read(&self) -> Option<Hint> {
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let texts: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        let pack = PackHints::default();
        let _ = advice(&headers);
        let input = HintInput {
            class: self.class,
            headers: &headers,
            json: &self.json,
            texts: &texts,
            kind: if self.command { Surroundings::Command } else { Surroundings::Http },
            pack: &pack,
        };
        read(&input, &self.at())
    }

    fn at(&self) -> ReadAt {
        let zone = TimeZone::get(self.zone).expect("a zone");
        ReadAt { now: Timestamp::from_millis(self.now_ms), wall_ms: self.wall_ms, zone }
    }
}

fn instants() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => 0_i64..4_000_000_000_000,
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
        1 => Just(253_402_300_799_999),
        1 => Just(-377_705_023_201_000),
        1 => any::<i64>(),
    ]
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "retry-after",
            "Retry-After-Ms",
            "x-ms-retry-after-ms",
            "x-ratelimit-reset",
            "X-RateLimit-Remaining",
            "ratelimit",
            "ratelimit-reset",
            "ratelimit-remaining",
            "date",
            "age",
            "x-codex-primary-used-percent",
            "x-codex-primary-reset-after-seconds",
            "anthropic-ratelimit-unified-5h-status",
            "anthropic-ratelimit-unified-5h-reset",
            "x-business-use-case-usage",
            "zendesk-ratelimit-a",
            "grpc-retry-pushback-ms",
            "x-should-retry",
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z_-]{0,24}",
    ]
}

/// Pieces that values and sentences are made of, so that chance reaches the grammars.
fn pieces() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "retry",
            "try again",
            "after",
            "in",
            "at",
            "until",
            "resets",
            "available",
            "wait",
            "for",
            ":",
            "=",
            "5",
            "30",
            "1e309",
            "-",
            "+",
            ".",
            ",",
            ";r=0;t=",
            "\"",
            "'",
            "(",
            ")",
            "seconds",
            "ms",
            "h",
            "m",
            "s",
            "days",
            "am",
            "pm",
            "Jan",
            "Feb 29",
            "31",
            "2026",
            "9999-12-31T23:59:59Z",
            "0000",
            "00:00:00",
            "12:60",
            "UTC",
            "GMT-3",
            "(Europe/Warsaw)",
            "(Etc/GMT+5)",
            "tomorrow",
            "Monday",
            "midnight",
            "Pacific Time",
            "1772452845",
            "1772452845000",
            "99999999999999999999",
            "PT",
            "P1D",
            "\n",
            "\n    ",
            "│",
            "秒后重试",
            "分後に再試行",
            "年",
            "月",
            "日",
            "重置",
            "午後",
            "초 후",
            "um",
            "Uhr",
            "zurückgesetzt",
            "rejected",
            "100",
            "|",
            "limit reached",
            "{\"retry_after\":",
            "}",
            "<meta http-equiv=refresh content=",
            ">",
            "\u{1b}[31m",
            "_",
            "/",
            "every day",
            "half an",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,12}",
        any::<u64>().prop_map(|n| n.to_string()),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    proptest::collection::vec(pieces(), 0..16).prop_map(|pieces| {
        let mut text = String::new();
        for (place, piece) in pieces.iter().enumerate() {
            if place % 3 != 2 {
                text.push(' ');
            }
            text.push_str(piece);
        }
        text
    })
}

fn bodies() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    let keys = prop_oneof![
        proptest::sample::select(vec![
            "retry_after",
            "retryAfterMs",
            "retryDelay",
            "resets_at",
            "resets_in_seconds",
            "rate_limit_info",
            "status",
            "resetsAt",
            "unifiedWindows",
            "headers",
            "cost",
            "throttleStatus",
            "requestedQueryCost",
            "currentlyAvailable",
            "restoreRate",
            "remaining",
            "quotaId",
            "seconds",
            "nanos",
            "errors",
            "ratelimit",
        ])
        .prop_map(str::to_owned),
        "[a-z_]{0,8}",
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((keys.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let zones =
        proptest::sample::select(vec!["UTC", "Europe/Warsaw", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"]);
    (
        proptest::sample::select(Class::ALL.to_vec()),
        proptest::collection::vec((names(), texts()), 0..5),
        proptest::collection::vec(bodies(), 0..3),
        proptest::collection::vec(texts(), 0..3),
        any::<bool>(),
        instants(),
        instants(),
        zones,
    )
        .prop_map(|(class, headers, json, texts, command, now_ms, wall_ms, zone)| Case {
            class,
            headers,
            json,
            texts,
            command,
            now_ms,
            wall_ms,
            zone,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Never a panic, never the past, and the instant is the reading's `now` plus the wait.
    #[test]
    fn a_hint_is_never_before_now(case in cases()) {
        if let Some(hint) = case.read() {
            prop_assert!(hint.until >= case.at().now);
            prop_assert_eq!(hint.until, case.at().now + hint.wait);
            prop_assert_eq!(hint.wait.subsec_nanos() % 1_000_000, 0);
        }
    }

    /// A success has no hint, and neither has what no waiting heals.
    #[test]
    fn a_success_has_no_hint(case in cases()) {
        for class in [Class::Success, Class::Auth, Class::InvalidRequest] {
            prop_assert_eq!((Case { class, ..case.clone() }).read(), None);
        }
    }

    /// The order in which headers arrive changes nothing.
    #[test]
    fn the_order_of_headers_is_irrelevant(case in cases(), turn in 0_usize..5) {
        let mut turned = case.clone();
        if !turned.headers.is_empty() {
            let by = turn % turned.headers.len();
            turned.headers.rotate_left(by);
            prop_assert_eq!(turned.read(), case.read());
        }
        turned.headers.reverse();
        prop_assert_eq!(turned.read(), case.read());
    }

    /// What a number states is waited for in full, in every place where it can stand.
    #[test]
    fn a_stated_wait_is_never_shortened(millis in 0_u64..900_000_000, place in 0_usize..7) {
        let secs = format!("{}.{:03}", millis / 1000, millis % 1000);
        let mut case = Case {
            class: Class::RateLimited, headers: vec![], json: vec![], texts: vec![], command: true,
            now_ms: 1_772_452_800_000, wall_ms: 1_772_452_800_000, zone: "UTC",
        };
        match place {
            0 => case.headers.push(("Retry-After".into(), secs)),
            1 => case.headers.push(("retry-after-ms".into(), millis.to_string())),
            2 => case.headers.push(("x-ratelimit-reset-after".into(), secs)),
            3 => case.json.push(serde_json::json!({ "error": { "retryDelay": format!("{secs}s") } })),
            4 => case.json.push(serde_json::json!({ "retry_after_ms": millis })),
            5 => case.texts.push(format!("Rate limited. Please try again in {secs}s.")),
            _ => case.texts.push(format!("Your quota resets in {millis} ms")),
        }
        let wait = case.read().map(|hint| hint.wait);
        prop_assert_eq!(wait, Some(Duration::from_millis(millis)));
    }

    /// Text without a verb adds no hint, whatever numbers and units stand in it.
    #[test]
    fn text_without_a_verb_says_nothing(
        words in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![
                    "limit", "requests", "per", "in", "of", "seconds", "minutes", "30s", "2026-03-02T12:05:00Z", "5pm", "at", "error",
                    "line", "port", "8080", "429", "window", "quota", "(UTC)", "tokens", "exceeded", "for", "within", "on", "Jan 2,",
                ]).prop_map(str::to_owned),
                (0_u32..100_000).prop_map(|n| n.to_string()),
            ],
            0..24,
        ),
    ) {
        let case = Case {
            class: Class::RateLimited, headers: vec![], json: vec![], texts: vec![words.join(" ")], command: true,
            now_ms: 1_772_452_800_000, wall_ms: 1_772_452_800_000, zone: "UTC",
        };
        prop_assert_eq!(case.read(), None);
    }
}

#[test]
fn a_pack_with_extreme_figures_does_not_overflow() {
    let pack = PackHints {
        default_wait_ms: Some(u64::MAX),
        floor_ms: u64::MAX,
        units: vec![("retry-after".into(), Unit::Hours)],
        ..PackHints::default()
    };
    let input = HintInput {
        class: Class::RateLimited,
        headers: &[("retry-after", "876000")],
        json: &[],
        texts: &[],
        kind: Surroundings::Http,
        pack: &pack,
    };
    let hint = read(&input, &ReadAt::utc(Timestamp::MAX)).expect("a hint");
    assert_eq!(hint.until, Timestamp::MAX);
}
