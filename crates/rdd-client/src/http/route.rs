//! Connections to a server: directly, by host name, or through a proxy.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use rdd_fetch::Proxy;
use rdd_stdx::dns;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The limit on a proxy's response to `CONNECT`.
const PROXY_ANSWER_BYTES_MAX: usize = 8 << 10;

/// A proxy that tunnels connections to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyServer {
    /// An HTTP proxy with `CONNECT`.
    Http(Proxy),
    /// A SOCKS5 proxy, which resolves the server's host name.
    Socks(SocksProxy),
}

/// A SOCKS5 proxy, with an optional login.
#[derive(Clone, PartialEq, Eq)]
pub struct SocksProxy {
    host: String,
    port: u16,
    /// The user name and password.
    login: Option<(String, String)>,
}

impl std::fmt::Debug for SocksProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SocksProxy({}:{})", self.host, self.port)
    }
}

/// Why a proxy URL is invalid. The message does not quote the URL, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the proxy-url cannot be used: {0}")]
pub struct InvalidProxyUrl(&'static str);

impl ProxyServer {
    /// Parses the `proxy-url` of a kubeconfig. Supports `http://`, `socks5://` and `socks5h://`.
    pub fn parse(url: &str) -> Result<Self, InvalidProxyUrl> {
        let wrong = || InvalidProxyUrl("it should be http://HOST:PORT or socks5://HOST:PORT");
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        match scheme.to_ascii_lowercase().as_str() {
            "http" => Proxy::parse(url, "").map(Self::Http).map_err(|_| wrong()),
            "socks5" | "socks5h" => SocksProxy::parse(rest).map(Self::Socks).ok_or_else(wrong),
            "https" => {
                Err(InvalidProxyUrl("proxies that speak TLS themselves are not supported; use http:// or socks5://"))
            }
            _ => Err(wrong()),
        }
    }
}

impl SocksProxy {
    fn parse(rest: &str) -> Option<Self> {
        let uri: http::Uri = format!("http://{rest}").parse().ok()?;
        let authority = uri.authority()?;
        let login = authority.as_str().rsplit_once('@').map(|(login, _)| {
            let (name, password) = login.split_once(':').unwrap_or((login, ""));
            (name.to_owned(), password.to_owned())
        });
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        (!host.is_empty()).then(|| Self { host, port: authority.port_u16().unwrap_or(1080), login })
    }

    /// Connects through the proxy, by RFC 1928 and RFC 1929.
    async fn tunnel(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut stream = dns::connect(&self.host, self.port).await?;
        let methods: &[u8] = if self.login.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] };
        stream.write_all(methods).await?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await?;
        match (answer, &self.login) {
            ([5, 0], _) => {}
            ([5, 2], Some((name, password))) => log_in(&mut stream, name, password).await?,
            _ => return Err(io::Error::other("the SOCKS proxy accepts none of the ways to log in")),
        }
        let mut request = vec![5, 1, 0];
        match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => {
                request.push(1);
                request.extend(address.octets());
            }
            Ok(IpAddr::V6(address)) => {
                request.push(4);
                request.extend(address.octets());
            }
            Err(_) => {
                request.push(3);
                push_short(&mut request, host)?;
            }
        }
        request.extend(port.to_be_bytes());
        stream.write_all(&request).await?;
        read_socks_answer(&mut stream).await?;
        Ok(stream)
    }
}

/// Appends a text with its length in one byte before it.
fn push_short(bytes: &mut Vec<u8>, text: &str) -> io::Result<()> {
    let length = u8::try_from(text.len()).map_err(|_| io::Error::other("a name is too long for a SOCKS proxy"))?;
    bytes.push(length);
    bytes.extend(text.as_bytes());
    Ok(())
}

async fn log_in(stream: &mut TcpStream, name: &str, password: &str) -> io::Result<()> {
    let mut request = vec![1];
    push_short(&mut request, name)?;
    push_short(&mut request, password)?;
    stream.write_all(&request).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    if answer[1] == 0 { Ok(()) } else { Err(io::Error::other("the SOCKS proxy refused the password")) }
}

async fn read_socks_answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    match head[1] {
        0 => {}
        5 => return Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
        code => return Err(io::Error::other(format!("the SOCKS proxy could not connect (code {code})"))),
    }
    // The proxy's outgoing address is not needed, but must be read.
    let address_bytes = match head[3] {
        1 => 4,
        4 => 16,
        _ => usize::from(stream.read_u8().await?),
    };
    let mut rest = vec![0; address_bytes + 2];
    stream.read_exact(&mut rest).await?;
    Ok(())
}

