//! What sentences say about waiting, and the many that say nothing. The moment is noon of Monday 2 March 2026, UTC;
//! the machine stands in Warsaw (an hour ahead of UTC on that day).

use halfopen_core::hint::{HintInput, PackHints, Surroundings, read};
use halfopen_core::time::{ReadAt, Timestamp};
use halfopen_core::verdict::Class;
use jiff::tz::TimeZone;

const NOON_MS: i64 = 1_772_452_800_000;

/// Reads one text of a failure; the wait in milliseconds.
fn said(text: &str, kind: Surroundings) -> Option<u128> {
    let zone = TimeZone::get("Europe/Warsaw").expect("a zone");
    let at = ReadAt { now: Timestamp::from_millis(NOON_MS), wall_ms: NOON_MS, zone };
    let pack = PackHints::default();
    let texts = [text];
    let input = HintInput { class: Class::RateLimited, headers: &[], json: &[], texts: &texts, kind, pack: &pack };
    read(&input, &at).map(|hint| hint.wait.as_millis())
}

const S: u128 = 1000;
const M: u128 = 60 * S;
const H: u128 = 60 * M;
const D: u128 = 24 * H;

/// Sentences that state a wait.
const STATED: &[(&str, u128)] = &[
    // Spans, as services write them.
    ("Please try again in 6ms.", 6),
    ("Please try again in 174ms. Visit https://platform.openai.com/account/rate-limits to learn more.", 174),
    ("Please try again in 18.642s", 18_642),
    ("Please try again in 20s. Contact us through our help center if you continue to have issues.", 20 * S),
    ("Please try again in 7m12s.", 7 * M + 12 * S),
    ("Please try again in 9m38.016s. Need more tokens?", 578_016),
    ("Please retry after 26 seconds.", 26 * S),
    ("Please retry after 86400 seconds.", D),
    ("Please retry after 1 day.", D),
    ("Please retry after 3 days and 4 hours", 3 * D + 4 * H),
    (
        "exceeded the token rate limit of your current pricing tier for gpt-5.1 in East US 2, version 2025-03-01-preview. Please retry after 60 seconds.",
        60 * S,
    ),
    ("exceeded the limit of '50' for time interval '00:05:00'. Please try again after '372' seconds.", 372 * S),
    ("Please retry in 58.821668433s.", 58_822),
    ("Individual quota reached. Resets in 9h22m20s.", 9 * H + 22 * M + 20 * S),
    ("Request was throttled. Expected available in 831.0 seconds.", 831 * S),
    ("Request was throttled. Expected available in 0 seconds.", 0),
    ("Request was throttled. Expected available in 1 second.", S),
    ("Your rate limit resets in ~5s.", 5 * S),
    ("Retry after 55 seconds (0/2500 requests remaining in current 300s window).", 55 * S),
    ("Too Many Requests: retry after 35", 35 * S),
    ("Flood control exceeded. Retry in 42 seconds", 42 * S),
    ("Retry after: 21 seconds.", 21 * S),
    ("Quota has been exhausted. You can submit the request after 49 seconds", 49 * S),
    ("you are doing that too much. try again in 9 minutes.", 9 * M),
    ("Looks like you've been doing that a lot. Take a break for 5 minutes before trying again.", 5 * M),
    ("Complexity budget exhausted, query cost 30001 budget remaining 29950 out of 1000000 reset in 31 seconds", 31 * S),
    ("try again in 2 days 17 hours 14 minutes.", 2 * D + 17 * H + 14 * M),
    ("or try again in 5 days 22 hours 11\nminutes.", 5 * D + 22 * H + 11 * M),
    ("or try again in 1 hour 5 minutes.", H + 5 * M),
    ("Your quota will reset after 8h44m7s.", 31_447 * S),
    ("Your quota will reset after 53s.", 53 * S),
    ("Your quota will reset after 0s", 0),
    ("Expected quota reset within 24h.", D),
    ("You have been rate limited, please wait 30 seconds and try again.", 30 * S),
    ("Please wait for 2 minutes before sending another request.", 2 * M),
    ("Please wait at least 10 seconds before retrying.", 10 * S),
    ("Rate limited. Wait 1m30s.", 90 * S),
    ("You must wait another 12.5 seconds.", 12_500),
    ("Rate limit exceeded, please try again after 30 sec", 30 * S),
    ("Slow down! Try your request again in 250 milliseconds", 250),
    ("Too many login attempts. Please try again in 15 minutes.", 15 * M),
    ("Too many attempts, you are blocked for 1 hour.", H),
    ("This IP was temporarily banned. You are locked out for 30 minutes.", 30 * M),
    ("Rate limit exceeded. Next request allowed in 12s.", 12 * S),
    ("cooldown: 45s", 45 * S),
    ("Cooldown of 30 seconds is active", 30 * S),
    ("Rate limit exceeded. 30 seconds until reset.", 30 * S),
    ("Limit reached, 2h 5m remaining until your quota resets", 2 * H + 5 * M),
    ("In 30 seconds you can try again.", 30 * S),
    ("The model is loading and will be ready in 20 seconds", 20 * S),
    ("Service will be back in 10 minutes.", 10 * M),
    ("Come back in 2 hours.", 2 * H),
    ("Access will be restored in 45 minutes.", 45 * M),
    ("Try again in one hour.", H),
    ("Please try again in an hour.", H),
    ("Try again in 5-10 minutes", 10 * M),
    ("Try again in half an hour.", 30 * M),
    ("Try again in 2 days and an hour.", 2 * D + H),
    ("Please retry after 10 second(s).", 10 * S),
    ("Try again in 4:59.", 299 * S),
    ("Your limit resets in 4:59 minutes", 299 * S),
    ("Your limit resets at noon (America/New_York).", 5 * H),
    ("Your limit resets tonight at 11pm", 10 * H),
    ("Limit resets on Thursday at 9am", 2 * D + 20 * H),
    ("Your limit resets in 4:59 PM", 3 * H + 59 * M),
    ("The limit resets at 17h30.", 4 * H + 30 * M),
    ("retry_after (seconds): 30", 30 * S),
    ("Retry after (about) 30 seconds.", 30 * S),
    ("resets_at_seconds: 1772453400", 10 * M),
    ("retry_after_ms: 1772453400", 1_772_453_400),
    ("retry_delay {\n  seconds: 39\n  nanos: 500000000\n}", 39_500),
    ("retry_delay { seconds: 39 nanos: 500000000 }", 39_500),
    ("retry_delay { seconds: 39 nanos: 1000000000 }", 39 * S),
    ("retry_delay { seconds: 39 code: 5 }", 39 * S),
    ("minutes until reset: 5", 5 * M),
    ("hours_to_reset=2", 2 * H),
    ("next_request_at: 2026-03-02T13:00:00Z", H),
    ("Please wait for 2 minutes.", 2 * M),
    ("Please do not try until 18:30 UTC.", 6 * H + 30 * M),
    ("Please wait until 13:00 UTC; your quota resets in 5 hours.", H),
    ("In 30 seconds you can send another message.", 30 * S),
    ("Quota resets every day at 00:00 UTC.", 12 * H),
    ("Your limit resets every Monday at 9am.", 6 * D + 20 * H),
    ("Retry in 6 seconds; retry-after: 5", 5 * S),
    ("Retry in 1,200 seconds", 1200 * S),
    ("Please retry after PT30S.", 30 * S),
    ("retry-after: 7", 7 * S),
    ("HTTP 429: {'retry_after': 64.57, 'global': False}", 64_570),
    ("b'{\"error\": {\"retry_after_ms\": 500}}'", 500),
    ("{ retryAfterMs: 2500,", 2500),
    ("retry_delay {\n  seconds: 39\n}\n]", 39 * S),
    ("\"resets_in_seconds\":13872", 13_872 * S),
    ("{\"error\":\"Model example/m is currently loading\",\"estimated_time\":20.5}", 20_500),
    ("seconds_until_reset=90", 90 * S),
    ("<Error><Code>SlowDown</Code><RetryAfterSeconds>4</RetryAfterSeconds></Error>", 4 * S),
    ("<h1>429</h1><p>Please retry after <b>17</b> seconds.</p>", 17 * S),
    ("<html><head><meta http-equiv='refresh' content='14' /></head></html>", 14 * S),
    // Instants.
    ("You will regain access on 2026-04-01 at 00:00 UTC.", 29 * D + 12 * H),
    ("You will regain access on 2026-04-01 at\n    00:00 UTC.", 29 * D + 12 * H),
    ("Claude AI usage limit reached|1772456400", H),
    ("Your limit will reset at 5pm (Europe/Warsaw).", 4 * H),
    ("Your limit will reset at 1pm (Etc/GMT+5).", 6 * H),
    ("Your limit will reset at Mar 6, 6pm.", 4 * D + 5 * H),
    ("5-hour limit reached \u{2219} resets 2am", 13 * H),
    ("Session limit reached \u{2219} resets 8pm", 7 * H),
    ("Opus weekly limit reached \u{2219} resets Mar 7, 9am", 4 * D + 20 * H),
    ("Weekly limit reached \u{2219} resets Mar 7", 4 * D + 11 * H),
    ("You've hit your session limit \u{b7} resets 3am (Asia/Singapore)", 7 * H),
    ("You\u{2019}ve hit your weekly limit \u{b7} resets Mar 9, 3am (Asia/Singapore)", 6 * D + 7 * H),
    ("You're out of extra usage \u{b7} resets 1pm (America/Los_Angeles)", 9 * H),
    ("You\u{2019}ve hit your limit. Limits will reset at 2:30 PM.", 90 * M),
    ("Limits will reset at 2:30\u{202f}PM", 90 * M),
    ("or try again at 1:16 PM.", 16 * M),
    ("try again at Mar 18th, 2026 8:41 AM.", 15 * D + 19 * H + 41 * M),
    ("try again at Mar 25, 2026, 11:09 AM.", 22 * D + 22 * H + 9 * M),
    ("try again at 10 de mar. de 2026, 11:52.", 7 * D + 22 * H + 52 * M),
    ("Access resets at 10:57 PM GMT-3.", 13 * H + 57 * M),
    ("Please try after 2026-03-02T12:00:07.071Z.", 7071),
    ("Quota resets at midnight Pacific Time.", 20 * H),
    ("Daily quota resets at 00:00 UTC", 12 * H),
    ("Scheduled maintenance until 18:30 UTC", 6 * H + 30 * M),
    ("You are blocked until 2026-03-02 13:00:00 UTC", H),
    ("Do not retry before 2026-03-02T12:30:00Z", 30 * M),
    ("Your limit resets tomorrow at 9:00 AM.", 20 * H),
    ("Limit resets on Friday at 9am", 3 * D + 20 * H),
    ("resets at 1772453400", 10 * M),
    ("Rate limit will reset at Mon, 02 Mar 2026 12:05:00 GMT", 5 * M),
    ("reset_time: 2026-03-02T12:05:00+00:00", 5 * M),
    ("next reset: 2026-03-02 13:00:00 +0000 UTC", H),
    ("Your allowance renews on March 9, 2026.", 6 * D + 11 * H),
    ("The service will be available again at 15:00 CET.", 2 * H),
    ("API rate limit exceeded. Limit will reset at 4:00 PM UTC", 4 * H),
    // The last word of a server counts.
    ("stream error: Try again in 17 seconds.; retrying 5/5 in 3.32s\u{2026}\nerror: Try again in 11 seconds.", 11 * S),
    ("Try again in 17 seconds.; retrying 5/5 in 3.32s\u{2026} Try again in 11 seconds.", 11 * S),
    ("API Error (429) \u{b7} Retrying in 2892 seconds\u{2026} (attempt 1/10)", 2892 * S),
    ("Try again in 2892 seconds (attempt 1/10)", 2892 * S),
    ("Please wait 2892 seconds (attempt 1/10)", 2892 * S),
    ("Rate limit reached. Sleeping for: 812 seconds until the limit resets", 812 * S),
    // Broken, framed and coloured lines.
    ("You've hit your usage limit. Upgrade to Pro or try a\ngain at 1:16 PM.", 16 * M),
    (
        "│ You've hit your session limit · resets 3am (Asia/Singa │\n│ pore)                                                │",
        7 * H,
    ),
    ("\u{1b}[31mRate limit reached.\u{1b}[0m Please try again in \u{1b}[1m20s\u{1b}[0m.", 20 * S),
    ("You have hit the limit of this account. Please retry after 12\n0 seconds.", 120 * S),
    ("You have hit the limit of this account. Please retry after 12\n0.", 120 * S),
    ("Limit reached. Retry after 12\n0 seconds.", 120 * S),
    // A line that is too short to have been broken, or goes on with something else.
    ("Error\nLimit is hit, retry after 5\nse", 5 * S),
    ("You have hit the limit of this account, retry after 35\nPlease see the documentation", 35 * S),
    ("You have hit the limit of this account (retry after 35\n)", 35 * S),
    // Other languages.
    ("请在 30 秒后重试", 30 * S),
    ("请求过于频繁，请5分钟后再试。", 5 * M),
    ("请等待 12 秒", 12 * S),
    ("已达到 5 小时的使用上限。您的限额将在 2026-03-03 07:41:44 重置。", 11 * H + 41 * M + 44 * S),
    ("リクエストが多すぎます。30秒後に再試行してください。", 30 * S),
    ("5分後にもう一度お試しください", 5 * M),
    ("2026年3月2日 22:00 にリセットされます", H),
    ("30초 후에 다시 시도해 주세요", 30 * S),
    ("Inténtelo de nuevo en 30 segundos.", 30 * S),
    ("Tente novamente em 5 minutos.", 5 * M),
    ("Veuillez réessayer dans 2 minutes.", 2 * M),
    ("Bitte versuchen Sie es in 30 Sekunden erneut.", 30 * S),
    ("Bitte in 30 Sekunden erneut versuchen.", 30 * S),
    ("Das Limit wird um 15:00 Uhr zurückgesetzt.", 2 * H),
    ("Riprova tra 30 secondi.", 30 * S),
    ("Попробуйте снова через 15 минут.", 15 * M),
    ("Probeer het over 30 seconden opnieuw.", 30 * S),
    ("30 saniye sonra tekrar deneyin.", 30 * S),
    ("Bitte nach 30 Sekunden erneut versuchen.", 30 * S),
    ("Bitte versuchen Sie es nach 30 Sekunden erneut.", 30 * S),
    ("Veuillez réessayer après 30 secondes.", 30 * S),
    ("Попробуйте снова после 15:00.", 2 * H),
    ("Por favor, espere por 30 segundos.", 30 * S),
    ("Veuillez attendre... patientez pendant 2 minutes", 2 * M),
    ("Espere hasta las 18:30 UTC.", 6 * H + 30 * M),
    ("Bitte warten Sie bis 15:00 Uhr.", 2 * H),
    ("您的限额将在3月2日下午9点重置", H),
    ("2026년 3월 2일 22:00에 초기화됩니다", H),
    ("3月3日午前9時にリセットされます", 12 * H),
    ("3月5日午後9時にリセットされます", 3 * D),
    ("2026年3月5日 22:00 にリセットされます", 3 * D + H),
    ("한도는 2026년 3월 5일 22:00에 초기화됩니다", 3 * D + H),
    ("已达上限，将于2026年3月5日21:00重置", 3 * D + H),
    ("您的额度将于3月5号上午9点重置", 2 * D + 13 * H),
    ("30秒后重试；5分钟后重置，可再试", 30 * S),
];

