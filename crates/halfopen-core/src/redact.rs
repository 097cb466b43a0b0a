//! Takes secrets out of text that is shown or kept: evidence, samples of unclassified failures, reports.
//!
//! Recognised by form, because nobody tells us which words are secret: what follows `Authorization`, `Bearer`, a member
//! or parameter whose name says key, token, password or secret; tokens with a known prefix; web tokens; user parts of
//! URLs; cookies; private keys. What is replaced reads `[redacted]`. Too much is better than too little where a value
//! has the form of a secret, and nothing is touched where a word only talks about one (`token limit: 200000`).

mod words;

use self::words::{ENDS, FIELD_ENDS, NAMES, PLAIN_ENDS, PREFIXES, QUOTED_NAMES, TALK};

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// The longest line shown as evidence, in characters.
const LINE_CHARS_MAX: usize = 240;

/// Returns `text` as one line of at most 240 characters without its secrets.
#[must_use]
pub fn line(text: &str) -> String {
    // Redacted before it is cut, so that no half of a secret is left at the end.
    let words = text.split_whitespace().flat_map(|word| [" ", word]).skip(1);
    let squeezed: String = words.flat_map(str::chars).take(4 * LINE_CHARS_MAX).collect();
    let clean = redact(&squeezed);
    let clean: String = clean.chars().filter(|c| !c.is_control()).collect();
    if clean.chars().count() <= LINE_CHARS_MAX {
        return clean;
    }
    let mut cut: String = clean.chars().take(LINE_CHARS_MAX - 1).collect();
    cut.push('…');
    cut
}

/// Returns `text` without its secrets.
#[must_use]
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some((kept, after)) = secret_at_start(rest, out.chars().next_back()) {
            out.push_str(&kept);
            rest = after;
            continue;
        }
        let ch = rest.chars().next().unwrap_or(' ');
        out.push(ch);
        rest = &rest[ch.len_utf8()..];
    }
    out
}

/// Says which argument of a command carries a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretArgument {
    /// Its position among the arguments, from 0.
    pub index: usize,
    /// The argument without the secret.
    pub shown: String,
}

/// Returns the first argument that carries a recognised secret, or follows a flag that announces one.
#[must_use]
pub fn secret_in_args<'a>(args: impl IntoIterator<Item = &'a str>) -> Option<SecretArgument> {
    let mut announced: Option<&str> = None;
    for (index, arg) in args.into_iter().enumerate() {
        if let Some(flag) = announced.take().filter(|_| !arg.starts_with('-') && !arg.is_empty() && !is_reference(arg))
        {
            return Some(SecretArgument { index, shown: format!("{flag} {REDACTED}") });
        }
        let clean = redact(arg);
        if clean != arg {
            return Some(SecretArgument { index, shown: line(&clean) });
        }
        let flag = arg.trim_start_matches('-');
        if arg.starts_with("--") && !flag.contains('=') && is_secret_name(flag) {
            announced = Some(arg);
        }
    }
    None
}

/// Returns whether an argument only names where a secret is: a file, a variable, standard input.
fn is_reference(arg: &str) -> bool {
    arg == "-" || arg.starts_with(['@', '$', '/', '.', '~'])
}

/// Returns what to write instead of the secret at the start of `rest`, and what comes after it.
fn secret_at_start(rest: &str, before: Option<char>) -> Option<(String, &str)> {
    if let Some(body) = rest.strip_prefix("-----BEGIN ") {
        let end = body.find("-----END").and_then(|at| body[at + 8..].find("-----").map(|more| at + 8 + more + 5));
        return Some((REDACTED.to_owned(), end.map_or("", |end| &body[end..])));
    }
    if let Some(body) = rest.strip_prefix("://") {
        let end = body.find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '"' | '\'')).unwrap_or(body.len());
        let at = body[..end].rfind('@')?;
        let user = &body[..at];
        return (user.contains(':') || user.len() > 20).then(|| (format!("://{REDACTED}"), &body[at..]));
    }
    if before.is_some_and(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    named(rest).or_else(|| flag(rest)).or_else(|| quoted(rest)).or_else(|| scheme(rest)).or_else(|| {
        let token = token(rest);
        let known = PREFIXES.iter().any(|(prefix, least)| {
            token.len() >= *least && token.starts_with(prefix) && looks_random(&token[prefix.len()..])
        });
        known.then(|| (REDACTED.to_owned(), &rest[token.len()..]))
    })
}

