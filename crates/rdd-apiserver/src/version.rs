//! `/version`: what the server reports itself as.

use serde::{Deserialize, Serialize, Serializer};

/// The `version.Info` of Kubernetes. On the wire it also says which version is emulated, which is always this one, and back to which version
/// clients are compatible, which is the one before, as of every server of Kubernetes that is told nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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

/// The fields of `version.Info` in its order.
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
