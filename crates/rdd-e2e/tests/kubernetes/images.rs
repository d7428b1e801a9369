//! Tests the images of a release for machines without a network: they are loaded into the engine that runs the pods.

use std::{fs, path::Path};

use crate::support::{Product, STABLE, digest_of, needs_standin};

const IMAGE: &str = "rancher/mirrored-box:1";
const ARCHIVE: &str = "k3s-airgap-images-amd64.tar";

/// Saves an archive with [`IMAGE`] as `docker save` does, and removes the image from the engine.
pub(crate) fn save_image(product: &Product, archive: &Path) {
    product.make_image(IMAGE);
    product.docker(&["save", "-o", &archive.to_string_lossy(), IMAGE]).expect_success();
    product.docker(&["rmi", "--force", IMAGE]).expect_success();
    assert!(!has_image(product));
}

fn has_image(product: &Product) -> bool {
    product.docker(&["image", "ls", "-q", IMAGE]).expect_success().stdout.trim() != ""
}

#[test]
fn the_images_of_a_release_are_loaded_into_the_engine_once_and_again_when_they_are_gone() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    save_image(&product, &product.release(STABLE).join(ARCHIVE));
    product.enable().expect_success();
    assert!(has_image(&product), "it is there before any pod needs it");
    let said = product.docker(&["run", "--rm", IMAGE, "echo", "from the archive"]).expect_success();
    assert_eq!(said.stdout.trim(), "from the archive");
    let loads =
        || product.rdd(&["svc", "log"]).expect_success().stdout.matches("loading the images of Kubernetes").count();
    assert_eq!(loads(), 1);
    product.disable().expect_success();
    product.enable().expect_success();
    assert_eq!(loads(), 1, "what is there is not loaded again");
    product.disable().expect_success();
    product.docker(&["rmi", IMAGE]).expect_success();
    product.enable().expect_success();
    assert!(has_image(&product) && loads() == 2);
    // An archive that cannot be loaded is reported by name.
    product.disable().expect_success();
    fs::write(product.release(STABLE).join(ARCHIVE), "no archive").unwrap();
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    let message = product.until("StartFailed");
    assert!(message.contains(&format!("loading images from {}", product.release(STABLE).join(ARCHIVE).display())));
}

#[test]
fn an_offline_folder_has_all_of_it_and_what_has_another_digest_is_refused_by_name() {
    if !needs_standin() {
        return;
    }
    let offline = tempfile::tempdir().unwrap();
    let folder = offline.path().to_string_lossy().into_owned();
    // Nothing listens at the proxy's address: tests do not use the network.
    let environment = [("RDD_OFFLINE_DIR", folder.as_str()), ("HTTPS_PROXY", "http://127.0.0.1:1")];
    let Some(product) = Product::start_with(&environment) else { return };
    let release = product.release(STABLE);
    fs::copy(release.join("k3s"), offline.path().join("k3s")).unwrap();
    fs::remove_dir_all(&release).unwrap();
    let archive = offline.path().join(ARCHIVE);
    save_image(&product, &archive);
    let list = |images: &str| {
        let text = format!("{images}  {ARCHIVE}\n{}  k3s\n", digest_of(&offline.path().join("k3s")));
        fs::write(offline.path().join("sha256sum-amd64.txt"), text).unwrap();
    };
    list(&"ab".repeat(32));
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    let message = product.until("DownloadFailed");
    let (found, wrong) = (digest_of(&archive), "ab".repeat(32));
    let said = format!("{} is not what was published: its SHA-256 digest is {found}, not {wrong}", archive.display());
    assert!(message.contains(&said) && message.contains("put the right one there"), "{message}");
    list(&found);
    product.until("Ready");
    assert!(has_image(&product));
    assert_eq!(product.condition("Settled").1, "Settled");
}
