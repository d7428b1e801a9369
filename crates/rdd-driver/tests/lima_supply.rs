//! What the lima driver gets by itself before it makes a machine, and what it says when it cannot.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod standin;

use std::{fs, path::Path, process::Command, time::Duration};

use rdd_driver::{Driver, Found, Health, LogOptions, State};
use rdd_fetch::Sha256;
use rdd_stdx::process;
use standin::{Place, TEMPLATE};

const VM: &str = "rd";

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), work).await }).expect("it ends in time")
}

fn archive_name() -> String {
    format!("lima-2.1.3-Linux-{}.tar.gz", std::env::consts::ARCH)
}

/// A folder with Lima as its publisher packs it, and with the list of digests.
fn offline(place: &Place) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join(archive_name());
    let mut command: Command = process::background("tar", &place.bin().join(".."));
    let packed = command.arg("-czf").arg(&archive).args(["bin/limactl", "share"]).status().unwrap();
    assert!(packed.success());
    let digest = Sha256::of(&fs::read(&archive).unwrap());
    fs::write(folder.path().join("lima-2.1.3-SHA256SUMS"), format!("{digest}  {}\n", archive_name())).unwrap();
    folder
}

#[test]
fn a_missing_limactl_is_taken_from_the_offline_folder_verified_and_kept() {
    let mut place = Place::new();
    let offline = offline(&place);
    place.environment.offline_dir = Some(offline.path().into());
    fs::remove_file(place.bin().join("limactl")).unwrap();
    run(async {
        let driver = place.driver();
        assert_eq!(driver.validate(TEMPLATE), Ok(()), "it is asked once it is there");
        driver.create(VM, TEMPLATE).await.unwrap();
        assert!(place.instance.paths.bin_dir.join("limactl").is_file());
        fs::remove_dir_all(offline.path()).unwrap();
        let mut run = driver.start(VM, &LogOptions::default()).await.unwrap();
        while run.next().await.expect("it comes up") != State::Running(Health::GOOD) {}
        assert_eq!(driver.progress(VM), None, "what is done is not told any more");
        let problems = driver.validate("vmType: qemu\ncpus: 1\n").unwrap_err();
        assert_eq!(problems, ["field `images` must be set"], "now it has its say");
        driver.delete(VM).await.unwrap();
    });
}

// Finding E-2
#[test]
fn an_invalid_template_is_refused_before_there_is_a_limactl() {
    let place = Place::new();
    fs::remove_file(place.bin().join("limactl")).unwrap();
    let driver = place.driver();
    assert_eq!(driver.validate("vmType: qemu\ncpus: 1\n").unwrap_err(), ["field `images` must be set"]);
    let two = "vmType: qemu\nimages: [{location: /x}]\nmountType: nfs\nportForwards: [{guestPort: 22}]\n";
    let problems = driver.validate(two).unwrap_err();
    assert!(problems.len() > 1 && problems[0].starts_with("field `mountType` must be "), "{problems:#?}");
    assert_eq!(driver.validate(TEMPLATE), Ok(()));
    // What Lima's own settings add to every template is not missed in this one.
    let settings = place.instance.paths.lima_home.join("_config");
    fs::create_dir_all(&settings).unwrap();
    fs::write(settings.join("default.yaml"), "images: [{location: /x}]\n").unwrap();
    assert_eq!(driver.validate("vmType: qemu\ncpus: 1\n"), Ok(()));
    assert!(!place.instance.paths.bin_dir.join("limactl").exists(), "nothing was downloaded for it");
}

#[test]
fn an_archive_that_is_not_the_published_one_is_not_used() {
    let mut place = Place::new();
    let offline = offline(&place);
    fs::write(offline.path().join(archive_name()), "something else").unwrap();
    place.environment.offline_dir = Some(offline.path().into());
    // A proxy that refuses at once, so that nobody else is asked.
    place.environment.https_proxy = Some("http://127.0.0.1:1".to_owned());
    fs::remove_file(place.bin().join("limactl")).unwrap();
    run(async {
        let driver = place.driver();
        let error = driver.create(VM, TEMPLATE).await.unwrap_err().to_string();
        assert!(error.starts_with("limactl is not installed, and could not be had: "), "{error}");
        for way_out in ["install Lima", "RDD_LIMACTL", "RDD_OFFLINE_DIR", &archive_name(), "backend host"] {
            assert!(error.contains(way_out), "{way_out} in {error}");
        }
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent, "nothing was begun");
        assert!(!place.instance.paths.bin_dir.join("limactl").exists());
    });
}

