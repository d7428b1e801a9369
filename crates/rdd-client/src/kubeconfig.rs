//! The kubeconfig of a daemon: how clients find it, trust it, and are known to it.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// The cluster, and the context of the administrator.
pub const ROOT: &str = "root";
/// The user who may do everything.
pub const ADMIN: &str = "system-admin";
/// The user without a group, and their context.
pub const USER: &str = "user";

/// A kubeconfig is not what it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not YAML of the right shape. The text names the place and quotes nothing: the file is full of secrets.
    #[error("read the kubeconfig: {0}")]
    Parse(String),
    /// It refers to something that is not in it.
    #[error("the kubeconfig has no {kind} {name:?}")]
    Missing {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A value in it cannot be used.
    #[error("the kubeconfig's {field} cannot be used: {why}")]
    Invalid {
        /// The name of the field.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// A kubeconfig, as far as a client of the daemon needs it. What it does not know is ignored when it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kubeconfig {
    #[serde(rename = "apiVersion")]
    api_version: ApiVersion,
    /// Servers.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub clusters: Vec<NamedCluster>,
    /// Pairs of a server and a user.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub contexts: Vec<NamedContext>,
    /// The context to use when none is named.
    #[serde(default)]
    pub current_context: String,
    kind: Kind,
    /// Credentials.
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

/// A server with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCluster {
    /// Where and whom to trust.
    pub cluster: Cluster,
    /// Its name.
    pub name: String,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cluster {
    /// The certificates to trust: PEM, in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certificate_authority_data: String,
    /// Its URL.
    pub server: String,
}

/// A pair of a server and a user, with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedContext {
    /// The pair.
    pub context: Context,
    /// Its name.
    pub name: String,
}

/// A pair of a server and a user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the user.
    pub user: String,
}

/// A user with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedUser {
    /// Its name.
    pub name: String,
    /// How it is known.
    pub user: User,
}

/// How a user is known.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct User {
    /// A client certificate: PEM, in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_certificate_data: String,
    /// Its key: PEM, in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_key_data: String,
    /// A bearer token.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User(***)")
    }
}

/// A server and a user, found by the name of their context.
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'a> {
    /// The server.
    pub cluster: &'a Cluster,
    /// The user.
    pub user: &'a User,
}

impl Kubeconfig {
    /// The kubeconfig of a daemon that serves on a port of loopback.
    ///
    /// `bundle` is the serving certificate followed by its authority, as PEM: some clients compare the certificate
    /// that they are shown with what is in there.
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

    /// Reads one.
    pub fn parse(yaml: &str) -> Result<Self, Error> {
        let options = serde_saphyr::options! { with_snippet: false };
        serde_saphyr::from_str_with_options(yaml, options).map_err(|error| Error::Parse(error.to_string()))
    }

    /// Writes it as YAML.
    pub fn render(&self) -> Result<String, Error> {
        let options = serde_saphyr::ser_options! { compact_list_indent: true, prefer_block_scalars: false };
        serde_saphyr::to_string_with_options(self, options)
            .map_err(|error| Error::Invalid { field: "content", why: error.to_string() })
    }

    /// The server and the user of a context; of the current one if none is named.
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

/// Some tools write `clusters: null` for none.
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
