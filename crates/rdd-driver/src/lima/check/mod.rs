//! Validates a template by the rules of Lima 2 without `limactl`, for hosts that download it with their first machine.
//!
//! The rules, their order and their messages are those of `limactl template validate`. Unknown fields are accepted, as
//! in Lima, which logs a warning. Rules that need Lima itself apply once it is there: they concern files and folders
//! that a template names, the content of a `base` or a `file`, and Go templates (`{{.Dir}}`) in values.
//!
//! Pure, and linear in the size of the template.

#[cfg(any(test, feature = "suite"))]
pub mod cases;
mod forwards;
mod params;
mod shape;
mod values;

use std::borrow::Cow;

use rdd_meta::go_text::quote;
use serde_json::Value;

use crate::template;

/// The maximum number of problems that are listed; more are only counted.
const PROBLEMS_MAX: usize = 20;
/// The maximum number of characters of a value in a message.
const SHOWN_CHARS_MAX: usize = 200;

/// `ArchTypes` of Lima, in its order.
const ARCHITECTURES: [&str; 6] = ["x86_64", "aarch64", "armv7l", "ppc64le", "riscv64", "s390x"];
/// `OSTypes` of Lima, in its order.
const SYSTEMS: [&str; 3] = ["Linux", "Darwin", "FreeBSD"];
const MOUNT_TYPES: [&str; 4] = ["reverse-sshfs", "9p", "virtiofs", "wsl2"];
const PROVISION_MODES: [&str; 7] = ["system", "user", "boot", "data", "dependency", "ansible", "yq"];
/// Folders of the guest that a mount may not cover.
const SYSTEM_PATHS: [&str; 10] = ["/", "/bin", "/dev", "/etc", "/home", "/opt", "/sbin", "/tmp", "/usr", "/var"];

/// The facts besides the template on which rules depend.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckContext {
    /// The version of Lima that will run it.
    pub(super) lima_version: &'static str,
    /// Whether `default.yaml` or `override.yaml` in Lima's settings add to every template.
    pub(super) has_global_settings: bool,
    /// Whether `networks.yaml` in Lima's settings may define further networks.
    pub(super) has_own_networks: bool,
}

/// All problems of a template, as sentences for its author. Empty if Lima would accept it.
pub(super) fn find_problems(template: &str, context: &CheckContext) -> Vec<String> {
    let root = match template::mapping(template) {
        Ok(fields) => Value::Object(fields),
        Err(problem) => return vec![problem],
    };
    let mut problems = Problems::default();
    shape::check_template(&root, &mut problems);
    // The rules assume the right types, so they run only if all types are right.
    if problems.is_empty() {
        Rules { root: &root, context }.check(&mut problems);
    }
    problems.into_list()
}

/// A list of problems in order. Only the first ones are kept.
#[derive(Debug, Default)]
struct Problems {
    list: Vec<String>,
    unlisted: usize,
}

impl Problems {
    fn add(&mut self, problem: String) {
        // A hostile template could otherwise produce megabytes of messages.
        if self.list.len() < PROBLEMS_MAX { self.list.push(problem) } else { self.unlisted += 1 }
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn into_list(mut self) -> Vec<String> {
        if self.unlisted > 0 {
            self.list.push(format!("and {} more", self.unlisted));
        }
        self.list
    }
}

/// A value in the format of Go's `%q`, shortened.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", quote(&text[..end])),
        None => quote(text),
    }
}

/// The text of a scalar; numbers and booleans count as written, as in Lima. `None` if it is absent or null.
fn text_of<'v>(value: &'v Value, name: &str) -> Option<Cow<'v, str>> {
    scalar_text(value.get(name)?)
}

fn scalar_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(_) | Value::Bool(_) => Some(Cow::Owned(value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Like [`text_of`], but an empty text counts as absent.
fn given<'v>(value: &'v Value, name: &str) -> Option<Cow<'v, str>> {
    text_of(value, name).filter(|text| !text.is_empty())
}

fn flag_of(value: &Value, name: &str) -> Option<bool> {
    value.get(name)?.as_bool()
}

fn items<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Whether a text contains no Go template, which only Lima can resolve.
fn is_literal(text: &str) -> bool {
    !text.contains("{{")
}

/// A list in the format of Go's `%v`: `[a b c]`.
fn listed(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    format!("[{}]", words.join(" "))
}

struct Rules<'a> {
    root: &'a Value,
    context: &'a CheckContext,
}

