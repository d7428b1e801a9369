//! Where an instance keeps its files, per platform, as a pure table.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::Name;

/// The operating systems whose conventions we follow.
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
    /// The one this program was built for.
    pub const fn current() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::MacOs
        } else {
            Self::Linux
        }
    }

    /// The variable that holds the user's home.
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

    /// Joins by this platform's separator, whatever platform the program runs on, so that all three can be tested on one.
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
    /// State that must survive: arguments, credentials, datastore.
    pub dir: PathBuf,
    /// Logs of the daemon.
    pub log_dir: PathBuf,
    /// A folder with a short name, because a socket's path has to fit into about a hundred bytes.
    pub short_dir: PathBuf,
    /// What Lima calls LIMA_HOME.
    pub lima_home: PathBuf,
    /// Certificates and keys.
    pub tls_dir: PathBuf,
    /// The kubeconfig of the daemon's API.
    pub config: PathBuf,
    /// The kubeconfig that the guest's K3s wrote.
    pub k3s_config: PathBuf,
    /// The daemon's PID, for scripts. Nobody here trusts it: see [`Paths::lock_file`].
    pub pid_file: PathBuf,
    /// The arguments `svc create` stored. That it exists means "created".
    pub args_file: PathBuf,
    /// The container engine's socket on the host.
    pub docker_socket: PathBuf,
    /// Where a virtual machine's Kubernetes can be reached on the host, by the daemon only.
    pub kubernetes_socket: PathBuf,
    /// Held by the running daemon for its whole life: the truth about "is it running?".
    pub lock_file: PathBuf,
    /// Held by a command while it creates, starts, resets or deletes the instance.
    pub command_lock_file: PathBuf,
    /// The datastore.
    pub datastore: PathBuf,
    /// The socket of the Go version's datastore: something answers there while a daemon of that version lives.
    pub original_socket: PathBuf,
    /// The kubeconfig of the instance's Kubernetes alone.
    pub kube_config: PathBuf,
    /// What was downloaded.
    pub cache_dir: PathBuf,
    /// Releases of K3s that can be run, a folder each.
    pub k3s_releases: PathBuf,
    /// Links to our own programs.
    pub bin_dir: PathBuf,
    /// What the daemon says to people.
    pub stderr_log: PathBuf,
    /// What the daemon writes to its standard output, normally nothing.
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

    /// The folder of the machine of this name: its template, its logs, its disks.
    pub fn machine(&self, vm: &str) -> PathBuf {
        self.lima_home.join(vm)
    }

    /// Where the controller manager of this name listens for what the API server passes through to it.
    pub fn manager_socket(&self, manager: &str) -> PathBuf {
        // In a folder of their own: a manager may call itself what another socket is called.
        self.short_dir.join("controllers").join(format!("{manager}.sock"))
    }

    /// What `rdd svc paths` shows: key and path, sorted by key. Scripts and the GUI rely on these keys.
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
