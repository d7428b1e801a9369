//! The grammars of the kinds, with one test each.

use serde_json::{Value, json};

use crate::compare::run;

fn one(choices: Value) -> Value {
    json!({ "$one": choices })
}

fn list(of: Value) -> Value {
    json!({ "$list": of })
}

fn map(keys: Value, of: Value) -> Value {
    json!({"$map": {"keys": keys, "of": of}})
}

/// Metadata that is usually valid.
fn metadata(namespaced: bool) -> Value {
    let mut metadata = json!({
        "name": one(json!(["a", "a", "a-b", "a.b", "system:x", "A_", "a/b", ".."])),
        "generateName?": one(json!(["a-", "A"])),
        "resourceVersion": one(json!(["1", "1", "7"])),
        "uid?": one(json!(["u", "u", "v"])),
        "generation?": one(json!([1, 3, -1])),
        "labels?": map(json!(["a", "b/c", "-x", "kubernetes.io/metadata.name"]), one(json!(["v", "", "é", "a b"]))),
        "annotations?": map(
            json!(["a", "Kubernetes.io/service-account.name", "kubernetes.io/service-account.name", "a/b/c",
                "kubernetes.io/enforce-mountable-secrets"]),
            one(json!(["v", "", "x y"])),
        ),
        "finalizers?": list(one(json!(["a.b/c", "a.b/c", "kubernetes", "orphan", "foregroundDeletion", "x", "a/b/c"]))),
        "deletionTimestamp?": one(json!(["2026-01-01T00:00:00Z"])),
    });
    if namespaced {
        metadata["namespace"] = one(json!(["default", "default", "default", "n", "kube-system", "N"]));
    } else {
        metadata["namespace?"] = one(json!(["", "", "", "", "", "n"]));
    }
    // Mostly plain metadata, so that validation reaches the other fields.
    let mut plain = json!({"name": "a", "resourceVersion": "1"});
    if namespaced {
        plain["namespace"] = json!("default");
    }
    one(json!([metadata, plain, plain, plain]))
}

fn selector() -> Value {
    json!({
        "matchLabels?": map(json!(["a", "b/c", "-x"]), one(json!(["v", "", "a b"]))),
        "matchExpressions?": list(json!({
            "key": one(json!(["a", "a", "b/c", "-x", ""])),
            "operator": one(json!(["In", "NotIn", "Exists", "DoesNotExist", "<", ""])),
            "values?": list(one(json!(["v", "", "a b"]))),
        })),
    })
}

#[test]
fn configmaps_are_as_upstream_has_them() {
    let keys = json!(["a", "b", "a.b", "..", ".", "..a", "é", "", "x".repeat(254)]);
    let grammar = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(true),
        "immutable?": one(json!([true, true, false])),
        "data?": map(keys.clone(), one(json!(["", "x", "é", "a", "b", "c", "d", "y".repeat(1_048_577)]))),
        "binaryData?": map(keys, one(json!(["", "eA==", "eHk="]))),
    });
    run("", &grammar, &[""], 1);
}

#[test]
fn secrets_are_as_upstream_has_them() {
    let base64 = |text: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text);
    let documents =
        ["{}", "{", "[]", "null", "{\"auths\":{}}", "x", "{\"a\" 1}", "", "-----BEGIN X-----\nYQ==\n-----END X-----\n"];
    let values: Vec<String> = documents.iter().map(|text| base64(text)).collect();
    let keys = json!([
        "a",
        ".dockercfg",
        ".dockerconfigjson",
        "username",
        "password",
        "ssh-privatekey",
        "tls.crt",
        "tls.key",
        "é",
        ".."
    ]);
    let typed = |kind: &str, keys: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata(true), "type?": one(json!([kind, kind, "custom"])),
            "immutable?": one(json!([true, false])),
            "data": map(keys.clone(), one(json!(values))),
            "stringData?": map(keys, one(json!(documents))),
        })
    };
    let choices = json!([
        typed("Opaque", keys),
        typed("kubernetes.io/dockercfg", json!([".dockercfg", "a"])),
        typed("kubernetes.io/dockerconfigjson", json!([".dockerconfigjson", "a"])),
        typed("kubernetes.io/basic-auth", json!(["username", "password", "a"])),
        typed("kubernetes.io/ssh-auth", json!(["ssh-privatekey", "a"])),
        typed("kubernetes.io/tls", json!(["tls.crt", "tls.key"])),
        typed("kubernetes.io/service-account-token", json!(["a"])),
    ]);
    let grammar = json!({"kind": "Secret", "$one": choices});
    run("", &grammar, &[""], 2);
}

