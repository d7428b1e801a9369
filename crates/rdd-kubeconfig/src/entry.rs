//! The entries that are published for a cluster: its server, its certificates and the user's credentials.

use std::fmt;

use crate::edit::{Change, List, Others};

/// The cluster entry: a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// The URL of the server.
    pub server: String,
    /// The certificate authorities to trust, PEM in base64. Empty means those of the system.
    pub certificate_authority_data: String,
}

/// The user entry: credentials. Empty fields are not written.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The client certificate, PEM in base64.
    pub client_certificate_data: String,
    /// The key of the client certificate, PEM in base64.
    pub client_key_data: String,
    /// The bearer token.
    pub token: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User(***)")
    }
}

/// The fields of our cluster entry that the user may add and that publishing keeps.
const CLUSTER_EXTRAS: Others = Others::KeepOnly(&["disable-compression", "extensions", "proxy-url"]);
/// Publishing replaces all credentials of our user entry: other kinds of credentials in it would take precedence over
/// ours.
const USER_EXTRAS: Others = Others::KeepOnly(&["extensions"]);

impl Cluster {
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        filled([("certificate-authority-data", &self.certificate_authority_data), ("server", &self.server)])
    }
}

impl User {
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        filled([
            ("client-certificate-data", &self.client_certificate_data),
            ("client-key-data", &self.client_key_data),
            ("token", &self.token),
        ])
    }
}

fn filled<const N: usize>(fields: [(&'static str, &String); N]) -> Vec<(&'static str, String)> {
    fields.into_iter().filter(|(_, text)| !text.is_empty()).map(|(field, text)| (field, text.clone())).collect()
}

/// The change that publishes an entry. A context entry keeps the fields that the user added.
pub(crate) fn put(list: List, name: &str, cluster: &Cluster, user: &User) -> Change {
    let (fields, others) = match list {
        List::Clusters => (cluster.fields(), CLUSTER_EXTRAS),
        List::Users => (user.fields(), USER_EXTRAS),
        List::Contexts => (vec![("cluster", name.to_owned()), ("user", name.to_owned())], Others::Keep),
    };
    Change::Put { list, name: name.to_owned(), fields, others }
}
