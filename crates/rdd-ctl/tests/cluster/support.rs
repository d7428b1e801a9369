//! Test fixtures: a cluster over TLS, homes with kubeconfigs, and runs of `rdd kubectl` and kubectl.

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rdd_apiserver::{
    auth::{Authenticators, Identity, Token, Tokens},
    builtin::TokenReviewer,
    controllers::Endowment,
    core::{self, Core},
    health::Health,
    serve::{self, Limits, Parts, Server},
    tls::Tls,
    version::{self, Version},
};
use rdd_ctl::{Asked, ClusterEnvironment, Ended, Program, Streams, Target};
use rdd_kubeconfig::client_config::ConfigFiles;
use rdd_stdx::{clock::SystemClock, process};
use rdd_store::MemoryStore;
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned, crypto::ring, pki_types::PrivateKeyDer,
    server::WebPkiClientVerifier,
};
use tokio::runtime::{Builder, Runtime};

/// The timeout of everything that a test waits for.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// An API server over TLS.
pub(crate) struct Cluster {
    tls: Arc<Tls>,
    token: Token,
    server: Option<Server>,
    _folder: tempfile::TempDir,
    _core: Core,
    // Last field, because the fields above run on it and drop before it.
    runtime: Runtime,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_stack_size(8 << 20).enable_all().build();
        let runtime = runtime.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let clock = SystemClock::shared();
        let tls = Arc::new(Tls::open(&folder.path().join("tls"), clock.clone(), Box::new(|_| {})).unwrap());
        let token = Token::random();
        let tokens = Tokens::new([(token.clone(), Identity::admin())]);
        let parts = core::Parts {
            store: Arc::new(MemoryStore::new(rdd_store::Limits::default(), clock.clone())),
            clock: clock.clone(),
            version: mk_version(),
            endowment: Endowment {
                namespaces: ["default", "kube-system"].map(str::to_owned).to_vec(),
                ca_bundle: Arc::new(String::new),
                port: 6443,
            },
            tokens: None,
            reviewer: TokenReviewer::new(|_, _| None),
            plugins: Vec::new(),
        };
        let core = runtime.block_on(Core::open(parts)).unwrap();
        let parts = Parts {
            tls: tls.clone(),
            authenticators: Authenticators::standard(tokens),
            health: Health::default(),
            version: mk_version(),
            figures: Vec::new(),
            backup: None,
            handler: core.endpoints(),
            limits: Limits::default(),
            clock,
        };
        let server = runtime.block_on(async { Server::start(serve::bind(0).await.unwrap(), parts) });
        Self { tls, token, server: Some(server), _folder: folder, _core: core, runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.server.as_ref().unwrap().address())
    }

    pub(crate) fn bundle(&self) -> String {
        self.tls.bundle()
    }

    pub(crate) fn token(&self) -> &str {
        self.token.reveal()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The server must stop its tasks inside the runtime.
        let _guard = self.runtime.enter();
        self.server.take();
    }
}

fn mk_version() -> Version {
    let text = str::to_owned;
    Version {
        major: text("1"),
        minor: text("35"),
        git_version: text("v1.35.4+rdd-test"),
        git_commit: text("0"),
        git_tree_state: text("clean"),
        build_date: text("2026-01-01T00:00:00Z"),
        go_version: text("rustc"),
        compiler: text("rustc"),
        platform: version::platform(),
    }
}

/// The outcome of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn expect(&self, stdout: &str) {
        assert_eq!((self.code, self.stdout.as_str(), self.stderr.as_str()), (0, stdout, ""));
    }
}

