//! Reads the kubeconfig that K3s writes.

use serde_json::Value;

use crate::{
    edit::{self, Refused},
    entry::{Cluster, User},
};

/// The first cluster and the first user of a kubeconfig; K3s calls both `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The cluster, with the server URL as K3s has it.
    pub cluster: Cluster,
    /// The administrator of the cluster.
    pub user: User,
}

/// Why a kubeconfig of K3s cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSource {
    /// The text cannot be parsed.
    #[error("instance kubeconfig cannot be read")]
    Malformed(#[source] Refused),
    /// There is no cluster with a server.
    #[error("instance kubeconfig has no cluster entry")]
    NoCluster,
    /// There is no user with credentials.
    #[error("instance kubeconfig has no user entry")]
    NoUser,
}

impl Source {
    /// Parses the text of `k3s.yaml`.
    ///
    /// # Errors
    /// When there is no complete cluster or user. This includes a file that K3s is still writing, so the caller should
    /// retry.
    pub fn parse(text: &str) -> Result<Self, InvalidSource> {
        let value = edit::value_of(text).map_err(InvalidSource::Malformed)?;
        let first = |list: &str, inner: &str| value.get(list)?.get(0)?.get(inner)?.as_object().cloned();
        let text = |fields: &serde_json::Map<String, Value>, field: &str| {
            fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let cluster = first("clusters", "cluster").ok_or(InvalidSource::NoCluster)?;
        let user = first("users", "user").ok_or(InvalidSource::NoUser)?;
        let cluster = Cluster {
            server: text(&cluster, "server"),
            certificate_authority_data: text(&cluster, "certificate-authority-data"),
        };
        if cluster.server.is_empty() {
            return Err(InvalidSource::NoCluster);
        }
        let user = User {
            client_certificate_data: text(&user, "client-certificate-data"),
            client_key_data: text(&user, "client-key-data"),
            token: text(&user, "token"),
        };
        if user == User::default() {
            return Err(InvalidSource::NoUser);
        }
        Ok(Self { cluster, user })
    }

    /// Replaces the server with the published port on this machine.
    #[must_use]
    pub fn published_at(mut self, port: u16) -> Self {
        self.cluster.server = format!("https://127.0.0.1:{port}");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K3S: &str = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://127.0.0.1:6443
  name: default
contexts:
- context:
    cluster: default
    user: default
  name: default
current-context: default
kind: Config
users:
- name: default
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
";

    #[test]
    fn the_first_cluster_and_user_are_taken_and_the_port_is_the_published_one() {
        let source = Source::parse(K3S).unwrap();
        assert_eq!(source.cluster.server, "https://127.0.0.1:6443");
        let published = source.published_at(7443);
        assert_eq!(published.cluster.server, "https://127.0.0.1:7443");
        assert_eq!(published.cluster.certificate_authority_data, "Q0E=");
        assert_eq!(published.user.client_key_data, "S0VZ");
        assert!(!format!("{published:?}").contains("S0VZ"));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, error) in [
            ("", "instance kubeconfig has no cluster entry"),
            ("clusters: []\n", "instance kubeconfig has no cluster entry"),
            (
                "clusters: [{cluster: {server: ''}, name: a}]\nusers: [{user: {token: x}}]",
                "instance kubeconfig has no cluster entry",
            ),
            ("clusters: [{cluster: {server: x}, name: a}]\nusers: null\n", "instance kubeconfig has no user entry"),
            (
                "clusters: [{cluster: {server: x}, name: a}]\nusers: [{user: {}}]\n",
                "instance kubeconfig has no user entry",
            ),
        ] {
            assert_eq!(Source::parse(text).unwrap_err().to_string(), error, "{text}");
        }
        for at in 0..K3S.len() {
            // A file that is still being written never gives a truncated secret with everything else in place.
            if let Ok(half) = Source::parse(&K3S[..at]) {
                assert!(
                    half.user.client_certificate_data.len() <= 8 && half.cluster.certificate_authority_data == "Q0E="
                );
            }
        }
    }
}
