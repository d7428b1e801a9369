//! The log files of a machine: rotation at each start, the last line or the cause of an end, and preservation before
//! deletion.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use rdd_stdx::{file, logfile};

use crate::Error;

/// The log settings of a start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// `RDD_KEEP_LOGS`: keep all old files.
    pub keep_all: bool,
    /// `RDD_LOG_TITLE`: the first line of each new file, as `{"title":"…"}`.
    pub title: Option<String>,
    /// Whether child processes log at debug level: the daemon's verbosity is 1 or more.
    pub debug: bool,
}

/// The log of the driver's events, as JSON lines.
pub const EVENTS: &str = "ha.stdout.log";
/// The log of the driver's messages for people, as JSON lines. `rdd limavm log` prints it.
pub const MESSAGES: &str = "ha.stderr.log";

/// Renames the old file and opens a new private one, with the title as its first line.
pub(crate) fn rotate(path: &Path, options: &LogOptions) -> Result<File, Error> {
    let title = options.title.as_ref().map(|title| serde_json::json!({ "title": title }).to_string());
    Ok(logfile::rotate(path, options.keep_all, title.as_deref())?)
}

/// How many bytes at the end of a log are searched for its last line.
const TAIL_BYTES: u64 = 16 << 10;
/// How many bytes at the end of the log of K3s are searched for the cause: its parts continue to log while it shuts
/// down.
const CAUSE_TAIL_BYTES: u64 = 256 << 10;
/// The maximum length of a line in a condition.
const LINE_LENGTH_MAX: usize = 1000;

/// The last non-blank line of a log, shortened for a condition; `None` if there is none.
pub(crate) fn last_line(path: &Path) -> Option<String> {
    let text = read_tail(path, TAIL_BYTES)?;
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(make_printable)
}

/// The cause of the end of K3s, by [`find_cause`] on its log; `None` if the log is empty or unreadable.
pub(crate) fn last_cause(path: &Path) -> Option<String> {
    find_cause(&read_tail(path, CAUSE_TAIL_BYTES)?)
}

/// Finds the cause of the end of a program that logs with logrus, like K3s: the message of its last fatal line, else of
/// its last error, else its last line. Lines that it logs while it shuts down are not the cause.
pub(crate) fn find_cause(text: &str) -> Option<String> {
    // A Go panic is not logged by logrus but is fatal all the same.
    let is_fatal = |line: &&str| has_level(line, "fatal") || line.starts_with("panic: ");
    let lines = || text.lines().rev().map(str::trim);
    let line = lines()
        .find(is_fatal)
        .or_else(|| lines().find(|line| has_level(line, "error")))
        .or_else(|| lines().find(|line| !line.is_empty()))?;
    Some(make_printable(&unwrap_message(line)))
}

fn has_level(line: &str, level: &str) -> bool {
    line.split(' ').any(|word| word.strip_prefix("level=") == Some(level))
}

/// The message and error of a logrus line; any other line unchanged. Drops time and level, so that equal causes give
/// equal texts.
fn unwrap_message(line: &str) -> String {
    match (find_field(line, "msg"), find_field(line, "error")) {
        (Some(message), Some(error)) => format!("{message}: {error}"),
        (Some(message), None) => message,
        (None, _) => line.to_owned(),
    }
}

/// The value of a field of a logrus line, unquoted.
fn find_field(line: &str, name: &str) -> Option<String> {
    // The leading space prevents matches inside of other field names.
    let start = line.find(&format!(" {name}="))? + name.len() + 2;
    let value = line.get(start..)?;
    let Some(quoted) = value.strip_prefix('"') else {
        return Some(value.split(' ').next().unwrap_or_default().to_owned());
    };
    let (mut text, mut characters) = (String::new(), quoted.chars());
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => match characters.next()? {
                // The message becomes one line.
                'n' | 'r' | 't' => text.push(' '),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

/// Reads the last `bytes` bytes of a file.
fn read_tail(path: &Path, bytes: u64) -> Option<String> {
    let mut log = File::open(path).ok()?;
    let length = log.metadata().ok()?.len();
    // Logs can be large; only the end matters.
    log.seek(SeekFrom::Start(length.saturating_sub(bytes))).ok()?;
    let mut tail = Vec::new();
    log.take(bytes).read_to_end(&mut tail).ok()?;
    Some(String::from_utf8_lossy(&tail).into_owned())
}

fn make_printable(line: &str) -> String {
    let printable: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LINE_LENGTH_MAX).collect();
    printable.trim().to_owned()
}

/// Moves the logs of a machine that is about to be deleted to `<log_dir>/<vm>`, or `<vm>.2` and so on if that exists.
/// Used for `RDD_KEEP_LOGS`. Returns the new folder; `None` if there are no logs.
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

/// The maximum number of folders of old logs of one machine.
const FOLDERS_MAX: u32 = 1000;

fn free_folder(log_dir: &Path, vm: &str) -> Result<PathBuf, Error> {
    let names = std::iter::once(vm.to_owned()).chain((2..=FOLDERS_MAX).map(|number| format!("{vm}.{number}")));
    for name in names {
        let folder = log_dir.join(name);
        match fs::create_dir(&folder) {
            Ok(()) => {
                // `create_dir` reserves the name; this sets the mode independent of the umask.
                file::create_dir_private(&folder)?;
                return Ok(folder);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::at("create folder", folder)(error)),
        }
    }
    Err(Error::InTheWay { what: format!("{} has {FOLDERS_MAX} folders of old logs of {vm:?}", log_dir.display()) })
}

/// Renames a file, or copies it if the target is on another file system.
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

    // Finding E-22
    #[test]
    fn the_cause_of_an_end_is_the_last_fatal_or_error_line_and_not_what_is_logged_on_the_way_out() {
        let closing = r#"time="2026-11-18T21:00:01Z" level=info msg="Closing database connections""#;
        let exited = r#"time="2026-11-18T21:00:00Z" level=error msg="kubelet exited: \"/rdd-1\" is missing""#;
        let fatal = r#"time="2026-11-18T21:00:00Z" level=fatal msg="cannot start" error="no space left on device""#;
        let bare = "time=\"2026-11-18T21:00:00Z\" level=fatal msg=no-words";
        for (log, cause) in [
            (format!("{exited}\n{closing}\n"), "kubelet exited: \"/rdd-1\" is missing"),
            (format!("{fatal}\n{exited}\n{closing}\n"), "cannot start: no space left on device"),
            (format!("{exited}\n{bare}\n"), "no-words"),
            (format!("{exited}\npanic: it cannot be\n\ngoroutine 1 [running]:\n"), "panic: it cannot be"),
            (format!("{closing}\n\n"), "Closing database connections"),
            ("killed by somebody\n".to_owned(), "killed by somebody"),
            ("x level=error msg=\"cut of\n".to_owned(), "x level=error msg=\"cut of"),
        ] {
            assert_eq!(find_cause(&log).as_deref(), Some(cause), "{log}");
        }
        assert_eq!(find_cause("\n \n"), None);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k3s.log");
        let noise = format!("{closing}\n").repeat(1000);
        fs::write(&path, format!("{exited}\n{noise}")).unwrap();
        assert_eq!(last_cause(&path).as_deref(), Some("kubelet exited: \"/rdd-1\" is missing"), "however much follows");
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
