//! The table of built-in verbs, and the parser that finds the verb of a command line.

use crate::{
    Asked, Command, Program,
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Flags, Kind, Table},
    help, print, source,
    verbs::{
        apply, auth, cluster_info, config, create, delete, describe, explain, get,
        label::{self, What},
        patch, resources, version, wait, wait_condition,
    },
};

/// A built-in verb.
pub(crate) struct Verb {
    /// Its words on the command line.
    pub(crate) path: &'static str,
    /// Aliases.
    pub(crate) aliases: &'static [&'static str],
    /// A one-line description.
    pub(crate) about: &'static str,
    /// The arguments for the usage line.
    pub(crate) usage: &'static str,
    pub(crate) flags: &'static [&'static [Flag]],
    pub(crate) run: fn(&Ctl<'_>) -> Result<()>,
}

impl Verb {
    /// Whether the verb is our own and not kubectl's, so that the caller reports its errors.
    pub(crate) fn is_ours(&self) -> bool {
        self.path == "wait-condition"
    }

    /// Whether the verb only uses kubeconfigs.
    pub(crate) fn needs_no_server(&self) -> bool {
        self.path.starts_with("config ")
    }
}

impl std::fmt::Debug for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verb({})", self.path)
    }
}

/// The flags of every verb.
pub(crate) const GLOBAL: &[Flag] = &[
    Flag::value("namespace").short('n'),
    Flag::value("context"),
    Flag::of("request-timeout", Kind::Text, "0"),
    Flag::of("v", Kind::Number, "0").short('v'),
    Flag::value("vmodule"),
    Flag::of("log-flush-frequency", Kind::Duration, "5s"),
    Flag::value("cache-dir"),
    Flag::switch("disable-compression"),
    Flag::switch("match-server-version"),
    Flag::switch("warnings-as-errors"),
    Flag::of("profile", Kind::Text, "none"),
    Flag::of("profile-output", Kind::Text, "profile.pprof"),
    Flag::value("kuberc"),
];

/// The flags that name a server or a user. `rdd ctl` has both already; with one of these flags a command is for another server.
pub(crate) const CONNECTION: &[Flag] = &[
    Flag::value("kubeconfig"),
    Flag::value("server").short('s'),
    Flag::value("cluster"),
    Flag::value("user"),
    Flag::value("token"),
    Flag::value("username"),
    Flag::value("password"),
    Flag::value("as"),
    Flag::of("as-group", Kind::Array, ""),
    Flag::value("as-uid"),
    Flag::of("as-user-extra", Kind::Array, ""),
    Flag::value("certificate-authority"),
    Flag::value("client-certificate"),
    Flag::value("client-key"),
    Flag::value("tls-server-name"),
    Flag::switch("insecure-skip-tls-verify"),
];

/// Subcommands of built-in verbs that only kubectl supports.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "create",
        &[
            "clusterrole",
            "clusterrolebinding",
            "cronjob",
            "cj",
            "deployment",
            "deploy",
            "ingress",
            "ing",
            "job",
            "poddisruptionbudget",
            "pdb",
            "priorityclass",
            "pc",
            "quota",
            "resourcequota",
            "role",
            "rolebinding",
            "secret",
            "service",
            "svc",
            "serviceaccount",
            "sa",
        ],
    ),
    ("apply", &["edit-last-applied", "set-last-applied", "view-last-applied"]),
    ("auth", &["reconcile"]),
    ("config", &["set", "set-cluster", "set-credentials", "unset"]),
];

/// The verbs of kubectl that are not built in.
const OTHER_VERBS: &[&str] = &[
    "alpha",
    "attach",
    "autoscale",
    "certificate",
    "completion",
    "cordon",
    "cp",
    "debug",
    "diff",
    "drain",
    "edit",
    "events",
    "exec",
    "expose",
    "kuberc",
    "kustomize",
    "logs",
    "options",
    "plugin",
    "port-forward",
    "proxy",
    "replace",
    "rollout",
    "run",
    "scale",
    "set",
    "taint",
    "top",
    "uncordon",
];

