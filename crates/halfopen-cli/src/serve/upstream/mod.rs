//! The way to a dependency: name, connection, exchange.
//!
//! Own connections instead of a client library's: nothing is sent twice behind the breaker's back, a probe never rides
//! on an old connection, and whether a request ever left is known from the bytes that were written, not guessed from an
//! error. The connection is driven by the call that uses it ([`exchange`]), not by a task of its own: one wake-up per
//! packet instead of two.

mod connect;
mod exchange;
mod pool;
mod stream;

pub(super) use connect::{ConnectError, Origin};
pub(super) use exchange::{Exchange, Lost};
pub(super) use pool::{Choose, Pool};
