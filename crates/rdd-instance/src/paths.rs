//! The paths of an instance's files on each platform.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::Name;

/// The operating systems whose path conventions are supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Linux.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Platform {
    /// The platform that this program was built for.
    pub const fn current() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::MacOs
        } else {
            Self::Linux
        }
    }

    /// The environment variable with the user's home folder.
    pub const fn home_variable(self) -> &'static str {
        match self {
            Self::Linux | Self::MacOs => "HOME",
            Self::Windows => "USERPROFILE",
        }
    }

    pub(crate) fn is_absolute(self, path: &OsStr) -> bool {
        let bytes = path.as_encoded_bytes();
        match self {
            Self::Linux | Self::MacOs => bytes.starts_with(b"/"),
            Self::Windows => bytes.starts_with(br"\\") || (bytes.len() > 2 && bytes[1] == b':' && bytes[2] == b'\\'),
        }
    }

    /// Joins with this platform's separator, whatever platform the program runs on, so that tests cover all platforms
    /// on one.
    fn join(self, base: &OsStr, parts: &[&str]) -> PathBuf {
        let separator = if self == Self::Windows { "\\" } else { "/" };
        let mut path = OsString::from(base);
        for part in parts {
            path.push(separator);
            path.push(part);
        }
        path.into()
    }
}

/// The files and folders of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The folder of persistent state: arguments, credentials, datastore.
    pub dir: PathBuf,
    /// The folder of the daemon's logs.
    pub log_dir: PathBuf,
    /// A folder with a short path, since the paths of sockets are limited to about a hundred bytes.
    pub short_dir: PathBuf,
    /// Lima's `LIMA_HOME`.
    pub lima_home: PathBuf,
    /// The folder of certificates and keys.
    pub tls_dir: PathBuf,
    /// The kubeconfig of the daemon's API.
    pub config: PathBuf,
    /// The kubeconfig that K3s in the guest wrote.
    pub k3s_config: PathBuf,
    /// The PID of the daemon, for scripts. The product itself relies on [`Paths::lock_file`].
    pub pid_file: PathBuf,
    /// The arguments of `svc create`. The instance is created if this file exists.
    pub args_file: PathBuf,
    /// The socket of the container engine on the host.
    pub docker_socket: PathBuf,
    /// The socket on the host for Kubernetes in the virtual machine, which only the daemon uses.
    pub kubernetes_socket: PathBuf,
    /// The lock that the running daemon holds for its whole life; it determines whether the daemon runs.
    pub lock_file: PathBuf,
    /// The lock that a command holds while it creates, starts, resets or deletes the instance.
    pub command_lock_file: PathBuf,
    /// The datastore.
    pub datastore: PathBuf,
    /// The socket of the datastore of the original Go version, on which a daemon of that version listens.
    pub original_socket: PathBuf,
    /// The kubeconfig that only has the instance's Kubernetes.
    pub kube_config: PathBuf,
    /// The folder of downloads.
    pub cache_dir: PathBuf,
    /// The folder of runnable K3s releases, with a folder for each.
    pub k3s_releases: PathBuf,
    /// The folder with links to the product's programs.
    pub bin_dir: PathBuf,
    /// The log of the daemon's messages.
    pub stderr_log: PathBuf,
    /// The daemon's standard output, normally empty.
    pub stdout_log: PathBuf,
}

impl Paths {
    pub(crate) fn of(name: &Name, platform: Platform, home: &OsStr, log_dir: Option<&OsStr>) -> Self {
        let full = name.full();
        let under_home = |parts: &[&str]| platform.join(home, parts);
        let dir = match platform {
            Platform::Linux => under_home(&[".local", "share", &full]),
            Platform::MacOs => under_home(&["Library", "Application Support", &full]),
            Platform::Windows => under_home(&["AppData", "Local", &full]),
        };
        let log_dir = match (log_dir, platform) {
            (Some(chosen), _) => PathBuf::from(chosen),
            (None, Platform::Linux) => under_home(&[".local", "state", &full]),
            (None, Platform::MacOs) => under_home(&["Library", "Logs", &full]),
            (None, Platform::Windows) => under_home(&["AppData", "Local", &format!("{full}-logs")]),
        };
        // Directly in the home folder, to keep the path short.
        let short_dir = under_home(&[&format!(".rd{name}")]);
        let within = |folder: &Path, parts: &[&str]| platform.join(folder.as_os_str(), parts);
        Self {
            lima_home: within(&short_dir, &["lima"]),
            tls_dir: within(&dir, &["tls"]),
            config: within(&dir, &["config.yaml"]),
            k3s_config: within(&dir, &["k3s.yaml"]),
            pid_file: within(&dir, &["rdd.pid"]),
            args_file: within(&dir, &["args.json"]),
            docker_socket: match platform {
                Platform::Windows => PathBuf::from(r"\\.\pipe\docker_engine"),
                _ => within(&short_dir, &["docker.sock"]),
            },
            kubernetes_socket: within(&short_dir, &["k3s.sock"]),
            lock_file: within(&dir, &["rdd.lock"]),
            command_lock_file: within(&dir, &["command.lock"]),
            datastore: within(&dir, &["db", "state.db"]),
            original_socket: within(&dir, &["kine.sock"]),
            kube_config: within(&short_dir, &["kube.config"]),
            cache_dir: within(&dir, &["cache"]),
            k3s_releases: within(&dir, &["k3s"]),
            bin_dir: within(&short_dir, &["bin"]),
            stderr_log: within(&log_dir, &["rdd.stderr.log"]),
            stdout_log: within(&log_dir, &["rdd.stdout.log"]),
            dir,
            log_dir,
            short_dir,
        }
    }

