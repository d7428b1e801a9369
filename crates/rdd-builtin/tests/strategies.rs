//! Tests of strategies beyond the oracle's: deletion, conversion, reviews, compiled expressions, and input of any shape.

use rdd_builtin::{
    kinds::{self, event, webhook},
    strategy::Strategy,
};
use rdd_meta::time::Timestamp;
use serde_json::{Map, Value, json};

const KINDS: [(&str, &str); 25] = [
    ("", "ConfigMap"),
    ("", "Event"),
    ("", "Namespace"),
    ("", "ResourceQuota"),
    ("", "Secret"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apiregistration.k8s.io", "APIService"),
    ("authentication.k8s.io", "SelfSubjectReview"),
    ("authentication.k8s.io", "TokenRequest"),
    ("authentication.k8s.io", "TokenReview"),
    ("authorization.k8s.io", "LocalSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "SubjectAccessReview"),
    ("coordination.k8s.io", "Lease"),
    ("events.k8s.io", "Event"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
];

fn strategy(group: &str, kind: &str) -> &'static Strategy {
    kinds::of(group, kind).unwrap_or_else(|| panic!("{kind} of {group:?} has a strategy"))
}

#[test]
fn a_kind_that_is_not_built_in_has_no_strategy() {
    assert!(kinds::of("", "Pod").is_none());
    assert!(kinds::of("rbac.authorization.k8s.io", "ConfigMap").is_none());
}

#[test]
fn a_prefix_whose_end_hides_a_slash_is_refused_by_every_kind() {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
    let table = [
        ("", "ConfigMap", json!({})),
        ("", "Namespace", json!({})),
        ("", "ResourceQuota", json!({"spec": {}})),
        ("", "Secret", json!({})),
        ("", "Service", json!({"spec": {"ports": [{"port": 80, "targetPort": 80}]}})),
        ("", "ServiceAccount", json!({})),
        ("coordination.k8s.io", "Lease", json!({"spec": {}})),
        ("rbac.authorization.k8s.io", "ClusterRole", json!({})),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding", json!({"roleRef": role})),
        ("rbac.authorization.k8s.io", "Role", json!({})),
        ("rbac.authorization.k8s.io", "RoleBinding", json!({"roleRef": role})),
    ];
    for (group, kind, content) in table {
        let errors = |metadata: Value| {
            let (mut object, strategy) = (content.clone(), strategy(group, kind));
            object["metadata"] = metadata;
            if !matches!(kind, "Namespace" | "ClusterRole" | "ClusterRoleBinding") {
                object["metadata"]["namespace"] = "n".into();
            }
            (strategy.default)(&mut object);
            (strategy.validate_create)(&object).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(errors(json!({"name": "a"})), [""; 0], "{kind}");
        assert_eq!(errors(json!({"name": "a", "generateName": "a-"})), [""; 0], "{kind}");
        assert_eq!(
            errors(json!({"name": "a", "generateName": "a/-"})),
            [r#"metadata.generateName: Invalid value: "a/-": may not contain '/'"#],
            "{kind}"
        );
    }
}

#[test]
fn a_namespace_stays_terminating_until_its_spec_names_no_finalizer() {
    let strategy = strategy("", "Namespace");
    let mut namespace = json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}});
    (strategy.prepare_for_create)(&mut namespace);
    assert!(!(strategy.may_vanish)(&namespace), "it has just been made");

    assert!((strategy.begin_deletion)(&mut namespace, Timestamp::new(100, 0)), "it stays when it is first deleted");
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(namespace["metadata"]["deletionTimestamp"], "1970-01-01T00:01:40Z");

    assert!((strategy.begin_deletion)(&mut namespace, Timestamp::new(200, 0)), "and as long as it has a finalizer");
    assert_eq!(
        namespace["metadata"]["deletionTimestamp"], "1970-01-01T00:01:40Z",
        "which was when it was first deleted"
    );

    namespace["spec"]["finalizers"] = json!([]);
    assert!((strategy.may_vanish)(&namespace));
    assert!(!(strategy.begin_deletion)(&mut namespace, Timestamp::new(200, 0)), "then nothing holds it");

    let mut bare = json!({"metadata": {"name": "a"}});
    assert!((strategy.begin_deletion)(&mut bare, Timestamp::new(100, 0)), "the first time it stays even without one");
}

#[test]
fn only_namespaces_have_a_deletion_of_their_own() {
    for (group, kind) in KINDS.into_iter().filter(|(_, kind)| *kind != "Namespace") {
        let mut object = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["x"]}});
        let before = object.clone();
        let strategy = strategy(group, kind);
        assert!(!(strategy.begin_deletion)(&mut object, Timestamp::new(1, 0)), "{kind}");
        assert!((strategy.may_vanish)(&object), "{kind}");
        assert_eq!(object, before, "{kind}");
    }
}

