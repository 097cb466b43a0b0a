use std::pin::pin;

use proptest::prelude::*;
use test_case::test_case;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::head::{FIELDS_MAX, HEAD_BYTES_MAX};
use super::*;

/// A socket that yields what it was given, in the pieces it was given.
struct Pieces(std::collections::VecDeque<Vec<u8>>);

impl Pieces {
    /// Cuts `bytes` at these places.
    fn cut(bytes: &[u8], cuts: &[usize]) -> Self {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut start = 0;
        let mut pieces = Vec::new();
        for cut in cuts.into_iter().chain([bytes.len()]) {
            if cut > start {
                pieces.push(bytes[start..cut].to_vec());
                start = cut;
            }
        }
        Self(pieces.into())
    }
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.0.pop_front() {
            let rest = piece.split_off(piece.len().min(buf.remaining()));
            buf.put_slice(&piece);
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// What hyper would see: the bytes, and how reading ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Eof,
    Waits,
    Fails(Ambiguity),
}

fn seen(pieces: Pieces, room: usize) -> (Vec<u8>, End) {
    let mut watched = pin!(Watched::new(pieces));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut bytes = Vec::new();
    loop {
        let mut space = vec![0; room];
        let mut buf = ReadBuf::new(&mut space);
        match watched.as_mut().poll_read(&mut cx, &mut buf) {
            Poll::Pending => return (bytes, End::Waits),
            Poll::Ready(Err(error)) => return (bytes, End::Fails(Ambiguity::in_error(&error).unwrap())),
            Poll::Ready(Ok(())) if buf.filled().is_empty() => return (bytes, End::Eof),
            Poll::Ready(Ok(())) => bytes.extend_from_slice(buf.filled()),
        }
    }
}

fn whole(request: &str) -> (String, End) {
    let (bytes, end) = seen(Pieces::cut(request.as_bytes(), &[]), 8192);
    (String::from_utf8(bytes).unwrap(), end)
}

fn head(fields: &str) -> String {
    format!("POST /d/x HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
}

/// S074
#[test_case("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Ambiguity::LengthAndCoding; "length then coding")]
#[test_case("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Ambiguity::LengthAndCoding; "coding then length")]
#[test_case("Content-Length: 5\r\nContent-Length: 6\r\n", Ambiguity::TwoLengths; "two lengths")]
#[test_case("Content-Length: 5\r\ncontent-length: 5\r\n", Ambiguity::TwoLengths; "two equal lengths")]
#[test_case("Content-Length: 5, 5\r\n", Ambiguity::BadLength; "a list of lengths")]
#[test_case("Content-Length: +5\r\n", Ambiguity::BadLength; "a sign")]
#[test_case("Content-Length: -5\r\n", Ambiguity::BadLength; "a negative length")]
#[test_case("Content-Length: 0x5\r\n", Ambiguity::BadLength; "a hexadecimal length")]
#[test_case("Content-Length: 5 5\r\n", Ambiguity::BadLength; "a space inside")]
#[test_case("Content-Length:\r\n", Ambiguity::BadLength; "no length")]
#[test_case("Content-Length: 99999999999999999999\r\n", Ambiguity::BadLength; "an overflow")]
#[test_case("Content-Length: 9223372036854775808\r\n", Ambiguity::BadLength; "more than a signed reader can count")]
#[test_case("Transfer-Encoding: gzip, chunked\r\n", Ambiguity::OtherCoding; "two codings")]
#[test_case("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Ambiguity::OtherCoding; "chunked twice")]
#[test_case("Transfer-Encoding: identity\r\n", Ambiguity::OtherCoding; "identity")]
#[test_case("Transfer-Encoding: xchunked\r\n", Ambiguity::OtherCoding; "almost chunked")]
#[test_case("Transfer-Encoding: \"chunked\"\r\n", Ambiguity::OtherCoding; "quoted")]
#[test_case("Transfer-Encoding:\r\n", Ambiguity::OtherCoding; "no coding")]
#[test_case("Transfer-Encoding: \x0bchunked\r\n", Ambiguity::ControlByte; "a vertical tab")]
#[test_case("Transfer-Encoding : chunked\r\n", Ambiguity::BadName; "a space before the colon")]
#[test_case("Content-Length\t: 5\r\n", Ambiguity::BadName; "a tab before the colon")]
#[test_case("X: a\r\n b\r\n", Ambiguity::FoldedLine; "a folded line")]
#[test_case(" X: a\r\n", Ambiguity::FoldedLine; "a first line that folds")]
#[test_case("X: a\rContent-Length: 5\r\n", Ambiguity::BadLineEnd; "a bare carriage return")]
#[test_case("X: a\nContent-Length: 5\r\n", Ambiguity::BadLineEnd; "a bare line feed")]
#[test_case("X: a\r\r\n", Ambiguity::BadLineEnd; "two carriage returns")]
#[test_case("X: a\0b\r\n", Ambiguity::ControlByte; "a NUL")]
#[test_case("X\0: a\r\n", Ambiguity::BadName; "a NUL in a name")]
#[test_case("no colon\r\n", Ambiguity::BadName; "no colon")]
#[test_case(": empty\r\n", Ambiguity::BadName; "no name")]
#[test_case("Host: other\r\n", Ambiguity::TwoHosts; "two hosts")]
fn an_ambiguous_head_is_replaced_by_a_refusal(fields: &str, ambiguity: Ambiguity) {
    let (bytes, end) = whole(&format!("{}hello", head(fields)));
    assert_eq!(bytes, ambiguity.stand_in());
    assert_eq!(end, End::Waits);
}

#[test_case("GET  /x HTTP/1.1\r\n\r\n", Ambiguity::BadRequestLine; "two spaces")]
#[test_case("GET /x y HTTP/1.1\r\n\r\n", Ambiguity::BadRequestLine; "a space in the target")]
#[test_case("GET /x\r\n\r\n", Ambiguity::BadRequestLine; "no version")]
#[test_case("GET /x HTTP/2.0\r\n\r\n", Ambiguity::BadRequestLine; "another version")]
#[test_case("GET /x HTTP/1.1 \r\n\r\n", Ambiguity::BadRequestLine; "a space at the end")]
#[test_case("GET /\x01 HTTP/1.1\r\n\r\n", Ambiguity::ControlByte; "a control byte in the target")]
#[test_case("G@T /x HTTP/1.1\r\n\r\n", Ambiguity::BadRequestLine; "a method that is no token")]
#[test_case("GET /x HTTP/1.1\n\n", Ambiguity::BadLineEnd; "bare line feeds")]
#[test_case("\r\n\r\n\r\nGET /x HTTP/1.1\r\n\r\n", Ambiguity::BadRequestLine; "many empty lines")]
#[test_case("POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Ambiguity::OtherCoding; "chunks in HTTP 1 0")]
#[test_case("\x16\x03\x01\x02\0\x01\0\x01\n", Ambiguity::BadLineEnd; "TLS")]
fn a_first_line_that_is_none_is_replaced_by_a_refusal(request: &str, ambiguity: Ambiguity) {
    assert_eq!(whole(request), (ambiguity.stand_in(), End::Waits));
}

/// S074
#[test_case("0x5\r\nhello\r\n"; "a prefix")]
#[test_case("+5\r\nhello\r\n"; "a sign")]
#[test_case("5 \r\nhello\r\n"; "a space behind the size")]
#[test_case(" 5\r\nhello\r\n"; "a space before the size")]
#[test_case("\r\nhello\r\n"; "no size")]
#[test_case("5\nhello\r\n"; "a bare line feed")]
#[test_case("5\r\nhelloX\r\n"; "data longer than its size")]
#[test_case("5\r\nhello\n"; "a bare line feed behind data")]
#[test_case("5;a\nb\r\nhello\r\n"; "a line feed in an extension")]
#[test_case("5;\rx\r\nhello\r\n"; "a carriage return in an extension")]
#[test_case("FFFFFFFFFFFFFFFFF\r\n"; "an overflow")]
#[test_case("0000000000000005\r\nhello\r\n"; "more digits than anybody needs")]
#[test_case("-1\r\n"; "a negative size")]
fn a_malformed_chunk_fails_the_body_it_stands_in(chunk: &str) {
    let request = format!("{}{chunk}0\r\n\r\n", head("Transfer-Encoding: chunked\r\n"));
    let (bytes, end) = whole(&request);
    assert_eq!(end, End::Fails(Ambiguity::BadChunk));
    assert!(request.starts_with(&bytes));
}

#[test_case("0\r\nbad trailer\r\n\r\n"; "no colon")]
#[test_case("0\r\n folded: x\r\n\r\n"; "a folded line")]
#[test_case("0\r\nx: a\nb: c\r\n\r\n"; "a bare line feed")]
#[test_case("0\r\n\rx"; "no end")]
fn a_malformed_trailer_fails_the_body(tail: &str) {
    let (_, end) = whole(&format!("{}{tail}", head("Transfer-Encoding: chunked\r\n")));
    assert_eq!(end, End::Fails(Ambiguity::BadTrailer));
}

#[test]
fn a_head_without_end_is_bounded() {
    let long = head(&format!("X: {}\r\n", "a".repeat(HEAD_BYTES_MAX)));
    assert_eq!(whole(&long).0, Ambiguity::HeadTooLarge.stand_in());
    let endless = format!("GET /{}", "a".repeat(HEAD_BYTES_MAX));
    assert_eq!(whole(&endless).0, Ambiguity::HeadTooLarge.stand_in());
    let many = head(&"X: a\r\n".repeat(FIELDS_MAX));
    assert_eq!(whole(&many).0, Ambiguity::HeadTooLarge.stand_in());
    let just = head(&"X: a\r\n".repeat(FIELDS_MAX - 1));
    assert_eq!(whole(&just), (just, End::Eof));
}

#[test]
fn an_ambiguous_request_behind_a_good_one_leaves_the_good_one_alone() {
    let good = format!("{}hello", head("Content-Length: 5\r\n"));
    let (bytes, end) = whole(&format!("{good}{}", head("Content-Length: 1\r\nContent-Length: 2\r\n")));
    assert_eq!(bytes, format!("{good}{}", Ambiguity::TwoLengths.stand_in()));
    assert_eq!(end, End::Waits);
}

#[test]
fn what_a_body_holds_is_not_judged() {
    let request = head("Content-Length: 20\r\n") + "A: b\r\n c\n\0 GET / HT";
    assert_eq!(whole(&request), (request, End::Eof));
}

#[test]
fn http2_is_passed_through() {
    let connection = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\n\n";
    assert_eq!(whole(connection), (connection.to_owned(), End::Eof));
    for cut in 1..connection.len() {
        let (bytes, end) = seen(Pieces::cut(connection.as_bytes(), &[cut]), 8192);
        assert_eq!((bytes.as_slice(), end), (connection.as_bytes(), End::Eof));
    }
}

#[test]
fn half_a_head_is_handed_on_when_the_caller_is_gone() {
    assert_eq!(whole("GET /x HTTP/1.1\r\nHo"), ("GET /x HTTP/1.1\r\nHo".to_owned(), End::Eof));
}

#[test]
fn the_name_of_an_ambiguity_finds_it_again() {
    for ambiguity in Ambiguity::ALL {
        assert_eq!(Ambiguity::of_path(&format!("{REFUSED_PATH}{}", ambiguity.name())), Some(ambiguity));
    }
    assert_eq!(Ambiguity::of_path("/.halfopen/refused/other"), None);
    assert_eq!(Ambiguity::of_path("/healthz"), None);
}

/// The caller reads its refusal although it is still sending.
#[tokio::test]
async fn a_closing_socket_reads_on_for_a_moment() {
    let (caller, socket) = tokio::io::duplex(64);
    let mut watched = Watched::new(socket);
    let (mut read, mut write) = tokio::io::split(caller);
    write.write_all(b"GET\n").await.unwrap();
    let mut stand_in = vec![0; Ambiguity::BadLineEnd.stand_in().len()];
    watched.read_exact(&mut stand_in).await.unwrap();
    let sending = tokio::spawn(async move {
        // More than the socket takes at once: without somebody who reads, this would never end.
        write.write_all(&[b'x'; 4096]).await.unwrap();
        write.shutdown().await.unwrap();
    });
    watched.write_all(b"HTTP/1.1 400").await.unwrap();
    watched.shutdown().await.unwrap();
    let mut answer = String::new();
    read.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "HTTP/1.1 400");
    sending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_is_told_so() {
    let (mut caller, socket) = tokio::io::duplex(64);
    let mut watched = Watched::new(socket);
    let dripping = tokio::spawn(async move {
        for byte in b"GET / HTTP/1.1\r\nX: ".iter().chain(&[b'a'; 100]) {
            if caller.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        caller
    });
    let began = tokio::time::Instant::now();
    let mut stand_in = vec![0; Ambiguity::HeadTooSlow.stand_in().len()];
    watched.read_exact(&mut stand_in).await.unwrap();
    assert_eq!(stand_in, Ambiguity::HeadTooSlow.stand_in().as_bytes());
    assert!(began.elapsed() < Duration::from_secs(32), "{:?}", began.elapsed());
    dripping.abort();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_says_nothing_is_let_go() {
    let (_caller, socket) = tokio::io::duplex(64);
    let mut watched = Watched::new(socket);
    assert_eq!(watched.read(&mut [0; 10]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_and_a_pause_between_requests_are_left_to_others() {
    let (mut caller, socket) = tokio::io::duplex(1024);
    let mut watched = Watched::new(socket);
    let request = head("Content-Length: 3\r\n") + "abc" + &head("Content-Length: 1\r\n");
    let expected = request.clone();
    let sending = tokio::spawn(async move {
        let (first, rest) = request.split_at(request.find("abc").unwrap() + 1);
        for part in [first, &rest[..2], &rest[2..]] {
            caller.write_all(part.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        caller
    });
    let mut all = vec![0; expected.len()];
    watched.read_exact(&mut all).await.unwrap();
    assert_eq!(all, expected.as_bytes());
    sending.abort();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_reading_is_let_go() {
    let (mut caller, socket) = tokio::io::duplex(64);
    let mut watched = Watched::new(socket);
    // It reads slowly at first: that is no stall.
    let reading = tokio::spawn(async move {
        for _ in 0..5 {
            caller.read_exact(&mut [0; 64]).await.unwrap();
            tokio::time::sleep(Duration::from_secs(100)).await;
        }
        caller
    });
    watched.write_all(&[b'x'; 64 * 6]).await.unwrap();
    let caller = reading.await.unwrap();
    let error = watched.write_all(&[b'x'; 64]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(caller);
}

fn fields() -> impl Strategy<Value = String> {
    prop::collection::vec("[A-Za-z][A-Za-z0-9-]{0,12}: [ -~]{0,24}\r\n", 0..6).prop_map(|lines| {
        let known = ["host", "content-length", "transfer-encoding"];
        let keep = |line: &String| !known.iter().any(|name| line.to_ascii_lowercase().starts_with(name));
        lines.into_iter().filter(keep).collect()
    })
}

/// Well-formed requests of every framing, several on one connection.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let data = prop::collection::vec(any::<u8>(), 1..40);
    let chunks = prop::collection::vec((data, prop::option::of("[a-z=]{1,8}")), 0..4);
    let body = prop_oneof![
        Just((String::new(), Vec::new())),
        prop::collection::vec(any::<u8>(), 0..80)
            .prop_map(|bytes| (format!("Content-Length: {}\r\n", bytes.len()), bytes)),
        (chunks, prop::option::of("[a-z]{1,6}: [a-z ]{0,9}\r\n")).prop_map(|(chunks, trailer)| {
            let mut bytes = Vec::new();
            for (data, extension) in chunks {
                let extension = extension.map_or_else(String::new, |word| format!(";{word}"));
                bytes.extend_from_slice(format!("{:x}{extension}\r\n", data.len()).as_bytes());
                bytes.extend_from_slice(&data);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(format!("0\r\n{}\r\n", trailer.unwrap_or_default()).as_bytes());
            ("Transfer-Encoding: Chunked\r\n".to_owned(), bytes)
        }),
    ];
    let request = ("(GET|POST|M-SEARCH)", "/[a-zA-Z0-9/?=&%+;:@.~_-]{0,20}", fields(), fields(), body).prop_map(
        |(method, target, before, after, (framing, body))| {
            let mut bytes =
                format!("{method} {target} HTTP/1.1\r\n{before}{framing}Host: h\r\n{after}\r\n").into_bytes();
            bytes.extend_from_slice(&body);
            bytes
        },
    );
    prop::collection::vec(request, 1..4).prop_map(|requests| requests.concat())
}

proptest! {
    #[test]
    fn well_formed_requests_pass_unchanged(
        bytes in requests(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        room in 1_usize..300,
    ) {
        prop_assert_eq!(seen(Pieces::cut(&bytes, &cuts), room), (bytes, End::Eof));
    }

    #[test]
    fn how_bytes_arrive_changes_nothing(
        bytes in prop::collection::vec(prop_oneof![
            Just(b"\r\n".to_vec()), Just(b"GET / HTTP/1.1\r\n".to_vec()), Just(b"Content-Length: 3\r\n".to_vec()),
            Just(b"Transfer-Encoding: chunked\r\n".to_vec()), Just(b"0\r\n\r\n".to_vec()), Just(b"3\r\nabc\r\n".to_vec()),
            Just(b"\n".to_vec()), Just(b"\r".to_vec()), Just(b" ".to_vec()), Just(b"\0".to_vec()),
            prop::collection::vec(any::<u8>(), 0..6),
        ], 0..12).prop_map(|pieces| pieces.concat()),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        room in 1_usize..300,
    ) {
        let whole = seen(Pieces::cut(&bytes, &[]), 8192);
        prop_assert_eq!(seen(Pieces::cut(&bytes, &cuts), room), whole);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = seen(Pieces::cut(&bytes, &[7]), 64);
    }
}
