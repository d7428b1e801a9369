//! Tests of the App's defaulting and validation, with the messages that users see.

use rdd_types::{
    Quantity,
    app::{AppSpec, Backend, Kubernetes, VirtualMachine},
};
use serde_json::{Value, json};

use crate::k3s_versions;

use super::admission::{Facts, UsedRelease, fill_in, refuse};

const GIB: u64 = 1 << 30;

fn facts() -> Facts {
    Facts {
        cpus: 8,
        memory_bytes: 16 * GIB,
        vm_cpus: None,
        backend: Backend::Host,
        backends: vec![Backend::Lima, Backend::Host],
        channel: |name| match name {
            "stable" | "1.34" => Some("1.34.6".to_owned()),
            _ => None,
        },
        supports: k3s_versions::supports,
        full: k3s_versions::full,
        used_release: UsedRelease::new(|_| None),
    }
}

/// The facts of a machine whose cluster was used by this release.
fn used_by(release: Option<&str>) -> Facts {
    let release = release.map(str::to_owned);
    Facts { used_release: UsedRelease::new(move |_| release.clone()), ..facts() }
}

fn filled(spec: &Value, old: Option<&AppSpec>, facts: &Facts) -> Result<Value, String> {
    let mut app = json!({"spec": spec});
    fill_in(&mut app, old, facts).map(|()| app["spec"].clone())
}

#[test]
fn a_new_app_gets_a_backend_cpus_memory_and_the_parents_that_clients_patch_below() {
    let spec = filled(&json!({"running": true}), None, &facts()).unwrap();
    let expected = json!({
        "running": true, "backend": "host", "kubernetes": {"enabled": false}, "virtualMachine": {"cpus": 2, "memory": "4Gi"},
    });
    assert_eq!(spec, expected);
}

#[test]
fn what_was_said_is_kept_as_it_was_written() {
    let said =
        json!({"running": false, "backend": "lima", "virtualMachine": {"cpus": 3, "memory": "4096Mi"}, "other": 1});
    let spec = filled(&said, None, &facts()).unwrap();
    assert_eq!(
        (&spec["virtualMachine"], &spec["backend"], &spec["other"]),
        (&said["virtualMachine"], &json!("lima"), &json!(1))
    );
}

#[test]
fn auto_means_what_was_chosen_once() {
    let chosen = AppSpec { backend: Backend::Lima, ..AppSpec::default() };
    let spec = filled(&json!({"running": true, "backend": "auto"}), Some(&chosen), &facts()).unwrap();
    assert_eq!(spec["backend"], "lima");
    let lima = Facts { backend: Backend::Lima, ..facts() };
    assert_eq!(filled(&json!({"running": true}), None, &lima).unwrap()["backend"], "lima");
}

#[test]
fn channels_become_versions_also_while_kubernetes_is_off() {
    for (said, version) in [
        (json!({"enabled": true}), json!("1.34.6")),
        (json!({"enabled": false}), Value::Null),
        (json!({"enabled": false, "version": "stable"}), json!("1.34.6")),
        (json!({"enabled": true, "version": "v1.34"}), json!("1.34.6")),
        (json!({"enabled": true, "version": "9.9.9"}), json!("9.9.9")),
    ] {
        let spec = filled(&json!({"running": true, "kubernetes": said}), None, &facts()).unwrap();
        assert_eq!(spec["kubernetes"].get("version").cloned().unwrap_or_default(), version, "{said}");
    }
}

