//! The kubeconfig of the instance alone, with one context, which is current.

use std::path::{Path, PathBuf};

use rdd_stdx::{
    file::{self, PRIVATE},
    owned,
};

use crate::{
    edit::{Change, List, edit},
    entry::{Cluster, User, put},
};

/// A kubeconfig that only the daemon writes.
#[derive(Debug, Clone)]
pub struct OwnFile {
    path: PathBuf,
    name: String,
}

impl OwnFile {
    /// The file at `path`, with a context called `name`.
    pub fn new(path: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { path: path.into(), name: name.into() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file, readable only for its owner. Returns `false` if it had this content already.
    pub fn write(&self, cluster: &Cluster, user: &User) -> Result<bool, file::Error> {
        let text = render(&self.name, cluster, user);
        if owned::read(&self.path).is_ok_and(|old| old == text.as_bytes()) {
            return Ok(false);
        }
        if let Some(folder) = self.path.parent()
            && !folder.exists()
        {
            file::create_dir_private(folder)?;
        }
        file::write_atomic(&self.path, text.as_bytes(), PRIVATE).map(|()| true)
    }

    /// Removes the file, if it exists.
    pub fn remove(&self) -> Result<(), file::Error> {
        file::remove_if_present(&self.path)
    }
}

fn render(name: &str, cluster: &Cluster, user: &User) -> String {
    let entries = List::ALL.map(|list| put(list, name, cluster, user));
    let changes = entries.into_iter().chain([Change::SetCurrent(name.to_owned())]);
    changes.fold(String::new(), |text, change| edit(&text, &change).expect("nothing stands in the way in a new text"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_holds_one_context_and_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFile::new(folder.path().join("new/kube.config"), "rancher-desktop-2");
        let cluster =
            Cluster { server: "https://127.0.0.1:7443".to_owned(), certificate_authority_data: "Q0E=".to_owned() };
        let user = User { token: "secret".to_owned(), ..User::default() };
        assert!(own.write(&cluster, &user).unwrap());
        assert!(!own.write(&cluster, &user).unwrap());
        assert_eq!(
            std::fs::read_to_string(own.path()).unwrap(),
            "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: Q0E=\n    server: https://127.0.0.1:7443\n  \
             name: rancher-desktop-2\ncontexts:\n- context:\n    cluster: rancher-desktop-2\n    user: rancher-desktop-2\n  \
             name: rancher-desktop-2\ncurrent-context: rancher-desktop-2\nkind: Config\npreferences: {}\nusers:\n- name: \
             rancher-desktop-2\n  user:\n    token: secret\n"
        );
        assert_eq!(std::fs::metadata(own.path()).unwrap().permissions().mode() & 0o777, 0o600);
        own.remove().unwrap();
        own.remove().unwrap();
    }
}
