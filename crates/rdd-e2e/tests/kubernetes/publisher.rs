//! A fake server of K3s releases: a proxy that answers every request itself, with a certificate that only this instance trusts.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};

/// The published files, and the requests for them.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    port: u16,
    folder: tempfile::TempDir,
}

struct Shared {
    program: Vec<u8>,
    list: Mutex<String>,
    /// The number of bytes of the program that are sent before the server pauses.
    allowed: AtomicUsize,
    asked: Mutex<Vec<String>>,
    tls: Arc<ServerConfig>,
}

impl Publisher {
    /// Publishes this program with this digest, at first without sending any of it.
    pub(crate) fn start(program: &Path, digest: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tls = certify(&folder.path().join("ca.pem"));
        let shared = Arc::new(Shared {
            program: fs::read(program).unwrap(),
            list: Mutex::default(),
            allowed: AtomicUsize::new(0),
            asked: Mutex::default(),
            tls,
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::clone(&shared);
        // The thread runs until the test process ends.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                std::thread::spawn(move || drop(answer(stream, &served)));
            }
        });
        let publisher = Self { shared, port, folder };
        publisher.lists(digest);
        publisher
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub(crate) fn proxy(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sets the digest of the program in the published list.
    pub(crate) fn lists(&self, digest: &str) {
        *self.shared.list.lock().unwrap() = format!("{digest}  k3s\n");
    }

    pub(crate) fn size(&self) -> usize {
        self.shared.program.len()
    }

    /// Allows this many bytes of the program to be sent.
    pub(crate) fn allow(&self, bytes: usize) {
        self.shared.allowed.store(bytes, Ordering::SeqCst);
    }

    /// The requests, each with its range.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().unwrap().clone()
    }
}

fn certify(authority: &Path) -> Arc<ServerConfig> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(authority, issuer.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["github.com".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Arc::new(config.with_single_cert(chain, key).unwrap())
}

/// Reads the head of a request: its first line, and the start of its range.
fn head(stream: &mut impl Read) -> std::io::Result<(String, usize)> {
    let mut reader = BufReader::with_capacity(1, stream);
    let (mut first, mut begins) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok((first.trim().to_owned(), begins));
        }
        if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            begins = range.trim().trim_end_matches('-').parse().unwrap_or_default();
        }
    }
}

fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    head(&mut stream)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let session = ServerConnection::new(Arc::clone(&shared.tls)).unwrap();
    let mut stream = StreamOwned::new(session, stream);
    let (asked, begins) = head(&mut stream)?;
    shared.asked.lock().unwrap().push(format!("{asked} from {begins}"));
    if asked.contains("sha256sum") {
        let list = shared.list.lock().unwrap().clone();
        let length = list.len();
        return write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{list}");
    }
    let all = shared.program.len();
    let (status, rest) = if begins > 0 { ("206 Partial Content", all - begins) } else { ("200 OK", all) };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nconnection: close\r\netag: \"x\"\r\ncontent-length: {rest}\r\n\
         content-range: bytes {begins}-{}/{all}\r\n\r\n",
        all - 1
    )?;
    let mut sent = begins;
    while sent < all {
        let until = shared.allowed.load(Ordering::SeqCst).min(all).min(sent + (64 << 10));
        if until <= sent {
            std::thread::park_timeout(std::time::Duration::from_millis(10));
            continue;
        }
        stream.write_all(&shared.program[sent..until])?;
        stream.flush()?;
        sent = until;
    }
    Ok(())
}