#[test]
fn cpus_come_from_the_environment_up_to_what_there_is() {
    let cpus = |vm_cpus: Option<&str>, cpus: u64| {
        let facts = Facts { vm_cpus: vm_cpus.map(str::to_owned), cpus, ..facts() };
        filled(&json!({"running": true}), None, &facts).map(|spec| spec["virtualMachine"]["cpus"].clone())
    };
    assert_eq!(cpus(None, 8), Ok(json!(2)));
    assert_eq!(cpus(None, 1), Ok(json!(1)));
    assert_eq!(cpus(Some("6"), 8), Ok(json!(6)));
    assert_eq!(cpus(Some("60"), 8), Ok(json!(8)));
    assert_eq!(cpus(Some("60"), 0), Ok(json!(60)), "where nobody can tell, nothing is capped");
    for bad in ["many", "0", "-1", "1.5"] {
        assert_eq!(cpus(Some(bad), 8), Err(format!("invalid RDD_VM_CPUS value \"{bad}\": want a positive integer")));
    }
}

#[test]
fn memory_is_a_quarter_within_bounds() {
    let memory = |memory_bytes: u64, backend: Backend| {
        let facts = Facts { memory_bytes, backend, ..facts() };
        filled(&json!({"running": true}), None, &facts).map(|spec| spec["virtualMachine"]["memory"].clone())
    };
    assert_eq!(memory(16 * GIB, Backend::Lima), Ok(json!("4Gi")));
    assert_eq!(memory(4 * GIB, Backend::Lima), Ok(json!("2Gi")));
    assert_eq!(memory(64 * GIB, Backend::Lima), Ok(json!("6Gi")));
    assert_eq!(memory(0, Backend::Lima), Ok(json!("2Gi")));
    assert_eq!(memory(GIB, Backend::Lima), Err("host memory 1Gi is below the 2Gi minimum".to_owned()));
    assert_eq!(memory(GIB, Backend::Host), Ok(Value::Null), "nothing is set aside where there is no virtual machine");
}

fn spec(change: impl FnOnce(&mut AppSpec)) -> AppSpec {
    let mut spec = AppSpec::default();
    change(&mut spec);
    spec
}

fn machine(cpus: i64, memory: Option<&str>) -> AppSpec {
    let memory = memory.map(|memory| serde_json::from_value::<Quantity>(json!(memory)).unwrap());
    spec(|spec| spec.virtual_machine = Some(VirtualMachine { cpus, memory }))
}

fn kubernetes(enabled: bool, version: &str) -> AppSpec {
    let version = (!version.is_empty()).then(|| version.to_owned());
    spec(|spec| spec.kubernetes = Some(Kubernetes { enabled, version }))
}

#[test]
fn refusals_say_what_is_wrong_and_what_would_be_right() {
    let rows: &[(AppSpec, Option<&str>)] = &[
        (AppSpec::default(), None),
        (machine(8, Some("2Gi")), None),
        (machine(0, None), None),
        (machine(-1, None), Some("spec.virtualMachine.cpus -1 must not be negative")),
        (machine(9, None), Some("spec.virtualMachine.cpus 9 exceeds the host CPU count of 8")),
        (machine(2, Some("1Gi")), Some("spec.virtualMachine.memory 1Gi is less than the minimum of 2Gi")),
        (machine(2, Some("999999Gi")), Some("spec.virtualMachine.memory 999999Gi exceeds the host memory of 16Gi")),
        (kubernetes(false, ""), None),
        (kubernetes(false, "v1.34.6+k3s1"), None),
        (kubernetes(true, ""), Some("spec.kubernetes.version must not be empty when spec.kubernetes.enabled is true")),
        (
            kubernetes(true, "9.9.9"),
            Some(
                "spec.kubernetes.version \"9.9.9\" is not supported; see the bundled k3s-versions.json for valid versions",
            ),
        ),
        (kubernetes(true, "1.34.6"), None),
        (
            kubernetes(true, "v1.34.6+k3s2"),
            Some(
                "spec.kubernetes.version \"v1.34.6+k3s2\" is not supported; see the bundled k3s-versions.json for valid versions",
            ),
        ),
    ];
    for (spec, expected) in rows {
        assert_eq!(refuse(spec, None, &facts()).as_deref(), *expected, "{spec:?}");
    }
}

#[test]
fn what_nobody_can_tell_of_the_host_is_not_checked() {
    let unknown = Facts { cpus: 0, memory_bytes: 0, ..facts() };
    assert_eq!(refuse(&machine(500, Some("999999Gi")), None, &unknown), None);
}

