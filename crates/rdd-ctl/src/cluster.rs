//! Clients for any cluster, configured by the user's kubeconfigs and the command-line flags.
//!
//! A client is created for the first request, and again when its credentials expire. A verb that sends no request therefore runs
//! no credential plugin and opens no connection.

use std::{cell::RefCell, ffi::OsString};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use rdd_client::http::{Client, ProxyServer, ServerOptions, ServerTrust};
use rdd_fetch::Proxy;
use rdd_kubeconfig::client_config::{
    ClusterConnection, ConfigFiles, ConnectionOverrides, ConnectionTrust, Impersonation, LoadError, MergedConfig,
    ResolveError,
};
use rdd_meta::time::Timestamp;
use rdd_stdx::clock::SharedClock;

use crate::{
    error::{Error, Result},
    flags::Flags,
    plugin::{PluginCredential, get_credential},
};

/// The parts of the user's environment that determine the cluster and how to connect to it.
#[derive(Clone)]
pub struct ClusterEnvironment {
    /// The kubeconfig files; `--kubeconfig` overrides them.
    pub files: ConfigFiles,
    /// `PATH`, the search path for credential plugins.
    pub path: Option<OsString>,
    /// `HTTPS_PROXY`
    pub https_proxy: Option<String>,
    /// `NO_PROXY`
    pub no_proxy: Option<String>,
    /// Whether a credential plugin can prompt the user.
    pub stdin_is_terminal: bool,
}

impl std::fmt::Debug for ClusterEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The proxy URL may contain a password.
        f.debug_struct("ClusterEnvironment").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The server that a command's requests go to.
#[derive(Debug)]
pub(crate) enum ClientSource {
    /// One server, with credentials that do not expire.
    Fixed(Box<Client>),
    /// The cluster of a kubeconfig.
    Cluster(Box<ClusterSource>),
    /// No server: the verb only uses kubeconfigs.
    Nowhere,
}

/// A cluster with its current client.
#[derive(Debug)]
pub(crate) struct ClusterSource {
    connection: ClusterConnection,
    environment: ClusterEnvironment,
    clock: SharedClock,
    held: RefCell<Held>,
}

#[derive(Debug, Default)]
struct Held {
    client: Option<Client>,
    /// When the client's credentials expire.
    expires: Option<Timestamp>,
    /// The number of the client, so that a connection of an earlier client is not reused with later credentials.
    generation: u64,
}

impl ClientSource {
    /// A client with valid credentials, and its generation.
    pub(crate) fn client(&self) -> Result<(Client, u64)> {
        match self {
            Self::Fixed(client) => Ok((client.as_ref().clone(), 0)),
            Self::Cluster(cluster) => cluster.client(),
            Self::Nowhere => Err(Error::text("this command talks to no server")),
        }
    }

    /// Discards a plugin's credentials after the server rejected them; the next request gets new ones.
    pub(crate) fn reject_credentials(&self) {
        if let Self::Cluster(cluster) = self
            && cluster.connection.credentials.exec.is_some()
        {
            cluster.held.borrow_mut().client = None;
        }
    }

    /// The URL of the server, for messages.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Fixed(client) => client.url(""),
            Self::Cluster(cluster) => cluster.connection.server.trim_end_matches('/').to_owned(),
            Self::Nowhere => String::new(),
        }
    }
}

impl ClusterSource {
    /// Resolves the cluster that the flags and kubeconfigs name. It does not connect.
    pub(crate) fn resolve(flags: &Flags, environment: ClusterEnvironment, clock: SharedClock) -> Result<Self> {
        let config = MergedConfig::load(&environment.files)?;
        let connection = config.resolve(&overrides(flags))?;
        Ok(Self { connection, environment, clock, held: RefCell::default() })
    }

    /// The namespace of the kubeconfig context.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.connection.namespace.as_deref()
    }

    fn client(&self) -> Result<(Client, u64)> {
        let mut held = self.held.borrow_mut();
        let now = i64::try_from(self.clock.wall().as_secs()).unwrap_or(i64::MAX);
        let is_over = held.expires.is_some_and(|expires| expires.seconds() < now);
        if let Some(client) = held.client.as_ref().filter(|_| !is_over) {
            return Ok((client.clone(), held.generation));
        }
        let credential = match &self.connection.credentials.exec {
            None => PluginCredential::default(),
            Some(plugin) => {
                let path = self.environment.path.as_deref();
                get_credential(plugin, path, self.environment.stdin_is_terminal).map_err(|why| {
                    Error::Unreachable(format!("Unable to connect to the server: getting credentials: {why}"))
                })?
            }
        };
        let expires = credential.expires;
        let client = Client::from_server(&self.options(credential)?).map_err(|error| Error::text(error.to_string()))?;
        *held = Held { client: Some(client.clone()), expires, generation: held.generation + 1 };
        Ok((client, held.generation))
    }

    fn options(&self, credential: PluginCredential) -> Result<ServerOptions> {
        let connection = &self.connection;
        let mut headers = HeaderMap::new();
        if let Some(authorization) = authorization(connection, credential.token.as_deref()) {
            let value = HeaderValue::try_from(authorization);
            let mut value =
                value.map_err(|_| Error::text("the credentials have characters that no header can have"))?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        add_impersonation(&mut headers, &connection.impersonation)?;
        Ok(ServerOptions {
            url: connection.server.clone(),
            trust: match &connection.trust {
                ConnectionTrust::System => ServerTrust::System,
                ConnectionTrust::Pem(pem) => ServerTrust::Pem(pem.clone()),
                ConnectionTrust::Unverified => ServerTrust::Unverified,
            },
            server_name: connection.server_name.clone(),
            identity: connection.credentials.identity.clone().or(credential.identity),
            headers,
            proxy: self.proxy()?,
        })
    }

    /// The proxy of the kubeconfig, or else the one of the environment, which applies to https and not to this machine.
    fn proxy(&self) -> Result<Option<ProxyServer>> {
        if let Some(url) = &self.connection.proxy_url {
            return ProxyServer::parse(url).map(Some).map_err(|error| Error::text(error.to_string()));
        }
        let Some(proxy) = &self.environment.https_proxy else { return Ok(None) };
        let uri: Option<Uri> = self.connection.server.parse().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if !ClusterConnection::is_tls(&self.connection.server) {
            return Ok(None);
        }
        let proxy = Proxy::parse(proxy, self.environment.no_proxy.as_deref().unwrap_or_default());
        let proxy = proxy.map_err(|error| Error::text(error.to_string()))?;
        Ok(proxy.is_for(&host).then_some(ProxyServer::Http(proxy)))
    }
}

