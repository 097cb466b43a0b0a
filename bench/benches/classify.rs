//! Measures what it costs to understand an outcome: judging, reading a wait, listening, and the first time of it all.
//!
//! Repetitions are the outer loop and the compared things the inner one, as in `core.rs`: on a shared machine only the
//! ratio to a floor of the same repetition means anything. The floors are what nobody gets around who wants to know
//! something about the same bytes: looking at each of them once (`memchr` for a byte that is not there), parsing them
//! if they are JSON, copying them. Beside them stands what the answer is for: starting one process.
//!
//! The cold figures are taken in fresh processes, for a wrapper judges one outcome in its life: this program starts
//! itself with `--cold CASE`.
//!
//! ```text
//! cargo bench -p halfopen-bench --bench classify [-- REPETITIONS]
//! ```

use std::hint::black_box;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use halfopen_core::classify::Classifier;
use halfopen_core::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};
use halfopen_core::time::{ReadAt, Timestamp};
use halfopen_core::verdict::{Class, Verdict};

type Error = Box<dyn std::error::Error>;

/// One measurement of one thing lasts about this long.
const CELL: Duration = Duration::from_millis(20);
/// A moment at which dates in the cases lie ahead: 2026-11-30 12:00:00 UTC.
const NOW_MS: i64 = 1_796_040_000_000;
/// How many fresh processes each repetition starts for one cold case.
const COLD_PROCESSES: usize = 5;
/// How much output an ear is given at once; what a pipe holds.
const PIECE: usize = 64 << 10;

/// An outcome to be judged, and the class it must get, so that a bench of something else is noticed.
struct Case {
    name: &'static str,
    profile: &'static str,
    fact: Fact,
    expect: Class,
    /// Whether a wait must be read from it.
    hint: bool,
}

enum Fact {
    Command { exit: i32, stdout: String, stderr: String },
    Http { status: u16, headers: Vec<(&'static str, &'static str)>, body: String },
}

impl Case {
    fn bytes(&self) -> Vec<u8> {
        match &self.fact {
            Fact::Command { stdout, stderr, .. } => [stdout.as_bytes(), stderr.as_bytes()].concat(),
            Fact::Http { headers, body, .. } => {
                let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
                [head.as_bytes(), body.as_bytes()].concat()
            }
        }
    }

    fn judge(&self, classifier: &Classifier, at: &ReadAt) -> Verdict {
        let elapsed = Duration::from_secs(2);
        match &self.fact {
            Fact::Command { exit, stdout, stderr } => {
                let (stdout, stderr) = (Excerpt::whole(stdout.as_bytes()), Excerpt::whole(stderr.as_bytes()));
                classifier.command(&CommandOutcome { exit: Exit::Code(*exit), stdout, stderr, elapsed }, at)
            }
            Fact::Http { status, headers, body } => {
                let body = Excerpt::whole(body.as_bytes());
                let (method, reached) = ("POST", Reached::Answered);
                classifier.http(&HttpOutcome { method, status: *status, headers, body, reached, elapsed }, at)
            }
        }
    }

    fn check(&self, verdict: &Verdict) -> Result<(), Error> {
        if verdict.class == self.expect && verdict.hint.is_some() == self.hint {
            return Ok(());
        }
        Err(format!("`{}` came out as {} with hint {:?}", self.name, verdict.class, verdict.hint).into())
    }
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let cases = cases();
    if let Some(name) = words.iter().position(|word| word == "--cold").and_then(|at| words.get(at + 1)) {
        return cold_child(cases.iter().find(|case| case.name == name).ok_or("no such case")?);
    }
    let repetitions = words.iter().find_map(|word| word.parse().ok()).unwrap_or(9);
    let mut out = std::io::stdout().lock();
    judging(&cases, repetitions, &mut out)?;
    listening(repetitions, &mut out)?;
    cold(&cases, repetitions, &mut out)
}

