//! `rdd service create`: creates an instance without starting it.

use std::time::Duration;

use crate::{
    args::Create,
    report::Outcome,
    service::{ControlPlane, args_file, command_lock, deadline::Deadline},
};

/// The timeout of the wait for the command lock; other commands hold it for a shorter time.
const LOCK_BOUND: Duration = Duration::from_secs(90);

/// Stores the daemon's arguments, which creates the instance. An existing instance is left unchanged.
pub fn run(plane: &ControlPlane<'_>, args: &Create) -> Outcome {
    let (port, positional) = (args_file::port(args.secure_port)?, super::texts(&args.args)?);
    let settings = args_file::Settings {
        default_port: plane.instance.ports.api,
        positional: &positional,
        controllers: &args.controllers,
        port,
        verbosity: plane.context.level.verbosity(),
    };
    // What the daemon will start with.
    let words = args_file::of_create(&settings);
    // Arguments that the daemon rejects would make every later start fail, so they are checked before anything is written.
    args_file::check_words(&positional)?;
    args_file::check_words(&words)?;
    let exists = format!("{:?} control plane already exists", plane.name());
    if plane.observe()?.created {
        plane.record().info(&exists);
        return Ok(());
    }
    // Another command may create the instance while this one waits for the lock, so the state is observed again.
    let _lock = command_lock::hold(plane, Deadline::after(Some(LOCK_BOUND)))?;
    if plane.observe()?.created {
        plane.record().info(&exists);
        return Ok(());
    }
    args_file::write(&plane.paths().args_file, &words)?;
    plane.record().success(&format!("successfully created {:?} control plane", plane.name()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{User, mode};
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn creating_stores_the_arguments_once() {
        let mut user = User::new();
        user.variables.push(("RDD_LOG_LEVEL", "debug".to_owned()));
        let paths = user.instance().paths;
        let ran = user.run("svc create --controllers=app -- --secure-port=7000");
        assert_eq!(
            (ran.code, ran.messages()),
            (0, vec!["successfully created \"rancher-desktop-2\" control plane".to_owned()])
        );
        let stored: Vec<String> = serde_json::from_slice(&fs::read(&paths.args_file).unwrap()).unwrap();
        assert_eq!(stored, ["--secure-port", "6445", "--secure-port=7000", "--controllers", "app", "-v", "2"]);
        assert_eq!([mode(&paths.dir), mode(&paths.args_file)], [0o700, 0o600]);
        let before = fs::read(&paths.args_file).unwrap();
        let ran = user.run("svc create --controllers=other --log-level=info");
        assert_eq!(
            (ran.code, ran.messages()),
            (0, vec!["\"rancher-desktop-2\" control plane already exists".to_owned()])
        );
        assert_eq!(fs::read(&paths.args_file).unwrap(), before);
        assert!(!paths.log_dir.exists() && !paths.datastore.exists() && !paths.tls_dir.exists());
    }

    /// Passes the home folder to a second run of this program.
    const HOME_OF_CHILD: &str = "RDD_CLI_TEST_UMASK_HOME";

    #[test]
    fn under_any_umask_the_owner_gets_in_and_nobody_else() {
        if let Some(home) = std::env::var_os(HOME_OF_CHILD) {
            let mut user = User::new();
            user.variables.push(("HOME", home.into_string().unwrap()));
            assert_eq!(user.run("svc create").code, 0);
            assert_eq!(user.run("svc create").code, 0, "and again, with what the first one left");
            fs::set_permissions(user.home.path(), fs::Permissions::from_mode(0o700)).unwrap(); // so that it can go
            return;
        }
        let name = "commands::service::create::tests::under_any_umask_the_owner_gets_in_and_nobody_else";
        let program = std::env::current_exe().unwrap();
        for umask in ["000", "777"] {
            let user = User::new();
            let child = rdd_stdx::process::background("sh", std::path::Path::new("/"))
                .args(["-c", &format!("umask {umask}; exec \"$0\" --exact {name}")])
                .arg(&program)
                .env(HOME_OF_CHILD, user.home.path())
                .output()
                .unwrap();
            assert!(child.status.success(), "{umask}: {}", String::from_utf8_lossy(&child.stdout));
            let paths = user.instance().paths;
            let modes = [&paths.dir, &paths.args_file, &paths.command_lock_file].map(|path| mode(path));
            assert_eq!(modes, [0o700, 0o600, 0o600], "{umask}");
        }
    }

    #[test]
    fn an_invalid_name_touches_no_file() {
        let user = User::new();
        for line in ["--instance=../x svc create", "--instance A svc create", "--instance=a/b svc start"] {
            let ran = user.run(line);
            assert_eq!(ran.code, 1);
            assert!(ran.messages()[0].starts_with("invalid instance name "), "{:?}", ran.messages());
        }
        assert_eq!(fs::read_dir(user.home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_home_that_is_no_folder_is_named_and_explained() {
        let mut user = User::new();
        let file = user.home.path().join("file");
        fs::write(&file, "").unwrap();
        user.variables.push(("HOME", file.to_str().unwrap().to_owned()));
        let ran = user.run("svc create");
        assert_eq!(ran.code, 1);
        assert!(ran.messages()[0].contains(file.to_str().unwrap()), "{:?}", ran.messages());
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    }

    #[test]
    fn words_that_the_daemon_does_not_take_are_named_and_nothing_is_written() {
        let user = User::new();
        for verb in ["create", "start"] {
            for (given, expected) in [
                ("one", "unknown command \"one\" for \"rdd service serve\""),
                ("-- --bogus", "unknown flag: --bogus"),
                ("-- --secure-port", "flag needs an argument: --secure-port"),
            ] {
                let ran = user.run(&format!("svc {verb} {given}"));
                assert_eq!((ran.code, ran.messages()), (1, vec![expected.to_owned()]), "{verb} {given}");
            }
            assert_eq!(user.run(&format!("svc {verb} -- --")).code, 1, "what follows would not count as flags");
            assert_eq!(fs::read_dir(user.home.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_bad_port_is_refused_before_anything_is_written() {
        let user = User::new();
        assert_eq!(user.run("svc create --secure-port=0").code, 1);
        assert_eq!(fs::read_dir(user.home.path()).unwrap().count(), 0);
    }
}
