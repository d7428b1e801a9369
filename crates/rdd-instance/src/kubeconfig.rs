//! The kubeconfigs of the user's own kubectl.

use std::path::PathBuf;

use crate::{Environment, Instance};

impl Instance {
    /// The files in `KUBECONFIG`, or else `~/.kube/config`, in the order in which kubectl merges them.
    ///
    /// Duplicates and relative paths are ignored; a relative path would mean another file in every working folder. So
    /// are this instance's own kubeconfigs: `rdd run` sets `KUBECONFIG` to them, perhaps for a daemon.
    pub fn user_kubeconfigs(&self, environment: &Environment) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in environment.kubeconfig.iter().flat_map(std::env::split_paths) {
            let is_own = path == self.paths.kube_config || path == self.paths.config;
            if path.is_absolute() && !is_own && !paths.contains(&path) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            let home = environment.home.clone().unwrap_or_default();
            paths.push(PathBuf::from(home).join(".kube").join("config"));
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;

    #[track_caller]
    fn check(kubeconfig: &str, expected: &[&str]) {
        let set = [("HOME", "/home/ann"), ("KUBECONFIG", kubeconfig)];
        let lookup = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        let environment = Environment::from_lookup(lookup);
        let instance = Instance::resolve(&environment, Platform::Linux).unwrap();
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(instance.user_kubeconfigs(&environment), expected, "{kubeconfig}");
    }

    #[test]
    fn a_list_is_split_and_nothing_means_the_one_in_the_home_folder() {
        check("", &["/home/ann/.kube/config"]);
        check("/a", &["/a"]);
        check("/a:/b::/a", &["/a", "/b"]);
        check("relative", &["/home/ann/.kube/config"]);
        check("/home/ann/.rd2/kube.config:/b", &["/b"]);
        check("/home/ann/.rd2/kube.config", &["/home/ann/.kube/config"]);
    }
}
