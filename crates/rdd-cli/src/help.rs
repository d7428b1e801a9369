//! Renders help texts: commands in groups, followed by flags and examples.

use clap::{Command, CommandFactory, builder::StyledStr};

use crate::args::Cli;

/// A heading and the names of the commands below it.
type Group = (&'static str, &'static [&'static str]);

const ROOT_GROUPS: &[Group] = &[
    ("Containers and Kubernetes", &["start", "stop", "status", "set", "run", "shell", "reset", "delete"]),
    ("The service", &["service"]),
    ("Tools", &["ctl", "kubectl", "limavm", "yq"]),
    ("About this program", &["version", "help", "completion"]),
];

const SERVICE_GROUPS: &[Group] = &[
    ("Life cycle", &["create", "start", "stop", "delete", "serve"]),
    ("Inspection", &["status", "config", "paths", "log"]),
    ("Data", &["backup", "restore", "reset"]),
    ("Start at login", &["unit"]),
];

const LIMAVM_GROUPS: &[Group] = &[
    ("Life cycle", &["create", "start", "stop", "restart", "delete"]),
    ("Inspection", &["log", "shell"]),
    ("Configuration", &["edit", "params", "reset"]),
];

/// Help on `--instance`, which is not a clap flag: it counts only directly after the program's name.
const INSTANCES: &str = "Instances:\n  --instance=NAME directly after rdd, or the variable RDD_INSTANCE, chooses the instance; the default\n  \
     is 2. Each instance has its own service, files and ports.\n\n";

/// Flags that help shows only in developer mode; they always work.
const HIDDEN_FLAGS: [&str; 2] = ["controllers", "secure_port"];

/// Examples, by the full name of the command.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "rdd",
        "  rdd start                       start containers and everything they need\n  \
           rdd status                      see whether everything is ready, and if not, why\n  \
           rdd run docker ps               run a command with them\n  \
           rdd --instance=test start       the same for a second, separate instance",
    ),
    (
        "rdd set",
        "  rdd set running=true containerEngine.name=moby\n  \
           rdd set virtualMachine.memory=4Gi --dry-run   let the server check it only\n  \
           rdd set virtualMachine.memory=                back to what the server chooses",
    ),
    (
        "rdd start",
        "  rdd start                       start and wait until everything is ready\n  \
           rdd start --wait=false          start and return at once\n  \
           rdd start --timeout=15m         wait longer, for a first download",
    ),
    ("rdd stop", "  rdd stop --timeout=30s          return after half a minute, done or not"),
    (
        "rdd run",
        "  rdd run docker run --rm busybox true\n  \
           rdd run sh -c 'docker ps | wc -l'\n\n\
         The command's exit code is passed on. PATH begins with this instance's programs, DOCKER_CONTEXT and\n\
         KUBECONFIG name this instance, DOCKER_HOST is removed.",
    ),
    (
        "rdd status",
        "  rdd status                                      is it ready, and if not, why\n  \
           rdd status --watch                              keep showing it\n  \
           rdd status -o json                              the same for a script\n  \
           rdd status --wait-for=engine --timeout=2m       wait until containers can be run\n\n\
         Exit codes:\n  \
           0  ready: everything that is wanted can be used, or what --wait-for names is\n  \
           1  wrong usage, or the state could not be found out\n  \
           2  not ready: off, starting or broken; never with --wait-for\n  \
           4  what --wait-for names was not ready in time\n\n\
         It never starts the service: one that is stopped is shown as stopped.",
    ),
    ("rdd delete", "  rdd delete --yes                without confirmation, for scripts"),
    (
        "rdd reset",
        "  rdd reset                       recreate everything but the settings\n  \
           rdd reset --kubernetes          recreate the Kubernetes cluster only",
    ),
    (
        "rdd limavm create",
        "  rdd limavm create work ./work.yaml --start   from a file\n  \
           rdd limavm create work my-template           from a ConfigMap",
    ),
    (
        "rdd limavm params",
        "  rdd limavm params work                       what is set\n  \
           rdd limavm params work CITY=Oslo COLOUR-     set one, and reset another to the template's own",
    ),
    ("rdd limavm shell", "  rdd limavm shell --workdir=/tmp work ls -l"),
    (
        "rdd service",
        "  rdd svc start                start it, creating it if needed\n  \
           rdd svc status -o json       its state, for a script\n  \
           rdd svc log --follow         its log\n  \
           rdd svc delete               stop it and remove everything",
    ),
    (
        "rdd service start",
        "  rdd svc start                start and wait until it can be used\n  \
           rdd svc start --wait=false   start and return at once\n  \
           rdd svc start --timeout=5m   wait longer, on a slow machine",
    ),
    ("rdd service stop", "  rdd svc stop --timeout=30s   kill it if it has not stopped by then"),
    (
        "rdd service log",
        "  rdd svc log --tail=20        the last lines\n  \
           rdd svc log -f               follow it, across restarts",
    ),
    (
        "rdd service paths",
        "  rdd svc paths config               one path\n  \
           eval \"$(rdd svc paths -o shell)\"   all of them, as RDD_CONFIG and so on",
    ),
    (
        "rdd service backup",
        "  rdd svc backup               into a new file in this folder\n  \
           rdd svc backup /mnt/rdd.db   into this one",
    ),
    ("rdd service restore", "  rdd svc stop && rdd svc restore /mnt/rdd.db && rdd svc start"),
    (
        "rdd service unit",
        "  rdd svc unit > ~/.config/systemd/user/rancher-desktop-2.service\n  \
           systemctl --user enable --now rancher-desktop-2.service",
    ),
    ("rdd service serve", "  rdd svc serve --controllers=   an API server and nothing else"),
    (
        "rdd completion",
        "  source <(rdd completion bash)\n  \
           rdd completion fish > ~/.config/fish/completions/rdd.fish",
    ),
    (
        "rdd ctl",
        "  rdd ctl get apps,limavms         objects, as a table\n  \
           rdd ctl apply -f work.yaml       make objects what a file says\n  \
           rdd ctl wait app/app --for=condition=Settled\n  \
           rdd ctl --help                   all verbs; those that are not built in go to kubectl",
    ),
    (
        "rdd yq",
        "  rdd yq '.spec.replicas' app.yaml             print a value\n  \
           rdd yq -i '.spec.replicas = 3' app.yaml      change a file in place\n  \
           rdd yq --help                                flags, and what is different from the original yq",
    ),
    ("rdd help", "  rdd help service start"),
];

