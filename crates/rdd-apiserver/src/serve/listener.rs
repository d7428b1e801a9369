//! The socket: bound once, on loopback, and served as it was bound.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::TcpListener;

/// A port could not be had.
#[derive(Debug, thiserror::Error)]
#[error("listen on {}:{port}", Ipv4Addr::LOCALHOST)]
pub struct Error {
    /// The port; 0 means any.
    pub port: u16,
    /// What the operating system said.
    #[source]
    pub source: io::Error,
}

/// A bound socket. What it says about its port is true for as long as it lives: nobody can take it in between.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: TcpListener,
    address: SocketAddr,
}

/// Listens on 127.0.0.1, on the preferred port if it is to be had, otherwise on any free one.
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
    let address = socket.local_addr().map_err(fail(preferred))?;
    Ok(Listener { socket, address })
}

impl Listener {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port alone.
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
