//! A webhook server as others run them: HTTPS with a certificate of its own authority.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256};
use rdd_stdx::task::Group;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::super::Handler;

/// An answer that is not an AdmissionReview.
pub(super) type Raw = Arc<dyn Fn() -> Response<Full<Bytes>> + Send + Sync>;

/// What the server's certificate looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issued {
    /// By an authority of its own, for these names.
    For(&'static [&'static str]),
    /// By itself, as an authority, for these names.
    BySelf(&'static [&'static str]),
}

/// What the server knows and has seen.
#[derive(Default)]
pub(super) struct Book {
    pub(super) handlers: Mutex<HashMap<String, Handler>>,
    pub(super) raw: Mutex<HashMap<String, Raw>>,
    pub(super) connections: AtomicUsize,
    /// The version of HTTP, the host and the path of each request.
    pub(super) requests: Mutex<Vec<String>>,
    /// Names that clients asked for in TLS.
    pub(super) names: Mutex<Vec<String>>,
}

/// A server. Dropping it closes all connections.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) book: Arc<Book>,
    pub(super) ca_bundle: String,
    config: Arc<ServerConfig>,
    tasks: Group<()>,
}

fn certificate(issued: Issued) -> (String, String, String) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let names =
        |names: &[&str]| CertificateParams::new(names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>()).unwrap();
    match issued {
        Issued::BySelf(list) => {
            let mut params = names(list);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let certificate = params.self_signed(&key).unwrap().pem();
            (certificate.clone(), key.serialize_pem(), certificate)
        }
        Issued::For(list) => {
            let authority_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
            let mut authority = names(&[]);
            authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let authority_certificate = authority.self_signed(&authority_key).unwrap().pem();
            let issuer = Issuer::new(authority, authority_key);
            let certificate = names(list).signed_by(&key, &issuer).unwrap().pem();
            (certificate, key.serialize_pem(), authority_certificate)
        }
    }
}

impl Server {
    pub(super) async fn start(issued: Issued, protocols: &[&str]) -> Self {
        let (certificate, key, authority) = certificate(issued);
        let chain =
            rustls::pki_types::CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let mut config = config.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = Self {
            address,
            book: Arc::default(),
            ca_bundle: STANDARD.encode(authority),
            config: Arc::new(config),
            tasks: Group::default(),
        };
        server.listen(listener);
        server
    }

    fn listen(&mut self, listener: TcpListener) {
        let (config, book) = (Arc::clone(&self.config), Arc::clone(&self.book));
        self.tasks.spawn("test server", async move {
            let mut connections = Group::default();
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                book.connections.fetch_add(1, Ordering::Relaxed);
                connections.spawn("test connection", serve(stream, Arc::clone(&config), Arc::clone(&book)));
            }
        });
    }

    /// Closes all connections and listens again at the same address.
    pub(super) async fn restart(&mut self) {
        self.tasks.cancel();
        while self.tasks.next().await.is_some() {}
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.listen(listener);
    }
}

async fn serve(stream: TcpStream, config: Arc<ServerConfig>, book: Arc<Book>) {
    let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
    let session = stream.get_ref().1;
    book.names.lock().unwrap().extend(session.server_name().map(str::to_owned));
    let speaks_http2 = session.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| answer(request, Arc::clone(&book)));
    let io = TokioIo::new(stream);
    if speaks_http2 {
        let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
    } else {
        let _ = http1::Builder::new().serve_connection(io, service).await;
    }
}

async fn answer(request: Request<Incoming>, book: Arc<Book>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let host = request.headers().get("host").map(|host| host.to_str().unwrap().to_owned());
    let host = host.or_else(|| request.uri().authority().map(ToString::to_string)).unwrap_or_default();
    book.requests.lock().unwrap().push(format!(
        "{:?} {host}{}",
        request.version(),
        request.uri().path_and_query().unwrap()
    ));
    if let Some(raw) = book.raw.lock().unwrap().get(&path).cloned() {
        return Ok(raw());
    }
    let handler = book.handlers.lock().unwrap().get(&path).cloned();
    let Some(handler) = handler else {
        let mut missing = Response::new(Full::new(Bytes::from_static(b"404 page not found\n")));
        *missing.status_mut() = StatusCode::NOT_FOUND;
        return Ok(missing);
    };
    let Ok(body) = request.into_body().collect().await else { return Ok(Response::default()) };
    let review = serde_json::from_slice(&body.to_bytes()).unwrap();
    Ok(Response::new(Full::new(Bytes::from(serde_json::to_vec(&handler(review).await).unwrap()))))
}
