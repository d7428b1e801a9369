//! Selects the objects that a command line names: by type, name, selector or file.

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

/// The media types of a table response.
pub(crate) const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// The options of a selection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// The positional arguments.
    pub(crate) args: Vec<String>,
    /// The value of `-l`; `None` if empty.
    pub(crate) label_selector: Option<String>,
    /// The value of `--field-selector`; `None` if empty.
    pub(crate) field_selector: Option<String>,
    /// `--all`.
    pub(crate) all: bool,
    /// `-A`.
    pub(crate) all_namespaces: bool,
    /// Whether a type without names means all objects of the type.
    pub(crate) type_means_all: bool,
    /// The page size.
    pub(crate) chunk: i64,
    /// `--subresource`.
    pub(crate) subresource: String,
    /// Whether only one type may be given.
    pub(crate) single_type: bool,
    /// Whether to request tables.
    pub(crate) table: bool,
    /// Whether tables should include whole objects.
    pub(crate) whole_objects: bool,
    /// Whether to keep lists instead of expanding them into items.
    pub(crate) keep_lists: bool,
    /// Whether to get the current version of objects in files.
    pub(crate) latest: bool,
    /// Whether to get objects that are only named.
    pub(crate) require_object: bool,
    /// Whether to continue after a failure.
    pub(crate) keep_going: bool,
    /// Whether to ignore files even if given.
    pub(crate) ignore_files: bool,
    /// Whether to send no requests at all.
    pub(crate) local: bool,
    /// Whether objects in files must have apiVersion and kind.
    pub(crate) validate: bool,
}

/// A selected object.
#[derive(Debug, Clone)]
pub(crate) struct Info {
    /// The resource; `None` if no request may be sent.
    pub(crate) mapping: Option<Rc<Mapping>>,
    /// The namespace; empty if it is cluster-scoped.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
    /// The file that contains it.
    pub(crate) source: String,
    /// The object, if it was read or fetched.
    pub(crate) object: Option<Value>,
}

impl Info {
    /// The resource.
    pub(crate) fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("the server was asked")
    }

    /// The path of the object.
    pub(crate) fn path(&self) -> String {
        self.mapping().path(&self.namespace, &self.name)
    }

    /// `resource/name`.
    pub(crate) fn object_name(&self) -> String {
        format!("{}/{}", self.mapping().resource, self.name)
    }

    /// The object, or null.
    pub(crate) fn object(&self) -> &Value {
        self.object.as_ref().unwrap_or(&Value::Null)
    }
}

/// The result of a selection: objects and errors, in order.
#[derive(Debug)]
pub(crate) struct Selected {
    /// In order.
    pub(crate) items: Vec<Result<Info>>,
    /// Whether the command line names exactly one object.
    pub(crate) single_item_implied: bool,
    /// Whether each object was named, on the command line or in a file.
    pub(crate) targets_single_items: bool,
}

/// Selects objects.
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

/// Gets the objects that are only named.
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

/// Gets one object. If it is missing because its namespace is missing, the error is about the namespace.
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
