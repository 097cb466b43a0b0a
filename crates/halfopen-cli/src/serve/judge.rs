//! Keeps as much of an answer as its judgement needs, decoded, and has it judged.
//!
//! What is passed on to the caller is never touched; this is about a copy. Most answers need none: only an answer that
//! may carry an error where its status says success is looked at, and every failure. The copy is a head and a tail of
//! bounded size; a compressed answer is decompressed as it comes, up to a bound, so that a small answer that unfolds
//! into gigabytes costs no more than another.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use halfopen::clock::Clock;
use halfopen_core::classify::Classifier;
use halfopen_core::outcome::{Excerpt, HttpOutcome, Reached};
use halfopen_core::verdict::Verdict;
use http::{HeaderMap, Method, StatusCode, header};

/// How much of the beginning of an answer is kept; a document up to this size is judged as a whole.
const HEAD_BYTES: usize = 256 << 10;
/// How much of the end of a stream is kept.
const TAIL_BYTES: usize = 64 << 10;
/// How much a compressed stream may unfold to before it is no longer looked at.
const DECODED_BYTES_MAX: u64 = 64 << 20;

/// How an answer tells whether it is a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By its status and its completeness.
    Opaque,
    /// By its document.
    Document,
    /// By its events, as they come.
    Events,
    /// By its end: lines or frames that come as a stream.
    Stream,
}

impl Kind {
    /// Returns the kind of an answer with these fields.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let Some(media) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
            // Without a word about it, it may be anything; JSON among others.
            return Self::Document;
        };
        let media = media.split(';').next().unwrap_or("").trim_ascii();
        let is = |kind: &str| media.eq_ignore_ascii_case(kind);
        let ends = |end: &str| {
            media.len() >= end.len() && media.as_bytes()[media.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
        };
        if is("text/event-stream") {
            Self::Events
        } else if is("application/vnd.amazon.eventstream")
            || is("application/x-ndjson")
            || is("application/ndjson")
            || is("application/jsonl")
            || is("application/x-jsonlines")
            || is("application/json-lines")
        {
            Self::Stream
        } else if is("application/json")
            || is("text/json")
            || is("application/xml")
            || is("text/xml")
            || is("text/plain")
            || is("text/html")
            || ends("+json")
            || ends("+xml")
            || is("application/javascript")
        {
            Self::Document
        } else {
            Self::Opaque
        }
    }

    /// Returns whether it may go on for as long as it likes once it has begun.
    pub(super) fn is_endless(self) -> bool {
        matches!(self, Self::Events | Self::Stream)
    }
}

/// The copy of an answer's body.
pub(super) struct Copy {
    kept: Arc<Mutex<Kept>>,
    decoder: Option<Box<dyn Write + Send>>,
}

/// The head and the tail of a text.
#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    /// At most twice its bound, so that it need not be moved for every piece.
    tail: Vec<u8>,
    seen: u64,
    /// Whether the end matters.
    keeps_tail: bool,
}

impl Kept {
    /// Keeps a piece; returns whether more is wanted.
    fn add(&mut self, piece: &[u8]) -> bool {
        self.seen += piece.len() as u64;
        let room = HEAD_BYTES - self.head.len();
        let (head, rest) = piece.split_at(piece.len().min(room));
        self.head.extend_from_slice(head);
        if rest.is_empty() {
            return true;
        }
        if !self.keeps_tail {
            return false;
        }
        let rest = &rest[rest.len().saturating_sub(TAIL_BYTES)..];
        if self.tail.len() + rest.len() > 2 * TAIL_BYTES {
            let surplus = (self.tail.len() + rest.len()).saturating_sub(TAIL_BYTES).min(self.tail.len());
            self.tail.drain(..surplus);
        }
        self.tail.extend_from_slice(rest);
        self.seen <= DECODED_BYTES_MAX
    }
}

/// What a decoder writes to.
struct Sink(Arc<Mutex<Kept>>);

