//! Checks the types of a template's fields against `LimaYAML` of Lima 2.

use std::net::IpAddr;

use serde_json::Value;

use super::{Problems, shown, values::as_integer};

/// The type of a value. `null` always counts as absent.
#[derive(Debug)]
enum Shape {
    /// A string; numbers and booleans count as written.
    Text,
    Flag,
    Integer,
    /// An integer from 0 to 2³²-1.
    Count,
    Address,
    /// A mapping of names to strings.
    Texts,
    List(&'static Shape),
    Fields(&'static [(&'static str, Shape)]),
    /// A mapping of these fields, or a string as a short form of it.
    Short(&'static [(&'static str, Shape)]),
    /// One [`Shape::Short`], or a list of them.
    OneOrMore(&'static [(&'static str, Shape)]),
    /// Not checked: Lima's drivers interpret it.
    Any,
}

use Shape::{Address, Any, Count, Fields, Flag, Integer, List, OneOrMore, Short, Text, Texts};

const LOCATION: (&str, Shape) = ("location", Text);
const ARCH: (&str, Shape) = ("arch", Text);
const DIGEST: (&str, Shape) = ("digest", Text);
const LOCATOR: &[(&str, Shape)] = &[("url", Text), ("digest", Text)];
const ROSETTA: &[(&str, Shape)] = &[("enabled", Flag), ("binfmt", Flag)];

#[rustfmt::skip]
static TEMPLATE: &[(&str, Shape)] = &[
    ("base", OneOrMore(LOCATOR)),
    ("minimumLimaVersion", Text),
    ("vmType", Text),
    ("vmOpts", Fields(&[("qemu", Fields(&[("minimumVersion", Text), ("cpuType", Texts)])), ("vz", Any), ("wsl2", Any)])),
    ("os", Text),
    ("arch", Text),
    ("images", List(&Fields(&[
        LOCATION, ARCH, DIGEST,
        ("kernel", Fields(&[LOCATION, ARCH, DIGEST, ("cmdline", Text)])),
        ("initrd", Fields(&[LOCATION, ARCH, DIGEST])),
    ]))),
    ("cpuType", Texts),
    ("cpus", Integer),
    ("memory", Text),
    ("disk", Text),
    ("additionalDisks", List(&Short(&[("name", Text), ("format", Flag), ("fsType", Text), ("fsArgs", List(&Text))]))),
    ("mounts", List(&Fields(&[
        ("location", Text),
        ("mountPoint", Text),
        ("writable", Flag),
        ("sshfs", Fields(&[("cache", Flag), ("followSymlinks", Flag), ("sftpDriver", Text)])),
        ("9p", Fields(&[("securityModel", Text), ("protocolVersion", Text), ("msize", Text), ("cache", Text)])),
        ("virtiofs", Fields(&[("queueSize", Integer)])),
    ]))),
    ("mountTypesUnsupported", List(&Text)),
    ("mountType", Text),
    ("mountInotify", Flag),
    ("ssh", Fields(&[
        ("address", Text), ("localPort", Integer), ("loadDotSSHPubKeys", Flag), ("forwardAgent", Flag),
        ("forwardX11", Flag), ("forwardX11Trusted", Flag), ("overVsock", Flag),
    ])),
    ("firmware", Fields(&[("legacyBIOS", Flag), ("images", List(&Fields(&[LOCATION, ARCH, DIGEST, ("vmType", Text)])))])),
    ("audio", Fields(&[("device", Text)])),
    ("video", Fields(&[("display", Text), ("vnc", Fields(&[("display", Text)]))])),
    ("provision", List(&Fields(&[
        ("mode", Text), ("skipDefaultDependencyResolution", Flag), ("script", Text), ("file", Short(LOCATOR)),
        ("playbook", Text), ("content", Text), ("overwrite", Flag), ("owner", Text), ("path", Text),
        ("permissions", Text), ("expression", Text), ("format", Text),
    ]))),
    ("upgradePackages", Flag),
    ("containerd", Fields(&[("system", Flag), ("user", Flag), ("archives", List(&Fields(&[LOCATION, ARCH, DIGEST])))])),
    ("guestInstallPrefix", Text),
    ("probes", List(&Fields(&[
        ("mode", Text), ("description", Text), ("script", Text), ("file", Short(LOCATOR)), ("hint", Text),
    ]))),
    ("portForwards", List(&Fields(&[
        ("guestIPMustBeZero", Flag), ("guestIP", Address), ("guestPort", Integer), ("guestPortRange", List(&Integer)),
        ("guestSocket", Text), ("hostIP", Address), ("hostPort", Integer), ("hostPortRange", List(&Integer)),
        ("hostSocket", Text), ("proto", Text), ("reverse", Flag), ("ignore", Flag), ("static", Flag),
    ]))),
    ("copyToHost", List(&Fields(&[("guest", Text), ("host", Text), ("deleteOnStop", Flag)]))),
    ("message", Text),
    ("networks", List(&Fields(&[
        ("lima", Text), ("socket", Text), ("vzNAT", Flag), ("macAddress", Text), ("interface", Text), ("metric", Count),
    ]))),
    ("env", Texts),
    ("param", Texts),
    ("dns", List(&Address)),
    ("hostResolver", Fields(&[("enabled", Flag), ("ipv6", Flag), ("hosts", Texts)])),
    ("propagateProxyEnv", Flag),
    ("caCerts", Fields(&[("removeDefaults", Flag), ("files", List(&Text)), ("certs", List(&Text))])),
    ("rosetta", Fields(ROSETTA)),
    ("plain", Flag),
    ("timezone", Text),
    ("nestedVirtualization", Flag),
    ("user", Fields(&[("name", Text), ("comment", Text), ("home", Text), ("shell", Text), ("uid", Count)])),
];

