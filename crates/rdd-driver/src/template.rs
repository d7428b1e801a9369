//! Parses the fields of a Lima template that drivers use, and compares and edits templates.

use std::collections::BTreeMap;

use rdd_meta::go_text::quote;
use serde_json::{Map, Value};

/// The maximum size of a template. The API server accepts objects of 1.5 MB.
pub const TEMPLATE_BYTES_MAX: usize = 1 << 20;

/// A parsed template: valid YAML, and every known field has the right type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    /// `vmType`, which selects the driver.
    pub vm_type: Option<String>,
    /// `cpus`.
    pub cpus: Option<u32>,
    /// `memory`, in bytes.
    pub memory_bytes: Option<u64>,
    /// `param`: values for scripts and drivers. Numbers and booleans are kept as they are written.
    pub param: BTreeMap<String, String>,
    /// The names of all top-level fields, sorted.
    pub fields: Vec<String>,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// Every problem, as a sentence for the template's author.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let fields = mapping(text).map_err(|problem| vec![problem])?;
        let mut problems = Vec::new();
        let mut note = |problem: Option<String>| problems.extend(problem);
        let mut template = Self { fields: fields.keys().cloned().collect(), ..Self::default() };
        for (name, value) in &fields {
            match name.as_str() {
                "vmType" => note(read_vm_type(value, &mut template.vm_type)),
                "cpus" => note(read_cpus(value, &mut template.cpus)),
                "memory" => note(read_memory(value, &mut template.memory_bytes)),
                "param" => note(read_param(value, &mut template.param)),
                _ => {}
            }
        }
        if problems.is_empty() { Ok(template) } else { Err(problems) }
    }
}

/// Reads only the `vmType`, from a template whose other fields may be invalid.
pub fn vm_type(text: &str) -> Result<Option<String>, String> {
    let mut vm_type = None;
    let problem = mapping(text)?.get("vmType").and_then(|value| read_vm_type(value, &mut vm_type));
    problem.map_or(Ok(vm_type), Err)
}

/// Parameters for the guest's next boot that the daemon applies itself until then: it starts and stops the cluster in
/// the guest, and holds its port.
const TOLD_LATER: [&str; 3] = ["  KUBERNETES_ENABLED: ", "  KUBERNETES_VERSION: ", "  KUBERNETES_PORT: "];
/// A line that all templates of the App have, and that is unlikely in a user's template.
const OF_THE_APP: &str = "\n  HOST_KUBERNETES_SOCKET: ";

/// Whether a machine that was started with one template has to be restarted to run with another.
///
/// Any difference requires a restart, because only Lima knows the effect of a line. The exception are the App's
/// parameters about Kubernetes, which the daemon applies at once.
pub fn needs_restart(started: &str, wanted: &str) -> bool {
    if started == wanted {
        return false;
    }
    // The App's template ends with `param`, so all lines after it are parameters.
    let lasting = |text: &'_ str| -> Option<Vec<String>> {
        let (head, param) = text.contains(OF_THE_APP).then(|| text.rsplit_once("\nparam:\n")).flatten()?;
        let kept = param.lines().filter(|line| !TOLD_LATER.iter().any(|told| line.starts_with(told)));
        Some(std::iter::once(head).chain(kept).map(str::to_owned).collect())
    };
    match (lasting(started), lasting(wanted)) {
        (Some(started), Some(wanted)) => started != wanted,
        _ => true,
    }
}

/// Sets parameters of a template; they take precedence over existing ones. The rest of the text stays as it is, and so
/// does a template that is not valid, for which the validation reports the error.
pub fn with_params(text: &str, params: &BTreeMap<String, String>) -> String {
    let (false, Ok(fields), Ok(template)) = (params.is_empty(), mapping(text), Template::parse(text)) else {
        return text.to_owned();
    };
    let mut param = template.param;
    param.extend(params.iter().map(|(name, value)| (name.clone(), value.clone())));
    let mut wanted = fields;
    let values = param.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    wanted.insert("param".to_owned(), Value::Object(values));
    let written = replace_param(text, &param);
    // Unusual notations, like `param` in flow style, are written again as JSON, which is also YAML.
    if mapping(&written).as_ref() == Ok(&wanted) { written } else { format!("{:#}\n", Value::Object(wanted)) }
}