#[test]
fn namespaces_are_as_upstream_has_them() {
    let grammar = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": metadata(false),
        "spec?": {"finalizers?": list(one(json!(["kubernetes", "a.b/c", "x", "a/b/c", ""])))},
        "status?": {
            "phase?": one(json!(["Active", "Terminating", "X<"])),
            "conditions?": list(json!({"type": "T", "status": "True"})),
        },
    });
    run("", &grammar, &["", "status", "finalize"], 3);
}

#[test]
fn service_accounts_are_as_upstream_has_them() {
    let grammar = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(true),
        "secrets?": list(json!({"name?": "a", "namespace?": "b", "uid?": "c"})),
        "imagePullSecrets?": list(json!({"name?": "a"})),
    });
    run("", &grammar, &[""], 4);
}

#[test]
fn quotas_are_as_upstream_has_them() {
    let amounts = map(
        json!([
            "cpu",
            "memory",
            "pods",
            "storage",
            "requests.cpu",
            "limits.cpu",
            "requests.storage",
            "count/x.y",
            "hugepages-2Mi",
            "requests.hugepages-1",
            "a.b/c",
            "kubernetes.io/x",
            "requests.a.b/c",
            "foo",
            "-x",
            "limits.memory",
            "persistentvolumeclaims",
            "requests.ephemeral-storage",
            "limits.ephemeral-storage",
            ""
        ]),
        one(json!([
            "1",
            "1",
            "2",
            "500m",
            "0.5",
            "1.0005",
            "-1",
            "-1.5",
            "1Ki",
            "1024Ki",
            "1500Mi",
            "0.1Ki",
            "1e3",
            "1E3",
            "12e-1",
            "1000000",
            "1001",
            "0",
            "+5",
            ".5",
            "5.",
            "100n",
            "1n",
            "9223372036854775807",
            "92233720368547758070",
            "1.5Gi",
            "3E",
            "7Ei",
            "0.000000000001",
            "1e20",
            "123456789.123456789",
            "00012",
            3,
            1023,
            "1023Ki",
            "-1Ki",
            "0.5Mi"
        ])),
    );
    let scope = one(json!([
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "X<",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass"
    ]));
    let grammar = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata(true),
        "spec": {
            "hard": amounts,
            "scopes?": list(scope.clone()),
            "scopeSelector?": {"matchExpressions": list(json!({
                "scopeName": scope, "operator": one(json!(["In", "NotIn", "Exists", "Exists", "DoesNotExist", "", "X"])),
                "values?": list(one(json!(["a", "<"]))),
            }))},
        },
        "status?": {"hard?": amounts, "used?": amounts},
    });
    run("", &grammar, &["", "status"], 5);
}

