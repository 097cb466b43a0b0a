//! Reads sentences of languages that write without blanks: `30秒后重试`, `您的限额将在 … 重置`, `5分後に再試行`.
//!
//! The tokens are the same; but the verb is a part of a longer run of letters, and it stands behind the value. A value
//! counts if such a verb follows it in the same sentence, or if the words before it announce one.

use super::headers::Found;
use super::lex::{Kind, Token};
use super::number::{Stated, span};
use super::prose::Hit;
use super::when::{self, Moment};
use super::words::Rank;
use super::{Reading, duration};

const RETRY: [&str; 24] = [
    "重试",
    "重試",
    "再试",
    "再試",
    "再次",
    "重新",
    "再发",
    "再請求",
    "再请求",
    "再来",
    "再來",
    "もう一度",
    "再度",
    "試し",
    "リトライ",
    "やり直",
    "お待ち",
    "다시",
    "재시도",
    "等待",
    "稍候",
    "请等",
    "請等",
    "기다",
];
const RESET: [&str; 22] = [
    "重置",
    "恢复",
    "恢復",
    "解除",
    "解封",
    "刷新",
    "更新",
    "可用",
    "リセット",
    "再開",
    "回復",
    "復旧",
    "利用可能",
    "ご利用",
    "초기화",
    "재설정",
    "리셋",
    "복구",
    "해제",
    "復帰",
    "生效",
    "清零",
];

/// How many characters may stand between a value and its verb.
const REACH_CHARS: usize = 16;

/// Returns the zone in which a service that speaks the text's language means a time without one.
pub(super) fn zone_of(text: &str) -> Option<&'static str> {
    let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if says(&["に", "まで", "です", "ます", "リセット"]) {
        Some("asia/tokyo")
    } else if says(&["초기화", "다시", "재설정", "한도", "요청"]) {
        Some("asia/seoul")
    } else if says(&["重置", "恢复", "恢復", "限额", "限額", "上限", "请", "請", "再试", "再試", "重试"])
    {
        Some("asia/shanghai")
    } else {
        None
    }
}

/// Returns the values that such sentences state.
pub(super) fn hits(text: &str, tokens: &[Token<'_>], reading: &Reading<'_>, moment: &Moment) -> Vec<Hit> {
    if text.is_ascii() {
        return Vec::new();
    }
    let mut hits = Vec::new();
    let mut line = 0;
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].kind == Kind::Break {
            line += 1;
        }
        let Some((found, rank, end)) = value(text, tokens, at, reading, moment) else {
            at += 1;
            continue;
        };
        hits.push(Hit { found, rank, line });
        at = end;
    }
    hits
}

