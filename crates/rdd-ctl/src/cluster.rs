//! Clients of any cluster, from the user's kubeconfigs and the flags of the command line.
//!
//! A client is made when the first request needs one, and again when its credentials are over, so that a verb that asks
//! nothing runs no plugin and opens no connection.

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

/// What of the user's surroundings decides which cluster is meant and how it is reached.
#[derive(Clone)]
pub struct ClusterEnvironment {
    /// The kubeconfigs; `--kubeconfig` names another one.
    pub files: ConfigFiles,
    /// `PATH`, where credential plugins are looked for.
    pub path: Option<OsString>,
    /// `HTTPS_PROXY`
    pub https_proxy: Option<String>,
    /// `NO_PROXY`
    pub no_proxy: Option<String>,
    /// Whether a credential plugin could ask something.
    pub stdin_is_terminal: bool,
}

impl std::fmt::Debug for ClusterEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The proxy may have a password.
        f.debug_struct("ClusterEnvironment").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Where the requests of a command go.
#[derive(Debug)]
pub(crate) enum ClientSource {
    /// To one server, with credentials that do not end.
    Fixed(Box<Client>),
    /// To the cluster of a kubeconfig.
    Cluster(Box<ClusterSource>),
    /// Nowhere: the verb concerns kubeconfigs only.
    Nowhere,
}

/// A cluster, and the client of it that was made last.
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
    /// When the credentials of the client end.
    expires: Option<Timestamp>,
    /// Counts the clients, so that a connection of an earlier one is not used with later credentials.
    generation: u64,
}

impl ClientSource {
    /// A client whose credentials are good now, and a number that changes with them.
    pub(crate) fn client(&self) -> Result<(Client, u64)> {
        match self {
            Self::Fixed(client) => Ok((client.as_ref().clone(), 0)),
            Self::Cluster(cluster) => cluster.client(),
            Self::Nowhere => Err(Error::text("this command talks to no server")),
        }
    }

    /// The server did not accept the credentials: those of a plugin are got again for the next request.
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
    /// The cluster that flags and kubeconfigs name. Nothing is connected yet.
    pub(crate) fn resolve(flags: &Flags, environment: ClusterEnvironment, clock: SharedClock) -> Result<Self> {
        let config = MergedConfig::load(&environment.files)?;
        let connection = config.resolve(&overrides(flags))?;
        Ok(Self { connection, environment, clock, held: RefCell::default() })
    }

    /// The namespace of the context.
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

    /// The proxy of the cluster, or else the one of the environment, which is for https and not for this machine.
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

/// Percent-encodes what the name of a header cannot have.
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

/// What the flags say about the server and the user.
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