/// Builds clap's command tree. In developer mode, hidden commands and flags are shown.
pub fn tree(developer: bool) -> Command {
    let mut tree = Cli::command();
    if developer {
        tree = unhide(tree);
    }
    // Building propagates global flags to all subcommands, which the parser relies on.
    tree.build();
    tree
}

fn unhide(command: Command) -> Command {
    command
        .mut_args(|arg| if HIDDEN_FLAGS.contains(&arg.get_id().as_str()) { arg.hide(false) } else { arg })
        .mut_subcommands(|command| unhide(command.hide(false)))
}

/// Renders the help of the command at `path`; `None` if there is no such command.
pub fn render(tree: &Command, path: &[String]) -> Option<StyledStr> {
    let mut command = tree;
    for name in path.iter().skip(1) {
        command = command.find_subcommand(name)?;
    }
    let names: Vec<&str> = std::iter::once("rdd").chain(names_of(tree, path)).collect();
    let groups = match names.as_slice() {
        ["rdd"] => ROOT_GROUPS,
        ["rdd", "service"] => SERVICE_GROUPS,
        ["rdd", "limavm"] => LIMAVM_GROUPS,
        _ => &[],
    };
    // The groups replace clap's own list of subcommands, so all of them are hidden in the copy.
    let mut shown = command.clone();
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n\n");
    if !groups.is_empty() {
        template.push_str(&grouped(command, groups));
        let instance = if names.len() == 1 { " [--instance=NAME]" } else { "" };
        let usage = format!("{}{instance} COMMAND [FLAGS]", names.join(" "));
        shown = shown.mut_subcommands(|command| command.hide(true)).override_usage(usage);
    }
    // Only the root's help explains `--instance`, which is not a flag of clap.
    if let ["rdd"] = names.as_slice() {
        template.push_str(INSTANCES);
    }
    template.push_str("{all-args}{after-help}\n");
    if let Some((_, examples)) = EXAMPLES.iter().find(|(path, _)| *path == names.join(" ")) {
        shown = shown.after_help(format!("Examples:\n{examples}"));
    }
    Some(shown.help_template(template).render_help())
}

/// The names of the commands on a path in which aliases may occur.
fn names_of<'t>(tree: &'t Command, path: &[String]) -> Vec<&'t str> {
    let mut command = tree;
    let mut names = Vec::new();
    for word in path.iter().skip(1) {
        let Some(next) = command.find_subcommand(word) else { break };
        names.push(next.get_name());
        command = next;
    }
    names
}