    /// The folder of a machine, with its template, logs and disks.
    pub fn machine(&self, vm: &str) -> PathBuf {
        self.lima_home.join(vm)
    }

    /// The socket on which a controller manager listens for passthrough requests from the API server.
    pub fn manager_socket(&self, manager: &str) -> PathBuf {
        // In a separate folder, since a manager may have the name of another socket.
        self.short_dir.join("controllers").join(format!("{manager}.sock"))
    }

    /// The paths that `rdd svc paths` prints: key and path, sorted by key. Scripts and the GUI depend on the keys.
    pub fn published(&self) -> [(&'static str, &Path); 10] {
        [
            ("args_file", &self.args_file),
            ("config", &self.config),
            ("dir", &self.dir),
            ("docker_socket", &self.docker_socket),
            ("k3s_config", &self.k3s_config),
            ("lima_home", &self.lima_home),
            ("log_dir", &self.log_dir),
            ("pid_file", &self.pid_file),
            ("short_dir", &self.short_dir),
            ("tls_dir", &self.tls_dir),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(platform: Platform, home: &str, log_dir: Option<&str>) -> Vec<(&'static str, String)> {
        let paths = Paths::of(&Name::parse("2").unwrap(), platform, home.as_ref(), log_dir.map(OsStr::new));
        paths.published().map(|(key, path)| (key, path.to_str().unwrap().to_owned())).to_vec()
    }

    fn check(platform: Platform, home: &str, expected: [(&'static str, &str); 10]) {
        assert_eq!(table(platform, home, None), expected.map(|(key, path)| (key, path.to_owned())));
    }

    #[test]
    fn linux() {
        check(
            Platform::Linux,
            "/home/ann",
            [
                ("args_file", "/home/ann/.local/share/rancher-desktop-2/args.json"),
                ("config", "/home/ann/.local/share/rancher-desktop-2/config.yaml"),
                ("dir", "/home/ann/.local/share/rancher-desktop-2"),
                ("docker_socket", "/home/ann/.rd2/docker.sock"),
                ("k3s_config", "/home/ann/.local/share/rancher-desktop-2/k3s.yaml"),
                ("lima_home", "/home/ann/.rd2/lima"),
                ("log_dir", "/home/ann/.local/state/rancher-desktop-2"),
                ("pid_file", "/home/ann/.local/share/rancher-desktop-2/rdd.pid"),
                ("short_dir", "/home/ann/.rd2"),
                ("tls_dir", "/home/ann/.local/share/rancher-desktop-2/tls"),
            ],
        );
    }

    #[test]
    fn macos() {
        check(
            Platform::MacOs,
            "/Users/ann",
            [
                ("args_file", "/Users/ann/Library/Application Support/rancher-desktop-2/args.json"),
                ("config", "/Users/ann/Library/Application Support/rancher-desktop-2/config.yaml"),
                ("dir", "/Users/ann/Library/Application Support/rancher-desktop-2"),
                ("docker_socket", "/Users/ann/.rd2/docker.sock"),
                ("k3s_config", "/Users/ann/Library/Application Support/rancher-desktop-2/k3s.yaml"),
                ("lima_home", "/Users/ann/.rd2/lima"),
                ("log_dir", "/Users/ann/Library/Logs/rancher-desktop-2"),
                ("pid_file", "/Users/ann/Library/Application Support/rancher-desktop-2/rdd.pid"),
                ("short_dir", "/Users/ann/.rd2"),
                ("tls_dir", "/Users/ann/Library/Application Support/rancher-desktop-2/tls"),
            ],
        );
    }

    #[test]
    fn windows() {
        check(
            Platform::Windows,
            r"C:\Users\ann",
            [
                ("args_file", r"C:\Users\ann\AppData\Local\rancher-desktop-2\args.json"),
                ("config", r"C:\Users\ann\AppData\Local\rancher-desktop-2\config.yaml"),
                ("dir", r"C:\Users\ann\AppData\Local\rancher-desktop-2"),
                ("docker_socket", r"\\.\pipe\docker_engine"),
                ("k3s_config", r"C:\Users\ann\AppData\Local\rancher-desktop-2\k3s.yaml"),
                ("lima_home", r"C:\Users\ann\.rd2\lima"),
                ("log_dir", r"C:\Users\ann\AppData\Local\rancher-desktop-2-logs"),
                ("pid_file", r"C:\Users\ann\AppData\Local\rancher-desktop-2\rdd.pid"),
                ("short_dir", r"C:\Users\ann\.rd2"),
                ("tls_dir", r"C:\Users\ann\AppData\Local\rancher-desktop-2\tls"),
            ],
        );
    }

    #[test]
    fn a_chosen_log_folder_is_taken_as_it_is() {
        for platform in [Platform::Linux, Platform::MacOs, Platform::Windows] {
            let (key, path) = table(platform, "/h", Some("/var/log/rdd"))[6].clone();
            assert_eq!((key, path.as_str()), ("log_dir", "/var/log/rdd"));
        }
    }

    #[test]
    fn absolute_is_judged_by_the_platform() {
        for (platform, path, absolute) in [
            (Platform::Linux, "/h", true),
            (Platform::Linux, "h", false),
            (Platform::Windows, r"C:\h", true),
            (Platform::Windows, r"\\server\h", true),
            (Platform::Windows, "C:h", false),
            (Platform::Windows, "/h", false),
        ] {
            assert_eq!(platform.is_absolute(path.as_ref()), absolute, "{platform:?} {path}");
        }
    }
}
