//! `rdd service delete`: stops the daemon and removes the instance's data.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rdd_instance::Paths;
use rdd_stdx::{chain::Chain, file, process::Process};

use crate::{
    args::Delete,
    report::{Failure, Outcome},
    service::{ControlPlane, command_lock, deadline::Deadline, stop},
};

/// The maximum number of kept log folders per VM name.
const KEPT_FOLDERS_MAX: u32 = 1000;

/// Stops the daemon and removes all data of the instance.
///
/// Nothing is removed while a daemon may be running: the command lock and the daemon's lock are held from the stop to the end. A delete
/// that was killed can be repeated; the next delete removes its remains.
pub fn run(plane: &ControlPlane<'_>, args: &Delete) -> Outcome {
    let name = plane.name();
    plane.refuse_linked_folder()?;
    plane.refuse_live_original()?;
    sweep(plane);
    let absent = || plane.record().success(&format!("{name:?} control plane does not exist"));
    let is_there = || plane.observe().map(|state| state.created || state.daemon.is_running());
    if !is_there()? {
        absent();
        return Ok(());
    }
    // The timeout of the lock and of the stop, each.
    let bound = args.timeout.as_bound();
    let _command = command_lock::hold(plane, Deadline::after(bound))?;
    if !is_there()? {
        // Another delete was faster; only the folder that our lock created is left.
        remove_instance_folder(plane.paths())?;
        absent();
        return Ok(());
    }
    // Under the command lock, so that no other command starts the daemon again.
    stop::stop(plane, true, bound)?;
    let may_live = |error: Box<dyn std::error::Error + Send + Sync>| {
        Failure::caused(
            format!("failed to remove datastore for {name:?}; the control plane may still be running"),
            error,
        )
    };
    let _daemon = command_lock::hold_daemon_lock(plane).map_err(|error| may_live(error.into()))?;
    // An engine that a killed daemon left behind would keep running in removed folders.
    (plane.context.product.remove_machines)(&plane.instance, &plane.context.environment)
        .map_err(|error| Failure::caused(format!("remove the machines of {name:?}"), error))?;
    // The datastore goes first: if it cannot be removed, a daemon may still have it open and everything else must stay.
    file::remove_if_present(&plane.paths().datastore).map_err(|error| may_live(error.into()))?;
    remove_rest(plane)?;
    plane.record().success(&format!("{name:?} control plane has been deleted"));
    Ok(())
}

fn remove_rest(plane: &ControlPlane<'_>) -> Outcome {
    let (paths, environment) = (plane.paths(), &plane.context.environment);
    if let Some(folder) = paths.datastore.parent() {
        file::remove_dir_if_present(folder)?;
    }
    if environment.keep_logs {
        // A user's own log folder outlives the instance; only our files in it are removed.
        keep_machine_logs(plane);
    } else if environment.log_dir.is_some() {
        remove_own_logs(paths)?;
    } else {
        file::remove_dir_if_present(&paths.log_dir)?;
    }
    file::remove_dir_if_present(&paths.short_dir)?;
    remove_instance_folder(paths)
}

/// Renames the folder before removing it: a command that waits for our lock creates a new folder of the old name, which must stay.
fn remove_instance_folder(paths: &Paths) -> Outcome {
    let doomed = paths.dir.with_file_name(format!("{}{}", doomed_prefix(paths), std::process::id()));
    file::remove_dir_if_present(&doomed)?;
    fs::rename(&paths.dir, &doomed)
        .map_err(|error| Failure::caused(format!("remove folder {}", paths.dir.display()), error))?;
    Ok(file::remove_dir_if_present(&doomed)?)
}

/// The prefix of the name under which a delete removes the folder; the deleting process's PID follows.
fn doomed_prefix(paths: &Paths) -> String {
    format!(".{}.deleted-", paths.dir.file_name().unwrap_or_default().to_string_lossy())
}