impl Rules<'_> {
    fn check(&self, problems: &mut Problems) {
        self.check_versions(problems);
        self.check_machine(problems);
        self.check_images(problems);
        self.check_sizes(problems);
        let is_plain = flag_of(self.root, "plain").unwrap_or_default();
        // In a plain machine, Lima sets up no mounts and no containerd.
        if !is_plain {
            self.check_mounts(problems);
        }
        self.check_mount_type(problems);
        for (index, provision) in items(self.root, "provision").enumerate() {
            check_provision(index, provision, problems);
        }
        if !is_plain {
            self.check_containerd(problems);
        }
        for (index, probe) in items(self.root, "probes").enumerate() {
            check_probe(index, probe, problems);
        }
        for (index, rule) in items(self.root, "portForwards").enumerate() {
            if !is_plain || flag_of(rule, "static").unwrap_or_default() {
                forwards::check_port_forward(index, rule, problems);
            }
        }
        for (index, rule) in items(self.root, "copyToHost").enumerate() {
            for (name, value) in ["guest", "host"].map(|name| (name, given(rule, name))) {
                if let Some(path) = value.filter(|path| is_literal(path) && !path.starts_with('/')) {
                    let shown = shown(&path);
                    problems
                        .add(format!("field `CopyToHost[{index}].{name}` must be an absolute path, but is {shown}"));
                }
            }
        }
        let resolver = self.root.get("hostResolver").and_then(|resolver| flag_of(resolver, "enabled"));
        if resolver.unwrap_or(true) && items(self.root, "dns").next().is_some() {
            problems.add("field `dns` must be empty when field `HostResolver.Enabled` is true".to_owned());
        }
        forwards::check_networks(items(self.root, "networks"), self.context.has_own_networks, problems);
        params::check(self.root, self.is_whole(), problems);
    }

    /// Whether the template is complete: it has no base, and there are no global settings.
    fn is_whole(&self) -> bool {
        let has_base = match self.root.get("base") {
            None | Some(Value::Null) => false,
            Some(Value::Array(bases)) => !bases.is_empty(),
            Some(base) => scalar_text(base).is_none_or(|text| !text.is_empty()),
        };
        !has_base && !self.context.has_global_settings
    }

    /// The guest's architecture: the template's, else this host's.
    fn architecture(&self) -> Cow<'_, str> {
        // In Lima, `default` and an absent value mean the host's.
        let named = given(self.root, "arch").filter(|name| *name != "default");
        named.unwrap_or(Cow::Borrowed(std::env::consts::ARCH))
    }

    fn check_versions(&self, problems: &mut Problems) {
        if let Some(wanted) = text_of(self.root, "minimumLimaVersion") {
            match values::lima_version(&wanted) {
                Err(why) => problems
                    .add(format!("field `minimumLimaVersion` must be a semvar value, got {}: {why}", shown(&wanted))),
                Ok(version) if values::lima_version(self.context.lima_version).is_ok_and(|ours| ours < version) => {
                    let ours = quote(self.context.lima_version);
                    problems.add(format!("template requires Lima version {}; this is only {ours}", shown(&wanted)));
                }
                Ok(_) => {}
            }
        }
        let qemu = self.root.get("vmOpts").and_then(|options| options.get("qemu"));
        if let Some(wanted) = qemu.and_then(|qemu| text_of(qemu, "minimumVersion"))
            && let Err(why) = values::semantic_version(&wanted)
        {
            let shown = shown(&wanted);
            problems.add(format!("field `vmOpts.qemu.minimumVersion` must be a semvar value, got {shown}: {why}"));
        }
    }

    fn check_machine(&self, problems: &mut Problems) {
        let system = given(self.root, "os").filter(|name| *name != "default");
        if let Some(system) = system.filter(|name| !SYSTEMS.contains(&name.as_ref())) {
            let known = listed(&SYSTEMS.map(quote));
            problems.add(format!("field `os` must be one of {known}; got {}", shown(&system)));
        }
        self.check_architecture(&self.architecture(), problems);
    }

    fn check_architecture(&self, architecture: &str, problems: &mut Problems) {
        if !ARCHITECTURES.contains(&architecture) {
            let known = listed(&ARCHITECTURES);
            problems.add(format!("field `arch` must be one of {known}; got {}", shown(architecture)));
        }
    }

    fn check_images(&self, problems: &mut Problems) {
        // A base could define the images.
        if items(self.root, "images").next().is_none() && self.is_whole() {
            problems.add("field `images` must be set".to_owned());
        }
        for (index, image) in items(self.root, "images").enumerate() {
            let field = format!("images[{index}]");
            let architecture = given(image, "arch").unwrap_or_else(|| self.architecture());
            self.check_file(image, &field, &architecture, problems);
            for part in ["kernel", "initrd"] {
                let Some(file) = image.get(part).filter(|file| !file.is_null()) else { continue };
                let field = format!("{field}.{part}");
                let own = given(file, "arch").unwrap_or_else(|| architecture.clone());
                self.check_file(file, &field, &own, problems);
                if own != architecture {
                    let (own, wanted) = (shown(&own), shown(&architecture));
                    problems.add(format!("{field} has unexpected architecture {own}, must be {wanted}"));
                }
            }
        }
    }

    /// Checks a file that Lima downloads or reads. As in Lima, its existence is not checked.
    fn check_file(&self, file: &Value, field: &str, architecture: &str, problems: &mut Problems) {
        let location = text_of(file, "location").unwrap_or_default();
        if !location.contains("://")
            && let Some(why) = values::unexpandable(&location)
        {
            let shown = shown(&location);
            problems.add(format!("field `{field}.location` refers to an invalid local file path: {shown}: {why}"));
        }
        self.check_architecture(architecture, problems);
        if let Some(digest) = given(file, "digest")
            && let Some(why) = values::digest_problem(&digest)
        {
            problems.add(format!("field `{field}.digest` is invalid: {digest}: {why}"));
        }
    }

    fn check_sizes(&self, problems: &mut Problems) {
        for name in ["memory", "disk"] {
            if let Some(why) = given(self.root, name).and_then(|size| values::size_problem(&size)) {
                problems.add(format!("field `{name}` has an invalid value: {why}"));
            }
        }
        for (index, disk) in items(self.root, "additionalDisks").enumerate() {
            let name = scalar_text(disk).or_else(|| text_of(disk, "name")).unwrap_or_default();
            if let Some(why) = values::identifier_problem(&name) {
                // Lima's message has the backtick in this place.
                problems.add(format!("field `additionalDisks[{index}].name is invalid`: {why}"));
            }
        }
        let ssh_port = self.root.get("ssh").map_or(0, |ssh| values::integer_of(ssh, "localPort"));
        // 0 lets Lima choose a port.
        if ssh_port != 0 {
            forwards::check_port("ssh.localPort", ssh_port, problems);
        }
    }

    fn check_mounts(&self, problems: &mut Problems) {
        let home = self.root.get("user").and_then(|user| given(user, "home")).filter(|home| is_literal(home));
        for (index, mount) in items(self.root, "mounts").enumerate() {
            let field = format!("mounts[{index}]");
            let location = text_of(mount, "location").unwrap_or_default();
            // Paths with Go templates are unknown until Lima resolves them.
            let location = if is_literal(&location) { Some(values::clean_path(&location)) } else { None };
            if let Some(location) = &location {
                if !location.starts_with(['/', '~']) {
                    let shown = shown(location);
                    problems.add(format!("field `{field}.location` must be an absolute path, got {shown}"));
                }
                if let Some(why) = values::unexpandable(location) {
                    let shown = shown(location);
                    problems.add(format!("field `{field}.location` refers to an unexpandable path: {shown}: {why}"));
                }
            }
            // The default mount point is the location, with `~` expanded.
            let own =
                location.filter(|location| values::unexpandable(location).is_some() || !location.starts_with('~'));
            let point = text_of(mount, "mountPoint").filter(|point| is_literal(point)).or_else(|| {
                let is_absent = mount.get("mountPoint").is_none_or(Value::is_null);
                own.filter(|_| is_absent).map(Cow::Owned)
            });
            if let Some(point) = point {
                if SYSTEM_PATHS.contains(&point.as_ref()) {
                    problems.add(format!("field `{field}.mountPoint` must not be a system path such as /etc or /usr"));
                } else if home.as_ref().is_some_and(|home| *home == point) {
                    let shown = shown(&point);
                    problems.add(format!("field `{field}.mountPoint` is the reserved internal home directory {shown}"));
                }
                if point.starts_with('~') {
                    problems.add(format!("field `{field}.mountPoint` must not start with \"~\""));
                }
            }
            let size = mount.get("9p").and_then(|options| text_of(options, "msize"));
            if let Some(why) = size.and_then(|size| values::size_problem(&size)) {
                problems.add(format!("field `msize` has an invalid value: {why}"));
            }
        }
    }

    fn check_mount_type(&self, problems: &mut Problems) {
        let Some(mount_type) = given(self.root, "mountType").filter(|name| *name != "default") else { return };
        let shown = shown(&mount_type);
        if !MOUNT_TYPES.contains(&mount_type.as_ref()) {
            problems.add(format!(
                "field `mountType` must be \"reverse-sshfs\" or \"9p\" or \"virtiofs\", or \"wsl2\", got {shown}"
            ));
        }
        let unsupported: Vec<_> = items(self.root, "mountTypesUnsupported").filter_map(scalar_text).collect();
        if unsupported.contains(&mount_type) {
            let unsupported = listed(&unsupported);
            problems.add(format!(
                "field `mountType` must not be one of {unsupported} (`mountTypesUnsupported`), got {shown}"
            ));
        }
    }

    fn check_containerd(&self, problems: &mut Problems) {
        let Some(containerd) = self.root.get("containerd") else { return };
        // By default, Lima installs containerd for the user on these architectures.
        let by_default = ["x86_64", "aarch64"].contains(&self.architecture().as_ref());
        let is_wanted =
            flag_of(containerd, "user").unwrap_or(by_default) || flag_of(containerd, "system").unwrap_or_default();
        for (index, archive) in items(containerd, "archives").enumerate().filter(|_| is_wanted) {
            let architecture = given(archive, "arch").unwrap_or_else(|| self.architecture());
            self.check_file(archive, &format!("containerd.archives[{index}]"), &architecture, problems);
        }
    }
}

