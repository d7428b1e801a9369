//! Resolves merged kubeconfigs and command-line flags to one connection, by client-go's rules.

use std::{
    fmt, fs,
    io::Read,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::merged::{ConfigEntry, MergedConfig};

/// The server that kubectl uses if no other is configured.
const DEFAULT_SERVER: &str = "http://localhost:8080";
/// The maximum size of a certificate, key or token file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The name of the cluster extension with settings for exec plugins.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";
/// The supported versions of the exec plugin protocol.
const EXEC_VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// Command-line flags that override the kubeconfig. Relative paths are relative to the working folder.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConnectionOverrides {
    /// `--context`
    pub context: Option<String>,
    /// `--cluster`
    pub cluster: Option<String>,
    /// `--user`
    pub user: Option<String>,
    /// `--server`
    pub server: Option<String>,
    /// `--tls-server-name`
    pub tls_server_name: Option<String>,
    /// `--certificate-authority`
    pub certificate_authority: Option<PathBuf>,
    /// `--insecure-skip-tls-verify`
    pub insecure_skip_tls_verify: bool,
    /// `--client-certificate`
    pub client_certificate: Option<PathBuf>,
    /// `--client-key`
    pub client_key: Option<PathBuf>,
    /// `--token`
    pub token: Option<String>,
    /// `--username`
    pub username: Option<String>,
    /// `--password`
    pub password: Option<String>,
    /// `--as`, `--as-uid`, `--as-group` and `--as-user-extra`
    pub impersonation: Impersonation,
}

impl fmt::Debug for ConnectionOverrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Leaves out the token and the password.
        f.debug_struct("ConnectionOverrides").field("context", &self.context).finish_non_exhaustive()
    }
}

/// Why no connection can be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The context does not exist in any file.
    #[error("context was not found for specified context: {0}")]
    ContextNotFound(String),
    /// One part of the configuration is invalid.
    #[error("{0}")]
    Invalid(String),
    /// Several parts of the configuration are invalid.
    #[error("[{}]", .0.join(", "))]
    Several(Vec<String>),
}

/// The certificates to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionTrust {
    /// The system's certificate authorities.
    System,
    /// These certificate authorities, in PEM.
    Pem(Vec<u8>),
    /// Any certificate: `insecure-skip-tls-verify`.
    Unverified,
}

/// The user that requests impersonate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user name; empty means no impersonation.
    pub user: String,
    /// The UID of the user.
    pub uid: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Extra attributes of the user: pairs of a key and a value, one per value.
    pub extra: Vec<(String, String)>,
}

/// Whether an exec plugin may read standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InteractiveMode {
    /// The plugin never reads it.
    Never,
    /// The plugin reads it if it is a terminal.
    IfAvailable,
    /// The plugin requires a terminal.
    Always,
}

/// A program that provides credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecPlugin {
    /// The program: a name to look up in `PATH`, or a path.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// Variables to add to the environment.
    pub env: Vec<(String, String)>,
    /// The version of the plugin protocol.
    pub api_version: String,
    /// The hint to show if the program is missing.
    pub install_hint: String,
    /// Whether the plugin may read standard input.
    pub interactive_mode: InteractiveMode,
    /// The cluster information to pass to the plugin, if it requests any.
    pub cluster: Option<Value>,
}

impl fmt::Debug for ExecPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments and variables may contain secrets.
        f.debug_struct("ExecPlugin").field("command", &self.command).finish_non_exhaustive()
    }
}

/// The credentials of the user. All empty without TLS, since they could be read in transit.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The bearer token.
    pub token: Option<String>,
    /// The user name and password for basic authentication.
    pub basic: Option<(String, String)>,
    /// The client certificate and its key, both PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The exec plugin that provides a token or certificate. Only set if the other fields are empty.
    pub exec: Option<ExecPlugin>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(***)")
    }
}

