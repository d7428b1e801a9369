//! The log files of a machine: a fresh one per start, the last five kept; the last line of one; where they go.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use rdd_stdx::{file, logfile};

use crate::Error;

/// How a start treats logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// `RDD_KEEP_LOGS`: old files are not pruned.
    pub keep_all: bool,
    /// `RDD_LOG_TITLE`: the first line of each new file, as `{"title":"…"}`.
    pub title: Option<String>,
    /// Whether what is started should tell more: the daemon's verbosity is 1 or more.
    pub debug: bool,
}

/// What the driver tells, as JSON lines: its events.
pub const EVENTS: &str = "ha.stdout.log";
/// What the driver tells, as JSON lines: for people. `rdd limavm log` prints this one.
pub const MESSAGES: &str = "ha.stderr.log";

/// Sets the file aside and opens a new one, private, with its title.
pub(crate) fn rotate(path: &Path, options: &LogOptions) -> Result<File, Error> {
    let title = options.title.as_ref().map(|title| serde_json::json!({ "title": title }).to_string());
    Ok(logfile::rotate(path, options.keep_all, title.as_deref())?)
}

/// How far from its end a log is searched for its last line.
const TAIL_BYTES: u64 = 16 << 10;
/// The longest line that is shown.
const LINE_LENGTH_MAX: usize = 1000;

/// The last line of a log that is not blank, cut to what a condition can show; `None` if there is none to read.
pub(crate) fn last_line(path: &Path) -> Option<String> {
    let mut log = File::open(path).ok()?;
    let length = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    log.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let printable: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LINE_LENGTH_MAX).collect();
    Some(printable.trim().to_owned())
}

/// Moves the logs of a machine that is about to be deleted to `<log_dir>/<vm>`, or `<vm>.2` and so on if that is taken:
/// what `RDD_KEEP_LOGS` asks for. Returns where they are, if there were any.
pub fn preserve(folder: &Path, log_dir: &Path, vm: &str) -> Result<Option<PathBuf>, Error> {
    let logs = match regular_logs(folder) {
        Ok(logs) if logs.is_empty() => return Ok(None),
        Ok(logs) => logs,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::at("list", folder)(error)),
    };
    file::create_dir_private(log_dir)?;
    let target = free_folder(log_dir, vm)?;
    for log in logs {
        let name = log.file_name().unwrap_or_default();
        move_file(&log, &target.join(name)).map_err(Error::at("move log", &log))?;
    }
    Ok(Some(target))
}

fn regular_logs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.path().extension().is_some_and(|extension| extension == "log") {
            logs.push(entry.path());
        }
    }
    Ok(logs)
}

/// As many folders of old logs of one machine as there may be.
const FOLDERS_MAX: u32 = 1000;

fn free_folder(log_dir: &Path, vm: &str) -> Result<PathBuf, Error> {
    let names = std::iter::once(vm.to_owned()).chain((2..=FOLDERS_MAX).map(|number| format!("{vm}.{number}")));
    for name in names {
        let folder = log_dir.join(name);
        match fs::create_dir(&folder) {
            Ok(()) => {
                file::create_dir_private(&folder)?;
                return Ok(folder);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::at("create folder", folder)(error)),
        }
    }
    Err(Error::InTheWay { what: format!("{} has {FOLDERS_MAX} folders of old logs of {vm:?}", log_dir.display()) })
}

/// A rename, or a copy where the log folder is on another file system.
fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            fs::copy(from, to)?;
            fs::remove_file(from)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_found_and_made_fit_to_show() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        assert_eq!(last_line(&path), None);
        for (content, line) in [
            ("", None),
            ("\n \n", None),
            ("one\ntwo\n\n", Some("two".to_owned())),
            ("one\n\u{1b}[31mred\u{7}", Some("[31mred".to_owned())),
            (&"x".repeat(50_000), Some("x".repeat(LINE_LENGTH_MAX))),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(last_line(&path), line, "{:.40}", content);
        }
        fs::write(&path, b"caf\xe9 broken").unwrap();
        assert_eq!(last_line(&path).as_deref(), Some("caf\u{fffd} broken"));
    }

    #[test]
    fn logs_are_kept_beside_those_of_an_earlier_machine_of_that_name() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, log_dir) = (dir.path().join("rd"), dir.path().join("logs"));
        assert_eq!(preserve(&folder, &log_dir, "rd").unwrap(), None, "absent is fine");
        for expected in ["rd", "rd.2", "rd.3"] {
            fs::create_dir_all(folder.join("sub.log")).unwrap();
            fs::write(folder.join("ha.stderr.log"), expected).unwrap();
            fs::write(folder.join("lima.yaml"), "").unwrap();
            let kept = preserve(&folder, &log_dir, "rd").unwrap().unwrap();
            assert_eq!(kept, log_dir.join(expected));
            assert_eq!(fs::read_to_string(kept.join("ha.stderr.log")).unwrap(), expected);
            assert!(folder.join("lima.yaml").exists() && !kept.join("lima.yaml").exists());
        }
        assert_eq!(preserve(&folder, &log_dir, "rd").unwrap(), None, "no empty folder is left for no logs");
        assert!(!log_dir.join("rd.4").exists());
    }
}