/// A home folder with kubeconfigs.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another process writes the program: a descriptor of ours could leak into a child that another test starts meanwhile, and a
    /// file that is open for writing cannot be executed.
    pub(crate) fn write_program(&self, name: &str, text: &str) {
        let path = self.path(name);
        let mut command = process::background("sh", Path::new("/"));
        command.args(["-c", "printf %s \"$1\" > \"$0\""]).arg(&path).arg(text);
        assert!(command.status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn list(&self, files: &[&str]) -> Vec<PathBuf> {
        files.iter().map(|name| self.path(name)).collect()
    }

    /// Runs `rdd kubectl` without kubectl on the path.
    pub(crate) fn run(&self, files: &[&str], line: &str) -> Ran {
        let words = line.split(' ').map(str::to_owned).collect();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let code = match rdd_ctl::read(words, Program::Kubectl) {
            Asked::Native(command) => {
                let target = Target::Cluster(ClusterEnvironment {
                    files: ConfigFiles::new(self.list(files)),
                    path: Some("/usr/bin:/bin".into()),
                    https_proxy: Some("http://127.0.0.1:1".to_owned()),
                    no_proxy: None,
                    stdin_is_terminal: false,
                });
                let mut input: &[u8] = b"not for plugins";
                let streams = Streams { out: &mut stdout, err: &mut stderr, input: &mut input };
                match command.run(target, SystemClock::shared(), streams) {
                    Ended::Well => 0,
                    Ended::Told => 1,
                    Ended::Failed(words) => panic!("{words}"),
                }
            }
            other => panic!("{line}: {other:?}"),
        };
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code, stdout: text(stdout), stderr: text(stderr) }
    }
}

/// Runs this machine's kubectl, without the log lines in its output.
pub(crate) fn ran_by_kubectl(home: &Home, files: &[&str], line: &str) -> Ran {
    let list = std::env::join_paths(home.list(files)).unwrap();
    let mut command = process::background("kubectl", home.folder.path());
    command.env("KUBECONFIG", list).env("HOME", home.folder.path()).args(line.split(' ')).arg("--request-timeout=20s");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let is_record = |line: &&str| {
        let mut letters = line.chars();
        letters.next().is_some_and(|level| "EWI".contains(level))
            && letters.next().is_some_and(|digit| digit.is_ascii_digit())
    };
    let stderr: String = text(&output.stderr).split_inclusive('\n').filter(|line| !is_record(line)).collect();
    Ran { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr }
}

/// A server without TLS that answers `{}` once and records the request.
pub(crate) struct PlainServer {
    url: String,
    asked: mpsc::Receiver<String>,
}

impl PlainServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, asked) = mpsc::channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head = read_head(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}").unwrap();
            tell.send(head).unwrap();
        });
        Self { url, asked }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn asked(&self) -> String {
        self.asked.recv_timeout(TEST_TIMEOUT).unwrap()
    }
}

fn read_head(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    stream.set_read_timeout(None).unwrap();
    String::from_utf8(head).unwrap()
}

/// A proxy that accepts one connection and records the request.
pub(crate) struct TunnelProxy {
    url: String,
    asked: mpsc::Receiver<String>,
}

impl TunnelProxy {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, asked) = mpsc::channel();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let first = read_head(&mut client).lines().next().unwrap().to_owned();
            let mut server = TcpStream::connect(first.split(' ').nth(1).unwrap()).unwrap();
            tell.send(first).unwrap();
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut from_client, &mut to_server);
                let _ = to_server.shutdown(Shutdown::Write);
            });
            let _ = std::io::copy(&mut server, &mut client);
            let _ = client.shutdown(Shutdown::Both);
        });
        Self { url, asked }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn asked_for(&self) -> String {
        self.asked.recv_timeout(TEST_TIMEOUT).unwrap()
    }
}

/// A TLS server that answers `{}` to clients with a certificate of its authority.
pub(crate) struct CertificateServer {
    pub(crate) url: String,
    /// The authority's certificate, and a client's certificate and key, in PEM.
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl CertificateServer {
    pub(crate) fn start() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
            (certificate, key)
        };
        let ((server, server_key), (client, client_key)) = (signed("server.example"), signed("client.example"));
        let mut roots = RootCertStore::empty();
        roots.add(issuer.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let server_key = PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
        let config = config.with_client_cert_verifier(verifier);
        let config = Arc::new(config.with_single_cert(vec![server.der().clone()], server_key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(config.clone()).unwrap();
                // A client without a certificate fails in the handshake.
                let _ = answer_once(StreamOwned::new(connection, stream.unwrap()));
            }
        });
        Self { url, authority: issuer.pem(), certificate: client.pem(), key: client_key.serialize_pem() }
    }
}

fn answer_once(mut stream: StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<()> {
    stream.sock.set_read_timeout(Some(TEST_TIMEOUT))?;
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")?;
    stream.flush()
}
