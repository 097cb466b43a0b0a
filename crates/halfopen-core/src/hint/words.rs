//! The words sentences about waiting are made of: connectors, what may stand between a verb and its value, and the
//! verbs of other languages.

/// What leads from a verb to its value, and so what kind of value may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// `in`: a span.
    In,
    /// `after`: a span or an instant.
    After,
    /// `at`, `by`, `from`: an instant.
    At,
    /// `on`: an instant with a day.
    On,
    /// `until`: an instant.
    Until,
    /// `within`: a span that is an upper bound.
    Within,
    /// `for`: a span.
    For,
    /// A colon or an equals sign: anything, a bare number too.
    Colon,
    /// Nothing: an instant (`resets 3pm`).
    Bare,
}

/// Returns the English connector `word`.
pub(super) fn lead(word: &str) -> Option<Lead> {
    Some(match word {
        "in" => Lead::In,
        "after" => Lead::After,
        "at" | "by" | "from" => Lead::At,
        "on" => Lead::On,
        "until" | "till" => Lead::Until,
        "within" => Lead::Within,
        "for" => Lead::For,
        _ => return None,
    })
}

/// Returns the connector `word` of another language. They are short and mean other things in English, so they are
/// asked for only after a verb of another language. What leads to a span (`en`, `dans`, `через`) needs no entry: there a
/// span counts also without one.
pub(super) fn foreign_lead(word: &str) -> Option<Lead> {
    Some(match word {
        "nach" | "apres" | "tras" | "apos" | "depois" | "despues" | "dopo" | "na" | "po" | "после" | "daqui" => {
            Lead::After
        }
        "a" | "as" | "las" | "um" | "alle" | "ab" | "в" | "o" => Lead::At,
        "hasta" | "bis" | "ate" | "fino" | "do" | "до" => Lead::Until,
        _ => return None,
    })
}

/// Returns whether `word` only softens a figure: `about 30 seconds`.
pub(super) fn softens(word: &str) -> bool {
    matches!(
        word,
        "about"
            | "approximately"
            | "approx"
            | "around"
            | "roughly"
            | "another"
            | "at"
            | "least"
            | "minimum"
            | "of"
            | "the"
            | "next"
            | "just"
            | "exactly"
            | "is"
            | "no"
            | "less"
            | "than"
            | "further"
            | "additional"
            | "after"
            | "de"
            | "unos"
            | "unas"
            | "cerca"
            | "environ"
            | "etwa"
            | "ca"
            | "circa"
            | "ungefahr"
            | "aproximadamente"
            | "mindestens"
            | "menos"
            | "al"
            | "moins"
            | "au"
            | "los"
            | "las"
            | "den"
            | "der"
            | "примерно"
            | "value"
            | "header"
            | "="
    )
}

/// Returns whether `word`, between a verb and a connector, makes the sentence one about something else.
pub(super) fn breaks_off(word: &str) -> bool {
    matches!(
        word,
        "exceeded"
            | "exceeding"
            | "failed"
            | "failing"
            | "fails"
            | "failure"
            | "timeout"
            | "timed"
            | "attempts"
            | "attempted"
            | "count"
            | "policy"
            | "budget"
            | "gave"
            | "giving"
            | "error"
            | "errors"
            | "elapsed"
            | "took"
            | "max"
            | "maximum"
            | "every"
            | "each"
            | "per"
            | "once"
            | "than"
            | "window"
            | "windows"
            | "period"
            | "interval"
            | "cannot"
            | "unless"
            | "because"
            | "since"
            | "while"
            | "finished"
            | "completed"
            | "done"
            | "passed"
            | "ran"
            | "reducing"
            | "lowering"
            | "increasing"
            | "was"
            | "were"
            | "limited"
            | "permitted"
            | "times"
            | "did"
            | "does"
    )
}

