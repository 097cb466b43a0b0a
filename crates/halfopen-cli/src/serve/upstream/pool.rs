//! Keeps connections to one dependency that may be used again, the last one used first.
//!
//! Last in, first out, so that what is not needed grows old and is dropped. A connection is not kept idle for longer
//! than servers commonly keep theirs (five seconds), so that a request rarely meets a connection that is being closed;
//! and none is used for longer than a minute, so that a changed address is followed. Probes get a new one: they ask
//! whether the dependency can be reached, not whether an old connection still stands.
//!
//! The number of connections is bounded; who needs one more waits its turn for as long as connecting may take.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connect::{ConnectError, Origin};
use super::stream::{Stream, Written};
use crate::serve::upload::Outgoing;

/// Connections to one dependency, in use and idle.
const CONNECTIONS_MAX: usize = 512;
/// How long a connection is kept without use. Below the five seconds after which common servers close theirs.
const IDLE_MAX: Duration = Duration::from_millis(3_500);
/// How long a connection is used at all.
const AGE_MAX: Duration = Duration::from_secs(60);
/// How often idle connections are looked through.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The connections to one dependency.
#[derive(Debug)]
pub(in crate::serve) struct Pool {
    origin: Origin,
    state: Mutex<State>,
    /// One for each connection in use.
    seats: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    /// The last one used at the end.
    idle: Vec<Idle>,
    swept: bool,
}

#[derive(Debug)]
struct Idle {
    connection: Box<Connection>,
    since: Instant,
}

/// Which connection a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Choose {
    /// Any.
    Any,
    /// A new one, to an address that was looked up anew.
    New,
}

/// A connection. Whoever uses it drives it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) send: http1::SendRequest<Outgoing>,
    drive: http1::Connection<TokioIo<Stream>, Outgoing>,
    ended: bool,
    written: Written,
    made_at: Instant,
    /// Whether a request has been answered on it.
    pub(super) used: bool,
}

/// A connection in use, with the seat it takes.
#[derive(Debug)]
pub(super) struct Seated {
    pub(super) connection: Box<Connection>,
    seat: OwnedSemaphorePermit,
}

