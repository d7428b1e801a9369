//! Where a webhook is: a service or a URL, read once from its configuration.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Uri;
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::sync::OnceCell;

/// How a configuration says where a webhook is.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    url: Option<String>,
    service: Option<Service>,
    ca_bundle: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Service {
    namespace: String,
    name: String,
    path: Option<String>,
    port: Option<u16>,
}

/// Where a webhook is.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// What it is called by; a handler of this process may go by the same name.
    pub(super) address: Address,
    /// How to get there.
    pub(super) place: Place,
    /// `host` or `host:port`, as in the URL.
    pub(super) authority: String,
    /// From `/` on, without a query.
    pub(super) path: String,
    /// What its certificate must stand for.
    pub(super) server_name: String,
    /// Whether HTTP/2 is welcome. Only on this machine, as upstream: elsewhere one connection would defeat load balancing.
    pub(super) http2: bool,
    /// PEM of whom to trust; empty for those whom the system trusts.
    pub(super) ca_bundle: Arc<[u8]>,
    /// Made when the first connection needs it.
    pub(super) tls: OnceCell<Arc<ClientConfig>>,
}

/// What a webhook is called by in its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Address {
    /// A service, and a path on it.
    Service { namespace: String, name: String, path: String },
    /// A URL.
    Url(String),
}

/// What to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Whatever stands for a service.
    Service { namespace: String, name: String, port: u16 },
    /// A host, without brackets, and a port.
    Host { host: String, port: u16 },
}

impl Address {
    /// A path on a service, in one spelling.
    pub(super) fn service(namespace: &str, name: &str, path: &str) -> Self {
        Self::Service { namespace: namespace.to_owned(), name: name.to_owned(), path: clean(path) }
    }

    /// A URL, in one spelling.
    pub(super) fn url(url: &str) -> Self {
        Self::Url(parse(url).map_or_else(|_| url.to_owned(), |(authority, path)| format!("https://{authority}{path}")))
    }
}

impl Stored {
    /// The endpoint, or why there is none.
    pub(super) fn compile(self) -> Result<Endpoint, String> {
        let pem = STANDARD.decode(self.ca_bundle.unwrap_or_default());
        let ca_bundle: Arc<[u8]> = pem.map_err(|error| format!("unable to read the caBundle: {error}"))?.into();
        match (self.service, self.url) {
            (Some(service), _) => Ok(service.compile(ca_bundle)),
            (None, Some(url)) => from_url(&url, ca_bundle),
            (None, None) => Err("webhook configuration must have either service or URL".to_owned()),
        }
    }
}

impl Service {
    fn compile(self, ca_bundle: Arc<[u8]>) -> Endpoint {
        let Self { namespace, name, path, port } = self;
        let port = port.unwrap_or(443);
        let server_name = format!("{name}.{namespace}.svc");
        let address = Address::service(&namespace, &name, path.as_deref().unwrap_or_default());
        Endpoint {
            address,
            place: Place::Service { namespace, name, port },
            authority: format!("{server_name}:{port}"),
            path: clean(path.as_deref().unwrap_or_default()),
            server_name,
            http2: false,
            ca_bundle,
            tls: OnceCell::new(),
        }
    }
}

fn from_url(url: &str, ca_bundle: Arc<[u8]>) -> Result<Endpoint, String> {
    let (authority, path) = parse(url)?;
    let uri: Uri = format!("https://{authority}/").parse().map_err(|error| format!("Unparsable URL: {error}"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let is_local = host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    Ok(Endpoint {
        address: Address::url(url),
        place: Place::Host { host: host.clone(), port: uri.port_u16().unwrap_or(443) },
        authority,
        path,
        server_name: host,
        http2: is_local,
        ca_bundle,
        tls: OnceCell::new(),
    })
}

/// The authority and the path of a URL. What else a URL may have is refused by validation, and not sent.
fn parse(url: &str) -> Result<(String, String), String> {
    let uri: Uri = url.parse().map_err(|error| format!("Unparsable URL: parse {url:?}: {error}"))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("https"), Some(authority)) if !authority.as_str().contains('@') => {
            Ok((authority.as_str().to_owned(), clean(uri.path())))
        }
        _ => Err(format!("Unparsable URL: {url:?} is not of the form https://host[/path]")),
    }
}

/// A path as Go's `path.Join("/", …)` has it: absolute, no empty segments, no dots, no slash at the end.
fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

impl fmt::Display for Endpoint {
    /// The URL, without a query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(json: &str) -> Result<Endpoint, String> {
        serde_json::from_str::<Stored>(json).unwrap().compile()
    }

    #[test]
    fn a_service_is_named_by_its_dns_name_and_port() {
        let endpoint = compile(r#"{"service":{"namespace":"ns","name":"hook","path":"/a//b/"}}"#).unwrap();
        assert_eq!(endpoint.to_string(), "https://hook.ns.svc:443/a/b");
        assert_eq!((endpoint.server_name.as_str(), endpoint.http2), ("hook.ns.svc", false));
        assert_eq!(endpoint.address, Address::service("ns", "hook", "/a/b"));
        let endpoint = compile(r#"{"service":{"namespace":"ns","name":"hook","port":8443}}"#).unwrap();
        assert_eq!(endpoint.to_string(), "https://hook.ns.svc:8443/");
    }

    #[test]
    fn a_url_is_taken_as_given_and_http2_is_for_this_machine() {
        for (url, host, port, http2) in [
            ("https://127.0.0.1:9443/x", "127.0.0.1", 9443, true),
            ("https://[::1]:9443/x", "::1", 9443, true),
            ("https://LocalHost/x", "LocalHost", 443, true),
            ("https://hooks.example.com/x", "hooks.example.com", 443, false),
        ] {
            let endpoint = compile(&format!(r#"{{"url":"{url}"}}"#)).unwrap();
            assert_eq!(endpoint.to_string(), url);
            assert_eq!(endpoint.place, Place::Host { host: host.to_owned(), port }, "{url}");
            assert_eq!((endpoint.server_name.as_str(), endpoint.http2), (host, http2), "{url}");
        }
    }

    #[test]
    fn what_leads_nowhere_is_told() {
        for json in [r#"{"url":"http://a/"}"#, r#"{"url":"https://u@a/"}"#, r#"{"url":"::"}"#, "{}"] {
            assert!(compile(json).is_err(), "{json}");
        }
        assert!(compile(r#"{"url":"https://a","caBundle":"!"}"#).unwrap_err().contains("caBundle"));
    }
}
