//! Lists the paths and operations of a resource, independent of the OpenAPI version.

use rdd_meta::GroupVersionKind;

use super::parameter::{self, Parameter};
use crate::registry::{Part, ResourceDef, SubresourceDef, VersionDef};

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

/// A path with its operations.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) path: String,
    pub(super) operations: Vec<Operation>,
}

/// One method on a path.
#[derive(Debug)]
pub(super) struct Operation {
    /// The method in lower case.
    pub(super) method: &'static str,
    /// The value of `x-kubernetes-action`, such as `post`, `deletecollection` or `watchlist`.
    pub(super) action: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    pub(super) description: String,
    /// The kind that the operation acts on.
    pub(super) about: GroupVersionKind,
    /// The parameters, sorted by name.
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    /// The media types of the response.
    pub(super) produces: &'static [&'static str],
    /// The media types of the request body. As upstream, operations without a body have some too.
    pub(super) consumes: &'static [&'static str],
    /// The responses: status code, description and the definition of the body.
    pub(super) responses: Vec<(&'static str, &'static str, String)>,
}

/// The request body of an operation.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) definition: String,
    pub(super) required: bool,
}

/// The names of the definitions of a resource.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) kind: String,
    pub(super) list: String,
    /// By subresource: the definition of its own kind, if it has one that is never stored.
    pub(super) questions: Vec<Option<String>>,
}

const OBJECT: &[&str] = &["application/json", "application/yaml"];
/// The media types of built-in kinds, which can be encoded in protobuf.
const TYPED: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAM: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const ANYTHING: &[&str] = &["*/*"];
const PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
const STRATEGIC_PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Lists all paths and operations of a resource in one version. As upstream, custom resources differ from built-in ones in details,
/// and have no deprecated watch paths.
pub(super) fn routes(def: &ResourceDef, version: &VersionDef, names: &Names) -> Vec<Route> {
    let maker = Maker { def, version, names };
    let mut routes = maker.collection();
    routes.push(maker.item());
    routes.extend((0..version.subresources.len()).map(|at| maker.part(at)));
    routes.extend(maker.watches());
    routes.retain(|route| !route.operations.is_empty());
    routes
}

struct Maker<'a> {
    def: &'a ResourceDef,
    version: &'a VersionDef,
    names: &'a Names,
}

/// The common properties of the operations on one path.
#[derive(Clone)]
struct Place<'a> {
    /// The name of the subresource, such as `status`; empty for objects and collections.
    part: &'a str,
    about: GroupVersionKind,
    /// The name of the definition of the object.
    definition: &'a str,
    path_parameters: Vec<Parameter>,
}

/// An operation's HTTP method, its action and the verb in its id.
#[derive(Clone, Copy)]
struct Act {
    method: &'static str,
    action: &'static str,
    verb: &'static str,
}

impl Act {
    const LIST: Self = Self { method: "get", action: "list", verb: "list" };
    const CREATE: Self = Self { method: "post", action: "post", verb: "create" };
    const DELETE_COLLECTION: Self = Self { method: "delete", action: "deletecollection", verb: "delete" };
    const READ: Self = Self { method: "get", action: "get", verb: "read" };
    const REPLACE: Self = Self { method: "put", action: "put", verb: "replace" };
    const DELETE: Self = Self { method: "delete", action: "delete", verb: "delete" };
    const UPDATE: Self = Self { method: "patch", action: "patch", verb: "patch" };
    const WATCH_LIST: Self = Self { method: "get", action: "watchlist", verb: "watch" };
    const WATCH: Self = Self { method: "get", action: "watch", verb: "watch" };
}