/// Warm: the same outcome judged over and over.
fn judging(cases: &[Case], repetitions: usize, out: &mut impl std::io::Write) -> Result<(), Error> {
    let at = ReadAt::utc(Timestamp::from_millis(NOW_MS));
    let classifiers: Vec<Classifier> =
        cases.iter().map(|case| Classifier::new(case.profile, Vec::new())).collect::<Result<_, _>>()?;
    let mut cells = vec![[const { Vec::new() }; 3]; cases.len()];
    let mut starts = Vec::new();
    for _ in 0..repetitions {
        starts.push(start_of_a_process()?);
        for ((case, classifier), cells) in cases.iter().zip(&classifiers).zip(&mut cells) {
            case.check(&case.judge(classifier, &at))?;
            let bytes = case.bytes();
            cells[0].push(nanos(|| drop(black_box(case.judge(classifier, &at)))));
            cells[1].push(nanos(|| look_at(&bytes)));
            cells[2].push(match &case.fact {
                Fact::Http { body, .. } if body.starts_with('{') => {
                    nanos(|| drop(black_box(serde_json::from_str::<serde_json::Value>(black_box(body)))))
                }
                Fact::Command { .. } | Fact::Http { .. } => f64::NAN,
            });
        }
    }
    writeln!(out, "\nJudging an outcome, warm; starting `/bin/true` took {:.0} µs\n", median(starts.clone()) / 1e3)?;
    writeln!(out, "| outcome | pack | bytes | µs (min–max) | x memchr | x serde_json | of one process start |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for (case, [judge, scan, parse]) in cases.iter().zip(&cells) {
        let parse = ratio(judge, parse);
        writeln!(
            out,
            "| {} | {} | {} | {} | {:.0} | {} | {:.2} % |",
            case.name,
            case.profile,
            case.bytes().len(),
            spread(judge, 1e3),
            ratio(judge, scan),
            if parse.is_nan() { "–".to_owned() } else { format!("{parse:.1}") },
            100.0 * ratio(judge, &starts),
        )?;
    }
    Ok(())
}

/// Listening to a command that writes a lot, in what a pipe gives at once.
fn listening(repetitions: usize, out: &mut impl std::io::Write) -> Result<(), Error> {
    let plain = "compiling module 17 of 4711, nothing to be seen here, 0.42 s elapsed\n".repeat(1000);
    let agent = agent_event("reading the file and thinking about what it says", "").repeat(300);
    let rows: [(&str, &str, &str, bool); 4] = [
        ("plain lines on stdout", "generic", &plain, false),
        ("plain lines on stderr", "generic", &plain, true),
        ("plain lines on stdout", "claude-code", &plain, false),
        ("stream-json events on stdout", "claude-code", &agent, false),
    ];
    writeln!(out, "\nListening to {} KiB pieces\n", PIECE >> 10)?;
    writeln!(out, "| output | pack | MB/s (min–max) | x time of memchr | x time of memcpy |\n|---|---|---|---|---|")?;
    for (name, profile, text, to_stderr) in rows {
        let classifier = Classifier::new(profile, Vec::new())?;
        let stream: Vec<u8> = text.bytes().cycle().take(16 * PIECE).collect();
        let (mut hear, mut scan, mut copy) = (Vec::new(), Vec::new(), Vec::new());
        let mut room = vec![0_u8; PIECE];
        for _ in 0..repetitions {
            hear.push(nanos(|| {
                let mut ear = classifier.listen();
                for piece in stream.chunks(PIECE) {
                    if to_stderr { ear.stderr(piece) } else { ear.stdout(piece) }
                }
                black_box(ear.heard());
            }));
            scan.push(nanos(|| {
                stream.chunks(PIECE).for_each(look_at);
            }));
            copy.push(nanos(|| {
                stream.chunks(PIECE).for_each(|piece| black_box(&mut room).copy_from_slice(black_box(piece)));
            }));
        }
        let rates: Vec<f64> = hear.iter().map(|nanos| stream.len() as f64 * 1e3 / nanos).collect();
        let (to_scan, to_copy) = (ratio(&hear, &scan), ratio(&hear, &copy));
        writeln!(out, "| {name} | {profile} | {} | {to_scan:.1} | {to_copy:.1} |", spread(&rates, 1.0))?;
    }
    Ok(())
}

