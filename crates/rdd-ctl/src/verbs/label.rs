//! `label` and `annotate`: set, remove and list labels and annotations.

use std::collections::BTreeMap;

use rdd_meta::{
    go_text::quote,
    labels::value_problems,
    metadata::{Metadata, MetadataMut},
};
use serde_json::{Map, Value, json};

use crate::{
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind},
    merge::two_way,
    selection::{Info, Wanted, select},
    source,
    write::{DRY_RUN, DryRun, Manner, printer},
};

/// The flags of both verbs.
pub(crate) const FLAGS: &[Flag] = &[
    DRY_RUN,
    Flag::switch("overwrite"),
    Flag::switch("list"),
    Flag::switch("local"),
    Flag::value("field-selector"),
    Flag::switch("all"),
    Flag::switch("all-namespaces").short('A'),
    Flag::value("resource-version"),
    Flag::value("selector").short('l'),
    Flag::switch("record"),
];
/// The flags of `label`.
pub(crate) const LABEL_FLAGS: &[Flag] = &[Flag::of("field-manager", Kind::Text, "kubectl-label")];
/// The flags of `annotate`.
pub(crate) const ANNOTATE_FLAGS: &[Flag] = &[Flag::of("field-manager", Kind::Text, "kubectl-annotate")];

/// Which of the two verbs runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Labels.
    Label,
    /// Annotations.
    Annotation,
}

impl What {
    fn noun(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Annotation => "annotation",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Label => "labels",
            Self::Annotation => "annotations",
        }
    }
}

/// The requested changes.
struct Changes {
    what: What,
    set: BTreeMap<String, String>,
    remove: Vec<String>,
    overwrite: bool,
    resource_version: String,
}

/// Runs `label` or `annotate`.
pub(crate) fn run(ctl: &Ctl<'_>, what: What) -> Result<()> {
    let flags = &ctl.flags;
    let dry_run = DryRun::of(ctl)?;
    let (resources, pairs) = split_args(&flags.args, what)?;
    let changes = Changes::read(ctl, what, &pairs)?;
    check(ctl, what, &changes, &resources, dry_run)?;
    let some = |flag: &str| Some(flags.text(flag).trim().to_owned()).filter(|text| !text.is_empty());
    let local = flags.is_on("local");
    let wanted = Wanted {
        args: resources,
        label_selector: some("selector"),
        field_selector: some("field-selector"),
        type_means_all: flags.is_on("all"),
        all_namespaces: flags.is_on("all-namespaces"),
        latest: !local,
        require_object: true,
        keep_going: true,
        local,
        ..Wanted::default()
    };
    let selected = select(ctl, &wanted)?;
    let single = selected.single_item_implied;
    if !single && !changes.resource_version.is_empty() {
        return Err(Error::text("--resource-version may only be used with a single resource"));
    }
    let mut errors = Vec::new();
    let mut printer = printer(ctl, dry_run, "annotated")?;
    for item in selected.items {
        let done = item.and_then(|mut info| {
            let (shown, operation) = changes.apply(ctl, &mut info, dry_run)?;
            if flags.is_on("list") {
                return list(ctl, what, &info, single);
            }
            printer.operation = dry_run.worded(operation);
            ctl.print(&printer.print(&shown)?)
        });
        errors.extend(done.err());
    }
    Error::aggregate(errors)
}

/// Splits the arguments into resources, which come first, and key-value pairs.
fn split_args(args: &[String], what: What) -> Result<(Vec<String>, Vec<String>)> {
    let (mut resources, mut pairs) = (Vec::new(), Vec::new());
    for arg in args {
        let is_pair = (arg.contains('=') && !arg.starts_with('=')) || (arg.ends_with('-') && arg != "-");
        match (is_pair, pairs.is_empty()) {
            (true, _) => pairs.push(arg.clone()),
            (false, true) => resources.push(arg.clone()),
            (false, false) => {
                let noun = what.noun();
                return Err(Error::text(format!("all resources must be specified before {noun} changes: {arg}")));
            }
        }
    }
    Ok((resources, pairs))
}

impl Changes {
    fn read(ctl: &Ctl<'_>, what: What, pairs: &[String]) -> Result<Self> {
        let mut changes = Self {
            what,
            set: BTreeMap::new(),
            remove: Vec::new(),
            overwrite: ctl.flags.is_on("overwrite"),
            resource_version: ctl.flags.text("resource-version").to_owned(),
        };
        for pair in pairs {
            match pair.split_once('=') {
                None => changes.remove.push(pair.trim_end_matches('-').to_owned()),
                Some((key, value)) => {
                    if what == What::Label {
                        check_label(pair, value)?;
                    }
                    changes.set.insert(key.to_owned(), value.to_owned());
                }
            }
        }
        let both: Vec<&str> =
            changes.remove.iter().filter(|key| changes.set.contains_key(*key)).map(String::as_str).collect();
        match (both.as_slice(), what) {
            ([], _) => Ok(changes),
            (_, What::Label) => Err(Error::text("can not both modify and remove a label in the same command")),
            (both, What::Annotation) => Err(Error::text(format!(
                "can not both modify and remove the following annotation(s) in the same command: {}",
                both.join(", ")
            ))),
        }
    }

