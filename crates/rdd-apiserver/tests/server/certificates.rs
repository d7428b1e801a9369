//! The certificates on disk, across restarts and while serving.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use rdd_apiserver::tls::{CA_CERTIFICATE, CA_KEY, LEAF_VALIDITY, SERVING_CERTIFICATE, SERVING_KEY, Tls};
use rdd_stdx::clock::{ManualClock, SharedClock, SystemClock};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::support::TestServer;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const FILES: [&str; 4] = [CA_CERTIFICATE, CA_KEY, SERVING_CERTIFICATE, SERVING_KEY];

fn open(folder: &Path, clock: SharedClock) -> Tls {
    crate::log::keep();
    Tls::open(folder, clock, Box::new(|_| {})).unwrap()
}

fn read(folder: &Path) -> [String; 4] {
    FILES.map(|name| fs::read_to_string(folder.join(name)).unwrap())
}

/// Returns the files that a second start replaces, after `change` and this much time.
fn replaced_after(change: impl FnOnce(&Path), passed: Duration) -> Vec<&'static str> {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared(SystemClock::shared().wall());
    open(folder.path(), clock.clone());
    change(folder.path());
    let content = || FILES.map(|name| fs::read(folder.path().join(name)).ok());
    let before = content();
    clock.advance(passed);
    open(folder.path(), clock);
    let after = content();
    (0..4).filter(|index| before[*index] != after[*index]).map(|index| FILES[index]).collect()
}

#[test]
fn what_is_good_is_reused_and_what_is_not_is_replaced() {
    let serving = [SERVING_CERTIFICATE, SERVING_KEY];
    let nothing = |_: &Path| {};
    let garbage = |name: &'static str| move |folder: &Path| fs::write(folder.join(name), [0xff, 0xfe]).unwrap();
    let empty = |name: &'static str| move |folder: &Path| fs::write(folder.join(name), "").unwrap();
    let gone = |name: &'static str| move |folder: &Path| fs::remove_file(folder.join(name)).unwrap();
    assert!(replaced_after(nothing, Duration::ZERO).is_empty());
    assert!(replaced_after(nothing, LEAF_VALIDITY - 31 * DAY).is_empty());
    assert_eq!(replaced_after(nothing, LEAF_VALIDITY - 29 * DAY), serving);
    assert_eq!(replaced_after(nothing, LEAF_VALIDITY + DAY), serving);
    assert_eq!(replaced_after(nothing, 9 * LEAF_VALIDITY), FILES);
    assert_eq!(replaced_after(gone(SERVING_KEY), Duration::ZERO), serving);
    assert_eq!(replaced_after(garbage(SERVING_CERTIFICATE), Duration::ZERO), serving);
    assert_eq!(replaced_after(empty(SERVING_KEY), Duration::ZERO), serving);
    assert_eq!(replaced_after(gone(CA_KEY), Duration::ZERO), FILES);
    assert_eq!(replaced_after(empty(CA_CERTIFICATE), Duration::ZERO), FILES);
}

#[test]
fn a_pair_of_another_authority_is_replaced() {
    let other = tempfile::tempdir().unwrap();
    open(other.path(), SystemClock::shared());
    let copy = |names: &'static [&'static str]| {
        let other = other.path().to_owned();
        move |folder: &Path| {
            for name in names {
                fs::copy(other.join(name), folder.join(name)).unwrap();
            }
        }
    };
    assert_eq!(
        replaced_after(copy(&[SERVING_CERTIFICATE, SERVING_KEY]), Duration::ZERO),
        [SERVING_CERTIFICATE, SERVING_KEY]
    );
    let posing_as_ours = |folder: &Path| {
        let [ours, ..] = read(folder);
        let [theirs, _, chain, key] = read(other.path());
        fs::write(folder.join(SERVING_CERTIFICATE), chain.replace(&theirs, &ours)).unwrap();
        fs::write(folder.join(SERVING_KEY), key).unwrap();
    };
    assert_eq!(replaced_after(posing_as_ours, Duration::ZERO), [SERVING_CERTIFICATE, SERVING_KEY]);
    assert_eq!(replaced_after(copy(&[SERVING_KEY]), Duration::ZERO), [SERVING_CERTIFICATE, SERVING_KEY]);
    assert_eq!(replaced_after(copy(&[CA_KEY]), Duration::ZERO), FILES);
}