/// A server, and the identity of the client there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConnection {
    /// The URL of the server, which has a scheme.
    pub server: String,
    /// The certificates to trust.
    pub trust: ConnectionTrust,
    /// The expected name in the server's certificate, if it differs from the URL's host.
    pub server_name: Option<String>,
    /// The proxy to connect through.
    pub proxy_url: Option<String>,
    /// The credentials of the user.
    pub credentials: Credentials,
    /// The user that requests impersonate.
    pub impersonation: Impersonation,
    /// The namespace of the context, if it has one.
    pub namespace: Option<String>,
}

impl ClusterConnection {
    /// Whether a server URL uses TLS. Like in kubectl, a URL without a scheme does not.
    pub fn is_tls(server: &str) -> bool {
        server.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
    }
}

/// An entry with the flags applied.
#[derive(Debug, Clone, Default)]
struct Overlaid {
    fields: Map<String, Value>,
    /// The folder to which relative paths are relative. Paths of flags are absolute already.
    base: PathBuf,
}

impl Overlaid {
    fn new(entry: Option<&ConfigEntry>) -> Self {
        let folder = |entry: &ConfigEntry| entry.origin.parent().map(Path::to_owned).unwrap_or_default();
        Self {
            fields: entry.map(|entry| entry.fields.clone()).unwrap_or_default(),
            base: entry.map(folder).unwrap_or_default(),
        }
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn set(&mut self, field: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.fields.insert(field.to_owned(), json!(text));
        }
    }

    /// Applies a flag with a path, which also replaces the `-data` field.
    fn set_file(&mut self, field: &str, path: Option<&Path>) {
        if let Some(path) = path {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            self.fields.remove(&format!("{field}-data"));
            self.fields.insert(field.to_owned(), json!(path.to_string_lossy()));
        }
    }

    fn path(&self, field: &str) -> Option<PathBuf> {
        self.text(field).map(|path| self.base.join(path))
    }

    /// The bytes of `FIELD-data`, or else of the file that `FIELD` names.
    fn bytes(&self, field: &str) -> Result<Option<Vec<u8>>, ResolveError> {
        if let Some(data) = self.text(&format!("{field}-data")) {
            return STANDARD
                .decode(data)
                .map(Some)
                .map_err(|_| ResolveError::Invalid(format!("{field}-data must be base64")));
        }
        self.path(field).map(|path| read(&path)).transpose()
    }

    fn has(&self, field: &str) -> bool {
        self.text(field).is_some() || self.text(&format!("{field}-data")).is_some()
    }
}

impl MergedConfig {
    /// Resolves the connection of the context that the flags name, or of the current one. Does not connect and runs no
    /// plugin.
    ///
    /// # Guarantees
    /// Without TLS, the result has no credentials, and no file with credentials is read: kubectl does not send any over
    /// plain HTTP either, not even `--token`.
    ///
    /// # Errors
    /// When the context does not exist, an entry is invalid, or a file cannot be read. The messages are client-go's
    /// where it has one.
    pub fn resolve(&self, overrides: &ConnectionOverrides) -> Result<ClusterConnection, ResolveError> {
        let context_name = overrides.context.as_deref().unwrap_or(&self.current_context);
        let context = self.contexts.get(context_name);
        let named = |flag: &Option<String>, field: &str| {
            let of_context = || context.and_then(|context| context.text(field)).unwrap_or_default().to_owned();
            flag.clone().unwrap_or_else(of_context)
        };
        let (cluster_name, user_name) = (named(&overrides.cluster, "cluster"), named(&overrides.user, "user"));
        let cluster = self.overlaid_cluster(&cluster_name, overrides);
        let user = self.overlaid_user(&user_name, overrides);
        let is_cluster_missing = overrides.cluster.is_some() && !self.clusters.contains_key(&cluster_name);

        // client-go validates the user first, so its problems come first in the message.
        let mut problems = validate_user(&user_name, &user, &overrides.impersonation);
        if is_cluster_missing {
            problems.push(format!("no server found for cluster {}", quote(&cluster_name)));
        } else {
            problems.extend(validate_cluster(&cluster_name, &cluster));
        }
        let is_context_missing = !context_name.is_empty() && context.is_none();
        match (is_context_missing, problems.len()) {
            (false, 0) => {}
            (true, 0) => return Err(ResolveError::ContextNotFound(context_name.to_owned())),
            (false, 1) => return Err(ResolveError::Invalid(problems.remove(0))),
            (is_missing, _) => {
                if is_missing {
                    problems.insert(0, ResolveError::ContextNotFound(context_name.to_owned()).to_string());
                }
                return Err(ResolveError::Several(problems));
            }
        }
        if overrides.user.is_some() && !self.users.contains_key(&user_name) {
            return Err(ResolveError::Invalid(format!("auth info {} does not exist", quote(&user_name))));
        }
        let server = cluster.text("server").unwrap_or(DEFAULT_SERVER);
        let is_tls = ClusterConnection::is_tls(server);
        Ok(ClusterConnection {
            server: if server.contains("://") { server.to_owned() } else { format!("http://{server}") },
            trust: if is_tls { trust(&cluster)? } else { ConnectionTrust::System },
            server_name: cluster.text("tls-server-name").filter(|_| is_tls).map(str::to_owned),
            proxy_url: cluster.text("proxy-url").map(str::to_owned),
            credentials: if is_tls { credentials(&user, &cluster)? } else { Credentials::default() },
            impersonation: impersonation(&user, &overrides.impersonation),
            namespace: context.and_then(|context| context.text("namespace")).map(str::to_owned),
        })
    }

