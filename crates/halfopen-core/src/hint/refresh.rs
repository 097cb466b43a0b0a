//! Reads `<meta http-equiv="refresh" content="14">`: an error page that reloads itself says when.
//!
//! With an address of its own it may lead elsewhere, and 0 is a redirect; neither says anything about waiting.

use super::headers::Found;
use super::number::{Decimal, Stated, Unit};
use super::text;
use regex::Regex;
use std::sync::LazyLock;

#[expect(clippy::expect_used, reason = "the pattern is a constant and a test compiles it")]
static META: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?i)<meta\s[^>]*?http-equiv\s*=\s*["']?refresh["']?[^>]*?>"#).expect("a valid pattern")
});
#[expect(clippy::expect_used, reason = "the pattern is a constant and a test compiles it")]
static CONTENT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?i)\bcontent\s*=\s*["']?\s*([0-9.]{1,9})\s*(;?)"#).expect("a valid pattern"));

/// Returns the delay of the first page among the texts that has one.
pub(super) fn read(texts: &[&str]) -> Option<Found> {
    texts.iter().find_map(|raw| {
        let page = text::bounded(raw);
        // Most texts are no pages, and the expression is not even compiled for them.
        if !page.contains('<') {
            return None;
        }
        let element = META.find(&page)?.as_str();
        let content = CONTENT.captures(element)?;
        let number = Decimal::parse(content.get(1)?.as_str()).filter(|number| !number.is_zero())?;
        match number.stated(Unit::Seconds)? {
            Stated::After(wait) => Some(Found { wait, absolute: false }),
            Stated::At(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("<meta http-equiv='refresh' content='14' />" => Some(14))]
    #[test_case("<META content=\"5\" HTTP-EQUIV=\"Refresh\">" => Some(5))]
    #[test_case("<meta http-equiv=\"refresh\" content=\"30;url=/\">" => Some(30))]
    #[test_case("<meta http-equiv=\"refresh\" content=\"0;url=/login\">" => None)]
    #[test_case("<meta name=\"viewport\" content=\"14\">" => None)]
    #[test_case("content='14'" => None)]
    fn a_page_that_reloads_itself_says_when(page: &str) -> Option<u64> {
        read(&[page]).map(|found| found.wait.as_secs())
    }
}