#[test]
fn a_backend_that_cannot_be_carried_out_is_refused_when_it_is_chosen_and_not_later() {
    let lima = spec(|spec| spec.backend = Backend::Lima);
    let host_only = Facts { backends: vec![Backend::Host], ..facts() };
    let refused = "spec.backend lima is not available here (root cannot have virtual machines); there is host";
    assert_eq!(refuse(&lima, None, &host_only).as_deref(), Some(refused));
    assert_eq!(refuse(&lima, Some(&lima), &host_only), None);
    let none = Facts { backends: Vec::new(), ..facts() };
    let refused = "spec.backend lima is not available here (root cannot have virtual machines); there is none";
    assert_eq!(refuse(&lima, Some(&AppSpec::default()), &none).as_deref(), Some(refused));
    assert_eq!(refuse(&AppSpec::default(), None, &host_only), None);
}

#[test]
fn a_cluster_is_not_taken_back_to_an_older_release_while_it_is_enabled() {
    let change = |(old, before): (bool, &str), (new, version): (bool, &str)| {
        let used = k3s_versions::full(before);
        refuse(&kubernetes(new, version), Some(&kubernetes(old, before)), &used_by(used.as_deref()))
    };
    let refused = change((true, "1.35.3"), (true, "1.34.6")).unwrap();
    assert!(refused.starts_with("spec.kubernetes.version 1.34.6 is older than 1.35.3, "), "{refused}");
    assert!(change((true, "v1.34.6+k3s1"), (true, "1.34.5")).is_some());
    for (old, new) in [
        ((true, "1.34.6"), (true, "1.35.3")),
        ((true, "1.34.6"), (true, "v1.34.6+k3s1")),
        ((true, "1.35.3"), (false, "1.34.6")),
        ((false, "1.35.3"), (true, "1.34.6")),
    ] {
        assert_eq!(change(old, new), None, "{old:?} {new:?}");
    }
}

// Finding E-6
#[test]
fn without_data_any_release_may_follow_and_with_data_it_is_its_release_that_counts() {
    let change = |used| refuse(&kubernetes(true, "1.34.6"), Some(&kubernetes(true, "1.35.3")), &used_by(used));
    assert_eq!(change(None), None, "nothing was started yet, or it was reset");
    assert_eq!(change(Some("v1.34.5+k3s1")), None, "1.35 was chosen and never ran");
    let refused = change(Some("v1.35.0+k3s3")).unwrap();
    assert!(refused.starts_with("spec.kubernetes.version 1.34.6 is older than 1.35.0, "), "{refused}");
    // A version that was chosen while Kubernetes was disabled is refused by the condition only, so that other changes stay possible.
    let stopped = AppSpec { running: false, ..kubernetes(true, "1.34.6") };
    let running = AppSpec { running: true, ..kubernetes(true, "1.34.6") };
    assert_eq!(refuse(&stopped, Some(&running), &used_by(Some("v1.35.0+k3s3"))), None);
    let drivers = rdd_driver::Drivers::default();
    let without = Facts { used_release: UsedRelease::from_drivers(&drivers), ..facts() };
    assert_eq!(refuse(&kubernetes(true, "1.34.6"), Some(&kubernetes(true, "1.35.3")), &without), None, "nor a driver");
}

#[test]
fn a_version_that_the_list_no_longer_has_stays_where_it_is_and_is_not_chosen_anew() {
    let old = kubernetes(true, "1.20.1");
    assert_eq!(
        refuse(&spec(|spec| spec.clone_from(&AppSpec { running: true, ..old.clone() })), Some(&old), &facts()),
        None
    );
    let other = kubernetes(true, "1.20.2");
    assert!(refuse(&other, Some(&old), &facts()).is_some());
    assert!(refuse(&old, Some(&kubernetes(false, "1.20.1")), &facts()).is_some());
}