/// Replaces the block `param` of a text by another one at its end.
fn replace_param(text: &str, param: &BTreeMap<String, String>) -> String {
    let mut written = String::with_capacity(text.len());
    let mut is_param = false;
    for line in text.lines() {
        if !line.starts_with([' ', '\t', '#']) && !line.is_empty() {
            is_param = line.starts_with("param:");
        }
        if !is_param {
            written.push_str(line);
            written.push('\n');
        }
    }
    written.push_str("param:\n");
    for (name, value) in param {
        // JSON strings are also YAML strings.
        written.push_str(&format!("  {}: {}\n", Value::from(name.as_str()), Value::from(value.as_str())));
    }
    written
}

/// Parses the top-level fields.
pub(crate) fn mapping(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Err("the template is empty".to_owned());
    }
    if text.len() > TEMPLATE_BYTES_MAX {
        return Err(format!("the template has {} bytes, and {TEMPLATE_BYTES_MAX} are the most", text.len()));
    }
    // `yes` and `y` are strings, as for Lima.
    let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(Value::Null) => Err("the template is empty".to_owned()),
        Ok(_) => Err("the template must be a mapping of fields".to_owned()),
        Err(error) => Err(format!("the template is no valid YAML: {error}")),
    }
}

/// An absent value or `default` selects the first driver.
fn read_vm_type(value: &Value, into: &mut Option<String>) -> Option<String> {
    match value {
        Value::Null => {}
        Value::String(text) => *into = Some(text.clone()).filter(|text| !text.is_empty() && text != "default"),
        _ => return Some(format!("field `vmType` must be a text, and is {value}")),
    }
    None
}

/// 0 and an absent value mean Lima's default.
fn read_cpus(value: &Value, into: &mut Option<u32>) -> Option<String> {
    if value.is_null() {
        return None;
    }
    let Some(count) = as_integer(value) else { return Some(format!("field `cpus` must be an integer, got {value}")) };
    match u32::try_from(count) {
        Ok(count) => *into = Some(count).filter(|count| *count > 0),
        Err(_) if count < 0 => return Some(format!("field `cpus` must not be negative, got {value}")),
        Err(_) => return Some(format!("field `cpus` is too large: {value}")),
    }
    None
}

/// An empty string and an absent value mean Lima's default.
fn read_memory(value: &Value, into: &mut Option<u64>) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => return Some(format!("field `memory` must be a string, got {value}")),
    };
    *into = parse_size(&text);
    size_problem(&text).map(|why| format!("field `memory` has an invalid value: {why}"))
}

/// An integer as Lima's YAML parser accepts it: also from a string or a fraction.
pub(crate) fn as_integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(truncate)),
        Value::String(text) => text.parse().ok().or_else(|| text.parse().ok().and_then(truncate)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn truncate(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "checked to be within the range")]
    (number.is_finite() && number.abs() < 9.0e18).then_some(number as i64)
}

/// The problem with a size, in the words of `units.RAMInBytes`.
pub(crate) fn size_problem(size: &str) -> Option<String> {
    let invalid = || Some(format!("invalid size: '{size}'"));
    let Some(last) = size.rfind(|c: char| c.is_ascii_digit() || matches!(c, '.' | ' ')) else { return invalid() };
    // All characters matched above are one byte long.
    let (number, suffix) = size.split_at(last + 1);
    let number = number.strip_suffix(' ').unwrap_or(number);
    match number.parse::<f64>() {
        Err(_) => return Some(format!("strconv.ParseFloat: parsing {}: invalid syntax", quote(number))),
        Ok(number_read) if number_read.is_infinite() => {
            return Some(format!("strconv.ParseFloat: parsing {}: value out of range", quote(number)));
        }
        Ok(number_read) if number_read < 0.0 => return invalid(),
        Ok(_) => {}
    }
    if suffix.len() > 3 {
        return Some(format!("invalid suffix: '{suffix}'"));
    }
    let lower = suffix.to_lowercase();
    let rest = lower.strip_prefix(['k', 'm', 'g', 't', 'p']).unwrap_or("?");
    let is_known = matches!(lower.as_str(), "" | "b") || matches!(rest, "" | "b" | "ib");
    (!is_known).then(|| format!("invalid suffix: '{lower}'"))
}

