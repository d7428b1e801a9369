//! `rdd service backup`: saves the datastore to a file.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use rdd_stdx::{file, lock, owned};

use crate::{
    args::Backup,
    progress::Progress,
    record::timestamp,
    report::{Failure, Outcome},
    service::{
        ControlPlane, command_lock,
        datastore::Offline,
        deadline::Deadline,
        readiness::{self, Awaited},
    },
};

/// The timeout of the backup's waits, for the command lock and for a starting daemon.
const BOUND: Duration = Duration::from_secs(90);
const SAVING: &str = "saving the datastore";

/// Saves the datastore to a new file and prints its path.
///
/// Works with the daemon running or stopped. The file is complete and synced when this returns; an existing file is never overwritten.
pub fn run(plane: &ControlPlane<'_>, args: &Backup) -> Outcome {
    let target = match &args.file {
        Some(file) => file.clone(),
        None => PathBuf::from(default_name(&plane.name(), timestamp(plane.context.clock().as_ref()))),
    };
    refuse_existing(&target)?;
    // One deadline for all attempts.
    let deadline = Deadline::after(Some(BOUND));
    // Each way returns false if the daemon's state was the other one, which may change at any moment.
    while !(save_offline(plane, &target, deadline)? || save_online(plane, &target, deadline)?) {}
    plane.record().success(&format!("saved the datastore of {:?} in {}", plane.name(), target.display()));
    Ok(plane.context.printer.line(target.display())?)
}

/// Downloads a backup from the daemon once it is ready. Returns false if there is no daemon any more.
fn save_online(plane: &ControlPlane<'_>, target: &Path, deadline: Deadline) -> Outcome<bool> {
    // A daemon of any version will do: users make backups before an update.
    if readiness::wait(plane, deadline, None, readiness::Wanted::default())? == Awaited::Gone {
        return Ok(false);
    }
    let _progress = Progress::on_terminal(plane.record(), SAVING);
    let api = readiness::connect(plane)?;
    write_new(target, |writer| Ok(api.download("/datastore/backup", writer)?))?;
    Ok(true)
}

/// Copies the datastore while holding the locks that keep daemons and commands away. Returns false if a daemon has it open.
fn save_offline(plane: &ControlPlane<'_>, target: &Path, deadline: Deadline) -> Outcome<bool> {
    let is_running = || plane.observe().map(|state| state.daemon.is_running());
    let datastore = &plane.paths().datastore;
    if is_running()? {
        return Ok(false);
    }
    // Checked before the lock is taken, which creates the folder.
    refuse_missing(plane, datastore)?;
    let _command = command_lock::hold(plane, deadline)?;
    if is_running()? {
        return Ok(false);
    }
    let _daemon = match command_lock::hold_daemon_lock(plane) {
        // A daemon that was started by hand (`rdd service serve`) does not take the command lock.
        Err(lock::Error::Held { .. }) => return Ok(false),
        other => other?,
    };
    refuse_missing(plane, datastore)?;
    let _progress = Progress::on_terminal(plane.record(), SAVING);
    let offline = Offline::of(plane);
    offline.backup(datastore, target)?;
    Ok(true)
}

fn refuse_missing(plane: &ControlPlane<'_>, datastore: &Path) -> Outcome {
    if datastore.exists() {
        return Ok(());
    }
    let message = format!("{:?} control plane has no datastore to save", plane.name());
    Err(Failure::message(message).hint("it gets one when it is started: rdd service start"))
}

fn default_name(instance: &str, now: Timestamp) -> String {
    format!("{instance}-{}.rdd-backup.db", now.strftime("%Y%m%dT%H%M%SZ"))
}