#[test]
fn a_megabyte_fits_into_a_configmap_or_a_secret_and_no_byte_more() {
    let judge = |kind: &str, fields: Value| {
        let mut object = json!({"metadata": {"name": "a", "namespace": "n"}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        (strategy("", kind).validate_create)(&object).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // Three bytes are four characters of base64.
    let base64 = |bytes: usize| format!("{}{}", "AAAA".repeat(bytes / 3), ["", "AA==", "AAA="][bytes % 3]);
    let half = 512 * 1024;
    for (more, too_long) in [(0, false), (1, true)] {
        let texts = json!({"data": {"a": "x".repeat(half)}, "binaryData": {"b": base64(half + more)}});
        let refused = "[]: Too long: may not be more than 1048576 bytes";
        assert_eq!(judge("ConfigMap", texts), if too_long { vec![refused] } else { Vec::new() });
        let data = json!({"data": {"a": base64(half), "b": base64(half + more)}});
        let refused = "data: Too long: may not be more than 1048576 bytes";
        assert_eq!(judge("Secret", data), if too_long { vec![refused] } else { Vec::new() });
    }
}

#[test]
fn an_event_is_the_same_in_both_groups() {
    let core = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": {"kind": "K"}, "message": "m",
        "source": {"component": "c"}, "firstTimestamp": "t", "lastTimestamp": "u", "count": 3, "reportingComponent": "r",
        "reportingInstance": "i", "action": "x", "related": {"kind": "L"}, "series": {"count": 2}, "eventTime": "e",
    });
    let events = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "regarding": {"kind": "K"}, "note": "m",
        "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": "t", "deprecatedLastTimestamp": "u",
        "deprecatedCount": 3, "reportingController": "r", "reportingInstance": "i", "action": "x",
        "related": {"kind": "L"}, "series": {"count": 2}, "eventTime": "e",
    });
    assert_eq!(event::from_core(core.clone()), events);
    assert_eq!(event::to_core(events), core);
}

#[test]
fn a_question_without_its_subject_is_a_bad_request() {
    let asked = |group: &str, kind: &str, question: Value| (strategy(group, kind).bad_request)(&question);
    let review = |token: &str| asked("authentication.k8s.io", "TokenReview", json!({"spec": {"token": token}}));
    assert_eq!(review("").as_deref(), Some("token is required for TokenReview in authentication"));
    assert_eq!(review("t"), None);
    let rules = |namespace: &str| {
        asked("authorization.k8s.io", "SelfSubjectRulesReview", json!({"spec": {"namespace": namespace}}))
    };
    assert_eq!(rules("").as_deref(), Some("no namespace on request"));
    assert_eq!(rules("n"), None);
}

#[test]
fn match_conditions_are_compiled_trimmed_and_only_if_they_changed() {
    let hooks = |expression: &str| {
        let mut configuration = json!({
            "metadata": {"name": "a", "resourceVersion": "1"},
            "webhooks": [{
                "name": "a.b.c", "clientConfig": {"url": "https://a"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "matchConditions": [{"name": "c", "expression": expression}],
            }],
        });
        (strategy("admissionregistration.k8s.io", "ValidatingWebhookConfiguration").default)(&mut configuration);
        configuration
    };
    let refuse = |expression: &str| Some(format!("{} characters are too many", expression.len()));
    let text = r#"webhooks[0].matchConditions[0].expression: Invalid value: "x y": 3 characters are too many"#;
    let texts = |errors: Vec<rdd_meta::FieldError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(webhook::validate_create(&hooks(" x y\n"), &refuse)), [text]);
    assert_eq!(texts(webhook::validate_create(&hooks(" x y\n"), &|_| None)), [""; 0]);
    assert_eq!(texts(webhook::validate_update(&hooks("x y"), &hooks("z"), &refuse)), [text]);
    assert_eq!(texts(webhook::validate_update(&hooks("x y"), &hooks("x y"), &refuse)), [""; 0]);
}

