//! `/version`: the version and build information that the server reports.

use serde::{Deserialize, Serialize, Serializer};

/// Kubernetes' `version.Info`. The encoded form also has the emulated version, which is this version, and the minimum compatible
/// version, which is the previous minor version: the values of a Kubernetes API server with default flags.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The major version, `1`.
    pub major: String,
    /// The minor version, as in `35`.
    pub minor: String,
    /// The semantic version, as in `v1.35.4+rdd-0.1.0`. Our own clients compare it for equality.
    pub git_version: String,
    /// The commit that the server was built from.
    pub git_commit: String,
    /// The state of the working tree at build time: `clean` or `dirty`.
    pub git_tree_state: String,
    /// The time of the build, in RFC 3339 format.
    pub build_date: String,
    /// The compiler's version. Kubernetes has Go's version here, we have Rust's.
    pub go_version: String,
    /// The compiler's name, `rustc`.
    pub compiler: String,
    /// The platform, as in `linux/amd64`.
    pub platform: String,
}

/// The encoded form: the fields of `version.Info` in upstream's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionInfo<'a> {
    major: &'a str,
    minor: &'a str,
    emulation_major: &'a str,
    emulation_minor: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_compatibility_major: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_compatibility_minor: Option<String>,
    git_version: &'a str,
    git_commit: &'a str,
    git_tree_state: &'a str,
    build_date: &'a str,
    go_version: &'a str,
    compiler: &'a str,
    platform: &'a str,
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A minor version that is not a number has no predecessor.
        let previous = self.minor.parse::<u32>().ok().and_then(|minor| minor.checked_sub(1));
        let info = VersionInfo {
            major: &self.major,
            minor: &self.minor,
            emulation_major: &self.major,
            emulation_minor: &self.minor,
            min_compatibility_major: previous.map(|_| self.major.as_str()),
            min_compatibility_minor: previous.map(|minor| minor.to_string()),
            git_version: &self.git_version,
            git_commit: &self.git_commit,
            git_tree_state: &self.git_tree_state,
            build_date: &self.build_date,
            go_version: &self.go_version,
            compiler: &self.compiler,
            platform: &self.platform,
        };
        info.serialize(serializer)
    }
}

impl Version {
    /// The labels of the metric `kubernetes_build_info`.
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

/// The platform of this build in Go's notation, as in `linux/amd64`, which Kubernetes uses too.
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

#[cfg(test)]
mod tests {
    use super::*;

    // Finding E-18
    #[test]
    fn the_fields_are_those_of_upstream_in_its_order() {
        let text = |text: &str| text.to_owned();
        let version = Version {
            major: text("1"),
            minor: text("35"),
            git_version: text("v1.35.4"),
            git_commit: text("c"),
            git_tree_state: text("clean"),
            build_date: text("d"),
            go_version: text("g"),
            compiler: text("rustc"),
            platform: text("linux/amd64"),
        };
        let written = serde_json::to_string(&version).unwrap();
        assert_eq!(
            written,
            r#"{"major":"1","minor":"35","emulationMajor":"1","emulationMinor":"35","minCompatibilityMajor":"1","minCompatibilityMinor":"34","gitVersion":"v1.35.4","gitCommit":"c","gitTreeState":"clean","buildDate":"d","goVersion":"g","compiler":"rustc","platform":"linux/amd64"}"#
        );
        assert_eq!(serde_json::from_str::<Version>(&written).unwrap(), version);
    }
}
