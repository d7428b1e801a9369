//! The table of verbs, and how the words of a command line find one of them.

use crate::{
    Asked, Command,
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind, Table},
    help, print, source,
    verbs::{
        apply, create, delete, describe, explain, get,
        label::{self, What},
        patch, resources, version, wait, wait_condition,
    },
};

/// A verb.
pub(crate) struct Verb {
    /// Its words.
    pub(crate) path: &'static str,
    /// Other words for it.
    pub(crate) aliases: &'static [&'static str],
    /// What it does, in one line.
    pub(crate) about: &'static str,
    /// What may follow it.
    pub(crate) usage: &'static str,
    pub(crate) flags: &'static [&'static [Flag]],
    pub(crate) run: fn(&Ctl<'_>) -> Result<()>,
}

impl Verb {
    /// Whether kubectl does not have it, so that its failures are told as ours.
    pub(crate) fn is_ours(&self) -> bool {
        self.path == "wait-condition"
    }
}

impl std::fmt::Debug for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verb({})", self.path)
    }
}

/// Flags of every verb.
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

/// Flags that say where the server is or who asks. Ours is known; with one of these, kubectl itself is wanted.
const ELSEWHERE: &[Flag] = &[
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

/// Words after a verb that make it another one, which is kubectl's.
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
            "token",
        ],
    ),
    ("apply", &["edit-last-applied", "set-last-applied", "view-last-applied"]),
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
        path: "version",
        aliases: &[],
        about: "Print the versions of client and server",
        usage: "[--client] [-o json|yaml]",
        flags: &[version::FLAGS],
        run: version::run,
    },
];

/// Reads the words after `ctl`.
pub(crate) fn read(words: Vec<String>) -> Asked {
    let global = Table::of(&[GLOBAL, ELSEWHERE]);
    let Some(first) = global.first_word(&words) else {
        let only_help = words.iter().all(|word| matches!(word.as_str(), "--help" | "-h"));
        return if only_help { Asked::Text(help::overview()) } else { Asked::Other };
    };
    let Some((verb, rest)) = find(&global, words, first) else { return Asked::Other };
    let mut groups = verb.flags.to_vec();
    groups.extend([GLOBAL, ELSEWHERE]);
    match Table::of(&groups).read(rest) {
        Err(problem) if verb.is_ours() => Asked::Failed(problem),
        Err(problem) => {
            let text = format!("{problem}\nSee 'kubectl {} --help' for usage.", verb.path);
            Asked::Wrong(Error::text(text).report())
        }
        Ok(flags) if flags.help => Asked::Text(help::of(verb)),
        Ok(flags) if ELSEWHERE.iter().any(|flag| flags.is_given(flag.long)) => Asked::Other,
        Ok(flags) if verb.path == "version" && flags.is_on("client") => match version::of_client(&flags) {
            Ok(text) => Asked::Text(text),
            Err(error) => Asked::Wrong(error.report()),
        },
        Ok(flags) => Asked::Native(Command { verb, flags }),
    }
}

/// The verb that the words name, and all other words.
fn find(global: &Table, mut words: Vec<String>, first: usize) -> Option<(&'static Verb, Vec<String>)> {
    let mut path = words.remove(first);
    let mut verb = named(&path);
    loop {
        let candidates = candidates_after(&path);
        let table = match verb {
            Some(verb) => {
                let mut groups = verb.flags.to_vec();
                groups.extend([GLOBAL, ELSEWHERE]);
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

/// Whether some verb begins with these words.
fn candidates_after(path: &str) -> bool {
    let prefix = format!("{path} ");
    let mut paths = VERBS.iter().flat_map(|verb| std::iter::once(&verb.path).chain(verb.aliases));
    paths.any(|known| known.starts_with(&prefix)) || OTHERS.iter().any(|(verb, _)| *verb == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> String {
        match read(line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()) {
            Asked::Native(command) => format!("{} {}", command.verb.path, command.flags.args.join(" ")),
            Asked::Text(text) => text.lines().next().unwrap_or_default().to_owned(),
            Asked::Wrong(text) | Asked::Failed(text) => text,
            Asked::Other => "other".to_owned(),
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
            ("create secret tls a", "other"),
            ("create deployment a", "other"),
            ("apply view-last-applied cm x", "other"),
            ("logs x", "other"),
            ("config view", "other"),
            ("get cm --kubeconfig x", "other"),
            ("--kubeconfig x get cm", "other"),
            ("wait-condition app/app Running", "wait-condition app/app Running"),
            ("get --nope", "error: unknown flag: --nope\nSee 'kubectl get --help' for usage.\n"),
            ("wait-condition --x", "unknown flag: --x"),
        ] {
            assert_eq!(asked(line).trim_end_matches(' '), expected.trim_end_matches(' '), "{line}");
        }
    }

    #[test]
    fn every_verb_has_help_and_no_flag_twice() {
        for verb in VERBS {
            assert!(asked(&format!("{} --help", verb.path)).contains(verb.about), "{}", verb.path);
            let mut names: Vec<&str> = verb.flags.iter().flat_map(|group| group.iter()).map(|flag| flag.long).collect();
            names.extend(GLOBAL.iter().chain(ELSEWHERE).map(|flag| flag.long));
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", verb.path);
        }
    }
}
