//! Reads XML and HTML as far as errors need it: elements with their text, and the text of a page.
//!
//! A scanner, not a parser: bodies are cut, gateways send broken markup, and only a handful of elements matter. It
//! knows no entities beyond the five, expands nothing, and so cannot be blown up by a document.

/// The most elements kept of one document.
const ELEMENTS_MAX: usize = 256;

/// Returns the elements of `xml` that hold text, as (`Error/Code`, text), and attributes as (`Error/@code`, value).
/// Prefixes are left out.
pub(crate) fn elements(xml: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut rest = xml;
    while let Some(open) = rest.find('<') {
        let text = rest[..open].trim();
        if !text.is_empty() && !path.is_empty() && found.len() < ELEMENTS_MAX {
            found.push((path.join("/"), unescape(text)));
        }
        rest = &rest[open + 1..];
        if let Some(data) = rest.strip_prefix("![CDATA[") {
            let end = data.find("]]>").unwrap_or(data.len());
            if !path.is_empty() && found.len() < ELEMENTS_MAX {
                found.push((path.join("/"), data[..end].trim().to_owned()));
            }
            rest = data.get(end + 3..).unwrap_or("");
            continue;
        }
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let Some(close) = rest.find('>') else { break };
        let tag = &rest[..close];
        rest = &rest[close + 1..];
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            if path.last().is_some_and(|last| last == local(name.trim())) {
                path.pop();
            }
            continue;
        }
        let name = tag.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or("");
        if name.is_empty() || path.len() > 32 {
            continue;
        }
        path.push(local(name).to_owned());
        for (key, value) in attributes(&tag[name.len()..]) {
            if found.len() < ELEMENTS_MAX && !key.starts_with("xmlns") {
                found.push((format!("{}/@{}", path.join("/"), local(key)), unescape(value)));
            }
        }
        if tag.ends_with('/') {
            path.pop();
        }
    }
    found
}

/// Returns the local names of the outermost elements, from the root inwards as long as there is one child each.
pub(crate) fn root(xml: &str) -> Option<&str> {
    let mut rest = xml.trim_start_matches('\u{feff}').trim_start();
    loop {
        if let Some(after) = rest.strip_prefix("<?").and_then(|r| r.split_once("?>")) {
            rest = after.1.trim_start();
        } else if let Some(after) = rest.strip_prefix("<!--").and_then(|r| r.split_once("-->")) {
            rest = after.1.trim_start();
        } else {
            break;
        }
    }
    let tag = rest.strip_prefix('<')?;
    let end = tag.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/'))?;
    Some(local(&tag[..end])).filter(|name| !name.is_empty() && !name.starts_with('!'))
}

/// Returns whether `body` looks like an HTML page.
pub(crate) fn is_html(body: &str) -> bool {
    let head: String = body.trim_start_matches('\u{feff}').trim_start().chars().take(64).collect();
    let head = head.to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<body", "<center", "<h1", "<title"]
        .iter()
        .any(|start| head.starts_with(start))
}

/// Returns the title and the visible text of a page, at most about `max` bytes of it.
pub(crate) fn page(html: &str, max: usize) -> (Option<String>, String) {
    let lower = html.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|at| {
        let start = at + lower[at..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        Some(unescape(html[start..end].trim()))
    });
    let mut text = String::new();
    let mut at = 0;
    while at < html.len() && text.len() < max {
        let Some(open) = html[at..].find('<') else {
            text.push_str(&html[at..]);
            break;
        };
        text.push_str(&html[at..at + open]);
        at += open;
        let hidden = ["script", "style", "head", "noscript", "svg"].iter().find(|name| {
            lower[at + 1..].starts_with(*name)
                && !lower[at + 1 + name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
        });
        let end = match hidden {
            Some(name) => lower[at..].find(&format!("</{name}")),
            None if lower[at..].starts_with("<!--") => lower[at..].find("-->"),
            None => Some(0),
        };
        let Some(end) = end else { break };
        match html[at + end..].find('>') {
            Some(close) => at += end + close + 1,
            None => break,
        }
        text.push(' ');
    }
    (title.filter(|t| !t.is_empty()), unescape(text.trim()))
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

fn attributes(tag: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = tag;
    std::iter::from_fn(move || {
        let equals = rest.find('=')?;
        let key = rest[..equals].trim();
        let after = rest[equals + 1..].trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let end = after[1..].find(quote)? + 1;
        rest = &after[end + 1..];
        Some((key, &after[1..end]))
    })
}

fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&apos;", "'")
        .replace("&nbsp;", " ")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test]
    fn elements_and_attributes_are_found_with_their_paths() {
        let xml = "<?xml version=\"1.0\"?><r:Fault type=\"S\"><Error code=\"3001\"><Message>a &amp; b</Message></Error></r:Fault>";
        let found = elements(xml);
        assert!(found.contains(&("Fault/Error/Message".into(), "a & b".into())), "{found:?}");
        assert!(found.contains(&("Fault/Error/@code".into(), "3001".into())), "{found:?}");
        let found = elements("<E>a<!-- <C>no</C> --><C><![CDATA[<b>]]></C>c</E>d");
        let texts: Vec<_> = found.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(texts, [("E", "a"), ("E/C", "<b>"), ("E", "c")]);
    }

    #[test_case("<?xml version=\"1.0\"?>\n\n<Error><Code>x", Some("Error"))]
    #[test_case("<soap:Envelope xmlns:soap=\"x\">", Some("Envelope"))]
    #[test_case("{\"a\": 1}", None)]
    #[test_case("<!DOCTYPE html><html>", None)]
    fn the_root_is_found(xml: &str, name: Option<&str>) {
        assert_eq!(root(xml), name);
    }

    #[test]
    fn a_page_is_its_title_and_its_visible_text() {
        let (title, text) = page(
            "<html><head><title>502 Bad</title><style>p{}</style></head><body><h1>Bad</h1><script>429</script></body></html>",
            999,
        );
        assert_eq!(title.as_deref(), Some("502 Bad"));
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["Bad"]);
    }

    #[test]
    fn broken_markup_ends() {
        let _ = elements("<a <b><c d='");
        let _ = page("<script", 10);
        let _ = page("<", 10);
        let _ = elements(&"<a>".repeat(10_000));
    }
}