/// Whether a script comes from a file, which only Lima reads.
fn is_from_file(value: &Value) -> bool {
    value.get("file").is_some_and(|file| !file.is_null())
}

fn check_locator(field: &str, value: &Value, problems: &mut Problems) {
    let digest = value.get("file").and_then(|file| file.get("digest"));
    if digest.is_some_and(|digest| !digest.is_null()) {
        problems.add(format!("field `{field}.file.digest` support is not yet implemented"));
    }
}

fn check_provision(index: usize, provision: &Value, problems: &mut Problems) {
    let field = format!("provision[{index}]");
    check_locator(&field, provision, problems);
    let mode = given(provision, "mode").unwrap_or(Cow::Borrowed("system"));
    if !PROVISION_MODES.contains(&mode.as_ref()) {
        let known = PROVISION_MODES.map(quote);
        let (last, others) = known.split_last().expect("there are seven");
        problems.add(format!("field `{field}.mode` must one of {}, or {last}", others.join(", ")));
    }
    let is_set = |name: &str| provision.get(name).is_some_and(|value| !value.is_null());
    // Lima checks presence here, even if the value is false.
    if mode != "dependency" && is_set("skipDefaultDependencyResolution") {
        problems.add(format!(
            "field `{field}.mode` cannot set skipDefaultDependencyResolution, only valid on scripts of type \"dependency\""
        ));
    }
    let script = given(provision, "script");
    if mode == "data" || mode == "yq" {
        check_written_file(&field, &mode, provision, problems);
    } else {
        if script.is_none() && mode != "ansible" && !is_from_file(provision) {
            problems.add(format!("field `{field}.script` must not be empty"));
        }
        for (name, modes) in [
            ("content", "\"data\""),
            ("overwrite", "\"data\""),
            ("owner", "\"data\""),
            ("path", "\"data\", or \"yq\""),
            ("permissions", "\"data\", or \"yq\""),
            ("format", "\"yq\""),
        ] {
            if is_set(name) {
                problems.add(format!("field `{field}.{name}` can only be set when mode is {modes}"));
            }
        }
    }
    if given(provision, "playbook").is_some() {
        // Lima's messages have the backticks in these places.
        if mode != "ansible" {
            problems.add(format!("field `{field}.playbook can only be set when mode is \"ansible\""));
        }
        if script.is_some() {
            problems.add(format!("field `{field}.script must be empty if playbook is set"));
        }
    }
}

