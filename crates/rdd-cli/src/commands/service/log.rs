//! `rdd service log`: prints the daemon's log.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_meta::terminal;

use crate::{
    args::Log,
    record::Level,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// How often a followed file is read.
const POLL: Duration = Duration::from_millis(100);
const CHUNK: usize = 64 * 1024;

/// Prints the daemon's log; with `--follow` until it is interrupted.
pub fn run(plane: &ControlPlane<'_>, args: &Log) -> Outcome {
    let path = if args.stdout { &plane.paths().stdout_log } else { &plane.paths().stderr_log };
    print(plane, path, u64::try_from(args.tail).ok(), args.follow)
}

/// Prints a log file, the last `tail` lines or all of it. With `follow`, also prints what is appended, until the command is interrupted.
///
/// A missing file is not an error: without `follow` nothing is printed, with it the command waits for the file.
pub fn print(plane: &ControlPlane<'_>, path: &Path, tail: Option<u64>, follow: bool) -> Outcome {
    let mut reader = Follower::new(path, tail);
    let mut told = false;
    let mut filter = plane.context.stdout_terminal().map(|_| TerminalFilter::default());
    let mut write = |bytes: &[u8]| match &mut filter {
        Some(filter) => Ok(plane.context.printer.text(&filter.escape(bytes))?),
        None => Ok(plane.context.printer.bytes(bytes)?),
    };
    loop {
        let found = reader.copy_new(&mut write)?;
        // Reported once, however long the file is missing.
        if !found && !told {
            told = true;
            let message = format!("Waiting for {} to appear...", path.display());
            plane.record().showing(Level::Info).info(&message);
        }
        if !follow {
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
}

/// Escapes control characters for a terminal: logs contain output of VMs and containers. Pipes get the bytes unchanged.
#[derive(Debug, Default)]
struct TerminalFilter {
    /// The start of a UTF-8 character whose end is in the next chunk.
    rest: Vec<u8>,
}

impl TerminalFilter {
    fn escape(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            // An incomplete character at the end, not an invalid one.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let rest = self.rest.split_off(whole);
        let text = String::from_utf8_lossy(&std::mem::replace(&mut self.rest, rest)).into_owned();
        terminal::escape(&text)
    }
}

/// Reads a file that grows, and that may be truncated or replaced at any time (log rotation).
#[derive(Debug)]
struct Follower {
    path: PathBuf,
    /// The number of last lines to start with in the first file; `None` means all. Taken when the file is opened.
    tail: Option<u64>,
    file: Option<File>,
}

impl Follower {
    fn new(path: &Path, tail: Option<u64>) -> Self {
        Self { path: path.to_owned(), tail, file: None }
    }

    /// Writes the bytes that are new since the last call. Returns false if the file does not exist.
    fn copy_new(&mut self, write: &mut dyn FnMut(&[u8]) -> Outcome) -> Outcome<bool> {
        let path = self.path.clone();
        let fail = |error: io::Error| Failure::caused(format!("read {}", path.display()), error);
        loop {
            if self.file.is_none() && !self.open().map_err(fail)? {
                return Ok(false);
            }
            let file = self.file.as_mut().expect("opened above");
            // Checked before the read: bytes that were written before the replacement are then still read from the old file.
            let replaced = rewind_if_cut(file).and_then(|()| is_replaced(file, &path)).map_err(fail)?;
            let mut buffer = vec![0; CHUNK];
            loop {
                match file.read(&mut buffer).map_err(fail)? {
                    0 => break,
                    length => write(&buffer[..length])?,
                }
            }
            if !replaced {
                return Ok(true);
            }
            // The file was read to its end; continue with its replacement.
            self.file = None;
        }
    }

    fn open(&mut self) -> io::Result<bool> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if let Some(lines) = self.tail.take() {
            let start = start_of_last(&mut file, lines)?;
            file.seek(SeekFrom::Start(start))?;
        }
        self.file = Some(file);
        Ok(true)
    }
}

/// Starts again at the beginning if the file has been truncated: its content is new.
fn rewind_if_cut(file: &mut File) -> io::Result<()> {
    if file.metadata()?.len() < file.stream_position()? {
        file.rewind()?;
    }
    Ok(())
}

/// Whether the path refers to another file now. A missing path is not a replacement yet.
fn is_replaced(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) != (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The offset at which the last `lines` lines begin. A last line without a newline counts.
fn start_of_last(file: &mut File, lines: u64) -> io::Result<u64> {
    let length = file.metadata()?.len();
    if lines == 0 {
        return Ok(length);
    }
    let mut found = 0;
    let mut end = length;
    let mut buffer = vec![0; CHUNK];
    while end > 0 {
        let begin = end.saturating_sub(CHUNK as u64);
        let chunk = &mut buffer[..usize::try_from(end - begin).expect("at most one chunk")];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(chunk)?;
        for (index, _) in chunk.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = begin + index as u64 + 1;
            // The newline at the end of the file does not begin another line.
            if after < length {
                found += 1;
            }
            if found == lines {
                return Ok(after);
            }
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;
    use std::io::Write;

    fn new_text(follower: &mut Follower) -> Option<String> {
        let mut bytes = Vec::new();
        let found = follower
            .copy_new(&mut |chunk| {
                bytes.extend_from_slice(chunk);
                Ok(())
            })
            .unwrap();
        found.then(|| String::from_utf8(bytes).unwrap())
    }

    // Finding A-8
    #[test]
    fn a_terminal_is_shown_what_it_must_not_obey_also_across_chunks() {
        let mut filter = TerminalFilter::default();
        assert_eq!(filter.escape(b"a\x1b[2J\x07b \xe2\x80"), "a^[[2J^Gb ");
        assert_eq!(filter.escape("\u{202e}c\n".as_bytes().get(2..).unwrap()), "\\u202ec\n");
        assert_eq!(filter.escape(b"\xff\n"), "\u{fffd}\n");
    }

    // Finding A-8
    #[test]
    fn a_log_on_a_terminal_is_escaped_and_a_program_gets_it_as_it_is() {
        let mut user = User::new();
        user.run("svc create");
        let log = user.instance().paths.stderr_log;
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        fs::write(&log, "a\u{1b}[2Jb\n").unwrap();
        assert_eq!(user.run("svc log").stdout, "a\u{1b}[2Jb\n");
        user.terminal = true;
        assert_eq!(user.run("svc log").stdout, "a^[[2Jb\n");
    }

    #[test]
    fn appending_cutting_and_rotating_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let mut follower = Follower::new(&path, None);
        assert_eq!(new_text(&mut follower), None);
        fs::write(&path, "one\n").unwrap();
        assert_eq!(new_text(&mut follower).as_deref(), Some("one\n"));
        assert_eq!(new_text(&mut follower).as_deref(), Some(""));
        let append = |text: &str| fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(text.as_bytes());
        append("two").unwrap();
        assert_eq!(new_text(&mut follower).as_deref(), Some("two"), "a partial line too");
        fs::OpenOptions::new().write(true).truncate(true).open(&path).unwrap().write_all(b"3\n").unwrap();
        assert_eq!(new_text(&mut follower).as_deref(), Some("3\n"), "cut");
        append("late\n").unwrap();
        fs::rename(&path, dir.path().join("x.1.log")).unwrap();
        fs::write(&path, "fresh\n").unwrap();
        assert_eq!(new_text(&mut follower).as_deref(), Some("late\nfresh\n"), "rotated");
        fs::remove_file(&path).unwrap();
        assert_eq!(new_text(&mut follower).as_deref(), Some(""), "removed, for now");
    }

    #[test]
    fn the_last_lines_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let long = "x".repeat(CHUNK);
        for (text, lines, expected) in [
            ("a\nb\nc\n", 0, ""),
            ("a\nb\nc\n", 1, "c\n"),
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc\n", 3, "a\nb\nc\n"),
            ("a\nb\nc\n", 9, "a\nb\nc\n"),
            ("a\nb", 1, "b"),
            ("\n\n", 1, "\n"),
            ("", 1, ""),
            (&format!("a\n{long}\nb\n"), 2, &format!("{long}\nb\n")),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(new_text(&mut Follower::new(&path, Some(lines))).as_deref(), Some(expected), "{lines}");
        }
    }

    #[test]
    fn the_chosen_file_is_printed_and_a_missing_one_is_named() {
        let user = User::new();
        let paths = user.instance().paths;
        let ran = user.run("svc log --log-level=fatal");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
        assert_eq!(ran.messages(), [format!("Waiting for {} to appear...", paths.stderr_log.display())]);
        fs::create_dir_all(&paths.log_dir).unwrap();
        fs::write(&paths.stderr_log, "err 1\nerr 2").unwrap();
        fs::write(&paths.stdout_log, "out\n").unwrap();
        assert_eq!(user.run("svc log").stdout, "err 1\nerr 2");
        assert_eq!(user.run("svc logs -o").stdout, "out\n");
        assert_eq!(user.run("svc log --tail=1").stdout, "err 2");
    }
}
