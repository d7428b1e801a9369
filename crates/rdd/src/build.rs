//! The version and build information of this binary.

use rdd_apiserver::version::Version;
use rdd_cli::BuildInfo;

/// The version of Kubernetes whose API the server implements.
const KUBERNETES: (&str, &str, &str) = ("1", "35", "4");

/// The build information, from variables that `build.rs` sets.
pub(crate) const INFO: BuildInfo = BuildInfo {
    version: env!("RDD_VERSION"),
    git_commit: env!("RDD_COMMIT"),
    build_date: env!("RDD_BUILD_DATE"),
    toolchain: concat!("rust", env!("RDD_RUSTC")),
    compiler: "rustc",
    platform: env!("RDD_PLATFORM"),
    git_version: concat!("v1.35.4+rdd-", env!("RDD_VERSION")),
};

/// The response of `/version`.
pub(crate) fn kubernetes_version() -> Version {
    let (major, minor, _) = KUBERNETES;
    Version {
        major: major.to_owned(),
        minor: minor.to_owned(),
        git_version: INFO.git_version.to_owned(),
        git_commit: INFO.git_commit.to_owned(),
        git_tree_state: if INFO.version.ends_with(".m") { "dirty" } else { "clean" }.to_owned(),
        build_date: INFO.build_date.to_owned(),
        go_version: INFO.toolchain.to_owned(),
        compiler: INFO.compiler.to_owned(),
        platform: INFO.platform.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_platform_is_named_as_the_server_names_it() {
        assert_eq!(INFO.platform, rdd_apiserver::version::platform());
    }

    #[test]
    fn the_git_version_begins_with_the_kubernetes_version() {
        let (major, minor, patch) = KUBERNETES;
        assert!(INFO.git_version.starts_with(&format!("v{major}.{minor}.{patch}+rdd-")), "{}", INFO.git_version);
    }
}
