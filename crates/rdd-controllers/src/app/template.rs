//! Renders the App's template from the few values that it depends on.
//!
//! To add a parameter, return it from [`parameters`] and use it in a template. Like Lima, a test rejects a parameter that no script uses.

use std::{fmt::Write as _, path::Path};

use rdd_types::app::EngineName;

/// The comment at the top of a rendered template.
const LIMA_HEADER: &str = "\
# The virtual machine of this instance.
# The App writes this: what is changed here by hand is overwritten. Use `rdd set`.
";
/// Placeholder for the Kubernetes port.
const PORT_MARKER: &str = "@KUBERNETES_PORT@";

const HOST: &str = include_str!("template/host.yaml");
const LIMA: &str = include_str!("template/lima.yaml");
/// Firmware options for the downloaded images on Unix.
const FIRMWARE: &str = "firmware:\n  legacyBIOS: false\n";
/// How WSL mounts folders of the host.
const WSL2_MOUNTS: &str = "mountType: wsl2\n";

/// The kind of machine that the template describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// This machine itself.
    Host,
    /// A virtual machine of Lima.
    Lima {
        /// The `vmType` in the template: `qemu`, `vz` or `wsl2`. Drivers are selected by it.
        vm_type: &'static str,
    },
}

/// Everything that a template depends on: plain values, and no state of any object (finding 355-S1).
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    /// The kind of machine.
    pub(super) base: Base,
    /// The container engine.
    pub(super) engine: EngineName,
    /// CPUs of the virtual machine; 0 uses Lima's default.
    pub(super) cpus: i64,
    /// Memory of the virtual machine; `None` uses Lima's default.
    pub(super) memory_bytes: Option<u64>,
    /// The parameters of Kubernetes, if it is enabled.
    pub(super) kubernetes: Option<Kubernetes<'a>>,
    /// Path of the engine's socket on the host.
    pub(super) docker_socket: &'a Path,
    /// Path of the socket on the host that forwards to the guest's Kubernetes port.
    pub(super) kubernetes_socket: &'a Path,
    /// The guest's Kubernetes port, set even if Kubernetes is disabled: changing it would require a new machine.
    pub(super) guest_kubernetes_port: u16,
    /// The user's home.
    pub(super) home: &'a Path,
    /// The folder for logs.
    pub(super) log_dir: &'a Path,
    /// `RDD_KEEP_LOGS`
    pub(super) keep_logs: bool,
    /// `RDD_TRACE_PACKETS`
    pub(super) trace_packets: bool,
    /// Images of the virtual machine, as YAML, in place of the downloaded ones.
    pub(super) images: Option<&'a str>,
}

/// The parameters of Kubernetes in the guest. They are only parameters of scripts, which [`rdd_driver::template::needs_restart`] ignores:
/// the machine is not restarted when Kubernetes is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kubernetes<'a> {
    /// The full version without its `v`, such as `1.34.6+k3s1`.
    pub(super) version: &'a str,
    /// The port on the host.
    pub(super) port: u16,
}

/// Renders the template.
pub(super) fn render(values: &Values<'_>) -> String {
    let mut text = match values.base {
        Base::Host => HOST.to_owned(),
        Base::Lima { vm_type } => lima(values, vm_type),
    };
    text.push_str("\nparam:\n");
    for (name, value) in parameters(values) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name}: {value}");
    }
    text
}

fn lima(values: &Values<'_>, vm_type: &str) -> String {
    let known = match vm_type {
        "wsl2" => format!("{WSL2_MOUNTS}{}", rdd_driver::assets::images(vm_type)),
        _ => rdd_driver::assets::images(vm_type) + FIRMWARE,
    };
    let images = values.images.unwrap_or(&known).trim_end();
    let mut text = format!("{LIMA_HEADER}vmType: {vm_type}\n{images}\n");
    let rules = without_markers(LIMA, &[("containerd", values.engine == EngineName::Containerd)]);
    // Lima requires a number here, so a `{{.Param}}` reference, which is a string, does not work.
    text.push_str(&rules.replace(PORT_MARKER, &values.guest_kubernetes_port.to_string()));
    if values.cpus > 0 {
        let _ = writeln!(text, "cpus: {}", values.cpus);
    }
    if let Some(bytes) = values.memory_bytes {
        let _ = writeln!(text, "memory: \"{bytes}\"");
    }
    text
}