fn event_fields() -> [(&'static str, Value); 9] {
    let reference = json!({"kind?": "K", "namespace": one(json!(["default", "default", "n", ""])), "name?": one(json!(["a", "<"])),
        "uid?": "u", "apiVersion?": "v1", "resourceVersion?": "7", "fieldPath?": "f"});
    [
        ("reference", reference),
        ("text", one(json!(["x", "x", "", "y".repeat(129), "<\"", "z".repeat(1025)]))),
        ("time", one(json!(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", null, "2026-01-02T00:00:00Z"]))),
        (
            "micro",
            one(json!([
                "2026-01-01T00:00:00.000001Z",
                "2026-01-01T00:00:00.000001Z",
                null,
                "2026-01-02T00:00:00.000000Z"
            ])),
        ),
        ("controller", one(json!(["a.b/c", "a.b/c", "c", "", "-", "a/b/c"]))),
        ("type", one(json!(["Normal", "Warning", "", "X"]))),
        ("count", one(json!([0, 0, 1, 2]))),
        ("source", json!({"component?": "c", "host?": one(json!(["h", "<"]))})),
        (
            "series",
            json!({"count": one(json!([2, 2, 1, 3])), "lastObservedTime": one(json!(["2026-01-01T00:00:00.000001Z",
            "2026-01-01T00:00:00.000001Z", null]))}),
        ),
    ]
}

#[test]
fn core_events_are_as_upstream_has_them() {
    let [reference, text, time, micro, controller, kind, count, source, series] = event_fields().map(|(_, of)| of);
    let grammar = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": metadata(true), "involvedObject": reference, "related?": reference,
        "reason": text, "message?": text, "source?": source, "firstTimestamp?": time, "lastTimestamp?": time, "count?": count,
        "type": kind, "eventTime?": micro, "series?": series, "action": text, "reportingComponent": controller,
        "reportingInstance": text,
    });
    run("", &grammar, &[""], 6);
}

#[test]
fn events_of_the_events_group_are_as_upstream_has_them() {
    let [reference, text, time, micro, controller, kind, count, source, series] = event_fields().map(|(_, of)| of);
    let rich = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata(true), "regarding": reference,
        "related?": reference, "reason": text, "note?": text, "deprecatedSource?": source, "deprecatedFirstTimestamp?": time,
        "deprecatedLastTimestamp?": time, "deprecatedCount?": count, "type": kind, "eventTime": micro, "series?": series,
        "action": text, "reportingController": controller, "reportingInstance": text,
    });
    let plain = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a", "namespace": "default", "resourceVersion": "1"},
        "regarding": {"namespace": "default"}, "reason": "r", "note": "n", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000001Z",
        "series?": series, "action": "a", "reportingController": "a.b/c", "reportingInstance": "i",
    });
    let grammar = json!({"kind": "Event", "$one": [rich, plain]});
    run("events.k8s.io", &grammar, &[""], 7);
}

#[test]
fn leases_are_as_upstream_has_them() {
    let grammar = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata(true),
        "spec?": {
            "holderIdentity?": "h", "leaseDurationSeconds?": one(json!([1, 15, 0, -1])), "leaseTransitions?": one(json!([0, 1, -1])),
            "strategy?": one(json!(["OldestEmulationVersion", "a.b/c", "X<", "", "a/b/c"])), "preferredHolder?": one(json!(["p", ""])),
        },
    });
    run("coordination.k8s.io", &grammar, &[""], 8);
}

fn rules() -> Value {
    list(json!({
        "verbs": list(one(json!(["get", "*"]))),
        "apiGroups": list(one(json!(["", "apps"]))),
        "resources": list(one(json!(["pods", "*"]))),
        "resourceNames?": list(json!("a")),
        "nonResourceURLs?": list(one(json!(["/a", "/<"]))),
    }))
}

#[test]
fn roles_are_as_upstream_has_them() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata(true), "rules": rules()});
    run("rbac.authorization.k8s.io", &role, &[""], 9);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata(false), "rules": rules(),
        "aggregationRule?": {"clusterRoleSelectors": list(selector())},
    });
    run("rbac.authorization.k8s.io", &role, &[""], 10);
}

