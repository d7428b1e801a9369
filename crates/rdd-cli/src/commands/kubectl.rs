//! `rdd kubectl …`: runs the kubectl on PATH, or the built-in verbs with the user's own kubeconfig.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use rdd_ctl::{Asked, ClusterEnvironment, Ended, Program, Target};
use rdd_kubeconfig::client_config::ConfigFiles;

use crate::{
    commands::program,
    context::Context,
    report::{ExitCode, Failure, Outcome},
};

/// The hint for verbs that need kubectl.
pub(super) const HOW_TO_INSTALL: &str = "install kubectl (https://kubernetes.io/docs/tasks/tools)";

/// Replaces this process with the kubectl on PATH that is not this program; without one, runs the built-in verb.
pub fn run(context: &Context<'_>, args: &[OsString]) -> Outcome {
    if let Some(kubectl) = program::locate(context, "kubectl")? {
        return program::become_program(context, &kubectl, args, &[]);
    }
    let home = PathBuf::from(context.environment.home.clone().unwrap_or_default());
    let files = ConfigFiles::from_environment(context.environment.kubeconfig.as_deref(), &home);
    run_natively(context, args, files)
}

/// Runs a built-in verb with these kubeconfigs; for an unknown verb, looks for a kubectl plugin.
///
/// Output, error texts and exit codes are kubectl's; nothing is wrapped in log records.
pub(super) fn run_natively(context: &Context<'_>, args: &[OsString], files: ConfigFiles) -> Outcome {
    let words = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match rdd_ctl::read(words, Program::Kubectl) {
        Asked::Text(text) => Ok(context.printer.text(&text)?),
        Asked::Wrong(text) => tell(context, &text),
        Asked::Failed(words) => Err(Failure::message(words)),
        // kubectl looks for a plugin before it reports an unknown command.
        Asked::Other(verb) => match find_plugin(context.environment.path.as_deref(), args) {
            Some((plugin, used)) => program::become_program(context, &plugin, &args[used..], &[]),
            None => tell(context, &rdd_ctl::explain_missing(&verb)),
        },
        Asked::Native(command) => {
            let target = Target::Cluster(ClusterEnvironment {
                files,
                path: context.environment.path.clone(),
                https_proxy: context.environment.https_proxy.clone(),
                no_proxy: context.environment.no_proxy.clone(),
                stdin_is_terminal: context.stdin_is_terminal(),
            });
            finish(context.with_streams(|streams| command.run(target, context.clock().clone(), streams)))
        }
    }
}

/// The exit of a native verb. One that has printed its error ends silently.
pub(super) fn finish(ended: Ended) -> Outcome {
    match ended {
        Ended::Well => Ok(()),
        Ended::Told => Err(Failure::silent(ExitCode::Failure)),
        Ended::Failed(words) => Err(Failure::message(words)),
    }
}

/// Prints kubectl's own error text and fails silently.
pub(super) fn tell(context: &Context<'_>, text: &str) -> Outcome {
    // There is nowhere to report a failed write to standard error.
    let _ = context.with_streams(|streams| streams.err.write_all(text.as_bytes()));
    Err(Failure::silent(ExitCode::Failure))
}