pub(crate) const VERBS: &[Verb] = &[
    Verb {
        path: "get",
        aliases: &[],
        about: "Show objects as a table, or as -o says",
        usage: "TYPE[,TYPE…] [NAME…] | TYPE/NAME… | -f FILE [-o wide|yaml|json|name|jsonpath=…|custom-columns=…] [-w]",
        flags: &[print::FLAGS, source::FLAGS, get::FLAGS],
        run: get::run,
    },
    Verb {
        path: "describe",
        aliases: &[],
        about: "Show everything about objects, with their events",
        usage: "TYPE [NAME…] | TYPE/NAME… | -f FILE",
        flags: &[source::FLAGS, describe::FLAGS],
        run: describe::run,
    },
    Verb {
        path: "create",
        aliases: &[],
        about: "Create objects from files",
        usage: "-f FILE",
        flags: &[print::FLAGS, source::FLAGS, create::FLAGS, create::FILE_FLAGS],
        run: create::run,
    },
    Verb {
        path: "create namespace",
        aliases: &["create ns"],
        about: "Create a namespace",
        usage: "NAME",
        flags: &[print::FLAGS, create::FLAGS],
        run: create::namespace,
    },
    Verb {
        path: "create configmap",
        aliases: &["create cm"],
        about: "Create a config map from literals and files",
        usage: "NAME [--from-literal=KEY=VALUE] [--from-file=[KEY=]FILE]",
        flags: &[print::FLAGS, create::FLAGS, create::DATA_FLAGS],
        run: create::configmap,
    },
    Verb {
        path: "create secret generic",
        aliases: &[],
        about: "Create a secret from literals and files",
        usage: "NAME [--from-literal=KEY=VALUE] [--from-file=[KEY=]FILE]",
        flags: &[print::FLAGS, create::FLAGS, create::DATA_FLAGS, create::SECRET_FLAGS],
        run: create::secret,
    },
    Verb {
        path: "create token",
        aliases: &[],
        about: "Request a token of a service account",
        usage: "NAME [--duration=DURATION] [--audience=TEXT]",
        flags: &[print::FLAGS, auth::TOKEN_FLAGS],
        run: auth::create_token,
    },
    Verb {
        path: "apply",
        aliases: &[],
        about: "Make objects what files say, keeping what others set",
        usage: "-f FILE [--server-side [--force-conflicts]] [--dry-run=none|client|server]",
        flags: &[print::FLAGS, source::FLAGS, apply::FLAGS],
        run: apply::run,
    },
    Verb {
        path: "patch",
        aliases: &[],
        about: "Change fields of objects",
        usage: "TYPE NAME -p PATCH [--type strategic|merge|json]",
        flags: &[print::FLAGS, source::FLAGS, patch::FLAGS],
        run: patch::run,
    },
    Verb {
        path: "label",
        aliases: &[],
        about: "Set or remove labels",
        usage: "TYPE NAME KEY=VALUE… KEY-…",
        flags: &[print::FLAGS, source::FLAGS, label::FLAGS, label::LABEL_FLAGS],
        run: |ctl| label::run(ctl, What::Label),
    },
    Verb {
        path: "annotate",
        aliases: &[],
        about: "Set or remove annotations",
        usage: "TYPE NAME KEY=VALUE… KEY-…",
        flags: &[print::FLAGS, source::FLAGS, label::FLAGS, label::ANNOTATE_FLAGS],
        run: |ctl| label::run(ctl, What::Annotation),
    },
    Verb {
        path: "delete",
        aliases: &[],
        about: "Delete objects, and wait until they are gone",
        usage: "TYPE [NAME…] [-l SELECTOR | --all] | TYPE/NAME… | -f FILE",
        flags: &[source::FLAGS, delete::FLAGS],
        run: delete::run,
    },
    Verb {
        path: "wait",
        aliases: &[],
        about: "Wait for a state of objects",
        usage: "TYPE/NAME… --for=create|delete|condition=NAME[=STATUS]|jsonpath=PATH[=VALUE] [--timeout=30s]",
        flags: &[print::FLAGS, source::FLAGS, wait::FLAGS],
        run: wait::run,
    },
    Verb {
        path: "wait-condition",
        aliases: &[],
        about: "Wait for a condition, also of an object that does not exist yet",
        usage: "TYPE[.GROUP]/NAME CONDITION[=STATUS] [--reason=TEXT] [--since=TIME|startup] [--timeout=30s]",
        flags: &[wait_condition::FLAGS],
        run: wait_condition::run,
    },
    Verb {
        path: "explain",
        aliases: &[],
        about: "Explain a resource and its fields",
        usage: "TYPE[.FIELD…] [--recursive]",
        flags: &[explain::FLAGS],
        run: explain::run,
    },
    Verb {
        path: "api-resources",
        aliases: &[],
        about: "List what the server has",
        usage: "[--namespaced=BOOL] [--verbs=…] [--categories=…] [-o wide|name]",
        flags: &[resources::FLAGS],
        run: resources::resources,
    },
    Verb {
        path: "api-versions",
        aliases: &[],
        about: "List groups and versions",
        usage: "",
        flags: &[],
        run: resources::versions,
    },
    Verb {
        path: "auth can-i",
        aliases: &[],
        about: "Ask whether an action is allowed: exit code 0 for yes, 1 for no",
        usage: "VERB TYPE[/NAME] | VERB /URL [--subresource=TEXT] [-A] [-q]",
        flags: &[auth::CAN_I_FLAGS],
        run: auth::can_i,
    },
    Verb {
        path: "auth whoami",
        aliases: &[],
        about: "Show who the server takes you for",
        usage: "[-o json|yaml]",
        flags: &[print::FLAGS],
        run: auth::whoami,
    },
    Verb {
        path: "cluster-info",
        aliases: &["clusterinfo"],
        about: "Show where the control plane and services of the cluster are",
        usage: "",
        flags: &[],
        run: cluster_info::run,
    },
    Verb {
        path: "config view",
        aliases: &[],
        about: "Show the merged kubeconfigs, without secrets",
        usage: "[--minify] [--flatten] [--raw] [-o json|yaml|jsonpath=…]",
        flags: &[print::FLAGS, config::VIEW_FLAGS],
        run: config::view,
    },
    Verb {
        path: "config current-context",
        aliases: &[],
        about: "Print the current context",
        usage: "",
        flags: &[],
        run: config::current_context,
    },
    Verb {
        path: "config get-contexts",
        aliases: &[],
        about: "List contexts",
        usage: "[NAME…] [-o name] [--no-headers]",
        flags: &[config::GET_CONTEXTS_FLAGS],
        run: config::get_contexts,
    },
    Verb {
        path: "config get-clusters",
        aliases: &[],
        about: "List clusters",
        usage: "",
        flags: &[],
        run: config::get_clusters,
    },
    Verb { path: "config get-users", aliases: &[], about: "List users", usage: "", flags: &[], run: config::get_users },
    Verb {
        path: "config use-context",
        aliases: &["config use"],
        about: "Make a context the current one",
        usage: "NAME",
        flags: &[],
        run: config::use_context,
    },
    Verb {
        path: "config set-context",
        aliases: &[],
        about: "Create a context, or change its cluster, user or namespace",
        usage: "NAME | --current [--cluster=NAME] [--user=NAME] [--namespace=NAME]",
        flags: &[config::SET_CONTEXT_FLAGS],
        run: config::set_context,
    },
    Verb {
        path: "config rename-context",
        aliases: &[],
        about: "Rename a context",
        usage: "NAME NEW-NAME",
        flags: &[],
        run: config::rename_context,
    },
    Verb {
        path: "config delete-context",
        aliases: &[],
        about: "Delete a context",
        usage: "NAME",
        flags: &[],
        run: config::delete_context,
    },
    Verb {
        path: "config delete-cluster",
        aliases: &[],
        about: "Delete a cluster from the kubeconfig",
        usage: "NAME",
        flags: &[],
        run: config::delete_cluster,
    },
    Verb {
        path: "config delete-user",
        aliases: &[],
        about: "Delete a user from the kubeconfig",
        usage: "NAME",
        flags: &[],
        run: config::delete_user,
    },
    Verb {
        path: "version",
        aliases: &[],
        about: "Print the versions of client and server",
        usage: "[--client] [-o json|yaml]",
        flags: &[version::FLAGS],
        run: version::run,
    },
];