impl Pool {
    /// Returns a pool without connections.
    pub(in crate::serve) fn new(origin: Origin) -> Self {
        Self { origin, state: Mutex::default(), seats: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }

    /// Takes a connection, or makes one within `within`.
    pub(super) async fn take(self: &Arc<Self>, choose: Choose, within: Duration) -> Result<Seated, ConnectError> {
        let began = Instant::now();
        let seat = match Arc::clone(&self.seats).try_acquire_owned() {
            Ok(seat) => seat,
            Err(_) => match tokio::time::timeout(within, Arc::clone(&self.seats).acquire_owned()).await {
                Ok(Ok(seat)) => seat,
                Ok(Err(_)) | Err(_) => return Err(ConnectError::Full(CONNECTIONS_MAX)),
            },
        };
        if choose == Choose::Any
            && let Some(connection) = self.idle()
        {
            return Ok(Seated { connection, seat });
        }
        self.make_room();
        let stream = self.origin.connect(within.saturating_sub(began.elapsed())).await?;
        let written = stream.written();
        let (send, drive) = http1::Builder::new().handshake(TokioIo::new(stream)).await.map_err(ConnectError::Http)?;
        let connection = Connection { send, drive, ended: false, written, made_at: Instant::now(), used: false };
        let connection = Box::new(connection);
        Ok(Seated { connection, seat })
    }

    /// Returns the last connection used that still stands.
    fn idle(&self) -> Option<Box<Connection>> {
        let now = Instant::now();
        loop {
            let Idle { mut connection, since } = self.state().idle.pop()?;
            let fresh = now.saturating_duration_since(since) < IDLE_MAX && connection.age(now) < AGE_MAX;
            // What the other side did meanwhile is noticed by looking.
            if fresh && connection.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Takes back a connection after its exchange, if it can be used again.
    pub(super) fn put_back(self: &Arc<Self>, seated: Seated) {
        let Seated { mut connection, seat } = seated;
        let now = Instant::now();
        connection.used = true;
        if connection.age(now) < AGE_MAX && connection.is_ready() {
            let mut state = self.state();
            state.idle.push(Idle { connection, since: now });
            let sweep = !std::mem::replace(&mut state.swept, true);
            drop(state);
            if sweep {
                tokio::spawn(sweep_while_it_lives(Arc::downgrade(self)));
            }
        }
        drop(seat);
    }

    /// Drops the oldest idle connection if there is no room for one more.
    fn make_room(&self) {
        let in_use = CONNECTIONS_MAX - self.seats.available_permits().min(CONNECTIONS_MAX);
        let mut state = self.state();
        if in_use + state.idle.len() > CONNECTIONS_MAX && !state.idle.is_empty() {
            let oldest = state.idle.remove(0);
            drop(state);
            drop(oldest);
        }
    }

    /// Drops what is too old; returns whether anything is left.
    fn sweep(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        let (old, young): (Vec<_>, Vec<_>) = std::mem::take(&mut state.idle)
            .into_iter()
            .partition(|idle| now.saturating_duration_since(idle.since) >= IDLE_MAX);
        state.idle = young;
        state.swept = !state.idle.is_empty();
        let any = state.swept;
        drop(state);
        drop(old);
        any
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sweep_while_it_lives(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        match pool.upgrade() {
            Some(pool) if pool.sweep() => {}
            Some(_) | None => return,
        }
    }
}

impl Connection {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.made_at)
    }

    /// Lets the connection work; returns whether it has ended.
    pub(super) fn poll_drive(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.ended {
            // Its error is told to the request under way; without one it concerns nobody.
            self.ended = matches!(Pin::new(&mut self.drive).poll(cx), Poll::Ready(_));
        }
        self.ended
    }

    /// Returns whether a request can be sent on it now, after a look at what the other side did.
    fn is_ready(&mut self) -> bool {
        !self.poll_drive(&mut Context::from_waker(Waker::noop())) && self.send.is_ready()
    }

    /// Returns how many bytes were written on it so far.
    pub(super) fn written(&self) -> u64 {
        self.written.bytes()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);

    async fn pool() -> (TcpListener, Arc<Pool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let origin = Origin::of(&url.parse().unwrap()).unwrap();
        (listener, Arc::new(Pool::new(origin)))
    }

    /// Returns the moment at which the connection was made that the pool gives next, after one of `age` came back.
    async fn next_after(age: Duration) -> (Instant, Instant) {
        let (_listener, pool) = pool().await;
        let mut seated = pool.take(Choose::Any, WITHIN).await.unwrap();
        seated.connection.made_at = Instant::now().checked_sub(age).unwrap();
        let made_at = seated.connection.made_at;
        pool.put_back(seated);
        (made_at, pool.take(Choose::Any, WITHIN).await.unwrap().connection.made_at)
    }

    /// S144: a connection is given up after a minute, and the next one goes to where the name points by then.
    #[tokio::test]
    async fn an_old_connection_is_not_used_again() {
        let (before, after) = next_after(Duration::ZERO).await;
        assert_eq!(before, after, "a young one is");
        let (before, after) = next_after(AGE_MAX).await;
        assert!(after > before, "a new one is made, and its name looked up");
    }

    /// S144: one that grew old while it lay idle, too.
    #[tokio::test]
    async fn a_connection_that_grew_old_unused_is_not_used() {
        let (_listener, pool) = pool().await;
        let seated = pool.take(Choose::Any, WITHIN).await.unwrap();
        pool.put_back(seated);
        let aged = Instant::now().checked_sub(AGE_MAX).unwrap();
        pool.state().idle[0].connection.made_at = aged;
        assert!(pool.take(Choose::Any, WITHIN).await.unwrap().connection.made_at > aged);
    }
}