    fn overlaid_cluster(&self, name: &str, overrides: &ConnectionOverrides) -> Overlaid {
        let mut cluster = Overlaid::new(self.clusters.get(name));
        if overrides.insecure_skip_tls_verify || overrides.certificate_authority.is_some() {
            // Otherwise the kubeconfig's certificate authority would contradict the flag.
            for field in ["certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"] {
                cluster.fields.remove(field);
            }
            if overrides.insecure_skip_tls_verify {
                cluster.fields.insert("insecure-skip-tls-verify".to_owned(), json!(true));
            }
            cluster.set_file("certificate-authority", overrides.certificate_authority.as_deref());
        }
        if overrides.server.is_some() {
            // The certificate name in the kubeconfig belongs to the server that the flag replaces.
            cluster.fields.remove("tls-server-name");
        }
        cluster.set("server", overrides.server.as_deref());
        cluster.set("tls-server-name", overrides.tls_server_name.as_deref());
        cluster
    }

    fn overlaid_user(&self, name: &str, overrides: &ConnectionOverrides) -> Overlaid {
        let mut user = Overlaid::new(self.users.get(name));
        user.set_file("client-certificate", overrides.client_certificate.as_deref());
        user.set_file("client-key", overrides.client_key.as_deref());
        if overrides.token.is_some() {
            // Otherwise the token file of the kubeconfig would override the flag.
            user.fields.remove("tokenFile");
        }
        user.set("token", overrides.token.as_deref());
        user.set("username", overrides.username.as_deref());
        user.set("password", overrides.password.as_deref());
        user
    }
}

fn quote(text: &str) -> String {
    format!("{text:?}")
}

fn validate_cluster(name: &str, cluster: &Overlaid) -> Vec<String> {
    let mut problems = Vec::new();
    if cluster.text("certificate-authority").is_some() && cluster.text("certificate-authority-data").is_some() {
        problems.push(format!(
            "certificate-authority-data and certificate-authority are both specified for {name}. certificate-authority-data will override."
        ));
    }
    problems.extend(unreadable(cluster, "certificate-authority", "certificate-authority", name));
    problems
}