#[test]
fn a_serving_certificate_without_its_authority_behind_it_is_replaced() {
    let alone = |folder: &Path| {
        let [authority, _, bundle, _] = read(folder);
        fs::write(folder.join(SERVING_CERTIFICATE), bundle.replace(&authority, "")).unwrap();
    };
    assert_eq!(replaced_after(alone, Duration::ZERO), [SERVING_CERTIFICATE, SERVING_KEY]);
}

#[test]
fn keys_of_another_type_are_replaced() {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    let as_serving = |folder: &Path| {
        fs::write(folder.join(SERVING_CERTIFICATE), &certificate).unwrap();
        fs::write(folder.join(SERVING_KEY), &key).unwrap();
    };
    assert_eq!(replaced_after(as_serving, Duration::ZERO), [SERVING_CERTIFICATE, SERVING_KEY]);
    let as_authority = |folder: &Path| {
        fs::write(folder.join(CA_CERTIFICATE), &certificate).unwrap();
        fs::write(folder.join(CA_KEY), &key).unwrap();
    };
    assert_eq!(replaced_after(as_authority, Duration::ZERO), FILES);
}

#[test]
fn the_folder_and_every_file_are_private_also_when_reused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("tls");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for _ in 0..2 {
        open(&folder, SystemClock::shared());
        assert_eq!(mode(&folder), 0o700);
        for name in FILES {
            assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn the_bundle_is_the_serving_certificate_followed_by_its_authority() {
    let folder = tempfile::tempdir().unwrap();
    let tls = open(folder.path(), SystemClock::shared());
    let [authority, _, bundle, key] = read(folder.path());
    assert_eq!(tls.bundle(), bundle);
    assert!(bundle.ends_with(&authority) && bundle.matches("BEGIN CERTIFICATE").count() == 2);
    assert!(key.contains("BEGIN PRIVATE KEY"));
}

#[tokio::test]
async fn a_server_that_runs_for_a_year_renews_its_certificate_without_a_restart() {
    let now = SystemClock::shared().wall();
    let clock = ManualClock::shared(now - LEAF_VALIDITY + DAY / 2);
    let folder = tempfile::tempdir().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = told.clone();
    let on_renewal = Box::new(move |bundle: &str| listener.lock().unwrap().push(bundle.to_owned()));
    let tls = Arc::new(Tls::open(folder.path(), clock.clone(), on_renewal).unwrap());
    let first = tls.bundle();
    let server = TestServer::start_with(|parts| parts.tls = tls.clone()).await;
    let old_client = server.client();
    assert_eq!(old_client.get("/livez").await.unwrap().status, 200);
    assert_eq!(tls.bundle(), first, "there is no need yet");
    clock.jump_to(now);
    assert_eq!(old_client.get("/livez").await.unwrap().status, 200, "who has the old bundle still trusts the server");
    let second = tls.bundle();
    assert_ne!(first, second);
    assert_eq!(*told.lock().unwrap(), [second.as_str()], "the owner was told, once");
    assert_eq!(fs::read_to_string(folder.path().join(SERVING_CERTIFICATE)).unwrap(), second);
    let presented = server.connect().await.get_ref().1.peer_certificates().unwrap().to_vec();
    let in_bundle: Vec<_> = CertificateDer::pem_slice_iter(second.as_bytes()).map(Result::unwrap).collect();
    assert_eq!(presented, in_bundle, "what clients are shown is what the bundle says");
    assert_eq!(told.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_certificate_made_while_the_clock_was_ahead_is_renewed_when_it_is_set_back() {
    let now = SystemClock::shared().wall();
    let clock = ManualClock::shared(now);
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), clock.clone());
    clock.jump_to(now + LEAF_VALIDITY);
    let tls = Arc::new(open(folder.path(), clock.clone()));
    let made_ahead = tls.bundle();
    let server = TestServer::start_with(|parts| parts.tls = tls.clone()).await;
    let client = server.client();
    assert!(client.get("/livez").await.is_err(), "to its clients it is not valid yet");
    clock.jump_to(now);
    assert_eq!(client.get("/livez").await.unwrap().status, 200);
    assert_ne!(tls.bundle(), made_ahead);
}