/// Parses the words after `ctl` or `kubectl`.
pub(crate) fn read(mut words: Vec<String>, program: Program) -> Asked {
    let global = Table::of(&[GLOBAL, CONNECTION]);
    let Some(mut first) = global.first_word(&words) else {
        let only_help = words.iter().all(|word| matches!(word.as_str(), "--help" | "-h"));
        return if only_help { Asked::Text(help::overview(program)) } else { Asked::Other(String::new()) };
    };
    if program == Program::Kubectl && words[first] == "help" {
        words.remove(first);
        match global.first_word(&words) {
            Some(next) => first = next,
            None => return Asked::Text(help::overview(program)),
        }
        words.push("--help".to_owned());
    }
    let name = name_of(&global, &words, first);
    let Some((verb, rest)) = find(&global, words, first) else {
        return if is_group(&name) { Asked::Text(help::group(&name, program)) } else { Asked::Other(name) };
    };
    if verb.is_ours() && program == Program::Kubectl {
        return Asked::Other(name);
    }
    let mut groups = verb.flags.to_vec();
    groups.extend([GLOBAL, CONNECTION]);
    match Table::of(&groups).read(rest) {
        Err(problem) if verb.is_ours() => Asked::Failed(problem),
        Err(problem) => {
            let text = format!("{problem}\nSee 'kubectl {} --help' for usage.", verb.path);
            Asked::Wrong(Error::text(text).report())
        }
        Ok(flags) if flags.help => Asked::Text(help::of(verb, program)),
        Ok(flags) if is_for_another_server(verb, &flags, program) => Asked::Other(name),
        Ok(flags) if verb.path == "version" && flags.is_on("client") => match version::of_client(&flags) {
            Ok(text) => Asked::Text(text),
            Err(error) => Asked::Wrong(error.report()),
        },
        Ok(flags) => Asked::Native(Command { verb, flags }),
    }
}

