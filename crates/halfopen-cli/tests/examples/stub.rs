//! A dependency that speaks as OpenAI and Anthropic do: whole answers, event streams, limits, an error within a stream.
//!
//! It stands on a socket of its own and does what the test told it beforehand, one [`Reply`] per request in the order in
//! which they come; without one it answers well. What it cannot: HTTP/2, TLS, more than one request at a time on one
//! connection.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How the next request is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// What was asked for, whole or as a stream.
    Good,
    /// 429, with so many seconds in `Retry-After`.
    RateLimited { retry_after: u32 },
    /// 200 and a stream whose second event is an error.
    ErrorInStream,
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Method and target.
    pub(crate) line: String,
    /// Header lines, names in lower case.
    pub(crate) headers: Vec<String>,
}

/// The dependency.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<Seen>>,
}

impl Stub {
    /// Starts a dependency that gives these replies first.
    pub(crate) fn start(replies: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { replies: Mutex::new(replies.iter().copied().collect()), ..Shared::default() });
        let of_threads = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&of_threads);
                // A caller that leaves in the middle is no business of the dependency.
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, shared }
    }

    /// Returns the requests that have arrived.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some((seen, body)) = request(&mut reader)? {
        let reply = shared.replies.lock().unwrap().pop_front().unwrap_or(Reply::Good);
        let speech = if seen.line.contains("/messages") { &ANTHROPIC } else { &OPENAI };
        let streams = body.contains("\"stream\":true") || body.contains("\"stream\": true");
        shared.seen.lock().unwrap().push(seen);
        match reply {
            Reply::RateLimited { retry_after } => {
                let head = format!("HTTP/1.1 429 Too Many Requests\r\nretry-after: {retry_after}\r\n");
                whole(&mut stream, &head, speech.limit)?;
            }
            Reply::ErrorInStream => events(&mut stream, &[speech.events[0], speech.error])?,
            Reply::Good if streams => events(&mut stream, speech.events)?,
            Reply::Good => whole(&mut stream, "HTTP/1.1 200 OK\r\n", speech.whole)?,
        }
    }
    Ok(())
}

/// Reads one request, its body by its length; `None` at the end of the connection.
fn request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<(Seen, String)>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let line = lines.remove(0);
    let headers: Vec<String> = lines
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| format!("{}: {}", name.to_ascii_lowercase(), value.trim()))
        .collect();
    let mut body = Vec::new();
    if headers.iter().any(|header| header == "transfer-encoding: chunked") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = u64::from_str_radix(size.trim(), 16).map_err(std::io::Error::other)?;
            reader.by_ref().take(size).read_to_end(&mut body)?;
            reader.read_line(&mut String::new())?;
            if size == 0 {
                break;
            }
        }
    } else {
        let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
        let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        reader.by_ref().take(length).read_to_end(&mut body)?;
    }
    Ok(Some((Seen { line, headers }, String::from_utf8_lossy(&body).into_owned())))
}

fn whole(stream: &mut TcpStream, head: &str, body: &str) -> std::io::Result<()> {
    write!(stream, "{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn events(stream: &mut TcpStream, events: &[&str]) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
    for event in events {
        write!(stream, "{:x}\r\n{event}\n\n\r\n", event.len() + 2)?;
    }
    write!(stream, "0\r\n\r\n")
}

/// What one API says.
struct Speech {
    whole: &'static str,
    limit: &'static str,
    events: &'static [&'static str],
    error: &'static str,
}

const OPENAI: Speech = Speech {
    whole: r#"{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"gpt-5-mini","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, whole.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#,
    limit: r#"{"error":{"message":"Rate limit reached for gpt-5-mini on requests per min (RPM): Limit 3, Used 3, Requested 1.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#,
    events: &[
        r#"data: {"id":"chatcmpl-2","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5-mini","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello, "},"finish_reason":null}]}"#,
        r#"data: {"id":"chatcmpl-2","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5-mini","choices":[{"index":0,"delta":{"content":"streamed."},"finish_reason":null}]}"#,
        r#"data: {"id":"chatcmpl-2","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5-mini","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "data: [DONE]",
    ],
    error: r#"data: {"error":{"message":"The server is currently overloaded with other requests.","type":"server_error","param":null,"code":"server_is_overloaded"}}"#,
};

const ANTHROPIC: Speech = Speech {
    whole: r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-haiku-4-5","content":[{"type":"text","text":"Hello, whole."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":3}}"#,
    limit: r#"{"type":"error","error":{"type":"rate_limit_error","message":"Number of request tokens has exceeded your per-minute rate limit"}}"#,
    events: &[
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_2\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-haiku-4-5\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
        "event: ping\ndata: {\"type\":\"ping\"}",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello, \"}}",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"streamed.\"}}",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":3}}",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}",
    ],
    error: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
};