impl Write for Sink {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).add(piece) {
            Ok(piece.len())
        } else {
            Err(std::io::Error::other("enough was seen"))
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copy").finish_non_exhaustive()
    }
}

impl Copy {
    /// Returns an empty copy of an answer with these fields.
    pub(super) fn new(headers: &HeaderMap, kind: Kind) -> Self {
        let kept = Arc::new(Mutex::new(Kept { keeps_tail: kind.is_endless(), ..Kept::default() }));
        let decoder = decoder(headers, &kept);
        Self { kept, decoder }
    }

    /// Adds what was passed on.
    pub(super) fn add(&mut self, piece: &[u8]) {
        let Some(decoder) = &mut self.decoder else { return };
        // Either it was enough, or it is not what its fields say: nothing after it can be read.
        if decoder.write_all(piece).is_err() || decoder.flush().is_err() {
            self.decoder = None;
        }
    }

    /// Returns whether a whole event has come, and whether it is one that says something (no comment).
    pub(super) fn first_event(&self) -> FirstEvent {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        first_event(&kept.head)
    }

    /// Has an answer judged by what was kept of it.
    pub(super) fn judge(&self, judged: &Judged<'_>) -> Verdict {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let surplus = kept.tail.len().saturating_sub(TAIL_BYTES);
        kept.tail.drain(..surplus);
        let omitted_bytes = kept.seen.saturating_sub((kept.head.len() + kept.tail.len()) as u64);
        judged.by(Excerpt { head: &kept.head, tail: &kept.tail, omitted_bytes })
    }
}

/// How far a stream of events has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstEvent {
    /// Not to the end of anything.
    NotYet,
    /// To the end of a comment, which says nothing yet and must not be held back.
    Comment,
    /// To the end of an event.
    Whole,
}

fn first_event(head: &[u8]) -> FirstEvent {
    let mut commented = false;
    let mut named = false;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        match line.strip_suffix(b"\r").unwrap_or(line) {
            [] if named => return FirstEvent::Whole,
            [b':', ..] => commented = true,
            [] => {}
            _ => named = true,
        }
    }
    // A comment inside an event that has begun says nothing about where it ends.
    if commented && !named { FirstEvent::Comment } else { FirstEvent::NotYet }
}

/// Everything about an answer but its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged<'a> {
    pub(super) classifier: &'a Classifier,
    pub(super) clock: &'a Clock,
    pub(super) method: &'a Method,
    pub(super) status: StatusCode,
    pub(super) headers: &'a HeaderMap,
    pub(super) elapsed: Duration,
}

impl Judged<'_> {
    /// Has it judged by its body.
    pub(super) fn by(&self, body: Excerpt<'_>) -> Verdict {
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .filter(|(name, _)| *name != header::CONTENT_LENGTH && *name != header::CONTENT_ENCODING)
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
            .collect();
        let outcome = HttpOutcome {
            method: self.method.as_str(),
            status: self.status.as_u16(),
            headers: &headers,
            body,
            reached: Reached::Answered,
            elapsed: self.elapsed,
        };
        self.classifier.http(&outcome, &self.clock.read())
    }
}