fn value(
    text: &str,
    tokens: &[Token<'_>],
    at: usize,
    reading: &Reading<'_>,
    moment: &Moment,
) -> Option<(Found, Rank, usize)> {
    let token = &tokens[at];
    let starts =
        token.kind == Kind::Number || matches!(token.text, "午前" | "午後" | "上午" | "下午" | "오전" | "오후");
    if !starts || at > 0 && tokens[at - 1].kind == Kind::Number {
        return None;
    }
    if let Some((nanos, end, rest)) = eastern_span(text, tokens, at) {
        let tail = &text[rest..];
        let marked = ["后", "後", "之", "以", "후", "뒤", "待", "経", "左右", "钟"]
            .iter()
            .any(|sign| tail.trim_start().starts_with(sign));
        let announced =
            verb_before(text, token.start, &["等待", "请等", "請等", "请在", "請在", "请于", "お待ち", "あと", "剩余"]);
        let rank = verb_after(tail).filter(|_| marked).or_else(|| announced.then_some(Rank::Retry))?;
        return Some((Found { wait: span(nanos)?, absolute: false }, rank, end));
    }
    let (instant, end) = eastern_day(text, tokens, at, moment).or_else(|| when::read(text, tokens, at, moment))?;
    // The sign of the hour may run into what follows (`時にリセット`).
    let last = tokens[end - 1];
    let rest = match last.text.chars().next() {
        Some(sign) if last.kind == Kind::Word && !sign.is_ascii() => last.start + sign.len_utf8(),
        _ => tokens.get(end).map_or(text.len(), |t| t.start),
    };
    let announced = verb_before(
        text,
        token.start,
        &[
            "重置时间",
            "重置時間",
            "恢复时间",
            "恢復時間",
            "解除时间",
            "リセット時刻",
            "リセット日時",
            "再開予定",
            "초기화 시간",
        ],
    );
    let rank = verb_after(&text[rest..]).or_else(|| announced.then_some(Rank::Reset))?;
    Some((reading.found(Stated::At(instant)), rank, end))
}

/// `1小时30分钟`: nanoseconds, the token after it, and the byte at which the rest begins.
fn eastern_span(text: &str, tokens: &[Token<'_>], at: usize) -> Option<(u128, usize, usize)> {
    const UNITS: [(&str, u128); 19] = [
        ("毫秒", 1_000_000),
        ("ミリ秒", 1_000_000),
        ("秒钟", 1_000_000_000),
        ("秒鐘", 1_000_000_000),
        ("秒間", 1_000_000_000),
        ("秒", 1_000_000_000),
        ("초", 1_000_000_000),
        ("分钟", 60_000_000_000),
        ("分鐘", 60_000_000_000),
        ("分間", 60_000_000_000),
        ("分", 60_000_000_000),
        ("분", 60_000_000_000),
        ("个小时", 3_600_000_000_000),
        ("個小時", 3_600_000_000_000),
        ("小时", 3_600_000_000_000),
        ("小時", 3_600_000_000_000),
        ("時間", 3_600_000_000_000),
        ("시간", 3_600_000_000_000),
        ("天", 86_400_000_000_000),
    ];
    let mut total: u128 = 0;
    let mut next = at;
    let mut rest = None;
    while let Some(number) = tokens.get(next).filter(|t| t.kind == Kind::Number).and_then(duration::decimal) {
        let Some(word) = tokens.get(next + 1).filter(|t| t.kind == Kind::Word) else { break };
        let Some((name, length)) = UNITS.iter().find(|(name, _)| word.text.starts_with(name)) else { break };
        total = total.checked_add(number.nanos(*length)?)?;
        rest = Some(word.start + name.len());
        next += 2;
        if word.text.len() > name.len() {
            break;
        }
    }
    let rest = rest.filter(|rest| *rest <= text.len())?;
    Some((total, next, rest))
}

/// `2026年3月2日 12:05`, `3月2日午後3時`.
fn eastern_day(text: &str, tokens: &[Token<'_>], at: usize, moment: &Moment) -> Option<(jiff::Timestamp, usize)> {
    let figure = |at: usize, sign: &str| {
        tokens.get(at + 1).filter(|t| t.text.starts_with(sign)).and_then(|_| tokens[at].whole(4))
    };
    let (year, month_at) = match figure(at, "年").or_else(|| figure(at, "년")) {
        Some(year) => (Some(year), at + 2),
        None => (None, at),
    };
    let month = figure(month_at, "月").or_else(|| figure(month_at, "월"))?;
    let day =
        figure(month_at + 2, "日").or_else(|| figure(month_at + 2, "일")).or_else(|| figure(month_at + 2, "号"))?;
    let day_sign = tokens[month_at + 3];
    let time_at = day_sign.start + day_sign.text.chars().next().map_or(0, char::len_utf8);
    // The sign of the day may run into what follows (`日午後`), so the time is read from the text again.
    let clock: String = text[time_at..].chars().take(24).collect();
    let head = match year {
        Some(year) => format!("{year:04}-{month:02}-{day:02} "),
        None => format!("{} {day} ", ENGLISH_MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?)?),
    };
    let spelled = format!("{head}{}", spaced_halves(&clock));
    let spelled_tokens = super::lex::lex(&spelled);
    let (instant, end) = when::read(&spelled, &spelled_tokens, 0, moment)?;
    let consumed = spelled_tokens.get(end).map_or(spelled.len(), |t| t.start).saturating_sub(head.len());
    let ahead = tokens[month_at + 4..].iter().take_while(|t| t.start < time_at + consumed.min(clock.len())).count();
    Some((instant, month_at + 4 + ahead))
}

const ENGLISH_MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Puts a blank behind the words for the halves of a day, so that they are words of their own.
fn spaced_halves(clock: &str) -> String {
    let mut out = clock.to_owned();
    for half in ["午前", "午後", "上午", "下午", "오전", "오후"] {
        out = out.replace(half, &format!("{half} "));
    }
    out
}

/// Returns the rank of the first verb within reach, in the same sentence.
fn verb_after(tail: &str) -> Option<Rank> {
    let reach: String = tail
        .chars()
        .take_while(|c| !matches!(c, '。' | '！' | '？' | '.' | '!') && !c.is_ascii_digit())
        .take(REACH_CHARS)
        .collect();
    if reach.is_ascii() {
        return None;
    }
    let first = |verbs: &[&str]| verbs.iter().filter_map(|verb| reach.find(verb)).min();
    match (first(&RETRY), first(&RESET)) {
        (Some(retry), Some(reset)) => Some(if retry < reset { Rank::Retry } else { Rank::Reset }),
        (Some(_), None) => Some(Rank::Retry),
        (None, Some(_)) => Some(Rank::Reset),
        (None, None) => None,
    }
}

/// Returns whether one of `announcements` stands right before byte `at`.
fn verb_before(text: &str, at: usize, announcements: &[&str]) -> bool {
    let head = text[..at].trim_end_matches([' ', ':', '为', '為', 'は', '约', '約', '~']);
    announcements.iter().any(|word| head.ends_with(word))
}
