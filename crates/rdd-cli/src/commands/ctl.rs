//! `rdd ctl …`: runs kubectl's common verbs natively against the instance, and every other verb with the kubectl on PATH.

use std::ffi::OsString;

use rdd_client::{Client, Kubeconfig};
use rdd_ctl::{Asked, Program, Target};
use rdd_kubeconfig::client_config::ConfigFiles;

use super::{
    kubectl::{self, tell},
    program,
};
use crate::{
    context::Context,
    go,
    report::{Failure, Outcome},
    service::{self, ControlPlane, readiness},
};

/// Runs a kubectl command line against the instance, starting the daemon if needed.
///
/// Output, error texts and exit codes are kubectl's; nothing is wrapped in log records. Help and usage errors need no daemon.
pub fn run(context: &Context<'_>, args: &[OsString]) -> Outcome {
    let words = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    // Parsed before the service is started, so that help and usage errors are fast.
    let command = match rdd_ctl::read(words, Program::Ctl) {
        Asked::Text(text) => return Ok(context.printer.text(&text)?),
        Asked::Wrong(text) => return tell(context, &text),
        Asked::Failed(words) => return Err(Failure::message(words)),
        Asked::Other(verb) => return with_kubectl(context, args, &verb),
        Asked::Native(command) => command,
    };
    let plane = ControlPlane::of(context)?;
    service::ensure_api(&plane)?;
    let config = Kubeconfig::parse(&readiness::read_config(&plane)?)?;
    // kubectl reports an unknown context before it connects.
    if let Some(name) = command.context()
        && config.resolve(Some(name)).is_err()
    {
        return tell(context, &format!("error: context {} does not exist\n", go::quote(name)));
    }
    let client = Client::from_kubeconfig(&config, command.context())?;
    let files = config_files(&plane);
    let target = Target::Service { client: Box::new(client), files };
    kubectl::finish(context.with_streams(|streams| command.run(target, context.clock().clone(), streams)))
}

/// The service's kubeconfig, without the user's own.
fn config_files(plane: &ControlPlane<'_>) -> ConfigFiles {
    ConfigFiles::new(vec![plane.paths().config.clone()])
}

/// Runs the kubectl on PATH with the service's kubeconfig, or the built-in form of the verb if there is no kubectl.
fn with_kubectl(context: &Context<'_>, args: &[OsString], verb: &str) -> Outcome {
    let plane = ControlPlane::of(context)?;
    service::ensure_api(&plane)?;
    // kubectl supports everything, so the built-in form is only the fallback.
    if program::locate(context, "kubectl")?.is_none() && rdd_ctl::is_built_in(verb) {
        return kubectl::run_natively(context, args, config_files(&plane));
    }
    let variables = [("KUBECONFIG", plane.paths().config.as_os_str())];
    let hints = ["`rdd ctl --help` shows the verbs that need no kubectl", kubectl::HOW_TO_INSTALL];
    program::become_other(context, "kubectl", args, &variables, &hints)
}

#[cfg(test)]
mod tests {
    use crate::testing::User;

    #[test]
    fn help_and_wrong_usage_need_no_daemon() {
        let user = User::new();
        let ran = user.run("ctl --help");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        assert!(ran.stdout.contains("wait-condition"), "{}", ran.stdout);
        assert!(user.run("ctl get --help").stdout.contains("--show-labels"));
        let ran = user.run("ctl get --nope");
        assert_eq!(ran.code, 1);
        assert_eq!(ran.stderr, "error: unknown flag: --nope\nSee 'kubectl get --help' for usage.\n");
        assert_eq!(user.run("ctl wait-condition --nope").messages(), ["unknown flag: --nope"]);
        assert!(user.run("ctl version --client").stdout.starts_with("Client Version: v1."));
        assert!(!user.instance().paths.dir.exists(), "nothing was made");
    }
}
