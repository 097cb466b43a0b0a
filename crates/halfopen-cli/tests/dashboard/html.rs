//! Reads pages the way a browser without scripts does: as markup with forms in it.

use crate::client::Answer;
use crate::world::Gateway;

/// Gets a page that must be there.
pub(crate) fn page(gateway: &Gateway, target: &str) -> String {
    let answer = gateway.ask("GET", target, &[], "");
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"), "{target}");
    answer.text()
}

/// Returns the word that the forms of a page carry.
pub(crate) fn word(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"word\" value=\"").unwrap_or_else(|| panic!("no form: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

/// Writes the fields of a form.
pub(crate) fn encoded(fields: &[(&str, &str)]) -> String {
    let escape = |text: &str| {
        text.bytes().fold(String::new(), |mut all, byte| {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => all.push(byte.into()),
                other => all.push_str(&format!("%{other:02X}")),
            }
            all
        })
    };
    let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

/// Sends a form as the page at `target` does, with further header fields.
pub(crate) fn send(gateway: &Gateway, target: &str, fields: &[(&str, &str)], heads: &[(&str, &str)]) -> Answer {
    let mut all = vec![("content-type", "application/x-www-form-urlencoded")];
    all.extend(heads);
    gateway.ask("POST", target, &all, &encoded(fields))
}

/// Opens the form at `target`, fills it in and sends it, as a browser does.
pub(crate) fn submit(gateway: &Gateway, target: &str, fields: &[(&str, &str)]) -> Answer {
    let word = word(&page(gateway, target));
    let origin = format!("http://{}", gateway.address);
    let mut all = vec![("word", word.as_str())];
    all.extend(fields);
    send(gateway, target, &all, &[("origin", &origin), ("sec-fetch-site", "same-origin")])
}

/// Queues an invoice, whatever the breaker is about; returns its job.
pub(crate) fn kept(gateway: &Gateway, invoice: &str) -> String {
    let answer = crate::ledger::send(gateway, invoice, &[("prefer", "respond-async")]);
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Returns where an answer leads.
pub(crate) fn leads(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.field("location").unwrap().to_owned()
}

/// Returns the value of the cookie that an answer sets, with its name.
pub(crate) fn cookie(answer: &Answer) -> String {
    answer.field("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}