/// Parses a size as Lima does (docker/go-units `RAMInBytes`): units are powers of 1024, `B` or `iB` may follow.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start().to_ascii_lowercase();
    let power = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << (10 * power));
    }
    let fraction: f64 = number.parse().ok()?;
    let bytes = fraction * f64::from(1_u32 << 10).powi(power);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be within the range")]
    (bytes.is_finite() && (0.0..9.0e18).contains(&bytes)).then_some(bytes as u64)
}

fn read_param(value: &Value, into: &mut BTreeMap<String, String>) -> Option<String> {
    let Value::Object(entries) = value else {
        return (!value.is_null()).then(|| "field `param` must be a mapping of names to texts".to_owned());
    };
    for (name, value) in entries {
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => return Some(format!("field `param.{name}` must be a text")),
        };
        into.insert(name.clone(), text);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_precedence_over_the_templates_own_and_nothing_else_is_touched() {
        let params = |list: &[(&str, &str)]| -> BTreeMap<String, String> {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let given = params(&[("A", "new"), ("B", "it's \"odd\": #x $y")]);
        assert_eq!(with_params("cpus: 1", &params(&[])), "cpus: 1");
        assert_eq!(
            with_params("# mine\ncpus: 1 # one\n", &params(&[("A", "1")])),
            "# mine\ncpus: 1 # one\nparam:\n  \"A\": \"1\"\n"
        );
        for template in [
            "cpus: 1\nparam:\n  A: old\n  # why\n\n  C: 7\nimages: [x]\n",
            "param: {A: old, C: 7}\ncpus: 1\nimages: [x]",
            "param: {A: old,\nC: 7}\ncpus: 1\nimages: [x]",
            "\"param\":\n  A: old\n  C: 7\ncpus: 1\nimages: [x]",
            "{param: {A: old, C: 7}, cpus: 1, images: [x]}",
        ] {
            let merged = with_params(template, &given);
            let read = Template::parse(&merged).unwrap_or_else(|problems| panic!("{problems:?}\n{merged}"));
            assert_eq!(read.param, params(&[("A", "new"), ("B", "it's \"odd\": #x $y"), ("C", "7")]), "{merged}");
            assert_eq!((read.cpus, mapping(&merged).unwrap()["images"].clone()), (Some(1), serde_json::json!(["x"])));
        }
        for broken in ["", "[", "param: 7\n", "just words"] {
            assert_eq!(with_params(broken, &given), broken);
        }
    }

    #[test]
    fn only_what_the_app_says_of_kubernetes_can_change_without_a_restart() {
        let text =
            |cpus: u8, lines: &str| format!("cpus: {cpus}\nparam:\n  HOST_KUBERNETES_SOCKET: /s\n{lines}  LAST: 1\n");
        let off = text(1, "  KUBERNETES_ENABLED: false\n");
        let on = text(1, "  KUBERNETES_ENABLED: true\n  KUBERNETES_VERSION: \"1\"\n  KUBERNETES_PORT: 1\n");
        assert!(!needs_restart(&off, &on) && !needs_restart(&on, &off) && !needs_restart(&on, &on));
        assert!(needs_restart(&off, &text(2, "  KUBERNETES_ENABLED: false\n")));
        assert!(needs_restart(&off, &text(1, "  KUBERNETES_ENABLED: false\n  OTHER: 1\n")));
        let mine = |value: &str| format!("cpus: 1\nparam:\n  KUBERNETES_VERSION: {value}\n");
        assert!(needs_restart(&mine("1"), &mine("2")), "in a template of one's own the name may mean anything");
        assert!(needs_restart("cpus: 1\n", "cpus: 1\n# a comment\n"));
    }

    #[test]
    fn what_drivers_need_is_read_and_the_rest_is_only_named() {
        let text = "# ours\nvmType: host\ncpus: 2\nmemory: \"6442450944\"\nimages: []\nparam:\n  CONTAINER_ENGINE: moby\n  \
                    KUBERNETES_ENABLED: true\n  KUBERNETES_PORT: 0\n  GUEST_LOG_DIR: \"\"\n";
        let template = Template::parse(text).unwrap();
        assert_eq!(template.vm_type.as_deref(), Some("host"));
        assert_eq!((template.cpus, template.memory_bytes), (Some(2), Some(6_442_450_944)));
        let params: Vec<_> = template.param.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            params,
            [
                ("CONTAINER_ENGINE", "moby"),
                ("GUEST_LOG_DIR", ""),
                ("KUBERNETES_ENABLED", "true"),
                ("KUBERNETES_PORT", "0")
            ]
        );
        assert_eq!(template.fields, ["cpus", "images", "memory", "param", "vmType"]);
    }

    // Finding E-2
    #[test]
    fn a_word_is_no_boolean() {
        let template = Template::parse("param: {A: yes, B: n, C: off, D: true}\n").unwrap();
        let values: Vec<&str> = template.param.values().map(String::as_str).collect();
        assert_eq!(values, ["yes", "n", "off", "true"]);
    }

    // Finding E-2. Lima accepts each of the former.
    #[test]
    fn processors_memory_and_type_are_read_as_lima_reads_them() {
        for (text, cpus, memory_bytes) in [
            ("cpus: 0\nmemory: ''\nvmType: ''\n", None, None),
            ("cpus: null\nmemory: null\nvmType: default\n", None, None),
            ("cpus: '3'\nmemory: 4GiB\n", Some(3), Some(4 << 30)),
            ("cpus: 1.5\nmemory: 1e3\n", Some(1), Some(1000)),
        ] {
            let template = Template::parse(text).unwrap();
            assert_eq!((template.cpus, template.memory_bytes, template.vm_type), (cpus, memory_bytes, None), "{text}");
            assert_eq!(vm_type(text), Ok(None), "{text}");
        }
        for (text, problem) in [
            ("cpus: -1\n", "field `cpus` must not be negative, got -1"),
            ("cpus: true\n", "field `cpus` must be an integer, got true"),
            ("memory: [1]\n", "field `memory` must be a string, got [1]"),
            ("memory: 5XB\n", "field `memory` has an invalid value: invalid suffix: 'xb'"),
        ] {
            assert_eq!(Template::parse(text).unwrap_err(), [problem], "{text}");
        }
        assert!(vm_type("vmType: 7\n").is_err());
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let problems =
            Template::parse("vmType: 7\ncpus: two\nmemory: lots\nparam:\n  A: [1]\n").unwrap_err().join("\n");
        assert_eq!(
            problems,
            "field `cpus` must be an integer, got \"two\"\n\
             field `memory` has an invalid value: invalid size: 'lots'\n\
             field `param.A` must be a text\n\
             field `vmType` must be a text, and is 7"
        );
    }

    #[test]
    fn what_is_no_mapping_is_refused_in_words() {
        for (text, problem) in [
            ("", "the template is empty"),
            (" \n\n", "the template is empty"),
            ("# nothing\n", "the template is empty"),
            ("- a\n", "the template must be a mapping of fields"),
            ("just words", "the template must be a mapping of fields"),
        ] {
            assert_eq!(Template::parse(text).unwrap_err(), [problem], "{text:?}");
        }
        for text in ["a: [", "a: b: c", "a: 1\na: 2\n", "a: &x [*x]\n", "\0"] {
            assert!(Template::parse(text).is_err(), "{text:?} must be refused");
        }
        assert!(Template::parse(&"a".repeat(TEMPLATE_BYTES_MAX + 1)).unwrap_err()[0].contains("bytes"));
    }

    #[test]
    fn sizes_are_read_as_lima_reads_them() {
        for (text, bytes) in [
            ("4GiB", Some(4 << 30)),
            ("4G", Some(4 << 30)),
            ("4gb", Some(4 << 30)),
            ("1.5 GiB", Some(3 << 29)),
            ("512MiB", Some(512 << 20)),
            ("1048576", Some(1 << 20)),
            ("", None),
            ("GiB", None),
            ("-1", None),
            ("1e3", None),
            ("4 GiB of it", None),
            ("99999999999999999999", None),
            ("99999999PiB", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text:?}");
        }
    }
}
