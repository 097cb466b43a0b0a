//! Connects to a dependency: finds its addresses, reaches one of them, greets it by TLS if that is asked for.
//!
//! Names are resolved anew for every connection, on a thread that may block; the system's resolver is the one that
//! knows `/etc/hosts`, search lists and the local cache. The addresses are tried in the resolver's order, the next one
//! a quarter of a second after the last (RFC 8305 section 5), so that a dead family or machine costs little.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;
use rustix::io::Errno;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::stream::Stream;

/// How long one address is tried alone.
const STAGGER: Duration = Duration::from_millis(250);
/// How many addresses of a name are tried.
const ADDRESSES_MAX: usize = 8;
/// Names that are looked up at once, over all dependencies; a resolver that hangs must not take all threads.
static LOOKUPS: Semaphore = Semaphore::const_new(32);

/// Where a dependency is reached.
#[derive(Debug)]
pub(in crate::serve) struct Origin {
    host: String,
    port: u16,
    server_name: Option<ServerName<'static>>,
    /// What the `Host` header says.
    pub(in crate::serve) host_header: HeaderValue,
}

/// Why no connection could be made. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(in crate::serve) enum ConnectError {
    /// The name has no address.
    #[error("the name `{host}` cannot be resolved: {cause}")]
    Name {
        /// Which.
        host: String,
        /// Why.
        cause: io::Error,
    },
    /// No address answered.
    #[error("{host}:{port} cannot be reached: {cause}")]
    Unreachable {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Why the last address did not.
        cause: io::Error,
    },
    /// It answered, and is not whom it should be, or speaks no TLS.
    #[error("no TLS connection to {host}:{port}: {cause}")]
    Tls {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Why.
        cause: io::Error,
    },
    /// It speaks no HTTP.
    #[error("no HTTP connection: {0}")]
    Http(hyper::Error),
    /// It took too long.
    #[error("no connection to {host}:{port} within {within:?}")]
    Slow {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// How long it was tried.
        within: Duration,
    },
    /// As many connections as are allowed are in use, and none became free.
    #[error("all {0} connections to it are in use")]
    Full(usize),
}

impl ConnectError {
    /// Returns whether it is we, or our machine, who could not: a bound of ours, no descriptors, no ports, no memory.
    pub(in crate::serve) fn is_ours(&self) -> bool {
        match self {
            Self::Full(_) => true,
            Self::Name { cause, .. } | Self::Unreachable { cause, .. } | Self::Tls { cause, .. } => {
                let ours = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
                cause.raw_os_error().is_some_and(|code| ours.iter().any(|errno| errno.raw_os_error() == code))
            }
            Self::Http(_) | Self::Slow { .. } => false,
        }
    }
}

impl Origin {
    /// Returns where `base` points, if it is one that can be connected to.
    pub(in crate::serve) fn of(base: &Uri) -> Option<Self> {
        let authority = base.authority()?;
        let secure = match base.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let server_name = match secure {
            true => Some(ServerName::try_from(host.clone()).ok()?),
            false => None,
        };
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Some(Self { host, port, server_name, host_header: HeaderValue::from_str(authority.as_str()).ok()? })
    }

    /// Connects within `within`, all steps together.
    pub(super) async fn connect(&self, within: Duration) -> Result<Stream, ConnectError> {
        match tokio::time::timeout(within, self.connect_somehow()).await {
            Ok(connected) => connected,
            Err(_) => Err(self.slow(within)),
        }
    }

    pub(super) fn slow(&self, within: Duration) -> ConnectError {
        ConnectError::Slow { host: self.host.clone(), port: self.port, within }
    }

    async fn connect_somehow(&self) -> Result<Stream, ConnectError> {
        let addresses =
            self.addresses().await.map_err(|cause| ConnectError::Name { host: self.host.clone(), cause })?;
        let reached = match addresses.as_slice() {
            [one] => TcpStream::connect(one).await,
            many => first_of(many).await,
        };
        let stream =
            reached.map_err(|cause| ConnectError::Unreachable { host: self.host.clone(), port: self.port, cause })?;
        // Small writes are the rule here; a system that cannot do this still works.
        let _ = stream.set_nodelay(true);
        let Some(name) = &self.server_name else { return Ok(Stream::plain(stream)) };
        let tls = |cause| ConnectError::Tls { host: self.host.clone(), port: self.port, cause };
        let connector = TlsConnector::from(crate::tls::client().map_err(tls)?);
        Ok(Stream::tls(connector.connect(name.clone(), stream).await.map_err(tls)?))
    }

    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        // Nobody closes it.
        let turn = LOOKUPS.acquire().await.map_err(io::Error::other)?;
        let asked = (self.host.clone(), self.port);
        let found = tokio::task::spawn_blocking(move || {
            // Held by the thread, which a caller that went away does not end.
            let _turn = turn;
            asked.to_socket_addrs().map(|found| found.take(ADDRESSES_MAX).collect::<Vec<_>>())
        });
        match found.await.map_err(io::Error::other)?? {
            found if found.is_empty() => Err(io::Error::new(io::ErrorKind::NotFound, "it has no address")),
            found => Ok(found),
        }
    }
}

/// Connects to the first of some addresses that answers.
async fn first_of(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut rest = addresses.iter().copied().peekable();
    let mut trying = JoinSet::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    loop {
        if let Some(address) = rest.next() {
            trying.spawn(TcpStream::connect(address));
        } else if trying.is_empty() {
            return Err(last);
        }
        tokio::select! {
            Some(ended) = trying.join_next() => match ended {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(error) => last = io::Error::other(error),
            },
            () = tokio::time::sleep(STAGGER), if rest.peek().is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("https://ocr.example.com/v1", Some(("ocr.example.com", 443, true)))]
    #[test_case("http://127.0.0.1:8080", Some(("127.0.0.1", 8080, false)))]
    #[test_case("http://[::1]:8080/x", Some(("::1", 8080, false)))]
    #[test_case("https://[::1]", Some(("::1", 443, true)))]
    #[test_case("ftp://ocr.example.com", None)]
    fn an_origin_is_read_from_the_base_url(url: &str, expected: Option<(&str, u16, bool)>) {
        let origin = Origin::of(&url.parse().unwrap());
        let seen = origin.as_ref().map(|o| (o.host.as_str(), o.port, o.server_name.is_some()));
        assert_eq!(seen, expected);
    }

    #[tokio::test]
    async fn a_dead_address_does_not_hide_a_living_one() {
        let living = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stream = first_of(&[dead, living.local_addr().unwrap()]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), living.local_addr().unwrap());
        assert!(first_of(&[dead, dead]).await.is_err());
    }
}
