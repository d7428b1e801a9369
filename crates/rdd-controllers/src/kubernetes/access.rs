//! Access to a cluster: parses the kubeconfig of K3s, and renders it with our name and port.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::json;

/// The address and credentials of a cluster. `Debug` omits the credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// The certificate authority of the server, in PEM.
    pub authority: Vec<u8>,
    /// The client certificate, in PEM.
    pub certificate: Option<Vec<u8>>,
    /// The client's private key, in PEM.
    pub key: Option<Vec<u8>>,
    /// The bearer token.
    pub token: Option<String>,
    /// The port on loopback.
    pub port: u16,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("port", &self.port).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
/// Why a kubeconfig cannot be used.
pub enum Error {
    /// It is not YAML, or not a kubeconfig.
    #[error("instance kubeconfig cannot be read: {0}")]
    Malformed(String),
    /// It has no cluster.
    #[error("instance kubeconfig has no cluster entry")]
    NoCluster,
    /// It has no user.
    #[error("instance kubeconfig has no user entry")]
    NoUser,
    /// A field has an invalid value.
    #[error("instance kubeconfig has a bad {0}")]
    Field(&'static str),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    certificate_authority_data: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    user: User,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    token: Option<String>,
}

impl Access {
    /// Parses the first cluster and the first user of the kubeconfig that K3s wrote. `port` replaces the server's address.
    // Without a snippet, so that no credentials appear in the error.
    pub fn parse(text: &str, port: u16) -> Result<Self, Error> {
        let options = serde_saphyr::options! { with_snippet: false };
        let file: File =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| Error::Malformed(error.to_string()))?;
        let cluster = file.clusters.into_iter().next().ok_or(Error::NoCluster)?.cluster;
        let user = file.users.into_iter().next().ok_or(Error::NoUser)?.user;
        let decode = |text: &str, field| STANDARD.decode(text.trim()).map_err(|_| Error::Field(field));
        let optional = |text: Option<String>, field| text.map(|text| decode(&text, field)).transpose();
        let authority = decode(&cluster.certificate_authority_data, "certificate-authority-data")?;
        if authority.is_empty() {
            return Err(Error::Field("certificate-authority-data"));
        }
        Ok(Self {
            authority,
            certificate: optional(user.client_certificate_data, "client-certificate-data")?,
            key: optional(user.client_key_data, "client-key-data")?,
            token: user.token.filter(|token| !token.is_empty()),
            port,
        })
    }

    /// The URL of the cluster on this machine.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The entry `clusters[].cluster`.
    pub fn cluster(&self) -> serde_json::Value {
        json!({"certificate-authority-data": STANDARD.encode(&self.authority), "server": self.server()})
    }

    /// The entry `users[].user`.
    pub fn user(&self) -> serde_json::Value {
        let mut user = json!({});
        if let Some(certificate) = &self.certificate {
            user["client-certificate-data"] = STANDARD.encode(certificate).into();
        }
        if let Some(key) = &self.key {
            user["client-key-data"] = STANDARD.encode(key).into();
        }
        if let Some(token) = &self.token {
            user["token"] = token.as_str().into();
        }
        user
    }

    /// The validity of the client certificate; `None` if it is absent or cannot be parsed.
    pub fn validity(&self) -> Option<Validity> {
        Validity::of(self.certificate.as_deref()?)
    }

    /// The time in which both the client certificate and the authority are valid, because clients check both.
    pub fn whole_validity(&self) -> Option<Validity> {
        let all = [Validity::of(&self.authority), self.validity()];
        all.into_iter()
            .flatten()
            .reduce(|one, other| Validity { from: one.from.max(other.from), until: one.until.min(other.until) })
    }
}

/// The validity of a certificate, as times since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The certificate is valid from this time.
    pub from: Duration,
    /// The certificate is valid until this time.
    pub until: Duration,
}

impl Validity {
    /// The validity of the first certificate in this PEM; `None` if it cannot be parsed.
    pub fn of(pem: &[u8]) -> Option<Self> {
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem).ok()?;
        let certificate = pem.parse_x509().ok()?;
        // A time before the epoch counts as the epoch.
        let seconds = |time: x509_parser::time::ASN1Time| {
            Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or_default())
        };
        let validity = certificate.validity();
        Some(Self { from: seconds(validity.not_before), until: seconds(validity.not_after) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K3S: &str = "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: Y2E=\n    server: https://10.192.0.1:20032\n  name: default\n\
                       contexts:\n- context: {cluster: default, user: default}\n  name: default\ncurrent-context: default\nkind: Config\n\
                       users:\n- name: default\n  user:\n    client-certificate-data: Y2VydA==\n    client-key-data: a2V5\n";

    // Finding 355-I2: the published entry names the bound port, whatever K3s wrote.
    #[test]
    fn what_is_published_has_our_port_and_their_keys() {
        let access = Access::parse(K3S, 7443).unwrap();
        assert_eq!(access.cluster(), json!({"certificate-authority-data": "Y2E=", "server": "https://127.0.0.1:7443"}));
        assert_eq!(access.user(), json!({"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"}));
        assert_eq!(format!("{access:?}"), "Access { port: 7443, .. }", "keys do not print");
    }

    #[test]
    fn what_is_no_kubeconfig_is_told_apart_from_an_empty_one() {
        let error = |text: &str| Access::parse(text, 1).unwrap_err().to_string();
        assert_eq!(error("{}"), "instance kubeconfig has no cluster entry");
        assert_eq!(
            error("clusters: [{cluster: {certificate-authority-data: Y2E=}}]"),
            "instance kubeconfig has no user entry"
        );
        assert_eq!(error("clusters: [{}]\nusers: [{}]"), "instance kubeconfig has a bad certificate-authority-data");
        assert!(error("a: [").starts_with("instance kubeconfig cannot be read: "));
        assert!(error("- 1").starts_with("instance kubeconfig cannot be read: "));
        for text in ["", "\0", "clusters: 1", "clusters: [{cluster: {certificate-authority-data: '%'}}]\nusers: [{}]"] {
            assert!(Access::parse(text, 1).is_err(), "{text:?}");
        }
    }
}