/// Removes the `#if name` and `#end` markers, and the lines between them unless the section is enabled.
fn without_markers(template: &str, sections: &[(&str, bool)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut is_wanted = true;
    for line in template.lines() {
        let marker = line.trim_start();
        match marker.strip_prefix("#if ") {
            Some(name) => is_wanted = sections.iter().any(|(known, wanted)| *known == name && *wanted),
            None if marker == "#end" => is_wanted = true,
            None if !is_wanted => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// Name and YAML value of each parameter that this base uses.
fn parameters(values: &Values<'_>) -> Vec<(&'static str, String)> {
    let mut list = vec![
        ("CONTAINER_ENGINE", values.engine.to_string()),
        ("HOST_DOCKER_SOCKET", quoted(&values.docker_socket.to_string_lossy())),
    ];
    if values.base == Base::Host {
        return list;
    }
    let guest = |path: &Path| quoted(&guest_form(&path.to_string_lossy()));
    let log_dir = if values.keep_logs { guest(values.log_dir) } else { quoted("") };
    let arguments = match (values.keep_logs, values.trace_packets) {
        (false, _) => "",
        (true, false) => "--vm-switch-logfile-append",
        (true, true) => "--vm-switch-logfile-append --trace-packets",
    };
    list.extend([
        ("HOST_HOME_GUEST", guest(values.home)),
        ("VM_SWITCH_LOG", quoted(&format!("{}/vm-switch.log", guest_form(&values.log_dir.to_string_lossy())))),
        ("NETWORK_SETUP_EXTRA_ARGS", quoted(arguments)),
        ("GUEST_LOG_DIR", log_dir),
        ("HOST_KUBERNETES_SOCKET", quoted(&values.kubernetes_socket.to_string_lossy())),
        ("KUBERNETES_ENABLED", values.kubernetes.is_some().to_string()),
    ]);
    if let Some(kubernetes) = values.kubernetes {
        list.extend([
            ("KUBERNETES_VERSION", quoted(kubernetes.version)),
            ("KUBERNETES_PORT", kubernetes.port.to_string()),
        ]);
    }
    list
}

/// Quotes a string for YAML: every JSON string is a valid YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Translates a host path to the guest: unchanged, except for Windows drives.
fn guest_form(path: &str) -> String {
    let mut characters = path.chars();
    match (characters.next(), characters.next(), characters.next()) {
        (Some(drive), Some(':'), Some('\\' | '/')) if drive.is_ascii_alphabetic() => {
            format!("/mnt/{}/{}", drive.to_ascii_lowercase(), characters.as_str().replace('\\', "/"))
        }
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rdd_driver::Template;

    use super::*;

    fn mk_values() -> Values<'static> {
        Values {
            base: Base::Lima { vm_type: "qemu" },
            engine: EngineName::Moby,
            cpus: 2,
            memory_bytes: Some(4 << 30),
            kubernetes: None,
            docker_socket: Path::new("/home/ann/.rd2/docker.sock"),
            kubernetes_socket: Path::new("/home/ann/.rd2/k3s.sock"),
            guest_kubernetes_port: 7443,
            home: Path::new("/home/ann"),
            log_dir: Path::new("/home/ann/.local/state/rancher-desktop-2"),
            keep_logs: false,
            trace_packets: false,
            images: None,
        }
    }

    const KUBERNETES: Kubernetes<'_> = Kubernetes { version: "1.34.6+k3s1", port: 40123 };

    fn param(text: &str) -> Vec<(String, String)> {
        Template::parse(text).unwrap().param.into_iter().collect()
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Finding 355-S1. The compiler checks what callers pass; this checks that what they pass are values: an object of the API,
    /// or a part of one, would bring fields along that the template must not depend on.
    #[test]
    fn rendering_takes_values_and_no_object_of_the_api() {
        let (code, _) = include_str!("template.rs").split_once("#[cfg(test)]").unwrap();
        let imports: Vec<&str> = code.lines().filter(|line| line.contains("rdd_types")).collect();
        assert_eq!(imports, ["use rdd_types::app::EngineName;"]);
        for object in ["Status", "Spec", "LimaVM", "ConfigMap", "Condition"] {
            assert!(!code.contains(object), "rendering knows {object}");
        }
    }

    // Finding 355-D1, 355-I3
    #[test]
    fn without_kubernetes_no_parameter_of_it_is_there_but_that_it_is_off() {
        let expected = [
            ("CONTAINER_ENGINE", "moby"),
            ("GUEST_LOG_DIR", ""),
            ("HOST_DOCKER_SOCKET", "/home/ann/.rd2/docker.sock"),
            ("HOST_HOME_GUEST", "/home/ann"),
            ("HOST_KUBERNETES_SOCKET", "/home/ann/.rd2/k3s.sock"),
            ("KUBERNETES_ENABLED", "false"),
            ("NETWORK_SETUP_EXTRA_ARGS", ""),
            ("VM_SWITCH_LOG", "/home/ann/.local/state/rancher-desktop-2/vm-switch.log"),
        ];
        let text = render(&mk_values());
        assert_eq!(param(&text), pairs(&expected));
        assert!(!text.contains("KUBERNETES_PORT:") && !text.contains("KUBERNETES_VERSION:") && !text.contains("#if"));
    }

    // Finding 355-I3
    #[test]
    fn with_kubernetes_its_version_and_port_are_there() {
        let text = render(&Values { kubernetes: Some(KUBERNETES), ..mk_values() });
        let found = param(&text);
        for expected in [
            ("KUBERNETES_ENABLED", "true"),
            ("KUBERNETES_PORT", "40123"),
            ("KUBERNETES_VERSION", "1.34.6+k3s1"),
            ("HOST_KUBERNETES_SOCKET", "/home/ann/.rd2/k3s.sock"),
        ] {
            assert!(found.contains(&pairs(&[expected])[0]), "{expected:?} in {found:?}");
        }
    }

    #[test]
    fn the_template_of_the_host_is_this_text() {
        let expected = "\
# The container engine of this instance, on this machine itself, without a virtual machine.
# The App writes this: what is changed here by hand is overwritten. Use `rdd set`.
vmType: host

param:
  CONTAINER_ENGINE: containerd
  HOST_DOCKER_SOCKET: \"/home/ann/.rd2/docker.sock\"
";
        let values = Values { base: Base::Host, engine: EngineName::Containerd, ..mk_values() };
        assert_eq!(render(&values), expected);
    }

    // Finding 355-S3
    #[test]
    fn every_parameter_is_used_by_the_template_as_lima_demands() {
        for kubernetes in [None, Some(KUBERNETES)] {
            let text = render(&Values { kubernetes, ..mk_values() });
            let (scripts, _) = text.split_once("\nparam:\n").unwrap();
            for (name, _) in param(&text) {
                let uses = [format!("PARAM_{name}}}"), format!("PARAM_{name}-}}"), format!(".Param.{name}}}")];
                let is_used = uses.iter().any(|use_| scripts.contains(use_));
                assert!(is_used, "{name} is used nowhere");
            }
            // And the other way round: a script that uses what is not there gets an empty text.
            for part in scripts.split("PARAM_").skip(1) {
                let name: String =
                    part.chars().take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_').collect();
                let is_optional = part[name.len()..].starts_with('-');
                assert!(is_optional || param(&text).iter().any(|(known, _)| *known == name), "{name} is no parameter");
            }
        }
    }

    #[test]
    fn cpus_and_memory_are_there_when_they_are_known() {
        let template = Template::parse(&render(&mk_values())).unwrap();
        assert_eq!((template.cpus, template.memory_bytes), (Some(2), Some(4 << 30)));
        let template = Template::parse(&render(&Values { cpus: 0, memory_bytes: None, ..mk_values() })).unwrap();
        assert_eq!((template.cpus, template.memory_bytes), (None, None));
    }

    // Finding 355-D2, 236-S4
    #[test]
    fn a_path_with_quotes_spaces_and_dollars_is_read_back_as_it_is() {
        let odd = "/home/a b\"c'd$e\\f`g: #h/.rd2/docker.sock";
        let text = render(&Values { docker_socket: Path::new(odd), base: Base::Host, ..mk_values() });
        assert_eq!(param(&text)[1].1, odd);
    }

    // Finding 355-D2
    #[test]
    fn the_guests_own_file_is_read_back_as_it_is_whatever_the_home_is_called() {
        let odd = "/home/a b\"c'd$e\\f`g #h";
        let guest = tempfile::tempdir().unwrap();
        let text = render(&Values { kubernetes: Some(KUBERNETES), ..mk_values() });
        let template: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        let script = template["provision"][0]["script"].as_str().unwrap();
        let script = script.replace("/etc/", &format!("{}/etc/", guest.path().display()));
        let mut command = rdd_stdx::process::background("bash", guest.path());
        command
            .args(["-c", &script])
            .envs(param(&text).into_iter().map(|(name, value)| (format!("PARAM_{name}"), value)));
        command.env("PARAM_HOST_HOME_GUEST", odd).env("PARAM_HOST_DOCKER_SOCKET", odd);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = ". ./etc/sysconfig/rancher-desktop && printf '%s|%s|%s' \"$HOST_HOME_GUEST\" \"$HOST_DOCKER_SOCKET\" \"$KUBERNETES_PORT\"";
        let output = rdd_stdx::process::background("sh", guest.path()).args(["-c", read]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{odd}|{odd}|40123"));
    }

    // Finding 236-S4
    #[test]
    fn the_port_of_ssh_is_whichever_is_free_so_two_instances_never_want_the_same() {
        let template: serde_json::Value = serde_saphyr::from_str(&render(&mk_values())).unwrap();
        assert_eq!(template["ssh"]["localPort"], 0);
    }

    #[test]
    fn logs_that_are_kept_are_asked_of_the_guest_too() {
        let found = param(&render(&Values { keep_logs: true, trace_packets: true, ..mk_values() }));
        let expected = [
            ("GUEST_LOG_DIR", "/home/ann/.local/state/rancher-desktop-2"),
            ("NETWORK_SETUP_EXTRA_ARGS", "--vm-switch-logfile-append --trace-packets"),
        ];
        assert!(pairs(&expected).iter().all(|pair| found.contains(pair)), "{found:?}");
    }

    #[test]
    fn the_guest_sees_drives_of_windows_under_mnt() {
        for (path, seen) in
            [("/home/ann", "/home/ann"), (r"C:\Users\ann", "/mnt/c/Users/ann"), ("D:/x", "/mnt/d/x"), ("", "")]
        {
            assert_eq!(guest_form(path), seen);
        }
    }

    #[test]
    fn wsl2_gets_its_own_image() {
        let text = render(&Values { base: Base::Lima { vm_type: "wsl2" }, ..mk_values() });
        assert_eq!(Template::parse(&text).unwrap().vm_type.as_deref(), Some("wsl2"));
        assert!(text.contains(".tar.xz") && !text.contains(".raw.xz"));
    }

    /// Compares a rendered template with its golden file; `BLESS=1` rewrites the file.
    fn check_golden(name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/app/template/golden").join(name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text == expected,
            "{name} is another text now; look at the difference, then run this test with BLESS=1:\n{text}"
        );
    }

    #[test]
    fn the_templates_of_lima_are_these_texts() {
        check_golden("lima-moby.yaml", &render(&mk_values()));
        check_golden(
            "lima-containerd-kubernetes.yaml",
            &render(&Values { engine: EngineName::Containerd, kubernetes: Some(KUBERNETES), ..mk_values() }),
        );
    }

    #[test]
    fn the_port_of_kubernetes_goes_to_a_socket_before_any_other_rule_could_publish_it() {
        for kubernetes in [None, Some(KUBERNETES)] {
            let text = render(&Values { kubernetes, ..mk_values() });
            let rules: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
            let first = &rules["portForwards"][0];
            assert_eq!(
                (first["guestPort"].as_u64(), first["hostSocket"].as_str()),
                (Some(7443), Some("{{.Param.HOST_KUBERNETES_SOCKET}}")),
                "whichever port is bound on this machine"
            );
        }
    }

    #[test]
    fn kubernetes_comes_goes_and_changes_without_a_restart_of_the_machine() {
        let newer = Kubernetes { version: "1.35.1+k3s1", port: 40124 };
        let texts =
            [None, Some(KUBERNETES), Some(newer)].map(|kubernetes| render(&Values { kubernetes, ..mk_values() }));
        for started in &texts {
            for wanted in &texts {
                assert!(!rdd_driver::template::needs_restart(started, wanted), "{started}\n{wanted}");
            }
            let larger = render(&Values { kubernetes: Some(KUBERNETES), cpus: 3, ..mk_values() });
            assert!(rdd_driver::template::needs_restart(started, &larger));
        }
    }

    #[test]
    fn images_of_another_place_take_the_place_of_those_that_are_downloaded() {
        let text = render(&Values { images: Some("images:\n- location: /x/disk.img\n"), ..mk_values() });
        let template: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(template["images"][0]["location"], "/x/disk.img");
        assert!(!text.contains("https://github.com"));
    }
}
