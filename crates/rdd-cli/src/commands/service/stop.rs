//! `rdd service stop`: stops the daemon.

use crate::{
    args::Stop,
    report::Outcome,
    service::{
        ControlPlane,
        stop::{self, Stopped},
    },
};

/// Stops the daemon. An instance that does not exist or is already stopped is a success.
pub fn run(plane: &ControlPlane<'_>, args: &Stop) -> Outcome {
    let name = plane.name();
    let state = plane.observe()?;
    let message = if !state.created && !state.daemon.is_running() {
        "does not exist"
    } else {
        match stop::stop(plane, args.wait, args.timeout.as_bound())? {
            Stopped::WasNotRunning => "is already stopped",
            Stopped::Ended => "has stopped",
            Stopped::Asked => "is stopping",
        }
    };
    plane.record().success(&format!("{name:?} control plane {message}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::User;

    #[test]
    fn there_may_be_nothing_to_stop() {
        let user = User::new();
        let ran = user.run("svc stop");
        assert_eq!(
            (ran.code, ran.messages()),
            (0, vec!["\"rancher-desktop-2\" control plane does not exist".to_owned()])
        );
        assert_eq!(std::fs::read_dir(user.home.path()).unwrap().count(), 0, "and nothing is made");
        user.run("svc create");
        let ran = user.run("svc stop --timeout=1s");
        assert_eq!(
            (ran.code, ran.messages()),
            (0, vec!["\"rancher-desktop-2\" control plane is already stopped".to_owned()])
        );
    }

    #[test]
    fn a_command_that_keeps_daemons_away_is_never_signalled() {
        let user = User::new();
        user.run("svc create");
        // A signal would end this very process.
        let seclusion = crate::service::command_lock::try_seclude(&user.instance().paths).unwrap();
        assert!(seclusion.is_some());
        let ran = user.run("svc stop");
        assert_eq!(
            (ran.code, ran.messages()),
            (0, vec!["\"rancher-desktop-2\" control plane is already stopped".to_owned()])
        );
    }

    #[test]
    fn a_stranger_in_the_pid_file_is_never_signalled() {
        let user = User::new();
        user.run("svc create");
        let mut stranger =
            rdd_stdx::process::background("sleep", std::path::Path::new("/")).arg("600").spawn().unwrap();
        let paths = user.instance().paths;
        std::fs::write(&paths.pid_file, stranger.id().to_string()).unwrap();
        let ran = user.run("svc stop");
        assert_eq!((ran.code, ran.messages().len()), (0, 1));
        assert!(stranger.try_wait().unwrap().is_none(), "it lives");
        assert!(!paths.pid_file.exists());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
