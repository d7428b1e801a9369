//! Parses certificates: the facts for the decision to keep them, and the identity in a client certificate.

use std::{net::IpAddr, time::Duration};

use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, parse_x509_certificate, time::ASN1Time};

use super::{
    decide::{Facts, Found},
    issue::{SERVING_ADDRESS, SERVING_NAME},
};

/// The subject of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The common name, which is the user name.
    pub user: String,
    /// The organizations, which are the groups.
    pub groups: Vec<String>,
}

/// Returns the facts about the authority, from its certificate and key as PEM.
pub(super) fn authority(certificate: &str, key: &str) -> Found {
    examine(certificate, key, |certificate| {
        let is_ca = certificate.basic_constraints().ok().flatten().is_some_and(|found| found.value.ca);
        (is_issued_by(certificate, certificate), is_ca)
    })
}

/// Returns the facts about a serving certificate: the first in a PEM file whose second certificate is the authority.
pub(super) fn serving(chain: &str, key: &str, authority: &str) -> Found {
    let Ok(issuer) = first(authority) else { return Found::Unreadable("its authority is unreadable".to_owned()) };
    let Ok((_, issuer)) = parse_x509_certificate(&issuer) else {
        return Found::Unreadable("its authority is unreadable".to_owned());
    };
    // Clients get this file as their trusted certificates. Without the authority in it, they would reject a renewed leaf.
    let bundled =
        certificates(chain).is_ok_and(|chain| chain.get(1).is_some_and(|der| der.as_ref() == issuer.as_raw()));
    examine(chain, key, |certificate| (bundled && is_issued_by(certificate, &issuer), stands_for_us(certificate)))
}

/// The subject of a client certificate; `None` if it has no common name or cannot be parsed.
pub fn holder(certificate: &CertificateDer<'_>) -> Option<Holder> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().map(|name| name.as_str().map(str::to_owned));
    let groups = groups.collect::<Result<Vec<_>, _>>().ok()?;
    (!user.is_empty()).then_some(Holder { user, groups })
}

/// Parses all certificates of a PEM file, in order.
pub(super) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect()
}

fn first(pem: &str) -> Result<CertificateDer<'static>, rustls::pki_types::pem::Error> {
    CertificateDer::from_pem_slice(pem.as_bytes())
}

/// Returns the facts about a certificate and its key. `judge` returns whether the authority signed it, and whether it is fit for
/// its use.
fn examine(pem: &str, key: &str, judge: impl FnOnce(&X509Certificate<'_>) -> (bool, bool)) -> Found {
    let der = match first(pem) {
        Ok(der) => der,
        Err(error) => return Found::Unreadable(format!("no certificate in the file ({error})")),
    };
    let certificate = match parse_x509_certificate(&der) {
        Ok((_, certificate)) => certificate,
        Err(error) => return Found::Unreadable(format!("not a certificate ({error})")),
    };
    let key = match KeyPair::from_pem(key) {
        Ok(key) if key.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256) => key,
        Ok(_) => return Found::Unreadable("its key is not ECDSA P-256".to_owned()),
        Err(error) => return Found::Unreadable(format!("its key is not a key we use ({error})")),
    };
    let (signed_by_authority, fit_for_use) = judge(&certificate);
    Found::Readable(Facts {
        key_matches: key.subject_public_key_info() == certificate.public_key().raw,
        signed_by_authority,
        fit_for_use,
        not_before: since_epoch(certificate.validity().not_before),
        not_after: since_epoch(certificate.validity().not_after),
    })
}

fn is_issued_by(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    certificate.issuer().as_raw() == issuer.subject().as_raw()
        && certificate.verify_signature(Some(issuer.public_key())).is_ok()
}

fn stands_for_us(certificate: &X509Certificate<'_>) -> bool {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    let IpAddr::V4(address) = SERVING_ADDRESS else { return false };
    let names = &names.value.general_names;
    names.iter().any(|name| matches!(name, GeneralName::DNSName(name) if *name == SERVING_NAME))
        && names.iter().any(|name| matches!(name, GeneralName::IPAddress(bytes) if *bytes == address.octets()))
}

fn since_epoch(time: ASN1Time) -> Duration {
    // Times before the epoch count as the epoch.
    Duration::from_secs(time.timestamp().try_into().unwrap_or(0))
}