#[test]
fn bindings_are_as_upstream_has_them() {
    let group = one(json!(["rbac.authorization.k8s.io", "rbac.authorization.k8s.io", "", "x"]));
    for (kind, namespaced, seed) in [("RoleBinding", true, 11), ("ClusterRoleBinding", false, 12)] {
        let grammar = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata(namespaced),
            "roleRef": {"apiGroup?": group, "kind": one(json!(["Role", "ClusterRole", "ClusterRole", "<"])),
                "name": one(json!(["a", "a", "a:b", "a/b", "."]))},
            "subjects?": list(json!({
                "kind": one(json!(["User", "Group", "ServiceAccount", "ServiceAccount", "X"])), "apiGroup?": group,
                "name": one(json!(["a", "a:b"])), "namespace?": "n",
            })),
        });
        run("rbac.authorization.k8s.io", &grammar, &[""], seed);
    }
}

fn admission_rule() -> Value {
    json!({
        "operations": list(one(json!(["CREATE", "UPDATE", "*", "X<"]))),
        "apiGroups": list(one(json!(["", "apps", "*"]))),
        "apiVersions": list(one(json!(["v1", "v1", "*", ""]))),
        "resources": list(one(json!(["pods", "pods/*", "pods/status", "*", "*/*", "*/scale", "deployments/scale", ""]))),
        "scope?": one(json!(["*", "Cluster", "Namespaced", "X"])),
    })
}

fn conditions() -> Value {
    list(json!({
        "name": one(json!(["a", "b", "a.b/c", "", "-"])),
        "expression": one(json!(["true", " true ", "object.metadata.name == 'x'", " ", ""])),
    }))
}

#[test]
fn webhook_configurations_are_as_upstream_has_them() {
    let url = one(json!([
        "https://a.b",
        "https://a.b/c",
        "http://a.b",
        "https://",
        "https://u:p%20w@a.b",
        "https://a.b?x=1",
        "https://a.b#f%20g",
        "a.b",
        "%",
        "https://a b",
        "https://a.b:x",
        "https://a:1:2",
        "https://[::1]:80/x",
        "https://[::1",
        ":a",
        "https://a.b/%zz",
        "https://a.b?",
        "x:y",
        "https://a.b#%",
        "HTTPS://A",
        "",
        "https://é",
        "https://a%41",
        "1:2",
        "*",
        "https://u@x@a.b",
        "https://a[",
        "https://a\u{7f}",
        "//h/p",
        "///p"
    ]));
    let service = json!({
        "name": one(json!(["s", "s", "s", ""])), "namespace": one(json!(["n", "n", "n", ""])),
        "port?": one(json!([443, 8443, 0, 65536])),
        "path?": one(json!(["/a", "/a/b", "/a/", "/", "", "//", "a", "/a//b", "/A", "/a/.", "///"])),
    });
    let hook = json!({
        "name": one(json!(["a.b.c", "a.b.c", "d.e.f", "a.b", "A", ""])),
        "clientConfig": one(json!([{"url": url}, {"service": service}, {"service": service}, {"url": "https://a", "service": service}, {}])),
        "rules?": list(admission_rule()),
        "failurePolicy?": one(json!(["Fail", "Ignore", "X<"])),
        "matchPolicy?": one(json!(["Exact", "Equivalent", "X"])),
        "namespaceSelector?": selector(),
        "objectSelector?": selector(),
        "sideEffects": one(json!(["None", "None", "NoneOnDryRun", "Some", "Unknown", "X"])),
        "timeoutSeconds?": one(json!([1, 30, 0, 31])),
        "admissionReviewVersions": list(one(json!(["v1", "v1", "v1beta1", "v2", "", "V"]))),
        "matchConditions?": conditions(),
    });
    let plain = json!({
        "name": "a.b.c", "clientConfig": {"url": "https://a.b"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules?": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
        "matchConditions?": [{"name": "c", "expression": "true"}],
    });
    for (kind, seed) in [("ValidatingWebhookConfiguration", 13), ("MutatingWebhookConfiguration", 14)] {
        let mut hook = hook.clone();
        if kind.starts_with('M') {
            hook["reinvocationPolicy?"] = one(json!(["Never", "IfNeeded", "X"]));
        }
        let grammar = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata(false),
            "webhooks": list(one(json!([hook, plain]))),
        });
        run("admissionregistration.k8s.io", &grammar, &[""], seed);
    }
}

