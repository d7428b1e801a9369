//! `rdd limavm create NAME TEMPLATE`.

use std::{fs, path::Path, process::Stdio};

use rdd_meta::{names::is_dns_1123_subdomain, status::Reason};
use rdd_stdx::process;
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

/// Creates a machine. A template from a file becomes a ConfigMap that belongs to the machine.
pub(super) fn run(plane: &ControlPlane<'_>, args: &Create) -> Outcome {
    let template = match &args.template {
        name if is_dns_1123_subdomain(name) => None,
        url if is_url(url) => Some(fetch(plane, url)?),
        file => Some(read(file)?),
    };
    let api = Api::ensure(plane)?;
    // From here to the end of the clean-up nothing stops half-way.
    let mut interrupt = api.interrupt()?;
    let created = match &template {
        None => None,
        Some(text) => Some(create_config_map(&api, args, text)?),
    };
    let config_map = if created.is_some() { &args.name } else { &args.template };
    let outcome = create_vm(&api, args, config_map).and_then(|vm| own(&api, args, created.as_ref(), vm));
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

/// Whether a template is named by its place on the network, or among those that come with Lima.
fn is_url(template: &str) -> bool {
    ["https://", "http://", "template://", "template:"].iter().any(|scheme| template.starts_with(scheme))
}

/// Lima knows where its own templates are, and how to get those of others.
fn fetch(plane: &ControlPlane<'_>, url: &str) -> Outcome<String> {
    let limactl = shell::find_limactl(plane).ok_or_else(|| {
        Failure::message(format!("there is no limactl on PATH, which gets templates from {}", quote(url)))
            .hint("install Lima, say where it is with RDD_LIMACTL, or name a file")
    })?;
    let failed = |error: std::io::Error| Failure::caused(format!("run {}", limactl.display()), error);
    let mut command = process::foreground(&limactl);
    command.args(["template", "copy", "--verbatim", url, "-"]).env("LIMA_HOME", &plane.paths().lima_home);
    command.stdin(Stdio::null());
    let output = command.output().map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().next_back().unwrap_or_default().trim();
        return Err(Failure::message(format!("failed to get template {}: {line}", quote(url))));
    }
    String::from_utf8(output.stdout)
        .map_err(|error| Failure::caused(format!("template {} is no text", quote(url)), error))
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

/// Makes the machine the owner of the ConfigMap that was made for it, so that it goes when the machine does.
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
