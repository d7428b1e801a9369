//! `rdd service reset`.

use rdd_stdx::file;

use crate::{
    args::Reset,
    report::Outcome,
    service::{
        ControlPlane, command_lock,
        deadline::Deadline,
        start::{self, Request, Session},
        stop::{self, Stopped},
    },
};

/// Empties the datastore. A daemon that ran runs again afterwards.
pub fn run(plane: &ControlPlane<'_>, args: &Reset) -> Outcome {
    let name = plane.name();
    plane.refuse_linked_folder()?;
    if !plane.observe()?.created {
        plane.record().success(&format!("{name:?} control plane does not exist"));
        return Ok(());
    }
    let folder = plane.paths().datastore.parent().unwrap_or(&plane.paths().datastore).to_owned();
    let what = format!(
        "this removes every object that {name:?} keeps ({}); settings, certificates and logs stay",
        folder.display()
    );
    plane.context.confirm(&what, args.yes)?;
    if args.yes {
        plane.record().info(&what);
    }
    let bound = args.timeout.as_bound();
    let was_running = {
        let _command = command_lock::hold(plane, Deadline::after(bound))?;
        let stopped = stop::stop(plane, true, bound)?;
        let _daemon = command_lock::hold_daemon_lock(plane)?;
        // The main file first: without it, what is left beside it means nothing.
        file::remove_if_present(&plane.paths().datastore)?;
        file::remove_dir_if_present(&folder)?;
        stopped == Stopped::Ended
    };
    plane.record().success(&format!("{name:?} control plane has been reset"));
    if was_running {
        let request = Request { session: Session::default(), wait: true, announce: true };
        start::start(plane, &request, Deadline::after(bound))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::User;
    use std::fs;

    fn furnished() -> User {
        let user = User::new();
        user.run("svc create");
        let paths = user.instance().paths;
        for path in [&paths.datastore, &paths.tls_dir.join("sa.key"), &paths.stderr_log] {
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
        assert!(!paths.datastore.parent().unwrap().exists());
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
        assert!(paths.datastore.exists());
        user.input = "yes\n";
        assert_eq!(user.run("svc reset").code, 0);
        assert!(!paths.datastore.exists());
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