/// The rules of the modes that write a file.
fn check_written_file(field: &str, mode: &str, provision: &Value, problems: &mut Problems) {
    let Some(path) = text_of(provision, "path") else {
        problems.add(format!("field `{field}.path` must not be empty when mode is {}", quote(mode)));
        return;
    };
    if is_literal(&path) && !path.starts_with('/') {
        problems.add(format!("field `{field}.path` must be an absolute path"));
    }
    if mode == "yq" && text_of(provision, "expression").is_none() {
        problems.add(format!("field `{field}.expression` must not be empty when mode is \"yq\""));
    }
    if let Some(permissions) = text_of(provision, "permissions")
        && let Err(why) = values::parse_octal(&permissions)
    {
        problems.add(format!("field `{field}.permissions` must be an octal number: {why}"));
    }
}

fn check_probe(index: usize, probe: &Value, problems: &mut Problems) {
    // In Lima's messages the field `probes` is called `probe`.
    let field = format!("probe[{index}]");
    check_locator(&field, probe, problems);
    let script = text_of(probe, "script").unwrap_or_default();
    if !is_from_file(probe) && is_literal_start(&script) && !script.starts_with("#!") {
        problems.add(format!("field `{field}.script` must start with a '#!' line"));
    }
    if given(probe, "mode").is_some_and(|mode| mode != "readiness") {
        problems.add(format!("field `{field}.mode` can only be \"readiness\""));
    }
}

/// Whether the first two characters are not part of a Go template.
fn is_literal_start(script: &str) -> bool {
    !script.starts_with("{{") && script.get(1..3) != Some("{{")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