/// The first outcome of a fresh process.
fn cold(cases: &[Case], repetitions: usize, out: &mut impl std::io::Write) -> Result<(), Error> {
    let mut cells = vec![[const { Vec::new() }; 3]; cases.len()];
    let mut starts = Vec::new();
    for _ in 0..repetitions {
        starts.push(start_of_a_process()?);
        for (case, cells) in cases.iter().zip(&mut cells) {
            for _ in 0..COLD_PROCESSES {
                let child = Command::new(std::env::current_exe()?).args(["--cold", case.name]).output()?;
                let text = String::from_utf8(child.stdout)?;
                let figures: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
                let [load, first, second] = figures.as_slice() else {
                    return Err("a cold process said nothing".into());
                };
                for (cell, figure) in cells.iter_mut().zip([load, first, second]) {
                    cell.push(*figure);
                }
            }
        }
    }
    writeln!(out, "\nIn a fresh process; starting `/bin/true` took {:.0} µs\n", median(starts.clone()) / 1e3)?;
    writeln!(
        out,
        "| outcome | pack | loading the pack µs | first verdict µs (min–max) | second µs | both of one process start |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for (case, [load, first, second]) in cases.iter().zip(&cells) {
        writeln!(
            out,
            "| {} | {} | {:.0} | {} | {:.0} | {:.0} % |",
            case.name,
            case.profile,
            median(load.clone()) / 1e3,
            spread(first, 1e3),
            median(second.clone()) / 1e3,
            100.0 * (median(load.clone()) + median(first.clone())) / median(starts.clone()),
        )?;
    }
    Ok(())
}

/// Prints the nanoseconds that the pack, the first and the second verdict took.
fn cold_child(case: &Case) -> Result<(), Error> {
    let at = ReadAt::utc(Timestamp::from_millis(NOW_MS));
    let began = Instant::now();
    let classifier = Classifier::new(case.profile, Vec::new())?;
    let loaded = began.elapsed();
    let began = Instant::now();
    let verdict = case.judge(&classifier, &at);
    let first = began.elapsed();
    let began = Instant::now();
    drop(black_box(case.judge(&classifier, &at)));
    let second = began.elapsed();
    case.check(&verdict)?;
    writeln!(std::io::stdout(), "{} {} {}", loaded.as_nanos(), first.as_nanos(), second.as_nanos())?;
    Ok(())
}

/// Looks at every byte once, for one that is not there.
fn look_at(bytes: &[u8]) {
    black_box(memchr::memchr(0, black_box(bytes)));
}

/// Returns how long the shortest command there is takes from start to end, in nanoseconds.
fn start_of_a_process() -> Result<f64, Error> {
    let mut took = Vec::new();
    for _ in 0..COLD_PROCESSES {
        let began = Instant::now();
        Command::new("/bin/true").stdin(Stdio::null()).status()?;
        took.push(began.elapsed().as_nanos() as f64);
    }
    Ok(median(took))
}

fn agent_event(text: &str, error: &str) -> String {
    format!(
        "{{\"type\":\"assistant\",\"message\":{{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\
         \"model\":\"claude-opus\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"stop_reason\":null,\
         \"usage\":{{\"input_tokens\":3,\"output_tokens\":120}}}},\"session_id\":\"6b1c\"{error}}}\n"
    )
}

