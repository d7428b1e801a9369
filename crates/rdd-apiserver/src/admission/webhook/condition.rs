//! Match conditions: CEL expressions that decide, after rules and selectors, whether a webhook is called.

use std::sync::{Arc, LazyLock};

use rdd_cel::{
    Authorization, CompileError, Environment, Fault, Program, Type, TypeProvider, Value as Cel, rules::PER_CALL_LIMIT,
};
use serde_json::Value;

/// The cost budget of all conditions of one webhook together.
const BUDGET: u64 = 2_500_000;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The error of a match condition's expression, in upstream's words; `None` if it is valid. Expects the expression as
/// written: upstream's validation trims it first, and requires one that is not empty.
pub fn match_condition_error(expression: &str) -> Option<String> {
    compile(expression).err()
}

/// The compiled conditions of one webhook. All must hold.
#[derive(Debug, Default)]
pub(super) struct Conditions(Vec<Condition>);

#[derive(Debug)]
struct Condition {
    expression: String,
    program: Result<Program, String>,
}

/// The variables of an evaluation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variables<'a> {
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
    /// The request of the review, without uid and objects.
    pub(super) request: &'a Value,
}

impl Conditions {
    pub(super) fn compile(expressions: impl IntoIterator<Item = String>) -> Self {
        let condition = |expression: String| Condition { program: compile(&expression), expression };
        Self(expressions.into_iter().map(condition).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all conditions hold. A condition that evaluates to false decides, even if another fails; otherwise a
    /// failure is an error.
    pub(super) fn hold(&self, variables: &Variables<'_>) -> Result<bool, String> {
        let mut budget = BUDGET;
        let mut held = true;
        let mut errors: Vec<String> = Vec::new();
        for condition in &self.0 {
            match condition.holds(variables, &mut budget)? {
                Ok(holds) => held &= holds,
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
        }
        match &errors[..] {
            _ if !held => Ok(false),
            [] => Ok(true),
            [only] => Err(only.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

impl Condition {
    /// Evaluates one condition. The inner error is a failure of this condition; the outer error ends the evaluation
    /// of all.
    fn holds(&self, variables: &Variables<'_>, budget: &mut u64) -> Result<Result<bool, String>, String> {
        let program = match &self.program {
            Ok(program) => program,
            Err(error) => return Ok(Err(format!("compilation error: {error}"))),
        };
        let bound = [
            ("object", Ok(json(variables.object))),
            ("oldObject", Ok(json(variables.old))),
            ("request", Ok(json(Some(variables.request)))),
            ("namespaceObject", Ok(Cel::Null)),
            ("authorizer", Ok(Cel::Authorization(Authorization::Authorizer))),
            ("authorizer.requestResource", Ok(Cel::Authorization(Authorization::ResourceCheck))),
        ];
        let evaluation = program.evaluate(&bound, PER_CALL_LIMIT);
        *budget = budget.checked_sub(evaluation.cost).ok_or(OUT_OF_BUDGET)?;
        let failed = |why: &dyn std::fmt::Display| format!("expression '{}' resulted in error: {why}", self.expression);
        Ok(match evaluation.outcome {
            Ok(Cel::Bool(holds)) => Ok(holds),
            // The checker accepts only bool; upstream treats everything that is not false as true.
            Ok(_) => Ok(true),
            Err(fault @ (Fault::Error(_) | Fault::CostLimit | Fault::Internal(_))) => Err(failed(&fault)),
        })
    }
}

fn json(value: Option<&Value>) -> Cel<'_> {
    value.map_or(Cel::Null, Cel::from_json)
}

fn compile(expression: &str) -> Result<Program, String> {
    static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(environment);
    let program = ENVIRONMENT.compile(expression).map_err(|error| match error {
        CompileError::Program(why) => format!("program instantiation failed: {why}"),
        issues => format!("compilation failed: {issues}"),
    })?;
    match program.output_type() {
        Type::Bool => Ok(program),
        other => Err(format!("must evaluate to bool but got {other}")),
    }
}

/// The CEL environment of match conditions.
fn environment() -> Environment {
    Environment::new()
        .with_types(Arc::new(Types))
        .with_variable("object", Type::Dyn)
        .with_variable("oldObject", Type::Dyn)
        .with_variable("namespaceObject", structure("Namespace"))
        .with_variable("request", structure("AdmissionRequest"))
        .with_variable("authorizer", structure("authorization.Authorizer"))
        .with_variable("authorizer.requestResource", structure("authorization.ResourceCheck"))
}

fn structure(name: &str) -> Type {
    Type::Struct(format!("kubernetes.{name}").into())
}

/// The object types of those variables. Mirrors `BuildRequestType` and `BuildNamespaceType` of upstream's
/// `plugin/cel`.
struct Types;

/// The fields of an object type, as words: a name, a colon, a type.
fn fields(object: &str) -> Option<&'static str> {
    Some(match object.strip_prefix("kubernetes.")? {
        "AdmissionRequest" => {
            "kind:GroupVersionKind resource:GroupVersionResource subResource:string requestKind:GroupVersionKind \
             requestResource:GroupVersionResource requestSubResource:string name:string namespace:string \
             operation:string userInfo:UserInfo dryRun:bool options:dyn"
        }
        "GroupVersionKind" => "group:string version:string kind:string",
        "GroupVersionResource" => "group:string version:string resource:string",
        "UserInfo" => "username:string uid:string groups:strings extra:lists",
        "Namespace" => "metadata:NamespaceMetadata spec:NamespaceSpec status:NamespaceStatus",
        "NamespaceMetadata" => {
            "name:string generateName:string namespace:string labels:texts annotations:texts UID:string \
             creationTimestamp:time deletionGracePeriodSeconds:int deletionTimestamp:time generation:int \
             resourceVersion:string finalizers:strings"
        }
        "NamespaceSpec" => "finalizers:strings",
        "NamespaceStatus" => "conditions:conditions phase:string",
        "NamespaceCondition" => "status:string type:string lastTransitionTime:time message:string reason:string",
        "authorization.Authorizer" | "authorization.ResourceCheck" => "",
        _ => return None,
    })
}

impl TypeProvider for Types {
    fn is_declared(&self, object: &str) -> bool {
        fields(object).is_some()
    }

    fn field(&self, object: &str, field: &str) -> Option<Type> {
        let mut fields = fields(object)?.split_whitespace().filter_map(|pair| pair.split_once(':'));
        let (_, kind) = fields.find(|(name, _)| *name == field)?;
        Some(match kind {
            "string" => Type::String,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "time" => Type::Timestamp,
            "dyn" => Type::Dyn,
            "strings" => Type::list(Type::String),
            "texts" => Type::map(Type::String, Type::String),
            "lists" => Type::map(Type::String, Type::list(Type::String)),
            "conditions" => Type::list(structure("NamespaceCondition")),
            object => structure(object),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hold(expressions: &[&str]) -> Result<bool, String> {
        let conditions = Conditions::compile(expressions.iter().map(|&text| text.to_owned()));
        let object = json!({"metadata": {"name": "x", "labels": {"on": "1"}}, "data": {"many": "x".repeat(100)}});
        let request = json!({
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "operation": "CREATE",
            "userInfo": {"username": "admin", "groups": ["a", "b"]}, "dryRun": false, "options": {"kind": "CreateOptions"},
        });
        conditions.hold(&Variables { object: Some(&object), old: None, request: &request })
    }

    #[test]
    fn conditions_see_the_objects_and_the_request() {
        for expression in [
            "object.metadata.labels.on == '1'",
            "oldObject == null",
            "request.operation == 'CREATE' && request.kind.kind == 'ConfigMap'",
            "'b' in request.userInfo.groups && !request.dryRun",
            "request.options.kind == 'CreateOptions'",
            "!has(request.namespace)",
            "namespaceObject == null",
        ] {
            assert_eq!(hold(&[expression]), Ok(true), "{expression}");
        }
    }

    #[test]
    fn one_that_is_false_decides_and_otherwise_an_error_does() {
        let missing = "object.metadata.uid == 'u'";
        let error = "expression 'object.metadata.uid == 'u'' resulted in error: no such key: uid";
        assert_eq!(hold(&["true", "false"]), Ok(false));
        assert_eq!(hold(&[missing, "false"]), Ok(false));
        assert_eq!(hold(&[missing, "true"]), Err(error.to_owned()));
        assert_eq!(hold(&[missing, missing]), Err(error.to_owned()));
        let two = hold(&[missing, "oldObject.x"]).unwrap_err();
        assert!(two.starts_with(&format!("[{error}, ")) && two.ends_with(']'), "{two}");
    }

    #[test]
    fn everybody_may_do_everything_and_conditions_can_ask() {
        for expression in [
            "authorizer.group('').resource('pods').check('get').allowed()",
            "authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('d').check('get').allowed()",
            "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('((').check('list').allowed()",
            "authorizer.path('/healthz').check('get').allowed()",
            "authorizer.serviceAccount('default', 'x').path('/').check('get').reason() == ''",
            "authorizer.requestResource.check('delete').allowed() && authorizer.requestResource.check('x').error() == ''",
            "!authorizer.requestResource.check('delete').errored()",
        ] {
            assert_eq!(hold(&[expression]), Ok(true), "{expression}");
        }
        for (expression, why) in [
            ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
            ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
            (
                "authorizer.serviceAccount('default', 'X').path('/').check('get').allowed()",
                "Invalid service account name",
            ),
            (
                "authorizer.serviceAccount('d.d', 'x').path('/').check('get').allowed()",
                "Invalid service account namespace",
            ),
            ("authorizer == authorizer", "no such overload"),
        ] {
            let error = hold(&[expression]).unwrap_err();
            assert_eq!(error, format!("expression '{expression}' resulted in error: {why}"));
        }
        let thrice = ["authorizer.path('/').check('get').allowed()"; 3].join(" && ");
        let error = hold(&[&thrice]).unwrap_err();
        assert!(
            error.ends_with("operation cancelled: actual cost limit exceeded"),
            "two checks are what one may cost: {error}"
        );
    }

    #[test]
    fn the_cost_of_one_and_of_all_is_bounded() {
        let dear = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, \
                    [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a + b + c + d + e > 0)))))";
        let error = hold(&[dear]).unwrap_err();
        assert!(error.ends_with("operation cancelled: actual cost limit exceeded"), "{error}");
        assert_eq!(hold(&[dear; 3]), Err(OUT_OF_BUDGET.to_owned()));
    }

    #[test]
    fn an_expression_that_is_none_is_told_in_upstreams_words() {
        assert_eq!(match_condition_error("object.a == 1"), None);
        assert_eq!(match_condition_error("authorizer.requestResource.check('get').allowed()"), None);
        assert_eq!(match_condition_error("'a'").unwrap(), "must evaluate to bool but got string");
        assert_eq!(match_condition_error("object.a").unwrap(), "must evaluate to bool but got dyn");
        let undeclared = match_condition_error("params.a").unwrap();
        assert!(
            undeclared.starts_with("compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'"),
            "{undeclared}"
        );
        let field = match_condition_error("request.object.a == 1").unwrap();
        assert!(field.contains("undefined field 'object'"), "{field}");
    }
}
