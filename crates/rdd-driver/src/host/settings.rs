//! Parses and validates a template for the host driver.

use std::path::{Path, PathBuf};

use crate::Template;

/// Fields of Lima's templates that describe a VM and are ignored here, so that one template can serve several drivers.
const IGNORED: &[&str] = &[
    "additionalDisks",
    "arch",
    "audio",
    "base",
    "caCerts",
    "containerd",
    "copyToHost",
    "cpuType",
    "disk",
    "dns",
    "env",
    "firmware",
    "guestInstallPrefix",
    "hostResolver",
    "images",
    "message",
    "minimumLimaVersion",
    "mountInotify",
    "mountType",
    "mountTypesUnsupported",
    "mounts",
    "nestedVirtualization",
    "networks",
    "os",
    "plain",
    "portForwards",
    "probes",
    "propagateProxyEnv",
    "provision",
    "rosetta",
    "ssh",
    "timezone",
    "upgradePackages",
    "user",
    "video",
    "vmOpts",
];

/// Fields that the driver uses.
const KNOWN: &[&str] = &["cpus", "memory", "param", "vmType"];

/// The maximum length of a socket's path.
pub(super) const SOCKET_PATH_MAX: usize = 107;

/// The settings of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) engine: Kind,
    /// The socket of Docker's API for clients; `None` means the default in the machine's folder.
    pub(super) docker_socket: Option<PathBuf>,
}

/// The kind of engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// `dockerd` with a `containerd` of the instance's own.
    Moby,
    /// `containerd` without `dockerd`.
    Containerd,
    /// An existing engine at this socket. The driver watches it and never starts or stops it.
    Foreign(PathBuf),
}

impl Settings {
    /// Parses a template. Sockets that rdd creates must lie below `ours`.
    ///
    /// # Errors
    /// All problems of the template, as messages for the user.
    pub(super) fn of(template: &str, ours: &Path) -> Result<Self, Vec<String>> {
        let template = Template::parse(template)?;
        let mut problems = unknown_fields(&template);
        match template.vm_type.as_deref() {
            Some("host") => {}
            Some(other) => problems.push(format!("field `vmType` must be \"host\", and is {other:?}")),
            None => problems.push("field `vmType` must be \"host\", and is missing".to_owned()),
        }
        // An empty value counts as absent.
        let param = |name: &str| template.param.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let docker_socket = param("HOST_DOCKER_SOCKET").map(PathBuf::from);
        if let Some(path) = &docker_socket {
            problems.extend(socket_problem("HOST_DOCKER_SOCKET", path));
            // A teardown removes this socket, so it must be in a folder that rdd owns.
            if !is_below(path, ours) {
                let folder = ours.display();
                problems.push(format!(
                    "field `param.HOST_DOCKER_SOCKET` must lie below {folder}, this instance's own folder"
                ));
            }
        }
        let engine = match (param("CONTAINER_ENGINE"), param("HOST_ENGINE_SOCKET").map(PathBuf::from)) {
            (None | Some("moby"), Some(path)) => {
                problems.extend(socket_problem("HOST_ENGINE_SOCKET", &path));
                // The link would point to itself.
                if docker_socket.as_ref() == Some(&path) {
                    problems.push(
                        "fields `param.HOST_ENGINE_SOCKET` and `param.HOST_DOCKER_SOCKET` must differ".to_owned(),
                    );
                }
                Kind::Foreign(path)
            }
            (None | Some("moby"), None) => Kind::Moby,
            (Some("containerd"), None) => Kind::Containerd,
            (Some("containerd"), Some(_)) => {
                problems.push("field `param.HOST_ENGINE_SOCKET` is the socket of a Docker engine; with CONTAINER_ENGINE \"containerd\" there is none".to_owned());
                Kind::Containerd
            }
            (Some(other), _) => {
                problems.push(format!(
                    "field `param.CONTAINER_ENGINE` must be \"moby\" or \"containerd\", and is {other:?}"
                ));
                Kind::Moby
            }
        };
        if problems.is_empty() { Ok(Self { engine, docker_socket }) } else { Err(problems) }
    }
}

