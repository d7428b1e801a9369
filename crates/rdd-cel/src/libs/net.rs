//! IP addresses and networks, parsed as Go's `net/netip` does.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rdd_meta::go_text;

use crate::value::{Fault, Outcome, Value};

/// An address and the length of its network prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The address, including the host bits
    pub address: IpAddr,
    /// The length of the prefix in bits
    pub bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    fn network(&self, address: IpAddr) -> u128 {
        let (value, width) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        // With a prefix of length 0 the network contains every address: a shift by the whole width gives 0.
        value.checked_shr(width - u32::from(self.bits)).unwrap_or(0)
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && self.network(self.address) == self.network(address)
    }

    fn masked(&self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
            }
        };
        Self { address, ..*self }
    }
}

/// Parses as Go's `netip.ParseAddr`. Returns the address and its zone; the error is Go's text.
pub(crate) fn parse_address(text: &str) -> Result<(IpAddr, String), String> {
    let fail = |message: &str| format!("ParseAddr({}): {message}", go_text::quote(text));
    for octet in text.bytes() {
        match octet {
            b'.' => {
                let octets = v4_fields(text, text)?;
                return Ok((IpAddr::V4(octets.into()), String::new()));
            }
            b':' => return v6(text),
            b'%' => return Err(fail("missing IPv6 address")),
            _ => {}
        }
    }
    Err(fail("unable to parse IP"))
}

/// Parses the four fields of an IPv4 address; `whole` is the text that errors show.
fn v4_fields(whole: &str, text: &str) -> Result<[u8; 4], String> {
    let fail = |message: &str| format!("ParseAddr({}): {message}", go_text::quote(whole));
    let fail_at = |message: &str, at: &str| {
        format!("ParseAddr({}): {message} (at {})", go_text::quote(whole), go_text::quote(at))
    };
    let octets = text.as_bytes();
    let (mut fields, mut field, mut value, mut digits) = ([0u8; 4], 0, 0u32, 0);
    for (at, octet) in octets.iter().enumerate() {
        match octet {
            b'0'..=b'9' => {
                // A leading zero could mean an octal number, so Go refuses it.
                if digits == 1 && value == 0 {
                    return Err(fail("IPv4 field has octet with leading zero"));
                }
                value = value * 10 + u32::from(octet - b'0');
                digits += 1;
                if value > 255 {
                    return Err(fail("IPv4 field has value >255"));
                }
            }
            b'.' => {
                if at == 0 || at == octets.len() - 1 || octets[at - 1] == b'.' {
                    return Err(fail_at("IPv4 field must have at least one digit", &text[at..]));
                }
                if field == 3 {
                    return Err(fail("IPv4 address too long"));
                }
                fields[field] = value as u8;
                field += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(fail_at("unexpected character", &text[at..])),
        }
    }
    if field < 3 {
        return Err(fail("IPv4 address too short"));
    }
    fields[3] = value as u8;
    Ok(fields)
}

/// Parses an IPv6 address, which may end with an IPv4 address and a zone.
fn v6(whole: &str) -> Result<(IpAddr, String), String> {
    let fail = |message: &str| Err(format!("ParseAddr({}): {message}", go_text::quote(whole)));
    let fail_at = |message: &str, at: &str| {
        Err(format!("ParseAddr({}): {message} (at {})", go_text::quote(whole), go_text::quote(at)))
    };
    let (mut rest, zone) = match whole.split_once('%') {
        Some((_, "")) => return fail("zone must be a non-empty string"),
        Some((address, zone)) => (address, zone),
        None => (whole, ""),
    };
    let mut octets = [0u8; 16];
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok((IpAddr::V6(Ipv6Addr::UNSPECIFIED), zone.into()));
        }
    }
    let mut at = 0;
    while at < 16 {
        let mut digits = 0;
        let mut group: u32 = 0;
        for octet in rest.bytes() {
            let Some(digit) = (octet as char).to_digit(16) else { break };
            group = (group << 4) + digit;
            if digits > 3 {
                return fail_at("each group must have 4 or less digits", rest);
            }
            if group > 0xffff {
                return fail_at("IPv6 field has value >=2^16", rest);
            }
            digits += 1;
        }
        if digits == 0 {
            return fail_at("each colon-separated field must have at least one digit", rest);
        }
        if rest.as_bytes().get(digits) == Some(&b'.') {
            if ellipsis.is_none() && at != 12 {
                return fail_at("embedded IPv4 address must replace the final 2 fields of the address", rest);
            }
            if at + 4 > 16 {
                return fail_at("too many hex fields to fit an embedded IPv4 at the end of the address", rest);
            }
            octets[at..at + 4].copy_from_slice(&v4_fields(whole, rest)?);
            rest = "";
            at += 4;
            break;
        }
        octets[at] = (group >> 8) as u8;
        octets[at + 1] = group as u8;
        at += 2;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else { return fail_at("unexpected character, want colon", rest) };
        if after.is_empty() {
            return fail_at("colon must be followed by more characters", rest);
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return fail_at("multiple :: in address", rest);
            }
            ellipsis = Some(at);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return fail_at("trailing garbage after address", rest);
    }
    match (at < 16, ellipsis) {
        (true, None) => return fail("address string too short"),
        // The octets after the `::` move to the end, and zeros fill the gap.
        (true, Some(start)) => {
            let gap = 16 - at;
            octets.copy_within(start..at, start + gap);
            octets[start..start + gap].fill(0);
        }
        (false, Some(_)) => return fail("the :: must expand to at least one field of zeros"),
        (false, None) => {}
    }
    Ok((IpAddr::V6(octets.into()), zone.into()))
}

