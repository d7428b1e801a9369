//! TLS of the server: certificates on disk, optional client certificates, and renewal while serving.

mod decide;
mod files;
mod inspect;
mod issue;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rdd_stdx::{chain::Chain, clock::SharedClock};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};

pub use self::{
    decide::{
        CA_LEFT_AT_START, CA_VALIDITY, Decision, Facts, Found, LEAF_LEFT_AT_START, LEAF_LEFT_IN_FLIGHT, LEAF_VALIDITY,
        decide,
    },
    files::{CA_CERTIFICATE, CA_KEY, Error, SERVING_CERTIFICATE, SERVING_KEY},
    inspect::{Holder, holder},
    issue::{Pair, Subject},
};

/// The time until the next attempt after a renewal while serving has failed.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// A callback that receives the new content of [`SERVING_CERTIFICATE`] after a renewal while serving, for example to rewrite the
/// kubeconfig.
pub type OnRenewal = Box<dyn Fn(&str) + Send + Sync>;

/// The TLS configuration of the server: the certificate that it serves and the authority of client certificates.
pub struct Tls {
    folder: PathBuf,
    clock: SharedClock,
    authority: Pair,
    authority_not_after: Duration,
    config: Arc<ServerConfig>,
    resolver: Arc<Swappable>,
    bundle: RwLock<String>,
    /// The time, in seconds since the epoch, from which the next connection renews the certificate.
    renew_at: AtomicU64,
    /// The time, in seconds since the epoch, before which the next connection renews it too: the certificate is not valid yet,
    /// because it was issued while the clock was ahead.
    valid_from: AtomicU64,
    /// Held during a renewal, so that only one runs at a time.
    renewing: Mutex<()>,
    on_renewal: OnRenewal,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("folder", &self.folder).field("renew_at", &self.renew_at).finish_non_exhaustive()
    }
}

impl Tls {
    /// Loads the certificates from `folder`, and issues those that are missing, invalid, or about to expire.
    ///
    /// Blocks on the disk. `on_renewal` is called if the certificate is renewed later, while serving. It must not block for long.
    ///
    /// # Errors
    /// [`Error`]: a file cannot be read or written, or no certificate can be issued. The server cannot start then.
    pub fn open(folder: &Path, clock: SharedClock, on_renewal: OnRenewal) -> Result<Self, Error> {
        let material = files::ensure(folder, clock.wall(), LEAF_LEFT_AT_START, None)?;
        let serve = |source| Error::Serve { folder: folder.to_owned(), source };
        let resolver = Arc::new(Swappable { current: RwLock::new(certified(&material.serving).map_err(serve)?) });
        let config = server_config(&material.authority, resolver.clone()).map_err(serve)?;
        Ok(Self {
            folder: folder.to_owned(),
            clock,
            authority: material.authority,
            authority_not_after: material.authority_not_after,
            config: Arc::new(config),
            resolver,
            bundle: RwLock::new(material.serving.certificate),
            renew_at: AtomicU64::new(renewal_time(material.serving_valid.end)),
            valid_from: AtomicU64::new(material.serving_valid.start.as_secs()),
            renewing: Mutex::new(()),
            on_renewal,
        })
    }

    /// The certificates that clients must trust, as PEM: the serving certificate, then the authority.
    pub fn bundle(&self) -> String {
        self.bundle.read().expect("no one panics while holding it").clone()
    }

    /// Issues a client certificate that authenticates its holder as `subject`.
    pub fn issue_client(&self, subject: Subject<'_>) -> Result<Pair, Error> {
        issue::client(&self.authority, subject, self.clock.wall(), self.authority_not_after)
            .map_err(|source| Error::Issue { what: "client", source })
    }

    /// The rustls configuration, for other servers of this process that should use the same certificates.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Whether the certificate should be renewed before the next handshake. Every connection checks this instead of a timer, so
    /// it is also right on a laptop that was asleep at the date or whose clock was set back.
    pub(crate) fn renewal_is_due(&self) -> bool {
        let now = self.clock.wall().as_secs();
        now >= self.renew_at.load(Ordering::Relaxed) || now < self.valid_from.load(Ordering::Relaxed)
    }

    /// Renews the serving certificate, unless another call has just done so. Blocks on the disk.
    ///
    /// A failure is logged, and a later connection tries again: until it expires, the old certificate still serves.
    pub(crate) fn renew(&self) {
        let renewed = {
            // Do not wait for a renewal that runs already: the old certificate is still good for this connection.
            let Ok(_one_at_a_time) = self.renewing.try_lock() else { return };
            if !self.renewal_is_due() {
                return;
            }
            self.try_renew()
        };
        // The lock is free again: the callback does not block other renewals.
        match renewed {
            Ok(bundle) => (self.on_renewal)(&bundle),
            Err(error) => {
                self.renew_at.store(self.next_attempt(), Ordering::Relaxed);
                // Without this, every connection before that time would try again at once.
                self.valid_from.store(0, Ordering::Relaxed);
                tracing::error!(error = %Chain(&error), "the serving certificate could not be renewed");
            }
        }
    }

    fn next_attempt(&self) -> u64 {
        (self.clock.wall() + RETRY_AFTER).as_secs()
    }

    fn try_renew(&self) -> Result<String, Error> {
        let material = files::ensure(&self.folder, self.clock.wall(), LEAF_LEFT_IN_FLIGHT, Some(&self.authority))?;
        let serve = |source| Error::Serve { folder: self.folder.clone(), source };
        let certified = certified(&material.serving).map_err(serve)?;
        *self.resolver.current.write().expect("no one panics while holding it") = certified;
        self.bundle.write().expect("no one panics while holding it").clone_from(&material.serving.certificate);
        // At least the retry interval: near its own end, the authority can only sign leaves that are due again at once.
        let renew_at = renewal_time(material.serving_valid.end).max(self.next_attempt());
        self.renew_at.store(renew_at, Ordering::Relaxed);
        self.valid_from.store(material.serving_valid.start.as_secs(), Ordering::Relaxed);
        Ok(material.serving.certificate)
    }
}

fn renewal_time(not_after: Duration) -> u64 {
    // One second more, because `decide` renews only when less than this time is left.
    not_after.saturating_sub(LEAF_LEFT_IN_FLIGHT).as_secs() + 1
}

/// Resolves the serving certificate; a renewal replaces it between two handshakes.
#[derive(Debug)]
struct Swappable {
    current: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Swappable {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().expect("no one panics while holding it").clone())
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn certified(serving: &Pair) -> Result<Arc<CertifiedKey>, BoxError> {
    let chain = inspect::certificates(&serving.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes())?;
    Ok(Arc::new(CertifiedKey::new(chain, ring::sign::any_ecdsa_type(&key)?)))
}

fn server_config(authority: &Pair, resolver: Arc<Swappable>) -> Result<ServerConfig, BoxError> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in inspect::certificates(&authority.certificate)? {
        roots.add(certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        // Clients without a certificate authenticate by a token.
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(resolver);
    // In the order of preference.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
