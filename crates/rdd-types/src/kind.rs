//! What a kind is: its facts as data, the struct that `kube` takes, and the definition that is installed.

use std::collections::BTreeMap;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition,
        CustomResourceDefinitionNames, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
        CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation, SelectableField,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Map, Value, json};

use crate::VERSION;

/// Which tool made a definition: what the original's carry, and what tools that compare them look for.
const GENERATOR: (&str, &str) = ("controller-gen.kubebuilder.io/version", "v0.19.0");

/// Whether objects of a kind live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// They do not.
    Cluster,
    /// They do.
    Namespaced,
}

/// A column of `kubectl get` besides the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// Empty if none.
    pub format: &'static str,
    /// Where its value is.
    pub path: &'static str,
}

/// A kind of ours that has a definition.
pub trait Kind {
    /// What does not follow from its fields.
    const DEFINITION: Definition;
}

/// The facts of a kind that do not follow from its fields.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// The name of the definition itself: the plural, a dot and the group.
    pub crd_name: &'static str,
    /// The API group.
    pub group: &'static str,
    /// In CamelCase.
    pub kind: &'static str,
    /// As it stands in paths.
    pub plural: &'static str,
    /// In lower case.
    pub singular: &'static str,
    /// In namespaces or not.
    pub scope: Scope,
    /// The controller that brings the definition along.
    pub controller: &'static str,
    /// Whether that is written on the definition: so it is for kinds that are not their controller's main one.
    pub names_controller: bool,
    /// For hasty typing.
    pub short_names: &'static [&'static str],
    /// Such as `all`.
    pub categories: &'static [&'static str],
    /// What `kubectl get` shows.
    pub columns: &'static [Column],
    /// What field selectors may ask for besides name and namespace.
    pub selectable: &'static [&'static str],
    /// The one name that an object may have, where there is only one object.
    pub singleton: Option<&'static str>,
    /// Whether an object must have a `spec`.
    pub requires_spec: bool,
    /// Makes the definition.
    pub crd: fn() -> CustomResourceDefinition,
}

impl Definition {
    /// What most kinds say about what they do not have.
    pub(crate) const PLAIN: Self = Self {
        crd_name: "",
        group: "",
        kind: "",
        plural: "",
        singular: "",
        scope: Scope::Namespaced,
        controller: "",
        names_controller: false,
        short_names: &[],
        categories: &[],
        columns: &[],
        selectable: &[],
        singleton: None,
        requires_spec: false,
        crd: CustomResourceDefinition::default,
    };
}

/// The schemas of a kind's two halves.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    description: String,
    spec: Option<Value>,
    status: Option<Value>,
}

impl Halves {
    pub(crate) fn new(description: &str) -> Self {
        Self { description: crate::schema::prose(description), ..Self::default() }
    }

    pub(crate) fn spec(self, schema: Value) -> Self {
        Self { spec: Some(schema), ..self }
    }

    pub(crate) fn status(self, schema: Value) -> Self {
        Self { status: Some(schema), ..self }
    }
}

/// The definition of a kind, with all that a server would fill in: what is installed is then what is read back.
pub(crate) fn definition(facts: &Definition, halves: Halves) -> CustomResourceDefinition {
    let owned = |words: &[&str]| (!words.is_empty()).then(|| words.iter().map(|&word| word.to_owned()).collect());
    let has_status = halves.status.is_some();
    let version = CustomResourceDefinitionVersion {
        additional_printer_columns: (!facts.columns.is_empty()).then(|| facts.columns.iter().map(column).collect()),
        name: VERSION.to_owned(),
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: Some(
                serde_json::from_value(root(facts, halves)).expect("a schema made of our types is a schema"),
            ),
        }),
        selectable_fields: (!facts.selectable.is_empty()).then(|| facts.selectable.iter().map(selectable).collect()),
        served: true,
        storage: true,
        subresources: has_status.then(|| CustomResourceSubresources {
            status: Some(CustomResourceSubresourceStatus(json!({}))),
            ..CustomResourceSubresources::default()
        }),
        ..CustomResourceDefinitionVersion::default()
    };
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(facts.crd_name.to_owned()),
            annotations: Some(annotations(facts)),
            ..ObjectMeta::default()
        },
        spec: CustomResourceDefinitionSpec {
            conversion: Some(CustomResourceConversion { strategy: "None".to_owned(), webhook: None }),
            group: facts.group.to_owned(),
            names: CustomResourceDefinitionNames {
                categories: owned(facts.categories),
                kind: facts.kind.to_owned(),
                list_kind: Some(format!("{}List", facts.kind)),
                plural: facts.plural.to_owned(),
                short_names: owned(facts.short_names),
                singular: Some(facts.singular.to_owned()),
            },
            scope: format!("{:?}", facts.scope),
            versions: vec![version],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    }
}

fn annotations(facts: &Definition) -> BTreeMap<String, String> {
    let (key, value) = GENERATOR;
    let mut annotations = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    if facts.names_controller {
        annotations.insert(crate::names::annotation::CONTROLLER.to_owned(), facts.controller.to_owned());
    }
    annotations
}

