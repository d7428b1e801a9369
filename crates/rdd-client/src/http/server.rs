//! Creates a client of any API server from its certificates, identity, headers and proxy.

use std::{fmt, sync::Arc};

use http::{HeaderMap, Uri, header};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tokio_rustls::TlsConnector;

use super::{
    BODY_BYTES, Client, TIMEOUT, TlsEndpoint,
    route::{ProxyServer, Route},
};

/// The certificates to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTrust {
    /// The system's certificate authorities.
    System,
    /// These certificate authorities, in PEM.
    Pem(Vec<u8>),
    /// Any certificate. Whichever server answers receives the credentials.
    Unverified,
}

/// The options of a client of any API server.
#[derive(Clone)]
pub struct ServerOptions {
    /// The URL of the server. Its path precedes the path of every request.
    pub url: String,
    /// The certificates to trust.
    pub trust: ServerTrust,
    /// The expected name in the server's certificate, if it differs from the URL's host.
    pub server_name: Option<String>,
    /// The client certificate and its key, both PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The headers of every request, including credentials.
    pub headers: HeaderMap,
    /// The proxy to connect through.
    pub proxy: Option<ProxyServer>,
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers and the identity contain secrets.
        f.debug_struct("ServerOptions").field("url", &self.url).field("trust", &self.trust).finish_non_exhaustive()
    }
}

/// Why the options of a server are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidServer(String);

impl Client {
    /// Creates a client of this server.
    ///
    /// # Errors
    /// When an option is invalid, or when there are credentials for a plain HTTP server: they could be read in transit.
    pub fn from_server(options: &ServerOptions) -> Result<Self, InvalidServer> {
        let wrong =
            |why: &str| InvalidServer(format!("the server {} cannot be used: {why}", without_login(&options.url)));
        let uri: Uri = options.url.parse().map_err(|_| wrong("it is not a URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("it is neither an https nor an http URL")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a name and a password belong into the user, not into the URL"));
        }
        let has_secret = options.headers.contains_key(header::AUTHORIZATION) || options.identity.is_some();
        if !is_tls && has_secret {
            return Err(wrong("credentials are only sent over https"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tls = if is_tls {
            let name = options.server_name.clone().unwrap_or_else(|| host.clone());
            let name = ServerName::try_from(name).map_err(|_| wrong("its name cannot be that of a certificate"))?;
            Some(TlsEndpoint { connector: TlsConnector::from(Arc::new(tls_config(options)?)), name })
        } else {
            None
        };
        let route = match &options.proxy {
            Some(proxy) => Route::Tunnel { proxy: proxy.clone(), host, port },
            None => Route::Host { host, port },
        };
        Ok(Self {
            route,
            tls,
            // As in the URL: the default port is not added.
            authority: authority.as_str().to_owned(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            headers: options.headers.clone(),
            timeout: TIMEOUT,
            body_bytes: BODY_BYTES,
        })
    }
}

fn without_login(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host)),
        None => url.to_owned(),
    }
}

fn tls_config(options: &ServerOptions) -> Result<ClientConfig, InvalidServer> {
    let invalid = |what: &str, why: &dyn fmt::Display| InvalidServer(format!("{what} cannot be used: {why}"));
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| invalid("TLS", &error))?;
    let builder = match &options.trust {
        ServerTrust::Unverified => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        }
        ServerTrust::System => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            builder.with_root_certificates(roots)
        }
        ServerTrust::Pem(pem) => builder.with_root_certificates(read_roots(pem)?),
    };
    let Some((certificate, key)) = &options.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| invalid("the client certificate", &"it is not PEM"))?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|_| invalid("the client key", &"it is not a private key in PEM"))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| invalid("the client certificate", &error))
}

fn read_roots(pem: &[u8]) -> Result<RootCertStore, InvalidServer> {
    let invalid = |why: &str| InvalidServer(format!("the certificate authority cannot be used: {why}"));
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.map_err(|_| invalid("it is not PEM"))?);
    if roots.is_empty() { Err(invalid("there is no certificate in it")) } else { Ok(roots) }
}

/// The verifier for `insecure-skip-tls-verify`: connections are encrypted, but the server is not authenticated.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn options(url: &str) -> ServerOptions {
        ServerOptions {
            url: url.to_owned(),
            trust: ServerTrust::System,
            server_name: None,
            identity: None,
            headers: HeaderMap::new(),
            proxy: None,
        }
    }

    // Finding E-9
    #[test]
    fn credentials_are_never_sent_over_plain_http() {
        let mut plain = options("http://x.example:8080/k8s/");
        let client = Client::from_server(&plain).unwrap();
        assert_eq!(client.url("/version"), "http://x.example:8080/k8s/version");
        plain.headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
        let error = Client::from_server(&plain).unwrap_err().to_string();
        assert!(error.contains("only sent over https") && !error.contains("secret"), "{error}");
        let mut identity = options("http://x.example");
        identity.identity = Some((Vec::new(), Vec::new()));
        assert!(Client::from_server(&identity).is_err());
    }

    #[test]
    fn what_cannot_be_used_is_named_without_its_password() {
        for (url, why) in [
            ("ftp://x", "neither an https nor an http URL"),
            ("https://ann:pw@x", "belong into the user"),
            ("https://", "not a URL"),
        ] {
            let error = Client::from_server(&options(url)).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("pw"), "{error}");
        }
        let mut trust = options("https://x");
        trust.trust = ServerTrust::Pem(b"nothing".to_vec());
        assert!(Client::from_server(&trust).unwrap_err().to_string().contains("no certificate in it"));
    }
}
