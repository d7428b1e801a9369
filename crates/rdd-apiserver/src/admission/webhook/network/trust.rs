//! Whom to trust as a webhook: whom its configuration names, or else whom the system trusts.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer, time::ASN1Time};

/// What a connection is secured with, or why it cannot be. Reads files if the system is to be trusted.
pub(super) async fn config(ca_bundle: Arc<[u8]>, http2: bool) -> Result<Arc<ClientConfig>, String> {
    let made = tokio::task::spawn_blocking(move || make(&ca_bundle, http2)).await;
    made.unwrap_or_else(|error| Err(error.to_string())).map(Arc::new)
}

fn make(ca_bundle: &[u8], http2: bool) -> Result<ClientConfig, String> {
    let named = if ca_bundle.is_empty() { system()? } else { bundle(ca_bundle)? };
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(named.iter().cloned());
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let inner = inner.map_err(|error| format!("unable to load root certificates: {error}"))?;
    let verifier = if ca_bundle.is_empty() { Named { inner, named: Vec::new() } } else { Named { inner, named } };
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.dangerous();
    let mut config = config.with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

fn bundle(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = read.ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| "unable to load root certificates: unable to parse bytes as PEM block".to_owned())
}

fn system() -> Result<Vec<CertificateDer<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    match (found.certs, found.errors.first()) {
        (certificates, Some(error)) if certificates.is_empty() => {
            Err(format!("x509: failed to load system roots: {error}"))
        }
        (certificates, _) => Ok(certificates),
    }
}

/// Verifies as usual and, as Go does, believes a certificate that the configuration names itself, even if it is that of an
/// authority: that is what most self-signed ones are.
#[derive(Debug)]
struct Named {
    inner: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(end_entity, intermediates, name, ocsp_response, now);
        match verified {
            Err(_) if self.named.iter().any(|named| named == end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                is_valid_at(end_entity, now)
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn is_valid_at(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<ServerCertVerified, Error> {
    let encoding = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| encoding())?;
    let now = i64::try_from(now.as_secs()).ok().and_then(|seconds| ASN1Time::from_timestamp(seconds).ok());
    if parsed.validity.is_valid_at(now.ok_or_else(encoding)?) {
        return Ok(ServerCertVerified::assertion());
    }
    Err(Error::InvalidCertificate(CertificateError::Expired))
}
