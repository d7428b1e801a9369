//! URLs, parsed and formatted as Go's `net/url` does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rdd_meta::go_text;

use crate::libs::net;
use crate::value::{Fault, List, Map, MapValues, Outcome, Value};

/// A parsed URL.
#[derive(Debug, Clone, Default)]
pub struct Url {
    scheme: String,
    opaque: String,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    host: String,
    path: Vec<u8>,
    raw_path: String,
    omit_host: bool,
    force_query: bool,
    raw_query: String,
    fragment: String,
}

/// A part of a URL; each allows other characters without an escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

fn must_escape(octet: u8, part: Part) -> bool {
    if octet.is_ascii_alphanumeric() || b"-_.~".contains(&octet) {
        return false;
    }
    match part {
        Part::Host | Part::Zone => !b"!$&'()*+,;=:[]<>\"".contains(&octet),
        Part::Path => !b"$&+,/:;=@".contains(&octet),
        Part::User => !b"$&+,;=".contains(&octet),
        Part::Query => true,
        Part::Fragment => !b"$&+,/:;=?@!()*".contains(&octet),
    }
}

fn escape(octets: &[u8], part: Part) -> String {
    let mut text = String::with_capacity(octets.len());
    for octet in octets {
        if must_escape(*octet, part) {
            text.push_str(&format!("%{octet:02X}"));
        } else {
            text.push(*octet as char);
        }
    }
    text
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let octets = text.as_bytes();
    let mut plain = Vec::with_capacity(octets.len());
    let mut at = 0;
    while at < octets.len() {
        match octets[at] {
            b'%' => {
                let pair = octets.get(at + 1..at + 3).filter(|pair| pair.iter().all(u8::is_ascii_hexdigit));
                let shown = String::from_utf8_lossy(&octets[at..octets.len().min(at + 3)]).into_owned();
                let refused = || format!("invalid URL escape {}", go_text::quote(&shown));
                let hex = pair.and_then(|pair| std::str::from_utf8(pair).ok()).ok_or_else(refused)?;
                let value = u8::from_str_radix(hex, 16).map_err(|_| refused())?;
                let allowed = match part {
                    Part::Host => value >= 0x80 || shown == "%25",
                    Part::Zone => shown == "%25" || value == b' ' || !must_escape(value, Part::Host),
                    _ => true,
                };
                if !allowed {
                    return Err(refused());
                }
                plain.push(value);
                at += 3;
                continue;
            }
            // Only in a query does a plus sign mean a space.
            b'+' if part == Part::Query => plain.push(b' '),
            octet if matches!(part, Part::Host | Part::Zone) && octet < 0x80 && must_escape(octet, part) => {
                return Err(format!("invalid character {} in host name", go_text::quote(&(octet as char).to_string())));
            }
            octet => plain.push(octet),
        }
        at += 1;
    }
    Ok(plain)
}

/// Decodes UTF-8 and replaces invalid bytes.
fn lossy(octets: Vec<u8>) -> String {
    String::from_utf8(octets).unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned())
}

impl Url {
    /// Parses as Go's `url.ParseRequestURI`: an absolute URL or a path.
    pub(crate) fn parse_request(text: &str) -> Result<Self, String> {
        parse_rest(text, true).map_err(|problem| format!("parse {}: {problem}", go_text::quote(text)))
    }

    /// Parses as Go's `url.Parse`.
    fn parse(text: &str) -> Result<Self, String> {
        let wrap = |text: &str, problem: String| format!("parse {}: {problem}", go_text::quote(text));
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = parse_rest(rest, false).map_err(|problem| wrap(rest, problem))?;
        url.fragment = lossy(unescape(fragment, Part::Fragment).map_err(|problem| wrap(text, problem))?);
        Ok(url)
    }

    /// The escaped path: as it was written, if that is a valid encoding.
    fn escaped_path(&self) -> String {
        let valid = |octet: u8| b"!$&'()*+,;=:@[]%".contains(&octet) || !must_escape(octet, Part::Path);
        if !self.raw_path.is_empty()
            && self.raw_path.bytes().all(valid)
            && unescape(&self.raw_path, Part::Path).is_ok_and(|path| path == self.path)
        {
            return self.raw_path.clone();
        }
        if self.path == b"*" { "*".into() } else { escape(&self.path, Part::Path) }
    }

    /// Splits the host and the port; brackets around an IPv6 address are removed.
    fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rfind(':').filter(|at| is_optional_port(&self.host[*at..])) {
            Some(at) => (&self.host[..at], &self.host[at + 1..]),
            None => (self.host.as_str(), ""),
        };
        (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.push_str(&format!("{}:", self.scheme));
        }
        if self.opaque.is_empty() {
            let has_authority = !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some();
            if has_authority && !(self.omit_host && self.host.is_empty() && self.user.is_none()) {
                if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
                    text.push_str("//");
                }
                if let Some((name, password)) = &self.user {
                    text.push_str(&escape(name, Part::User));
                    if let Some(password) = password {
                        text.push_str(&format!(":{}", escape(password, Part::User)));
                    }
                    text.push('@');
                }
                text.push_str(&escape(self.host.as_bytes(), Part::Host));
            }
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                text.push('/');
            }
            // Without `./`, the first segment would read as a scheme.
            if text.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                text.push_str("./");
            }
            text.push_str(&path);
        } else {
            text.push_str(&self.opaque);
        }
        if self.force_query || !self.raw_query.is_empty() {
            text.push_str(&format!("?{}", self.raw_query));
        }
        if !self.fragment.is_empty() {
            text.push_str(&format!("#{}", escape(self.fragment.as_bytes(), Part::Fragment)));
        }
        f.write_str(&text)
    }
}

