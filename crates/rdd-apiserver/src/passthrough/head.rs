//! Headers and paths of proxied requests: removes credentials and hop-by-hop headers, adds `X-Forwarded-For`.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header, request::Parts, uri::PathAndQuery};

/// Headers that carry credentials. The authentication removes the bearer token even before handlers run.
const CREDENTIALS: [HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];
/// Hop-by-hop headers: they apply to one connection and are not forwarded.
const HOP_BY_HOP: [&str; 7] =
    ["connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer", "transfer-encoding"];
/// The prefix of headers by which an authenticating proxy asserts a user.
const REMOTE_PREFIX: &str = "x-remote-";
const IMPERSONATE_PREFIX: &str = "impersonate-";
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Removes all headers that prove or assert an identity.
pub(super) fn strip_credentials(headers: &mut HeaderMap) {
    for name in CREDENTIALS {
        headers.remove(name);
    }
    let claims =
        |name: &&HeaderName| [REMOTE_PREFIX, IMPERSONATE_PREFIX].iter().any(|it| name.as_str().starts_with(it));
    let claims: Vec<_> = headers.keys().filter(claims).cloned().collect();
    for name in claims {
        headers.remove(name);
    }
    rdd_websocket::strip_bearer_protocol(headers);
}

/// Appends the client's address to `X-Forwarded-For`, as Go's reverse proxy does.
pub(super) fn add_forwarded_for(headers: &mut HeaderMap, client: IpAddr) {
    let before = headers.get_all(X_FORWARDED_FOR).iter().flat_map(|value| [value.as_bytes(), b", "]);
    let all: Vec<u8> = before.flatten().copied().chain(client.to_string().into_bytes()).collect();
    // Several headers of one name are equivalent to one with the values joined by commas.
    if let Ok(value) = HeaderValue::from_bytes(&all) {
        headers.insert(X_FORWARDED_FOR, value);
    }
}

/// Removes hop-by-hop headers, but keeps a request to upgrade the connection.
pub(super) fn strip_connection(headers: &mut HeaderMap) {
    let upgrade = headers.get(header::UPGRADE).cloned();
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').filter_map(|name| name.trim().parse().ok()))
        .collect();
    // `Connection` lists further headers that apply to this connection only.
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove(header::UPGRADE);
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, protocol);
    }
}

/// Adds the `Host` header that HTTP/1.1 requires; HTTP/2 has the authority in the URI instead.
pub(super) fn name_host(head: &mut Parts) {
    if !head.headers.contains_key(header::HOST) {
        let host = head.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
        head.headers.insert(header::HOST, host.unwrap_or(HeaderValue::from_static("localhost")));
    }
}

/// Builds a URI from a path and a query. Text that is not a valid path becomes `/`, the root of the endpoint.
pub(super) fn uri(path: &str, query: Option<&str>) -> Uri {
    let text = match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    PathAndQuery::try_from(text).map_or_else(|_| Uri::from_static("/"), Uri::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn nothing_that_proves_or_claims_who_somebody_is_goes_on() {
        let mut sent = headers(&[
            ("authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("proxy-authorization", "Basic x"),
            ("x-remote-user", "admin"),
            ("impersonate-group", "system:masters"),
            ("sec-websocket-protocol", "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"),
            ("accept", "text/plain"),
        ]);
        strip_credentials(&mut sent);
        assert_eq!(sent, headers(&[("sec-websocket-protocol", "v4.channel.k8s.io"), ("accept", "text/plain")]));
    }

    // Finding E-4
    #[test]
    fn the_client_is_named_after_the_proxies_before() {
        let mut sent = headers(&[("accept", "*/*")]);
        add_forwarded_for(&mut sent, [127, 0, 0, 1].into());
        assert_eq!(sent, headers(&[("accept", "*/*"), ("x-forwarded-for", "127.0.0.1")]));
        let mut sent = headers(&[("x-forwarded-for", "10.0.0.1, 10.0.0.2"), ("x-forwarded-for", "10.0.0.3")]);
        add_forwarded_for(&mut sent, std::net::Ipv6Addr::LOCALHOST.into());
        assert_eq!(sent, headers(&[("x-forwarded-for", "10.0.0.1, 10.0.0.2, 10.0.0.3, ::1")]));
    }

    #[test]
    fn what_is_about_the_connection_stays_behind_unless_it_is_to_be_upgraded() {
        let mut sent =
            headers(&[("connection", "close, x-mine"), ("x-mine", "1"), ("te", "trailers"), ("accept", "*/*")]);
        strip_connection(&mut sent);
        assert_eq!(sent, headers(&[("accept", "*/*")]));
        let mut sent = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket"), ("keep-alive", "5")]);
        strip_connection(&mut sent);
        assert_eq!(sent, headers(&[("connection", "Upgrade"), ("upgrade", "websocket")]));
    }
}