/// Returns what decodes an answer with these fields; nothing if it is encoded in a way nobody here knows.
fn decoder(headers: &HeaderMap, kept: &Arc<Mutex<Kept>>) -> Option<Box<dyn Write + Send>> {
    let sink = Sink(Arc::clone(kept));
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let (coding, more) = (codings.next(), codings.next());
    let Some(coding) = coding else { return Some(Box::new(sink)) };
    let coding = coding.to_str().ok().filter(|_| more.is_none())?.trim_ascii().to_ascii_lowercase();
    Some(match coding.as_str() {
        "" | "identity" => Box::new(sink),
        "gzip" | "x-gzip" => Box::new(flate2::write::MultiGzDecoder::new(sink)),
        "deflate" => Box::new(flate2::write::ZlibDecoder::new(sink)),
        "br" => Box::new(brotli_decompressor::DecompressorWriter::new(sink, 4096)),
        "zstd" => Box::new(zstd::stream::write::Decoder::new(sink).ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use test_case::test_case;

    fn fields(media: &'static str, coding: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        if let Some(coding) = coding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        headers
    }

    #[test_case("application/json; charset=utf-8", Kind::Document)]
    #[test_case("application/vnd.api+json", Kind::Document)]
    #[test_case("text/event-stream;charset=utf-8", Kind::Events)]
    #[test_case("application/x-ndjson", Kind::Stream)]
    #[test_case("application/pdf", Kind::Opaque)]
    #[test_case("image/png", Kind::Opaque)]
    fn media_types_say_how_an_answer_is_judged(media: &'static str, kind: Kind) {
        assert_eq!(Kind::of(&fields(media, None)), kind);
    }

    #[test_case(b"data: {}", FirstEvent::NotYet)]
    #[test_case(b"data: {}\n", FirstEvent::NotYet)]
    #[test_case(b"data: {}\n\n", FirstEvent::Whole)]
    #[test_case(b"data: {}\r\n\r\n", FirstEvent::Whole)]
    #[test_case(b": ping\n", FirstEvent::Comment)]
    #[test_case(b": ping\n\ndata: x", FirstEvent::Comment)]
    #[test_case(b": ping\n\nevent: error\n", FirstEvent::NotYet)]
    #[test_case(b": ping\n\nevent: error\ndata: {}\n\n", FirstEvent::Whole)]
    fn the_first_event_is_found_at_its_end(head: &[u8], expected: FirstEvent) {
        assert_eq!(first_event(head), expected);
    }

    fn unfolded(coding: &'static str, bytes: &[u8]) -> Vec<u8> {
        let mut copy = Copy::new(&fields("application/json", Some(coding)), Kind::Document);
        for piece in bytes.chunks(7) {
            copy.add(piece);
        }
        let kept = copy.kept.lock().unwrap();
        kept.head.clone()
    }

    #[test]
    fn compressed_copies_are_unfolded_as_they_come() {
        let text = b"{\"error\":{\"message\":\"overloaded\"}}".repeat(40);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&text).unwrap();
        assert_eq!(unfolded("gzip", &gzip.finish().unwrap()), text);
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        zlib.write_all(&text).unwrap();
        assert_eq!(unfolded("deflate", &zlib.finish().unwrap()), text);
        assert_eq!(unfolded("zstd", &zstd::stream::encode_all(&text[..], 3).unwrap()), text);
        assert_eq!(unfolded("identity", &text), text);
        assert!(unfolded("unheard-of", &text).is_empty());
    }

    #[test]
    fn what_unfolds_without_end_is_not_unfolded_to_the_end() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let zeros = vec![0_u8; 1 << 20];
        for _ in 0..256 {
            gzip.write_all(&zeros).unwrap();
        }
        let bomb = gzip.finish().unwrap();
        let mut copy = Copy::new(&fields("application/json", Some("gzip")), Kind::Document);
        copy.add(&bomb);
        assert!(copy.decoder.is_none());
        let kept = copy.kept.lock().unwrap();
        assert!(kept.head.len() <= HEAD_BYTES && kept.tail.is_empty() && kept.seen < 1 << 20);
    }

    #[test]
    fn the_end_of_a_long_stream_is_kept() {
        let mut copy = Copy::new(&fields("text/event-stream", None), Kind::Events);
        for n in 0..200_000 {
            copy.add(format!("data: {{\"n\":{n}}}\n\n").as_bytes());
        }
        copy.add(b"event: error\ndata: {\"type\":\"overloaded_error\"}\n\n");
        let kept = copy.kept.lock().unwrap();
        assert!(kept.head.starts_with(b"data: {\"n\":0}"));
        assert!(kept.tail.ends_with(b"overloaded_error\"}\n\n"));
        assert!(kept.tail.len() <= 2 * TAIL_BYTES && kept.head.len() == HEAD_BYTES);
    }
}