/// Parses an address for an expression: it must not have a zone or be an IPv4-mapped IPv6 address.
fn address_of(text: &str) -> Result<IpAddr, String> {
    let quoted = go_text::quote(text);
    let (address, zone) = parse_address(text)
        .map_err(|problem| format!("IP Address {quoted} parse error during conversion from string: {problem}"))?;
    if !zone.is_empty() {
        return Err(format!("IP address {quoted} with zone value is not allowed"));
    }
    if matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"));
    }
    Ok(address)
}

fn network_of(text: &str) -> Result<Cidr, String> {
    let quoted = go_text::quote(text);
    let fail = |problem: String| {
        format!("network address parse error during conversion from string: netip.ParsePrefix({quoted}): {problem}")
    };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| fail("no '/'".into()))?;
    let (address, zone) = parse_address(address).map_err(fail)?;
    if !zone.is_empty() {
        return Err(fail("IPv6 zones cannot be present in a prefix".into()));
    }
    let bad = || fail(format!("bad bits after slash: {}", go_text::quote(bits)));
    // Neither a sign nor a leading zero is allowed.
    if bits.len() > 1 && !bits.starts_with(|c: char| ('1'..='9').contains(&c)) {
        return Err(bad());
    }
    let length: i64 = bits.parse().map_err(|_| bad())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if !(0..=most).contains(&length) {
        return Err(fail("prefix length out of range".into()));
    }
    if matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"));
    }
    Ok(Cidr { address, bits: length as u8 })
}

fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, Fault> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn parse_ip<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    address_of(text(&args[0])?).map(Value::Ip).map_err(Fault::Error)
}

pub(crate) fn is_ip<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(address_of(text(&args[0])?).is_ok()))
}

pub(crate) fn is_canonical<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let text = text(&args[0])?;
    address_of(text).map(|address| Value::Bool(address.to_string() == text)).map_err(Fault::Error)
}

fn of_ip<'a>(args: &[Value<'a>], property: fn(IpAddr) -> bool) -> Outcome<'a> {
    match &args[0] {
        Value::Ip(address) => Ok(Value::Bool(property(*address))),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn family<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Ip(address) => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn is_unspecified<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    of_ip(args, |address| address.is_unspecified())
}

pub(crate) fn is_loopback<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    of_ip(args, |address| address.is_loopback())
}

pub(crate) fn is_link_local_multicast<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    of_ip(args, |address| match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    })
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

pub(crate) fn is_link_local_unicast<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    of_ip(args, link_local_unicast)
}

pub(crate) fn is_global_unicast<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    of_ip(args, |address| {
        // As in Go, private addresses count as global unicast.
        let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        !(is_broadcast
            || address.is_unspecified()
            || address.is_loopback()
            || address.is_multicast()
            || link_local_unicast(address))
    })
}

pub(crate) fn to_string<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Ip(_) | Value::Cidr(_) => Ok(Value::text(args[0].shown())),
        _ => Err(Fault::no_such_overload()),
    }
}

fn cidr(value: &Value<'_>) -> Result<Cidr, Fault> {
    match value {
        Value::Cidr(cidr) => Ok(*cidr),
        // The functions of networks also accept text.
        Value::String(text) => network_of(text).map_err(wrapped),
        _ => Err(Fault::no_such_overload()),
    }
}

fn wrapped(problem: String) -> Fault {
    Fault::error(format!("network address parse error during conversion from string: {problem}"))
}

pub(crate) fn parse_cidr<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    network_of(text(&args[0])?).map(Value::Cidr).map_err(wrapped)
}

pub(crate) fn is_cidr<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(network_of(text(&args[0])?).is_ok()))
}

pub(crate) fn contains_ip<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let network = cidr(&args[0])?;
    let address = match &args[1] {
        Value::Ip(address) => *address,
        // As cel-go, which discards the reason why the text is not an address.
        Value::String(text) => address_of(text).map_err(|_| Fault::no_such_overload())?,
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(Value::Bool(network.contains(address)))
}

pub(crate) fn contains_cidr<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (outer, inner) = (cidr(&args[0])?, cidr(&args[1])?);
    Ok(Value::Bool(outer.bits <= inner.bits && outer.contains(inner.address)))
}

pub(crate) fn address<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    cidr(&args[0]).map(|network| Value::Ip(network.address))
}

pub(crate) fn prefix_length<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    cidr(&args[0]).map(|network| Value::Int(i64::from(network.bits)))
}

pub(crate) fn masked<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    cidr(&args[0]).map(|network| Value::Cidr(network.masked()))
}
