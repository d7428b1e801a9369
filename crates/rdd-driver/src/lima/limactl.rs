//! Finds `limactl`, checks its version, and runs it with timeouts.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rdd_stdx::{
    file::{self, PRIVATE},
    process::{self, Process, Signal},
};
use serde_json::Value;
use tokio::process::Command;

use super::words;
use crate::{
    Error,
    identity::{LIMA_MARK, Launch},
};

/// The places to search for `limactl`.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// `RDD_LIMACTL`: if set, the only place.
    pub chosen: Option<PathBuf>,
    /// The folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// The instance's bin folder.
    pub bin_dir: PathBuf,
}

impl Places {
    /// The places that this environment names.
    pub fn of(environment: &rdd_instance::Environment, bin_dir: &Path) -> Self {
        let path = environment.path.as_deref().unwrap_or_default();
        Self {
            chosen: environment.limactl.as_ref().map(PathBuf::from),
            path: std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect(),
            bin_dir: bin_dir.to_owned(),
        }
    }
}

const LIMACTL: &str = "limactl";

/// Finds the `limactl` to use: `RDD_LIMACTL`, else the first on the `PATH`, else the instance's own.
pub fn find_limactl(places: &Places) -> Option<PathBuf> {
    if let Some(chosen) = &places.chosen {
        // An explicit choice is never replaced by another limactl.
        return is_program(chosen).then(|| chosen.clone());
    }
    let folders = places.path.iter().chain([&places.bin_dir]);
    folders.map(|folder| folder.join(LIMACTL)).find(|candidate| is_program(candidate))
}

pub(super) fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// A version of Lima.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32, u32);

impl Version {
    /// The first version in which other users of the guest cannot reach the guest agent's socket.
    pub(super) const WITHOUT_SOCKET_FLAW: Self = Self(2, 1, 3);
    /// The first version with the commands that the driver uses.
    const FIRST: Self = Self(1, 0, 0);

