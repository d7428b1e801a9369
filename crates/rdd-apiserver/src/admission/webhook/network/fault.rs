//! Failures of a connection in the words that Go has for them, which users search for.

use std::{error::Error as _, io, net::SocketAddr};

use rustls::{CertificateError, Error, InvalidMessage};

/// A name that has no address.
pub(super) fn lookup(error: &io::Error, host: &str) -> String {
    // What getaddrinfo says is in the text alone.
    let unknown = error.to_string().contains("not known") || error.kind() == io::ErrorKind::NotFound;
    let why = if unknown { "no such host".to_owned() } else { plain(error) };
    format!("dial tcp: lookup {host}: {why}")
}

/// An address that does not answer.
pub(super) fn dial(error: &io::Error, address: SocketAddr) -> String {
    format!("dial tcp {address}: connect: {}", plain(error))
}

/// A handshake that failed.
pub(super) fn tls(error: &io::Error, name: &str) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(reason)) => {
            format!("tls: failed to verify certificate: x509: {}", certificate(reason, name))
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(Error::AlertReceived(alert)) => format!("remote error: tls: {}", spaced(&format!("{alert:?}"))),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => plain(error),
    }
}

fn certificate(reason: &CertificateError, name: &str) -> String {
    match reason {
        // A signature that does not fit is that of another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => "certificate has expired or is not yet valid".to_owned(),
        CertificateError::NotValidForNameContext { presented, .. } => {
            // They come as `DnsName("a")` and `IpAddress(1.2.3.4)`.
            let quotes = |character: char| matches!(character, '"' | ')');
            let named = |kind: &str| -> Vec<&str> {
                let of_kind = presented.iter().filter_map(|text| text.strip_prefix(kind)?.strip_prefix('('));
                of_kind.map(|text| text.trim_matches(quotes)).collect()
            };
            let is_address = name.parse::<std::net::IpAddr>().is_ok();
            match if is_address { named("IpAddress") } else { named("DnsName") } {
                none if none.is_empty() && is_address => {
                    format!("cannot validate certificate for {name} because it doesn't contain any IP SANs")
                }
                none if none.is_empty() => {
                    format!("certificate is not valid for any names, but wanted to match {name}")
                }
                names => format!("certificate is valid for {}, not {name}", names.join(", ")),
            }
        }
        // An authority that presents itself, and that nobody named; Go looks no further than that.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForName => format!("certificate is not valid for {name}"),
        other => other.to_string(),
    }
}

/// A request that failed on an open connection.
pub(super) fn http(error: &hyper::Error) -> String {
    let mut cause = error.source();
    while let Some(error) = cause.filter(|error| !error.is::<io::Error>()) {
        cause = error.source();
    }
    let io = cause.and_then(|error| error.downcast_ref::<io::Error>());
    match io {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        Some(error) => plain(error),
        None if error.is_incomplete_message() || error.is_closed() || error.is_canceled() => "EOF".to_owned(),
        None => error.to_string(),
    }
}

fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::BrokenPipe => "broken pipe".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}

/// `BadCertificate` as `bad certificate`.
fn spaced(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(character.to_lowercase());
    }
    text
}