fn match_resources() -> Value {
    let mut rule = admission_rule();
    rule["resourceNames?"] = list(one(json!(["a", "b", "a/b", "."])));
    let plain = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
    json!({
        "matchPolicy?": one(json!(["Exact", "Equivalent", "X"])), "namespaceSelector?": selector(), "objectSelector?": selector(),
        "resourceRules": list(one(json!([rule, plain, plain]))), "excludeResourceRules?": list(rule),
    })
}

#[test]
fn admission_policies_are_as_upstream_has_them() {
    let expression = one(json!(["true", "true", "object.metadata.name == 'x'", " ", ""]));
    let text = one(json!(["'a'", "'a'", " ", ""]));
    let grammar = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": metadata(false),
        "spec": {
            "failurePolicy?": one(json!(["Fail", "Ignore", "X<"])),
            "paramKind?": {"apiVersion": one(json!(["v1", "a.b/v1", "/", "", "a/b/c", "A/v1", "a/", "a/1"])),
                "kind": one(json!(["ConfigMap", "", "a_b"]))},
            "matchConstraints": one(json!([match_resources(),
                {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}])),
            "matchConditions?": conditions(),
            "variables?": list(json!({"name": one(json!(["a", "b", "in", "1a", "", " ", "a-b"])), "expression": expression})),
            "validations?": list(json!({
                "expression": expression, "message?": one(json!(["m", " ", "a\nb", "a\n", ""])), "messageExpression?": text,
                "reason?": one(json!(["Forbidden", "Invalid", "X<"])),
            })),
            "auditAnnotations?": list(json!({"key": one(json!(["k", "l", "", "-"])), "valueExpression": text})),
        },
        "status?": {
            "observedGeneration?": 1,
            "typeChecking?": {"expressionWarnings": list(json!({
                "fieldRef": one(json!(["spec.validations[0].expression", " ", "", "spec[", "a{"])), "warning": one(json!(["w", ""])),
            }))},
            "conditions?": list(json!({
                "type": one(json!(["A", "B", "-"])), "status": one(json!(["True", "False", "Unknown", "X"])),
                "observedGeneration?": one(json!([1, -1])), "lastTransitionTime": one(json!(["2026-01-01T00:00:00Z", null])),
                "reason": one(json!(["R", "R:a,b", "1", "R,", ""])), "message": "",
            })),
        },
    });
    run("admissionregistration.k8s.io", &grammar, &["", "status"], 15);
}

#[test]
fn bindings_of_policies_are_as_upstream_has_them() {
    let grammar = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata(false),
        "spec": {
            "policyName": one(json!(["a", "a.b", "A", ""])),
            "paramRef?": {"name?": one(json!(["a", "a/b", "."])), "namespace?": "n", "selector?": selector(),
                "parameterNotFoundAction": one(json!(["Deny", "Allow", "X<", ""]))},
            "matchResources?": match_resources(),
            "validationActions": list(one(json!(["Deny", "Warn", "Audit", "X<"]))),
        },
    });
    run("admissionregistration.k8s.io", &grammar, &[""], 16);
}

#[test]
fn api_services_are_as_upstream_has_them() {
    let grammar = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": one(json!([metadata(false), {"name": one(json!(["v1.a.b", "v1.", "v1.a", "v2.A"])), "generateName?": "v1.a",
            "resourceVersion": "1"}])),
        "spec": {
            "group": one(json!(["a.b", "a", "", "A"])), "version": one(json!(["v1", "v1", "v2", "", "V"])),
            "groupPriorityMinimum": one(json!([1, 20000, 0, 20001])), "versionPriority": one(json!([1, 1000, 0, 1001])),
            "caBundle?": one(json!(["eA==", "eHk=", ""])), "insecureSkipTLSVerify?": one(json!([true, false])),
            "service?": {"name": one(json!(["s", ""])), "namespace": one(json!(["n", ""])), "port?": one(json!([443, 0, 70000]))},
        },
        "status?": {"conditions": list(json!({"type": "Available", "status": one(json!(["True", "False", "Unknown", "X<"])),
            "lastTransitionTime": "2026-01-01T00:00:00Z"}))},
    });
    run("apiregistration.k8s.io", &grammar, &["", "status"], 17);
}

