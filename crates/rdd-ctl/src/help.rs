//! Help on the verbs, generated from their table.

use crate::{
    flags::{Flag, Kind},
    table::{GLOBAL, VERBS, Verb},
};

/// All verbs, one line each.
pub(crate) fn overview() -> String {
    let width = VERBS.iter().map(|verb| verb.path.len()).max().unwrap_or(0);
    let lines: String = VERBS.iter().map(|verb| format!("  {:width$}  {}\n", verb.path, verb.about)).collect();
    format!(
        "Talk to the service of this instance with the words of kubectl\n\nUsage: rdd ctl VERB [FLAGS]\n\nVerbs:\n{lines}\n\
         Every other verb goes to the kubectl of this machine, with KUBECONFIG set.\n`rdd ctl VERB --help` shows its flags.\n"
    )
}

/// One verb, with its flags.
pub(crate) fn of(verb: &Verb) -> String {
    let flags = |flags: &mut dyn Iterator<Item = &Flag>| flags.map(line).collect::<String>();
    let own = flags(&mut verb.flags.iter().flat_map(|group| group.iter()));
    let own = if own.is_empty() { own } else { format!("\nFlags:\n{own}") };
    let global = flags(&mut GLOBAL.iter().take(3));
    format!("{}\n\nUsage: rdd ctl {} {}\n{own}\nGlobal flags:\n{global}", verb.about, verb.path, verb.usage)
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