/// Reports every value whose type is not that of Lima's field.
pub(super) fn check_template(root: &Value, problems: &mut Problems) {
    check_fields(root, TEMPLATE, "", problems);
}

fn check(value: &Value, shape: &'static Shape, field: &str, problems: &mut Problems) {
    if value.is_null() {
        return;
    }
    let expected = match shape {
        Text => (value.is_array() || value.is_object()).then_some("a string"),
        Flag => (!value.is_boolean()).then_some("true or false"),
        Integer => as_integer(value).is_none().then_some("an integer"),
        Count => {
            // Go decodes these fields into uint32.
            let is_count = as_integer(value).is_some_and(|number| u32::try_from(number).is_ok());
            (!is_count).then_some("an integer from 0 to 4294967295")
        }
        Address => (!is_address(value)).then_some("an IP address"),
        Texts => match value.as_object() {
            Some(entries) => {
                for (name, entry) in entries {
                    check(entry, &Text, &format!("{field}.{name}"), problems);
                }
                None
            }
            None => Some("a mapping of names to strings"),
        },
        List(of) => match value.as_array() {
            Some(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    check(entry, of, &format!("{field}[{index}]"), problems);
                }
                None
            }
            None => Some("a list"),
        },
        Fields(fields) => check_fields(value, fields, field, problems),
        Short(fields) if value.is_object() => check_fields(value, fields, field, problems),
        OneOrMore(fields) if value.is_object() => check_fields(value, fields, field, problems),
        OneOrMore(fields) if value.is_array() => {
            for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
                if entry.is_object() {
                    check_fields(entry, fields, &format!("{field}[{index}]"), problems);
                } else {
                    check(entry, &Text, &format!("{field}[{index}]"), problems);
                }
            }
            None
        }
        Short(_) | OneOrMore(_) => value.is_array().then_some("a string or a mapping of fields"),
        Any => None,
    };
    if let Some(expected) = expected {
        problems.add(format!("field `{field}` must be {expected}, got {}", describe(value)));
    }
}

/// Checks the known fields. Returns the expected type if the value is not a mapping.
fn check_fields(
    value: &Value,
    fields: &'static [(&'static str, Shape)],
    field: &str,
    problems: &mut Problems,
) -> Option<&'static str> {
    let Some(entries) = value.as_object() else { return Some("a mapping of fields") };
    // Iterate over the known fields, so that unknown ones are ignored, as in Lima.
    for (name, shape) in fields {
        if let Some(entry) = entries.get(*name) {
            let path = if field.is_empty() { (*name).to_owned() } else { format!("{field}.{name}") };
            check(entry, shape, &path, problems);
        }
    }
    None
}

fn is_address(value: &Value) -> bool {
    // An empty string means the default address.
    value.as_str().is_some_and(|text| text.is_empty() || text.parse::<IpAddr>().is_ok())
}

fn describe(value: &Value) -> String {
    match value {
        Value::String(text) => shown(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