/// `name=value`, `"name": "value"`, `name: value`.
fn named(rest: &str) -> Option<(String, &str)> {
    let name_len =
        rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))).unwrap_or(rest.len());
    let name = &rest[..name_len];
    if !is_secret_name(name) && !names_a_token(name) {
        return None;
    }
    let after = &rest[name_len..];
    let gap = after.trim_start_matches(['"', '\'', '\\', ' ']);
    let separator = gap.chars().next().filter(|c| matches!(c, '=' | ':'))?;
    if separator == ':' && gap.starts_with("://") {
        return None;
    }
    let value = gap[1..].trim_start_matches(['=', ' ']).trim_start_matches('\\');
    let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
    let lead = &rest[..rest.len() - value.len()];
    let folded = letters(name);
    let whole_line = matches!(folded.as_str(), "cookie" | "setcookie" | "authorization" | "proxyauthorization");
    let end = match Quote::opened_by(lead) {
        Some(quote) => match quote.end_in(value) {
            Some(end) => end,
            // The end of a quotation: `set "password=" in the file`.
            None if value.starts_with(' ') => 0,
            None => value.find('\n').unwrap_or(value.len()),
        },
        None if whole_line => whole_line_end(value),
        None => bare_end(value),
    };
    let secret = &value[..end];
    let quoted = after.len() > gap.len() || gap[1..].trim_start().starts_with(['"', '\'']);
    let header = name.trim_start_matches('-').contains('-') && !is_talk(secret);
    let plain_word =
        separator == ':' && !quoted && !header && secret.len() < 20 && !secret.chars().any(|c| c.is_ascii_digit());
    let nothing_but_stars = secret.bytes().all(|b| b == b'*');
    if secret == REDACTED || plain_word && !whole_line || nothing_but_stars {
        return None;
    }
    if !is_secret_name(name) && (secret.len() < TOKEN_BYTES_MIN || !looks_random(secret)) {
        return None;
    }
    // A count is no secret: `token: 4096`.
    if folded == "token" && secret.len() < TOKEN_BYTES_MIN && secret.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((format!("{lead}{REDACTED}"), &value[end..]))
}

/// A shorter word or number behind a name that ends in `token` is none.
const TOKEN_BYTES_MIN: usize = 8;