fn validate_user(name: &str, user: &Overlaid, flags: &Impersonation) -> Vec<String> {
    let mut problems = Vec::new();
    if user.has("client-certificate") {
        let is_both = |field: &str| user.text(field).is_some() && user.text(&format!("{field}-data")).is_some();
        if is_both("client-certificate") {
            problems.push(format!(
                "client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
            ));
        }
        if is_both("client-key") {
            problems.push(format!(
                "client-key-data and client-key are both specified for {name}; client-key-data will override"
            ));
        }
        if !user.has("client-key") {
            problems.push(format!(
                "client-key-data or client-key must be specified for {name} to use the clientCert authentication method."
            ));
        }
        problems.extend(unreadable(user, "client-certificate", "client-cert", name));
        problems.extend(unreadable(user, "client-key", "client-key", name));
    }
    if let Some(exec) = user.fields.get("exec") {
        problems.extend(validate_exec(name, exec, user.fields.contains_key("auth-provider")));
    }
    if user.text("token").is_some() && (user.text("username").is_some() || user.text("password").is_some()) {
        problems.push(format!(
            "more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
        ));
    }
    let impersonation = impersonation(user, flags);
    let is_more = !impersonation.uid.is_empty() || !impersonation.groups.is_empty() || !impersonation.extra.is_empty();
    if is_more && impersonation.user.is_empty() {
        problems.push(format!("requesting uid, groups or user-extra for {name} without impersonating a user"));
    }
    problems
}

fn validate_exec(name: &str, exec: &Value, has_provider: bool) -> Vec<String> {
    let text = |field: &str| exec[field].as_str().unwrap_or_default();
    let mut problems = Vec::new();
    if has_provider {
        problems.push(format!("authProvider cannot be provided in combination with an exec plugin for {name}"));
    }
    for field in ["command", "apiVersion"] {
        if text(field).is_empty() {
            problems.push(format!("{field} must be specified for {name} to use exec authentication plugin"));
        }
    }
    let env = exec["env"].as_array().into_iter().flatten();
    for _ in env.filter(|variable| variable["name"].as_str().is_none_or(str::is_empty)) {
        problems.push(format!("env variable name must be specified for {name} to use exec authentication plugin"));
    }
    match text("interactiveMode") {
        "Never" | "IfAvailable" | "Always" => {}
        "" => problems.push(format!("interactiveMode must be specified for {name} to use exec authentication plugin")),
        mode => problems.push(format!("invalid interactiveMode for {name}: {}", quote(mode))),
    }
    problems
}

fn unreadable(entry: &Overlaid, field: &str, what: &str, name: &str) -> Option<String> {
    let path = entry.path(field)?;
    let error = fs::File::open(&path).err()?;
    Some(format!("unable to read {what} {} for {name} due to {}", path.display(), go_open(&path, &error)))
}

/// The message of Go for a file that cannot be opened.
fn go_open(path: &Path, error: &std::io::Error) -> String {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    format!("open {}: {why}", path.display())
}

fn read(path: &Path) -> Result<Vec<u8>, ResolveError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| ResolveError::Invalid(go_open(path, &error)))
}

fn trust(cluster: &Overlaid) -> Result<ConnectionTrust, ResolveError> {
    let is_insecure = cluster.fields.get("insecure-skip-tls-verify") == Some(&Value::Bool(true));
    match (cluster.bytes("certificate-authority")?, is_insecure) {
        (Some(_), true) => Err(ResolveError::Invalid(
            "specifying a root certificates file with the insecure flag is not allowed".to_owned(),
        )),
        (Some(pem), false) => Ok(ConnectionTrust::Pem(pem)),
        (None, true) => Ok(ConnectionTrust::Unverified),
        (None, false) => Ok(ConnectionTrust::System),
    }
}

fn credentials(user: &Overlaid, cluster: &Overlaid) -> Result<Credentials, ResolveError> {
    let basic =
        user.text("username").map(|name| (name.to_owned(), user.text("password").unwrap_or_default().to_owned()));
    let identity = match user.bytes("client-certificate")? {
        Some(certificate) => user.bytes("client-key")?.map(|key| (certificate, key)),
        None => None,
    };
    let mut credentials = Credentials { token: token(user)?, basic, identity, exec: None };
    let is_known = credentials.token.is_some() || credentials.basic.is_some() || credentials.identity.is_some();
    if is_known {
        return Ok(credentials);
    }
    if let Some(provider) = user.fields.get("auth-provider") {
        let name = provider["name"].as_str().unwrap_or_default();
        return Err(ResolveError::Invalid(format!(
            "the auth-provider {} is not supported: use the exec plugin that took its place \
             (gke-gcloud-auth-plugin, kubelogin or another one)",
            quote(name)
        )));
    }
    if let Some(exec) = user.fields.get("exec") {
        credentials.exec = Some(exec_plugin(exec, user, cluster)?);
    }
    Ok(credentials)
}

