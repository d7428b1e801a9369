//! `rdd service restore`: replaces the datastore with a backup.

use std::{
    fs::{self, File},
    io,
    path::Path,
    time::Duration,
};

use rdd_stdx::file;

use crate::{
    args::Restore,
    report::{Failure, Outcome},
    service::{ControlPlane, args_file, command_lock, datastore::Offline, deadline::Deadline},
};

/// The timeout of the wait for the command lock; other commands hold it for a shorter time.
const LOCK_BOUND: Duration = Duration::from_secs(90);

/// Replaces the datastore with a backup after confirmation.
///
/// Fails if the daemon is running. The previous datastore is kept beside the new one; on failure it stays in place. An instance that does
/// not exist is created.
pub fn run(plane: &ControlPlane<'_>, args: &Restore) -> Outcome {
    let (name, paths) = (plane.name(), plane.paths());
    plane.refuse_linked_folder()?;
    refuse_running(plane)?;
    plane.refuse_live_original()?;
    // The backup is checked before the question, so that a wrong file fails at once.
    let offline = Offline::of(plane);
    refuse_unreadable(&args.file)?;
    let what =
        format!("this replaces the datastore of {name:?} by {}; the present one is set aside", args.file.display());
    plane.context.confirm(&what, args.yes)?;
    let _command = command_lock::hold(plane, Deadline::after(Some(LOCK_BOUND)))?;
    // A daemon may have started while this command waited for the answer or the lock.
    refuse_running(plane)?;
    let _daemon = command_lock::hold_daemon_lock(plane)?;
    if let Some(folder) = paths.datastore.parent() {
        file::create_dir_private(folder)?;
    }
    let restored = offline.restore(&args.file, &paths.datastore)?;
    // The args file is what makes the instance exist.
    if !paths.args_file.exists() {
        args_file::write(&paths.args_file, &args_file::of_start(plane.instance.ports.api, &[]))?;
    }
    if let Some(set_aside) = restored.set_aside {
        plane.record().info(&format!("what was there is now {}", set_aside.display()));
    }
    let (objects, revision) = (restored.objects, restored.revision);
    let message = format!("{name:?} control plane has been restored: {objects} objects, revision {revision}");
    plane.record().success(&message);
    Ok(())
}

/// Fails if the backup is not a readable regular file: opening a pipe could block forever, and a pipe cannot be read twice.
///
/// Nothing is written beside the backup, which may be on a read-only medium. The restore itself verifies the content before it changes
/// anything.
fn refuse_unreadable(file: &Path) -> Outcome {
    let fail = |error| Failure::caused(format!("open {}", file.display()), error);
    if !fs::metadata(file).map_err(fail)?.is_file() {
        return Err(fail(io::Error::other("it is not a regular file")));
    }
    File::open(file).map(drop).map_err(fail)
}

fn refuse_running(plane: &ControlPlane<'_>) -> Outcome {
    if !plane.observe()?.daemon.is_running() {
        return Ok(());
    }
    let message = format!("{:?} control plane is running and has its datastore open", plane.name());
    Err(Failure::message(message).hint("stop it first: rdd service stop"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{User, make_pipe, mode};
    use rdd_stdx::{file, lock::ProcessLock};
    use rdd_store::{Store, sqlite};
    use std::fs;

    fn with_datastore() -> User {
        let user = User::new();
        user.run("svc create");
        let store = sqlite::open(&user.instance().paths.datastore, sqlite::Options::default()).unwrap();
        store.close().wait().unwrap();
        user
    }

    #[test]
    fn what_was_saved_is_restored_and_what_was_there_is_set_aside() {
        let user = with_datastore();
        let target = user.home.path().join("saved.db");
        let ran = user.run(&format!("svc backup {}", target.display()));
        assert_eq!((ran.code, ran.stdout.as_str()), (0, format!("{}\n", target.display()).as_str()), "{}", ran.stderr);
        assert_eq!(mode(&target), 0o600);
        let ran = user.run(&format!("svc restore {}", target.display()));
        assert_eq!(ran.code, 1, "nobody confirmed");
        assert!(ran.stderr.contains("--yes"), "{}", ran.stderr);
        let ran = user.run(&format!("svc restore {} --yes", target.display()));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(!user.home.path().join("saved.db.lock").exists(), "nothing is left beside the backup");
        assert!(ran.messages()[0].starts_with("what was there is now "), "{:?}", ran.messages());
        assert!(ran.messages()[1].contains("has been restored: 0 objects, revision "), "{:?}", ran.messages());
    }

    #[test]
    fn a_backup_can_be_restored_into_an_instance_that_was_not_there() {
        let user = with_datastore();
        let target = user.home.path().join("saved.db");
        user.run(&format!("svc backup {}", target.display()));
        let ran = user.run(&format!("--instance=new svc restore {} --yes", target.display()));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let ran = user.run("--instance=new svc status");
        assert!(ran.stderr.contains("has been created: true"), "{}", ran.stderr);
    }

    #[test]
    fn what_is_not_a_backup_is_said_of_the_file_that_was_given() {
        let user = with_datastore();
        let given = user.home.path().join("given.db");
        let refusal = || {
            let ran = user.run(&format!("svc restore {} --yes", given.display()));
            assert_eq!(ran.code, 1);
            assert!(!ran.stderr.contains("svc reset"), "{}", ran.stderr);
            ran.messages().pop().unwrap()
        };
        let is_none = format!("{} is not a backup made by `rdd svc backup`: ", given.display());
        for (content, reason) in [("", "it is empty"), ("text", "it does not begin as SQLite files do")] {
            fs::write(&given, content).unwrap();
            assert_eq!(refusal(), format!("{is_none}{reason}"));
        }
        // Another program's SQLite database: it lacks our application id.
        let mut bytes = fs::read(&user.instance().paths.datastore).unwrap();
        bytes[68..72].fill(0);
        fs::write(&given, bytes).unwrap();
        assert_eq!(refusal(), format!("{is_none}it is some other SQLite database"));
        fs::remove_file(&given).unwrap();
        make_pipe(&given);
        assert_eq!(refusal(), format!("open {}: it is not a regular file", given.display()));
    }

    #[test]
    fn a_running_daemon_and_a_bad_file_are_refused_and_nothing_changes() {
        let user = with_datastore();
        let paths = user.instance().paths;
        let before = fs::read(&paths.datastore).unwrap();
        let bad = user.home.path().join("bad.db");
        fs::write(&bad, "not a datastore").unwrap();
        for line in ["svc restore /nonexistent/x.db --yes".to_owned(), format!("svc restore {} --yes", bad.display())] {
            let ran = user.run(&line);
            assert_eq!(ran.code, 1, "{line}");
            assert_eq!(fs::read(&paths.datastore).unwrap(), before);
        }
        let _lock = ProcessLock::acquire(&paths.lock_file).unwrap();
        let ran = user.run(&format!("svc restore {} --yes", bad.display()));
        assert_eq!(
            (ran.code, ran.stderr.contains("hint: stop it first: rdd service stop")),
            (1, true),
            "{}",
            ran.stderr
        );
        file::remove_if_present(&bad).unwrap();
    }
}
