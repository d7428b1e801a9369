//! Examines the current context of the kubeconfigs, without a network.

use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Uri;
use serde_json::Value;

use crate::{edit::List, judge::Seen, select::Known};

/// The result of the examination: either the answer, or a server to probe.
#[derive(Debug)]
pub(crate) enum Situation {
    Seen(Seen),
    Ask(Box<Endpoint>),
}

/// A server to probe, as its kubeconfig describes it.
#[derive(Clone)]
pub struct Endpoint {
    /// The URL of the server, which has a host.
    pub server: Uri,
    /// The certificates to trust.
    pub trust: Trust,
    /// The expected name in the server's certificate, if it differs from the URL's host.
    pub server_name: Option<String>,
    /// The client certificate and its key, both PEM. Only shown to a server with a verified certificate.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The bearer token. Only sent to a server with a verified certificate.
    pub token: Option<String>,
}

/// The certificates to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The system's certificate authorities.
    System,
    /// These certificate authorities, in PEM.
    Pem(Vec<u8>),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL is left out, since it may contain a password.
        f.debug_struct("Endpoint").field("host", &self.server.host()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Whether the server is on this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Examines the files in the order in which kubectl merges them: the first file with a value wins.
pub(crate) fn look(files: &[(PathBuf, Known)], ours: &str) -> Situation {
    match find(files, ours) {
        Ok(endpoint) => Situation::Ask(Box::new(endpoint)),
        Err(seen) => Situation::Seen(seen),
    }
}

fn find(files: &[(PathBuf, Known)], ours: &str) -> Result<Endpoint, Seen> {
    let entry = |list, name: &str| {
        files.iter().find_map(|(path, file)| file.entry(list, name).map(|entry| (path.as_path(), entry)))
    };
    let current = files.iter().map(|(_, file)| file.current()).find(|current| !current.is_empty());
    if current == Some(ours) {
        return Err(Seen::Ours);
    }
    if entry(List::Contexts, ours).is_none() {
        return Err(Seen::NotPublished);
    }
    let current = current.ok_or(Seen::Nothing)?;
    let (_, context) = entry(List::Contexts, current).ok_or(Seen::ContextMissing)?;
    let named = |field| text(context.get("context"), field).unwrap_or_default();
    let (base, cluster) = entry(List::Clusters, named("cluster")).ok_or(Seen::ClusterMissing)?;
    let (user_base, user) = entry(List::Users, named("user")).ok_or(Seen::UserMissing)?;
    describe(cluster.get("cluster"), folder(base), user.get("user"), folder(user_base))
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn text<'a>(value: Option<&'a Value>, field: &str) -> Option<&'a str> {
    value?.get(field)?.as_str().filter(|text| !text.is_empty())
}

fn describe(cluster: Option<&Value>, base: &Path, user: Option<&Value>, user_base: &Path) -> Result<Endpoint, Seen> {
    let has =
        |value: Option<&Value>, field: &str| value.and_then(|value| value.get(field)).is_some_and(|it| !it.is_null());
    if has(user, "exec") || has(user, "auth-provider") {
        return Err(Seen::NeedsProgram);
    }
    let unusable = |why: &str| Seen::Unusable(why.to_owned());
    if text(cluster, "proxy-url").is_some() {
        return Err(unusable("it is behind a proxy"));
    }
    if cluster.and_then(|cluster| cluster.get("insecure-skip-tls-verify")) == Some(&Value::Bool(true)) {
        return Err(unusable("its server is not to be verified"));
    }
    let server = text(cluster, "server").ok_or_else(|| unusable("it has no server"))?;
    let server: Uri = server.parse().map_err(|_| unusable("its server is no URL"))?;
    if server.host().is_none() || !matches!(server.scheme_str(), Some("http" | "https")) {
        return Err(unusable("its server is no URL"));
    }
    let server_name = text(cluster, "tls-server-name").map(str::to_owned);
    if server.scheme_str() == Some("http") {
        // Like kubectl, the probe is anonymous without TLS, and files with credentials are not read.
        return Ok(Endpoint { server, trust: Trust::System, server_name, identity: None, token: None });
    }
    let trust = data(cluster, "certificate-authority", base)?.map_or(Trust::System, Trust::Pem);
    let certificate = data(user, "client-certificate", user_base)?;
    let identity = certificate.zip(data(user, "client-key", user_base)?);
    let token = match text(user, "token") {
        Some(token) => Some(token.to_owned()),
        None => text(user, "tokenFile").map(|path| read_text(&user_base.join(path))).transpose()?,
    };
    Ok(Endpoint { server, trust, server_name, identity, token })
}

/// The bytes of `FIELD-data` in base64, or else of the file that `FIELD` names.
fn data(value: Option<&Value>, field: &str, base: &Path) -> Result<Option<Vec<u8>>, Seen> {
    if let Some(data) = text(value, &format!("{field}-data")) {
        let decoded = STANDARD.decode(data);
        return decoded.map(Some).map_err(|_| Seen::Unusable(format!("its {field}-data is not base64")));
    }
    text(value, field).map(|path| read(&base.join(path))).transpose()
}

fn read(path: &Path) -> Result<Vec<u8>, Seen> {
    use std::io::Read;
    const BYTES_MAX: u64 = 1 << 20;
    let fail = |error: std::io::Error| Seen::Unusable(format!("{} cannot be read: {error}", path.display()));
    let meta = std::fs::metadata(path).map_err(fail)?;
    if !meta.is_file() {
        return Err(Seen::Unusable(format!("{} is not a file", path.display())));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes)).map_err(fail)?;
    Ok(bytes)
}

fn read_text(path: &Path) -> Result<String, Seen> {
    let text = String::from_utf8(read(path)?);
    text.map(|text| text.trim().to_owned()).map_err(|_| Seen::Unusable(format!("{} is not text", path.display())))
}
