//! Takes secrets out of text that is shown or kept: evidence, samples of unclassified failures, reports.
//!
//! Recognised by form, because nobody tells us which words are secret: what follows `Authorization`, `Bearer`, a member
//! or parameter whose name says key, token, password or secret; tokens with a known prefix; web tokens; user parts of
//! URLs; cookies; private keys. What is replaced reads `[redacted]`. Too much is better than too little where a value
//! has the form of a secret, and nothing is touched where a word only talks about one (`token limit: 200000`).

mod words;

use self::words::{FIELD_ENDS, NAMES, PLAIN_FIELD_ENDS, PREFIXES, QUOTED_NAMES, TALK};

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// The longest line shown as evidence, in characters.
const LINE_CHARS_MAX: usize = 240;

/// Returns `text` as one line of at most 240 characters without its secrets.
#[must_use]
pub fn line(text: &str) -> String {
    // Redacted before it is cut, so that no half of a secret is left at the end.
    let squeezed = text.chars().take(4 * LINE_CHARS_MAX).collect::<String>();
    let squeezed = squeezed.split_whitespace().collect::<Vec<_>>().join(" ");
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
    named(rest).or_else(|| flag(rest, before)).or_else(|| quoted(rest)).or_else(|| scheme(rest)).or_else(|| {
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
    if name.is_empty() || !is_secret_name(name) {
        return None;
    }
    let after = &rest[name_len..];
    let gap = after.trim_start_matches(['"', '\'', '\\', ' ']);
    let separator = gap.chars().next().filter(|c| matches!(c, '=' | ':'))?;
    if separator == ':' && gap.starts_with("://") {
        return None;
    }
    let value = gap[1..].trim_start_matches(['=', ' ', '"', '\'', '\\']);
    let lead = &rest[..rest.len() - value.len()];
    let folded = letters(name);
    let whole_line = matches!(folded.as_str(), "cookie" | "setcookie" | "authorization" | "proxyauthorization");
    let end = if let Some(end) = closing_quote(&rest[..rest.len() - value.len()], value) {
        end
    } else if whole_line {
        value.find(['\n', '"', '\'']).unwrap_or(value.len())
    } else {
        value
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ',' | ';' | ')' | '}' | '\\'))
            .unwrap_or(value.len())
    };
    let secret = &value[..end];
    let quoted = after.len() > gap.len() || gap[1..].trim_start().starts_with(['"', '\'']);
    let header = name.trim_start_matches('-').contains('-') && !is_talk(secret);
    let plain_word =
        separator == ':' && !quoted && !header && secret.len() < 20 && !secret.chars().any(|c| c.is_ascii_digit());
    if secret.is_empty() || secret == REDACTED || plain_word && !whole_line || secret.bytes().all(|b| b == b'*') {
        return None;
    }
    // A count is no secret: `token: 4096`.
    if folded == "token" && secret.len() < 8 && secret.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((format!("{lead}{REDACTED}"), &value[end..]))
}

/// `--password hunter`, and as a list of arguments is printed: `'--password', 'hunter'`.
fn flag(rest: &str, before: Option<char>) -> Option<(String, &str)> {
    if !rest.starts_with('-') || before.is_some_and(|c| !(c.is_whitespace() || "\"'`([=".contains(c))) {
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
    let end = closing_quote(lead, value)
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
    let end = closing_quote(lead, value)?;
    (end > 0 && &value[..end] != REDACTED).then(|| (format!("{lead}{REDACTED}"), &value[end..]))
}

/// Returns where the value ends that was opened by a quote at the end of `lead`, if it was.
fn closing_quote(lead: &str, value: &str) -> Option<usize> {
    let quote = lead.chars().next_back().filter(|c| matches!(c, '"' | '\''))?;
    // Two quotes are an empty value, and what follows them is none.
    if lead[..lead.len() - 1].trim_end_matches('\\').ends_with(quote) {
        return None;
    }
    let end = value.find(quote)?;
    Some(value[..end].trim_end_matches('\\').len())
}

/// Returns whether a value is a word of a sentence about secrets.
fn is_talk(value: &str) -> bool {
    TALK.contains(&value.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']).to_ascii_lowercase().as_str())
}

/// `Bearer eyJ…`, `Basic dXNlcjpw…`.
fn scheme(rest: &str) -> Option<(String, &str)> {
    for word in ["bearer ", "basic ", "token ", "apikey "] {
        let Some(head) = rest.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word)) else { continue };
        let after = &rest[word.len()..];
        let token = token(after);
        if token.len() >= 12 && looks_random(token) {
            return Some((format!("{head}{REDACTED}"), &after[token.len()..]));
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
    let folded = letters(name);
    let ends_as = |ends: &[&str]| ends.iter().any(|end| folded.ends_with(end));
    is_secret_name(name) || ends_as(FIELD_ENDS) && !ends_as(PLAIN_FIELD_ENDS)
}

fn is_secret_name(name: &str) -> bool {
    let folded = letters(name);
    NAMES.contains(&folded.as_str())
        || ["apikey", "secret", "password", "accesstoken", "authtoken", "apitoken", "secretkey", "privatekey"]
            .iter()
            .any(|end| folded.len() > end.len() && folded.ends_with(end))
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
    #[test_case("DB_PASS=hunter MYPASS=x", "DB_PASS=[redacted] MYPASS=[redacted]")]
    #[test_case("export STRIPE_SECRET=abc", "export STRIPE_SECRET=[redacted]")]
    #[test_case("WEBHOOK_SECRET='abc def' x", "WEBHOOK_SECRET='[redacted]' x")]
    #[test_case("bad passphrase \"correct horse battery\" given", "bad passphrase \"[redacted]\" given")]
    #[test_case("passphrase: \"correct horse\", x", "passphrase: \"[redacted]\", x")]
    #[test_case("x-api-key: XAPIKEYSECRET", "x-api-key: [redacted]")]
    #[test_case("> X-Auth-Token: letters", "> X-Auth-Token: [redacted]")]
    fn secrets_are_taken_out(text: &str, clean: &str) {
        assert_eq!(redact(text), clean);
    }

    #[test_case("Rate limit reached on tokens per min (TPM): Limit 200000, Used 158833")]
    #[test_case("token limit: 200000, max_tokens=4096")]
    #[test_case("auth: failed for https://api.example.com/v1?page=2")]
    #[test_case("The security token included in the request is invalid.")]
    #[test_case("Error: sk-ip this step")]
    #[test_case("You've hit your session limit · resets 3pm (Europe/Berlin)")]
    #[test_case("token: expired")]
    #[test_case("user@example.com")]
    #[test_case("the --token flag is required")]
    #[test_case("use --token or --api-key, see --help")]
    #[test_case("usage: x [--token TOKEN] [--password <PASSWORD>] --api-key $KEY")]
    #[test_case("--token: unexpected argument '--token' found")]
    #[test_case("password: incorrect")]
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
    #[test_case(&["--token-limit", "5"], None; "other flag")]
    fn the_argument_that_carries_a_secret_is_named(args: &[&str], index: Option<usize>) {
        assert_eq!(secret_in_args(args.iter().copied()).map(|s| s.index), index);
    }
}
