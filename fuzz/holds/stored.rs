// What must hold for any text that lies in a store. Shared by the fuzz target and the test that replays its corpus.

use halfopen_core::circuit_id::CircuitId;
use halfopen_core::snapshot::{
    SnapshotError, decode, decode_entry, decode_job, decode_request, decode_result, encode, encode_entry, encode_job,
    encode_request, encode_result,
};

/// Reads `bytes` as one of the stored forms and checks what is promised about it; returns whether it is one.
///
/// A first line says which (`circuit`, `job`, `entry`, `request`, `result`); the form follows. What is apart from a form
/// (a body, an output) stands behind a line `---`.
pub(crate) fn stored(bytes: &[u8]) -> bool {
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (kind, rest) = (&bytes[..first], bytes.get(first + 1..).unwrap_or(&[]));
    let border = rest.windows(5).position(|window| window == b"\n---\n");
    let (text, body) = border.map_or((rest, &[][..]), |at| (&rest[..at], &rest[at + 5..]));
    let text = String::from_utf8_lossy(text);
    match kind {
        b"circuit" => same(&text, |text| decode(text).map(|circuit| encode(&circuit))),
        b"job" => same(&text, |text| decode_job(text, place(), None).map(|job| encode_job(&job))),
        b"entry" => same(&text, |text| decode_entry(text).map(|entry| encode_entry(&entry))),
        b"request" => same(&text, |text| {
            let (written, apart) = encode_request(decode_request(text, body.to_vec())?);
            assert_eq!(apart, body, "a body is kept to the byte");
            Ok(written)
        }),
        b"result" => same(&text, |text| {
            let (written, apart) = encode_result(decode_result(text, body.to_vec())?);
            // What was stated by a person has no output.
            assert!(apart == body || apart.is_empty(), "an output is kept to the byte");
            Ok(written)
        }),
        _ => false,
    }
}

fn place() -> CircuitId {
    "ocr".parse().expect("a name")
}

/// Reads and writes twice: what was written reads as what was read.
fn same(text: &str, read_and_write: impl Fn(&str) -> Result<String, SnapshotError>) -> bool {
    match read_and_write(text) {
        Ok(written) => {
            let again = read_and_write(&written).expect("what is written can be read");
            assert_eq!(again, written, "what is read again differs");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error says nothing");
            false
        }
    }
}