    /// Parses the output of `limactl --version`: `limactl version 1.2.1`.
    pub(super) fn parse(said: &str) -> Option<Self> {
        let word = said.split_ascii_whitespace().last()?.trim_start_matches('v');
        // Ignore the suffix of a pre-release or of `git describe`.
        let mut parts = word.split(['.', '-', '+']).map(|part| part.parse::<u32>());
        Some(Self(parts.next()?.ok()?, parts.next()?.ok()?, parts.next().and_then(Result::ok).unwrap_or_default()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Variables that child processes must not inherit: with them they would notify systemd for rdd or use its sockets.
const MISLEADING: &[&str] = &[
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "LIMA_INSTANCE",
    "LIMA_WORKDIR",
    "LIMA_SHELL",
];

/// The timeout of a short command.
const QUESTION_TAKES: Duration = Duration::from_secs(20);
/// The timeout of a creation, which may download an image of some hundred megabytes.
const CREATE_TAKES: Duration = Duration::from_secs(3600);
/// The maximum size of output that is kept.
const SAID_BYTES_MAX: usize = 1 << 20;

/// An installed `limactl` and its environment.
#[derive(Debug, Clone)]
pub(super) struct Limactl {
    pub(super) program: PathBuf,
    /// `LIMA_HOME`
    pub(super) home: PathBuf,
    /// The `PATH` for the programs that it starts.
    pub(super) path: OsString,
    /// The folder for temporary files.
    pub(super) scratch: PathBuf,
    /// `XDG_CACHE_HOME`: set explicitly, because the driver reads the cache as well.
    pub(super) cache: PathBuf,
}

impl Limactl {
    /// A command that outlives the daemon, with its output discarded.
    pub(super) fn command(&self, cwd: &Path) -> std::process::Command {
        let mut command = process::background(&self.program, cwd);
        for name in MISLEADING {
            command.env_remove(name);
        }
        command
            .env("XDG_CACHE_HOME", &self.cache)
            .env("LIMA_HOME", &self.home)
            .env("PATH", &self.path)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Its version.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the version is unknown or too old.
    pub(super) fn version(&self) -> Result<Version, Error> {
        let said = self.ask(&[OsStr::new("--version")])?;
        let version = Version::parse(&said);
        match version {
            Some(version) if version >= Version::FIRST => Ok(version),
            _ => Err(Error::Unsupported {
                missing: format!(
                    "{} says it is {:?}, and Lima 1.0 or later is needed",
                    self.program.display(),
                    said.trim()
                ),
                remedy: "install a newer Lima, or name one with RDD_LIMACTL".to_owned(),
            }),
        }
    }

    /// Validates a template with `limactl template validate`. The error holds its messages.
    pub(super) fn validate(&self, template: &str) -> Result<(), Vec<String>> {
        let problem = |error: Error| vec![rdd_stdx::chain::Chain(&error).to_string()];
        let file = self.written(template).map_err(problem)?;
        let words = [OsStr::new("template"), OsStr::new("validate"), file.path.as_os_str()];
        match self.ask(&words) {
            Ok(_) => Ok(()),
            // limactl has found a problem; other errors mean that it could not run.
            Err(Error::Program { message, .. }) => Err(vec![without_path(&message, &file.path)]),
            Err(error) => Err(problem(error)),
        }
    }

    /// Resolves all references of a template.
    pub(super) fn embedded(&self, template: &str) -> Result<String, Error> {
        let file = self.written(template)?;
        let words = ["template", "copy", "--embed-all"].map(OsStr::new);
        self.ask(&[&words[..], &[file.path.as_os_str(), OsStr::new("-")]].concat())
    }

    /// The archive of nerdctl that a template installs in its guest, from the cache, into which the creation put it;
    /// `None` if the template installs none.
    pub(super) fn nerdctl(&self, template: &str) -> Result<Option<PathBuf>, Error> {
        let options = serde_saphyr::options! { with_snippet: false };
        let read = |text: &str| serde_saphyr::from_str_with_options::<Value>(text, options.clone()).unwrap_or_default();
        let is_off =
            |value: &Value| ["system", "user"].iter().all(|which| value["containerd"][which] == Value::Bool(false));
        // Common case without running limactl: the template disables containerd explicitly.
        if is_off(&read(template)) {
            return Ok(None);
        }
        // Only Lima knows the defaults.
        let file = self.written(template)?;
        let words = ["template", "copy", "--fill"].map(OsStr::new);
        let filled = read(&self.ask(&[&words[..], &[file.path.as_os_str(), OsStr::new("-")]].concat())?);
        let is_on = |which: &str| filled["containerd"][which] == Value::Bool(true);
        if !is_on("system") && !is_on("user") {
            return Ok(None);
        }
        let archives = filled["containerd"]["archives"].as_array().into_iter().flatten();
        let fitting = archives.filter(|archive| archive["arch"].as_str() == Some(std::env::consts::ARCH));
        let found = fitting.filter_map(|archive| self.cached(archive["location"].as_str()?)).next();
        found.map(Some).ok_or_else(|| Error::Unsupported {
            missing: "the archive of nerdctl that the template asks for is not in the cache of Lima".to_owned(),
            remedy: "make the machine anew, or set containerd.system and containerd.user to false".to_owned(),
        })
    }

    /// The path of a file that Lima downloaded. Each entry of the cache is a folder with the file and its URL.
    fn cached(&self, location: &str) -> Option<PathBuf> {
        // A local archive is used in place.
        if location.starts_with('/') {
            return Some(PathBuf::from(location)).filter(|path| path.is_file());
        }
        let folders = std::fs::read_dir(self.cache.join("lima/download/by-url-sha256")).ok()?.flatten();
        let is_it =
            |folder: &PathBuf| std::fs::read_to_string(folder.join("url")).is_ok_and(|url| url.trim() == location);
        folders.map(|entry| entry.path()).find(is_it).map(|folder| folder.join("data")).filter(|data| data.is_file())
    }

    /// Creates a stopped machine from a template. The processes that it starts get the machine's mark.
    pub(super) async fn create(&self, vm: &str, template: &str, folder: &Path, launch: &Launch) -> Result<(), Error> {
        let file = self.written(template)?;
        let log = Scratch::new(&self.scratch, "log")?;
        let mut command = self.command(&self.home);
        command.args(["--log-format=json", "create", "--tty=false"]).arg(format!("--name={vm}")).arg(&file.path);
        // The mark lets a later teardown find what the creation started.
        launch.mark(&mut command, LIMA_MARK, folder);
        // A file instead of a pipe, so that a chatty child never blocks.
        command.stderr(log.create()?);
        let failed = |message: String| Error::Program { program: "limactl create".to_owned(), message };
        let mut child = Command::from(command).kill_on_drop(true).spawn().map_err(|error| failed(error.to_string()))?;
        match tokio::time::timeout(CREATE_TAKES, child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(failed(words::reason(&log.read()).unwrap_or_else(|| status.to_string()))),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("it did not end within {CREATE_TAKES:?}"))),
        }
    }

    /// Runs a short command and returns its output. Blocks the thread.
    fn ask(&self, arguments: &[&OsStr]) -> Result<String, Error> {
        let shown = |argument: &&OsStr| argument.to_string_lossy().into_owned();
        let name = arguments.iter().take(2).map(shown).collect::<Vec<_>>().join(" ");
        let failed = |message: String| Error::Program { program: format!("limactl {name}"), message };
        let (answer, log) = (Scratch::new(&self.scratch, "out")?, Scratch::new(&self.scratch, "log")?);
        let mut command = self.command(&self.home);
        command.arg("--log-format=json").args(arguments).stdout(answer.create()?).stderr(log.create()?);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let process = Process::open(child.id()).map_err(|error| failed(error.to_string()))?;
        // Without a process, the child has ended already.
        let in_time = process.as_ref().is_none_or(|process| process.wait(QUESTION_TAKES).unwrap_or(false));
        if let Some(process) = process.filter(|_| !in_time) {
            let _ = process.signal(Signal::KILL);
        }
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        if !in_time {
            return Err(failed(format!("it did not end within {QUESTION_TAKES:?}")));
        }
        if status.success() {
            return Ok(answer.read());
        }
        Err(failed(words::reason(&log.read()).unwrap_or_else(|| status.to_string())))
    }

    fn written(&self, template: &str) -> Result<Scratch, Error> {
        let file = Scratch::new(&self.scratch, "yaml")?;
        file::write_atomic(&file.path, template.as_bytes(), PRIVATE)?;
        Ok(file)
    }
}

/// Replaces the temporary file's path in an error message.
fn without_path(said: &str, path: &Path) -> String {
    let path = path.to_string_lossy();
    let said = said
        .replace(&format!("failed to validate YAML file {path:?}: "), "")
        .replace(&format!("{path:?}"), "the template");
    said.replace(&*path, "the template")
}

/// A temporary file, removed on drop.
#[derive(Debug)]
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(folder: &Path, extension: &str) -> Result<Self, Error> {
        // Concurrent calls in this process need different names.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        file::create_dir_private(folder)?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Lima derives a machine's name from the file name, so the name must be valid for a machine.
        Ok(Self { path: folder.join(format!("t{}-{number}.{extension}", std::process::id())) })
    }

    fn create(&self) -> Result<File, Error> {
        Ok(file::open_append_private(&self.path)?)
    }

    fn read(&self) -> String {
        let mut content = std::fs::read(&self.path).unwrap_or_default();
        content.truncate(SAID_BYTES_MAX);
        String::from_utf8_lossy(&content).into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = file::remove_if_present(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        for (said, version) in [
            ("limactl version 1.2.1\n", Some(Version(1, 2, 1))),
            ("limactl version v2.0.0-alpha.1", Some(Version(2, 0, 0))),
            ("limactl version 2.1", Some(Version(2, 1, 0))),
            ("limactl version HEAD-1234", None),
            ("", None),
        ] {
            assert_eq!(Version::parse(said), version, "{said}");
        }
        assert!(Version(2, 1, 2) < Version::WITHOUT_SOCKET_FLAW && Version(2, 2, 0) > Version::WITHOUT_SOCKET_FLAW);
    }

    #[test]
    fn limactl_is_the_chosen_one_or_the_first_on_the_path_or_our_own() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mk = |name: &str, mode: u32| {
            let bin = folder.path().join(name);
            std::fs::create_dir(&bin).unwrap();
            let program = bin.join("limactl");
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
            bin
        };
        let (data, first, own) = (mk("data", 0o644), mk("first", 0o755), mk("own", 0o755));
        let mut places =
            Places { chosen: None, path: vec![folder.path().join("none"), data, first.clone()], bin_dir: own.clone() };
        assert_eq!(find_limactl(&places), Some(first.join("limactl")));
        places.path.clear();
        assert_eq!(find_limactl(&places), Some(own.join("limactl")));
        places.chosen = Some(folder.path().join("gone"));
        assert_eq!(find_limactl(&places), None, "a choice that leads nowhere is not replaced by a guess");
    }

    #[test]
    fn a_problem_does_not_name_a_file_that_nobody_knows() {
        let path = Path::new("/x/t1-2.yaml");
        assert_eq!(
            without_path("failed to validate YAML file \"/x/t1-2.yaml\": field `images` must be set", path),
            "field `images` must be set"
        );
        assert_eq!(without_path("cannot read /x/t1-2.yaml", path), "cannot read the template");
    }
}