fn grouped(command: &Command, groups: &[Group]) -> String {
    let visible: Vec<&Command> = command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let width = visible.iter().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in groups {
        let members = names.iter().filter_map(|name| visible.iter().find(|command| command.get_name() == *name));
        let lines: String = members
            .map(|command| {
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                format!("  {:width$}  {about}\n", command.get_name())
            })
            .collect();
        // A group whose commands are all hidden has no heading.
        if !lines.is_empty() {
            text.push_str(&format!("{heading}:\n{lines}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(developer: bool, path: &str) -> String {
        let path: Vec<String> = path.split(' ').map(str::to_owned).collect();
        render(&tree(developer), &path).unwrap().to_string()
    }

    fn every_path(command: &Command, prefix: &str, paths: &mut Vec<String>) {
        let path = format!("{prefix}{}", command.get_name());
        for subcommand in command.get_subcommands() {
            every_path(subcommand, &format!("{path} "), paths);
        }
        paths.push(path);
    }

    #[test]
    fn every_command_is_in_exactly_one_group() {
        let tree = tree(true);
        let group = |name| tree.find_subcommand(name).unwrap();
        for (command, groups) in
            [(&tree, ROOT_GROUPS), (group("service"), SERVICE_GROUPS), (group("limavm"), LIMAVM_GROUPS)]
        {
            let mut grouped: Vec<&str> = groups.iter().flat_map(|(_, names)| names.iter().copied()).collect();
            let mut all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            grouped.sort_unstable();
            all.sort_unstable();
            assert_eq!(grouped, all, "of {}", command.get_name());
        }
    }

    #[test]
    fn every_example_belongs_to_a_command_and_every_command_has_help() {
        let mut paths = Vec::new();
        every_path(&tree(true), "", &mut paths);
        for (path, _) in EXAMPLES {
            assert!(paths.contains(&(*path).to_owned()), "{path} has examples but does not exist");
        }
        for path in paths {
            let help = help(true, &path);
            assert!(help.contains("Usage: rdd"), "{path}: {help}");
            assert!(!help.contains("{"), "{path}: {help}");
        }
    }

    #[test]
    fn hidden_commands_and_flags_are_shown_in_developer_mode_only() {
        assert!(!help(false, "rdd").contains("yq"));
        assert!(help(true, "rdd").contains("yq"));
        assert!(!help(false, "rdd service start").contains("--secure-port"));
        assert!(help(true, "rdd service start").contains("--secure-port"));
        assert!(help(true, "rdd svc start").contains("--controllers"));
    }

    // Finding E-7
    #[test]
    fn help_has_the_sentences_that_scripts_of_the_original_look_for() {
        for (path, sentences) in [
            ("rdd", &["RDD manages the Rancher Desktop 2 background services."][..]),
            (
                "rdd lima",
                &[
                    "LimaVM virtual machines",
                    "Create a new LimaVM",
                    "Start a LimaVM",
                    "Stop a LimaVM",
                    "Restart a LimaVM",
                    "Delete a LimaVM",
                    "Show LimaVM logs",
                    "Execute shell in Lima VM",
                ],
            ),
        ] {
            let help = help(false, path);
            for sentence in sentences {
                assert!(help.contains(sentence), "{sentence:?} is missing in {help}");
            }
        }
        assert!(help(false, "rdd").lines().next().is_some_and(|line| line.ends_with("background services.")));
        assert!(help(true, "rdd").contains("  limavm      Create, run and inspect LimaVM virtual machines\n"));
    }

    #[test]
    fn help_shows_groups_defaults_and_examples() {
        let service = help(false, "rdd svc");
        assert!(service.contains("Life cycle:\n  create"), "{service}");
        assert!(service.contains("Examples:\n  rdd svc start"), "{service}");
        assert!(!service.contains("Commands:"), "{service}");
        assert!(service.contains("Usage: rdd service COMMAND [FLAGS]"), "{service}");
        assert!(help(false, "rdd").contains("--instance=NAME directly after rdd"));
        assert!(help(false, "rdd service start").contains("[default: 1m30s]"));
    }

    #[test]
    fn there_is_no_help_on_what_does_not_exist() {
        assert!(render(&tree(false), &["rdd".to_owned(), "nothing".to_owned()]).is_none());
    }
}
