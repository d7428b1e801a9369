//! Parses the parts of a URL that webhook validation needs, like Go's `url.Parse`, including its errors.

use std::net::Ipv6Addr;

use rdd_meta::go_text::quote;

/// The relevant parts of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WebUrl {
    /// The scheme in lower case.
    pub(crate) scheme: String,
    /// The host with its port.
    pub(crate) host: String,
    /// User name and password, escaped.
    pub(crate) user: Option<String>,
    /// The fragment, unescaped.
    pub(crate) fragment: String,
    /// The query, unchanged.
    pub(crate) query: String,
}

impl WebUrl {
    /// Parses a URL. Errors have Go's text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let complaint = |text: &str, problem: String| format!("parse {}: {problem}", quote(text));
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = parse_without_fragment(rest).map_err(|problem| complaint(rest, problem))?;
        let fragment = unescape(fragment, Part::Other).map_err(|problem| complaint(text, problem))?;
        url.fragment = String::from_utf8_lossy(&fragment).into_owned();
        Ok(url)
    }
}

fn parse_without_fragment(text: &str) -> Result<WebUrl, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let mut url = WebUrl::default();
    if text == "*" {
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            return Ok(url);
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut path = rest;
    if let Some(after) = rest.strip_prefix("//")
        && (!url.scheme.is_empty() || !rest.starts_with("///"))
    {
        let (authority, after) = after.split_at(after.find('/').unwrap_or(after.len()));
        path = after;
        read_authority(&mut url, authority)?;
    }
    unescape(path, Part::Other)?;
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let length = text.bytes().take_while(|byte| is_scheme(byte)).count();
    match text[length..].strip_prefix(':') {
        Some(_) if length == 0 => Err("missing protocol scheme".to_owned()),
        Some(rest) if text.as_bytes()[0].is_ascii_alphabetic() => Ok((&text[..length], rest)),
        _ => Ok(("", text)),
    }
}

fn read_authority(url: &mut WebUrl, authority: &str) -> Result<(), String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    url.host = read_host(&url.scheme, host)?;
    let Some(user) = user else { return Ok(()) };
    if !user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let parts: Result<Vec<String>, String> =
        user.splitn(2, ':').map(|part| unescape(part, Part::Other).map(|bytes| escape_user(&bytes))).collect();
    url.user = Some(parts?.join(":"));
    Ok(())
}

fn read_host(scheme: &str, host: &str) -> Result<String, String> {
    match host.rfind('[') {
        Some(0) => return read_literal(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    // Go requires a single colon in the host only for these two schemes.
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    if let Some(colon) = colon {
        check_port(&host[colon..])?;
    }
    Ok(String::from_utf8_lossy(&unescape(host, Part::Host)?).into_owned())
}

fn read_literal(host: &str) -> Result<String, String> {
    let close = host.rfind(']').ok_or("missing ']' in host")?;
    let (address, port) = (&host[1..close], &host[close + 1..]);
    check_port(port)?;
    let (plain, zone) = address.split_at(address.find("%25").unwrap_or(address.len()));
    let mut bytes = unescape(plain, Part::Host)?;
    let plain = String::from_utf8_lossy(&bytes).into_owned();
    bytes.extend(unescape(zone, Part::Zone)?);
    let address = String::from_utf8_lossy(&bytes).into_owned();
    if plain.parse::<std::net::Ipv4Addr>().is_ok() {
        return Err("invalid IP-literal".to_owned());
    }
    if plain.parse::<Ipv6Addr>().is_err() {
        return Err(format!("invalid host: ParseAddr({}): unable to parse IP", quote(&address)));
    }
    Ok(format!("[{address}]{port}"))
}

fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':');
    let valid = port.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if valid { Ok(()) } else { Err(format!("invalid port {} after host", quote(port))) }
}

/// The part of the URL that an escape is in; hosts allow few escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Zone,
    Other,
}

fn is_host_byte(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        if byte == b'%' {
            plain.push(escaped_byte(&bytes[at..], part)?);
            at += 3;
            continue;
        }
        if part != Part::Other && !is_host_byte(byte) {
            return Err(format!("invalid character {} in host name", quote(&char::from(byte).to_string())));
        }
        plain.push(byte);
        at += 1;
    }
    Ok(plain)
}

fn escaped_byte(bytes: &[u8], part: Part) -> Result<u8, String> {
    let shown = &bytes[..bytes.len().min(3)];
    let refused = || format!("invalid URL escape {}", quote(&String::from_utf8_lossy(shown)));
    let digit = |at: usize| shown.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (Some(high), Some(low)) = (digit(1), digit(2)) else { return Err(refused()) };
    let byte = u8::try_from(high * 16 + low).map_err(|_| refused())?;
    let allowed = match part {
        Part::Host => byte >= 0x80 || byte == b'%',
        Part::Zone => byte == b'%' || byte == b' ' || (byte < 0x80 && is_host_byte(byte)),
        Part::Other => true,
    };
    if allowed { Ok(byte) } else { Err(refused()) }
}

fn escape_user(bytes: &[u8]) -> String {
    let of_byte = |byte: &u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-_.~$&+,;=".contains(byte) => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(of_byte).collect()
}
