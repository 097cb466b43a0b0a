//! Where a span belongs: the trace, the span before it, whether it is recorded.
//!
//! <https://www.w3.org/TR/trace-context/>. What a caller sends is read strictly; what is no context is passed on as it
//! came and otherwise taken for none.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::settings::Sampler;

/// The field that says where a request belongs.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What vendors say beside it.
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;
/// The length of a context of version 0.
const CHARS: usize = 55;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// The trace.
    pub(crate) trace: [u8; 16],
    /// The span.
    pub(crate) span: [u8; 8],
    /// Its flags.
    pub(crate) flags: u8,
}

impl Context {
    /// Returns the place of a span that nothing stands before, in a trace that is recorded.
    pub(crate) fn root() -> Self {
        // All zeros is no trace; it does not happen, and it must not.
        Self { trace: fastrand::u128(1..).to_be_bytes(), span: new_span(), flags: SAMPLED }
    }

    /// Returns the place of a new span behind this one.
    pub(crate) fn child(self) -> Self {
        Self { span: new_span(), ..self }
    }

    /// Returns whether whoever came before records this trace.
    pub(crate) fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Reads the place of a request; `None` if it says none, or something that is none.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut all = headers.get_all(TRACEPARENT).iter();
        let one = all.next()?;
        // Two of them are nobody's place.
        if all.next().is_some() { None } else { Self::parse(one.to_str().ok()?) }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let version = hex::<1>(text.get(..2)?)?[0];
        let is_whole = match version {
            0 => text.len() == CHARS,
            u8::MAX => false,
            // A later version begins as this one does.
            _ => text.len() == CHARS || text.as_bytes().get(CHARS) == Some(&b'-'),
        };
        let dashes = [2, 35, 52].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
        if !is_whole || !dashes {
            return None;
        }
        let context = Self {
            trace: hex::<16>(text.get(3..35)?)?,
            span: hex::<8>(text.get(36..52)?)?,
            flags: hex::<1>(text.get(53..55)?)?[0],
        };
        (context.trace != [0; 16] && context.span != [0; 8]).then_some(context)
    }

    /// Returns it as a field's value.
    pub(crate) fn field(self) -> HeaderValue {
        let text = self.to_string();
        // Hexadecimal digits and dashes.
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    /// Decides whether a call is recorded, and where: behind the caller's place, or at the beginning of a trace.
    pub(crate) fn begin(before: Option<Self>, sampler: Sampler) -> Option<Self> {
        match before {
            Some(before) if sampler.by_parent => before.is_sampled().then(|| before.child()),
            Some(before) => {
                drawn(before.trace, sampler.share).then(|| Self { flags: before.flags | SAMPLED, ..before.child() })
            }
            None => Some(Self::root()).filter(|root| drawn(root.trace, sampler.share)),
        }
    }
}

impl std::fmt::Display for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

/// By the trace's own number, so that everybody who asks decides the same.
fn drawn(trace: [u8; 16], share: f64) -> bool {
    let [.., a, b, c, d] = trace;
    f64::from(u32::from_be_bytes([a, b, c, d])) < share * 4_294_967_296.0
}

fn new_span() -> [u8; 8] {
    fastrand::u64(1..).to_be_bytes()
}

/// Reads lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let bytes = text.as_bytes();
    if bytes.len() != 2 * N {
        return None;
    }
    let mut read = [0; N];
    for (at, pair) in bytes.chunks_exact(2).enumerate() {
        read[at] = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_place_is_read_and_written_as_it_was() {
        let context = Context::parse(GOOD).unwrap();
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), GOOD);
        assert_eq!(context.child().trace, context.trace);
        assert_ne!(context.child().span, context.span);
    }

    #[test_case("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x"; "too long for its version")]
    #[test_case("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"; "a version that is none")]
    #[test_case("00-00000000000000000000000000000000-b7ad6b7169203331-01"; "no trace")]
    #[test_case("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"; "no span")]
    #[test_case("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"; "capitals")]
    #[test_case("00-0af7651916cd43dd8448eb211c8031-9cb7ad6b7169203331-01"; "dashes elsewhere")]
    #[test_case("00-ä"; "no digits")]
    #[test_case(""; "nothing")]
    fn what_is_no_place_is_none(text: &str) {
        assert_eq!(Context::parse(text), None);
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        assert!(Context::parse(&GOOD.replace("00-0a", "01-0a")).is_some());
        assert!(Context::parse(&(GOOD.replace("00-0a", "01-0a") + "-more")).is_some());
    }

    #[test]
    fn a_callers_word_goes_before_the_share() {
        let by_parent = |share| Sampler { by_parent: true, share };
        let recorded = Context::parse(GOOD);
        let not = Context::parse(&GOOD.replace("-01", "-00"));
        assert!(Context::begin(recorded, by_parent(0.0)).is_some());
        assert!(Context::begin(not, by_parent(1.0)).is_none());
        assert!(Context::begin(None, by_parent(1.0)).is_some());
        assert!(Context::begin(None, by_parent(0.0)).is_none());
        assert!(Context::begin(not, Sampler { by_parent: false, share: 1.0 }).is_some_and(Context::is_sampled));
    }
}