/// Finds a kubectl plugin on PATH as kubectl does, with the number of words that name it: for `a-b c` first `kubectl-a_b-c`, then
/// `kubectl-a_b`. Credential plugins often run this way (`kubectl oidc-login`).
fn find_plugin(path: Option<&OsStr>, args: &[OsString]) -> Option<(PathBuf, usize)> {
    let words = args.iter().map_while(|arg| arg.to_str()).take_while(|word| !word.starts_with('-'));
    let parts: Vec<String> = words.map(|word| word.replace('-', "_")).collect();
    // A word with a slash would leave the folders of PATH.
    let count = parts.iter().take_while(|part| Path::new(part).file_name() == Some(OsStr::new(part))).count();
    (1..=count).rev().find_map(|count| {
        let name = format!("kubectl-{}", parts[..count].join("-"));
        program::find(path?, &name, Path::new("")).map(|found| (found, count))
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::testing::User;

    /// A user without kubectl and with these kubeconfigs.
    fn user(files: &[(&str, &str)]) -> User {
        let mut user = User::new();
        let paths = files.iter().map(|(name, text)| {
            let path = user.home.path().join(name);
            fs::write(&path, text).unwrap();
            path
        });
        let list = std::env::join_paths(paths).unwrap().into_string().unwrap();
        user.variables.extend([("PATH", "/nonexistent".to_owned()), ("KUBECONFIG", list)]);
        user
    }

    const CONFIG: &str = "\
current-context: one
contexts:
- name: one # ours
  context: {cluster: red, user: ann}
clusters:
- name: red
  cluster: {server: 'https://127.0.0.1:1'}
- name: blue
  cluster: {server: 'https://127.0.0.1:2', certificate-authority-data: Q0E=}
users:
- name: ann
  user: {token: hunter2}
";
    const MORE: &str = "contexts: [{name: two, context: {cluster: red, user: ann, namespace: blue}}]\n";

    // Finding E-9
    #[test]
    fn without_kubectl_the_context_is_shown_and_chosen_natively() {
        let user = user(&[("a", CONFIG), ("b", MORE)]);
        let ran = user.run("kubectl config get-contexts");
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (
                0,
                "CURRENT   NAME   CLUSTER   AUTHINFO   NAMESPACE\n*         one    red       ann        \n          two    red       ann        blue\n"
            )
        );
        assert_eq!(user.run("kubectl config use-context two").stdout, "Switched to context \"two\".\n");
        assert_eq!(user.run("kubectl config current-context").stdout, "two\n");
        let ran = user.run("kubectl config set-context --current --namespace=green");
        assert_eq!(ran.stdout, "Context \"two\" modified.\n", "{}", ran.stderr);
        let read = |name: &str| fs::read_to_string(user.home.path().join(name)).unwrap();
        assert_eq!(read("a"), CONFIG.replace("current-context: one", "current-context: two"), "every other byte stays");
        assert!(read("b").contains("namespace: \"green\""), "{}", read("b"));
        let shown = user.run("kubectl config view --minify -o jsonpath={.contexts[0].context.namespace}");
        assert_eq!(shown.stdout, "green");
        let view = user.run("kubectl config view").stdout;
        assert!(
            view.contains("token: REDACTED") && view.contains("DATA+OMITTED") && !view.contains("hunter2"),
            "{view}"
        );
        assert!(user.run("kubectl config view --raw").stdout.contains("hunter2"));
        assert_eq!(user.run("kubectl config rename-context two three").code, 0);
        assert_eq!(user.run("kubectl config current-context").stdout, "three\n");
        let ran = user.run("kubectl config delete-context three");
        assert!(ran.stderr.starts_with("warning: this removed your active context"), "{}", ran.stderr);
        assert_eq!(user.run("kubectl config get-contexts -o name").stdout, "one\n");
        let ran = user.run("kubectl config use-context nope");
        assert_eq!((ran.code, ran.stderr.as_str()), (1, "error: no context exists with the name: \"nope\"\n"));
    }

    // Finding E-9
    #[test]
    fn what_is_not_built_in_is_named_with_the_way_to_get_it() {
        let user = user(&[("a", CONFIG)]);
        for verb in ["exec", "port-forward", "cp", "drain", "proxy", "plugin", "logs", "edit"] {
            let ran = user.run(&format!("kubectl {verb} x -- y"));
            assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
            let expected = format!(
                "error: `kubectl {verb}` is not built in\nhint: install kubectl (https://kubernetes.io/docs/tasks/tools): `rdd kubectl` runs the one on PATH"
            );
            assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
        }
        assert_eq!(user.run("kubectl nope").stderr, "error: unknown command \"nope\" for \"kubectl\"\n");
        let ran = user.run("kubectl get pods --context nope");
        assert_eq!(ran.stderr, "Error in configuration: context was not found for specified context: nope\n");
        let ran = user.run("kubectl get pods");
        assert_eq!(
            ran.stderr,
            "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n"
        );
        assert!(user.run("kubectl version --client").stdout.starts_with("Client Version: v1."));
        assert!(
            user.run_argv(vec!["/x/kubectl".into(), "get".into(), "--help".into()], &|_| Ok(()))
                .stdout
                .contains("--kubeconfig")
        );
    }

    // Finding E-9
    #[test]
    fn a_link_to_ourselves_is_no_kubectl() {
        let mut user = user(&[("a", CONFIG)]).with_executable("exit 9");
        let folder = user.home.path().join("bin");
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&user.executable, folder.join("kubectl")).unwrap();
        user.variables.push(("PATH", folder.to_str().unwrap().to_owned()));
        assert_eq!(user.run("kubectl config current-context").stdout, "one\n");
    }

    #[test]
    fn the_longest_plugin_that_the_words_name_is_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["kubectl-oidc_login", "kubectl-a-b"] {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let found = |line: &str| {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            find_plugin(Some(folder.path().as_os_str()), &args)
                .map(|(path, used)| (path.file_name().unwrap().to_str().unwrap().to_owned(), used))
        };
        assert_eq!(found("oidc-login get-token --x"), Some(("kubectl-oidc_login".to_owned(), 1)));
        assert_eq!(found("a b c"), Some(("kubectl-a-b".to_owned(), 2)));
        assert_eq!((found("a --b"), found("../a b"), found("--x a b")), (None, None, None));
    }
}