#[test]
fn an_image_with_a_digest_is_in_limas_cache_before_lima_looks_for_it() {
    let mut place = Place::new();
    let offline = tempfile::tempdir().unwrap();
    fs::write(offline.path().join("guest.img"), "an image").unwrap();
    place.environment.offline_dir = Some(offline.path().into());
    let (url, digest) = ("https://images.example.com/v1/guest.img", Sha256::of(b"an image"));
    let template = format!(
        "vmType: qemu\nimages:\n- location: {url}\n  digest: sha256:{digest}\ncontainerd: {{system: false, user: false}}\n"
    );
    run(async {
        let driver = place.driver();
        driver.create(VM, &template).await.unwrap();
        let home = Path::new(place.environment.home.as_ref().unwrap());
        let entry = home.join(".cache/lima/download/by-url-sha256").join(Sha256::of(url.as_bytes()).to_string());
        assert_eq!(fs::read_to_string(entry.join("data")).unwrap(), "an image");
        assert_eq!(fs::read_to_string(entry.join("url")).unwrap(), url);
        assert_eq!(fs::read_to_string(entry.join("sha256.digest")).unwrap(), format!("sha256:{digest}"));
        // What is there is not asked for again.
        fs::remove_dir_all(offline.path()).unwrap();
        fs::remove_dir_all(&place.instance.paths.cache_dir).unwrap();
        driver.delete(VM).await.unwrap();
        driver.create(VM, &template).await.unwrap();
        driver.delete(VM).await.unwrap();
    });
}

// Finding A-9
#[test]
fn an_image_with_a_backing_file_is_refused_although_its_digest_is_right() {
    let mut place = Place::new();
    let offline = tempfile::tempdir().unwrap();
    let image = [&b"QFI\xfb\0\0\0\x02"[..], &72_u64.to_be_bytes(), &[0; 64]].concat();
    fs::write(offline.path().join("guest.img"), &image).unwrap();
    place.environment.offline_dir = Some(offline.path().into());
    let digest = Sha256::of(&image);
    let template =
        format!("vmType: qemu\nimages:\n- location: https://images.example.com/guest.img\n  digest: sha256:{digest}\n");
    run(async {
        let driver = place.driver();
        let error = driver.create(VM, &template).await.unwrap_err().to_string();
        assert!(error.contains("it has a backing file"), "{error}");
        assert!(!place.calls().contains("create"), "Lima did not see it: {}", place.calls());
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent);
    });
}

#[test]
fn an_image_that_cannot_be_had_is_told_with_the_way_out_and_nothing_is_begun() {
    let mut place = Place::new();
    place.environment.https_proxy = Some("http://127.0.0.1:1".to_owned());
    let digest = Sha256::of(b"x");
    let template =
        format!("vmType: qemu\nimages:\n- location: https://images.example.com/guest.img\n  digest: sha256:{digest}\n");
    run(async {
        let driver = place.driver();
        let error = driver.create(VM, &template).await.unwrap_err().to_string();
        assert!(error.starts_with("the image of the machine could not be had: "), "{error}");
        assert!(error.contains("put guest.img into the folder that RDD_OFFLINE_DIR names"), "{error}");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent);
    });
}

#[test]
fn a_program_that_a_machine_takes_and_is_missing_is_told_with_its_package_and_nothing_is_begun() {
    for (name, package) in [
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("qemu-img", "qemu-utils"),
        ("ssh", "openssh-client"),
        ("ssh-keygen", "openssh-client"),
    ] {
        let place = Place::new();
        run(async {
            let driver = place.driver_without(&[name]);
            for error in [driver.available().unwrap_err(), driver.create(VM, TEMPLATE).await.unwrap_err()] {
                let error = error.to_string();
                assert!(error.starts_with(&format!("{name} is not installed; ")), "{error}");
                assert!(error.contains(&format!("apt-get install {package})")), "{error}");
            }
            assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent, "nothing was begun");
        });
    }
}

#[test]
fn a_machine_whose_qemu_was_removed_does_not_start_and_says_what_to_install() {
    let place = Place::new();
    run(async {
        place.driver().create(VM, TEMPLATE).await.unwrap();
        let driver = place.driver_without(&["qemu-system-x86_64", "qemu-img"]);
        let error = driver.start(VM, &LogOptions::default()).await.unwrap_err().to_string();
        assert!(error.starts_with("qemu-system-x86_64, qemu-img are not installed; install them"), "{error}");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    });
}

#[test]
fn what_could_not_be_unpacked_or_used_is_not_downloaded() {
    let mut place = Place::new();
    let offline = offline(&place);
    place.environment.offline_dir = Some(offline.path().into());
    fs::remove_file(place.bin().join("limactl")).unwrap();
    for missing in ["tar", "gzip", "qemu-img"] {
        run(async {
            let driver = place.driver_without(&[missing]);
            let error = driver.create(VM, TEMPLATE).await.unwrap_err().to_string();
            assert!(error.starts_with(&format!("{missing} is not installed; install it")), "{error}");
        });
        fs::remove_dir_all(place.bin().join("../../programs")).unwrap();
        assert!(!place.instance.paths.cache_dir.join(archive_name()).exists());
    }
}

#[test]
fn an_image_that_could_not_be_unpacked_is_not_downloaded() {
    let place = Place::new();
    let digest = Sha256::of(b"x");
    let image = "https://images.example.com/guest.raw.xz";
    let template = format!("vmType: qemu\nimages:\n- location: {image}\n  digest: sha256:{digest}\n");
    run(async {
        let error = place.driver_without(&["xz"]).create(VM, &template).await.unwrap_err().to_string();
        assert!(
            error.starts_with("xz is not installed; install it (on Debian and Ubuntu: apt-get install xz-utils)"),
            "{error}"
        );
    });
}