/// Whether a verb asks for another attempt or tells of a limit's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// `retry`, `try again`, `wait`.
    Retry,
    /// `resets`, `available`, `until`.
    Reset,
}

/// Returns the rank of a verb of another language, by its stem.
pub(super) fn foreign_verb(word: &str) -> Option<Rank> {
    const RETRY: [&str; 27] = [
        "intent",
        "reintent",
        "vuelva",
        "vuelve",
        "espere",
        "espera",
        "tente",
        "tentar",
        "aguarde",
        "reessay",
        "attendez",
        "patiente",
        "versuch",
        "warten",
        "riprov",
        "attend",
        "probeer",
        "wacht",
        "sprobuj",
        "ponow",
        "odczekaj",
        "попробуйте",
        "повторите",
        "подождите",
        "forsok",
        "vanta",
        "reintenta",
    ];
    const RESET: [&str; 15] = [
        "restablec",
        "reinici",
        "restaur",
        "redefin",
        "renov",
        "reinitialis",
        "disponib",
        "verfugbar",
        "zuruckgesetzt",
        "reimpost",
        "ripristin",
        "сброс",
        "обнов",
        "hervat",
        "libera",
    ];
    // English words that begin alike.
    if matches!(
        word,
        "intent" | "intents" | "intention" | "intentional" | "intentionally" | "attend" | "attended" | "restaurant"
    ) || word.starts_with("attendan")
    {
        return None;
    }
    if RETRY.iter().any(|stem| word.starts_with(stem)) {
        return Some(Rank::Retry);
    }
    RESET.iter().any(|stem| word.starts_with(stem)).then_some(Rank::Reset)
}

/// Returns whether `word`, after a value, closes a German or Turkish sentence about another attempt:
/// `in 30 Sekunden erneut`.
pub(super) fn closes(word: &str) -> Option<Rank> {
    match word {
        "erneut" | "nochmal" | "nochmals" | "wieder" | "tekrar" | "opnieuw" | "igen" => Some(Rank::Retry),
        "zuruckgesetzt" | "zurueckgesetzt" | "sifirlanacak" | "aufgehoben" => Some(Rank::Reset),
        _ => None,
    }
}

/// Returns whether `word` says that something is shut, so that `until` names its end.
pub(super) fn is_shut(word: &str) -> bool {
    matches!(
        word,
        "blocked"
            | "suspended"
            | "throttled"
            | "limited"
            | "locked"
            | "banned"
            | "unavailable"
            | "paused"
            | "wait"
            | "maintenance"
            | "out"
            | "exhausted"
            | "closed"
            | "down"
            | "disabled"
            | "offline"
            | "restricted"
            | "cooldown"
            | "frozen"
            | "denied"
            | "rejected"
            | "refused"
            | "reached"
            | "exceeded"
            | "retry"
            | "again"
            | "requests"
            | "penalty"
            | "lockout"
            | "block"
            | "ban"
            | "hold"
    )
}

/// Returns whether `word` names something whose end is the end of a wait.
pub(super) fn is_barrier(word: &str) -> bool {
    matches!(
        word,
        "maintenance"
            | "outage"
            | "downtime"
            | "lockout"
            | "ban"
            | "block"
            | "suspension"
            | "cooldown"
            | "penalty"
            | "throttle"
            | "throttling"
            | "freeze"
            | "limit"
            | "quota"
            | "restriction"
    )
}

/// Returns whether `word` is what a caller may do again: `you can submit the request after 49 seconds`.
pub(super) fn is_deed(word: &str) -> bool {
    matches!(
        word,
        "submit"
            | "send"
            | "make"
            | "request"
            | "retry"
            | "try"
            | "use"
            | "continue"
            | "access"
            | "resume"
            | "post"
            | "call"
            | "upload"
            | "download"
            | "create"
            | "start"
            | "proceed"
            | "login"
            | "log"
            | "sign"
            | "message"
            | "ask"
            | "run"
    )
}
