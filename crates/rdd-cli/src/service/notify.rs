//! Receives the progress of a starting daemon on a socket, in systemd's notify protocol.

use std::{
    env,
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, PermissionsExt},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_instance::Paths;
use rdd_stdx::{file, process::Process};

/// The prefix of our temporary folders; the creating process's PID follows, so that remains can be recognised.
const PREFIX: &str = "rdd-notify-";
/// The length of a path that fits into a Unix socket address on every platform.
const PATH_BYTES_MAX: usize = 100;

/// A message from the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// `STATUS=`: what the daemon is doing.
    Status(String),
    /// `X_RDD_ERROR=`: why it cannot start.
    Error(String),
    /// `X_RDD_READ_ONLY=`: it refuses writes, for this reason.
    ReadOnly(String),
    /// `READY=1`: it is ready.
    Ready,
}

/// A notify socket in its own folder; both are removed on drop.
#[derive(Debug)]
pub struct Listener {
    folder: PathBuf,
    path: PathBuf,
    socket: UnixDatagram,
}

/// Why no socket could be created in a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path does not fit into a socket address.
    #[error("make a socket in {}: its path is too long", folder.display())]
    TooLong {
        /// The folder in which the socket was to be created.
        folder: PathBuf,
    },
    /// An operation of the operating system failed.
    #[error("make a socket in {}", folder.display())]
    Io {
        /// The folder in which the socket was to be created.
        folder: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// The folders to try, in order: the temporary folder, then two of the instance's own.
pub fn places(paths: &Paths) -> [PathBuf; 3] {
    [short_enough(env::temp_dir()), paths.short_dir.clone(), paths.dir.clone()]
}

impl Listener {
    /// Creates a socket in the first folder where that succeeds; otherwise returns one error per folder.
    pub fn open(folders: &[PathBuf]) -> Result<Self, Vec<Error>> {
        let mut errors = Vec::new();
        for folder in folders {
            match Self::open_in(folder) {
                Ok(listener) => return Ok(listener),
                Err(error) => errors.push(error),
            }
        }
        Err(errors)
    }

    /// Creates a socket in a new folder that only this user can enter.
    fn open_in(place: &Path) -> Result<Self, Error> {
        let fail = |source| Error::Io { folder: place.to_owned(), source };
        // The daemon has another working directory, in which a relative path would be wrong.
        let place = &std::path::absolute(place).map_err(fail)?;
        if !has_room(place) {
            return Err(Error::TooLong { folder: place.clone() });
        }
        // Remains are removed here, since no other code knows this folder.
        sweep(place);
        let folder = fresh_folder(place).map_err(fail)?;
        let path = folder.join("s");
        let bound = UnixDatagram::bind(&path);
        // Set explicitly, so that a restrictive umask does not keep the daemon out.
        let bound =
            bound.and_then(|socket| fs::set_permissions(&path, Permissions::from_mode(file::PRIVATE)).map(|()| socket));
        let socket = bound.inspect_err(|_| drop(fs::remove_dir_all(&folder))).map_err(fail)?;
        Ok(Self { folder, path, socket })
    }

    /// The socket's path, for the daemon's `NOTIFY_SOCKET`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for one message, at most this long. An empty result means that none arrived.
    pub fn receive(&self, at_most: Duration) -> io::Result<Vec<News>> {
        let mut buffer = [0; 4096];
        // A timeout of zero would mean no timeout.
        self.socket.set_read_timeout(Some(at_most.max(Duration::from_millis(1))))?;
        match self.socket.recv(&mut buffer) {
            Ok(length) => Ok(parse(&String::from_utf8_lossy(&buffer[..length]))),
            Err(error) if is_nothing_yet(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next start's sweep.
        let _ = file::remove_dir_if_present(&self.folder);
    }
}

fn is_nothing_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Parses a message; unknown lines are ignored, as the protocol requires.
fn parse(message: &str) -> Vec<News> {
    let news = |line: &str| match line.split_once('=')? {
        ("READY", "1") => Some(News::Ready),
        ("STATUS", text) => Some(News::Status(text.to_owned())),
        ("X_RDD_ERROR", text) => Some(News::Error(text.to_owned())),
        ("X_RDD_READ_ONLY", text) => Some(News::ReadOnly(text.to_owned())),
        _ => None,
    };
    message.lines().filter_map(news).collect()
}

fn short_enough(folder: PathBuf) -> PathBuf {
    if has_room(&folder) { folder } else { PathBuf::from("/tmp") }
}

/// Whether the path of a socket in this folder fits into an address.
fn has_room(folder: &Path) -> bool {
    folder.as_os_str().len() + PREFIX.len() + 24 <= PATH_BYTES_MAX
}

fn fresh_folder(temporary: &Path) -> io::Result<PathBuf> {
    let mut last = io::ErrorKind::AlreadyExists.into();
    for attempt in 0..1000 {
        let folder = temporary.join(format!("{PREFIX}{}-{attempt}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {
                fs::set_permissions(&folder, Permissions::from_mode(file::PRIVATE_DIR))?;
                return Ok(folder);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Removes folders that interrupted commands left behind: only this user's, and only those whose process has ended.
fn sweep(temporary: &Path) {
    let Ok(entries) = fs::read_dir(temporary) else { return };
    let user = rustix::process::getuid().as_raw();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = maker_of(&name) else { continue };
        let is_ours = fs::symlink_metadata(entry.path()).is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
        if is_ours && matches!(Process::open(pid), Ok(None)) {
            let _ = file::remove_dir_if_present(&entry.path());
        }
    }
}

fn maker_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::mode;

    #[test]
    fn messages_are_read_line_by_line_and_foreign_lines_are_skipped() {
        for (message, expected) in [
            ("READY=1", vec![News::Ready]),
            ("READY=0", vec![]),
            ("", vec![]),
            ("nonsense", vec![]),
            ("MAINPID=1\nSTATUS=waiting for API server\n", vec![News::Status("waiting for API server".to_owned())]),
            ("ERRNO=98\nX_RDD_ERROR=port = 1: taken", vec![News::Error("port = 1: taken".to_owned())]),
            ("X_RDD_READ_ONLY=no space", vec![News::ReadOnly("no space".to_owned())]),
            ("STATUS=up\nREADY=1", vec![News::Status("up".to_owned()), News::Ready]),
        ] {
            assert_eq!(parse(message), expected, "{message:?}");
        }
    }

    #[test]
    fn what_is_sent_arrives_and_nothing_stays_behind() {
        let listener = Listener::open(&[env::temp_dir()]).unwrap();
        let folder = listener.folder.clone();
        assert_eq!(mode(&folder), 0o700);
        assert!(listener.path().as_os_str().len() <= PATH_BYTES_MAX);
        assert_eq!(listener.receive(Duration::ZERO).unwrap(), []);
        UnixDatagram::unbound().unwrap().send_to(b"READY=1", listener.path()).unwrap();
        assert_eq!(listener.receive(Duration::from_secs(30)).unwrap(), [News::Ready]);
        drop(listener);
        assert!(!folder.exists());
    }

    #[test]
    fn the_first_place_that_will_have_a_socket_gets_it_and_the_others_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let long = PathBuf::from(format!("/{}", "x".repeat(80)));
        let bad = [PathBuf::from("/nonexistent"), long.clone()];
        let listener = Listener::open(&[&bad[..], &[dir.path().to_owned()]].concat()).unwrap();
        assert!(listener.path().starts_with(dir.path()));
        drop(listener);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let errors = Listener::open(&bad).unwrap_err();
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "make a socket in /nonexistent".to_owned(),
                format!("make a socket in {}: its path is too long", long.display())
            ]
        );
    }

    #[test]
    fn a_long_temporary_folder_is_not_used() {
        assert_eq!(short_enough(PathBuf::from("/var/tmp")), PathBuf::from("/var/tmp"));
        assert_eq!(short_enough(PathBuf::from(format!("/{}", "x".repeat(80)))), PathBuf::from("/tmp"));
    }

    #[test]
    fn what_the_dead_left_is_swept_and_what_the_living_use_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = |name: String| {
            let folder = temporary.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        let dead = folder(format!("{PREFIX}{}-0", i32::MAX));
        let living = folder(format!("{PREFIX}{}-0", std::process::id()));
        let foreign = folder("rdd-notifications-1".to_owned());
        sweep(temporary.path());
        assert_eq!([dead, living, foreign].map(|folder| folder.exists()), [false, true, true]);
    }
}