/// How a client connects to its server.
#[derive(Debug, Clone)]
pub(super) enum Route {
    /// To a fixed address.
    Address(SocketAddr),
    /// To the first address of a host that accepts.
    Host { host: String, port: u16 },
    /// To a host through a proxy.
    Tunnel { proxy: ProxyServer, host: String, port: u16 },
}

impl Route {
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        match self {
            Self::Address(address) => TcpStream::connect(address).await,
            Self::Host { host, port } => dns::connect(host, *port).await,
            Self::Tunnel { proxy: ProxyServer::Socks(proxy), host, port } => proxy.tunnel(host, *port).await,
            Self::Tunnel { proxy: ProxyServer::Http(proxy), host, port } => tunnel_http(proxy, host, *port).await,
        }
    }
}

async fn tunnel_http(proxy: &Proxy, host: &str, port: u16) -> io::Result<TcpStream> {
    let (proxy_host, proxy_port) = proxy.address();
    let mut stream = dns::connect(proxy_host, proxy_port).await?;
    stream.write_all(proxy.greeting(host, port).as_bytes()).await?;
    let mut answer = Vec::new();
    // Byte by byte, since the bytes after the empty line belong to the server.
    while !answer.ends_with(b"\r\n\r\n") && answer.len() < PROXY_ANSWER_BYTES_MAX {
        answer.push(stream.read_u8().await?);
    }
    let first = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    let is_connected =
        first.starts_with("HTTP/1.") && first.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
    if is_connected {
        return Ok(stream);
    }
    Err(io::Error::other(format!("the proxy {proxy_host}:{proxy_port} did not connect: {first}")))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn proxy_urls_are_read_and_what_is_not_supported_is_named_without_its_password() {
        assert!(matches!(ProxyServer::parse("http://proxy:3128"), Ok(ProxyServer::Http(_))));
        let Ok(ProxyServer::Socks(socks)) = ProxyServer::parse("socks5://ann:pw@[::1]:9") else {
            panic!("a SOCKS proxy")
        };
        assert_eq!((socks.host.as_str(), socks.port), ("::1", 9));
        assert!(!format!("{socks:?}").contains("pw"));
        let error = ProxyServer::parse("https://ann:pw@proxy").unwrap_err().to_string();
        assert!(error.contains("not supported") && !error.contains("pw"), "{error}");
        for wrong in ["proxy:1", "ftp://x", "http://", "socks5://"] {
            assert!(ProxyServer::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_socks_proxy_is_logged_in_to_and_asked_for_the_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("socks5://ann:pw@{}", listener.local_addr().unwrap());
        let proxy = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = vec![0; 4];
            stream.read_exact(&mut read).await.unwrap();
            assert_eq!(read, [5, 2, 0, 2]);
            stream.write_all(&[5, 2]).await.unwrap();
            let mut read = vec![0; 8];
            stream.read_exact(&mut read).await.unwrap();
            assert_eq!(read, b"\x01\x03ann\x02pw");
            stream.write_all(&[1, 0]).await.unwrap();
            let mut read = vec![0; 4 + 1 + 9 + 2];
            stream.read_exact(&mut read).await.unwrap();
            assert_eq!(read, b"\x05\x01\x00\x03\x09x.example\x01\xbb");
            stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0, b'!']).await.unwrap();
        };
        let route = Route::Tunnel { proxy: ProxyServer::parse(&url).unwrap(), host: "x.example".to_owned(), port: 443 };
        let (stream, ()) = tokio::join!(route.connect(), proxy);
        assert_eq!(stream.unwrap().read_u8().await.unwrap(), b'!', "what follows is the server's");
    }

    #[tokio::test]
    async fn a_proxy_that_does_not_connect_is_an_error_with_its_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let proxy = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.unwrap();
            // Read the request first: closing with unread data would reset the connection and lose the response.
            let _ = stream.read(&mut [0; 1024]).await;
        };
        let route = Route::Tunnel { proxy: ProxyServer::parse(&url).unwrap(), host: "x.example".to_owned(), port: 443 };
        let (stream, ()) = tokio::join!(route.connect(), proxy);
        assert!(stream.unwrap_err().to_string().contains("407"));
    }
}
