//! Connects to a server, directly or through a proxy, and performs one request.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rdd_stdx::{dns, task::Group};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::{
    error::Failure,
    proxy::{Proxy, is_loopback},
};

/// The maximum number of redirects.
const REDIRECTS_MAX: usize = 10;
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// The maximum size of a proxy's reply to CONNECT.
const GREETING_MAX: usize = 8 << 10;

/// The settings of connections.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) proxy: Option<Proxy>,
    /// The timeout without any data.
    pub(crate) silence: Duration,
}

/// A response whose body is not read yet. Dropping it closes the connection.
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    pub(crate) host: String,
    _connection: Group<()>,
}

/// The part of a file to request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// The first byte.
    pub(crate) from: u64,
    /// The validator for `If-Range`: the part is sent only if the file is still this version.
    pub(crate) validator: Option<String>,
}

/// Parses a URL and checks that downloads from it are allowed: https, or http on the loopback interface.
pub(crate) fn allowed(url: &str) -> Result<Uri, Failure> {
    let refused = || Failure::Address { url: without_secrets(url) };
    let uri: Uri = url.parse().map_err(|_| refused())?;
    let host = host_of(&uri);
    match uri.scheme_str() {
        _ if host.is_empty() => Err(refused()),
        Some("https") => Ok(uri),
        Some("http") if is_loopback(&host) => Ok(uri),
        _ => Err(refused()),
    }
}

/// A URL for messages: without the query, which can contain a signature, and without a password.
pub(crate) fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) =
                rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            path.map_or_else(|| format!("{scheme}://{host}"), |path| format!("{scheme}://{host}/{path}"))
        }
        None => url.to_owned(),
    }
}