fn column(column: &Column) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: column.name.to_owned(),
        type_: column.kind.to_owned(),
        format: (!column.format.is_empty()).then(|| column.format.to_owned()),
        json_path: column.path.to_owned(),
        ..CustomResourceColumnDefinition::default()
    }
}

fn selectable(path: &&str) -> SelectableField {
    SelectableField { json_path: (*path).to_owned() }
}

/// The schema of a whole object.
fn root(facts: &Definition, halves: Halves) -> Value {
    let mut properties = Map::new();
    properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
    properties.insert("kind".to_owned(), json!({"type": "string"}));
    properties.insert("metadata".to_owned(), json!({"type": "object"}));
    properties.extend(halves.spec.map(|spec| ("spec".to_owned(), spec)));
    properties.extend(halves.status.map(|status| ("status".to_owned(), status)));
    let mut root = json!({"type": "object", "description": halves.description, "properties": properties});
    if facts.requires_spec {
        root["required"] = json!(["spec"]);
    }
    if let Some(name) = facts.singleton {
        let message = format!("{} resource must be named '{name}'", facts.kind);
        root["x-kubernetes-validations"] =
            json!([{"rule": format!("self.metadata.name == '{name}'"), "message": message}]);
    }
    root
}

/// Declares a kind: its struct, how it is read and written, what it is to `kube`, and its definition.
///
/// The halves that it has are named after `spec:` and `status:`; a spec `or_nothing` is not written while it says nothing.
macro_rules! kind {
    (
        $(#[doc = $doc:literal])+
        $name:ident in $scope:ident
        $(, spec: $spec:ty $(, $or_nothing:ident)?)?
        $(; status: $status:ty)?
        => $facts:expr
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// Who it is.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $(
                /// What is wanted.
                pub spec: $spec,
            )?
            $(
                /// What was observed.
                pub status: Option<$status>,
            )?
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("apiVersion", &<Self as kube_core::Resource>::api_version(&()))?;
                map.serialize_entry("kind", stringify!($name))?;
                map.serialize_entry("metadata", &self.metadata)?;
                $(
                    let spec: &$spec = &self.spec;
                    let silent = false $(|| { stringify!($or_nothing); *spec == <$spec>::default() })?;
                    if !silent {
                        map.serialize_entry("spec", spec)?;
                    }
                )?
                $(
                    let status: &Option<$status> = &self.status;
                    if let Some(status) = status {
                        map.serialize_entry("status", status)?;
                    }
                )?
                map.end()
            }
        }

        impl $name {
            /// A new object of this name that wants this, without a status.
            pub fn new(name: &str $(, spec: $spec)?) -> Self {
                let mut object = Self::default();
                object.metadata.name = Some(name.to_owned());
                $(
                    let spec: $spec = spec;
                    object.spec = spec;
                )?
                object
            }
        }

        impl kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = crate::kind::scope!($scope);

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as crate::Kind>::DEFINITION.group.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                crate::VERSION.into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as crate::Kind>::DEFINITION.plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        $(
            impl kube_core::object::HasSpec for $name {
                type Spec = $spec;

                fn spec(&self) -> &$spec {
                    &self.spec
                }

                fn spec_mut(&mut self) -> &mut $spec {
                    &mut self.spec
                }
            }
        )?

        $(
            impl kube_core::object::HasStatus for $name {
                type Status = $status;

                fn status(&self) -> Option<&$status> {
                    self.status.as_ref()
                }

                fn status_mut(&mut self) -> &mut Option<$status> {
                    &mut self.status
                }
            }
        )?

        impl crate::Kind for $name {
            const DEFINITION: crate::Definition = crate::Definition {
                kind: stringify!($name),
                scope: crate::Scope::$scope,
                crd: <$name as kube_core::CustomResourceExt>::crd,
                ..$facts
            };
        }

        impl kube_core::CustomResourceExt for $name {
            fn crd() -> k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition {
                let halves = crate::kind::Halves::new(concat!($($doc, "\n"),+));
                $(let halves = halves.spec(crate::schema::of::<$spec>());)?
                $(let halves = halves.status(crate::schema::of::<$status>());)?
                crate::kind::definition(&<Self as crate::Kind>::DEFINITION, halves)
            }

            fn crd_name() -> &'static str {
                <Self as crate::Kind>::DEFINITION.crd_name
            }

            fn api_resource() -> kube_core::ApiResource {
                kube_core::ApiResource::erase::<Self>(&())
            }

            fn shortnames() -> &'static [&'static str] {
                <Self as crate::Kind>::DEFINITION.short_names
            }
        }
    };
}

/// What `kube` calls a scope.
macro_rules! scope {
    (Cluster) => {
        kube_core::ClusterResourceScope
    };
    (Namespaced) => {
        kube_core::NamespaceResourceScope
    };
}

pub(crate) use kind;
pub(crate) use scope;
