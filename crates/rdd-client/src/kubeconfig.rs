//! The kubeconfig of a daemon: the server's address and certificates, and the credentials of clients.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// The name of the cluster, and of the administrator's context.
pub const ROOT: &str = "root";
/// The name of the administrator, who may do everything.
pub const ADMIN: &str = "system-admin";
/// The name of the user without groups, and of that user's context.
pub const USER: &str = "user";

/// Why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not YAML of the right structure. The message has the position and quotes no value, since the file
    /// contains secrets.
    #[error("read the kubeconfig: {0}")]
    Parse(String),
    /// A referenced entry is missing.
    #[error("the kubeconfig has no {kind} {name:?}")]
    Missing {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name of the entry.
        name: String,
    },
    /// A value is invalid.
    #[error("the kubeconfig's {field} cannot be used: {why}")]
    Invalid {
        /// The name of the field.
        field: &'static str,
        /// The reason.
        why: String,
    },
}

/// A kubeconfig with the fields that a client of the daemon needs. Parsing ignores other fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kubeconfig {
    #[serde(rename = "apiVersion")]
    api_version: ApiVersion,
    /// The servers.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub clusters: Vec<NamedCluster>,
    /// The pairs of a cluster and a user.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub contexts: Vec<NamedContext>,
    /// The name of the default context.
    #[serde(default)]
    pub current_context: String,
    kind: Kind,
    /// The credentials.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub users: Vec<NamedUser>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ApiVersion {
    #[serde(rename = "v1")]
    V1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Config,
}

/// A named cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCluster {
    /// The server.
    pub cluster: Cluster,
    /// The name of the cluster.
    pub name: String,
}

/// A server and its certificate authorities.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cluster {
    /// The certificate authorities to trust, PEM in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certificate_authority_data: String,
    /// The URL of the server.
    pub server: String,
}

/// A named context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedContext {
    /// The cluster and the user.
    pub context: Context,
    /// The name of the context.
    pub name: String,
}

/// A pair of a cluster and a user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// The name of the cluster.
    pub cluster: String,
    /// The name of the user.
    pub user: String,
}

/// A named user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedUser {
    /// The name of the user.
    pub name: String,
    /// The credentials.
    pub user: User,
}

/// The credentials of a user.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct User {
    /// The client certificate, PEM in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_certificate_data: String,
    /// The key of the client certificate, PEM in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_key_data: String,
    /// The bearer token.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User(***)")
    }
}

/// The cluster and the user of a context.
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The user.
    pub user: &'a User,
}

impl Kubeconfig {
    /// Creates the kubeconfig of a daemon that serves on a loopback port.
    ///
    /// `bundle` is the serving certificate followed by its authority, both PEM. It has both since some clients compare
    /// the served certificate with the bundle.
    pub fn for_daemon(port: u16, bundle: &str, admin_token: &str, user_token: &str) -> Self {
        let context = |name: &str, user: &str| NamedContext {
            context: Context { cluster: ROOT.to_owned(), user: user.to_owned() },
            name: name.to_owned(),
        };
        let user = |name: &str, token: &str| NamedUser {
            name: name.to_owned(),
            user: User { token: token.to_owned(), ..User::default() },
        };
        let cluster = Cluster {
            certificate_authority_data: STANDARD.encode(bundle),
            server: format!("https://127.0.0.1:{port}"),
        };
        Self {
            api_version: ApiVersion::V1,
            clusters: vec![NamedCluster { cluster, name: ROOT.to_owned() }],
            contexts: vec![context(ROOT, ADMIN), context(USER, USER)],
            current_context: ROOT.to_owned(),
            kind: Kind::Config,
            users: vec![user(ADMIN, admin_token), user(USER, user_token)],
        }
    }

    /// Parses a kubeconfig.
    ///
    /// # Errors
    /// [`Error::Parse`] when the text is not YAML of the right structure.
    pub fn parse(yaml: &str) -> Result<Self, Error> {
        let options = serde_saphyr::options! { with_snippet: false };
        serde_saphyr::from_str_with_options(yaml, options).map_err(|error| Error::Parse(error.to_string()))
    }

    /// Formats the kubeconfig as YAML.
    pub fn render(&self) -> Result<String, Error> {
        let options = serde_saphyr::ser_options! { compact_list_indent: true, prefer_block_scalars: false };
        serde_saphyr::to_string_with_options(self, options)
            .map_err(|error| Error::Invalid { field: "content", why: error.to_string() })
    }