fn host_of(uri: &Uri) -> String {
    uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// Requests a file and follows redirects.
pub(crate) async fn get(means: &Means, url: &str, wanted: &Wanted) -> Result<Answer, Failure> {
    let mut uri = allowed(url)?;
    for _ in 0..=REDIRECTS_MAX {
        let answer = ask(means, &uri, wanted).await?;
        if !matches!(answer.response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(answer);
        }
        let location = answer.response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        uri = follow(&uri, location.unwrap_or_default())?;
    }
    Err(Failure::Redirects)
}

/// The target of a redirect. A redirect from https may only lead to https: neither to plain text nor to a local
/// service.
fn follow(from: &Uri, location: &str) -> Result<Uri, Failure> {
    let location = location.split('#').next().unwrap_or_default();
    let authority = from.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let scheme = from.scheme_str().unwrap_or_default();
    let url = match location {
        _ if location.contains("://") => location.to_owned(),
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{authority}{location}"),
        _ => {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{authority}{folder}/{location}")
        }
    };
    let next = allowed(&url)?;
    // `allowed` accepts http on the loopback interface, which a remote server must not reach.
    if scheme == "https" && next.scheme_str() != Some("https") {
        return Err(Failure::Address { url: without_secrets(&url) });
    }
    Ok(next)
}

async fn ask(means: &Means, uri: &Uri, wanted: &Wanted) -> Result<Answer, Failure> {
    let host = host_of(uri);
    let silence = Failure::Silence { seconds: means.silence.as_secs() };
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let connect = |source| Failure::Connect { host: host.clone(), source };
    let took_too_long = || connect(io::Error::from(io::ErrorKind::TimedOut));
    let stream = timeout(CONNECT_WITHIN, reach(means, &host, port)).await.map_err(|_| took_too_long())??;
    let request = request(uri, wanted).ok_or_else(|| Failure::Address { url: without_secrets(&uri.to_string()) })?;
    let answer = async {
        if !is_tls {
            return talk(stream, request, &host).await;
        }
        let name = ServerName::try_from(host.clone()).map_err(|error| connect(io::Error::other(error)))?;
        let stream = TlsConnector::from(means.tls.clone()).connect(name, stream).await.map_err(connect)?;
        talk(stream, request, &host).await
    };
    timeout(means.silence, answer).await.map_err(|_| silence)?
}

/// Connects to the server, directly or through a proxy's CONNECT.
async fn reach(means: &Means, host: &str, port: u16) -> Result<TcpStream, Failure> {
    let failed = |host: &str| {
        let host = host.to_owned();
        move |source| Failure::Connect { host, source }
    };
    let Some(proxy) = means.proxy.as_ref().filter(|proxy| proxy.is_for(host)) else {
        return dns::connect(host, port).await.map_err(failed(host));
    };
    let (proxy_host, proxy_port) = proxy.address();
    let mut stream = dns::connect(proxy_host, proxy_port).await.map_err(failed(proxy_host))?;
    stream.write_all(proxy.greeting(host, port).as_bytes()).await.map_err(failed(proxy_host))?;
    let mut answer = Vec::new();
    // Read single bytes: the data after the empty line belongs to the server's stream.
    while !answer.ends_with(b"\r\n\r\n") && answer.len() < GREETING_MAX {
        answer.push(stream.read_u8().await.map_err(failed(proxy_host))?);
    }
    let first = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    let status = first.split(' ').nth(1).unwrap_or_default();
    if !first.starts_with("HTTP/1.") || !status.starts_with('2') || !answer.ends_with(b"\r\n\r\n") {
        return Err(Failure::Proxy { proxy: format!("{proxy_host}:{proxy_port}"), answer: first });
    }
    Ok(stream)
}

async fn talk<S>(stream: S, request: Request<Empty<Bytes>>, host: &str) -> Result<Answer, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |source| Failure::Talk { host: host.to_owned(), source };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let mut group = Group::default();
    // Errors of the connection also surface in the response or its body.
    group.spawn("connection", async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(failed)?;
    Ok(Answer { response, host: host.to_owned(), _connection: group })
}

fn request(uri: &Uri, wanted: &Wanted) -> Option<Request<Empty<Bytes>>> {
    let authority = uri.authority()?.as_str();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, host)
        .header(header::USER_AGENT, "rdd")
        .header(header::ACCEPT, "*/*")
        // With compression, lengths and ranges would not be those of the file.
        .header(header::ACCEPT_ENCODING, "identity");
    let request = match (wanted.from, &wanted.validator) {
        (0, _) => request,
        // Without a validator, a changed file is detected by its digest.
        (from, None) => request.header(header::RANGE, format!("bytes={from}-")),
        (from, Some(validator)) => {
            request.header(header::RANGE, format!("bytes={from}-")).header(header::IF_RANGE, validator)
        }
    };
    request.body(Empty::new()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_allowed_and_http_on_this_machine() {
        for url in ["https://example.org/x", "http://127.0.0.1:8080/x", "http://localhost/x", "http://[::1]:1/x"] {
            assert!(allowed(url).is_ok(), "{url}");
        }
        for url in ["http://example.org/x", "ftp://example.org/x", "file:///etc/passwd", "/x", "", "https://"] {
            assert!(allowed(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_redirect_never_leaves_https() {
        let from: Uri = "https://a.example/one/two?x=1".parse().unwrap();
        for (location, to) in [
            ("https://b.example/y", "https://b.example/y"),
            ("/y?z", "https://a.example/y?z"),
            ("y#part", "https://a.example/one/y"),
            ("//c.example/y", "https://c.example/y"),
        ] {
            assert_eq!(follow(&from, location).unwrap().to_string(), to);
        }
        for location in ["http://b.example/y", "http://127.0.0.1/y", "file:///x", "javascript://x"] {
            assert!(matches!(follow(&from, location), Err(Failure::Address { .. })), "{location}");
        }
        let local: Uri = "http://127.0.0.1:1/x".parse().unwrap();
        assert!(follow(&local, "https://b.example/y").is_ok());
        assert!(follow(&local, "http://b.example/y").is_err());
    }

    #[test]
    fn messages_show_no_signature_and_no_password() {
        assert_eq!(without_secrets("https://ann:pw@h.example/x/y?X-Signature=abc#z"), "https://h.example/x/y");
    }
}
