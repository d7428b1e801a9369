//! `rdd service serve`: runs the daemon in this process.

use std::time::Duration;

use crate::{
    ServeOptions,
    args::{Global, Serve},
    context::Context,
    help,
    record::Level,
    report::{Failure, Outcome},
    service::{ControlPlane, args_file, command_lock, deadline::Deadline},
};

/// The timeout of the wait for the command lock, which is needed only if the instance does not exist yet.
const LOCK_BOUND: Duration = Duration::from_secs(90);

/// Runs the daemon until it is asked to stop.
pub fn run(context: &Context<'_>, global: &Global, args: &Serve) -> Outcome {
    if args.verb.is_some() {
        return options(context);
    }
    // The original's `serve` has Kubernetes' own `--version` flag.
    if global.version.as_deref().is_some_and(|version| version != "false") {
        return Ok(context.printer.line(format!("Kubernetes {}", context.build.git_version))?);
    }
    let port = args_file::port(args.secure_port)?;
    let plane = ControlPlane::of(context)?;
    ensure_created(&plane)?;
    let options = ServeOptions {
        secure_port: port.unwrap_or(plane.instance.ports.api),
        instance: plane.instance,
        controllers: args.controllers.clone(),
        verbosity: u8::try_from(global.v.clamp(0, i64::from(u8::MAX))).expect("clamped"),
        log_format: context.format,
        environment: context.environment.clone(),
        build: *context.build,
    };
    (context.product.serve)(options).map_err(|error| Failure::of(error.into()))
}

/// Creates the instance if it does not exist. `rdd service start` has created it before and holds the command lock while the daemon starts,
/// so the lock must not be taken for an existing instance.
fn ensure_created(plane: &ControlPlane<'_>) -> Outcome {
    if plane.observe()?.created {
        return Ok(());
    }
    let _lock = command_lock::hold(plane, Deadline::after(Some(LOCK_BOUND)))?;
    if !plane.observe()?.created {
        args_file::write(&plane.paths().args_file, &args_file::of_start(plane.instance.ports.api, &[]))?;
    }
    Ok(())
}

// Prints every flag of `serve`, as the original's `serve options` does.
fn options(context: &Context<'_>) -> Outcome {
    let tree = help::tree(true);
    let serve = tree.find_subcommand("service").and_then(|service| service.find_subcommand("serve"));
    let record = context.record.showing(Level::Info);
    for arg in serve.into_iter().flat_map(clap::Command::get_arguments) {
        let Some(long) = arg.get_long() else { continue };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        record.info(&format!("--{long}: {help}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::Format, testing::User};
    use std::cell::RefCell;

    fn served(user: &User, line: &str) -> (i32, Option<ServeOptions>) {
        let served = RefCell::new(None);
        let ran = user.run_serving(line, &|options| {
            served.replace(Some(options));
            Ok(())
        });
        (ran.code, served.into_inner())
    }

    #[test]
    fn the_last_of_each_flag_reaches_the_daemon() {
        let user = User::new();
        let line = "--instance=t svc serve --secure-port 6445 --controllers * --secure-port 7001 -v 0 --controllers= -v 4 \
                    --log-format=json --authentication-admin-token-path=/x";
        let (code, options) = served(&user, line);
        let options = options.unwrap();
        assert_eq!((code, options.secure_port, options.controllers.as_str()), (0, 7001, ""));
        assert_eq!((options.verbosity, options.log_format), (4, Format::Json));
        assert_eq!(options.instance.full_name(), "rancher-desktop-t");
        assert!(options.instance.paths.args_file.exists(), "created with defaults");
    }

    #[test]
    fn without_flags_the_instance_decides() {
        let (_, options) = served(&User::new(), "svc serve");
        let options = options.unwrap();
        assert_eq!((options.secure_port, options.controllers.as_str(), options.verbosity), (6445, "*", 0));
    }

    #[test]
    fn a_bad_port_or_a_question_leaves_nothing_behind() {
        let user = User::new();
        let (code, options) = served(&user, "svc serve --secure-port 0");
        assert_eq!((code, options.is_none()), (1, true));
        let ran = user.run("svc serve --version");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "Kubernetes v1.35.4+rdd-v1.2.3\n"));
        let ran = user.run("svc serve options whatever");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
        assert!(ran.stderr.contains("--secure-port: ") && ran.stderr.contains("--controllers: "), "{}", ran.stderr);
        assert_eq!(std::fs::read_dir(user.home.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_the_daemon_fails_with_is_told_with_its_causes() {
        let fail = |_| Err(anyhow::anyhow!("port 1 is taken").context("serve the API"));
        let ran = User::new().run_serving("svc serve", &fail);
        assert_eq!((ran.code, ran.messages()), (1, vec!["serve the API: port 1 is taken".to_owned()]));
    }
}
