//! The manifest (`assets.json`) of what VMs need from elsewhere, and how each file is verified.
//!
//! Guest images have a digest in the manifest. Lima's archives have one too, or else are verified against the
//! publisher's list of digests. Where the publisher signs that list, the manifest names the signature and the
//! fingerprints of the keys, and the archive's digest has to be in a list with a valid signature (docs/security.md
//! describes what upstream signs). Programs come from packages of this host; the manifest names the package, and rdd
//! never downloads them.
//!
//! A file in the folder `RDD_OFFLINE_DIR` with the name given here takes precedence over a download. The name of an
//! image is the last part of its URL.

use std::{fmt::Write as _, sync::OnceLock};

use rdd_fetch::{Asset, Check, KeyFingerprint, PublishedFile, Sha256, SignedList, SigningKey};
use serde::Deserialize;

const MANIFEST: &str = include_str!("assets.json");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Manifest {
    guest_images: Vec<GuestImage>,
    lima: Lima,
    programs: Vec<Program>,
}

/// An image for the first disk of a VM.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GuestImage {
    architecture: String,
    vm_types: Vec<String>,
    url: String,
    sha256: String,
}

/// A release of Lima, with one archive per architecture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lima {
    version: String,
    /// Whether `make test-vm` boots VMs with this version.
    tested: bool,
    /// The publisher's list of digests.
    list: SmallFile,
    /// The publisher's signature of the list.
    signature: Option<ListSignature>,
    archives: Vec<Archive>,
}

/// A file that the publisher offers beside the archives.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SmallFile {
    name: String,
    url: String,
}

impl SmallFile {
    fn published(&self) -> PublishedFile {
        PublishedFile { name: self.name.clone(), urls: vec![self.url.clone()] }
    }
}

/// A detached OpenPGP signature of the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListSignature {
    name: String,
    url: String,
    /// The keys of the maintainers who may sign; one valid signature is enough.
    keys: Vec<ListKey>,
}

/// A key whose signatures are accepted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListKey {
    /// The full fingerprint. It alone decides, not the source of the key file.
    fingerprint: String,
    /// The name of the key file, at its URL and in the offline folder.
    name: String,
    url: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Archive {
    name: String,
    architecture: String,
    url: String,
    /// The archive's digest. If absent, the digest comes from the publisher's list.
    sha256: Option<String>,
}

/// A program that must be installed on this host.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// The package on Debian and Ubuntu.
    pub(crate) package: String,
    needed_by: Need,
    /// The architecture that needs it; all if absent.
    architecture: Option<String>,
}

/// The feature that needs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Need {
    /// Every VM.
    Machine,
    /// Unpacking a downloaded archive of Lima.
    LimaArchive,
    /// Converting an image whose name ends in `.xz`.
    XzImage,
}

fn manifest() -> &'static Manifest {
    static READ: OnceLock<Manifest> = OnceLock::new();
    READ.get_or_init(|| serde_json::from_str(MANIFEST).expect("a test reads it"))
}

/// The guest images for this `vmType`, as the field `images` of a Lima template.
pub fn images(vm_type: &str) -> String {
    let mut text = "images:\n".to_owned();
    let fitting = |image: &&GuestImage| image.vm_types.iter().any(|known| known == vm_type);
    for GuestImage { architecture, url, sha256, .. } in manifest().guest_images.iter().filter(fitting) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- location: \"{url}\"\n  arch: {architecture}\n  digest: \"sha256:{sha256}\"");
    }
    text
}

/// A release of Lima that can be downloaded.
#[derive(Debug)]
pub(crate) struct LimaRelease {
    /// The archive with `limactl`.
    pub(crate) archive: Asset,
    pub(crate) version: &'static str,
    /// Whether our tests boot VMs with it.
    pub(crate) is_tested: bool,
}

/// The release of Lima for this architecture.
pub(crate) fn lima(architecture: &str) -> Option<LimaRelease> {
    let Lima { version, tested, list, signature, archives } = &manifest().lima;
    let archive = archives.iter().find(|archive| archive.architecture == architecture)?;
    let asset = Asset {
        name: archive.name.clone(),
        urls: vec![archive.url.clone()],
        check: check_of(archive, list, signature.as_ref()),
        bytes: None,
    };
    Some(LimaRelease { archive: asset, version, is_tested: *tested })
}

fn check_of(archive: &Archive, list: &SmallFile, signature: Option<&ListSignature>) -> Check {
    let entry = archive.name.clone();
    let pinned = archive.sha256.as_deref().map(|digest| Sha256::parse(digest).expect("a test reads it"));
    match (pinned, signature) {
        // From weakest to strongest: the publisher's unsigned list, a digest in the manifest, a signed list.
        (None, None) => Check::Published { list: list.published(), entry },
        (Some(digest), None) => Check::Sha256(digest),
        (pinned, Some(ListSignature { name, url, keys })) => {
            let file = |name: &str, url: &str| PublishedFile { name: name.to_owned(), urls: vec![url.to_owned()] };
            let signed = SignedList {
                list: list.published(),
                signature: file(name, url),
                keys: keys
                    .iter()
                    .map(|key| SigningKey {
                        file: file(&key.name, &key.url),
                        fingerprint: KeyFingerprint::parse(&key.fingerprint).expect("a test reads it"),
                    })
                    .collect(),
            };
            Check::Signed { pinned, signed, entry }
        }
    }
}

/// The programs for this need on this architecture.
pub(crate) fn programs(need: Need, architecture: &str) -> impl Iterator<Item = &'static Program> {
    let fits = move |program: &&Program| program.architecture.as_deref().is_none_or(|known| known == architecture);
    manifest().programs.iter().filter(move |program| program.needed_by == need).filter(fits)
}

