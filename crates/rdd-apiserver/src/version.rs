//! `/version`: what the server reports itself as.

use serde::{Deserialize, Serialize};

/// The `version.Info` of Kubernetes, its fields in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// `1`.
    pub major: String,
    /// As `35`.
    pub minor: String,
    /// As `v1.35.4+rdd-0.1.0`: semantic, and compared for equality by our own clients.
    pub git_version: String,
    /// The commit it was built from.
    pub git_commit: String,
    /// `clean` or `dirty`.
    pub git_tree_state: String,
    /// RFC 3339.
    pub build_date: String,
    /// Kubernetes names its compiler here, so we name ours.
    pub go_version: String,
    /// As `rustc`.
    pub compiler: String,
    /// As `linux/amd64`.
    pub platform: String,
}

impl Version {
    /// As labels of `kubernetes_build_info`.
    pub(crate) fn labels(&self) -> Vec<(&'static str, String)> {
        let Self { major, minor, git_version, git_commit, git_tree_state, build_date, go_version, compiler, platform } =
            self;
        let pairs = [
            ("build_date", build_date),
            ("compiler", compiler),
            ("git_commit", git_commit),
            ("git_tree_state", git_tree_state),
            ("git_version", git_version),
            ("go_version", go_version),
            ("major", major),
            ("minor", minor),
            ("platform", platform),
        ];
        pairs.map(|(name, value)| (name, value.clone())).to_vec()
    }
}

/// The platform in Kubernetes' words, which are Go's: `linux/amd64`.
pub fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}/{machine}")
}
