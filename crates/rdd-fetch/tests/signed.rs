//! Signed lists of digests, with keys that gpg makes: what the pinned key did not sign is refused, and what cannot be checked is warned of.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use rdd_fetch::{Asset, Check, Error, Fetcher, KeyFingerprint, PublishedFile, Sha256, SignedList, SigningKey};
use rdd_stdx::{chain::Chain, process};
use rdd_testkit::{capability::require, eventually};

const ARCHIVE: &[u8] = b"what the publisher made";
const NAME: &str = "tool-1.0.tar.gz";
/// No server listens there.
const NOWHERE: &str = "http://127.0.0.1:1/";
/// How long gpg's agent may take to end.
const AGENT_TIMEOUT: Duration = Duration::from_secs(20);

/// A publisher with a key.
struct Publisher {
    home: tempfile::TempDir,
    /// Of every call of gpg.
    options: &'static [&'static str],
}

impl Publisher {
    fn new() -> Self {
        Self::with_key(&["--no-options"], "never")
    }

    fn with_key(options: &'static [&'static str], expires: &str) -> Self {
        let publisher = Self { home: tempfile::tempdir().unwrap(), options };
        publisher.gpg(&["--passphrase", "", "--quick-generate-key", "P <p@example.com>", "ed25519", "sign", expires]);
        publisher
    }

    fn gpg(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = process::background("gpg", self.home.path());
        command
            .arg("--homedir")
            .arg(self.home.path())
            .args(self.options)
            .args(["--batch", "--quiet", "--yes"])
            .args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "gpg {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn fingerprint(&self) -> KeyFingerprint {
        let listed = String::from_utf8(self.gpg(&["--with-colons", "--list-keys"])).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        KeyFingerprint::parse(line.split(':').nth(9).unwrap()).unwrap()
    }

    fn key(&self) -> Vec<u8> {
        self.gpg(&["--armor", "--export"])
    }

    fn sign(&self, list: &str) -> Vec<u8> {
        let path = self.home.path().join("to-sign");
        fs::write(&path, list).unwrap();
        self.gpg(&["--armor", "--output", "-", "--detach-sign", path.to_str().unwrap()])
    }
}

impl Drop for Publisher {
    /// Ends the agent that gpg has started.
    fn drop(&mut self) {
        let mut command = process::background("gpgconf", self.home.path());
        let _ = command.arg("--homedir").arg(self.home.path()).args(["--kill", "all"]).status();
        let socket = self.home.path().join("S.gpg-agent");
        // It removes its socket when it ends. A test that fails already has something else to say.
        if !std::thread::panicking() {
            eventually("the end of gpg's agent", AGENT_TIMEOUT, || {
                if socket.exists() { Err("its socket is still there") } else { Ok(()) }
            });
        }
    }
}

/// A folder as people without a network fill it: the archive, and what the publisher has beside it.
struct Release {
    folder: tempfile::TempDir,
    fingerprint: KeyFingerprint,
    /// Another pinned key, whose file is not necessarily there.
    colleague: Option<KeyFingerprint>,
}

impl Release {
    /// One in which all is well.
    fn signed_by(publisher: &Publisher) -> Self {
        let release =
            Self { folder: tempfile::tempdir().unwrap(), fingerprint: publisher.fingerprint(), colleague: None };
        release.put(NAME, ARCHIVE);
        release.put("SHA256SUMS", list().as_bytes());
        release.put("SHA256SUMS.asc", &publisher.sign(&list()));
        release.put("keys.asc", &publisher.key());
        release
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, content: &[u8]) {
        fs::write(self.path(name), content).unwrap();
    }

    /// The publisher's key, and one of a colleague who did not sign.
    fn keys(&self) -> Vec<SigningKey> {
        let key = |name: &str, fingerprint| {
            let file = PublishedFile { name: name.to_owned(), urls: vec![format!("{NOWHERE}{name}")] };
            SigningKey { file, fingerprint }
        };
        let colleague = self.colleague.map(|fingerprint| key("colleague.asc", fingerprint));
        colleague.into_iter().chain([key("keys.asc", self.fingerprint)]).collect()
    }

    fn asset(&self) -> Asset {
        let file = |name: &str| PublishedFile { name: name.to_owned(), urls: vec![format!("{NOWHERE}{name}")] };
        let signed = SignedList { list: file("SHA256SUMS"), signature: file("SHA256SUMS.asc"), keys: self.keys() };
        let check = Check::Signed { pinned: Some(Sha256::of(ARCHIVE)), signed, entry: NAME.to_owned() };
        Asset { name: NAME.to_owned(), urls: vec![format!("{NOWHERE}{NAME}")], check, bytes: None }
    }

    fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.cache()).with_offline(Some(self.folder.path().to_owned())).with_patience(
            2,
            Duration::from_secs(5),
            Duration::from_millis(1),
        )
    }

    async fn fetch(&self) -> Result<PathBuf, Error> {
        self.fetcher().fetch(&self.asset(), |_| {}).await
    }

    /// Fetches it in vain: the error names the file, the key and what to do, and nothing is in the cache.
    async fn expect_refusal(&self, why: &str) {
        let error = self.fetch().await.unwrap_err();
        assert!(matches!(error, Error::Signature { .. }), "{error:?}");
        let said = Chain(&error).to_string();
        let start = format!("{NAME} is not used, because the signature of SHA256SUMS by the key {}", self.fingerprint);
        assert!(said.starts_with(&start), "{said}");
        assert!(said.contains("compare both with the publisher's page"), "{said}");
        assert!(said.contains(why), "{why} in {said}");
        assert_eq!(files(&self.cache()), Vec::<PathBuf>::new());
    }
}

fn list() -> String {
    format!("{}  other.tar.gz\n{}  {NAME}\n", Sha256::of(b"another one"), Sha256::of(ARCHIVE))
}

/// All files below a folder, but for locks.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with(".lock") {
            found.push(path);
        }
    }
    found
}

/// What is warned of.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target().starts_with("rdd_fetch")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{}={value:?} ", field.name());
            }
        }
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

// Finding A-9
#[tokio::test]
async fn a_file_whose_digest_the_pinned_key_signed_is_taken() {
    if !require("gpg") {
        return;
    }
    let warnings = Warnings::default();
    let _logging = tracing::subscriber::set_default(warnings.clone());
    let (publisher, stranger) = (Publisher::new(), Publisher::new());
    let release = Release::signed_by(&publisher);
    let path = release.fetch().await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), ARCHIVE);
    assert_eq!(files(&release.cache()), [path], "nothing that gpgv read is left");
    // Keys of others in the same file do no harm, armored or not.
    for other in [stranger.key(), stranger.gpg(&["--export"])] {
        let is_armored = other.starts_with(b"-----");
        let own = if is_armored { publisher.key() } else { publisher.gpg(&["--export"]) };
        release.put("keys.asc", &[other, own].concat());
        fs::remove_dir_all(release.cache()).unwrap();
        release.fetch().await.unwrap();
    }
    assert_eq!(warnings.all(), Vec::<String>::new());
    // A signature does not make another file the pinned one.
    release.put(NAME, b"something else");
    fs::remove_dir_all(release.cache()).unwrap();
    assert!(matches!(release.fetch().await, Err(Error::Mistaken { .. })));
}

// Finding A-9: a program in the field cannot exchange the key that it pins, and a release is as good as it was.
#[tokio::test]
async fn a_signature_counts_although_its_key_has_expired_since() {
    if !require("gpg") {
        return;
    }
    let release = Release::signed_by(&Publisher::with_key(&["--faked-system-time", "20200101T000000"], "1y"));
    assert_eq!(fs::read(release.fetch().await.unwrap()).unwrap(), ARCHIVE);
}

// Finding A-9
#[tokio::test]
async fn without_a_pinned_digest_the_signed_list_decides_and_a_wrong_one_is_not_kept() {
    if !require("gpg") {
        return;
    }
    let publisher = Publisher::new();
    let release = Release::signed_by(&publisher);
    let Check::Signed { signed, entry, .. } = release.asset().check else { panic!("it is signed") };
    let asset = Asset { check: Check::Signed { pinned: None, signed, entry }, ..release.asset() };
    let forged = b"what somebody else made";
    release.put(NAME, forged);
    release.put("SHA256SUMS", format!("{}  {NAME}\n", Sha256::of(forged)).as_bytes());
    let error = release.fetcher().fetch(&asset, |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::Signature { .. }), "{error:?}");
    release.put(NAME, ARCHIVE);
    release.put("SHA256SUMS", list().as_bytes());
    assert_eq!(fs::read(release.fetcher().fetch(&asset, |_| {}).await.unwrap()).unwrap(), ARCHIVE);
}

