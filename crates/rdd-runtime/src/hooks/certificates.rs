//! The certificates of webhooks: one certificate authority for all managers of an instance, one serving certificate for each manager.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::Path,
    time::{Duration, Instant},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType,
};
pub use rdd_stdx::pem::Pair;
use rdd_stdx::{
    clock::Clock,
    file,
    lock::{self, ProcessLock},
    owned,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, parse_x509_certificate};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const CA_VALIDITY: Duration = Duration::from_secs(3650 * DAY.as_secs());
const LEAF_VALIDITY: Duration = Duration::from_secs(365 * DAY.as_secs());
/// A serving certificate with less time left is renewed. The authority is renewed when it could not sign another such certificate.
const LEAF_LEFT: Duration = Duration::from_secs(30 * DAY.as_secs());
/// Certificates start to be valid this long ago, for clients whose clock is slow.
const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// How long to wait for another manager that is creating the authority.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Why the certificates are unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The certificate files cannot be written.
    #[error("write the certificates of webhooks")]
    Write(#[from] file::Error),
    /// Another manager holds the lock for too long, or the lock cannot be taken.
    #[error("wait for another manager to make certificates")]
    Lock(#[from] lock::Error),
    /// A certificate cannot be generated.
    #[error("make a certificate for webhooks")]
    Make(#[from] rcgen::Error),
    /// A certificate file cannot be read.
    #[error("read a certificate of webhooks")]
    Read(#[source] io::Error),
}

/// Returns the certificate authority of the instance. Creates a new one if it is missing, unusable or about to expire.
///
/// A lock serializes managers that start at the same time, so that all of them use the same authority.
pub fn authority(folder: &Path, clock: &dyn Clock) -> Result<Pair, Error> {
    // Of several managers that start at the same time, one creates the authority, and the others read it.
    let _lock = held(&folder.join("webhook.lock"))?;
    let now = clock.wall();
    let (certificate, key) = (folder.join("webhook-ca.crt"), folder.join("webhook-ca.key"));
    if let Some(pair) = read(&certificate, &key)?
        && is_good(&pair, now, LEAF_VALIDITY + LEAF_LEFT, |found| {
            found.basic_constraints().ok().flatten().is_some_and(|constraints| constraints.value.ca)
        })
    {
        return Ok(pair);
    }
    let mut params = params(now, CA_VALIDITY, "webhook-ca");
    // It signs serving certificates only, no intermediate authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let signer = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let pair = Pair { certificate: params.self_signed(&signer)?.pem(), key: signer.serialize_pem() };
    write(&pair, &certificate, &key)?;
    Ok(pair)
}

/// Returns the manager's serving certificate. Creates a new one if it is missing, of another authority, lacks a name, or has less than 30
/// days left.
pub fn serving(
    folder: &Path,
    manager: &str,
    controllers: &[&str],
    authority: &Pair,
    clock: &dyn Clock,
) -> Result<Pair, Error> {
    let now = clock.wall();
    let names = names(controllers);
    let (certificate, key) =
        (folder.join(format!("webhook-{manager}.crt")), folder.join(format!("webhook-{manager}.key")));
    if let Some(pair) = read(&certificate, &key)?
        && is_good(&pair, now, LEAF_LEFT, |found| is_issued_by(found, authority) && has_names(found, &names))
    {
        return Ok(pair);
    }
    let mut params = params(now, LEAF_VALIDITY, "webhook-server");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    params.subject_alt_names = addresses.into_iter().map(SanType::IpAddress).collect();
    for name in &names {
        params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
    }
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, KeyPair::from_pem(&authority.key)?)?;
    let own = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let pair = Pair { certificate: params.signed_by(&own, &issuer)?.pem(), key: own.serialize_pem() };
    write(&pair, &certificate, &key)?;
    Ok(pair)
}

/// The DNS names in the serving certificate: `localhost`, and those of the Kubernetes services of webhooks.
fn names(controllers: &[&str]) -> Vec<String> {
    let services = std::iter::once("webhook-service".to_owned())
        .chain(controllers.iter().map(|controller| format!("{controller}-webhook")));
    let long = services.flat_map(|name| {
        ["", ".default", ".default.svc", ".default.svc.cluster.local"].map(|suffix| format!("{name}{suffix}"))
    });
    std::iter::once("localhost".to_owned()).chain(long).collect()
}

fn params(now: Duration, validity: Duration, common_name: &str) -> CertificateParams {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.not_before = epoch + now.saturating_sub(BACKDATED);
    params.not_after = epoch + now + validity;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.distinguished_name.push(DnType::OrganizationName, "Rancher Desktop Daemon Webhook");
    params
}

fn held(path: &Path) -> Result<ProcessLock, Error> {
    let began = Instant::now();
    loop {
        match ProcessLock::acquire(path) {
            // The other manager needs milliseconds for its work, so polling is enough.
            Err(lock::Error::Held { .. }) if began.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return Ok(other?),
        }
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Option<Pair>, Error> {
    let text = |path| match owned::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        // A file that is not text holds no certificate: it is replaced.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => Ok(None),
        Err(error) => Err(Error::Read(error)),
    };
    Ok(text(certificate)?.zip(text(key)?).map(|(certificate, key)| Pair { certificate, key }))
}

fn write(pair: &Pair, certificate: &Path, key: &Path) -> Result<(), Error> {
    // A crash between the two writes leaves a key that does not match, which `is_good` detects.
    file::write_atomic(key, pair.key.as_bytes(), file::PRIVATE)?;
    Ok(file::write_atomic(certificate, pair.certificate.as_bytes(), file::PRIVATE)?)
}

/// Whether the certificate can be parsed, matches its key, has our key type, is valid for at least `left` from now, and passes `judge`.
fn is_good(pair: &Pair, now: Duration, left: Duration, judge: impl FnOnce(&X509Certificate<'_>) -> bool) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pair.certificate.as_bytes()) else { return false };
    let Ok((_, certificate)) = parse_x509_certificate(&der) else { return false };
    let Ok(key) = KeyPair::from_pem(&pair.key) else { return false };
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    key.is_compatible(&PKCS_ECDSA_P256_SHA256)
        && key.subject_public_key_info() == certificate.public_key().raw
        && validity.not_before.timestamp() <= seconds(now)
        && validity.not_after.timestamp() >= seconds(now + left)
        && judge(&certificate)
}

fn is_issued_by(certificate: &X509Certificate<'_>, authority: &Pair) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(authority.certificate.as_bytes()) else { return false };
    let Ok((_, issuer)) = parse_x509_certificate(&der) else { return false };
    certificate.verify_signature(Some(issuer.public_key())).is_ok()
}

fn has_names(certificate: &X509Certificate<'_>, names: &[String]) -> bool {
    let Ok(Some(found)) = certificate.subject_alternative_name() else { return false };
    let found = &found.value.general_names;
    names.iter().all(|name| found.iter().any(|known| matches!(known, GeneralName::DNSName(known) if known == name)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rdd_stdx::clock::ManualClock;

    use super::*;

    #[test]
    fn certificates_are_kept_until_they_are_no_longer_good() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(Duration::from_secs(1_800_000_000));
        let path = folder.path();
        let first = authority(path, &*clock).unwrap();
        assert_eq!(authority(path, &*clock).unwrap(), first);
        let leaf = serving(path, "rdd", &["notary"], &first, &*clock).unwrap();
        assert_eq!(serving(path, "rdd", &["notary"], &first, &*clock).unwrap(), leaf);
        assert_ne!(serving(path, "rdd", &["notary", "hostinfo"], &first, &*clock).unwrap(), leaf, "a name was missing");
        let leaf = serving(path, "rdd", &["notary"], &first, &*clock).unwrap();
        clock.advance(LEAF_VALIDITY - LEAF_LEFT + DAY);
        assert_ne!(serving(path, "rdd", &["notary"], &first, &*clock).unwrap(), leaf, "less than 30 days are left");
        assert_eq!(authority(path, &*clock).unwrap(), first);
    }

    #[test]
    fn what_the_original_or_a_crash_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(Duration::from_secs(1_800_000_000));
        fs::write(folder.path().join("webhook-ca.crt"), "no certificate").unwrap();
        fs::write(folder.path().join("webhook-ca.key"), [0xff, 0xfe]).unwrap();
        let made = authority(folder.path(), &*clock).unwrap();
        fs::remove_file(folder.path().join("webhook-ca.key")).unwrap();
        assert_ne!(authority(folder.path(), &*clock).unwrap(), made, "without its key it cannot sign");
    }
}
