//! A folder with kubeconfigs, and the entries to publish into them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rdd_kubeconfig::{Cluster, Merge, Outcome, User};

pub(crate) const NAME: &str = "rancher-desktop-2";

/// A folder that is removed after the test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// All names in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

pub(crate) fn cluster(port: u16) -> Cluster {
    Cluster { server: format!("https://127.0.0.1:{port}"), certificate_authority_data: "Q0E=".to_owned() }
}

pub(crate) fn user() -> User {
    User { token: "secret".to_owned(), ..User::default() }
}

pub(crate) fn merge(paths: &[&Path]) -> Merge {
    Merge::new(paths.iter().map(|path| path.to_path_buf()).collect(), NAME)
}

pub(crate) fn written(paths: &[&Path]) -> Outcome {
    Outcome::Written(paths.iter().map(|path| path.to_path_buf()).collect())
}
