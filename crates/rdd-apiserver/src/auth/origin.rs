//! Checks of Host, Origin and Sec-Fetch-Site: the defence against web pages that reach loopback through the user's browser.

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header, uri::Authority};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The reason for refusing an authenticated request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request has no host, several Host headers, or an invalid one.
    #[error("the request must name its host once")]
    NoHost,
    /// The host is not a loopback name of this machine, which indicates DNS rebinding.
    #[error("the Host of a request must be 127.0.0.1, [::1] or localhost")]
    ForeignHost,
    /// The request comes from a page of another origin.
    #[error("the Origin of a request, if any, must be that of this server")]
    ForeignOrigin,
    /// The browser marks the request as coming from a page of another site.
    #[error("requests from other web sites are refused")]
    CrossSite,
}

/// Checks that a request is addressed to this server and not sent by a web page of another origin. `port` is the port that the
/// server listens on.
pub fn check_origin(uri: &Uri, headers: &HeaderMap, port: u16) -> Result<(), Refusal> {
    // One pass over the few headers is faster than three look-ups.
    let (mut hosts, mut origins, mut is_cross_site) = (Vec::new(), Vec::new(), false);
    for (name, value) in headers {
        if *name == header::HOST {
            hosts.push(value);
        } else if *name == header::ORIGIN {
            origins.push(value);
        } else if *name == SEC_FETCH_SITE {
            is_cross_site |= value.as_bytes().eq_ignore_ascii_case(b"cross-site");
        }
    }
    check_host(uri, &hosts)?;
    // No web page can forge its Origin. A desktop application that embeds a browser and sets our origin is legitimate, although
    // the browser marks its requests as cross-site.
    let comes_from_us = !origins.is_empty();
    if !origins.iter().all(|origin| origin.to_str().is_ok_and(|origin| is_own_origin(origin, port))) {
        return Err(Refusal::ForeignOrigin);
    }
    if is_cross_site && !comes_from_us {
        return Err(Refusal::CrossSite);
    }
    Ok(())
}

/// Checks the host: HTTP/2 has it in the URI, HTTP/1.1 in a header or, rarely, in both. Each one that is present must be
/// loopback.
fn check_host(uri: &Uri, hosts: &[&HeaderValue]) -> Result<(), Refusal> {
    let (named, more) = (hosts.first(), hosts.get(1));
    if more.is_some() || (named.is_none() && uri.authority().is_none()) {
        return Err(Refusal::NoHost);
    }
    if let Some(authority) = uri.authority()
        && !is_loopback(authority)
    {
        return Err(Refusal::ForeignHost);
    }
    let Some(named) = named else { return Ok(()) };
    let authority = named.to_str().ok().and_then(|host| host.parse::<Authority>().ok()).ok_or(Refusal::NoHost)?;
    if is_loopback(&authority) { Ok(()) } else { Err(Refusal::ForeignHost) }
}

/// Whether the authority is a loopback name with an optional port. User information, as in `127.0.0.1:80@evil.example`, is not a
/// port and fails the check.
fn is_loopback(authority: &Authority) -> bool {
    let after = |host: &str| {
        let (start, rest) = authority.as_str().split_at_checked(host.len())?;
        start.eq_ignore_ascii_case(host).then_some(rest)
    };
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mut rests = ["127.0.0.1", "localhost", "[::1]"].into_iter().filter_map(after);
    rests.any(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

fn is_own_origin(origin: &str, port: u16) -> bool {
    let Some(authority) = origin.strip_prefix("https://").and_then(|rest| rest.parse::<Authority>().ok()) else {
        return false;
    };
    is_loopback(&authority) && authority.port_u16().unwrap_or(443) == port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(headers: &[(&'static str, &'static str)], expected: Result<(), Refusal>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, http::HeaderValue::from_static(value));
        }
        assert_eq!(check_origin(&Uri::from_static("/api"), &map, 6445), expected, "{headers:?}");
    }

    #[test]
    fn only_loopback_names_are_hosts_of_ours() {
        for host in ["127.0.0.1", "127.0.0.1:6445", "[::1]:6445", "[::1]", "localhost", "LocalHost:1"] {
            check(&[("host", host)], Ok(()));
        }
        for host in [
            "evil.example",
            "evil.example:6445",
            "127.0.0.1.evil.example",
            "localhost.evil.example:6445",
            "127.0.0.2",
            "0.0.0.0:6445",
            "127.1",
            "[::2]",
            "user@127.0.0.1",
            "127.0.0.1:80@evil.example",
            "localhost:@evil.example",
        ] {
            check(&[("host", host)], Err(Refusal::ForeignHost));
        }
        check(&[], Err(Refusal::NoHost));
        check(&[("host", "")], Err(Refusal::NoHost));
        check(&[("host", "127.0.0.1"), ("host", "127.0.0.1")], Err(Refusal::NoHost));
    }

    #[test]
    fn the_host_in_the_uri_counts_as_well_as_the_header() {
        let mut headers = HeaderMap::new();
        let ours = Uri::from_static("https://127.0.0.1:6445/api");
        let theirs = Uri::from_static("https://evil.example/api");
        assert_eq!(check_origin(&ours, &headers, 6445), Ok(()));
        assert_eq!(check_origin(&theirs, &headers, 6445), Err(Refusal::ForeignHost));
        headers.insert("host", http::HeaderValue::from_static("127.0.0.1"));
        assert_eq!(check_origin(&theirs, &headers, 6445), Err(Refusal::ForeignHost));
        headers.insert("host", http::HeaderValue::from_static("evil.example"));
        assert_eq!(check_origin(&ours, &headers, 6445), Err(Refusal::ForeignHost));
    }

    #[test]
    fn an_origin_must_be_our_own_to_the_port() {
        let host = ("host", "127.0.0.1:6445");
        for origin in ["https://127.0.0.1:6445", "https://localhost:6445", "https://[::1]:6445"] {
            check(&[host, ("origin", origin)], Ok(()));
        }
        for origin in [
            "null",
            "",
            "http://127.0.0.1:6445",
            "https://127.0.0.1",
            "https://127.0.0.1:6446",
            "https://evil.example:6445",
            "https://127.0.0.1:6445.evil.example",
        ] {
            check(&[host, ("origin", origin)], Err(Refusal::ForeignOrigin));
        }
    }

    #[test]
    fn what_a_browser_marks_as_cross_site_is_refused_unless_its_origin_is_ours() {
        let host = ("host", "127.0.0.1:6445");
        for site in ["same-origin", "none", "same-site"] {
            check(&[host, ("sec-fetch-site", site)], Ok(()));
        }
        check(&[host, ("sec-fetch-site", "cross-site")], Err(Refusal::CrossSite));
        check(&[host, ("sec-fetch-site", "cross-site"), ("origin", "https://127.0.0.1:6445")], Ok(()));
        let foreign = ("origin", "https://evil.example");
        check(&[host, ("sec-fetch-site", "cross-site"), foreign], Err(Refusal::ForeignOrigin));
    }
}