fn authorization(connection: &ClusterConnection, plugin_token: Option<&str>) -> Option<String> {
    let credentials = &connection.credentials;
    // The kubeconfig's own token takes precedence over the plugin's.
    if let Some(token) = credentials.token.as_deref().or(plugin_token) {
        return Some(format!("Bearer {token}"));
    }
    credentials
        .basic
        .as_ref()
        .map(|(name, password)| format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
}

fn add_impersonation(headers: &mut HeaderMap, impersonation: &Impersonation) -> Result<()> {
    if impersonation.user.is_empty() {
        return Ok(());
    }
    let mut add = |name: String, value: &str| {
        let wrong = || Error::text(format!("{name} cannot be sent: it has characters that no header can have"));
        let header = HeaderName::try_from(name.to_ascii_lowercase()).map_err(|_| wrong())?;
        headers.append(header, HeaderValue::try_from(value).map_err(|_| wrong())?);
        Ok::<(), Error>(())
    };
    add("Impersonate-User".to_owned(), &impersonation.user)?;
    if !impersonation.uid.is_empty() {
        add("Impersonate-Uid".to_owned(), &impersonation.uid)?;
    }
    for group in &impersonation.groups {
        add("Impersonate-Group".to_owned(), group)?;
    }
    for (key, value) in &impersonation.extra {
        add(format!("Impersonate-Extra-{}", escape_header_key(key)), value)?;
    }
    Ok(())
}

/// Percent-encodes the characters that a header name cannot contain.
fn escape_header_key(key: &str) -> String {
    let mut escaped = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// The flags that override the kubeconfig's server and user.
fn overrides(flags: &Flags) -> ConnectionOverrides {
    let text = |name: &str| flags.given(name).map(str::to_owned);
    let path = |name: &str| flags.given(name).map(Into::into);
    let extra = flags.list("as-user-extra").iter().filter_map(|pair| pair.split_once('='));
    ConnectionOverrides {
        context: text("context"),
        cluster: text("cluster"),
        user: text("user"),
        server: text("server"),
        tls_server_name: text("tls-server-name"),
        certificate_authority: path("certificate-authority"),
        insecure_skip_tls_verify: flags.is_on("insecure-skip-tls-verify"),
        client_certificate: path("client-certificate"),
        client_key: path("client-key"),
        token: text("token"),
        username: text("username"),
        password: text("password"),
        impersonation: Impersonation {
            user: flags.text("as").to_owned(),
            uid: flags.text("as-uid").to_owned(),
            groups: flags.list("as-group").to_vec(),
            extra: extra.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        },
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::text(error.to_string())
    }
}

impl From<ResolveError> for Error {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Several(problems) => {
                let lines: String = problems.iter().map(|problem| format!("* {problem}\n")).collect();
                Self::Bare(format!("Error in configuration: \n{lines}"))
            }
            ResolveError::ContextNotFound(_) => Self::Bare(format!("Error in configuration: {error}")),
            error => Self::text(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_impersonated_is_told_in_headers() {
        let mut headers = HeaderMap::new();
        let impersonation = Impersonation {
            user: "eve".to_owned(),
            uid: "u1".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: vec![("example.com/scopes".to_owned(), "view".to_owned())],
        };
        add_impersonation(&mut headers, &impersonation).unwrap();
        let all = |name: &str| headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!((all("impersonate-user"), all("impersonate-uid")), (vec!["eve"], vec!["u1"]));
        assert_eq!(all("impersonate-group"), ["a", "b"]);
        assert_eq!(all("impersonate-extra-example.com%2fscopes"), ["view"]);
        let wrong = Impersonation { user: "a\nb".to_owned(), ..Impersonation::default() };
        assert!(add_impersonation(&mut HeaderMap::new(), &wrong).is_err());
    }
}
