//! A raw client of a daemon's API over TLS, without a client library in between.

use std::{
    fs, io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rdd_client::kubeconfig::Kubeconfig;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::Value;

use super::{Ask, Events, Next, Reply, Server, Stream};
use crate::Daemon;

/// A client of one daemon. It keeps one idle connection; a clone has its own.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    token: String,
    config: Arc<ClientConfig>,
    idle: Mutex<Option<Stream>>,
}

impl Clone for Wire {
    fn clone(&self) -> Self {
        let (address, token, config) = (self.address, self.token.clone(), Arc::clone(&self.config));
        Self { address, token, config, idle: Mutex::default() }
    }
}

impl Wire {
    /// Creates a client from the daemon's current kubeconfig, with administrator rights.
    ///
    /// # Panics
    ///
    /// If the kubeconfig is not one that the daemon writes.
    #[track_caller]
    pub fn of(daemon: &Daemon) -> Self {
        let text = fs::read_to_string(daemon.config_path()).expect("the daemon's kubeconfig can be read");
        let config = Kubeconfig::parse(&text).expect("the daemon writes a kubeconfig");
        let resolved = config.resolve(None).expect("it has a current context");
        let address = resolved.cluster.server.trim_start_matches("https://").parse().expect("an address on loopback");
        let bundle = STANDARD.decode(&resolved.cluster.certificate_authority_data).expect("a certificate in base64");
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bundle) {
            roots.add(certificate.expect("a certificate")).expect("a certificate to trust");
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the library knows its own versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { address, token: resolved.user.token.clone(), config: Arc::new(config), idle: Mutex::default() }
    }

    /// Opens a new connection.
    pub fn connect(&self) -> io::Result<Stream> {
        Stream::connect(self.address, Arc::clone(&self.config))
    }

    /// The request line and the headers that every request has, without the empty line at the end.
    pub fn head(&self, method: &str, path: &str) -> String {
        let Self { address, token, .. } = self;
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n")
    }

    /// Sends a request and reads the reply. After an error, which is one of the connection, it is unknown whether the server handled the
    /// request.
    pub fn try_ask(&self, ask: &Ask) -> io::Result<Reply> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut stream = match idle {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let said = stream.say(&self.bytes(ask));
        // A server may reply early and close the connection while the request is being sent; its reply can still be read.
        match stream.answer(ask.method == "HEAD") {
            Ok((reply, open)) => {
                if open && said.is_ok() {
                    *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
                }
                Ok(reply)
            }
            Err(error) => Err(said.err().unwrap_or(error)),
        }
    }

    fn bytes(&self, ask: &Ask) -> Vec<u8> {
        let mut bytes = self.head(&ask.method, &ask.path).into_bytes();
        for (name, value) in &ask.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        if !ask.body.is_empty() || !matches!(&*ask.method, "GET" | "HEAD" | "DELETE") {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", ask.body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&ask.body);
        bytes
    }

    /// Starts a watch. An error is one of the connection.
    pub fn try_watch(&self, path: &str) -> io::Result<WireEvents> {
        let mut stream = self.connect()?;
        stream.say(&self.bytes(&Ask::new("GET", path)))?;
        let head = stream.head()?;
        Ok(WireEvents { stream, text: Vec::new(), over: !head.is_chunked(), well: false })
    }
}

impl Server for Wire {
    #[track_caller]
    fn ask(&self, ask: &Ask) -> Reply {
        let answered = self.try_ask(ask);
        answered.unwrap_or_else(|error| panic!("{} {}: {error}", ask.method, ask.path))
    }

    #[track_caller]
    fn watch(&self, path: &str) -> Box<dyn Events> {
        Box::new(self.try_watch(path).unwrap_or_else(|error| panic!("watch {path}: {error}")))
    }
}

/// The events of a watch over TLS.
#[derive(Debug)]
pub struct WireEvents {
    stream: Stream,
    text: Vec<u8>,
    over: bool,
    well: bool,
}

impl WireEvents {
    /// Whether the server ended the watch properly, with the last chunk.
    pub fn ended_well(&self) -> bool {
        self.well
    }

    /// Stops reading but keeps the connection open, like a client that hangs.
    pub fn stop_reading(self) -> Stream {
        self.stream
    }
}

impl Events for WireEvents {
    fn next(&mut self, within: Duration) -> Next {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Next::Event(serde_json::from_slice(&line).unwrap_or(Value::Null));
            }
            if self.over {
                return Next::Ended;
            }
            match self.stream.has_chunk(within) {
                Ok(false) => return Next::Quiet,
                Ok(true) => match self.stream.chunk() {
                    Ok(Some(chunk)) => self.text.extend_from_slice(&chunk),
                    Ok(None) => (self.over, self.well) = (true, true),
                    Err(_) => self.over = true,
                },
                Err(_) => self.over = true,
            }
        }
    }
}