/// The token of the user. The content of `tokenFile` overrides `token`, as long as the file can be read.
fn token(user: &Overlaid) -> Result<Option<String>, ResolveError> {
    let text = user.text("token").map(str::to_owned);
    let Some(path) = user.path("tokenFile") else { return Ok(text) };
    match read(&path) {
        Ok(bytes) => {
            let token = String::from_utf8_lossy(&bytes).trim().to_owned();
            Ok(if token.is_empty() { text } else { Some(token) })
        }
        Err(error) => text.map(Some).ok_or(error),
    }
}

fn exec_plugin(exec: &Value, user: &Overlaid, cluster: &Overlaid) -> Result<ExecPlugin, ResolveError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&exec["apiVersion"]);
    if !EXEC_VERSIONS.contains(&api_version.as_str()) {
        return Err(ResolveError::Invalid(format!("exec plugin: invalid apiVersion {}", quote(&api_version))));
    }
    let command = text(&exec["command"]);
    // A command with a folder is relative to the kubeconfig's folder; a bare name is looked up in `PATH`.
    let command = if command.contains('/') { user.base.join(&command).to_string_lossy().into_owned() } else { command };
    let env = exec["env"].as_array().into_iter().flatten();
    let wants_cluster = exec["provideClusterInfo"] == json!(true);
    Ok(ExecPlugin {
        command,
        args: exec["args"].as_array().into_iter().flatten().map(text).collect(),
        env: env.map(|variable| (text(&variable["name"]), text(&variable["value"]))).collect(),
        api_version,
        install_hint: text(&exec["installHint"]),
        interactive_mode: match exec["interactiveMode"].as_str() {
            Some("Always") => InteractiveMode::Always,
            Some("Never") => InteractiveMode::Never,
            _ => InteractiveMode::IfAvailable,
        },
        cluster: if wants_cluster { Some(cluster_info(cluster)?) } else { None },
    })
}

/// The cluster, in the format of `spec.cluster` of an `ExecCredential`.
fn cluster_info(cluster: &Overlaid) -> Result<Value, ResolveError> {
    let mut info = Map::new();
    for field in ["server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression"] {
        if let Some(value) = cluster.fields.get(field) {
            info.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(pem) = cluster.bytes("certificate-authority")? {
        info.insert("certificate-authority-data".to_owned(), json!(STANDARD.encode(pem)));
    }
    let extensions = cluster.fields.get("extensions").and_then(Value::as_array).into_iter().flatten();
    let mut config =
        extensions.filter(|extension| extension["name"] == EXEC_EXTENSION).map(|found| found["extension"].clone());
    // client-go writes null if there is no such extension.
    info.insert("config".to_owned(), config.next().unwrap_or(Value::Null));
    Ok(Value::Object(info))
}

/// Combines the flags with the user entry; each flag overrides its own field.
fn impersonation(user: &Overlaid, flags: &Impersonation) -> Impersonation {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let chosen = |flag: &String, field: &str| {
        if flag.is_empty() { user.text(field).unwrap_or_default().to_owned() } else { flag.clone() }
    };
    let groups = if flags.groups.is_empty() {
        user.fields.get("as-groups").map(texts).unwrap_or_default()
    } else {
        flags.groups.clone()
    };
    let of_user = || {
        let lists = user.fields.get("as-user-extra").and_then(Value::as_object).into_iter().flatten();
        lists.flat_map(|(key, values)| texts(values).into_iter().map(move |value| (key.clone(), value))).collect()
    };
    let extra = if flags.extra.is_empty() { of_user() } else { flags.extra.clone() };
    Impersonation { user: chosen(&flags.user, "as"), uid: chosen(&flags.uid, "as-uid"), groups, extra }
}
