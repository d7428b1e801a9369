//! Writes support bundles: folders that show the state of a failed or hanging test run, without secrets.

mod host;
mod instance;
mod process;
mod redact;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::clock::SystemClock;
pub use redact::redact;

use crate::processes::Info;

/// The timeout of each helper program; writing the bundle of a hanging run must not hang itself.
const HELPER_TAKES: Duration = Duration::from_secs(5);

/// The run that a bundle describes.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The test program or test, which the folder is named for.
    pub name: &'a str,
    /// Why the bundle is written, such as `timed out after 600 s`.
    pub reason: &'a str,
    /// The processes of the run.
    pub processes: &'a [Info],
    /// The home folders of the run's instances.
    pub homes: &'a [PathBuf],
    /// The run's output so far.
    pub output: &'a str,
}

/// Writes a bundle into a new folder `<parent>/<name>-<time>` and returns its path.
///
/// It contains: `summary.txt`; `processes.txt` (the tree, with the names of environment variables but no values other than `RDD_INSTANCE`);
/// `stacks/` (user and kernel stacks of each process); `files.txt` and `sockets.txt` (what is open); `pressure.txt`, `memory.txt` and
/// `kernel.txt`; for each home a list of files, the logs and the configuration without secrets; `api.txt` (replies of the API server);
/// `output.txt`.
///
/// Information that is unavailable is replaced by the reason.
///
/// # Errors
///
/// Only if the folder or a file in it cannot be written.
pub fn write(parent: &Path, subject: &Subject<'_>) -> io::Result<PathBuf> {
    let folder = new_folder(parent, subject.name)?;
    let put = |name: &str, text: &str| fs::write(folder.join(name), redact(text));
    put("summary.txt", &summary(subject))?;
    put("processes.txt", &process::tree(subject.processes))?;
    put("files.txt", &process::open_files(subject.processes))?;
    put("sockets.txt", &process::sockets(subject.processes))?;
    put("pressure.txt", &host::pressure())?;
    put("memory.txt", &host::memory())?;
    put("kernel.txt", &host::kernel_log())?;
    put("output.txt", subject.output)?;
    fs::create_dir(folder.join("stacks"))?;
    for seen in subject.processes.iter().filter(|process| !process.is_zombie()) {
        put(&format!("stacks/{}-{}.txt", seen.pid, file_name_of(&seen.name)), &process::stacks(seen.pid))?;
    }
    put("api.txt", &instance::api_state(subject.processes))?;
    for home in subject.homes {
        let name = file_name_of(&home.file_name().unwrap_or_default().to_string_lossy());
        instance::copy(home, &folder.join(format!("home-{name}")))?;
    }
    Ok(folder)
}

/// The folder for bundles: `RDD_EVIDENCE_DIR`, or else `.evidence` in the repository.
pub fn default_parent() -> PathBuf {
    if let Some(folder) = std::env::var_os("RDD_EVIDENCE_DIR").filter(|value| !value.is_empty()) {
        return folder.into();
    }
    // Cargo marks its target folder with this file.
    let executable = std::env::current_exe().unwrap_or_default();
    let target = executable.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.and_then(Path::parent).unwrap_or(Path::new(".")).join(".evidence")
}

fn new_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(parent)?;
    let time = SystemClock::shared().wall().as_secs();
    let base = format!("{}-{}", file_name_of(name), timestamp(time));
    // Bundles of the same name within one second get a number.
    for attempt in 1.. {
        let folder = parent.join(if attempt == 1 { base.clone() } else { format!("{base}-{attempt}") });
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the loop above ends by returning")
}

/// Formats seconds since the Unix epoch as `20260131T235959Z`.
fn timestamp(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

/// Converts days since 1970-01-01 to year, month and day of the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

fn summary(subject: &Subject<'_>) -> String {
    let mut text = format!("{}: {}\n\n{} processes\n", subject.name, subject.reason, subject.processes.len());
    for process in subject.processes {
        text.push_str(&format!("  {process}\n"));
    }
    for home in subject.homes {
        text.push_str(&format!("home {}\n", home.display()));
    }
    text
}

/// Converts a name to a single, safe path component.
fn file_name_of(name: &str) -> String {
    let keep = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let clean: String = name.chars().map(|letter| if keep(letter) { letter } else { '_' }).take(80).collect();
    if clean.is_empty() { "unnamed".to_owned() } else { clean }
}

/// The content of a file, or the reason why it cannot be read.
fn read_or_reason(path: impl AsRef<Path>) -> String {
    match fs::read(path.as_ref()) {
        Ok(content) => String::from_utf8_lossy(&content).into_owned(),
        Err(error) => format!("({}: {error})\n", path.as_ref().display()),
    }
}

/// The output of a helper program, or the reason why there is none.
fn output_or_reason(command: &mut std::process::Command) -> String {
    use crate::bounded::{Outcome, run};
    let program = command.get_program().to_string_lossy().into_owned();
    match run(command, HELPER_TAKES, |_| ()) {
        Ok(Outcome::Ended(output)) => output.stdout + &output.stderr,
        Ok(Outcome::TimedOut(output)) => format!("{}{}({program} took too long)\n", output.stdout, output.stderr),
        Err(error) => format!("({program}: {error})\n"),
    }
}

#[cfg(test)]
mod tests;