    /// The cluster and the user of a context, or of the current context if none is given.
    ///
    /// # Errors
    /// [`Error::Missing`] when the context, its cluster or its user does not exist.
    pub fn resolve(&self, context: Option<&str>) -> Result<Resolved<'_>, Error> {
        let missing = |kind, name: &str| Error::Missing { kind, name: name.to_owned() };
        let name = context.unwrap_or(&self.current_context);
        let context = self.contexts.iter().find(|context| context.name == name);
        let Context { cluster, user } = &context.ok_or_else(|| missing("context", name))?.context;
        let found = self.clusters.iter().find(|found| found.name == *cluster);
        let found_user = self.users.iter().find(|found| found.name == *user);
        Ok(Resolved {
            cluster: &found.ok_or_else(|| missing("cluster", cluster))?.cluster,
            user: &found_user.ok_or_else(|| missing("user", user))?.user,
        })
    }
}

/// Reads null as an empty list, since some tools write `clusters: null`.
fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<Vec<T>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

pub(crate) fn decode(field: &'static str, data: &str) -> Result<Vec<u8>, Error> {
    STANDARD.decode(data).map_err(|error| Error::Invalid { field, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: UEVN
    server: https://127.0.0.1:6445
  name: root
contexts:
- context:
    cluster: root
    user: system-admin
  name: root
- context:
    cluster: root
    user: user
  name: user
current-context: root
kind: Config
users:
- name: system-admin
  user:
    token: 6f1c3a52-0b7e-4c55-9f0a-3f1f0f6f4f11
- name: user
  user:
    token: 00000000-0000-4000-8000-0000000000e5
";

    fn mk_config() -> Kubeconfig {
        let (admin, user) = ("6f1c3a52-0b7e-4c55-9f0a-3f1f0f6f4f11", "00000000-0000-4000-8000-0000000000e5");
        Kubeconfig::for_daemon(6445, "PEM", admin, user)
    }

    #[test]
    fn it_is_written_as_kubectl_would_write_it() {
        assert_eq!(mk_config().render().unwrap(), GOLDEN);
    }

    #[test]
    fn it_reads_back_as_it_was() {
        assert_eq!(Kubeconfig::parse(GOLDEN).unwrap(), mk_config());
    }

    #[test]
    fn a_long_bundle_stays_on_one_line_and_an_odd_token_stays_itself() {
        let bundle = "x".repeat(3_000);
        for token in ["12e4", "0x1f", "true", "null", "1_000", "~", "a: b", "#", "-", "'", "\"", "1.0", "0123"] {
            let config = Kubeconfig::for_daemon(1, &bundle, token, token);
            let text = config.render().unwrap();
            let data = text.lines().find_map(|line| line.trim().strip_prefix("certificate-authority-data: "));
            assert_eq!(data.unwrap().len(), 4_000);
            assert_eq!(Kubeconfig::parse(&text).unwrap(), config, "{token}");
        }
    }

    #[test]
    fn what_others_put_in_is_ignored_and_what_is_missing_is_named() {
        let text =
            "apiVersion: v1\nkind: Config\npreferences: {}\nclusters: null\nextensions: [1]\ncurrent-context: x\n";
        let error = Kubeconfig::parse(text).unwrap().resolve(None).unwrap_err();
        assert_eq!(error.to_string(), "the kubeconfig has no context \"x\"");
        let error = Kubeconfig::parse(&GOLDEN.replace("- name: user", "- name: other")).unwrap();
        let error = error.resolve(Some(USER)).unwrap_err();
        assert_eq!(error.to_string(), "the kubeconfig has no user \"user\"");
    }

    #[test]
    fn no_error_and_no_debug_output_quotes_a_secret() {
        let broken = GOLDEN.replace("kind: Config", "kind: [").replace("6f1c3a52", "hunter2");
        let error = Kubeconfig::parse(&broken).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        let wrong = GOLDEN.replace("token: 6f1c3a52-0b7e-4c55-9f0a-3f1f0f6f4f11", "token: [hunter2]");
        let error = Kubeconfig::parse(&wrong).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        assert!(!format!("{:?}", mk_config()).contains("6f1c3a52"));
    }
}
