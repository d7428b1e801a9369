//! Publishes the access to the cluster: in the instance's own kubeconfig, and in the user's.

use std::fmt::Debug;

use futures::future::BoxFuture;
use rdd_instance::{Environment, Instance};
use rdd_kubeconfig::{Cluster, Merge, NetworkProbe, OwnFile, User};
use rdd_stdx::chain::Chain;

use super::access::Access;

/// What is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// Nothing.
    Nothing,
    /// The wanted access, published a short time ago.
    AsWanted,
    /// Another access, or one that another program may have changed since.
    Otherwise,
}

/// Publishes Kubernetes contexts. Errors are messages for users.
pub trait Contexts: Debug + Send + Sync {
    /// Whether anything may be published. It does not read the user's file.
    fn is_there(&self) -> bool;

    /// Publishes this access under the instance's name. Writes only what differs.
    fn publish<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<(), String>>;

    /// Removes the copy of the cluster's kubeconfig, before the cluster and its credentials are deleted.
    fn remove_cluster_config(&self) -> Result<(), String>;

    /// Removes everything that was published.
    fn withdraw(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Makes our context the user's current one, unless another current context may be in use.
    fn choose_current(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// The kubeconfig files of an instance and of its user.
///
/// # Guarantees
/// The instance's own file is written before the user's, and removed after it. So while it does not exist, nothing is published, and the
/// user's file need not be read.
#[derive(Debug)]
pub struct Files {
    own: OwnFile,
    /// The file that `rdd svc paths k3s_config` names: the cluster's kubeconfig with the published address.
    cluster: OwnFile,
    users: Merge,
}

/// The name of the cluster, the user and the context in K3s's kubeconfig.
const K3S_NAME: &str = "default";

impl Files {
    /// The files of this instance.
    pub fn of(instance: &Instance, environment: &Environment) -> Self {
        let name = instance.name.full();
        let own = OwnFile::new(instance.paths.kube_config.clone(), name.clone());
        let cluster = OwnFile::new(instance.paths.k3s_config.clone(), K3S_NAME);
        Self { own, cluster, users: Merge::new(instance.user_kubeconfigs(environment), name) }
    }
}

fn text(error: impl std::error::Error) -> String {
    Chain(&error).to_string()
}

impl Contexts for Files {
    fn is_there(&self) -> bool {
        self.own.path().symlink_metadata().is_ok()
    }

    fn publish<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (cluster, user) = entries(access);
            // The own file first: as long as it exists, a later process withdraws the others.
            self.own.write(&cluster, &user).map_err(text)?;
            self.cluster.write(&cluster, &user).map_err(text)?;
            self.users.publish(&cluster, &user).await.map(drop).map_err(text)
        })
    }

    fn remove_cluster_config(&self) -> Result<(), String> {
        self.cluster.remove().map_err(text)
    }

    fn withdraw(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            // It holds credentials and is ours alone, so it is removed even if the user's file cannot be changed.
            self.remove_cluster_config()?;
            self.users.withdraw().await.map_err(text)?;
            self.own.remove().map_err(text)
        })
    }

    fn choose_current(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.users.switch_current(&NetworkProbe::default()).await.map(drop).map_err(text) })
    }
}

fn entries(access: &Access) -> (Cluster, User) {
    let text = |of: &serde_json::Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let (cluster, user) = (access.cluster(), access.user());
    let cluster = Cluster {
        server: text(&cluster, "server"),
        certificate_authority_data: text(&cluster, "certificate-authority-data"),
    };
    let user = User {
        client_certificate_data: text(&user, "client-certificate-data"),
        client_key_data: text(&user, "client-key-data"),
        token: text(&user, "token"),
    };
    (cluster, user)
}

#[cfg(test)]
mod tests {
    use rdd_instance::Platform;

    use super::*;

    fn files(home: &std::path::Path) -> Files {
        let environment = Environment { home: Some(home.as_os_str().to_owned()), ..Environment::default() };
        let instance = Instance::resolve(&environment, Platform::Linux).unwrap();
        Files::of(&instance, &environment)
    }

    fn access() -> Access {
        Access { authority: b"ca".to_vec(), certificate: None, key: None, token: Some("t".into()), port: 7443 }
    }

    // Finding 361-T1, O-7
    #[tokio::test]
    async fn both_files_come_with_a_publication_and_nothing_is_left_after_it() {
        let home = tempfile::tempdir().unwrap();
        let files = files(home.path());
        let (own, users) = (home.path().join(".rd2/kube.config"), home.path().join(".kube/config"));
        assert!(!files.is_there());
        files.publish(&access()).await.unwrap();
        assert!(files.is_there() && own.exists());
        let merged = std::fs::read_to_string(&users).unwrap();
        assert!(merged.contains("https://127.0.0.1:7443") && merged.contains("rancher-desktop-2"), "{merged}");
        files.withdraw().await.unwrap();
        assert!(!files.is_there() && !own.exists());
        let after = std::fs::read_to_string(&users).unwrap_or_default();
        assert!(!after.contains("rancher-desktop-2"), "{after}");
    }

    // Finding E-1
    #[tokio::test]
    async fn the_file_that_paths_names_is_the_clusters_kubeconfig_at_the_published_port() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let files = files(home.path());
        let path = home.path().join(".local/share/rancher-desktop-2/k3s.yaml");
        files.publish(&access()).await.unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(Access::parse(&written, 7443).unwrap(), access());
        for said in ["server: https://127.0.0.1:7443", "current-context: default", "name: default", "token: t"] {
            assert!(written.contains(said), "{said}: {written}");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        files.remove_cluster_config().unwrap();
        assert!(!path.exists() && files.is_there(), "a reset keeps the context");
        files.publish(&access()).await.unwrap();
        files.withdraw().await.unwrap();
        assert!(!path.exists());
    }

    // Finding 361-S2
    #[tokio::test]
    async fn a_file_that_cannot_be_written_is_told_and_ours_says_that_there_is_something_to_withdraw() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".kube"), "no folder").unwrap();
        let files = files(home.path());
        let why = files.publish(&access()).await.unwrap_err();
        assert!(why.contains(".kube"), "{why}");
        assert!(files.is_there());
    }
}
