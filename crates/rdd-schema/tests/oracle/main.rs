//! Compares this crate with the functions of Kubernetes, on thousands of generated cases.
//!
//! The oracle is `conformance/oracle`, a Go program that calls the Kubernetes modules. Without Go, the tests print that and pass,
//! except if `CI=true`.

mod generate;
mod judge;

use std::{env, panic::AssertUnwindSafe};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rdd_meta::{GroupKind, Status, go_json};
use rdd_schema::{
    Props, Structural,
    columns::{self, JsonPath},
    crd::{self, Crd, NoRules},
    default,
    field::{self, Path},
    format::Format,
    listtype,
    objectmeta::{self, Malformed},
    pattern::Pattern,
    prune,
    resource::{Origin, Resource},
    strict, upgrade, validate,
};
use serde_json::{Value, json};

use generate::Random;
use judge::{Case, Judge};

/// How many cases each operation gets; `ORACLE_CASES` overrides it for a longer search.
fn cases() -> usize {
    env::var("ORACLE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(2000)
}

fn seed() -> u64 {
    env::var("ORACLE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn check(name: &str, make: impl Fn(&mut Random) -> Case) {
    let Some(judge) = Judge::start() else { return };
    let mut random =
        Random::new(seed() ^ name.bytes().fold(7, |hash: u64, byte| hash.wrapping_mul(31) + u64::from(byte)));
    let made: Vec<Case> = (0..cases()).map(|_| make(&mut random)).collect();
    judge.compare(name, made);
}

fn compile(schema: &Value) -> Option<std::sync::Arc<Structural>> {
    Structural::compile(&Props::parse(schema).ok()?).ok()
}

fn errors(list: &[field::Error]) -> Value {
    let show = |error: &field::Error| json!({"type": error.kind.reason(), "field": error.path, "body": error.body(), "detail": error.detail});
    list.iter().map(show).collect()
}

/// Turns a panic into a wrong answer, so that the comparison reports the case.
fn ours(answer: impl FnOnce() -> Value) -> Value {
    std::panic::catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| json!("panicked"))
}

#[test]
fn definitions_have_upstreams_errors() {
    check("crd.validate", |random| {
        let crd = random.definition();
        let answer = ours(|| {
            let mut crd = crd.clone();
            crd::apply_defaults(&mut crd);
            match Crd::parse(&crd) {
                Ok(crd) => errors(&crd::validate(&crd, &mut NoRules)),
                Err(_) => Value::Null,
            }
        });
        Case::any_of(json!({"op": "crd.validate", "crd": crd}), answer)
    });
}

#[test]
fn updates_of_definitions_have_upstreams_errors() {
    check("crd.validateUpdate", |random| {
        let (old, new) = random.definition_update();
        let answer = ours(|| {
            let parse = |value: &Value| {
                let mut value = value.clone();
                crd::apply_defaults(&mut value);
                Crd::parse(&value)
            };
            match (parse(&new), parse(&old)) {
                (Ok(new), Ok(old)) => errors(&upgrade::validate_update(&new, &old, &mut NoRules)),
                _ => Value::Null,
            }
        });
        Case::any_of(json!({"op": "crd.validateUpdate", "crd": new, "old": old}), answer)
    });
}

#[test]
fn objects_are_pruned_as_upstream_prunes_them() {
    check("crd.prune", |random| {
        let mut schema = random.schema();
        if random.one_in(3) {
            random.preserve_lists(&mut schema);
        }
        let object = random.value(&schema);
        let root = random.one_in(2);
        let answer = ours(|| match compile(&schema) {
            None => Value::Null,
            Some(schema) => {
                let mut object = object.clone();
                let paths = prune::prune(&mut object, &schema, root);
                json!({"object": object, "paths": paths})
            }
        });
        Case::ordered(json!({"op": "crd.prune", "schema": schema, "object": object, "root": root}), answer)
    });
}

#[test]
fn objects_are_defaulted_as_upstream_defaults_them() {
    check("crd.default", |random| {
        let schema = random.schema();
        let object = random.value(&schema);
        let answer = ours(|| match compile(&schema) {
            None => Value::Null,
            Some(schema) => {
                let mut object = object.clone();
                default::apply(&mut object, &schema);
                json!({"object": object})
            }
        });
        Case::ordered(json!({"op": "crd.default", "schema": schema, "object": object}), answer)
    });
}

#[test]
fn metadata_is_coerced_as_upstream_coerces_it() {
    check("crd.coerce", |random| {
        let schema = random.schema();
        let mut object = random.value(&schema);
        random.add_metadata(&mut object);
        let (root, drop) = (random.one_in(2), random.one_in(2));
        let malformed = if drop { Malformed::Drop } else { Malformed::Refuse };
        let answer = ours(|| match compile(&schema) {
            None => Value::Null,
            Some(schema) => {
                let mut object = object.clone();
                match objectmeta::coerce(&Path::Nil, &mut object, &schema, root, malformed) {
                    Ok(paths) => json!({"object": object, "paths": paths}),
                    Err(error) => json!({"error": errors(&[error])[0]}),
                }
            }
        });
        let answer = judge::as_go_writes(&answer);
        let request = json!({"op": "crd.coerce", "schema": schema, "object": object, "root": root, "drop": drop});
        Case::any_of(request, answer)
    });
}

#[test]
fn objects_have_upstreams_errors() {
    check("crd.object", |random| {
        let schema = random.schema();
        let mut object = random.value(&schema);
        let root = random.one_in(4);
        if root {
            random.add_metadata(&mut object);
        }
        let answer = ours(|| match compile(&schema) {
            None => Value::Null,
            Some(schema) => {
                let mut found = validate::validate(&Path::Nil, &schema, &object);
                found.extend(objectmeta::validate(&Path::Nil, &object, &schema, root));
                found.extend(listtype::validate(&Path::Nil, &schema, &object));
                errors(&found)
            }
        });
        Case::unordered(json!({"op": "crd.object", "schema": schema, "object": object, "root": root}), answer)
    });
}

#[test]
fn errors_come_in_upstreams_order_where_it_has_one() {
    check("crd.order", |random| {
        let schema = random.schema();
        let object = random.value(&schema);
        let answer = ours(|| match compile(&schema) {
            None => Value::Null,
            Some(schema) => {
                let mut found = validate::validate(&Path::Nil, &schema, &object);
                found.extend(objectmeta::validate(&Path::Nil, &object, &schema, false));
                found.extend(listtype::validate(&Path::Nil, &schema, &object));
                errors(&found)
            }
        });
        Case::stable(json!({"op": "crd.order", "schema": schema, "object": object}), answer)
    });
}

#[test]
fn unchanged_values_are_forgiven_as_upstream_forgives_them() {
    check("crd.update", |random| {
        let schema = random.schema();
        let mut old = random.value(&schema);
        if random.one_in(3) {
            random.repeat_keys(&mut old, &schema);
        }
        let mut new = old.clone();
        random.change(&mut new, &schema);
        let answer = ours(|| match compile(&schema) {
            None => Value::Null,
            Some(schema) => {
                let mut found = validate::validate_update(&Path::Nil, &schema, &new, &old);
                if listtype::validate(&Path::Nil, &schema, &old).is_empty() {
                    found.extend(listtype::validate(&Path::Nil, &schema, &new));
                }
                errors(&found)
            }
        });
        Case::unordered(json!({"op": "crd.update", "schema": schema, "object": new, "old": old}), answer)
    });
}

#[test]
fn whole_resources_have_upstreams_errors() {
    check("crd.resource", |random| {
        let schema = random.schema();
        let mut object = random.resource(&schema);
        let namespaced = random.one_in(2);
        let scale = random.scale();
        let parsed = scale.as_ref().map(|scale| crd::Scale {
            spec_replicas_path: scale["SpecReplicasPath"].as_str().unwrap_or_default().to_owned(),
            status_replicas_path: scale["StatusReplicasPath"].as_str().unwrap_or_default().to_owned(),
            label_selector_path: scale["LabelSelectorPath"].as_str().map(str::to_owned),
        });
        let old = random.one_in(2).then(|| object.clone());
        if old.is_some() {
            random.change(&mut object, &schema);
        }
        if !object.is_object() {
            object = json!({});
        }
        object["kind"] = json!("Foo");
        object["apiVersion"] = json!("g.io/v1");
        let answer = ours(|| match compile(&schema) {
            None => Value::Null,
            Some(schema) => {
                let scale = parsed.as_ref();
                let resource =
                    Resource { group: "g.io", version: "v1", kind: "Foo", namespaced, schema: &schema, scale };
                let mut found = match &old {
                    None => resource.validate_create(&object),
                    Some(old) => resource.validate_update(&object, old),
                };
                // The oracle only checks whether the replicas can be read.
                found.retain(|error| !error.path.starts_with('.') || error.detail.contains("accessor error"));
                errors(&found)
            }
        });
        let mut request =
            json!({"op": "crd.resource", "schema": schema, "object": object, "namespaced": namespaced, "scale": scale});
        if let Some(old) = old {
            request["old"] = old;
        }
        Case::unordered(request, answer)
    });
}

#[test]
fn objects_are_decoded_as_the_server_decodes_them() {
    check("crd.decode", |random| {
        let schema = random.schema();
        let mut object = random.resource(&schema);
        object["metadata"] = random.metadata();
        let stored = random.one_in(2);
        let origin = if stored { Origin::Storage } else { Origin::Request };
        let answer = ours(|| match compile(&schema) {
            None => Value::Null,
            Some(schema) => {
                let mut object = object.clone();
                let resource = Resource {
                    group: "g.io",
                    version: "v1",
                    kind: "Foo",
                    namespaced: true,
                    schema: &schema,
                    scale: None,
                };
                match resource.decode(&mut object, origin) {
                    Ok(findings) => {
                        let unknown: Vec<String> = findings.iter().map(ToString::to_string).collect();
                        json!({"object": object, "unknown": unknown})
                    }
                    // If several embedded resources are malformed, upstream names a random one.
                    Err(error) if error.to_string().contains(": Invalid value: ") => json!({"failed": true}),
                    Err(error) => json!({"error": error.to_string()}),
                }
            }
        });
        Case::ordered(json!({"op": "crd.decode", "schema": schema, "object": object, "drop": stored}), answer)
    });
}

/// An object is stored and read again; the version of the request may have another schema than the storage version.
// Findings E-10, E-17
#[test]
fn objects_are_stored_and_read_again_as_upstream_does() {
    check("crd.store", |random| {
        let mut schema = random.schema();
        if random.one_in(2) {
            random.add_status(&mut schema);
        }
        let mut stored = random.one_in(2).then(|| random.variant(&schema));
        // Validation refuses a CRD whose defaults pruning or coercion would change.
        prune_defaults(&mut schema);
        stored.as_mut().into_iter().for_each(prune_defaults);
        let mut object = random.resource(&schema);
        if object.to_string().contains("0001-01-01T00:00:00Z") {
            // In an embedded resource, upstream writes the zero time as null and drops it on the next read.
            object = json!({});
        }
        object["metadata"] = json!({"name": "x"});
        object["apiVersion"] = json!("g.io/v1");
        object["kind"] = json!("Foo");
        let has_status = random.one_in(2);
        let answer = ours(|| store(&schema, stored.as_ref(), object.clone(), has_status));
        let mut request = json!({"op": "crd.store", "schema": schema, "object": object, "root": has_status});
        if let Some(stored) = stored {
            request["old"] = stored;
        }
        Case::ordered(request, answer)
    });
}

fn prune_defaults(schema: &mut Value) {
    let compiled = compile(schema);
    if let (Some(default), Some(compiled)) = (schema.get_mut("default"), compiled) {
        prune::prune(default, &compiled, false);
        default::prune_nulls(default, Some(&compiled));
        objectmeta::coerce(&Path::Nil, default, &compiled, false, Malformed::Drop)
            .expect("malformed fields are dropped");
    }
    match schema {
        Value::Object(entries) => {
            entries.iter_mut().filter(|(name, _)| *name != "default").for_each(|(_, below)| prune_defaults(below));
        }
        Value::Array(items) => items.iter_mut().for_each(prune_defaults),
        _ => {}
    }
}

fn store(schema: &Value, stored: Option<&Value>, mut object: Value, has_status: bool) -> Value {
    let (Some(schema), storage) = (compile(schema), stored.map(compile)) else { return Value::Null };
    let resource =
        |schema, version| Resource { group: "g.io", version, kind: "Foo", namespaced: true, schema, scale: None };
    let failed = json!({"failed": true});
    let shown = resource(&schema, "v1");
    if shown.decode(&mut object, Origin::Request).is_err() {
        return failed;
    }
    if has_status {
        object.as_object_mut().expect("what was decoded is an object").remove("status");
    }
    object["metadata"]["generation"] = json!(1);
    match storage {
        None => default::fill(&mut object, Some(&schema)),
        Some(None) => return Value::Null,
        Some(Some(storage)) => {
            // Upstream fails if the metadata of an embedded resource is malformed only in the other schema; we drop it.
            let mut copy = object.clone();
            prune::prune(&mut copy, &storage, true);
            default::prune_nulls(&mut copy, Some(&storage));
            if objectmeta::coerce(&Path::Nil, &mut copy, &storage, false, Malformed::Refuse).is_err() {
                return failed;
            }
            resource(&storage, "v2").store(&mut object);
            let mut copy = object.clone();
            prune::prune(&mut copy, &schema, true);
            default::prune_nulls(&mut copy, Some(&schema));
            if objectmeta::coerce(&Path::Nil, &mut copy, &schema, false, Malformed::Refuse).is_err() {
                return failed;
            }
            shown.convert(&mut object);
        }
    }
    object
}

// Finding E-16
#[test]
fn ca_bundles_are_judged_as_upstream_judges_them() {
    check("crd.caBundle", |random| {
        let bundle = random.ca_bundle();
        let answer = ours(|| match crd::check_ca_bundle(bundle.as_bytes()) {
            Ok(()) => json!([]),
            Err(why) => errors(&[field::Error::invalid("caBundle", STANDARD.encode(&bundle).as_str(), why)]),
        });
        Case::ordered(json!({"op": "crd.caBundle", "text": bundle}), answer)
    });
}

#[test]
fn duplicate_keys_are_reported_as_upstream_reports_them() {
    check("crd.strict", |random| {
        let text = random.duplicated_json();
        let answer = ours(|| match strict::read(text.as_bytes()) {
            Err(_) => Value::Null,
            Ok(document) if !document.value.is_object() => Value::Null,
            Ok(document) => {
                let error = strict::decoding_error(&document.findings).unwrap_or_default();
                json!({"object": document.value, "error": error})
            }
        });
        Case::ordered(json!({"op": "crd.strict", "text": text}), answer)
    });
}

#[test]
fn json_is_written_as_go_writes_it() {
    check("crd.write", |random| {
        let text = random.json_text();
        let answer = ours(|| match strict::read(text.as_bytes()) {
            Err(_) => Value::Null,
            Ok(document) => go_json::to_string(&document.value).into(),
        });
        Case::ordered(json!({"op": "crd.write", "text": text}), answer)
    });
}

#[test]
fn paths_find_what_kubectl_finds() {
    check("crd.column", |random| {
        let object = random.path_object();
        let path = random.json_path();
        let answer = ours(|| match JsonPath::parse(&path) {
            Err(error) => json!({"parse": error.to_string()}),
            Ok(parsed) => match parsed.find(&object) {
                Err(_) => json!({"find": "failed"}),
                Ok(found) => {
                    let printed = found.first().map(|first| columns::printed(first)).unwrap_or_default();
                    json!({"found": found, "printed": printed})
                }
            },
        });
        Case::finding(json!({"op": "crd.column", "object": object, "path": path}), answer)
    });
}

#[test]
fn formats_accept_what_upstream_accepts() {
    check("crd.format", |random| {
        let (format, text) = random.formatted();
        let answer = ours(|| Format::of(format).is_some_and(|format| format.accepts(&text)).into());
        Case::ordered(json!({"op": "crd.format", "format": format, "text": text}), answer)
    });
}

#[test]
fn patterns_mean_what_they_mean_to_go() {
    check("crd.pattern", |random| {
        let pattern = random.pattern();
        let text = random.pattern_text();
        let answer = ours(|| match Pattern::new(&pattern).is_match(&text) {
            Ok(found) => json!({"match": found}),
            Err(error) => json!({"error": error}),
        });
        Case::ordered(json!({"op": "crd.pattern", "pattern": pattern, "text": text}), answer)
    });
}

#[test]
fn an_invalid_status_is_upstreams() {
    check("crd.invalid", |random| {
        let (value, text) = (random.any_value(3), random.text());
        let answer = ours(|| {
            use field::Error;
            let root = Path::Nil;
            let (spec, name) = (root.child("spec"), text.as_str());
            let x = spec.child("x");
            let key = x.key(name);
            let path = key.index(2);
            let list = [
                Error::invalid(path, &value, name),
                Error::type_invalid(path, &value, name),
                Error::duplicate(path, &value),
                Error::not_found(path, &value),
                Error::required(path, name),
                Error::forbidden(path, name),
                Error::not_supported(path, &value, &[name, "b"]),
                Error::too_many(path, 3, 1),
                Error::too_many(path, -1, 2),
                Error::too_long(path, 1),
                Error::too_long(path, 7),
                Error::required(path, name),
                Error::internal(path, name),
            ];
            let status = Status::invalid(&GroupKind::new("g.io", "K"), name, &list);
            let mut status = serde_json::to_value(status).expect("a Status is JSON");
            let typed = status.as_object_mut().expect("a Status is an object");
            typed.remove("kind");
            typed.remove("apiVersion");
            status
        });
        Case::ordered(json!({"op": "crd.invalid", "object": value, "text": text}), answer)
    });
}
