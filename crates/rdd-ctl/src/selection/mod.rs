//! Which objects a command line means: types, names, selectors or files.

mod files;
mod list;
mod words;

use std::rc::Rc;

use serde_json::Value;

use crate::{
    api::Call,
    context::Ctl,
    discovery::Mapping,
    error::{Error, Result},
    source,
};
use words::Words;

/// The form of answers that are shown as tables.
pub(crate) const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// How to look for objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// What is left of the command line.
    pub(crate) args: Vec<String>,
    /// `-l`, unless empty.
    pub(crate) label_selector: Option<String>,
    /// `--field-selector`, unless empty.
    pub(crate) field_selector: Option<String>,
    /// `--all`.
    pub(crate) all: bool,
    /// `-A`.
    pub(crate) all_namespaces: bool,
    /// Whether a type without names means all of them.
    pub(crate) type_means_all: bool,
    /// How many at a time.
    pub(crate) chunk: i64,
    /// `--subresource`.
    pub(crate) subresource: String,
    /// Whether only one type may be named.
    pub(crate) single_type: bool,
    /// Whether to ask for tables.
    pub(crate) table: bool,
    /// Whether tables are to hold whole objects.
    pub(crate) whole_objects: bool,
    /// Whether lists stay lists instead of becoming their items.
    pub(crate) keep_lists: bool,
    /// Whether objects in files are to be looked up.
    pub(crate) latest: bool,
    /// Whether objects are to be looked up that are only named.
    pub(crate) require_object: bool,
    /// Whether later objects are looked up after one failed.
    pub(crate) keep_going: bool,
    /// Whether files are not read, even if given.
    pub(crate) ignore_files: bool,
    /// Whether the server must not be asked at all.
    pub(crate) local: bool,
    /// Whether what is in files must at least say what it is.
    pub(crate) validate: bool,
}

/// One object that is meant.
#[derive(Debug, Clone)]
pub(crate) struct Info {
    /// What it is, unless nobody was asked.
    pub(crate) mapping: Option<Rc<Mapping>>,
    /// Its namespace; empty if it has none.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// The file that it was in.
    pub(crate) source: String,
    /// Itself, as far as it is known.
    pub(crate) object: Option<Value>,
}

impl Info {
    /// What it is.
    pub(crate) fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("the server was asked")
    }

    /// Its path.
    pub(crate) fn path(&self) -> String {
        self.mapping().path(&self.namespace, &self.name)
    }

    /// `resource/name`.
    pub(crate) fn object_name(&self) -> String {
        format!("{}/{}", self.mapping().resource, self.name)
    }

    /// Itself.
    pub(crate) fn object(&self) -> &Value {
        self.object.as_ref().unwrap_or(&Value::Null)
    }
}

/// What was found, in order; where something failed, why.
#[derive(Debug)]
pub(crate) struct Selected {
    /// In order.
    pub(crate) items: Vec<Result<Info>>,
    /// Whether the command line means exactly one object.
    pub(crate) single_item_implied: bool,
    /// Whether each was named, on the command line or in a file.
    pub(crate) targets_single_items: bool,
}

/// Finds what is wanted.
pub(crate) fn select(ctl: &Ctl<'_>, wanted: &Wanted) -> Result<Selected> {
    let words = Words::read(ctl, wanted)?;
    let mut label_selector = wanted.label_selector.clone();
    if wanted.all && (label_selector.is_some() || wanted.field_selector.is_some()) {
        return Err(Error::text("setting 'all' parameter but found a non empty selector. "));
    }
    if label_selector.is_none() && (wanted.all || words.means_all) {
        label_selector = Some(String::new());
    }
    if !wanted.ignore_files && source::is_given(ctl) {
        return files::by_files(ctl, wanted, &words, label_selector.as_deref());
    }
    if label_selector.is_some() || wanted.field_selector.is_some() {
        return list::by_selector(ctl, wanted, &words, label_selector.as_deref().unwrap_or_default());
    }
    if !words.pairs.is_empty() {
        return by_pairs(ctl, wanted, &words);
    }
    if !words.names.is_empty() {
        return by_names(ctl, wanted, &words);
    }
    for name in &words.types {
        ctl.find(name)?;
    }
    Err(Error::text(if words.types.is_empty() {
        "You must provide one or more resources by argument or filename.\nExample resource specifications include:\n   \
         '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'"
    } else {
        "resource(s) were provided, but no name was specified"
    }))
}

