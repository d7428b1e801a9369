//! The requirements of kubelet releases on their machine.

/// The first minor release of Kubernetes 1 whose kubelet accepts `fail-cgroupv1`; older ones refuse unknown flags.
pub(crate) const MINOR_WITH_CGROUP_FLAG: u32 = 31;
/// The first minor release whose kubelet refuses control groups of version 1 by default.
const MINOR_WITHOUT_CGROUP_V1: u32 = 35;

/// The minor release of a full version of Kubernetes 1: 34 for `v1.34.6+k3s1`.
pub(crate) fn minor_version(version: &str) -> Option<u32> {
    let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
    (parts.next()? == "1").then(|| parts.next()?.parse().ok()).flatten()
}

/// The warning about this release on a machine with control groups of version 1; `None` for a release that supports
/// them.
pub(crate) fn warn_of_cgroup_v1(version: &str, machine: &str) -> Option<String> {
    minor_version(version).filter(|minor| *minor >= MINOR_WITHOUT_CGROUP_V1)?;
    Some(format!(
        "{machine} has control groups of version 1, which Kubernetes does not support from 1.{MINOR_WITHOUT_CGROUP_V1} on; boot it with version 2 \
         (systemd.unified_cgroup_hierarchy=1), or choose an older Kubernetes for a new cluster"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding E-19
    #[test]
    fn a_release_that_does_not_support_version_1_is_warned_of_with_the_way_out() {
        let warning = warn_of_cgroup_v1("v1.35.0+k3s3", "the guest").unwrap();
        assert!(warning.starts_with("the guest has control groups of version 1, "), "{warning}");
        assert!(warning.contains("systemd.unified_cgroup_hierarchy=1"), "{warning}");
        assert_eq!(warn_of_cgroup_v1("v1.34.6+k3s1", "the guest"), None, "that one supports them");
        assert_eq!(warn_of_cgroup_v1("nonsense", "the guest"), None);
    }
}
