//! The daemon's address and TLS settings, from its kubeconfig.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use http::Uri;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::kubeconfig::{self, User, decode};

/// The authority and address of a server URL, which must be on loopback. Resolves no host names.
pub(super) fn loopback(server: &str) -> Result<(String, SocketAddr), &'static str> {
    let uri: Uri = server.parse().map_err(|_| "it is not a URL")?;
    if uri.scheme_str() != Some("https") {
        return Err("it is not an https URL");
    }
    let authority = uri.authority().ok_or("it names no host")?;
    // Requests would silently drop a login, path or query, so reject them.
    if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("it has more to it than a host and a port");
    }
    let port = authority.port_u16().unwrap_or(443);
    let address = match authority.host() {
        "127.0.0.1" | "localhost" => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        "[::1]" => SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
        _ => return Err("it is not on loopback"),
    };
    Ok((format!("{}:{port}", authority.host()), address))
}

pub(super) fn tls_config(bundle: &[u8], user: &User) -> Result<ClientConfig, kubeconfig::Error> {
    let invalid = |field| move |why: String| kubeconfig::Error::Invalid { field, why };
    let trust = invalid("certificate-authority-data");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate = certificate.map_err(|error| trust(error.to_string()))?;
        roots.add(certificate).map_err(|error| trust(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(trust("there is no certificate in it".to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| trust(error.to_string()))?
        .with_root_certificates(roots);
    if user.client_certificate_data.is_empty() {
        return Ok(builder.with_no_client_auth());
    }
    let field = "client-certificate-data";
    let chain = CertificateDer::pem_slice_iter(&decode(field, &user.client_certificate_data)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid(field)(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&decode("client-key-data", &user.client_key_data)?)
        .map_err(|_| invalid("client-key-data")("it is not a private key".to_owned()))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| invalid(field)(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_servers_are_spoken_to() {
        let address = |server| loopback(server).map(|(authority, address)| format!("{authority} {address}"));
        assert_eq!(address("https://127.0.0.1:6445").unwrap(), "127.0.0.1:6445 127.0.0.1:6445");
        assert_eq!(address("https://localhost:6445/").unwrap(), "localhost:6445 127.0.0.1:6445");
        assert_eq!(address("https://[::1]:6445").unwrap(), "[::1]:6445 [::1]:6445");
        assert_eq!(address("https://127.0.0.1").unwrap(), "127.0.0.1:443 127.0.0.1:443");
        for server in [
            "http://127.0.0.1:6445",
            "https://evil.example:6445",
            "https://127.0.0.1.evil.example",
            "https://127.0.0.1@evil.example",
            "https://evil.example@127.0.0.1",
            "https://127.0.0.1:6445/path",
            "https://0.0.0.0:6445",
            "127.0.0.1:6445",
            "",
        ] {
            assert!(loopback(server).is_err(), "{server}");
        }
    }
}