    /// Changes one object; returns the object to print and the operation.
    fn apply(&self, ctl: &Ctl<'_>, info: &mut Info, dry_run: DryRun) -> Result<(Value, &'static str)> {
        let mut object = info.object().clone();
        if !self.resource_version.is_empty()
            && let Some(mut metadata) = MetadataMut::of(&mut object)
        {
            metadata.set("resourceVersion", None);
        }
        let old = object.clone();
        let here = dry_run == DryRun::Client || ctl.flags.is_on("local") || ctl.flags.is_on("list");
        if !here && self.what == What::Label {
            for key in self.remove.iter().filter(|key| Metadata::of(&old).label(key).is_none()) {
                ctl.print(&format!("label {} not found.\n", quote(key)))?;
            }
        }
        self.change(&mut object)?;
        let operation = self.operation(&old, &object);
        info.object = Some(object.clone());
        if here {
            return Ok((object, operation));
        }
        let manner = Manner { dry_run, field_manager: ctl.flags.text("field-manager"), field_validation: "" };
        let patch = rdd_meta::go_json::to_string(&two_way(&old, &object));
        let patched = manner.patch(ctl, info, "", "application/merge-patch+json", &patch, false)?;
        // Like kubectl: `label` prints what it sent, `annotate` what the server returned.
        Ok(if self.what == What::Label { (object, operation) } else { (patched, operation) })
    }

    fn change(&self, object: &mut Value) -> Result<()> {
        let field = self.what.field();
        let Some(mut metadata) = MetadataMut::of(object) else { return Ok(()) };
        let mut pairs = metadata.view().get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        if !self.overwrite {
            self.check_overwrites(&pairs)?;
        }
        for (key, value) in &self.set {
            pairs.insert(key.clone(), value.as_str().into());
        }
        self.remove.iter().for_each(|key| drop(pairs.remove(key)));
        metadata.set(field, Some(Value::Object(pairs)));
        if !self.resource_version.is_empty() {
            metadata.set_resource_version(&self.resource_version);
        }
        Ok(())
    }

    fn check_overwrites(&self, pairs: &Map<String, Value>) -> Result<()> {
        let taken = self.set.iter().filter_map(|(key, value)| {
            let found = pairs.get(key)?.as_str()?;
            (found != value && key != "kubernetes.io/change-cause").then_some((key, found))
        });
        let taken: Vec<_> = taken.collect();
        if taken.is_empty() {
            return Ok(());
        }
        if self.what == What::Label {
            let errors = taken.into_iter().map(|(key, found)| {
                Error::text(format!("'{key}' already has a value ({found}), and --overwrite is false"))
            });
            return Error::aggregate(errors.collect());
        }
        let taken: Vec<String> =
            taken.into_iter().map(|(key, found)| format!("'{key}' already has a value ({found})")).collect();
        Err(Error::text(format!(
            "--overwrite is false but found the following declared annotation(s): {}",
            taken.join("; ")
        )))
    }

    fn operation(&self, old: &Value, new: &Value) -> &'static str {
        if self.what == What::Annotation {
            return "annotated";
        }
        let length = |value: &Value| rdd_meta::go_json::to_string(value).len();
        match (old == new, !self.overwrite && length(new) < length(old)) {
            (true, _) => "not labeled",
            (false, true) => "unlabeled",
            (false, false) => "labeled",
        }
    }
}

fn check_label(pair: &str, value: &str) -> Result<()> {
    if value.contains('=') {
        return Err(Error::text(format!("invalid label spec: {pair}")));
    }
    let problems = value_problems(value);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Error::text(format!("invalid label value: {}: {}", quote(pair), problems.join(";"))))
}

fn check(ctl: &Ctl<'_>, what: What, changes: &Changes, resources: &[String], dry_run: DryRun) -> Result<()> {
    let flags = &ctl.flags;
    let file = if what == What::Label { ("pod.yaml", "pod.json") } else { ("rsrc.yaml", "rsrc.json") };
    let wrong = if flags.is_on("list") && !flags.text("output").is_empty() {
        "--list and --output may not be specified together".to_owned()
    } else if flags.is_on("all") && !flags.text("selector").is_empty() {
        "cannot set --all and --selector at the same time".to_owned()
    } else if flags.is_on("all") && !flags.text("field-selector").is_empty() {
        "cannot set --all and --field-selector at the same time".to_owned()
    } else if flags.is_on("local") && dry_run == DryRun::Server {
        "cannot specify --local and --dry-run=server - did you mean --dry-run=client?".to_owned()
    } else if flags.is_on("local") && !resources.is_empty() {
        format!("can only use local files by -f {} or --filename={} when --local=true is set", file.0, file.1)
    } else if flags.is_on("local") && !source::is_given(ctl) {
        format!("one or more files must be specified as -f {} or --filename={}", file.0, file.1)
    } else if resources.is_empty() && !source::is_given(ctl) {
        "one or more resources must be specified as <resource> <name> or <resource>/<name>".to_owned()
    } else if changes.set.is_empty() && changes.remove.is_empty() && !flags.is_on("list") {
        format!("at least one {} update is required", what.noun())
    } else {
        return Ok(());
    };
    Err(Error::text(wrong))
}

fn list(ctl: &Ctl<'_>, what: What, info: &Info, single: bool) -> Result<()> {
    let mut text = String::new();
    if !single {
        let version = info.object()["apiVersion"].as_str().unwrap_or_default();
        let (group, _) = crate::discovery::split_group_version(version);
        let kind = info.object()["kind"].as_str().unwrap_or_default();
        text = format!("Listing {} for {kind}.{group}/{}:\n", what.field(), info.name);
    }
    let none = json!({});
    let pairs = info.object()["metadata"].get(what.field()).unwrap_or(&none);
    for (key, value) in pairs.as_object().into_iter().flatten() {
        let indent = if single { "" } else { " " };
        text.push_str(&format!("{indent}{key}={}\n", value.as_str().unwrap_or_default()));
    }
    ctl.print(&text)
}
