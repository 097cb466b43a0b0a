//! Callers that speak HTTP/2 with prior knowledge get the same.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::stub::{Reply, Stub};
use crate::world::{Gateway, gateway};

type Call = Request<Full<Bytes>>;

fn call(method: &str, path: &str, fields: &[(&str, &str)], body: &'static str) -> Call {
    let mut request = Request::builder().method(method).uri(format!("http://gateway.example{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Full::from(body)).expect("a request")
}

/// Makes calls side by side on one connection.
fn calls(gateway: &Gateway, calls: Vec<Call>) -> Vec<Response<Bytes>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(gateway.address).await.expect("a connection");
        let (send, connection) = handshake(TokioExecutor::new(), TokioIo::new(socket)).await.expect("HTTP/2");
        tokio::spawn(connection);
        let answers: Vec<_> = calls.into_iter().map(|call| tokio::spawn(answer(send.clone(), call))).collect();
        let mut whole = Vec::new();
        for answer in answers {
            whole.push(answer.await.expect("an answer"));
        }
        whole
    })
}

async fn answer(mut send: SendRequest<Full<Bytes>>, call: Call) -> Response<Bytes> {
    send.ready().await.expect("a connection that stands");
    let (parts, body) = send.send_request(call).await.expect("an answer").into_parts();
    Response::from_parts(parts, body.collect().await.expect("a whole body").to_bytes())
}

#[test]
fn calls_on_one_connection_are_told_apart() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let paths: Vec<String> = (0..20).map(|n| format!("/d/up/{n}?q={n}")).collect();
    let answers = calls(&gateway, paths.iter().map(|path| call("POST", path, &[], "{\"a\":1}")).collect());
    assert!(answers.iter().all(|answer| answer.status() == 200 && answer.body() == "{}"));
    let mut seen: Vec<_> = stub.seen().into_iter().map(|seen| seen.target).collect();
    seen.sort();
    let mut expected: Vec<_> = (0..20).map(|n| format!("/{n}?q={n}")).collect();
    expected.sort();
    assert_eq!(seen, expected);
    for seen in stub.seen() {
        assert_eq!(seen.body, b"{\"a\":1}");
        assert_eq!(seen.field("content-length"), Some("7"));
        assert_eq!(seen.field("host"), Some(stub.address.to_string().as_str()));
        assert_eq!(seen.field("via"), Some("2 halfopen"));
    }
}

#[test]
fn cookies_are_sent_as_one() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    calls(&gateway, vec![call("GET", "/d/up/x", &[("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers")], "")]);
    let seen = &stub.seen()[0];
    assert_eq!(seen.field("cookie"), Some("a=1; b=2"));
    assert_eq!(seen.field("te"), Some("trailers"));
}

/// S074
#[test]
fn fields_of_one_connection_do_not_reach_the_caller() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let fields = [("connection", "x-foo, close"), ("x-foo", "1"), ("keep-alive", "timeout=1"), ("upgrade", "h2c")];
    stub.then([Reply::full(200, &fields, b"{}"), Reply::chunked(200, &[]).chunk(b"{}").end()]);
    let answers = calls(&gateway, vec![call("GET", "/d/up/x", &[], "")]);
    for gone in ["connection", "x-foo", "keep-alive", "upgrade"] {
        assert!(!answers[0].headers().contains_key(gone), "{:?}", answers[0]);
    }
    let answers = calls(&gateway, vec![call("GET", "/d/up/x", &[], "")]);
    assert_eq!((answers[0].status().as_u16(), answers[0].body().as_ref()), (200, &b"{}"[..]));
}

/// S075
#[test]
fn a_path_that_could_leave_the_prefix_is_refused() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let answers = calls(&gateway, vec![call("GET", "/d/up/%2e%2e/admin", &[], ""), call("GET", "/d/none", &[], "")]);
    assert_eq!(answers.iter().map(|answer| answer.status().as_u16()).collect::<Vec<_>>(), [400, 404]);
    assert_eq!(stub.connections(), 0);
}

/// S010: also where the dependency broke off before the head had left; then the head is lost with the stream.
#[test]
fn a_cut_answer_is_a_reset_stream() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::chunked(200, &[("content-type", "application/pdf")]).chunk(&[b'x'; 70_000]).close()]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let cut = runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(gateway.address).await.expect("a connection");
        let (mut send, connection) = handshake(TokioExecutor::new(), TokioIo::new(socket)).await.expect("HTTP/2");
        tokio::spawn(connection);
        send.ready().await.expect("a connection that stands");
        match send.send_request(call("GET", "/d/up/x", &[], "")).await {
            Ok(answer) if answer.status() == 502 => Ok(()),
            Ok(answer) => match answer.into_body().collect().await {
                Ok(whole) => Err(format!("{} bytes that look whole", whole.to_bytes().len())),
                Err(error) => is_reset(&error),
            },
            Err(error) => is_reset(&error),
        }
    });
    assert_eq!(cut, Ok(()));
    assert_eq!(gateway.get("/d/up/x").status, 200);
}

/// The stream was reset, and not the connection lost.
fn is_reset(error: &hyper::Error) -> Result<(), String> {
    let text = format!("{error:?}");
    if text.contains("Reset") { Ok(()) } else { Err(text) }
}
