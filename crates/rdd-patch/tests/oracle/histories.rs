//! Random applies and updates by several managers, through upstream's field manager and this crate's.

use crate::{schemas, sorted_lines};
use rdd_patch::{
    shape::openapi::Definitions,
    ssa::{ApplyOptions, Error, FieldManager, Filter, SameSchema, Set, Timestamp},
};
use rdd_testkit::{
    oracle::{ask, integral_numbers},
    random::SeededRandom,
};
use serde_json::{Map, Value, json};

const HISTORIES: u64 = 350;
const KIND: &str = "Thing";
const VERSIONS: [&str; 2] = ["example.io/v1", "example.io/v2"];
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A step of a history: the request, our result, and the question for the oracle.
struct Step {
    ours: Value,
    question: Value,
}

struct History<'a> {
    random: &'a mut SeededRandom,
    /// The schema, and the one that it may change to.
    schemas: Vec<Map<String, Value>>,
    schema: usize,
    live: Option<Value>,
    now: i64,
    managers: Vec<String>,
    /// What each manager applied last.
    applied: Map<String, Value>,
    wrong: usize,
}

fn object_meta() -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {
        "name": text, "namespace": text, "uid": text, "resourceVersion": text, "generateName": text,
        "creationTimestamp": {"type": "string", "format": "date-time"}, "generation": {"type": "integer"},
        "labels": texts, "annotations": texts,
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "managedFields": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
    }})
}

/// The definitions of the kind in both versions, which have the same fields.
fn kind(parts: &Map<String, Value>) -> Map<String, Value> {
    let mut definitions = parts.clone();
    definitions.insert("ObjectMeta".into(), object_meta());
    for version in ["v1", "v2"] {
        let schema = json!({"type": "object", "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "metadata": {"$ref": "#/definitions/ObjectMeta"},
            "spec": {"$ref": "#/definitions/Root"}, "status": {"$ref": "#/definitions/T0"},
        }, "x-kubernetes-group-version-kind": [{"group": "example.io", "version": version, "kind": KIND}]});
        definitions.insert(format!("{KIND}.{version}"), schema);
    }
    definitions
}

