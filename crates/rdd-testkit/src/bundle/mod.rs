//! The support bundle: what a failed or hanging run looked like, in a folder, without secrets.

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

/// How long one helper program may take; a bundle of a hanging run must not hang itself.
const HELPER_TAKES: Duration = Duration::from_secs(5);

/// What a bundle is about.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The test binary or test, as it appears in the folder's name.
    pub name: &'a str,
    /// Why there is a bundle: `timed out after 600 s`.
    pub reason: &'a str,
    /// The processes of the run.
    pub processes: &'a [Info],
    /// Home folders of the instances of the run.
    pub homes: &'a [PathBuf],
    /// What the run has printed so far.
    pub output: &'a str,
}

/// Writes a bundle into a new folder `<parent>/<name>-<time>` and returns the folder.
///
/// Contains: `summary.txt`; `processes.txt` (the tree, with names of environment variables but of values only
/// `RDD_INSTANCE`); `stacks/` (user and kernel stacks of each process); `files.txt` and `sockets.txt`; `pressure.txt`,
/// `memory.txt` and `kernel.txt` (memory pressure, kernel log); for each home a list of files, its logs and
/// its configuration without secrets; `api.txt` (what the API server answers); `output.txt`.
///
/// What cannot be had is said in the place where it would be; only a folder that cannot be written fails.
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

/// Where bundles go: `.evidence` in the repository, or what `RDD_EVIDENCE_DIR` says.
pub fn default_parent() -> PathBuf {
    if let Some(folder) = std::env::var_os("RDD_EVIDENCE_DIR").filter(|value| !value.is_empty()) {
        return folder.into();
    }
    let executable = std::env::current_exe().unwrap_or_default();
    let target = executable.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.and_then(Path::parent).unwrap_or(Path::new(".")).join(".evidence")
}

fn new_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(parent)?;
    let time = SystemClock::shared().wall().as_secs();
    let base = format!("{}-{}", file_name_of(name), timestamp(time));
    // Two bundles of one name within a second: the later one gets a number.
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

/// `20260131T235959Z`, from seconds since the Unix epoch.
fn timestamp(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
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

/// A name that is one harmless path component.
fn file_name_of(name: &str) -> String {
    let keep = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let clean: String = name.chars().map(|letter| if keep(letter) { letter } else { '_' }).take(80).collect();
    if clean.is_empty() { "unnamed".to_owned() } else { clean }
}

/// The content of a file, or why it cannot be had.
fn read_or_reason(path: impl AsRef<Path>) -> String {
    match fs::read(path.as_ref()) {
        Ok(content) => String::from_utf8_lossy(&content).into_owned(),
        Err(error) => format!("({}: {error})\n", path.as_ref().display()),
    }
}

/// What a helper program prints, or why it printed nothing.
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
