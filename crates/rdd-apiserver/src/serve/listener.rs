//! The listening socket: bound once, on loopback, before the server starts.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::TcpListener;

/// The server could not listen on a port.
#[derive(Debug, thiserror::Error)]
#[error("listen on {}:{port}", Ipv4Addr::LOCALHOST)]
pub struct Error {
    /// The port; 0 means any.
    pub port: u16,
    /// The error of the operating system.
    #[source]
    pub source: io::Error,
}

/// A bound socket. Its port stays reserved for as long as this value lives.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: TcpListener,
    address: SocketAddr,
}

/// Listens on 127.0.0.1, on the preferred port if it is available, otherwise on any free one.
///
/// # Errors
/// [`Error`] if no port is available, or the address of the socket cannot be read.
pub async fn bind(preferred: u16) -> Result<Listener, Error> {
    let fail = |port| move |source| Error { port, source };
    let socket = match TcpListener::bind((Ipv4Addr::LOCALHOST, preferred)).await {
        Ok(socket) => socket,
        Err(error) if preferred != 0 => {
            tracing::warn!(port = preferred, %error, "the preferred port is not to be had, taking a free one");
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(fail(0))?
        }
        Err(source) => return Err(fail(preferred)(source)),
    };
    // For port 0 the operating system has chosen one.
    let address = socket.local_addr().map_err(fail(preferred))?;
    Ok(Listener { socket, address })
}

impl Listener {
    /// The address of the socket.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of the socket.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_gives_another_one_and_both_are_on_loopback() {
        let first = bind(0).await.unwrap();
        let second = bind(first.port()).await.unwrap();
        assert_ne!(first.port(), second.port());
        assert!(first.address().ip().is_loopback() && second.address().ip().is_loopback());
        let port = second.port();
        drop(second);
        assert_eq!(bind(port).await.unwrap().port(), port, "the preferred port is taken when it is free");
    }
}