// Finding A-9
#[tokio::test]
async fn a_list_that_was_changed_after_it_was_signed_is_refused() {
    if !require("gpg") {
        return;
    }
    let release = Release::signed_by(&Publisher::new());
    release.put("SHA256SUMS", format!("{}\n", list()).as_bytes());
    release.expect_refusal("SHA256SUMS.asc is not a signature of SHA256SUMS").await;
    release.put("SHA256SUMS", list().as_bytes());
    release.put("SHA256SUMS.asc", b"<html>not found</html>");
    release.expect_refusal("SHA256SUMS.asc is not a signature of SHA256SUMS").await;
}

// Finding A-9
#[tokio::test]
async fn a_signature_of_another_key_is_refused_also_if_that_key_comes_with_it() {
    if !require("gpg") {
        return;
    }
    let (publisher, stranger) = (Publisher::new(), Publisher::new());
    let release = Release::signed_by(&publisher);
    release.put("SHA256SUMS.asc", &stranger.sign(&list()));
    release.expect_refusal("SHA256SUMS.asc was made with another key").await;
    release.put("keys.asc", &[publisher.key(), stranger.key()].concat());
    release.expect_refusal("SHA256SUMS.asc was made with another key").await;
    release.put("keys.asc", &stranger.key());
    release.expect_refusal("keys.asc does not hold this key").await;
}

// Finding A-9
#[tokio::test]
async fn one_of_several_pinned_keys_is_enough() {
    if !require("gpg") {
        return;
    }
    let (publisher, colleague) = (Publisher::new(), Publisher::new());
    let mut release = Release::signed_by(&publisher);
    release.colleague = Some(colleague.fingerprint());
    release.put("colleague.asc", &colleague.key());
    for signer in [&publisher, &colleague] {
        let warnings = Warnings::default();
        let _logging = tracing::subscriber::set_default(warnings.clone());
        release.put("SHA256SUMS.asc", &signer.sign(&list()));
        release.fetch().await.unwrap();
        assert_eq!(warnings.all(), Vec::<String>::new());
        fs::remove_dir_all(release.cache()).unwrap();
    }
    // Without the file of the key that signed, nothing can be said about the signature.
    let warnings = Warnings::default();
    let _logging = tracing::subscriber::set_default(warnings.clone());
    fs::remove_file(release.path("colleague.asc")).unwrap();
    release.fetch().await.unwrap();
    assert_eq!(warnings.all().len(), 1, "{:?}", warnings.all());
}

// Finding A-9
#[tokio::test]
async fn a_signed_list_without_the_pinned_digest_is_refused() {
    if !require("gpg") {
        return;
    }
    let publisher = Publisher::new();
    let release = Release::signed_by(&publisher);
    let (pinned, other) = (Sha256::of(ARCHIVE), Sha256::of(b"another release"));
    for (list, found) in [
        (format!("{pinned}  other.tar.gz\n"), "no digest".to_owned()),
        (format!("{other}  {NAME}\n"), other.to_string()),
    ] {
        release.put("SHA256SUMS", list.as_bytes());
        release.put("SHA256SUMS.asc", &publisher.sign(&list));
        release.expect_refusal(&format!("has {found} for {NAME:?}, not {pinned}")).await;
    }
}

// Finding A-9
#[tokio::test]
async fn without_gpgv_or_one_of_its_files_the_digest_decides_with_one_warning() {
    if !require("gpg") {
        return;
    }
    let publisher = Publisher::new();
    for missing in ["gpgv", "keys.asc", "SHA256SUMS.asc", "SHA256SUMS"] {
        let release = Release::signed_by(&publisher);
        let nowhere = release.path("no-gpgv");
        let warnings = Warnings::default();
        let _logging = tracing::subscriber::set_default(warnings.clone());
        let fetcher = match missing {
            "gpgv" => release.fetcher().with_gpgv(nowhere),
            file => {
                fs::remove_file(release.path(file)).unwrap();
                release.fetcher()
            }
        };
        for _ in 0..2 {
            assert_eq!(fs::read(fetcher.fetch(&release.asset(), |_| {}).await.unwrap()).unwrap(), ARCHIVE);
        }
        let warned = warnings.all();
        assert_eq!(warned.len(), 1, "{missing}: {warned:?}");
        for part in ["the signature was not checked", NAME, missing] {
            assert!(warned[0].contains(part), "{part} in {warned:?}");
        }
        // The digest still decides.
        fs::remove_dir_all(release.cache()).unwrap();
        release.put(NAME, b"something else");
        let refused = fetcher.fetch(&release.asset(), |_| {}).await;
        assert!(matches!(refused, Err(Error::Mistaken { .. })), "{missing}: {refused:?}");
    }
}