/// Removes the remains of earlier deletes that were killed. A delete whose process is alive finishes by itself. A failure is a warning, and
/// does not stop this delete.
fn sweep(plane: &ControlPlane<'_>) {
    let paths = plane.paths();
    let prefix = doomed_prefix(paths);
    let Some(entries) = paths.dir.parent().and_then(|parent| fs::read_dir(parent).ok()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix(&prefix).and_then(|pid| pid.parse().ok()) else { continue };
        if matches!(Process::open(pid), Ok(None))
            && let Err(error) = file::remove_dir_if_present(&entry.path())
        {
            plane.record().warn(&format!("could not remove what an earlier delete left: {}", Chain(&error)));
        }
    }
}

/// Removes this program's log files from a folder that the user chose, and the folder if it is then empty.
fn remove_own_logs(paths: &Paths) -> Outcome {
    let entries = match fs::read_dir(&paths.log_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::caused(format!("list {}", paths.log_dir.display()), error)),
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours =
            ["rdd.stdout.", "rdd.stderr."].iter().any(|stem| name.starts_with(stem)) && name.ends_with(".log");
        if is_ours {
            file::remove_if_present(&entry.path())?;
        }
    }
    // Fails if the folder holds other files, which must stay.
    let _ = fs::remove_dir(&paths.log_dir);
    Ok(())
}

/// Moves the VMs' logs to the log folder. A failure is a warning, not an error.
fn keep_machine_logs(plane: &ControlPlane<'_>) {
    let paths = plane.paths();
    let Ok(machines) = fs::read_dir(&paths.lima_home) else { return };
    for machine in machines.flatten().map(|entry| entry.path()) {
        let name = machine.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Lima's own folders, such as `_config` and `_networks`.
        if name.starts_with(['_', '.']) {
            continue;
        }
        if let Err(error) = keep_logs_of(&machine, &name, &paths.log_dir) {
            plane.record().warn(&format!("could not keep the logs of {}: {error}", machine.display()));
        }
    }
}

fn keep_logs_of(machine: &Path, name: &str, log_dir: &Path) -> io::Result<()> {
    let entries = fs::read_dir(machine)?.flatten();
    let is_log = |entry: &fs::DirEntry| {
        entry.file_type().is_ok_and(|kind| kind.is_file()) && entry.file_name().to_string_lossy().ends_with(".log")
    };
    let logs: Vec<PathBuf> = entries.filter(is_log).map(|entry| entry.path()).collect();
    if logs.is_empty() {
        return Ok(());
    }
    file::create_dir_private(log_dir).map_err(|error| error.source)?;
    let target = free_folder(log_dir, name)?;
    for log in logs {
        let name = log.file_name().unwrap_or_default().to_owned();
        fs::rename(&log, target.join(name))?;
    }
    Ok(())
}

