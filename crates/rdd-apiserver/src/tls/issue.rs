//! Issues certificates: the authority, the serving certificate, and client certificates.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
pub use rdd_stdx::pem::Pair;

use super::decide::{CA_VALIDITY, LEAF_VALIDITY};

/// The address in the serving certificate.
pub(super) const SERVING_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The DNS name in the serving certificate.
pub(super) const SERVING_NAME: &str = "localhost";

/// How far the start of validity lies in the past, so that machines whose clocks are a little behind accept a new certificate.
const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// The subject of a client certificate to issue.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The user name.
    pub common_name: &'a str,
    /// The user's group. Only one, because rcgen writes one organization per name; parsing accepts any number.
    pub organization: Option<&'a str>,
}

/// Issues a self-signed authority, valid from now for ten years.
///
/// As in Kubernetes' self-signed certificates, the name has the time of issue, so that clients do not confuse an authority with
/// its successor.
pub(super) fn authority(now: Duration) -> Result<Pair, rcgen::Error> {
    let mut params = params(now, now + CA_VALIDITY, &format!("{SERVING_ADDRESS}-ca@{}", now.as_secs()));
    // A path length of 0: the authority signs leaves, and no other authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.self_signed(&key)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Issues a serving certificate, valid from now for a year, but not longer than `no_later_than`.
pub(super) fn serving(authority: &Pair, now: Duration, no_later_than: Duration) -> Result<Pair, rcgen::Error> {
    let not_after = (now + LEAF_VALIDITY).min(no_later_than);
    let mut params = params(now, not_after, &format!("{SERVING_ADDRESS}@{}", now.as_secs()));
    params.subject_alt_names = vec![SanType::IpAddress(SERVING_ADDRESS), SanType::DnsName(SERVING_NAME.try_into()?)];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(authority, params)
}

/// Issues a client certificate, valid from now for a year, but not longer than `no_later_than`.
pub(super) fn client(
    authority: &Pair,
    subject: Subject<'_>,
    now: Duration,
    no_later_than: Duration,
) -> Result<Pair, rcgen::Error> {
    let mut params = params(now, (now + LEAF_VALIDITY).min(no_later_than), subject.common_name);
    if let Some(organization) = subject.organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(authority, params)
}

fn sign(authority: &Pair, mut params: CertificateParams) -> Result<Pair, rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, KeyPair::from_pem(&authority.key)?)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn params(not_before: Duration, not_after: Duration, common_name: &str) -> CertificateParams {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut distinguished_name = DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, common_name);
    let mut params = CertificateParams::default();
    params.not_before = epoch + not_before.saturating_sub(BACKDATED);
    params.not_after = epoch + not_after;
    params.distinguished_name = distinguished_name;
    params
}