/// Whether flags of `rdd ctl` name another server or user. For `config`, most of these flags are ordinary values.
fn is_for_another_server(verb: &Verb, flags: &Flags, program: Program) -> bool {
    let mut given = CONNECTION.iter().filter(|flag| flags.is_given(flag.long));
    program == Program::Ctl && given.any(|flag| !verb.needs_no_server() || flag.long == "kubeconfig")
}

/// The words of a verb for messages: two words if the first is only a group.
fn name_of(global: &Table, words: &[String], first: usize) -> String {
    let mut rest = words.to_vec();
    let name = rest.remove(first);
    let next = global.first_word(&rest).map(|next| rest[next].clone());
    let has_more = OTHERS.iter().find(|(verb, _)| *verb == name);
    match (has_more, next) {
        (Some((_, others)), Some(next)) if others.contains(&next.as_str()) || named(&name).is_none() => {
            format!("{name} {next}")
        }
        _ => name,
    }
}

/// Whether a word is only a group of verbs.
fn is_group(word: &str) -> bool {
    !word.contains(' ') && named(word).is_none() && VERBS.iter().any(|verb| verb.path.starts_with(&format!("{word} ")))
}

/// Whether a verb, or a verb in this group, is built in.
pub(crate) fn is_built_in(verb: &str) -> bool {
    named(verb).is_some() || VERBS.iter().any(|known| known.path.starts_with(&format!("{verb} ")))
}

/// Whether kubectl has the verb but it is not built in.
pub(crate) fn is_known_elsewhere(verb: &str) -> bool {
    let (first, second) = verb.split_once(' ').unwrap_or((verb, ""));
    let is_other = OTHERS.iter().any(|(group, others)| *group == first && others.contains(&second));
    OTHER_VERBS.contains(&first) || is_other || named(verb).is_some_and(|verb| !verb.is_ours())
}

/// Finds the verb; returns it with all other words.
fn find(global: &Table, mut words: Vec<String>, first: usize) -> Option<(&'static Verb, Vec<String>)> {
    let mut path = words.remove(first);
    let mut verb = named(&path);
    loop {
        let candidates = candidates_after(&path);
        let table = match verb {
            Some(verb) => {
                let mut groups = verb.flags.to_vec();
                groups.extend([GLOBAL, CONNECTION]);
                Table::of(&groups)
            }
            None => global.clone(),
        };
        let Some(next) = table.first_word(&words).filter(|_| candidates) else { break };
        let longer = format!("{path} {}", words[next]);
        let leads_on = named(&longer).is_some() || candidates_after(&longer);
        if !leads_on {
            let is_other = OTHERS.iter().any(|(verb, others)| path == *verb && others.contains(&words[next].as_str()));
            if is_other {
                return None;
            }
            break;
        }
        words.remove(next);
        path = longer;
        verb = named(&path);
    }
    verb.map(|verb| (verb, words))
}

fn named(path: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.path == path || verb.aliases.contains(&path))
}

