//! What virtual machines need from elsewhere, each with how it is known to be right: the one manifest (`assets.json`).
//!
//! Images have a digest here. Lima's archives are checked against the list that their publisher has beside them. Programs come
//! with the packages of this machine, which vouch for them; they are named here with the package, and never downloaded.
//!
//! A file is taken from the folder that `RDD_OFFLINE_DIR` names, by its name here, before anybody is asked for it; an image's name is the last part of its address.

use std::{fmt::Write as _, sync::OnceLock};

use rdd_fetch::{Asset, Check, PublishedList, Sha256};
use serde::Deserialize;

const MANIFEST: &str = include_str!("assets.json");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Manifest {
    guest_images: Vec<GuestImage>,
    lima: Lima,
    programs: Vec<Program>,
}

/// What a machine's first disk is made of.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GuestImage {
    architecture: String,
    vm_types: Vec<String>,
    url: String,
    sha256: String,
}

/// `limactl` and what belongs to it, in an archive for each processor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lima {
    version: String,
    list: List,
    archives: Vec<Archive>,
}

/// The publisher's list of digests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    name: String,
    url: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Archive {
    name: String,
    architecture: String,
    url: String,
}

/// A program that has to be on this machine.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// What has it on Debian and Ubuntu.
    pub(crate) package: String,
    needed_by: Need,
    /// Where it is needed; everywhere without it.
    architecture: Option<String>,
}

/// What a program is needed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Need {
    /// Every virtual machine.
    Machine,
    /// Lima as it is downloaded, when it is unpacked.
    LimaArchive,
    /// An image whose name ends in `.xz`, when Lima makes a disk of it.
    XzImage,
}

fn manifest() -> &'static Manifest {
    static READ: OnceLock<Manifest> = OnceLock::new();
    READ.get_or_init(|| serde_json::from_str(MANIFEST).expect("a test reads it"))
}

/// The guest images for this `vmType`, as the `images` of a Lima template.
pub fn images(vm_type: &str) -> String {
    let mut text = "images:\n".to_owned();
    let fitting = |image: &&GuestImage| image.vm_types.iter().any(|known| known == vm_type);
    for GuestImage { architecture, url, sha256, .. } in manifest().guest_images.iter().filter(fitting) {
        // A write to a string does not fail.
        let _ = writeln!(text, "- location: \"{url}\"\n  arch: {architecture}\n  digest: \"sha256:{sha256}\"");
    }
    text
}

/// The archive with `limactl` for this processor, and the version that is in it.
pub(crate) fn lima(architecture: &str) -> Option<(Asset, &'static str)> {
    let Lima { version, list, archives } = &manifest().lima;
    let archive = archives.iter().find(|archive| archive.architecture == architecture)?;
    let list = PublishedList { name: list.name.clone(), urls: vec![list.url.clone()] };
    let check = Check::Published { list, entry: archive.name.clone() };
    let asset = Asset { name: archive.name.clone(), urls: vec![archive.url.clone()], check, bytes: None };
    Some((asset, version))
}

/// The programs that this takes on a machine with this processor.
pub(crate) fn programs(need: Need, architecture: &str) -> impl Iterator<Item = &'static Program> {
    let fits = move |program: &&Program| program.architecture.as_deref().is_none_or(|known| known == architecture);
    manifest().programs.iter().filter(move |program| program.needed_by == need).filter(fits)
}

/// A file that a template names with its digest, `sha256:…`; `None` if it is one that is not ours to download.
pub(crate) fn named(location: &str, digest: &str) -> Option<Asset> {
    // As the fetcher has it: plain HTTP is for this machine only.
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
            let (asset, _) = lima(architecture).unwrap();
            assert!(asset.urls[0].starts_with("https://") && asset.urls[0].ends_with(&asset.name));
            assert!(images("qemu").contains(&format!("arch: {architecture}\n")));
        }
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

    #[test]
    fn the_lima_that_is_downloaded_is_the_one_that_is_tested() {
        let modules = include_str!("../../../vm/limactl/go.mod");
        let (_, version) = lima("x86_64").unwrap();
        assert!(modules.contains(&format!("github.com/lima-vm/lima v{version}")), "{version}");
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