fn unknown_fields(template: &Template) -> Vec<String> {
    let is_known = |name: &str| KNOWN.contains(&name) || IGNORED.contains(&name);
    let unknown = template.fields.iter().filter(|name| !is_known(name));
    unknown.map(|name| format!("field `{name}` is unknown")).collect()
}

fn socket_problem(param: &str, path: &Path) -> Option<String> {
    if !path.is_absolute() || path.components().any(|part| part == std::path::Component::ParentDir) {
        return Some(format!("field `param.{param}` must be an absolute path, and is {path:?}"));
    }
    let length = path.as_os_str().len();
    (length > SOCKET_PATH_MAX).then(|| {
        format!("field `param.{param}` has {length} bytes, and the path of a socket can have {SOCKET_PATH_MAX}")
    })
}

fn is_below(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder) && path != folder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(template: &str) -> Result<Settings, String> {
        Settings::of(template, Path::new("/home/ann/.rd2")).map_err(|problems| problems.join("\n"))
    }

    #[test]
    fn templates_choose_the_engine() {
        let settings = |engine, socket: Option<&str>| Ok(Settings { engine, docker_socket: socket.map(PathBuf::from) });
        let own = Some("/home/ann/.rd2/docker.sock");
        for (template, expected) in [
            ("vmType: host\n", settings(Kind::Moby, None)),
            (
                "vmType: host\nimages: []\nparam: {CONTAINER_ENGINE: moby, HOST_ENGINE_SOCKET: ''}\n",
                settings(Kind::Moby, None),
            ),
            ("vmType: host\nparam: {CONTAINER_ENGINE: containerd}\n", settings(Kind::Containerd, None)),
            ("vmType: host\nparam: {HOST_DOCKER_SOCKET: /home/ann/.rd2/docker.sock}\n", settings(Kind::Moby, own)),
            (
                "vmType: host\nparam: {HOST_ENGINE_SOCKET: /run/docker.sock}\n",
                settings(Kind::Foreign("/run/docker.sock".into()), None),
            ),
        ] {
            assert_eq!(read(template), expected, "{template}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_in_words() {
        for (template, problem) in [
            ("cpus: 2\n", "field `vmType` must be \"host\", and is missing"),
            ("vmType: qemu\n", "field `vmType` must be \"host\", and is \"qemu\""),
            ("vmType: host\ncpu: 2\n", "field `cpu` is unknown"),
            (
                "vmType: host\nparam: {CONTAINER_ENGINE: podman}\n",
                "field `param.CONTAINER_ENGINE` must be \"moby\" or \"containerd\", and is \"podman\"",
            ),
            (
                "vmType: host\nparam: {HOST_ENGINE_SOCKET: docker.sock}\n",
                "field `param.HOST_ENGINE_SOCKET` must be an absolute path, and is \"docker.sock\"",
            ),
            (
                "vmType: host\nparam: {HOST_DOCKER_SOCKET: /home/ann/.rd2/../x/docker.sock}\n",
                "field `param.HOST_DOCKER_SOCKET` must be an absolute path, and is \"/home/ann/.rd2/../x/docker.sock\"",
            ),
            (
                "vmType: host\nparam: {HOST_DOCKER_SOCKET: /var/run/docker.sock}\n",
                "field `param.HOST_DOCKER_SOCKET` must lie below /home/ann/.rd2, this instance's own folder",
            ),
            (
                "vmType: host\nparam: {CONTAINER_ENGINE: containerd, HOST_ENGINE_SOCKET: /run/docker.sock}\n",
                "field `param.HOST_ENGINE_SOCKET` is the socket of a Docker engine; with CONTAINER_ENGINE \"containerd\" there is none",
            ),
        ] {
            assert_eq!(read(template), Err(problem.to_owned()), "{template}");
        }
    }
}
