//! The printer columns of the built-in kinds: column definitions, and the cells of an object.

mod cells;

use rdd_meta::time::Timestamp;
use serde_json::Value;

use crate::types;

/// A column, as in `TableColumnDefinition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The header.
    pub name: &'static str,
    /// `string`, `integer` or `date`.
    pub kind: &'static str,
    /// `name` for the name column, otherwise empty.
    pub format: &'static str,
    /// The description.
    pub description: &'static str,
    /// The priority: 0 for columns that are always shown, 1 for those of `-o wide`.
    pub priority: i32,
}

/// The printer of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    columns: fn() -> Vec<Column>,
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

impl Printer {
    /// The column definitions, including the name.
    pub fn columns(&self) -> Vec<Column> {
        (self.columns)()
    }

    /// The cells of an object, one per column.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        (self.cells)(object, now)
    }
}

/// The printer of a kind; a kind without its own columns has name and age. Pass an event of `events.k8s.io` in its core form.
pub fn printer(group: &str, kind: &str) -> Printer {
    match (group, kind) {
        ("", "ConfigMap") => Printer { columns: config_map, cells: cells::config_map },
        ("", "Event") | ("events.k8s.io", "Event") => Printer { columns: event, cells: cells::event },
        ("", "Namespace") => Printer { columns: namespace, cells: cells::namespace },
        ("", "ResourceQuota") => Printer { columns: resource_quota, cells: cells::resource_quota },
        ("", "Secret") => Printer { columns: secret, cells: cells::secret },
        ("", "Service") => Printer { columns: service, cells: cells::service },
        ("", "ServiceAccount") => Printer { columns: || vec![name(), age()], cells: cells::service_account },
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            Printer { columns: webhooks, cells: cells::webhooks }
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            Printer { columns: admission_policy, cells: cells::admission_policy }
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            Printer { columns: policy_binding, cells: cells::policy_binding }
        }
        ("apiregistration.k8s.io", "APIService") => Printer { columns: api_service, cells: cells::api_service },
        ("coordination.k8s.io", "Lease") => Printer { columns: lease, cells: cells::lease },
        ("rbac.authorization.k8s.io", "RoleBinding") => {
            Printer { columns: || role_binding(ROLE_BINDING), cells: cells::role_binding }
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            Printer { columns: || role_binding(CLUSTER_ROLE_BINDING), cells: cells::role_binding }
        }
        _ => Printer { columns: || vec![name(), created()], cells: cells::generic },
    }
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const EVENT: &str = "io.k8s.api.core.v1.Event";
const SECRET: &str = "io.k8s.api.core.v1.Secret";
const SERVICE: &str = "io.k8s.api.core.v1.ServiceSpec";

fn column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

fn count(name: &'static str, description: &'static str) -> Column {
    Column { kind: "integer", ..column(name, description) }
}

fn wide(name: &'static str, description: &'static str) -> Column {
    Column { priority: 1, ..column(name, description) }
}

fn name() -> Column {
    Column { format: "name", ..column("Name", types::words(META, "name")) }
}

fn age() -> Column {
    column("Age", types::words(META, "creationTimestamp"))
}

fn created() -> Column {
    Column { kind: "date", ..column("Created At", types::words(META, "creationTimestamp")) }
}

fn config_map() -> Vec<Column> {
    vec![name(), column("Data", types::words("io.k8s.api.core.v1.ConfigMap", "data")), age()]
}

fn event() -> Vec<Column> {
    vec![
        column("Last Seen", types::words(EVENT, "lastTimestamp")),
        column("Type", types::words(EVENT, "type")),
        column("Reason", types::words(EVENT, "reason")),
        column("Object", types::words(EVENT, "involvedObject")),
        wide("Subobject", types::words("io.k8s.api.core.v1.ObjectReference", "fieldPath")),
        wide("Source", types::words(EVENT, "source")),
        column("Message", types::words(EVENT, "message")),
        wide("First Seen", types::words(EVENT, "firstTimestamp")),
        wide("Count", types::words(EVENT, "count")),
        Column { priority: 1, ..name() },
    ]
}

fn namespace() -> Vec<Column> {
    vec![name(), column("Status", "The status of the namespace"), age()]
}

fn resource_quota() -> Vec<Column> {
    let request = "Request represents a minimum amount of cpu/memory that a container may consume.";
    let limit = "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.";
    vec![name(), column("Request", request), column("Limit", limit), age()]
}

fn secret() -> Vec<Column> {
    vec![name(), column("Type", types::words(SECRET, "type")), column("Data", types::words(SECRET, "data")), age()]
}

fn service() -> Vec<Column> {
    vec![
        name(),
        column("Type", types::words(SERVICE, "type")),
        column("Cluster-IP", types::words(SERVICE, "clusterIP")),
        column("External-IP", types::words(SERVICE, "externalIPs")),
        column("Port(s)", types::words(SERVICE, "ports")),
        age(),
        wide("Selector", types::words(SERVICE, "selector")),
    ]
}

fn webhooks() -> Vec<Column> {
    let webhooks = "Webhooks indicates the number of webhooks registered in this configuration";
    vec![name(), count("Webhooks", webhooks), age()]
}

fn admission_policy() -> Vec<Column> {
    let validations = "Validations indicates the number of validation rules defined in this configuration";
    let kind = "ParamKind specifies the kind of resources used to parameterize this policy";
    vec![name(), count("Validations", validations), column("ParamKind", kind), age()]
}

fn policy_binding() -> Vec<Column> {
    let policy = "PolicyName indicates the policy definition which the policy binding binded to";
    let parameter = "ParamRef indicates the param resource which sets the configuration param";
    vec![name(), column("PolicyName", policy), column("ParamRef", parameter), age()]
}

fn api_service() -> Vec<Column> {
    let service = "The reference to the service that hosts this API endpoint.";
    vec![name(), column("Service", service), column("Available", "Whether this service is available."), age()]
}

fn lease() -> Vec<Column> {
    let holder = types::words("io.k8s.api.coordination.v1.LeaseSpec", "holderIdentity");
    vec![name(), column("Holder", holder), age()]
}

/// The descriptions of a binding's columns after the name and role.
type BindingWords = [&'static str; 4];

const ROLE_BINDING: BindingWords = [
    "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be \
     resolved, the Authorizer must return an error.",
    "Users in the roleBinding",
    "Groups in the roleBinding",
    "ServiceAccounts in the roleBinding",
];
const CLUSTER_ROLE_BINDING: BindingWords = [
    "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must \
     return an error.",
    "Users in the clusterRoleBinding",
    "Groups in the clusterRoleBinding",
    "ServiceAccounts in the clusterRoleBinding",
];

fn role_binding([role, users, groups, accounts]: BindingWords) -> Vec<Column> {
    vec![
        name(),
        column("Role", role),
        age(),
        wide("Users", users),
        wide("Groups", groups),
        wide("ServiceAccounts", accounts),
    ]
}

#[cfg(test)]
mod tests;
