//! Dependencies behind TLS: reached if they prove who they are, and only then.

use std::net::SocketAddr;
use std::sync::Arc;

use test_case::test_case;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::client::End;
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, Starting, policy};

/// A stub with TLS before it, for as long as it lives.
pub(crate) struct Behind {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: String,
    _runtime: tokio::runtime::Runtime,
}

/// Puts TLS before a stub, with a certificate for `name`.
pub(crate) fn behind_tls(stub: &Stub, name: &str) -> Behind {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key))
        .expect("a server");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("an address");
    let (acceptor, plain) = (TlsAcceptor::from(Arc::new(config)), stub.address);
    runtime.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut secure = acceptor.accept(socket).await?;
                let mut plain = tokio::net::TcpStream::connect(plain).await?;
                tokio::io::copy_bidirectional(&mut secure, &mut plain).await
            });
        }
    });
    Behind { address, certificate: made.cert.pem(), _runtime: runtime }
}

fn gateway(behind: &Behind, host: &str, trusts: bool) -> Gateway {
    let url = format!("https://{host}:{}", behind.address.port());
    let starting = Starting::new(&policy(&url, "circuit: { open_after_failures: 2, open_for_sec: 60 }"));
    if !trusts {
        return starting.start();
    }
    let file = starting.write("roots.pem", &behind.certificate);
    starting.variable("SSL_CERT_FILE", &file).start()
}

#[test_case("localhost")]
#[test_case("127.0.0.1"; "an address")]
fn a_dependency_that_proves_its_name_is_called(host: &str) {
    let stub = Stub::start();
    let behind = behind_tls(&stub, host);
    let gateway = gateway(&behind, host, true);
    stub.then([Reply::ok("{\"ok\":1}"), Reply::events().event("1").event("2").end()]);
    let answer = gateway.post("/d/up/x?a=b", "{\"n\":1}");
    assert_eq!((answer.status, answer.text().as_str()), (200, "{\"ok\":1}"), "{}", answer.head);
    let answer = gateway.get("/d/up/events");
    assert_eq!((answer.text().as_str(), answer.end), ("data: 1\n\ndata: 2\n\n", End::Whole));
    let seen = stub.seen();
    assert_eq!(seen[0].field("host"), Some(format!("{host}:{}", behind.address.port()).as_str()));
    assert_eq!((seen[0].body.as_slice(), stub.connections()), (&b"{\"n\":1}"[..], 1));
}

/// S085
#[test_case("localhost", false, "UnknownIssuer"; "nobody vouches for it")]
#[test_case("elsewhere.example", true, "not valid for name"; "it proves another name")]
fn a_dependency_that_does_not_prove_its_name_is_told_nothing(name: &str, trusts: bool, says: &str) {
    let stub = Stub::start();
    let behind = behind_tls(&stub, name);
    let gateway = gateway(&behind, "localhost", trusts);
    for _ in 0..2 {
        let answer = gateway.call("POST", "/d/up/x", &[("authorization", "Bearer sk-secret-123456")], b"{}");
        assert_eq!((answer.status, answer.problem().as_str()), (502, "not_reached"));
        assert!(answer.text().contains(says), "{}", answer.text());
    }
    gateway.becomes("up", "open");
    assert_eq!(stub.seen().len(), 0);
}

/// S010
#[test]
fn an_answer_that_ends_without_the_word_that_ends_tls_is_cut() {
    let stub = Stub::start();
    let behind = behind_tls(&stub, "localhost");
    let gateway = gateway(&behind, "localhost", true);
    stub.then([Reply::new()
        .head(200, &[("content-length", "1000"), ("content-type", "image/png")])
        .send(b"part")
        .reset()]);
    let answer = gateway.get("/d/up/x");
    assert!(answer.end == End::CutShort || answer.status == 502, "{answer:?}");
}
