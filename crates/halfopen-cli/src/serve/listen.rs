//! Accepts connections, and lets them end in peace.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};

use super::args::{Address, ServeArgs};
use super::descriptors;
use super::dispatch;
use super::framing::Watched;
use super::gateway::{Gateway, StartError};
use super::reload;
use crate::ui;

/// How long a caller may take for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How often a caller that speaks HTTP/2 is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// How long nothing is accepted after the system could not give us another socket.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Serves until a signal ends it.
pub(super) async fn serve(gateway: Arc<Gateway>, args: &ServeArgs) -> Result<(), StartError> {
    let (listener, address) = bind(&args.listen).await?;
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Runtime)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(StartError::Runtime)?;
    let dependencies = gateway.live().dependencies().count();
    ui::say(&format!("serving {address}/d/NAME for {dependencies} dependencies"));

    // Every connection holds a sender; when the last is gone, so is the last connection.
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let accepting = tokio::spawn(accept(listener, Arc::clone(&gateway), alive));
    let watching = tokio::spawn(reload::watch(Arc::clone(&gateway)));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hang_up.recv() => gateway.reload(),
        }
    }
    watching.abort();
    gateway.shutdown.begin();
    let ended = async {
        tokio::time::sleep(args.shutdown_pause.min(args.shutdown_grace)).await;
        gateway.shutdown.stop_accepting();
        all_gone.recv().await;
    };
    tokio::select! {
        () = ended => {}
        () = tokio::time::sleep(args.shutdown_grace) => ui::warn("the grace is over; calls were broken off"),
        _ = terminate.recv() => ui::warn("told again; calls were broken off"),
        _ = interrupt.recv() => ui::warn("told again; calls were broken off"),
    }
    accepting.abort();
    if let Address::Unix(path) = &args.listen {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

async fn bind(address: &Address) -> Result<(Listener, Address), StartError> {
    let cannot = |cause| StartError::Listen { address: address.to_string(), cause };
    match address {
        Address::Tcp(at) => {
            let listener = TcpListener::bind(at).await.map_err(cannot)?;
            let bound = listener.local_addr().map_err(cannot)?;
            Ok((Listener::Tcp(listener), Address::Tcp(bound)))
        }
        Address::Unix(path) => {
            let listener = UnixListener::bind(path).or_else(|error| again(path, error)).map_err(cannot)?;
            Ok((Listener::Unix(listener), address.clone()))
        }
    }
}

/// Binds a path at which a socket lies that nobody listens on: left by a gateway that was killed.
fn again(path: &Path, error: io::Error) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let refused = || {
        std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if error.kind() != io::ErrorKind::AddrInUse || !is_socket || !refused() {
        return Err(error);
    }
    std::fs::remove_file(path)?;
    UnixListener::bind(path)
}

async fn accept(listener: Listener, gateway: Arc<Gateway>, alive: mpsc::Sender<()>) {
    let seats = Arc::new(Semaphore::new(descriptors::callers_max()));
    loop {
        let accepted = async {
            // Nobody closes it.
            let seat = Arc::clone(&seats).acquire_owned().await.ok();
            (one(&listener).await, seat)
        };
        let (accepted, seat) = tokio::select! {
            () = gateway.shutdown.stopped() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok(Socket::Tcp(stream)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(connection(stream, Arc::clone(&gateway), (alive.clone(), seat)));
            }
            Ok(Socket::Unix(stream)) => {
                tokio::spawn(connection(stream, Arc::clone(&gateway), (alive.clone(), seat)));
            }
            // The caller went away before we looked, or there are no descriptors left; neither ends the gateway.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

enum Socket {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

async fn one(listener: &Listener) -> std::io::Result<Socket> {
    match listener {
        Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| Socket::Tcp(stream)),
        Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| Socket::Unix(stream)),
    }
}

/// Serves one connection; what it holds is given back when it has ended.
async fn connection<S, H>(stream: S, gateway: Arc<Gateway>, _holds: H)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        let gateway = Arc::clone(&gateway);
        async move { Ok::<_, std::convert::Infallible>(dispatch::answer(&gateway, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    // HTTP/2 has no head that could be late: a caller that vanished without a word shows only when it is asked.
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(PING_EVERY));
    let connection = builder.serve_connection(TokioIo::new(Watched::new(stream)), service);
    tokio::pin!(connection);
    tokio::select! {
        // What goes wrong with a caller's connection is the caller's business.
        _ = connection.as_mut() => return,
        () = gateway.shutdown.stopped() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