/// Parses a URL without its fragment; `via_request` refuses relative paths.
fn parse_rest(text: &str, via_request: bool) -> Result<Url, String> {
    if text.bytes().any(|octet| octet < 0x20 || octet == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    if text.is_empty() && via_request {
        return Err("empty url".into());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, mut rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    // A lone question mark at the end is kept, although there is no query.
    if rest.ends_with('?') && rest.matches('?').count() == 1 {
        url.force_query = true;
        rest = &rest[..rest.len() - 1];
    } else if let Some((before, query)) = rest.split_once('?') {
        url.raw_query = query.into();
        rest = before;
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.into();
            return Ok(url);
        }
        if via_request {
            return Err("invalid URI for request".into());
        }
        // Otherwise a relative path could be confused with a scheme.
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    let has_authority = !url.scheme.is_empty() || (!via_request && !rest.starts_with("///"));
    if has_authority && rest.starts_with("//") {
        let after = &rest[2..];
        let end = after.find('/').unwrap_or(after.len());
        rest = &after[end..];
        authority(&mut url, &after[..end])?;
    } else if !url.scheme.is_empty() && rest.starts_with('/') {
        url.omit_host = true;
    }
    url.path = unescape(rest, Part::Path)?;
    // The original is kept only if escaping does not reproduce it.
    if escape(&url.path, Part::Path) != rest {
        url.raw_path = rest.into();
    }
    Ok(url)
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, octet) in text.bytes().enumerate() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn authority(url: &mut Url, text: &str) -> Result<(), String> {
    // The last `@` separates the host: a password may contain others.
    let (user, host_text) = text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
    url.host = host_of(&url.scheme, host_text)?;
    let Some(user) = user else { return Ok(()) };
    let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(valid) {
        return Err("net/url: invalid userinfo".into());
    }
    let (name, password) = user.split_once(':').map_or((user, None), |(name, password)| (name, Some(password)));
    let password = password.map(|password| unescape(password, Part::User)).transpose()?;
    url.user = Some((unescape(name, Part::User)?, password));
    Ok(())
}

/// Parses the host, which may be an IPv6 address in brackets, with its port.
fn host_of(scheme: &str, host: &str) -> Result<String, String> {
    match host.rfind('[') {
        Some(0) => {
            let close = host.rfind(']').ok_or("missing ']' in host")?;
            let port = &host[close + 1..];
            if !is_optional_port(port) {
                return Err(format!("invalid port {} after host", go_text::quote(port)));
            }
            let name = &host[1..close];
            let name = match name.find("%25") {
                Some(zone) => {
                    let mut plain = unescape(&name[..zone], Part::Host)?;
                    plain.extend(unescape(&name[zone..], Part::Zone)?);
                    lossy(plain)
                }
                None => lossy(unescape(name, Part::Host)?),
            };
            let address = net::parse_address(&name).map_err(|problem| format!("invalid host: {problem}"))?;
            if address.0.is_ipv4() {
                return Err("invalid IP-literal".into());
            }
            return Ok(format!("[{name}]{port}"));
        }
        Some(_) => return Err("invalid IP-literal".into()),
        None => {}
    }
    if let (Some(first), Some(last)) = (host.find(':'), host.rfind(':')) {
        // For these schemes, everything after the first colon is the port.
        let strict = matches!(scheme, "http" | "https");
        let port = &host[if first != last && !strict { last } else { first }..];
        if !is_optional_port(port) {
            return Err(format!("invalid port {} after host", go_text::quote(port)));
        }
    }
    Ok(lossy(unescape(host, Part::Host)?))
}

fn is_optional_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|octet| octet.is_ascii_digit()))
}

pub(crate) fn parse<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let Value::String(text) = &args[0] else { return Err(Fault::no_such_overload()) };
    Url::parse_request(text)
        // Kubernetes parses twice: first strictly, then with the fragment.
        .and_then(|_| Url::parse(text))
        .map(|url| Value::Url(Arc::new(url)))
        .map_err(|problem| Fault::error(format!("URL parse error during conversion from string: {problem}")))
}

pub(crate) fn is_url<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let Value::String(text) = &args[0] else { return Err(Fault::no_such_overload()) };
    Ok(Value::Bool(Url::parse_request(text).is_ok()))
}

fn part<'a>(args: &[Value<'a>], of: fn(&Url) -> String) -> Outcome<'a> {
    match &args[0] {
        Value::Url(url) => Ok(Value::text(of(url))),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn scheme_part<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |url| url.scheme.clone())
}

pub(crate) fn host<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |url| url.host.clone())
}

pub(crate) fn hostname<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |url| url.host_and_port().0.to_owned())
}

pub(crate) fn port<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |url| url.host_and_port().1.to_owned())
}

pub(crate) fn escaped_path<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    part(args, Url::escaped_path)
}

pub(crate) fn query<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let Value::Url(url) = &args[0] else { return Err(Fault::no_such_overload()) };
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // As in Go, pairs with a semicolon or an invalid escape are dropped.
    for pair in url.raw_query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Ok(key), Ok(value)) = (unescape(key, Part::Query), unescape(value, Part::Query)) {
            found.entry(lossy(key)).or_default().push(lossy(value));
        }
    }
    let mut values = MapValues::default();
    for (key, texts) in found {
        values.insert(Value::text(key), Value::List(List::new(texts.into_iter().map(Value::text).collect())))?;
    }
    Ok(Value::Map(Map::new(values)))
}
