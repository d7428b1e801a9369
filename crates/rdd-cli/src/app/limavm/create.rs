//! `rdd limavm create NAME TEMPLATE`: creates a LimaVM.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _},
    path::Path,
    process::Stdio,
    time::Duration,
};

use rdd_meta::{names::is_dns_1123_subdomain, status::Reason};
use rdd_stdx::process::{self, Process};
use serde_json::{Value, json};

use super::{
    Vm, shell,
    wait::{self, Wish},
};
use crate::{
    app::{
        api::{Api, Write},
        args::Create,
        condition, names,
    },
    go::quote,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// Creates a LimaVM. A template from a file or URL becomes a ConfigMap that the LimaVM owns.
pub(super) fn run(plane: &ControlPlane<'_>, args: &Create) -> Outcome {
    let template = match &args.template {
        // A word that could name a ConfigMap does; a file in the current folder is written as `./NAME`.
        name if is_dns_1123_subdomain(name) => None,
        url if is_url(url) => Some(fetch(plane, url)?),
        file => Some(read(file)?),
    };
    let api = Api::ensure(plane)?;
    // From here on Ctrl-C no longer ends the process, so that a ConfigMap is never left behind without its LimaVM.
    let mut interrupt = api.interrupt()?;
    let created = match &template {
        None => None,
        Some(text) => Some(create_config_map(&api, args, text)?),
    };
    let config_map = if created.is_some() { &args.name } else { &args.template };
    let outcome = create_vm(&api, args, config_map).and_then(|vm| own(&api, args, created.as_ref(), vm));
    // A dry run creates the ConfigMap too, since validating the LimaVM needs it; it is removed again.
    if let Some(created) = created.as_ref().filter(|_| outcome.is_err() || args.dry_run) {
        clean_up(&api, args, created);
    }
    let vm = outcome?;
    if args.dry_run || !args.start || !args.waiting.wait {
        return Ok(());
    }
    let wish = Wish::Running(condition::generation(&vm.object));
    let phase = format!("starting LimaVM {:?}", vm.name);
    let failed = "failed waiting for LimaVM to start";
    wait::until(&api, &vm, wish, args.waiting.timeout.as_bound(), &mut interrupt, (&phase, failed))?;
    api.record().success(&format!("LimaVM {:?} started in namespace {:?}", vm.name, vm.namespace));
    Ok(())
}

fn read(file: &str) -> Outcome<String> {
    fs::read_to_string(Path::new(file))
        .map_err(|error| Failure::caused(format!("failed to read template file {}", quote(file)), error))
}

/// Whether the template is a URL, or one of Lima's own templates (`template://`).
fn is_url(template: &str) -> bool {
    ["https://", "http://", "template://", "template:"].iter().any(|scheme| template.starts_with(scheme))
}

/// Timeout for fetching a template.
const FETCH_TAKES: Duration = Duration::from_secs(120);
/// Size limit of a template: that of a ConfigMap.
const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// Fetches a template with `limactl`, which knows its own templates and how to download others.
fn fetch(plane: &ControlPlane<'_>, url: &str) -> Outcome<String> {
    let limactl = shell::find_limactl(plane).ok_or_else(|| {
        Failure::message(format!("limactl is not on PATH; it is needed to fetch the template {}", quote(url)))
            .hint("install Lima, set RDD_LIMACTL to its path, or use a template file")
    })?;
    fetch_by(&limactl, &plane.paths().lima_home, url, FETCH_TAKES)
}

/// Runs `limactl template copy` with a timeout. Its output goes to files, so that endless output does not fill our memory.
fn fetch_by(limactl: &Path, lima_home: &Path, url: &str, takes: Duration) -> Outcome<String> {
    let failed = |error: io::Error| Failure::caused(format!("run {}", limactl.display()), error);
    let refused = |why: String| Failure::message(format!("failed to get template {}: {why}", quote(url)));
    let (mut text, mut log) = (tempfile::tempfile().map_err(failed)?, tempfile::tempfile().map_err(failed)?);
    let mut command = process::foreground(limactl);
    command.args(["template", "copy", "--verbatim", url, "-"]).env("LIMA_HOME", lima_home).stdin(Stdio::null());
    command.stdout(text.try_clone().map_err(failed)?).stderr(log.try_clone().map_err(failed)?);
    let mut child = command.spawn().map_err(failed)?;
    // The child has not been reaped yet, so its PID cannot name another process.
    let in_time = match Process::open(child.id()).map_err(failed)? {
        Some(running) => running.wait(takes).map_err(failed)?,
        None => true,
    };
    if !in_time {
        child.kill().map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    if !in_time {
        return Err(refused(format!("it took longer than {takes:?}")));
    }
    if !status.success() {
        let log = beginning(&mut log).map_err(failed)?;
        // limactl's last line is its error.
        let line = String::from_utf8_lossy(&log).lines().next_back().unwrap_or_default().trim().to_owned();
        return Err(refused(if line.is_empty() { status.to_string() } else { line }));
    }
    let text = beginning(&mut text).map_err(failed)?;
    if text.len() as u64 > TEMPLATE_BYTES_MAX {
        return Err(refused(format!("it has more than {TEMPLATE_BYTES_MAX} bytes")));
    }
    String::from_utf8(text)
        .map_err(|error| Failure::caused(format!("template {} is not valid UTF-8", quote(url)), error))
}

/// Reads a file up to one byte beyond the size limit, so that the caller can detect a file that is too large.
fn beginning(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(TEMPLATE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn create_config_map(api: &Api<'_>, args: &Create, template: &str) -> Outcome<Value> {
    let (name, namespace) = (&args.name, &args.namespace);
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {},
    });
    object["data"][names::TEMPLATE_KEY] = template.into();
    let created = api.write(Write::Create, &names::config_maps_in(namespace), &object, false).map_err(|error| {
        if error.is(Reason::AlreadyExists) {
            let place = format!("ConfigMap {name:?} already exists in namespace {namespace:?}");
            return Failure::message(format!("{place}, will not modify existing ConfigMap"));
        }
        Failure::caused("failed to create ConfigMap", error)
    })?;
    let source = if is_url(&args.template) { "" } else { "file " };
    let place = quote(&args.template);
    api.record()
        .info(&format!("ConfigMap {name:?} created in namespace {namespace:?} with template from {source}{place}"));
    Ok(created)
}

fn create_vm(api: &Api<'_>, args: &Create, config_map: &str) -> Outcome<Vm> {
    let (name, namespace) = (&args.name, &args.namespace);
    let object = json!({
        "apiVersion": names::VM_VERSION,
        "kind": names::VM_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"templateRef": {"name": config_map}, "running": args.start},
    });
    let created = api.write(Write::Create, &names::vms_in(namespace), &object, args.dry_run);
    let created = created.map_err(|error| Failure::caused("failed to create LimaVM", error))?;
    let message = format!("LimaVM {name:?} created in namespace {namespace:?} with template ConfigMap {config_map:?}");
    api.record().success(&message);
    Ok(Vm::of(created))
}

/// Makes the LimaVM the owner of the ConfigMap that was created for it, so that the garbage collector deletes both.
fn own(api: &Api<'_>, args: &Create, config_map: Option<&Value>, vm: Vm) -> Outcome<Vm> {
    if let (Some(config_map), false) = (config_map, args.dry_run) {
        let owner = json!({"apiVersion": names::VM_VERSION, "kind": names::VM_KIND, "name": vm.name, "uid": vm.uid(),
                           "controller": true, "blockOwnerDeletion": true});
        let uid = condition::text(config_map, "/metadata/uid");
        let change = json!({"metadata": {"uid": uid, "ownerReferences": [owner]}});
        let written = api.write(Write::Merge, &config_map_path(args), &change, false);
        written.map_err(|error| Failure::caused("failed to set owner of ConfigMap", error))?;
    }
    Ok(vm)
}

/// Deletes the ConfigMap that was created for a LimaVM that was not.
fn clean_up(api: &Api<'_>, args: &Create, config_map: &Value) {
    api.record().warn(&format!("Cleaning up created ConfigMap {:?}", args.name));
    match api.remove(&config_map_path(args), condition::text(config_map, "/metadata/uid")) {
        Ok(()) => {}
        Err(error) if error.is_absent() => {}
        Err(error) => api.record().warn(&format!("failed to delete ConfigMap {:?}: {error}", args.name)),
    }
}

fn config_map_path(args: &Create) -> String {
    names::object(&names::config_maps_in(&args.namespace), &args.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fetches a template with this script as `limactl`.
    fn fetched(script: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let limactl = folder.path().join("limactl");
        let text = folder.path().join("text");
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        // Another process writes the program: a file that this process or a child of another thread has open for writing cannot be
        // executed.
        let mut install = process::foreground("install");
        assert!(install.args(["-m", "755"]).args([&text, &limactl]).status().unwrap().success());
        fetch_by(&limactl, folder.path(), "https://example.com/x.yaml", Duration::from_secs(5))
            .map_err(|failure| failure.text())
    }

    #[test]
    fn a_template_by_url_is_what_limactl_prints() {
        assert_eq!(fetched("echo \"# $*\"").unwrap(), "# template copy --verbatim https://example.com/x.yaml -\n");
    }

    #[test]
    fn what_limactl_says_last_is_why_a_template_could_not_be_had() {
        let why = fetched("echo begun >&2; echo 'no such host' >&2; exit 1").unwrap_err();
        assert_eq!(why, "failed to get template \"https://example.com/x.yaml\": no such host");
        assert!(fetched("exit 3").unwrap_err().ends_with("exit status: 3"));
    }

    #[test]
    fn a_template_without_end_or_that_never_comes_is_given_up() {
        assert!(fetched("head -c 1100000 /dev/zero").unwrap_err().ends_with("it has more than 1048576 bytes"));
        assert!(fetched("exec sleep 600").unwrap_err().ends_with("it took longer than 5s"));
    }

    #[test]
    fn addresses_are_told_from_files() {
        for url in ["https://x/y.yaml", "http://x", "template://docker", "template:docker"] {
            assert!(is_url(url), "{url}");
        }
        for file in ["./x.yaml", "/x", "templates/x", "x:y"] {
            assert!(!is_url(file), "{file}");
        }
    }
}
