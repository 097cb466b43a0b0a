//! Reads event streams side by side and prints, as one line of JSON, what their reader felt.
//!
//! ```text
//! sse_client URL STREAMS ROUNDS
//! ```
//!
//! `STREAMS` connections each read `ROUNDS` streams one after the other. Of each stream: the time to its first event, its
//! whole time and the largest gap between two pieces that carried events; a gateway that holds events back to fill a
//! segment shows there. Of all: the median and the 99th percentile. A stream counts as read if it was answered 200 and
//! ended with `[DONE]`. One thread.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;

const BODY: &str = r#"{"model":"gpt-stub","stream":true,"messages":[{"role":"user","content":"Say hello to the world in one sentence, please."}]}"#;

/// What the reader of one stream felt.
struct Stream {
    first: Duration,
    whole: Duration,
    gap: Duration,
    events: usize,
}

async fn read(sender: &mut SendRequest<Full<Bytes>>, url: &Uri) -> Result<Stream> {
    let authority = url.authority().context("the URL names no host")?.as_str();
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header("host", authority)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from_static(BODY.as_bytes())))?;
    let start = Instant::now();
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    if response.status() != StatusCode::OK {
        bail!("answered {}", response.status());
    }
    let mut body = response.into_body();
    let (mut first, mut last, mut gap) = (None, start, Duration::ZERO);
    let (mut events, mut done) = (0, false);
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame?.into_data() else { continue };
        let seen = bytes.windows(5).filter(|bytes| bytes == b"data:").count();
        if seen == 0 {
            continue;
        }
        let now = Instant::now();
        match first {
            None => first = Some(now - start),
            Some(_) => gap = gap.max(now - last),
        }
        (events, last) = (events + seen, now);
        done |= bytes.windows(6).any(|bytes| bytes == b"[DONE]");
    }
    let first = first.context("the stream carried no event")?;
    if !done {
        bail!("the stream ended before [DONE]");
    }
    Ok(Stream { first, whole: start.elapsed(), gap, events })
}

async fn connection(url: Uri, rounds: usize) -> Vec<Result<Stream>> {
    let mut read_streams = Vec::new();
    let connected = async {
        let port = url.port_u16().context("the URL names no port")?;
        let stream = tokio::net::TcpStream::connect((url.host().unwrap_or("127.0.0.1"), port)).await?;
        stream.set_nodelay(true)?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        anyhow::Ok(sender)
    };
    match connected.await {
        Ok(mut sender) => {
            for _ in 0..rounds {
                read_streams.push(read(&mut sender, &url).await);
            }
        }
        Err(error) => read_streams.push(Err(error)),
    }
    read_streams
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, streams, rounds] = words.as_slice() else { bail!("usage: sse_client URL STREAMS ROUNDS") };
    let url: Uri = url.parse().context("URL is not one")?;
    let streams: usize = streams.parse().context("STREAMS is not a number")?;
    let rounds: usize = rounds.parse().context("ROUNDS is not a number")?;
    let readers: Vec<_> = (0..streams).map(|_| tokio::spawn(connection(url.clone(), rounds))).collect();
    let (mut read_streams, mut failure) = (Vec::new(), None);
    for reader in readers {
        for stream in reader.await? {
            match stream {
                Ok(stream) => read_streams.push(stream),
                Err(error) => failure = Some(format!("{error:#}")),
            }
        }
    }
    let at = |of: fn(&Stream) -> Duration, share: f64| {
        let mut durations: Vec<Duration> = read_streams.iter().map(of).collect();
        durations.sort_unstable();
        let index = (durations.len().saturating_sub(1) as f64 * share).round() as usize;
        durations.get(index).map_or(0.0, |duration| duration.as_secs_f64() * 1e3)
    };
    let felt = serde_json::json!({
        "asked": streams * rounds,
        "read": read_streams.len(),
        "events": read_streams.iter().map(|stream| stream.events).sum::<usize>(),
        "first_p50_ms": at(|stream| stream.first, 0.5),
        "first_p99_ms": at(|stream| stream.first, 0.99),
        "whole_p50_ms": at(|stream| stream.whole, 0.5),
        "gap_p50_ms": at(|stream| stream.gap, 0.5),
        "failure": failure,
    });
    writeln!(std::io::stdout(), "{felt}")?;
    Ok(())
}