fn cases() -> Vec<Case> {
    let command = |name, profile, exit, stdout: &str, stderr: &str, expect, hint| Case {
        name,
        profile,
        fact: Fact::Command { exit, stdout: stdout.to_owned(), stderr: stderr.to_owned() },
        expect,
        hint,
    };
    let http = |name, profile, status, headers: &[(&'static str, &'static str)], body: &str, hint| Case {
        name,
        profile,
        fact: Fact::Http { status, headers: headers.to_vec(), body: body.to_owned() },
        expect: Class::RateLimited,
        hint,
    };
    let events = |end: &str| {
        let init = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"6b1c\",\"tools\":[\"Bash\",\"Read\"]}\n";
        format!("{init}{}{end}\n", agent_event("I will look at the file first.", "").repeat(6))
    };
    let done = events(
        "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":6,\"result\":\"Done.\",\
         \"session_id\":\"6b1c\"}",
    );
    let overloaded = events(
        "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"num_turns\":6,\"result\":\"API Error: 529 \
         {\\\"type\\\":\\\"error\\\",\\\"error\\\":{\\\"type\\\":\\\"overloaded_error\\\",\\\"message\\\":\
         \\\"Overloaded\\\"}}\",\"session_id\":\"6b1c\"}",
    );
    let essay = "I changed the parser so that an empty line ends the block, and added two tests for it.\n".repeat(8);
    let answer = "{\"error\":{\"message\":\"Rate limit reached for gpt-4o in organization org-1 on tokens per min \
                  (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.\",\"type\":\"tokens\",\
                  \"param\":null,\"code\":\"rate_limit_exceeded\"}}";
    let limits = [
        ("content-type", "application/json"),
        ("x-ratelimit-limit-tokens", "30000"),
        ("x-ratelimit-remaining-tokens", "1000"),
        ("x-ratelimit-reset-tokens", "2s"),
        ("retry-after-ms", "2000"),
        ("date", "Mon, 30 Nov 2026 12:00:00 GMT"),
    ];
    let delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
                 {\"type\":\"text_delta\",\"text\":\"and so on\"}}\n\n";
    let broken = format!(
        "{}event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\
         \"Overloaded\"}}}}\n\n",
        delta.repeat(20)
    );
    let stream = [("content-type", "text/event-stream")];
    let mut cases = vec![
        command("success of an ordinary command", "generic", 0, &essay, "", Class::Success, false),
        command("success in text", "claude-code", 0, &essay, "", Class::Success, false),
        command("success in stream-json", "claude-code", 0, &done, "", Class::Success, false),
        command("overload in stream-json", "claude-code", 1, &overloaded, "", Class::Overloaded, false),
        command(
            "usage limit in text",
            "claude-code",
            1,
            "You've hit your session limit · resets 3:45pm (Europe/Berlin)\n",
            "",
            Class::UsageLimit,
            true,
        ),
        command(
            "HTTP 429 in text of an unknown tool",
            "generic",
            1,
            "",
            "fetching page 3\nerror: server returned HTTP 429 Too Many Requests, retry after 30 seconds\n",
            Class::RateLimited,
            true,
        ),
        command("failure that nobody knows", "generic", 1, &essay, "it did not work\n", Class::UnknownFailure, false),
        http("429 in JSON with limiter headers", "openai", 429, &limits, answer, true),
        http("hint in a header only", "generic", 429, &[("retry-after", "30")], "", true),
        http("hint in a body only", "openai", 429, &[("content-type", "application/json")], answer, true),
        http("hint in prose only", "generic", 429, &[], "Too many requests. Please try again in 20 minutes.", true),
    ];
    let sse = http("overload inside a 200 event stream", "anthropic", 200, &stream, &broken, false);
    cases.push(Case { expect: Class::Overloaded, ..sse });
    cases
}

/// Returns the nanoseconds of one call, measured for about [`CELL`].
fn nanos(mut call: impl FnMut()) -> f64 {
    let began = Instant::now();
    let mut calls = 0_u64;
    let mut batch = 1;
    loop {
        (0..batch).for_each(|_| call());
        calls += batch;
        let elapsed = began.elapsed();
        if elapsed >= CELL {
            return elapsed.as_nanos() as f64 / calls as f64;
        }
        batch = (batch * 2).min(10_000);
    }
}

/// Returns the median over the repetitions of the ratio within each.
fn ratio(own: &[f64], floor: &[f64]) -> f64 {
    median(own.iter().zip(floor).map(|(own, floor)| own / floor).collect())
}

fn spread(figures: &[f64], unit: f64) -> String {
    let (low, high) =
        figures.iter().fold((f64::MAX, 0f64), |(low, high), figure| (low.min(*figure), high.max(*figure)));
    format!("{:.1} ({:.1}–{:.1})", median(figures.to_vec()) / unit, low / unit, high / unit)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