impl Maker<'_> {
    fn collection(&self) -> Vec<Route> {
        let place = self.place("", &self.names.kind, false);
        let can = |verb| self.def.can(verb);
        let mut operations = Vec::new();
        operations.extend(can("list").then(|| self.list(&place)));
        operations.extend(can("create").then(|| self.create(&place)));
        operations.extend(can("deletecollection").then(|| self.delete_collection(&place)));
        let mut routes = vec![Route { path: self.path(true), operations }];
        if self.def.namespaced && can("list") {
            // A namespaced resource can also be listed across all namespaces.
            let everywhere = Place { path_parameters: Vec::new(), ..place };
            let mut operation = self.list(&everywhere);
            operation.id = self.id("list", "", "", &format!("{}ForAllNamespaces", self.def.kind));
            routes.push(Route { path: self.path(false), operations: vec![operation] });
        }
        routes
    }

    fn item(&self) -> Route {
        let place = self.place("", &self.names.kind, true);
        let operations = self.object_operations(&place, self.def.verbs);
        Route { path: format!("{}/{{name}}", self.path(true)), operations }
    }

    fn part(&self, at: usize) -> Route {
        let part = &self.version.subresources[at];
        let question = self.names.questions.get(at).and_then(Option::as_deref);
        let definition = match &part.part {
            Part::View => &self.names.kind,
            Part::Scale(_) => SCALE,
            Part::Question(_) => question.unwrap_or_default(),
        };
        let mut place = self.place(part.name, definition, true);
        if let Some(kind) = self.foreign_kind(part) {
            place.path_parameters[0] = parameter::name(&kind.kind);
            place.about = kind;
        }
        let mut operations = self.object_operations(&place, part.verbs);
        operations.extend(part.verbs.contains(&"create").then(|| self.create(&place)));
        Route { path: format!("{}/{{name}}/{}", self.path(true), part.name), operations }
    }

    /// The kind of a subresource if it differs from that of the resource. As upstream, the scale of a custom resource counts as the
    /// resource's own kind.
    fn foreign_kind(&self, part: &SubresourceDef) -> Option<GroupVersionKind> {
        match &part.part {
            Part::Question(question) => Some(question.kind()),
            Part::Scale(_) if !self.is_custom() => Some(GroupVersionKind::new("autoscaling", "v1", "Scale")),
            _ => None,
        }
    }

    fn object_operations(&self, place: &Place<'_>, verbs: &[&str]) -> Vec<Operation> {
        let can = |verb: &str| verbs.contains(&verb);
        let mut operations = Vec::new();
        operations.extend(can("get").then(|| self.read(place)));
        operations.extend(can("update").then(|| self.replace(place)));
        operations.extend(can("delete").then(|| self.delete(place)));
        operations.extend(can("patch").then(|| self.patch(place)));
        operations
    }

    fn list(&self, place: &Place<'_>) -> Operation {
        let (says, produces) = if self.is_custom() { ("list", OBJECT) } else { ("list or watch", STREAM) };
        let description = format!("{says} objects of kind {}", self.def.kind);
        let operation = self.operation(place, Act::LIST, description, parameter::LIST);
        Operation { produces, responses: vec![("200", "OK", self.names.list.clone())], ..operation }
    }

    fn create(&self, place: &Place<'_>) -> Operation {
        let description = format!("create{}{}{}", of(place.part), article(&self.def.kind), self.def.kind);
        let operation = self.operation(place, Act::CREATE, description, parameter::WRITE);
        let answers = [("200", "OK"), ("201", "Created"), ("202", "Accepted")];
        Operation {
            body: Some(Body { definition: place.definition.to_owned(), required: true }),
            responses: answers.map(|(code, meaning)| (code, meaning, place.definition.to_owned())).into(),
            ..operation
        }
    }

    fn delete_collection(&self, place: &Place<'_>) -> Operation {
        let parameters = if self.is_custom() { parameter::LIST } else { parameter::DELETE_COLLECTION };
        let description = format!("delete collection of {}", self.def.kind);
        let operation = self.operation(place, Act::DELETE_COLLECTION, description, parameters);
        let body = Body { definition: DELETE_OPTIONS.to_owned(), required: false };
        Operation {
            id: self.id("delete", "Collection", self.scope(), &self.def.kind),
            body: (!self.is_custom()).then_some(body),
            responses: vec![("200", "OK", STATUS.to_owned())],
            ..operation
        }
    }

    fn read(&self, place: &Place<'_>) -> Operation {
        let parameters: &[&str] = if self.is_custom() { &["resourceVersion"] } else { &[] };
        let description = format!("read{} the specified {}", of(place.part), self.def.kind);
        let operation = self.operation(place, Act::READ, description, parameters);
        Operation { responses: vec![("200", "OK", place.definition.to_owned())], ..operation }
    }

    fn replace(&self, place: &Place<'_>) -> Operation {
        let description = format!("replace{} the specified {}", of(place.part), self.def.kind);
        let operation = self.operation(place, Act::REPLACE, description, parameter::WRITE);
        let answers = [("200", "OK"), ("201", "Created")];
        Operation {
            body: Some(Body { definition: place.definition.to_owned(), required: true }),
            responses: answers.map(|(code, meaning)| (code, meaning, place.definition.to_owned())).into(),
            ..operation
        }
    }

    fn delete(&self, place: &Place<'_>) -> Operation {
        let description = format!("delete{}{}{}", of(place.part), article(&self.def.kind), self.def.kind);
        let operation = self.operation(place, Act::DELETE, description, parameter::DELETE);
        let answer = if self.def.manners.returns_deleted { place.definition } else { STATUS };
        let answers = [("200", "OK"), ("202", "Accepted")];
        Operation {
            body: Some(Body { definition: DELETE_OPTIONS.to_owned(), required: false }),
            responses: answers.map(|(code, meaning)| (code, meaning, answer.to_owned())).into(),
            ..operation
        }
    }

    fn patch(&self, place: &Place<'_>) -> Operation {
        let description = format!("partially update{} the specified {}", of(place.part), self.def.kind);
        let operation = self.operation(place, Act::UPDATE, description, parameter::PATCH);
        let mut responses = vec![("200", "OK", place.definition.to_owned())];
        responses.extend((!self.is_custom()).then(|| ("201", "Created", place.definition.to_owned())));
        Operation {
            consumes: if self.version.kind.strategic() { STRATEGIC_PATCHES } else { PATCHES },
            body: Some(Body { definition: PATCH.to_owned(), required: true }),
            responses,
            ..operation
        }
    }

    /// The deprecated watch paths, `/watch/…`.
    fn watches(&self) -> Vec<Route> {
        if self.is_custom() || !self.def.can("watch") {
            return Vec::new();
        }
        let below = |path: String| {
            let root = self.root();
            format!("{root}/watch{}", &path[root.len()..])
        };
        let watch = |place: &Place<'_>, act, id: String| {
            let description = "deprecated: use the 'watch' parameter of a list instead".to_owned();
            let operation = self.operation(place, act, description, parameter::LIST);
            Operation { id, produces: STREAM, responses: vec![("200", "OK", WATCH_EVENT.to_owned())], ..operation }
        };
        let (kind, scope) = (&self.def.kind, self.scope());
        let collection = self.place("", &self.names.kind, false);
        let everywhere = Place { path_parameters: Vec::new(), ..collection.clone() };
        let item = self.place("", &self.names.kind, true);
        let mut routes = vec![
            (self.path(true), watch(&collection, Act::WATCH_LIST, self.id("watch", "", scope, &format!("{kind}List")))),
            (format!("{}/{{name}}", self.path(true)), watch(&item, Act::WATCH, self.id("watch", "", scope, kind))),
        ];
        if self.def.namespaced {
            let id = self.id("watch", "", "", &format!("{kind}ListForAllNamespaces"));
            routes.push((self.path(false), watch(&everywhere, Act::WATCH_LIST, id)));
        }
        routes.into_iter().map(|(path, watch)| Route { path: below(path), operations: vec![watch] }).collect()
    }

    fn operation(&self, place: &Place<'_>, act: Act, description: String, parameters: &[&str]) -> Operation {
        let mut parameters = parameter::query(parameters);
        parameters.extend(place.path_parameters.iter().cloned());
        parameters.sort_by_key(|parameter| parameter.name);
        Operation {
            method: act.method,
            action: act.action,
            id: self.id(act.verb, "", self.scope(), &format!("{}{}", self.def.kind, capitalized(place.part))),
            tag: format!("{}_{}", identifier(self.short_group(), false), identifier(&self.version.name, false)),
            description,
            about: place.about.clone(),
            parameters,
            body: None,
            produces: if self.is_custom() { OBJECT } else { TYPED },
            consumes: if self.is_custom() { OBJECT } else { ANYTHING },
            responses: Vec::new(),
        }
    }

    fn place<'b>(&self, part: &'b str, definition: &'b str, named: bool) -> Place<'b> {
        let mut path_parameters = Vec::new();
        path_parameters.extend(named.then(|| parameter::name(&self.def.kind)));
        path_parameters.extend(self.def.namespaced.then(parameter::namespace));
        Place { part, about: self.def.group_version_kind(&self.version.name), definition, path_parameters }
    }

    fn is_custom(&self) -> bool {
        self.def.custom.is_some()
    }

    fn scope(&self) -> &'static str {
        if self.def.namespaced { "Namespaced" } else { "" }
    }

    fn short_group(&self) -> &str {
        let group = &*self.def.group;
        if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) }
    }

    /// The id of an operation, for example `list` + `CoreV1` + `Namespaced` + `ConfigMap`.
    fn id(&self, verb: &str, what: &str, scope: &str, kind: &str) -> String {
        let group_version = identifier(self.short_group(), true) + &identifier(&self.version.name, true);
        format!("{verb}{group_version}{what}{scope}{kind}")
    }

    fn root(&self) -> String {
        let prefix = if self.def.group.is_empty() { "/api" } else { "/apis" };
        format!("{prefix}/{}", self.def.api_version(&self.version.name))
    }

    fn path(&self, in_namespace: bool) -> String {
        let namespace = if in_namespace && self.def.namespaced { "/namespaces/{namespace}" } else { "" };
        format!("{}{namespace}/{}", self.root(), self.def.plural)
    }
}

/// The part of a description that names the subresource, such as ` status of`.
fn of(part: &str) -> String {
    if part.is_empty() { String::new() } else { format!(" {part} of") }
}

/// The indefinite article with spaces around it: ` a `, ` an `, or one space before a plural.
fn article(noun: &str) -> &'static str {
    match noun.chars().next() {
        _ if noun.ends_with('s') && !noun.ends_with("ss") => " ",
        Some(first) if "aeiouAEIOU".contains(first) => " an ",
        _ => " a ",
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Reduces a name to letters, digits and underscores, and capitalizes the letter after each removed character: `helperEExampleCom`.
fn identifier(name: &str, mut capital: bool) -> String {
    let mut made = String::with_capacity(name.len());
    for (at, letter) in name.char_indices() {
        if letter.is_alphabetic() || letter == '_' || (at > 0 && letter.is_numeric()) {
            if capital {
                made.extend(letter.to_uppercase());
            } else {
                made.push(letter);
            }
            capital = false;
        } else {
            capital = true;
        }
    }
    made
}