/// `--password hunter`, and as a list of arguments is printed: `'--password', 'hunter'`.
fn flag(rest: &str) -> Option<(String, &str)> {
    if !rest.starts_with('-') {
        return None;
    }
    let name_len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(rest.len());
    let (name, after) = rest.split_at(name_len);
    let listed = after.strip_prefix(['"', '\'']).and_then(|after| after.strip_prefix(','));
    let value = listed.unwrap_or(after).trim_start_matches(' ');
    if !is_secret_name(name) || (listed.is_none() && value.len() == after.len()) {
        return None;
    }
    let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
    let lead = &rest[..rest.len() - value.len()];
    let end = Quote::opened_by(lead)
        .and_then(|quote| quote.end_in(value))
        .or_else(|| value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`')))
        .unwrap_or(value.len());
    let secret = &value[..end];
    // What stands for a value is none: `--token TOKEN`, `--token <TOKEN>`, `--token $TOKEN`, `--token --json`.
    let placeholder = secret.starts_with(['-', '<', '[', '{', '(', '|', '=', ':', ',']) || is_secret_name(secret);
    if secret.is_empty() || placeholder || is_reference(secret) || is_talk(secret) {
        return None;
    }
    Some((format!("{lead}{REDACTED}"), &value[end..]))
}

/// `passphrase "correct horse"`.
fn quoted(rest: &str) -> Option<(String, &str)> {
    let name_len = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (name, after) = rest.split_at(name_len);
    let value = after.strip_prefix(' ')?.strip_prefix(['"', '\''])?;
    if !QUOTED_NAMES.contains(&letters(name).as_str()) {
        return None;
    }
    let lead = &rest[..rest.len() - value.len()];
    let end = Quote::opened_by(lead)?.end_in(value)?;
    (end > 0 && &value[..end] != REDACTED).then(|| (format!("{lead}{REDACTED}"), &value[end..]))
}

/// A quote that opened a value.
#[derive(Clone, Copy)]
struct Quote {
    sign: char,
    /// How many backslashes stand before it: 1 in JSON that is itself a string of JSON.
    escapes: usize,
}

impl Quote {
    /// Returns the quote at the end of `lead`.
    fn opened_by(lead: &str) -> Option<Self> {
        let sign = lead.chars().next_back().filter(|c| matches!(c, '"' | '\''))?;
        let (_, escapes) = unescaped(&lead[..lead.len() - 1]);
        Some(Self { sign, escapes })
    }

    /// Returns where the value ends that it opened. A quote that is escaped inside the value is a part of it.
    fn end_in(self, value: &str) -> Option<usize> {
        value.match_indices(self.sign).find_map(|(at, _)| {
            let (_, escapes) = unescaped(&value[..at]);
            let closes = if self.escapes == 0 { escapes % 2 == 0 } else { escapes <= self.escapes };
            closes.then_some(at - escapes.min(self.escapes))
        })
    }
}

/// Returns `text` without the backslashes at its end, and how many these are.
fn unescaped(text: &str) -> (&str, usize) {
    let before = text.trim_end_matches('\\');
    (before, text.len() - before.len())
}

/// Returns where a value without quotes around it ends. A backslash ends it only as the beginning of an escape.
fn bare_end(value: &str) -> usize {
    let ends = |(at, c): &(usize, char)| match c {
        '"' | '\'' | '&' | ',' | ';' | ')' | '}' => true,
        '\\' => value[at + 1..].starts_with(['"', '\'', '\\', 'n', 'r', 't']),
        c => c.is_whitespace(),
    };
    value.char_indices().find(ends).map_or(value.len(), |(at, _)| at)
}

/// Returns where a header ends whose whole value is a secret: with its line, or at a quote that stands around the
/// header. The quotes of `Digest username="x", response="y"` are parts of it.
fn whole_line_end(value: &str) -> usize {
    let line = &value[..value.find('\n').unwrap_or(value.len())];
    let mut from = 0;
    while let Some(at) = line[from..].find(['"', '\'']).map(|at| from + at) {
        if !unescaped(&line[..at]).0.ends_with('=') {
            return at;
        }
        // A pair that is cut off goes on to the end; `Basic dXNlcg==", "next` only looks like one.
        let Some(pair) = line[at + 1..].find(&line[at..=at]) else { break };
        from = at + 1 + pair + 1;
        if line[from..].starts_with(char::is_alphanumeric) {
            return at;
        }
    }
    line.len()
}

/// Returns whether a value is a word of a sentence about secrets.
fn is_talk(value: &str) -> bool {
    TALK.contains(&value.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']).to_ascii_lowercase().as_str())
}

/// `Bearer eyJ…`, `Basic dXNlcjpw…`.
fn scheme(rest: &str) -> Option<(String, &str)> {
    for word in ["bearer ", "basic ", "token ", "apikey "] {
        let Some(head) = rest.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word)) else { continue };
        let after = rest[word.len()..].trim_start_matches(['\\', '"', '\'']);
        let quotes = &rest[word.len()..rest.len() - after.len()];
        let token = token(after);
        if token.len() >= 12 && looks_random(token) {
            return Some((format!("{head}{quotes}{REDACTED}"), &after[token.len()..]));
        }
    }
    None
}

/// Returns whether a header field or a parameter of that name carries a secret, as far as its name tells.
///
/// More is taken for a secret here than in a text, where a word may stand for itself: a field that is held back by
/// mistake costs a question, one that is written down by mistake costs a key.
#[must_use]
pub fn is_secret_field(name: &str) -> bool {
    is_secret_name(name) || names_a_token(name) || FIELD_ENDS.iter().any(|end| letters(name).ends_with(end))
}

/// Returns whether a name is that of some token: of one that opens a door, or of a mere mark that was given a name of
/// the same form. The value tells.
fn names_a_token(name: &str) -> bool {
    let folded = letters(name);
    folded.ends_with("token") && !PLAIN_ENDS.iter().any(|end| folded.ends_with(end))
}

fn is_secret_name(name: &str) -> bool {
    let folded = letters(name);
    NAMES.contains(&folded.as_str())
        || ENDS.iter().any(|end| folded.ends_with(end))
        || name.contains('_')
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            && (name.ends_with("_TOKEN") || name.ends_with("_KEY") || name.ends_with("_PAT"))
        || is_pass_variable(name)
}

/// `DB_PASS`, `MYPASS`; not `PASS`, which test runners print, nor words that end so.
fn is_pass_variable(name: &str) -> bool {
    name.strip_suffix("PASS").is_some_and(|stem| {
        !stem.is_empty()
            && !stem.ends_with("BY")
            && !stem.ends_with("COM")
            && stem.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    })
}

fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn token(text: &str) -> &str {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '=' | '~' | '*')))
        .unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// Returns whether a token is made as secrets are: with digits or with both cases, not words.
fn looks_random(token: &str) -> bool {
    let digit = token.bytes().any(|b| b.is_ascii_digit() || b == b'*');
    let upper = token.bytes().any(|b| b.is_ascii_uppercase());
    let lower = token.bytes().any(|b| b.is_ascii_lowercase());
    digit || upper && lower
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("Authorization: Bearer abc.def-123 x", "Authorization: [redacted]")]
    #[test_case("sent Bearer abcDEF1234567890", "sent Bearer [redacted]")]
    #[test_case("Incorrect API key provided: sk-proj-4f9aKx01MxYA.", "Incorrect API key provided: [redacted].")]
    #[test_case("token ghp_16C7e42F292c6912E7710c838347Ae178B4a", "token [redacted]")]
    #[test_case("key AKIAIOSFODNN7EXAMPLE is unknown", "key [redacted] is unknown")]
    #[test_case("GET /v1?api_key=s3cr3t&x=1 failed", "GET /v1?api_key=[redacted]&x=1 failed")]
    #[test_case("--token=abc --region=eu", "--token=[redacted] --region=eu")]
    #[test_case("{\"client_secret\":\"hunter2\",\"a\":1}", "{\"client_secret\":\"[redacted]\",\"a\":1}")]
    #[test_case("password=hunter2", "password=[redacted]")]
    #[test_case("OPENAI_API_KEY=abcd1234", "OPENAI_API_KEY=[redacted]")]
    #[test_case("https://user:pass@host/x", "https://[redacted]@host/x")]
    #[test_case("Cookie: a=b; c=d", "Cookie: [redacted]")]
    #[test_case("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl end", "jwt [redacted] end")]
    #[test_case("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY----- rest", "[redacted] rest")]
    #[test_case("slack xoxb-1234567890-abcdef", "slack [redacted]")]
    #[test_case("mysql --password hunter -u root", "mysql --password [redacted] -u root")]
    #[test_case("ran: x --token abc --api-key 'a b' y", "ran: x --token [redacted] --api-key '[redacted]' y")]
    #[test_case("['--password', 'hunter', '-v']", "['--password', '[redacted]', '-v']")]
    #[test_case("DB_PASS=hunter MYPASS=x APP_2_PASS=y", "DB_PASS=[redacted] MYPASS=[redacted] APP_2_PASS=[redacted]")]
    #[test_case("export STRIPE_SECRET=abc", "export STRIPE_SECRET=[redacted]")]
    #[test_case("WEBHOOK_SECRET='abc def' x", "WEBHOOK_SECRET='[redacted]' x")]
    #[test_case("bad passphrase \"correct horse battery\" given", "bad passphrase \"[redacted]\" given")]
    #[test_case("passphrase: \"correct horse\", x", "passphrase: \"[redacted]\", x")]
    #[test_case("x-api-key: XAPIKEYSECRET", "x-api-key: [redacted]")]
    #[test_case("> X-Auth-Token: letters", "> X-Auth-Token: [redacted]")]
    #[test_case("Authorization: Token token=\"hunter\"", "Authorization: [redacted]")]
    #[test_case("got Bearer \\\"AbCd1234EfGh5678\\\" instead", "got Bearer \\\"[redacted]\\\" instead"; "a scheme before escaped quotes")]
    #[test_case("token 'AbCd-1234-efgh' is expired", "token '[redacted]' is expired")]
    #[test_case("token 'instead' is expected", "token 'instead' is expected"; "a word in quotes")]
    #[test_case(
        "Authorization: Digest username=\"Mufasa\", uri=\"/a\", response=\"6629fae4\"\nHost: x",
        "Authorization: [redacted]\nHost: x"
    )]
    #[test_case("Set-Cookie: sid=\"hunter\"; Path=/", "Set-Cookie: [redacted]")]
    #[test_case(
        "curl -H \"Cookie: a=b; c=d\" -H 'Authorization: Token token=\"x\"' https://h",
        "curl -H \"Cookie: [redacted]\" -H 'Authorization: [redacted]' https://h"
    )]
    #[test_case("{\"password\":\"a\\\"b\",\"x\":1}", "{\"password\":\"[redacted]\",\"x\":1}"; "an escaped quote is part of the value")]
    #[test_case("{\\\"password\\\":\\\"a\\\\\\\"b\\\",\\\"x\\\":1}", "{\\\"password\\\":\\\"[redacted]\\\",\\\"x\\\":1}"; "the same one level deeper")]
    #[test_case(
        "{\"authorization\":\"Digest username=\\\"Mufasa\\\", response=\\\"6629fae4\\\"\",\"x\":1}",
        "{\"authorization\":\"[redacted]\",\"x\":1}"
    )]
    #[test_case("{\"password\":\"ends in \\\\\",\"x\":1}", "{\"password\":\"[redacted]\",\"x\":1}"; "an escaped backslash escapes no quote")]
    #[test_case("password=ab\\cd9 x", "password=[redacted] x")]
    #[test_case("'password=ab9\\n'", "'password=[redacted]\\n'")]
    #[test_case("password: \"correct horse\nnext", "password: \"[redacted]\nnext"; "the closing quote was cut off")]
    #[test_case("Authorization: Basic dXNlcjpwYXNzd28=\", \"next\": 1", "Authorization: [redacted]\", \"next\": 1")]
    #[test_case("Cookie: a=\"b\nnext: \"c\"", "Cookie: [redacted]\nnext: \"c\""; "half a pair of quotes")]
    #[test_case("https://0123456789abcdef0123456789abcdef01234567@host/x", "https://[redacted]@host/x")]
    #[test_case("sk-abcDEFghiJKLmnoPQR", "[redacted]"; "letters of both cases")]
    #[test_case("key provided: sk-************abcd", "key provided: [redacted]"; "a part of it is masked")]
    #[test_case("\"password\": hunter, x", "\"password\": [redacted], x"; "a quoted name is no sentence")]
    #[test_case("token: abcdefghijklmnopqrst", "token: [redacted]"; "too long for a word")]
    #[test_case("password=' a b' x", "password='[redacted]' x"; "blanks within the quotes")]
    #[test_case("token: 12345678 pwd=1234", "token: [redacted] pwd=[redacted]")]
    #[test_case(
        "slackBotToken=12345:abcDEF PRIVATE-TOKEN: abcDEFgh",
        "slackBotToken=[redacted] PRIVATE-TOKEN: [redacted]"
    )]
    #[test_case(
        "CI_TOKEN=hunter DEPLOY_KEY=hunter GH_PAT=hunter",
        "CI_TOKEN=[redacted] DEPLOY_KEY=[redacted] GH_PAT=[redacted]"
    )]
    #[test_case(
        "Endpoint=sb://h/;SharedAccessKeyName=Root;SharedAccessKey=hunter=",
        "Endpoint=sb://h/;SharedAccessKeyName=Root;SharedAccessKey=[redacted]"
    )]
    fn secrets_are_taken_out(text: &str, clean: &str) {
        assert_eq!(redact(text), clean);
        assert_eq!(redact(clean), clean, "taken out once is taken out");
    }

    #[test_case("Rate limit reached on tokens per min (TPM): Limit 200000, Used 158833")]
    #[test_case("token limit: 200000, max_tokens=4096")]
    #[test_case("auth: failed for https://api.example.com/v1?page=2")]
    #[test_case("The security token included in the request is invalid.")]
    #[test_case("Error: sk-ip this step")]
    #[test_case("Error: sk-skip-this-step-please")]
    #[test_case("ssh://git@host/x ssh://a-user-of-twenty-xxx@host/x")]
    #[test_case("TestCOMPASS=1 MyPASS=1 PASS=1")]
    #[test_case("You've hit your session limit · resets 3pm (Europe/Berlin)")]
    #[test_case("token: expired")]
    #[test_case("user@example.com")]
    #[test_case("the --token flag is required")]
    #[test_case("use --token or --api-key, see --help")]
    #[test_case("usage: x [--token TOKEN] [--password <PASSWORD>] --api-key $KEY")]
    #[test_case("--token: unexpected argument '--token' found")]
    #[test_case("password: incorrect")]
    #[test_case("token: abcdefghijklmnopqrs"; "as long as a word may be")]
    #[test_case("password=")]
    #[test_case("?token=&page=1 password='' token=1234567")]
    #[test_case("password=******** token=***")]
    #[test_case("nextToken=abcDEF123456 eosToken=1516457 padToken=paddingpadding")]
    #[test_case("set \"password=\" in the file")]
    #[test_case("a_KEY=value9 lower_case_name=value9 UPPER=value9 UPPER_CASE=value9")]
    #[test_case("the path secret://prod/db1 is none")]
    #[test_case("http://host:80 was asked by me@example.com")]
    #[test_case("Basic authentication of Bearer tokens2 failed")]
    #[test_case("x-api-key: missing")]
    #[test_case("{\"auth\": \"\", \"region\": \"eu\"} --password '' x")]
    #[test_case("{\\\"auth\\\": \\\"\\\", \\\"region\\\": \\\"eu\\\"}")]
    #[test_case("don't: the password is 'required', isn't it")]
    #[test_case("Unexpected token \"<\" in JSON")]
    #[test_case("--- PASS: TestBreaker2 (0.00s) BYPASS=1")]
    fn what_only_talks_of_secrets_stays(text: &str) {
        assert_eq!(redact(text), text);
    }

    #[test_case("X-Access-Token")]
    #[test_case("X-Vault-Token")]
    #[test_case("X-CSRF-Token")]
    #[test_case("X-Amz-Security-Token")]
    #[test_case("X-Amz-Signature")]
    #[test_case("x-functions-key")]
    #[test_case("X-Hub-Secret")]
    #[test_case("X-Session")]
    #[test_case("Authentication")]
    #[test_case("Cookie2")]
    #[test_case("client_secret")]
    #[test_case("password")]
    fn a_field_is_known_by_its_name_to_carry_a_secret(name: &str) {
        assert!(is_secret_field(name));
    }

    #[test_case("Idempotency-Key")]
    #[test_case("X-Line-Retry-Key")]
    #[test_case("X-Partition-Key")]
    #[test_case("ClientRequestToken"; "an idempotency key of AWS")]
    #[test_case("pageToken")]
    #[test_case("continuation-token")]
    #[test_case("max_tokens")]
    #[test_case("Content-Type")]
    #[test_case("x-request-id")]
    fn a_field_of_a_like_name_carries_none(name: &str) {
        assert!(!is_secret_field(name));
    }

    #[test]
    fn a_line_is_one_line_and_short() {
        let long = line(&format!("a\nb {}", "x".repeat(9000)));
        assert!(long.starts_with("a b x") && long.ends_with('…'));
        assert_eq!(long.chars().count(), 240);
        // What the line is short of is read on for: blanks and secrets take no room.
        let secret = format!("token{}eyJ{} end", " ".repeat(300), "aB3".repeat(200));
        assert_eq!(line(&secret), "token [redacted] end");
        // A secret at the cut is gone as a whole.
        assert!(!line(&format!("{} sk-proj-4f9aKx01MxYA0123456789", "y".repeat(230))).contains("4f9a"));
    }

    #[test_case(&["-H", "Authorization: Bearer abcDEF123456"], Some(1); "header")]
    #[test_case(&["--token", "abc"], Some(1); "flag and value")]
    #[test_case(&["--password=abc"], Some(0); "flag with value")]
    #[test_case(&["https://u:p@h/"], Some(0); "url")]
    #[test_case(&["FOO_TOKEN=1", "x"], Some(0); "assignment")]
    #[test_case(&["-p", "say hello", "--model", "x"], None; "prompt")]
    #[test_case(&["--token", "@file"], None; "reference")]
    #[test_case(&["--token", "-v"], None; "another flag")]
    #[test_case(&["--token", "-", "--token", "", "--token", "~/token", "--token"], None; "no value on the line")]
    #[test_case(&["token", "abc"], None; "a word is no flag")]
    #[test_case(&["--token=$TOKEN", "abc"], Some(0); "a flag with its value announces none")]
    #[test_case(&["--token-limit", "5"], None; "other flag")]
    fn the_argument_that_carries_a_secret_is_named(args: &[&str], index: Option<usize>) {
        assert_eq!(secret_in_args(args.iter().copied()).map(|s| s.index), index);
    }
}
