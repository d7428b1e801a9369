//! `rdd service reset`: empties the datastore.

use std::{fs, path::Path};

use rdd_stdx::file;

use crate::{
    args::Reset,
    report::{Failure, Outcome},
    service::{
        ControlPlane, command_lock,
        datastore::Offline,
        deadline::Deadline,
        start::{self, Request, Session},
        stop::{self, Stopped},
    },
};

/// Empties the datastore after confirmation; settings, certificates and logs stay. Starts the daemon again if it was running.
pub fn run(plane: &ControlPlane<'_>, args: &Reset) -> Outcome {
    let name = plane.name();
    plane.refuse_linked_folder()?;
    plane.refuse_live_original()?;
    if !plane.observe()?.created {
        plane.record().success(&format!("{name:?} control plane does not exist"));
        return Ok(());
    }
    let folder = plane.paths().datastore.parent().unwrap_or(&plane.paths().datastore).to_owned();
    let what = format!(
        "this removes every object that {name:?} keeps ({}); settings, certificates and logs stay",
        folder.display()
    );
    // Before the locks, since the user may take long to answer.
    plane.context.confirm(&what, args.yes)?;
    if args.yes {
        plane.record().info(&what);
    }
    let bound = args.timeout.as_bound();
    // The locks are released at the end of this block, so that the daemon can start.
    let was_running = {
        let _command = command_lock::hold(plane, Deadline::after(bound))?;
        let stopped = stop::stop(plane, true, bound)?;
        let _daemon = command_lock::hold_daemon_lock(plane)?;
        Offline::of(plane).reset(&plane.paths().datastore)?;
        remove_beside(&plane.paths().datastore, &folder)?;
        stopped == Stopped::Ended
    };
    plane.record().success(&format!("{name:?} control plane has been reset"));
    if was_running {
        // With the stored arguments: those of the last session ended with its daemon.
        let request = Request { session: Session::default(), wait: true, announce: true, api_only: false };
        start::start(plane, &request, Deadline::after(bound))?;
    }
    Ok(())
}

/// Removes copies of older datastores, which contain the data that the reset removes. The new datastore, its lock and its WAL stay.
fn remove_beside(datastore: &Path, folder: &Path) -> Outcome {
    let keep = datastore.file_name().unwrap_or_default().to_string_lossy();
    let fail = |error| Failure::caused(format!("list {}", folder.display()), error);
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let is_new =
            [format!("{keep}"), format!("{keep}.lock"), format!("{keep}-wal")].iter().any(|kept| **kept == *name);
        if is_new {
            continue;
        }
        if entry.file_type().map_err(fail)?.is_dir() {
            file::remove_dir_if_present(&entry.path())?;
        } else {
            file::remove_if_present(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    fn furnished() -> User {
        let user = User::new();
        user.run("svc create");
        let paths = user.instance().paths;
        let old_copy = paths.datastore.with_file_name("state.db.before-restore-20260101T000000Z");
        for path in [&paths.datastore, &old_copy, &paths.tls_dir.join("sa.key"), &paths.stderr_log] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        user
    }

    #[test]
    fn only_the_datastore_goes() {
        let user = furnished();
        let paths = user.instance().paths;
        let ran = user.run("svc reset --yes");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let folder = paths.datastore.parent().unwrap().display().to_string();
        assert!(ran.messages()[0].contains(&folder), "it says what goes: {:?}", ran.messages());
        assert_eq!(ran.messages()[1..], ["\"rancher-desktop-2\" control plane has been reset"]);
        let names = fs::read_dir(paths.datastore.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["state.db", "state.db.lock"], "an empty one, and nothing of the old");
        assert_ne!(fs::read(&paths.datastore).unwrap(), b"x");
        assert!(paths.args_file.exists() && paths.tls_dir.join("sa.key").exists() && paths.stderr_log.exists());
    }

    #[test]
    fn without_consent_nothing_changes() {
        let mut user = furnished();
        let paths = user.instance().paths;
        let ran = user.run("svc reset");
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("--yes"), "{}", ran.stderr);
        user.terminal = true;
        user.input = "n\n";
        let ran = user.run("svc reset");
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("Go ahead? [y/N]") && ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
        assert_eq!(fs::read(&paths.datastore).unwrap(), b"x");
        user.input = "yes\n";
        assert_eq!(user.run("svc reset").code, 0);
        assert_ne!(fs::read(&paths.datastore).unwrap(), b"x");
    }

    #[test]
    fn nothing_is_touched_while_the_go_version_lives() {
        let user = furnished();
        let paths = user.instance().paths;
        let _alive = std::os::unix::net::UnixListener::bind(&paths.original_socket).unwrap();
        for line in ["svc reset --yes", "svc delete"] {
            let ran = user.run(line);
            assert_eq!(ran.code, 1, "{line}");
            assert!(ran.messages()[0].starts_with("the Go version of rdd is running"), "{:?}", ran.messages());
        }
        assert_eq!(fs::read(&paths.datastore).unwrap(), b"x");
    }

    #[test]
    fn what_does_not_exist_cannot_be_reset() {
        let user = User::new();
        let ran = user.run("svc reset --yes");
        assert_eq!(
            (ran.code, ran.messages()),
            (0, vec!["\"rancher-desktop-2\" control plane does not exist".to_owned()])
        );
    }
}