fn refuse_existing(target: &Path) -> Outcome {
    match fs::symlink_metadata(target) {
        Ok(_) => {
            let message = format!("{} exists already and is not overwritten", target.display());
            Err(Failure::message(message).hint("name another file, or remove that one"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::caused(format!("look for {}", target.display()), error)),
    }
}

/// Creates a private file that is complete or absent; fails if the file exists.
fn write_new(target: &Path, fill: impl FnOnce(&mut (dyn Write + Send)) -> Outcome) -> Outcome {
    // In the target's folder, so that the file can be linked or renamed to its final name.
    let staged = target.with_file_name(owned::staging_name(target.file_name().unwrap_or_default()));
    let fail = |error: io::Error| Failure::caused(format!("write {}", target.display()), error);
    let written = || {
        let file = OpenOptions::new().write(true).create_new(true).mode(file::PRIVATE).open(&staged).map_err(fail)?;
        // The umask may have removed bits from the mode of the open call.
        file.set_permissions(Permissions::from_mode(file::PRIVATE)).map_err(fail)?;
        let mut writer = BufWriter::new(file);
        fill(&mut writer)?;
        let file = writer.into_inner().map_err(|error| fail(error.into_error()))?;
        // The content is durable before it gets its name.
        sync(&staged, || file.sync_all()).map_err(fail)?;
        publish(&staged, target).map_err(fail)
    };
    let outcome = written();
    // Only this process uses the staging file. If it cannot be removed, the first error matters more.
    let _ = fs::remove_file(&staged);
    outcome?;
    // A path of one component has an empty parent.
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(sync(folder, || file::sync_dir(folder))?)
}

/// Runs an fsync. Tests record the calls, since nothing outside the kernel shows whether an fsync happened.
fn sync<E>(path: &Path, fsync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    fsync()?;
    #[cfg(test)]
    tests::SYNCED.with_borrow_mut(|synced| synced.push((path.to_owned(), tests::names_in(path))));
    #[cfg(not(test))]
    let _ = path;
    Ok(())
}

/// Gives the staged file its name. A hard link fails if the name is taken; file systems without hard links get a rename after a check.
fn publish(staged: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(staged, target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if !target.exists() => fs::rename(staged, target),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{User, mode};
    use std::cell::RefCell;

    thread_local! {
        /// The paths that this test synced, each with the names in it at that time if it is a folder.
        pub(super) static SYNCED: RefCell<Vec<(PathBuf, Vec<String>)>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    // Finding A-11
    #[test]
    fn a_backup_is_reported_after_its_content_and_its_name_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        write_new(&dir.path().join("b.db"), |writer| Ok(writer.write_all(b"whole")?)).unwrap();
        let synced = SYNCED.take();
        let [(staged, _), (folder, names)] = &synced[..] else { panic!("two syncs are due: {synced:?}") };
        assert_eq!(staged.parent(), Some(dir.path()), "the content first");
        assert_eq!((folder.as_path(), &names[..]), (dir.path(), &["b.db".to_owned()][..]), "then the name");
    }

    #[test]
    fn the_default_name_has_the_instance_and_the_time() {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        assert_eq!(default_name("rancher-desktop-2", now), "rancher-desktop-2-20231114T221320Z.rdd-backup.db");
    }

    #[test]
    fn a_file_is_whole_and_private_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("b.db");
        let failure = write_new(&target, |writer| {
            writer.write_all(b"half")?;
            Err(Failure::message("broke off"))
        });
        assert_eq!(failure.unwrap_err().text(), "broke off");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        write_new(&target, |writer| Ok(writer.write_all(b"whole")?)).unwrap();
        assert_eq!((fs::read(&target).unwrap(), mode(&target)), (b"whole".to_vec(), 0o600));
        let failure = write_new(&target, |writer| Ok(writer.write_all(b"other")?)).unwrap_err();
        assert!(failure.text().starts_with(&format!("write {}", target.display())), "{}", failure.text());
        assert_eq!(fs::read(&target).unwrap(), b"whole", "what came first stays");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_existing_file_and_a_missing_datastore_are_refused() {
        let user = User::new();
        let taken = user.home.path().join("taken");
        fs::write(&taken, "mine").unwrap();
        let ran = user.run(&format!("svc backup {}", taken.display()));
        assert_eq!(
            (ran.code, ran.messages()),
            (1, vec![format!("{} exists already and is not overwritten", taken.display())])
        );
        assert_eq!(fs::read_to_string(&taken).unwrap(), "mine");
        let ran = user.run(&format!("svc backup {}", user.home.path().join("new").display()));
        assert_eq!(ran.code, 1);
        assert_eq!(ran.messages(), ["\"rancher-desktop-2\" control plane has no datastore to save"]);
        assert!(!user.home.path().join("new").exists() && !user.instance().paths.dir.exists());
    }
}
