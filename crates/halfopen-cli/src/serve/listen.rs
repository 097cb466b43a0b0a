//! Accepts connections, bounds them, and lets them end in peace.
//!
//! A caller that sends nothing, or a head byte by byte, holds a connection for half a minute and no longer; one that is
//! done with its requests for a minute. There are so many connections and no more: a further one is accepted when one
//! ends. Operators with a listener of their own have seats of their own, so that they get in when calls fill the house.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};

use super::access::{Arrival, Serves};
use super::args::{Address, ServeArgs};
use super::dashboard;
use super::descriptors;
use super::dispatch;
use super::framing::Watched;
use super::gateway::{Gateway, StartError};
use super::journal;
use super::notify::Notify;
use super::pulse::{self, Intervals};
use super::queue;
use super::reload;
use super::socket::Socket;
use super::telemetry;
use super::tell;
use crate::ui;

/// How long a caller may take for the head of a request, and leave a connection without one.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long a connection that had requests may stand without a further one.
const IDLE_WITHIN: Duration = Duration::from_secs(60);
/// How long nothing is accepted after the system could not give us another socket.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Operators' connections at most, where they have a listener of their own.
const OPERATORS_MAX: u32 = 256;
/// The largest head of an HTTP/1 request, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The largest list of fields of an HTTP/2 request, in bytes.
const FIELDS_BYTES_MAX: u32 = 64 * 1024;
/// How many requests one HTTP/2 connection may have at once.
const STREAMS_MAX: u32 = 256;
/// How often an HTTP/2 caller is asked whether it is still there, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Every call was finished.
    Whole,
    /// Some were broken off.
    BrokenOff,
}

/// One listener.
struct Entrance {
    listener: Listener,
    /// Where it stands, with the port that was chosen.
    address: Address,
    serves: Serves,
    connections_max: u32,
}

/// How long giving jobs back may take once the grace is over.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

enum Listener {
    Tcp(TcpListener),
    /// With its place in the file system, which is given back with it.
    Unix(UnixListener, #[expect(dead_code, reason = "held to be dropped")] Socket),
}

/// Serves until a signal ends it.
pub(super) async fn serve(gateway: Arc<Gateway>, args: &ServeArgs) -> Result<Ended, StartError> {
    let entrances = entrances(args)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Runtime)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(StartError::Runtime)?;
    announce(&gateway, &entrances);

    tokio::spawn(Arc::clone(&gateway.feed).follow(Arc::clone(&gateway.door.handle)));
    let following = tokio::spawn(journal::follow(Arc::clone(&gateway)));
    let exporting = telemetry::start(&gateway);
    let notify = Arc::new(Notify::from_environment());
    let intervals = Intervals { lines: args.activation_interval, sums: args.summary_interval };
    let beating = tokio::spawn(pulse::beat(Arc::clone(&gateway), intervals, Arc::clone(&notify)));
    // Every connection holds a sender; when the last is gone, so is the last connection.
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let accepting: Vec<_> = entrances
        .into_iter()
        .map(|entrance| tokio::spawn(accept(entrance, Arc::clone(&gateway), alive.clone())))
        .collect();
    drop(alive);
    let watching = tokio::spawn(reload::watch(Arc::clone(&gateway)));
    let mut working = queue::start(&gateway);
    let telling =
        [tokio::spawn(tell::owners(Arc::clone(&gateway))), tokio::spawn(tell::programs(Arc::clone(&gateway)))];
    let remembering = tokio::spawn(dashboard::remember(Arc::clone(&gateway)));
    notify.ready();
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hang_up.recv() => {
                notify.reloading();
                gateway.access.reload();
                gateway.reload();
                notify.ready();
            }
        }
    }
    notify.stopping();
    watching.abort();
    telling.iter().for_each(tokio::task::JoinHandle::abort);
    remembering.abort();
    gateway.shutdown.begin();
    queue::finish(&gateway);
    let finished = async {
        tokio::time::sleep(args.shutdown_pause.min(args.shutdown_grace)).await;
        gateway.shutdown.stop_accepting();
        all_gone.recv().await;
        if !working.is_finished() {
            let _ = (&mut working).await;
        }
    };
    let broken_off = |why: &str| {
        ui::warn(&format!("{why}; calls were broken off"));
        Ended::BrokenOff
    };
    let ended = tokio::select! {
        () = finished => Ended::Whole,
        () = tokio::time::sleep(args.shutdown_grace) => broken_off("the grace is over"),
        _ = terminate.recv() => broken_off("told again"),
        _ = interrupt.recv() => broken_off("told again"),
    };
    gateway.shutdown.stop_accepting();
    for accepting in accepting {
        // It removes its socket when it ends.
        let _ = accepting.await;
    }
    if !working.is_finished() {
        queue::leave(&gateway);
        // What is held is given back; a store that does not take it lets the leases run out.
        let _ = tokio::time::timeout(LEAVE_WITHIN, working).await;
    }
    // It ends when nothing is accepted any more, and leaves its figures.
    let _ = beating.await;
    pulse::last_lines(&gateway).await;
    following.abort();
    journal::catch_up(&gateway).await;
    exporting.finish().await;
    Ok(ended)
}

