//! Tests downloads of a release: progress is reported, an interrupted download resumes, and a program with a wrong digest is not run.

use std::fs;

use crate::{
    publisher::Publisher,
    standin::program,
    support::{Product, SOON, STABLE, digest_of, needs_standin},
};

fn stage(digest: &str) -> Option<(Product, Publisher)> {
    let publisher = Publisher::start(&program(), digest);
    let authority = publisher.authority().to_string_lossy().into_owned();
    let environment = [("SSL_CERT_FILE", authority.as_str()), ("HTTPS_PROXY", &publisher.proxy())];
    let product = Product::start_with(&environment)?;
    fs::remove_dir_all(product.release(STABLE)).unwrap();
    Some((product, publisher))
}

#[test]
fn a_download_is_told_goes_on_after_a_kill_and_is_not_made_again() {
    if !needs_standin() {
        return;
    }
    let Some((product, publisher)) = stage(&digest_of(&program())) else { return };
    let half = publisher.size() / 2;
    publisher.allow(half);
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    let told = rdd_testkit::eventually("half of it", SOON, || {
        let (status, reason, message) = product.condition("KubernetesReady");
        let is_half = reason == "Downloading" && (message.contains("45% of") || message.contains("50% of"));
        if is_half { Ok(message) } else { Err(format!("{status}/{reason}: {message}")) }
    });
    assert!(told.starts_with(&format!("Downloading Kubernetes {STABLE}: ")) && told.ends_with(" MiB"), "{told}");
    assert_eq!(product.condition("Settled").1, "Downloading");
    product.kill("rdd");
    publisher.allow(usize::MAX);
    product.rdd(&["svc", "start"]).expect_success();
    product.until("Ready");
    let asked = publisher.asked();
    let list = "GET /k3s-io/k3s/releases/download/v1.34.6%2Bk3s1/sha256sum-amd64.txt HTTP/1.1 from 0";
    assert_eq!(asked.iter().filter(|one| *one == list).count(), 1, "{asked:?}");
    let last = asked.last().unwrap();
    let begins: usize = last.rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!(last.contains("/v1.34.6%2Bk3s1/k3s ") && begins > half / 2 && begins <= half, "{asked:?}");
    product.disable().expect_success();
    product.enable().expect_success();
    assert_eq!(publisher.asked(), asked, "what is there is not asked for again");
}

#[test]
fn a_program_that_is_not_what_was_published_does_not_run() {
    if !needs_standin() {
        return;
    }
    let Some((product, publisher)) = stage(&"ab".repeat(32)) else { return };
    publisher.allow(usize::MAX);
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    let message = product.until("DownloadFailed");
    assert!(message.starts_with(&format!("Failed to download Kubernetes {STABLE}: ")), "{message}");
    assert!(message.contains("SHA-256") && message.contains(&"ab".repeat(32)), "{message}");
    assert_eq!(product.until_condition("Settled", "DownloadFailed"), message);
    assert_eq!(product.starts(), Vec::<String>::new());
}