#[test]
fn access_reviews_are_as_upstream_has_them() {
    let requirement = json!({"key": one(json!(["a", "", "-"])), "operator": one(json!(["In", "NotIn", "Exists", "DoesNotExist", "X"])),
        "values?": list(one(json!(["a", "a b"])))});
    let selector = json!({"rawSelector?": "a=b", "requirements?": list(requirement)});
    let metadata = one(json!([{}, {}, {}, {"namespace": "n"}, {"name": "a<", "labels": {"a": "b"}, "namespace": "n"},
        {"finalizers": ["a"], "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true}]},
        {"managedFields": [{"manager": "m", "operation": "Update"}]},
        {"managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1"}], "generateName": "x", "generation": 2}]));
    for (kind, seed) in [("SubjectAccessReview", 18), ("SelfSubjectAccessReview", 19), ("LocalSubjectAccessReview", 20)]
    {
        let resource = json!({"namespace?": one(json!(["n", "m"])), "verb?": "get", "fieldSelector?": selector, "labelSelector?": selector});
        let path = json!({"path?": "/<", "verb?": "get"});
        let spec = one(json!([{"resourceAttributes": resource, "user?": "u", "groups?": ["g"]},
            {"resourceAttributes": {"namespace": "n"}, "user": "u"},
            {"nonResourceAttributes": path, "user?": "u"}, {"nonResourceAttributes": path, "resourceAttributes": resource}, {}]));
        let mut spec = spec;
        if kind.starts_with("Self") {
            spec = one(json!([{"resourceAttributes": resource}, {"nonResourceAttributes": path},
                {"nonResourceAttributes": path, "resourceAttributes": resource}, {}]));
        }
        let grammar =
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
        run("authorization.k8s.io", &grammar, &[], seed);
    }
}

#[test]
fn token_requests_are_as_upstream_has_them() {
    let grammar = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
        "spec": {"audiences": ["a"], "expirationSeconds?": one(json!([600, 599, 4_294_967_296_i64, 4_294_967_297_i64, 0, -1]))},
    });
    run("authentication.k8s.io", &grammar, &[], 21);
}

#[test]
fn services_are_as_upstream_has_them_where_they_need_no_addresses() {
    let grammar = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": one(json!([{"name": one(json!(["a", "1a", "a.b"])), "namespace": "default", "resourceVersion": "1"}])),
        "spec": {
            "type?": one(json!(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "X<"])),
            "externalName?": one(json!(["a.b", "a.b.", "A", "."])),
            "sessionAffinity?": one(json!(["None", "ClientIP", "X"])),
            "sessionAffinityConfig?": {"clientIP?": {"timeoutSeconds?": one(json!([1, 86400, 0, 86401]))}},
            "selector?": map(json!(["a", "-"]), one(json!(["b", "a b"]))),
            "internalTrafficPolicy?": one(json!(["Cluster", "Local", "X"])),
            "externalTrafficPolicy?": one(json!(["Cluster", "Cluster", "X"])),
            "trafficDistribution?": one(json!(["PreferClose", "PreferSameNode", "X"])),
            "ports": list(json!({
                "name?": one(json!(["a", "b", "A"])), "port": one(json!([80, 443, 0, 65536])), "protocol?": one(json!(["TCP", "UDP", "X"])),
                "targetPort?": one(json!([80, "http", 0, "", 70000, "a--b", "1", "-a"])), "nodePort?": one(json!([0, 30000, 30001])),
                "appProtocol?": one(json!(["a.b/c", "-"])),
            })),
        },
    });
    run("", &grammar, &[""], 22);
}
