//! A connection to a webhook: TCP, TLS, and the version of HTTP that both sides speak.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rdd_stdx::{dns::Resolver, task::Group};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{super::endpoint::Endpoint, fault, pool::Key, trust};

/// A connection. Its task ends with it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) key: Key,
    pub(super) sender: Sender,
    driver: Arc<Group<()>>,
}

/// Where requests go in.
#[derive(Debug)]
pub(super) enum Sender {
    /// One request at a time.
    Http1(http1::SendRequest<Full<Bytes>>),
    /// Any number.
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// The same connection for one more request at the same time; only HTTP/2 can.
    pub(super) fn share(&self) -> Option<Self> {
        let Sender::Http2(sender) = &self.sender else { return None };
        Some(Self { key: self.key.clone(), sender: Sender::Http2(sender.clone()), driver: Arc::clone(&self.driver) })
    }
}

impl Sender {
    pub(super) async fn send(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> hyper::Result<http::Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }
}

/// Connects, or says in Go's words why that failed.
pub(super) async fn connect(key: Key, endpoint: &Endpoint, resolver: &Resolver) -> Result<Connection, String> {
    let config = endpoint.tls.get_or_try_init(|| trust::config(Arc::clone(&endpoint.ca_bundle), key.http2)).await?;
    let stream = dial(&key.place, resolver).await?;
    let name = ServerName::try_from(key.server_name.clone());
    let name = name.map_err(|error| format!("tls: {}: {error}", key.server_name))?;
    let shaken = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
    let stream = shaken.map_err(|error| fault::tls(&error, &key.server_name))?;
    speak(key, stream).await.map_err(|error| fault::http(&error))
}

async fn dial(place: &str, resolver: &Resolver) -> Result<TcpStream, String> {
    let (host, port) = place.rsplit_once(':').ok_or_else(|| format!("dial tcp: address {place}: missing port"))?;
    let port = port.parse().map_err(|_| format!("dial tcp: address {port}: invalid port"))?;
    let addresses = resolver.lookup(host, port).await.map_err(|error| fault::lookup(&error, host))?;
    let mut first = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // It saves a round trip where it works, and nothing is lost where it does not.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => first = first.or_else(|| Some(fault::dial(&error, address))),
        }
    }
    Err(first.unwrap_or_else(|| format!("dial tcp: lookup {host}: no such host")))
}

async fn speak(key: Key, stream: TlsStream<TcpStream>) -> hyper::Result<Connection> {
    let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(stream);
    let mut driver = Group::default();
    // What goes wrong with a connection goes wrong for the request on it too, and is told there.
    let sender = if speaks_http2 {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
        driver.spawn("webhook connection", async { drop(connection.await) });
        Sender::Http2(sender)
    } else {
        let (sender, connection) = http1::handshake(io).await?;
        driver.spawn("webhook connection", async { drop(connection.await) });
        Sender::Http1(sender)
    };
    Ok(Connection { key, sender, driver: Arc::new(driver) })
}
