//! The HTTP proxy, from the usual environment variables.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Uri;

/// A proxy and the hosts that bypass it.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    authorization: Option<String>,
    exempt: Vec<String>,
}

/// A proxy that is not supported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("HTTPS_PROXY cannot be used: it should be http://HOST:PORT")]
pub struct InvalidProxy;

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl Proxy {
    /// Parses `HTTPS_PROXY` and `NO_PROXY`. A proxy without a scheme is an HTTP proxy.
    pub fn parse(proxy: &str, exempt: &str) -> Result<Self, InvalidProxy> {
        // Variables often hold only host and port.
        let with_scheme = if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") };
        let uri: Uri = with_scheme.parse().map_err(|_| InvalidProxy)?;
        // TLS to the proxy itself and SOCKS are not supported.
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or(InvalidProxy)?;
        let credentials = authority.as_str().rsplit_once('@').map(|(credentials, _)| unescape(credentials));
        let host = authority.host().to_owned();
        if host.is_empty() {
            return Err(InvalidProxy);
        }
        let split = exempt.split([',', ' ']).map(|entry| entry.trim().to_ascii_lowercase());
        Ok(Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authorization: credentials.map(|credentials| format!("Basic {}", STANDARD.encode(credentials))),
            exempt: split.filter(|entry| !entry.is_empty()).collect(),
        })
    }

    /// Its host and port.
    pub fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// Whether connections to this host use the proxy. Connections to the loopback interface never do.
    pub fn is_for(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let is_exempt = |entry: &String| {
            // `example.com`, `.example.com` and `*.example.com` all include subdomains.
            let domain = entry.trim_start_matches("*.").trim_start_matches('.');
            entry == "*" || host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        !is_loopback(&host) && !self.exempt.iter().any(is_exempt)
    }

    /// The CONNECT request to the proxy.
    pub fn greeting(&self, host: &str, port: u16) -> String {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let authorization =
            self.authorization.as_ref().map(|text| format!("Proxy-Authorization: {text}\r\n")).unwrap_or_default();
        format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n")
    }
}

/// Whether a host is the loopback interface.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Decodes percent-encoding: `%40` is `@`.
fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut made = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[at], escaped) {
            (b'%', Some(byte)) => {
                made.push(byte);
                at += 3;
            }
            (byte, _) => {
                made.push(byte);
                at += 1;
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_and_asked_for_a_connection() {
        let proxy = Proxy::parse("http://ann:p%40ss@proxy.corp:3128", "").unwrap();
        assert_eq!(proxy.address(), ("proxy.corp", 3128));
        assert_eq!(
            proxy.greeting("github.com", 443),
            "CONNECT github.com:443 HTTP/1.1\r\nHost: github.com:443\r\nProxy-Authorization: Basic YW5uOnBAc3M=\r\n\r\n"
        );
        assert!(!format!("{proxy:?}").contains("ann"));
        assert_eq!(Proxy::parse("proxy:8080", "").unwrap().address(), ("proxy", 8080));
        for wrong in ["", "socks5://x:1", "https://x", "http://", "http://a b"] {
            assert_eq!(Proxy::parse(wrong, ""), Err(InvalidProxy), "{wrong}");
        }
    }

    #[test]
    fn who_is_exempt_is_asked_directly() {
        let proxy = Proxy::parse("p", "corp.example, .lan,10.0.0.1 *.dev").unwrap();
        for host in ["corp.example", "a.CORP.example", "x.lan", "10.0.0.1", "y.dev", "127.0.0.1", "localhost", "::1"] {
            assert!(!proxy.is_for(host), "{host}");
        }
        for host in ["mycorp.example", "github.com", "10.0.0.2", "plan"] {
            assert!(proxy.is_for(host), "{host}");
        }
        assert!(!Proxy::parse("p", "*").unwrap().is_for("github.com"));
    }
}
