//! Puts the version of the tree into the binary.

use std::process::Command;

fn main() {
    // Commits, checkouts and tags move this file; without git the build is an unversioned one and needs no watching.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RDD_BUILD_VERSION");

    let version = std::env::var("RDD_BUILD_VERSION").ok().filter(|version| !version.is_empty());
    let version = version
        .or_else(|| git(&["describe", "--match", "v[0-9]*", "--dirty=.m", "--always", "--tags"]))
        .unwrap_or_else(|| "v0.0.0-dev".to_owned());
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_default();
    // The commit's date, not today's: the same tree gives the same binary.
    let date = git(&["show", "--no-patch", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd", "HEAD"]);
    println!("cargo::rustc-env=RDD_VERSION={version}");
    println!("cargo::rustc-env=RDD_COMMIT={commit}");
    println!("cargo::rustc-env=RDD_BUILD_DATE={}", date.unwrap_or_default());
    println!("cargo::rustc-env=RDD_RUSTC={}", rustc());
    println!("cargo::rustc-env=RDD_PLATFORM={}", platform());
}

/// In Kubernetes' words, which are Go's.
fn platform() -> String {
    let of = |name| std::env::var(name).unwrap_or_default();
    let system = of("CARGO_CFG_TARGET_OS").replace("macos", "darwin");
    let machine = of("CARGO_CFG_TARGET_ARCH").replace("x86_64", "amd64").replace("aarch64", "arm64");
    format!("{system}/{machine}")
}

fn git(arguments: &[&str]) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a build script cannot use the crates it builds")]
    let output = Command::new("git").args(arguments).env("TZ", "UTC").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

fn rustc() -> String {
    #[expect(clippy::disallowed_methods, reason = "a build script cannot use the crates it builds")]
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output();
    let text = output.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    text.split(' ').nth(1).unwrap_or("unknown").trim().to_owned()
}
