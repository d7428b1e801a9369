//! Serialization of objects in Docker's JSON, per API version.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::world::{Container, Image, Status, Volume, World};

const NEVER: &str = "0001-01-01T00:00:00Z";

/// A list entry of a container.
pub(super) fn container_row(container: &Container) -> Value {
    let mut command = vec![container.path.as_str()];
    command.extend(container.args.iter().map(String::as_str));
    json!({
        "Id": container.id, "Names": [format!("/{}", container.name)], "Image": container.image, "ImageID": container.image_id,
        "Command": command.join(" "), "Created": container.created.as_second(), "Ports": [], "Labels": container.labels,
        "State": container.state.status.as_str(), "Status": said(container),
        "HostConfig": {"NetworkMode": "default"}, "NetworkSettings": {"Networks": {}}, "Mounts": mounts(container),
    })
}

fn said(container: &Container) -> String {
    match container.state.status {
        Status::Created => "Created".to_owned(),
        Status::Running => "Up 1 second".to_owned(),
        Status::Paused => "Up 1 second (Paused)".to_owned(),
        Status::Exited => format!("Exited ({}) 1 second ago", container.state.exit_code),
    }
}

/// An inspected container.
pub(super) fn container(container: &Container) -> Value {
    let state = &container.state;
    let exposed: Map<String, Value> = container.ports.keys().map(|port| (port.clone(), json!({}))).collect();
    let mut command = vec![container.path.clone()];
    command.extend(container.args.iter().cloned());
    json!({
        "Id": container.id, "Created": container.created.to_string(), "Path": container.path, "Args": container.args,
        "State": {
            "Status": state.status.as_str(), "Running": state.status.is_alive(), "Paused": state.status == Status::Paused,
            "Restarting": false, "OOMKilled": false, "Dead": false, "Pid": state.pid, "ExitCode": state.exit_code,
            "Error": state.error, "StartedAt": time(state.started), "FinishedAt": time(state.finished),
        },
        "Image": container.image_id, "Name": format!("/{}", container.name), "RestartCount": 0, "Driver": "overlay2",
        "Platform": "linux", "MountLabel": "", "ProcessLabel": "", "AppArmorProfile": "", "ExecIDs": null,
        "HostConfig": {"NetworkMode": "default", "AutoRemove": container.auto_remove, "LogConfig": {"Type": "json-file", "Config": {}},
                       "RestartPolicy": {"Name": "", "MaximumRetryCount": 0}},
        "Mounts": mounts(container),
        "Config": {"Hostname": &container.id[..12], "ExposedPorts": exposed, "Tty": container.tty, "Env": null, "Cmd": command,
                   "Image": container.image, "Volumes": null, "WorkingDir": "", "Entrypoint": null, "Labels": container.labels},
        "NetworkSettings": {"Ports": ports(container), "Networks": {}},
    })
}

/// The published ports; empty while the container does not run.
fn ports(container: &Container) -> Value {
    if !container.state.status.is_alive() {
        return json!({});
    }
    let published = container.ports.iter().map(|(port, bindings)| {
        let bindings: Vec<Value> =
            bindings.iter().map(|(address, port)| json!({"HostIp": address, "HostPort": port})).collect();
        (port.clone(), if bindings.is_empty() { Value::Null } else { bindings.into() })
    });
    Value::Object(published.collect())
}

fn mounts(container: &Container) -> Vec<Value> {
    let mount = |mount: &super::world::Mount| {
        json!({"Type": "volume", "Name": mount.volume, "Source": mountpoint(&mount.volume), "Destination": mount.destination,
               "Driver": "local", "Mode": "z", "RW": true, "Propagation": ""})
    };
    container.volumes.iter().map(mount).collect()
}

fn time(at: Option<Timestamp>) -> String {
    at.map_or_else(|| NEVER.to_owned(), |at| at.to_string())
}

/// A list entry of an image.
pub(super) fn image_row(image: &Image, minor: u32) -> Value {
    let (mut tags, mut digests) = (json!(image.tags), json!(image.digests));
    // Lists before 1.43 have placeholders for missing tags and digests.
    if minor < 43 && image.tags.is_empty() && image.digests.is_empty() {
        (tags, digests) = (json!(["<none>:<none>"]), json!(["<none>@<none>"]));
    } else if minor < 43 && image.digests.is_empty() {
        digests = Value::Null;
    }
    let mut row = json!({
        "Id": image.id, "ParentId": "", "RepoTags": tags, "RepoDigests": digests, "Created": image.created.as_second(),
        "Size": image.size, "SharedSize": -1, "Containers": -1,
        "Labels": if image.labels.is_empty() { Value::Null } else { json!(image.labels) },
    });
    if minor < 44 {
        row["VirtualSize"] = image.size.into();
    }
    row
}

/// An inspected image.
pub(super) fn image(image: &Image, minor: u32) -> Value {
    let labels = if image.labels.is_empty() { Value::Null } else { json!(image.labels) };
    let mut whole = json!({
        "Id": image.id, "RepoTags": image.tags, "RepoDigests": image.digests, "Parent": "", "Comment": "Imported from -",
        "Created": image.created.to_string(), "DockerVersion": "", "Author": "", "Architecture": "amd64", "Os": "linux",
        "Size": image.size, "GraphDriver": {"Data": null, "Name": "overlay2"}, "RootFS": {"Type": "layers", "Layers": []},
        "Config": {"Cmd": null, "Env": null, "Labels": labels}, "Metadata": {"LastTagTime": NEVER},
    });
    if minor < 44 {
        whole["VirtualSize"] = image.size.into();
    }
    whole
}

/// A volume.
pub(super) fn volume(volume: &Volume) -> Value {
    let map = |map: &std::collections::BTreeMap<String, String>| {
        if map.is_empty() { Value::Null } else { json!(map) }
    };
    let created = Timestamp::from_second(volume.created.as_second()).unwrap_or(volume.created);
    json!({
        "Name": volume.name, "Driver": "local", "Mountpoint": mountpoint(&volume.name), "CreatedAt": created.to_string(),
        "Labels": map(&volume.labels), "Options": map(&volume.options), "Scope": "local",
    })
}

fn mountpoint(volume: &str) -> String {
    format!("/var/lib/fake/volumes/{volume}/_data")
}

/// The answer to `GET /info`.
pub(super) fn info(world: &World) -> Value {
    let count = |status: fn(Status) -> bool| {
        world.containers().values().filter(|container| status(container.state.status)).count()
    };
    json!({
        "ID": "FAKE", "Name": "fake", "Containers": world.containers().len(), "Images": world.images().len(),
        "ContainersRunning": count(|status| status == Status::Running),
        "ContainersPaused": count(|status| status == Status::Paused),
        "ContainersStopped": count(|status| !status.is_alive()),
        "SystemTime": world.time().to_string(), "Driver": "overlay2", "OperatingSystem": "fake", "OSType": "linux",
        "Architecture": "x86_64", "NCPU": 2, "MemTotal": 1u64 << 32, "ServerVersion": VERSION, "Warnings": null,
    })
}

/// The engine's version; nothing depends on it.
pub(super) const VERSION: &str = "29.0.0-fake";
