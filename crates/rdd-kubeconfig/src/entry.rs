//! What is published of a cluster: where it is, whom to trust, and who one is.

use std::fmt;

use crate::edit::{Change, List, Others};

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// Its URL.
    pub server: String,
    /// The certificates to trust: PEM, in base64. Empty means whom the system trusts.
    pub certificate_authority_data: String,
}

/// Credentials. What is empty is not written.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct User {
    /// A client certificate: PEM, in base64.
    pub client_certificate_data: String,
    /// Its key: PEM, in base64.
    pub client_key_data: String,
    /// A bearer token.
    pub token: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User(***)")
    }
}

/// What a user may have added to our cluster, and is theirs to know.
const CLUSTER_EXTRAS: Others = Others::KeepOnly(&["disable-compression", "extensions", "proxy-url"]);
/// Credentials are ours as a whole: another kind of them beside ours would take precedence.
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

/// What publishing an entry changes. A context keeps what the user added to it.
pub(crate) fn put(list: List, name: &str, cluster: &Cluster, user: &User) -> Change {
    let (fields, others) = match list {
        List::Clusters => (cluster.fields(), CLUSTER_EXTRAS),
        List::Users => (user.fields(), USER_EXTRAS),
        List::Contexts => (vec![("cluster", name.to_owned()), ("user", name.to_owned())], Others::Keep),
    };
    Change::Put { list, name: name.to_owned(), fields, others }
}
