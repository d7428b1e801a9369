//! The help texts, generated from the table of verbs.

use crate::{
    Program,
    flags::{Flag, Kind},
    table::{CONNECTION, GLOBAL, VERBS, Verb},
};

/// The overview of all verbs.
pub(crate) fn overview(program: Program) -> String {
    let lines = lines_of(&|verb| program == Program::Ctl || !verb.is_ours());
    let (about, others) = match program {
        Program::Ctl => (
            "Talk to the service of this instance with the words of kubectl",
            "Every other verb goes to the kubectl of this machine, with KUBECONFIG set.",
        ),
        Program::Kubectl => (
            "Talk to the cluster of your kubeconfig with the words of kubectl",
            "There is no kubectl on PATH, so these verbs are built in. With one, `rdd kubectl` runs that instead:\n\
             https://kubernetes.io/docs/tasks/tools",
        ),
    };
    let name = program.name();
    format!(
        "{about}\n\nUsage: {name} VERB [FLAGS]\n\nVerbs:\n{lines}\n{others}\n`{name} VERB --help` shows its flags.\n"
    )
}

/// The help on a group of verbs with the same first word.
pub(crate) fn group(word: &str, program: Program) -> String {
    let prefix = format!("{word} ");
    let lines = lines_of(&|verb| verb.path.starts_with(&prefix));
    let name = program.name();
    format!("Verbs that begin with `{word}`:\n{lines}\n`{name} {word} VERB --help` shows their flags.\n")
}

fn lines_of(is_shown: &dyn Fn(&Verb) -> bool) -> String {
    let shown: Vec<&Verb> = VERBS.iter().filter(|verb| is_shown(verb)).collect();
    let width = shown.iter().map(|verb| verb.path.len()).max().unwrap_or(0);
    shown.iter().map(|verb| format!("  {:width$}  {}\n", verb.path, verb.about)).collect()
}

/// The help on one verb with its flags.
pub(crate) fn of(verb: &Verb, program: Program) -> String {
    let flags = |flags: &mut dyn Iterator<Item = &Flag>| flags.map(line).collect::<String>();
    let own = flags(&mut verb.flags.iter().flat_map(|group| group.iter()));
    let own = if own.is_empty() { own } else { format!("\nFlags:\n{own}") };
    let mut global = flags(&mut GLOBAL.iter().take(3));
    if program == Program::Kubectl {
        global.push_str(&flags(&mut CONNECTION.iter()));
    }
    format!("{}\n\nUsage: {} {} {}\n{own}\nGlobal flags:\n{global}", verb.about, program.name(), verb.path, verb.usage)
}

fn line(flag: &Flag) -> String {
    let short = flag.short.map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
    let value = match flag.kind {
        Kind::Bool => "",
        Kind::Text | Kind::List | Kind::Array => "=TEXT",
        Kind::Optional(_) => "[=TEXT]",
        Kind::Duration => "=DURATION",
        Kind::Number => "=NUMBER",
    };
    let default = match (flag.kind, flag.default) {
        (_, "") | (Kind::Bool, "false") => String::new(),
        (_, default) => format!("  [default: {default}]"),
    };
    format!("  {short}--{}{value}{default}\n", flag.long)
}