/// Sentences that state none, however they look.
const NOTHING: &[&str] = &[
    "",
    "Number of requests exceeded the limit of 6000 over time window of 300 seconds.",
    "More than 1200 requests per 300 seconds reached. Please wait and consider throttling your request speed",
    "You may only perform this action upto maximum 180 number of times within 3600 seconds",
    "Insufficient tokens for quota 'DefaultGroup' and limit 'USER-100s' of service 'vision.example'",
    "You have exceeded the 10_seconds window",
    "Exceeded 2 calls per second for api client. Reduce request rates to resume uninterrupted service.",
    "window_start_time: 1791270000",
    "Please wait a few minutes before you try again.",
    "Try again in a moment. If it persists, check your inference gateway (127.0.0.1:15721).",
    "Please try again later.",
    "try again in a minute",
    "You are using a Trial key, which is limited to 1000 API calls / month.",
    "limited to 10 API calls / minute",
    "API Error (529) \u{b7} Retrying in 18 seconds\u{2026} (attempt 6/10)",
    "Unable to connect to API (ConnectionRefused) \u{b7} Retrying in 11s \u{b7} attempt 8/10",
    "retrying 5/5 in 3.32s\u{2026}",
    "Retrying in 0.2 seconds...",
    "will retry in 5s",
    "We will retry the request in 30 seconds",
    "Retry attempt 3 in 4s",
    "pacer: Rate limited, sleeping for 4.037471099s (3 consecutive low level retries)",
    "Waiting 5s for rate limit",
    "npm http fetch attempt 2 failed, backing off 20 seconds",
    "Connection reset by peer",
    "upstream connect error or disconnect/reset before headers. reset reason: connection termination",
    "connection reset after 30 seconds",
    "read ECONNRESET after 120 seconds",
    "Operation timed out after 2010 milliseconds with 0 bytes received",
    "timed out waiting for 900 seconds",
    "Lock wait timeout exceeded after 50 seconds; try restarting transaction",
    "max retry exceeded after 60 seconds",
    "exceeded retry limit, last status: 429 Too Many Requests, request id: 00000000-4290-4290-8529-000000000001",
    "Too many requests in 60 seconds, please try again later",
    "You made 120 requests in 60 seconds. Retry later.",
    "error: src/main.rs:429:17 retry",
    "test_retry_after_30_seconds FAILED",
    "Please retry\nTest finished in 3s",
    "try again in 2 regions",
    "retry after 3 attempts",
    "The token expires in 3600 seconds",
    "Your password reset link expires in 30 minutes",
    "available in 5 regions",
    "Model gpt-5.1 is available in East US 2",
    "Request id 429-1790000000 failed, try again",
    "We had to rate limit you, you hit the quota of 1000 api requests per 5 minutes period.",
    "Rate limit reached: Limit 200000, Used 158833, Requested 62431.",
    "You can make 10 requests in 60 seconds",
    "You can only make one request in 60 seconds",
    "Requests are limited to one every 30 seconds",
    "retry after soon",
    "retry after -5 seconds",
    "Your limit resets every 5 hours",
    "Try again in 18 seconds (attempt 6/10)",
    "Please wait 18 seconds (attempt 6/10)",
    "Retry in 5s, attempt #3",
    "retry after 3/5 attempts",
    "Rate limit reached. Sleeping for: 30 seconds until the limit resets",
    "The service falls back after 30 seconds",
    "In 30 seconds, the server stopped responding.",
    "In 30 seconds access was lost.",
    "penalty 30 seconds",
    "seconds time: 30",
    "30 saniye boyunca tekrar denendi",
    "You have hit the limit of this account, retry after 35\nse",
    "Error\nLimit is hit, retry after 12\nse",
    "resets monthly",
    "Your limit will reset at 3pm (Mars/Phobos).",
    "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute per region'",
    "The rate limit is 8000000 tokens per minute.",
    "please wait",
    "x-ratelimit-remaining: 4870\nx-ratelimit-reset: 1772455200",
    "Please retry in 39s. quota_id: \"GenerateRequestsPerDayPerProjectPerModel-FreeTier\"",
    "2 failed, 427 passed in 5.29s",
    "PASS [   0.229s] (3551/3639) store::tests::rate_limit",
    "Too many tokens, please wait before trying again.",
    "Model is not ready for inference. Wait and try your request again.",
    "We could not reach the URL in time. Please retry later.",
    "Message retention is 30 days. Try again.",
    "Blocked because of 30 requests",
    "HTTP 429 returned at 2026-03-02T13:00:00Z, please retry",
    "在 60 秒内最多 100 次请求",
    "60秒間に100回を超えるリクエストがありました",
];

