//! The resources that discovery lists, each with the schema of its kind.

use rdd_testkit::api::Server;
use serde_json::Value;

/// A resource in one version.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// The API path of the version: `/api/v1` or `/apis/<group>/<version>`.
    pub(crate) root: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    pub(crate) verbs: Vec<String>,
    /// Its subresources, such as `status` and `scale`.
    pub(crate) subresources: Vec<String>,
    /// The name of its schema in [`Catalog::definitions`].
    pub(crate) definition: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) resources: Vec<Resource>,
    /// The field `definitions` of `/openapi/v2`.
    pub(crate) definitions: Value,
}

impl Catalog {
    /// Discovers what a server serves.
    ///
    /// # Panics
    ///
    /// If discovery or OpenAPI fail: without them there is nothing to fuzz.
    pub(crate) fn discover(server: &dyn Server) -> Self {
        let mut document = server.get("/openapi/v2").expect(200);
        let definitions = document["definitions"].take();
        let mut catalog = Self { resources: Vec::new(), definitions };
        catalog.add_version(server, "/api/v1", "v1");
        let groups = server.get("/apis").expect(200);
        for group in groups["groups"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                let name = version["groupVersion"].as_str().unwrap_or_default();
                catalog.add_version(server, &format!("/apis/{name}"), name);
            }
        }
        assert!(catalog.resources.len() > 20, "discovery lists {} resources", catalog.resources.len());
        catalog
    }

    fn add_version(&mut self, server: &dyn Server, root: &str, api_version: &str) {
        let list = server.get(root).expect(200);
        for entry in list["resources"].as_array().into_iter().flatten() {
            let name = entry["name"].as_str().unwrap_or_default();
            if let Some((plural, subresource)) = name.split_once('/') {
                let owner = self.resources.iter_mut().find(|one| one.root == root && one.plural == plural);
                owner.into_iter().for_each(|one| one.subresources.push(subresource.to_owned()));
                continue;
            }
            let kind = entry["kind"].as_str().unwrap_or_default().to_owned();
            let verbs = entry["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str);
            self.resources.push(Resource {
                root: root.to_owned(),
                api_version: api_version.to_owned(),
                definition: find_definition(&self.definitions, api_version, &kind),
                kind,
                plural: name.to_owned(),
                is_namespaced: entry["namespaced"] == true,
                verbs: verbs.map(str::to_owned).collect(),
                subresources: Vec::new(),
            });
        }
    }
}

/// The name of the schema that is marked with this kind.
fn find_definition(definitions: &Value, api_version: &str, kind: &str) -> Option<String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_it = |definition: &Value| {
        let kinds = definition["x-kubernetes-group-version-kind"].as_array();
        kinds.into_iter().flatten().any(|it| it["group"] == group && it["version"] == version && it["kind"] == kind)
    };
    definitions.as_object()?.iter().find(|(_, definition)| is_it(definition)).map(|(name, _)| name.clone())
}

impl Resource {
    /// The path of the collection, or of an object.
    pub(crate) fn path(&self, namespace: &str, name: Option<&str>) -> String {
        let Self { root, plural, .. } = self;
        let below = if self.is_namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{root}{below}/{plural}{name}")
    }
}