// Creates the first folder of `NAME`, `NAME.2`, … that does not exist.
fn free_folder(log_dir: &Path, name: &str) -> io::Result<PathBuf> {
    for number in 1..=KEPT_FOLDERS_MAX {
        let folder = log_dir.join(if number == 1 { name.to_owned() } else { format!("{name}.{number}") });
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => {
                other?;
                fs::set_permissions(&folder, fs::Permissions::from_mode(file::PRIVATE_DIR))?;
                return Ok(folder);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    const DELETED: &str = "\"rancher-desktop-2\" control plane has been deleted";

    fn furnish(user: &User) -> Paths {
        let paths = user.instance().paths;
        assert_eq!(user.run("svc create").code, 0);
        fs::create_dir_all(paths.datastore.parent().unwrap()).unwrap();
        fs::write(&paths.datastore, "data").unwrap();
        fs::create_dir_all(&paths.log_dir).unwrap();
        fs::write(&paths.stderr_log, "log").unwrap();
        let machine = paths.lima_home.join("rd");
        fs::create_dir_all(&machine).unwrap();
        fs::write(machine.join("ha.stderr.log"), "machine").unwrap();
        paths
    }

    fn left(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn everything_goes_and_a_second_time_there_is_nothing() {
        let user = User::new();
        let paths = furnish(&user);
        let ran = user.run("svc delete");
        assert_eq!((ran.code, ran.messages()), (0, vec![DELETED.to_owned()]));
        assert!(!paths.dir.exists() && !paths.log_dir.exists() && !paths.short_dir.exists());
        assert_eq!(left(paths.dir.parent().unwrap()), Vec::<String>::new(), "nothing beside it either");
        let ran = user.run("svc delete");
        assert_eq!(
            (ran.code, ran.messages()),
            (0, vec!["\"rancher-desktop-2\" control plane does not exist".to_owned()])
        );
        assert!(!paths.dir.exists());
    }

    #[test]
    fn what_a_killed_delete_left_goes_with_the_next_one_and_nothing_else_does() {
        let user = User::new();
        let shared = user.instance().paths.dir.parent().unwrap().to_owned();
        let living = format!(".rancher-desktop-2.deleted-{}", std::process::id());
        let dead = format!(".rancher-desktop-2.deleted-{}", i32::MAX);
        let others = [format!(".rancher-desktop-22.deleted-{}", i32::MAX), ".rancher-desktop-2.deleted-x".to_owned()];
        for name in others.iter().chain([&living, &dead]) {
            fs::create_dir_all(shared.join(name).join("db")).unwrap();
            fs::write(shared.join(name).join("db/state.db"), "").unwrap();
        }
        let ran = user.run("svc delete");
        assert_eq!(
            (ran.code, ran.messages()),
            (0, vec!["\"rancher-desktop-2\" control plane does not exist".to_owned()])
        );
        let mut expected = [&others[..], &[living]].concat();
        expected.sort();
        assert_eq!(left(&shared), expected);
    }

    #[test]
    fn logs_can_be_kept() {
        let mut user = User::new();
        let paths = furnish(&user);
        fs::create_dir(paths.log_dir.join("rd")).unwrap();
        user.variables.push(("RDD_KEEP_LOGS", "1".to_owned()));
        assert_eq!(user.run("svc delete").messages(), [DELETED]);
        assert_eq!(left(&paths.log_dir), ["rd", "rd.2", "rdd.stderr.log"]);
        assert_eq!(left(&paths.log_dir.join("rd.2")), ["ha.stderr.log"]);
    }

    #[test]
    fn a_log_folder_that_the_user_chose_loses_only_our_files() {
        let mut user = User::new();
        let chosen = user.home.path().join("chosen");
        user.variables.push(("RDD_LOG_DIR", chosen.to_str().unwrap().to_owned()));
        furnish(&user);
        fs::write(chosen.join("thesis.txt"), "").unwrap();
        fs::write(chosen.join("rdd.stdout.3.log"), "").unwrap();
        assert_eq!(user.run("svc delete").messages(), [DELETED]);
        assert_eq!(left(&chosen), ["thesis.txt"]);
    }

    #[test]
    fn links_are_not_followed() {
        let user = User::new();
        let paths = furnish(&user);
        let elsewhere = user.home.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("precious"), "").unwrap();
        std::os::unix::fs::symlink(&elsewhere, paths.dir.join("link")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, paths.lima_home.join("link")).unwrap();
        assert_eq!(user.run("svc delete").code, 0);
        assert_eq!(left(&elsewhere), ["precious"]);

        std::os::unix::fs::symlink(&elsewhere, &paths.dir).unwrap();
        fs::write(elsewhere.join("args.json"), "[]").unwrap();
        let ran = user.run("svc delete");
        assert_eq!(ran.code, 1);
        assert!(ran.messages()[0].contains("is a symbolic link"), "{:?}", ran.messages());
        assert_eq!(left(&elsewhere), ["args.json", "precious"]);
    }
}