#[test]
fn status_endpoints_leave_the_rest_alone_and_nobody_owns_it_there() {
    for (group, kind, endpoint) in [
        ("", "Namespace", "status"),
        ("", "ResourceQuota", "status"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "status"),
        ("apiregistration.k8s.io", "APIService", "status"),
    ] {
        let strategy = strategy(group, kind);
        let old = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 1}});
        let mut new = json!({"metadata": {"name": "a"}, "spec": {"x": 2}, "status": {"y": 2}});
        (strategy.prepare_for_update)(endpoint, &mut new, &old);
        assert_eq!((&new["spec"], &new["status"]), (&old["spec"], &json!({"y": 2})), "{kind}");
        assert!((strategy.reset_fields)(endpoint).contains(&"spec"), "{kind}");
        let mut new = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 2}});
        (strategy.prepare_for_update)("", &mut new, &old);
        assert_eq!(new["status"], old["status"], "{kind}");
        assert_eq!((strategy.reset_fields)(""), ["status"], "{kind}");
    }
}

/// A deterministic generator without a dependency.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Random JSON whose field names are those that rules use.
    fn value(&mut self, names: &[&str], depth: u64) -> Value {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(i64::try_from(self.below(1 << 31)).unwrap_or(0) - (1 << 30)),
            3 => json!(1e300),
            4 => json!(
                ["", "a", "é", "1e9999999999", "https://[", "{", "🦀/", "-----BEGIN A-----"][self.below(8) as usize]
            ),
            5 => json!("x".repeat(300)),
            6 => (0..self.below(4)).map(|_| self.value(names, depth - 1)).collect(),
            _ => {
                let name = |random: &mut Self| names[random.below(names.len() as u64) as usize].to_owned();
                let members: Map<String, Value> =
                    (0..self.below(8)).map(|_| (name(self), self.value(names, depth - 1))).collect();
                Value::Object(members)
            }
        }
    }
}

#[test]
fn no_object_of_whatever_shape_makes_a_strategy_panic() {
    const NAMES: [&str; 44] = [
        "metadata",
        "name",
        "namespace",
        "labels",
        "finalizers",
        "spec",
        "status",
        "phase",
        "data",
        "stringData",
        "binaryData",
        "type",
        "hard",
        "used",
        "scopes",
        "scopeSelector",
        "matchExpressions",
        "values",
        "operator",
        "webhooks",
        "clientConfig",
        "service",
        "url",
        "port",
        "rules",
        "resources",
        "roleRef",
        "subjects",
        "kind",
        "apiGroup",
        "ports",
        "targetPort",
        "sessionAffinity",
        "clusterIP",
        "clusterIPs",
        "matchConstraints",
        "resourceRules",
        "validations",
        "conditions",
        "resourceAttributes",
        "fieldSelector",
        "requirements",
        "secrets",
        "series",
    ];
    let mut random = Random(7);
    for _ in 0..400 {
        for (group, kind) in KINDS {
            let strategy = strategy(group, kind);
            let (mut new, old) = (random.value(&NAMES, 5), random.value(&NAMES, 5));
            (strategy.default)(&mut new);
            (strategy.bad_request)(&new);
            let mut created = new.clone();
            (strategy.prepare_for_create)(&mut created);
            (strategy.validate_create)(&created);
            (strategy.warnings)(&new, Some(&old));
            for endpoint in ["", "status", "finalize"] {
                let mut new = new.clone();
                (strategy.prepare_for_update)(endpoint, &mut new, &old);
                (strategy.validate_update)(endpoint, &new, &old);
            }
            for field in strategy.selectable_fields {
                (strategy.selectable_field)(&new, field);
            }
            (strategy.may_vanish)(&new);
            (strategy.begin_deletion)(&mut new, Timestamp::new(0, 0));
        }
    }
}