/// Whether these words are the beginning of a verb.
fn candidates_after(path: &str) -> bool {
    let prefix = format!("{path} ");
    let mut paths = VERBS.iter().flat_map(|verb| std::iter::once(&verb.path).chain(verb.aliases));
    paths.any(|known| known.starts_with(&prefix)) || OTHERS.iter().any(|(verb, _)| *verb == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> String {
        asked_of(Program::Ctl, line)
    }

    fn asked_of(program: Program, line: &str) -> String {
        match read(line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect(), program) {
            Asked::Native(command) => format!("{} {}", command.verb.path, command.flags.args.join(" ")),
            Asked::Text(text) => text.lines().next().unwrap_or_default().to_owned(),
            Asked::Wrong(text) | Asked::Failed(text) => text,
            Asked::Other(verb) => format!("other {verb}"),
        }
    }

    #[test]
    fn a_line_is_one_of_our_verbs_or_kubectls() {
        for (line, expected) in [
            ("get cm", "get cm"),
            ("-n x get cm -o yaml", "get cm"),
            ("--namespace=x get cm", "get cm"),
            ("create ns a", "create namespace a"),
            ("create -f x", "create "),
            ("create cm a --from-literal=b=c", "create configmap a"),
            ("create secret generic a", "create secret generic a"),
            ("create secret tls a", "other create secret"),
            ("create deployment a", "other create deployment"),
            ("create token a", "create token a"),
            ("apply view-last-applied cm x", "other apply view-last-applied"),
            ("logs x", "other logs"),
            ("config view", "config view "),
            ("config set-cluster x", "other config set-cluster"),
            ("config set-context x --cluster c --user u", "config set-context x"),
            ("config view --kubeconfig x", "other config view"),
            ("get cm --kubeconfig x", "other get"),
            ("--kubeconfig x get cm", "other get"),
            ("wait-condition app/app Running", "wait-condition app/app Running"),
            ("get --nope", "error: unknown flag: --nope\nSee 'kubectl get --help' for usage.\n"),
            ("wait-condition --x", "unknown flag: --x"),
        ] {
            assert_eq!(asked(line).trim_end_matches(' '), expected.trim_end_matches(' '), "{line}");
        }
    }

    // Finding E-9
    #[test]
    fn rdd_kubectl_takes_the_flags_that_name_a_server_and_knows_what_is_not_built_in() {
        for (line, expected) in [
            ("get cm --kubeconfig x", "get cm"),
            ("--context c -s https://x --token t --as eve get cm", "get cm"),
            ("config view --kubeconfig x", "config view "),
            ("wait-condition app/app Running", "other wait-condition"),
            ("exec -it pod -- sh", "other exec"),
            ("help get", "Show objects as a table, or as -o says"),
            ("help", "Talk to the cluster of your kubeconfig with the words of kubectl"),
        ] {
            assert_eq!(
                asked_of(Program::Kubectl, line).trim_end_matches(' '),
                expected.trim_end_matches(' '),
                "{line}"
            );
        }
        for verb in ["exec", "create deployment", "config set-cluster", "port-forward", "get"] {
            let text = crate::explain_missing(verb);
            assert!(
                text.starts_with(&format!("error: `kubectl {verb}` is not built in\nhint: install kubectl")),
                "{text}"
            );
        }
        assert_eq!(asked_of(Program::Kubectl, "config"), "Verbs that begin with `config`:");
        assert_eq!(asked_of(Program::Kubectl, "config nope"), "other config nope");
        assert_eq!(
            crate::explain_missing("config nope"),
            "error: unknown command \"nope\"\nSee 'kubectl config -h' for help and examples\n"
        );
        assert_eq!(crate::explain_missing("nope"), "error: unknown command \"nope\" for \"kubectl\"\n");
        assert_eq!(
            crate::explain_missing("wait-condition"),
            "error: unknown command \"wait-condition\" for \"kubectl\"\n"
        );
    }

    #[test]
    fn every_verb_has_help_and_no_flag_twice() {
        for verb in VERBS {
            assert!(asked(&format!("{} --help", verb.path)).contains(verb.about), "{}", verb.path);
            let mut names: Vec<&str> = verb.flags.iter().flat_map(|group| group.iter()).map(|flag| flag.long).collect();
            names.extend(GLOBAL.iter().chain(CONNECTION).map(|flag| flag.long));
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", verb.path);
        }
    }
}