#[test]
fn stated_waits_are_read() {
    let wrong: Vec<String> = STATED
        .iter()
        .map(|(text, wait)| (text, *wait, said(text, Surroundings::Command)))
        .filter(|(_, wait, got)| *got != Some(*wait))
        .map(|(text, wait, got)| format!("{text:?}\n    wants {wait}, got {got:?}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), STATED.len(), wrong.join("\n"));
}

#[test]
fn no_wait_is_invented() {
    let wrong: Vec<String> = NOTHING
        .iter()
        .filter_map(|text| said(text, Surroundings::Command).map(|got| format!("{text:?}\n    got {got}")))
        .collect();
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), NOTHING.len(), wrong.join("\n"));
}

/// More of both, one a line: `wait in milliseconds or -|sentence`.
const MORE: &str = include_str!("data/hint_sentences.txt");

#[test]
fn sentences_of_the_table_say_what_they_say() {
    let lines = MORE.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let wrong: Vec<String> = lines
        .filter_map(|line| {
            let (wait, text) = line.split_once('|').expect("a wait and a sentence");
            let wait: Option<u128> = if wait == "-" { None } else { Some(wait.parse().expect("milliseconds")) };
            let got = said(&text.replace("\\n", "\n"), Surroundings::Command);
            (got != wait).then(|| format!("{text}\n    wants {wait:?}, got {got:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn printed_headers_count_by_their_counters() {
    let dump = |text| said(text, Surroundings::Command);
    let empty = "headers={'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1772452845', 'server': 'x'}";
    assert_eq!(dump(empty), Some(45 * S));
    let plenty = "headers={'x-ratelimit-remaining': '41', 'x-ratelimit-reset': '1772452845', 'server': 'x'}";
    assert_eq!(dump(plenty), None);
    let wrapped = "\"X-Codex-Primary-Used-Percent\":\"100\",\"X-Codex-S\n econdary-Used-Percent\":\"80\",\"X-Codex-Primary-Reset-After-Seconds\":\"13873\",\"X-Codex-Secondary-Reset-Afte\n r-Seconds\":\"316705\"";
    assert_eq!(dump(wrapped), Some(13_873 * S));
}