impl History<'_> {
    fn part(&mut self, name: &str) -> Value {
        let definitions = &self.schemas[self.schema];
        schemas::value(self.random, definitions, &definitions[name], 4, self.wrong)
    }

    /// A random request body in a version.
    fn configuration(&mut self, version: &str) -> Value {
        let mut object =
            json!({"apiVersion": version, "kind": KIND, "metadata": {"name": "thing", "namespace": "space"}});
        if self.random.chance(90) {
            object["spec"] = self.part("Root");
        }
        if self.random.chance(30) {
            object["status"] = self.part("T0");
        }
        for (field, percent) in [("labels", 30), ("annotations", 15)] {
            if self.random.chance(percent) {
                let name: &&str = self.random.pick(&["l1", "l2", "l3"]);
                object["metadata"][field] = json!({*name: self.random.pick(&["x", "y"])});
            }
        }
        if self.random.chance(15) {
            object["metadata"]["finalizers"] = json!([self.random.pick(&["f1", "f2"])]);
        }
        if self.random.chance(1) {
            object[*self.random.pick(&["kind", "apiVersion"])] = json!(self.random.pick(&["Other", "a/b/c", "v1", ""]));
        }
        object
    }

    /// The live object as a client might send it back.
    fn edited(&mut self, live: &Value, version: &str) -> Value {
        let mut object = live.clone();
        let other = self.configuration(version);
        object["apiVersion"] = json!(version);
        for part in ["spec", "status"] {
            if self.random.chance(50) {
                match other.get(part) {
                    Some(value) => object[part] = value.clone(),
                    None => drop(object.as_object_mut().expect("an object").remove(part)),
                }
            }
        }
        if self.random.chance(25) {
            object["metadata"]["labels"] = other["metadata"].get("labels").cloned().unwrap_or(json!({}));
        }
        if self.random.chance(35) {
            // The annotation has the sent configuration, the previous one, or another text.
            let specs = [object.get("spec"), live.get("spec"), other.get("spec")];
            let spec: &Option<&Value> = self.random.pick(&specs);
            let mut configuration = json!({"apiVersion": version, "kind": KIND, "metadata": {"name": "thing"}});
            if let Some(spec) = spec {
                configuration["spec"] = (*spec).clone();
            }
            object["metadata"]["annotations"] = json!({ANNOTATION: configuration.to_string()});
        }
        let metadata = object["metadata"].as_object_mut().expect("live objects have metadata");
        match self.random.below(20) {
            0 => drop(metadata.remove("managedFields")),
            1 => drop(metadata.insert("managedFields".into(), json!([]))),
            2 => drop(metadata.insert("managedFields".into(), json!([{}]))),
            3 => drop(metadata.insert(
                "managedFields".into(),
                json!([{"manager": "odd", "operation": "Update", "apiVersion": version,
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:a": {}}}}]),
            )),
            4 => drop(metadata.insert("managedFields".into(), json!([{"manager": "odd", "operation": "Other"}]))),
            _ => {}
        }
        object
    }

    fn step(&mut self) -> Step {
        self.now += 1 + i64::try_from(self.random.below(100)).expect("small");
        if self.schemas.len() > 1 && self.random.chance(15) {
            self.schema = self.random.below(self.schemas.len());
        }
        let version = VERSIONS[usize::from(self.random.chance(25))];
        let served: Vec<&str> =
            VERSIONS.into_iter().filter(|other| *other == version || !self.random.chance(4)).collect();
        let subresource = if self.live.is_some() && self.random.chance(15) { "status" } else { "" };
        let is_reset = self.random.chance(60);
        let reset = match (is_reset, subresource) {
            (false, _) => json!({}),
            (true, "") => json!({"f:status": {}}),
            (true, _) => json!({"f:spec": {}, "f:metadata": {}}),
        };
        let live = self.live.clone().unwrap_or_else(|| json!({"apiVersion": version, "kind": KIND}));
        let is_apply = self.random.chance(55);
        let manager = self.random.pick(&self.managers.clone()).clone();
        let force = self.random.chance(40);
        let object = match (&self.live, is_apply) {
            // With many managers, each has a field of its own, so that the owners add up.
            (Some(live), false) if self.managers.len() > 9 => {
                let mut object = live.clone();
                object["apiVersion"] = json!(version);
                object["metadata"]["labels"][&manager] = json!(self.now.to_string());
                object
            }
            (Some(live), false) => self.edited(&live.clone(), version),
            // Managers often apply their last configuration again, with additions.
            (_, true) if self.applied.contains_key(&manager) && self.random.chance(40) => {
                let mut object = self.applied[&manager].clone();
                object["apiVersion"] = json!(version);
                let other = self.configuration(version);
                for part in ["spec", "status"] {
                    if let (Some(Value::Object(fields)), Some(Value::Object(more))) =
                        (object.get_mut(part), other.get(part))
                    {
                        fields.extend(more.iter().take(1).map(|(name, value)| (name.clone(), value.clone())));
                    }
                }
                object
            }
            _ => self.configuration(version),
        };

        let definitions = Definitions::new(kind(&self.schemas[self.schema]).into_iter().collect(), false);
        let shape =
            |version: &str| definitions.shape(&format!("{KIND}.{}", version.rsplit('/').next().unwrap())).unwrap();
        let converter = SameSchema(served.iter().map(|version| ((*version).to_owned(), shape(version))).collect());
        let set = Set::from_value(&reset).unwrap();
        let reset_fields: Filter = VERSIONS.iter().map(|version| ((*version).to_owned(), set.clone())).collect();
        let field_manager = FieldManager {
            api_version: version,
            kind: KIND,
            subresource,
            converter: &converter,
            reset_fields: &reset_fields,
            empty: None,
            default: &|_| {},
        };
        let now = Timestamp(self.now);
        let result = if is_apply {
            field_manager.apply(&live, &object, ApplyOptions { manager: &manager, force, now })
        } else {
            field_manager.update(&live, object.clone(), &manager, now)
        };
        let question = json!({"kind": KIND, "schema": self.schema, "versions": served, "version": version, "subresource": subresource,
            "reset": {VERSIONS[0]: reset, VERSIONS[1]: reset}, "verb": if is_apply { "apply" } else { "update" }, "manager": manager,
            "force": force, "object": object, "live": live, "now": now.to_string()});
        if let (Ok(_), true) = (&result, is_apply) {
            self.applied.insert(manager.clone(), object.clone());
        }
        if let Ok(object) = &result {
            let mut stored = object.clone();
            stored["metadata"]["uid"] = json!("u");
            self.live = Some(stored);
        }
        let ours = spelled(result);
        Step { ours, question }
    }
}

/// Our result in the format of the oracle.
pub(crate) fn spelled(result: Result<Value, Error>) -> Value {
    match result {
        Ok(object) => json!({"object": object}),
        Err(Error::BadRequest(text)) => json!({"error": text, "code": 400}),
        Err(Error::Conflict(conflicts)) => {
            let causes = conflicts.0.iter().map(|conflict| {
                json!({"reason": "FieldManagerConflict", "message": conflict.message(), "field": conflict.field()})
            });
            json!({"error": conflicts.to_string(), "code": 409, "causes": causes.collect::<Vec<_>>()})
        }
        Err(error) => json!({"error": error.to_string()}),
    }
}

fn history(seed: u64) -> (Vec<Map<String, Value>>, Vec<Step>) {
    let random = &mut SeededRandom::new(seed + 5_000_000);
    let first = schemas::definitions(random);
    let mut all = vec![first.clone()];
    if random.chance(30) {
        all.extend(schemas::changed(random, &Value::Object(first)).as_object().cloned());
    }
    let managers: Vec<String> = if random.chance(10) {
        (0..16).map(|index| format!("m{index}")).collect()
    } else {
        ["m1", "m2", "kubectl", "kubectl", ""].map(str::to_owned).to_vec()
    };
    let (wrong, steps) = (if random.chance(10) { 4 } else { 0 }, if managers.len() > 9 { 30 } else { 8 });
    let mut history = History {
        random,
        schemas: all.clone(),
        schema: 0,
        live: None,
        now: 1_577_836_800,
        managers,
        applied: Map::new(),
        wrong,
    };
    let steps = (0..steps).map(|_| history.step()).collect();
    (all, steps)
}

/// Sorts causes and lines. An error without a code is a plain Go error.
pub(crate) fn comparable(answer: &Value) -> Value {
    let mut answer = integral_numbers(answer);
    if let Some(causes) = answer.get_mut("causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(ToString::to_string);
    }
    if let Some(text) = answer.get("error").and_then(Value::as_str) {
        answer["error"] = json!(sorted_lines(text));
    }
    answer
}

#[test]
fn objects_and_owners_come_out_as_upstream_has_them() {
    let histories: Vec<_> = (0..HISTORIES).map(history).collect();
    let questions: Vec<Value> = histories
        .iter()
        .map(|(schemas, steps)| {
            let schemas: Vec<_> = schemas.iter().map(kind).collect();
            json!({"op": "ssa", "schemas": schemas, "steps": steps.iter().map(|step| &step.question).collect::<Vec<_>>()})
        })
        .collect();
    let Some(answers) = ask("oracle", &questions) else { return };
    let (mut applied, mut updated, mut conflicts, mut refused, mut unordered, mut ancient, mut migrated) =
        (0, 0, 0, 0, 0, 0, 0);
    for ((schemas, steps), answer) in histories.iter().zip(answers) {
        for (step, upstream) in steps.iter().zip(answer["answers"].as_array().unwrap()) {
            let (ours, upstream) = (comparable(&step.ours), comparable(upstream));
            if ours == upstream {
                match (ours.get("object"), ours["code"].as_i64(), step.question["verb"] == "apply") {
                    (Some(_), _, true) => applied += 1,
                    (Some(_), _, false) => updated += 1,
                    (None, Some(409), _) => conflicts += 1,
                    _ => refused += 1,
                }
                let is_migration = step.question["manager"] == "kubectl"
                    && step.question["verb"] == "apply"
                    && step.question["force"] == false;
                migrated += usize::from(is_migration && step.question["live"].to_string().contains(ANNOTATION));
                ancient += usize::from(ours.to_string().contains("ancient-changes"));
                continue;
            }
            // Validation stops at the first unknown field in the order of a Go map; decode errors print Go structs.
            let is_error = |answer: &Value| answer.get("error").is_some() && answer.get("code").is_none();
            let schema = usize::try_from(step.question["schema"].as_u64().unwrap()).unwrap();
            assert!(
                is_error(&ours) && is_error(&upstream),
                "{}\n{}\nours {ours}\nupstream {upstream}",
                json!(schemas[schema]),
                step.question
            );
            unordered += 1;
        }
    }
    println!(
        "histories: {applied} applies, {updated} updates, {conflicts} conflicts, {refused} refused, {unordered} only by verdict, \
        {ancient} with folded owners, {migrated} over client-side apply"
    );
    assert!(applied > 1000 && updated > 1000 && conflicts > 100 && ancient > 0 && unordered < 50);
}