const MULTIPLE_TYPES: &str = "you may only specify a single resource type";

fn mappings(ctl: &Ctl<'_>, wanted: &Wanted, types: &[String]) -> Result<Vec<Rc<Mapping>>> {
    if types.len() > 1 && wanted.single_type {
        return Err(Error::text(MULTIPLE_TYPES));
    }
    let mut found: Vec<Rc<Mapping>> = Vec::new();
    for name in types {
        let mapping = ctl.find(name)?;
        if !found.contains(&mapping) {
            found.push(mapping);
        }
    }
    Ok(found)
}

fn as_table(call: &mut Call, wanted: &Wanted) {
    if wanted.table {
        call.accept = TABLE;
        if wanted.whole_objects {
            call.query.push(("includeObject".to_owned(), "Object".to_owned()));
        }
    }
}

fn named(ctl: &Ctl<'_>, wanted: &Wanted, mapping: &Rc<Mapping>, name: &str) -> Result<Info> {
    let namespace = match (mapping.namespaced, wanted.all_namespaces) {
        (false, _) => String::new(),
        (true, true) => return Err(Error::text("a resource cannot be retrieved by name across all namespaces")),
        (true, false) => ctl.namespace().to_owned(),
    };
    Ok(Info { mapping: Some(mapping.clone()), namespace, name: name.to_owned(), source: String::new(), object: None })
}

fn by_pairs(ctl: &Ctl<'_>, wanted: &Wanted, words: &Words) -> Result<Selected> {
    let mut found = Vec::new();
    for (kind, name) in &words.pairs {
        found.push((ctl.find(kind)?, name));
    }
    if wanted.single_type && found.iter().any(|(mapping, _)| *mapping != found[0].0) {
        return Err(Error::text(MULTIPLE_TYPES));
    }
    let infos = found.iter().map(|(mapping, name)| named(ctl, wanted, mapping, name)).collect::<Result<Vec<_>>>()?;
    Ok(Selected {
        single_item_implied: infos.len() == 1,
        targets_single_items: true,
        items: looked_up(ctl, wanted, infos.into_iter().map(Ok).collect(), wanted.keep_going),
    })
}

fn by_names(ctl: &Ctl<'_>, wanted: &Wanted, words: &Words) -> Result<Selected> {
    if words.types.len() > 1 {
        return Err(Error::text("you must specify only one resource"));
    }
    let found = mappings(ctl, wanted, &words.types)?;
    let mapping =
        found.first().ok_or_else(|| Error::text("you must provide a resource and a resource name together"))?;
    let infos = words.names.iter().map(|name| named(ctl, wanted, mapping, name)).collect::<Result<Vec<_>>>()?;
    Ok(Selected {
        single_item_implied: infos.len() == 1,
        targets_single_items: true,
        items: looked_up(ctl, wanted, infos.into_iter().map(Ok).collect(), wanted.keep_going),
    })
}

/// Asks for each that is only named.
fn looked_up(ctl: &Ctl<'_>, wanted: &Wanted, infos: Vec<Result<Info>>, keep_going: bool) -> Vec<Result<Info>> {
    if !wanted.require_object {
        return infos;
    }
    let mut items = Vec::new();
    for info in infos {
        let looked = info.and_then(|mut info| {
            info.object = Some(fetch(ctl, wanted, &info)?);
            Ok(info)
        });
        let failed = looked.is_err();
        items.push(looked);
        if failed && !keep_going {
            break;
        }
    }
    items
}

/// One object. When it is not there because its namespace is not, that is what is told.
pub(crate) fn fetch(ctl: &Ctl<'_>, wanted: &Wanted, info: &Info) -> Result<Value> {
    let mut path = info.path();
    if !wanted.subresource.is_empty() {
        path = format!("{path}/{}", wanted.subresource);
    }
    let mut call = Call::get(path);
    as_table(&mut call, wanted);
    ctl.call(&call).map_err(|error| {
        let elsewhere = !matches!(info.namespace.as_str(), "" | "default");
        if error.is_not_found() && elsewhere {
            let namespace = ctl.call(&Call::get(format!("/api/v1/namespaces/{}", info.namespace)));
            return namespace.err().filter(Error::is_not_found).unwrap_or(error);
        }
        error
    })
}
