//! `describe`: prints details of objects for people.

use crate::{
    context::Ctl,
    describe::describe,
    error::{Error, Result},
    flags::{Flag, Kind},
    selection::{Selected, Wanted, select},
    source,
};

/// The flags of `describe`.
pub(crate) const FLAGS: &[Flag] = &[
    Flag::value("selector").short('l'),
    Flag::switch("all-namespaces").short('A'),
    Flag::of("show-events", Kind::Bool, "true"),
    Flag::of("chunk-size", Kind::Number, "500"),
];

/// Runs `describe`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    if flags.args.is_empty() && !source::is_given(ctl) {
        return Err(Error::text(
            "You must specify the type of resource to describe. Use \"kubectl api-resources\" for a complete list of \
             supported resources.\n",
        ));
    }
    let wanted = Wanted {
        args: flags.args.clone(),
        label_selector: Some(flags.text("selector").trim().to_owned()).filter(|text| !text.is_empty()),
        all_namespaces: flags.is_on("all-namespaces"),
        type_means_all: true,
        chunk: flags.number("chunk-size"),
        require_object: true,
        keep_going: true,
        ..Wanted::default()
    };
    let Selected { items, .. } = select(ctl, &wanted)?;
    let (mut infos, mut errors) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Ok(info) => infos.push(info),
            Err(error) => errors.push(error),
        }
    }
    if let [error] = errors.as_slice()
        && error.is_not_found()
        && let [kind, prefix] = flags.args.as_slice()
    {
        return matching(ctl, error.clone(), kind, prefix, &wanted);
    }
    let found = !infos.is_empty() || !errors.is_empty();
    let mut is_first = true;
    for info in &infos {
        match describe(ctl, info) {
            Ok(text) => {
                let separator = if std::mem::replace(&mut is_first, false) { "" } else { "\n\n" };
                ctl.print(&format!("{separator}{text}"))?;
            }
            Err(error) if errors.contains(&error) => {}
            Err(error) => errors.push(error),
        }
    }
    if !found {
        ctl.tell(&match wanted.all_namespaces {
            true => "No resources found\n".to_owned(),
            false => format!("No resources found in {} namespace.\n", ctl.namespace()),
        });
    }
    Error::aggregate(errors)
}

/// Describes the objects whose names start with a name that does not exist.
fn matching(ctl: &Ctl<'_>, original: Error, kind: &str, prefix: &str, wanted: &Wanted) -> Result<()> {
    let wanted = Wanted { args: vec![kind.to_owned()], single_type: true, keep_going: false, ..wanted.clone() };
    let mut found = false;
    for item in select(ctl, &wanted)?.items {
        let info = item?;
        if info.name.starts_with(prefix) {
            found = true;
            ctl.print(&format!("{}\n", describe(ctl, &info)?))?;
        }
    }
    if found { Ok(()) } else { Err(original) }
}