/// The asset for an image that a template names with its digest, `sha256:…`. `None` if rdd cannot download it.
pub(crate) fn named(location: &str, digest: &str) -> Option<Asset> {
    // As in the fetcher: plain HTTP only from the loopback address.
    let is_ours =
        ["https://", "http://127.0.0.1:", "http://localhost:"].iter().any(|start| location.starts_with(start));
    let digest = digest.strip_prefix("sha256:").and_then(|digest| Sha256::parse(digest).ok())?;
    let path = location.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().filter(|name| is_ours && !name.is_empty())?;
    Some(Asset { name: name.to_owned(), urls: vec![location.to_owned()], check: Check::Sha256(digest), bytes: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_the_manifest_has_a_digest_or_a_list_of_them_and_comes_over_https() {
        for image in &manifest().guest_images {
            let asset = named(&image.url, &format!("sha256:{}", image.sha256)).expect("a digest");
            assert!(image.url.ends_with(&asset.name), "its name in the offline folder is the one that people see");
        }
        for architecture in ["x86_64", "aarch64"] {
            let asset = lima(architecture).unwrap().archive;
            assert!(asset.urls[0].starts_with("https://") && asset.urls[0].ends_with(&asset.name));
            assert!(images("qemu").contains(&format!("arch: {architecture}\n")));
        }
        let ListSignature { url, keys, .. } = manifest().lima.signature.as_ref().expect("Lima signs its lists");
        assert!(!keys.is_empty());
        assert!(keys.iter().map(|key| &key.url).chain([url]).all(|url| url.starts_with("https://")));
        assert!(lima("riscv64").is_none());
    }

    #[test]
    fn each_processor_has_one_qemu_and_every_need_its_programs() {
        for (architecture, qemu) in [("x86_64", "qemu-system-x86_64"), ("aarch64", "qemu-system-aarch64")] {
            let names: Vec<_> = programs(Need::Machine, architecture).map(|program| program.name.as_str()).collect();
            assert_eq!(names, [qemu, "qemu-img", "ssh", "ssh-keygen"]);
            assert_eq!(programs(Need::LimaArchive, architecture).count(), 2);
            assert_eq!(programs(Need::XzImage, architecture).count(), 1);
        }
    }

    // Finding A-9
    #[test]
    fn the_lima_that_is_downloaded_has_no_known_flaw_and_is_called_tested_only_if_it_is() {
        let modules = include_str!("../../../vm/limactl/go.mod");
        let LimaRelease { version, is_tested, .. } = lima("x86_64").unwrap();
        let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
        assert!(parts >= vec![2, 1, 3], "{version} lets every user of a guest become root there");
        let is_built = modules.lines().any(|line| {
            line.trim_start().starts_with("github.com/lima-vm/lima")
                && line.split(' ').any(|word| word == format!("v{version}"))
        });
        assert_eq!(is_tested, is_built, "{version}");
    }

    #[test]
    fn an_archive_is_checked_by_its_digest_the_published_list_and_its_signature_as_far_as_they_are_named() {
        let list: SmallFile =
            serde_json::from_str(r#"{"name": "SHA256SUMS", "url": "https://example.com/SHA256SUMS"}"#).unwrap();
        let signature: ListSignature = serde_json::from_str(
            r#"{"name": "SHA256SUMS.asc", "url": "https://example.com/SHA256SUMS.asc", "keys": [{
                "fingerprint": "0123 4567 89AB CDEF 0123  4567 89AB CDEF 0123 4567",
                "name": "keys.gpg", "url": "https://example.com/keys.gpg"}]}"#,
        )
        .unwrap();
        let digest = "a".repeat(64);
        let archive = |sha256| Archive { name: "a".into(), architecture: "x".into(), url: "u".into(), sha256 };
        let (pinned, unpinned) = (archive(Some(digest.clone())), archive(None));
        assert_eq!(check_of(&pinned, &list, None), Check::Sha256(Sha256::parse(&digest).unwrap()));
        assert!(matches!(check_of(&unpinned, &list, None), Check::Published { entry, .. } if entry == "a"));
        let pinned_digest = |archive| match check_of(archive, &list, Some(&signature)) {
            Check::Signed { pinned, .. } => pinned.map(|digest| digest.to_string()),
            other => panic!("a signature that is named is checked: {other:?}"),
        };
        assert_eq!((pinned_digest(&pinned), pinned_digest(&unpinned)), (Some(digest), None));
        let Check::Signed { signed, .. } = check_of(&unpinned, &list, Some(&signature)) else { unreachable!() };
        let SignedList { list, signature, keys } = signed;
        let [key] = &keys[..] else { panic!("{keys:?}") };
        assert_eq!(
            [&list, &signature, &key.file].map(|file| file.name.as_str()),
            ["SHA256SUMS", "SHA256SUMS.asc", "keys.gpg"]
        );
        assert_eq!(key.fingerprint.to_string(), "0123456789ABCDEF0123456789ABCDEF01234567");
    }

    #[test]
    fn what_has_no_digest_or_another_scheme_is_left_to_lima() {
        let digest = format!("sha256:{}", "a".repeat(64));
        assert_eq!(named("https://example.com/a/b.img?x=1", &digest).unwrap().name, "b.img");
        for (location, digest) in [
            ("https://example.com/b.img", "sha512:00"),
            ("https://example.com/b.img", ""),
            ("https://example.com/", digest.as_str()),
            ("http://example.com/b.img", digest.as_str()),
            ("/srv/b.img", digest.as_str()),
        ] {
            assert!(named(location, digest).is_none(), "{location} {digest}");
        }
    }
}