/// Says where what is served.
fn announce(gateway: &Gateway, entrances: &[Entrance]) {
    let dependencies = gateway.live().dependencies().count();
    for Entrance { address, serves, .. } in entrances {
        // Said first: whoever waits for the line that announces the calls has then read it all.
        if *serves != Serves::Calls && matches!(address, Address::Tcp(_)) {
            ui::say(&format!("dashboard at {address}/"));
        }
        match serves {
            Serves::Both | Serves::Calls => {
                ui::say(&format!("serving {address}/d/NAME for {dependencies} dependencies"));
            }
            Serves::Operators => ui::say(&format!("operators at {address}")),
        }
    }
}

/// Opens all listeners, or none.
fn entrances(args: &ServeArgs) -> Result<Vec<Entrance>, StartError> {
    let open = |address: &Address, serves, connections_max| -> Result<Entrance, StartError> {
        let (listener, address) =
            bind(address).map_err(|cause| StartError::Listen { address: address.to_string(), cause })?;
        Ok(Entrance { listener, address, serves, connections_max })
    };
    // The operators' first: whoever waits for the line that announces the calls finds everything open.
    match &args.admin_listen {
        None => Ok(vec![open(&args.listen, Serves::Both, args.max_connections)?]),
        Some(address) => Ok(vec![
            open(address, Serves::Operators, OPERATORS_MAX)?,
            open(&args.listen, Serves::Calls, args.max_connections)?,
        ]),
    }
}

fn bind(address: &Address) -> io::Result<(Listener, Address)> {
    match address {
        Address::Tcp(at) => {
            let listener = std::net::TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            Ok((Listener::Tcp(TcpListener::from_std(listener)?), Address::Tcp(bound)))
        }
        Address::Unix(path) => {
            let (listener, socket) = Socket::bind(path)?;
            Ok((Listener::Unix(UnixListener::from_std(listener)?, socket), address.clone()))
        }
    }
}

async fn accept(entrance: Entrance, gateway: Arc<Gateway>, alive: mpsc::Sender<()>) {
    let Entrance { listener, address, serves, connections_max } = entrance;
    let seats = usize::try_from(connections_max).unwrap_or(Semaphore::MAX_PERMITS).min(descriptors::callers_max());
    let seats = Arc::new(Semaphore::new(seats));
    let local = address.is_local();
    loop {
        // Whoever finds no seat waits in the system's queue, which has a bound of its own.
        let accepted = tokio::select! {
            () = gateway.shutdown.stopped() => break,
            accepted = async {
                let seat = Arc::clone(&seats).acquire_owned().await;
                (one(&listener).await, seat)
            } => accepted,
        };
        match accepted {
            (Ok(Accepted::Tcp(stream)), seat) => {
                let _ = stream.set_nodelay(true);
                let Ok(peer) = stream.peer_addr() else { continue };
                let peer = format!("http:{}", peer.ip().to_canonical());
                let arrival = Arrival { serves, local, at: stream.local_addr().ok(), peer };
                tokio::spawn(connection(stream, arrival, Arc::clone(&gateway), (alive.clone(), seat)));
            }
            (Ok(Accepted::Unix(stream)), seat) => {
                let uid = stream.peer_cred().map_or_else(|_| "?".to_owned(), |peer| peer.uid().to_string());
                let arrival = Arrival { serves, local, at: None, peer: format!("unix:uid {uid}") };
                tokio::spawn(connection(stream, arrival, Arc::clone(&gateway), (alive.clone(), seat)));
            }
            // The caller went away before we looked, or there are no descriptors left; neither ends the gateway.
            (Err(_), _) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

enum Accepted {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

async fn one(listener: &Listener) -> io::Result<Accepted> {
    match listener {
        Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| Accepted::Tcp(stream)),
        Listener::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Accepted::Unix(stream)),
    }
}

async fn connection<S, T>(stream: S, arrival: Arrival, gateway: Arc<Gateway>, _alive: T)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let arrival = Arc::new(arrival);
    let begun = Arc::new(AtomicU64::new(0));
    let service = service_fn(|request| {
        begun.fetch_add(1, Ordering::Relaxed);
        let (gateway, arrival) = (Arc::clone(&gateway), Arc::clone(&arrival));
        async move { Ok::<_, std::convert::Infallible>(dispatch::answer(&gateway, &arrival, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(FIELDS_BYTES_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    let connection = builder.serve_connection(TokioIo::new(Watched::new(stream)), service);
    tokio::pin!(connection);
    let mut seen = 0;
    let mut patience = HEAD_WITHIN;
    loop {
        tokio::select! {
            // What goes wrong with a caller's connection is the caller's business.
            _ = connection.as_mut() => return,
            () = gateway.shutdown.stopped() => break,
            () = tokio::time::sleep(patience) => {
                let now = begun.load(Ordering::Relaxed);
                match now {
                    // Not one request, whatever else it sent.
                    0 => return,
                    // What it still waits for is finished; then it is closed.
                    now if now == seen => break,
                    now => seen = now,
                }
                patience = IDLE_WITHIN;
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
