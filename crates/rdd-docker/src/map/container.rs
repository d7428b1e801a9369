//! Maps an inspected container to the status of its mirror.

use std::collections::BTreeMap;

use rdd_types::containers::{ContainerPort, ContainerPortBinding, ContainerState, ContainerStatus, MOBY};
use serde::Deserialize;

use super::{Words, or_default, time, words};
use crate::{Container, Runs};

/// The fields that are read of an inspected container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Inspected {
    id: String,
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    path: String,
    #[serde(deserialize_with = "or_default")]
    args: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    image: String,
    #[serde(deserialize_with = "or_default")]
    created: String,
    #[serde(deserialize_with = "or_default")]
    state: State,
    #[serde(deserialize_with = "or_default")]
    config: Config,
    #[serde(deserialize_with = "or_default")]
    network_settings: Network,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct State {
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default")]
    pid: i64,
    #[serde(deserialize_with = "or_default")]
    exit_code: i64,
    #[serde(deserialize_with = "or_default")]
    error: String,
    #[serde(deserialize_with = "or_default")]
    started_at: String,
    #[serde(deserialize_with = "or_default")]
    finished_at: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    #[serde(deserialize_with = "or_default")]
    tty: bool,
    labels: Words,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Network {
    #[serde(deserialize_with = "or_default")]
    ports: BTreeMap<String, Option<Vec<Binding>>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Binding {
    #[serde(rename = "HostIp", deserialize_with = "or_default")]
    host_ip: String,
    #[serde(rename = "HostPort", deserialize_with = "or_default")]
    host_port: String,
}

/// Maps the container and its status.
pub(crate) fn container(found: &Inspected) -> Container {
    let (namespace, name) = names(&found.name);
    let state = &found.state;
    let status = ContainerStatus {
        args: found.args.clone(),
        created_at: time(&found.created),
        error: Some(state.error.clone()),
        exit_code: Some(narrow(state.exit_code)),
        finished_at: time(&state.finished_at),
        image: found.image.clone(),
        labels: words(&found.config.labels),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        path: found.path.clone(),
        pid: Some(narrow(state.pid)),
        ports: found.network_settings.ports.iter().map(|(name, bindings)| port(name, bindings.as_deref())).collect(),
        started_at: time(&state.started_at),
        status: self::state(&state.status),
        ..ContainerStatus::default()
    };
    let runs = Runs { started_at: state.started_at.clone(), finished_at: state.finished_at.clone() };
    Container { id: found.id.clone(), tty: found.config.tty, runs, status }
}

/// Splits a container name into namespace and name; a name without a slash is in moby's namespace.
fn names(name: &str) -> (&str, &str) {
    let name = name.strip_prefix('/').unwrap_or(name);
    name.split_once('/').unwrap_or((MOBY, name))
}

fn state(text: &str) -> ContainerState {
    match text {
        "created" => ContainerState::Created,
        "running" => ContainerState::Running,
        "pausing" => ContainerState::Pausing,
        "paused" => ContainerState::Paused,
        "restarting" => ContainerState::Restarting,
        "removing" => ContainerState::Removing,
        "exited" => ContainerState::Exited,
        "dead" => ContainerState::Dead,
        _ => ContainerState::Unknown,
    }
}

fn narrow(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

fn port(name: &str, bindings: Option<&[Binding]>) -> ContainerPort {
    let of = |binding: &Binding| ContainerPortBinding {
        host_ip: binding.host_ip.clone(),
        host_port: binding.host_port.clone(),
    };
    let mut bindings: Vec<_> = bindings.unwrap_or_default().iter().map(of).collect();
    bindings.sort_unstable_by(|a, b| (&a.host_ip, &a.host_port).cmp(&(&b.host_ip, &b.host_port)));
    ContainerPort { bindings, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(answer: Value) -> Container {
        container(&serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn a_container_is_taken_over() {
        let answer = json!({
            "Id": "0af", "Name": "/web", "Path": "httpd", "Args": ["-f"], "Image": "sha256:1", "Created": "2026-11-15T18:42:03.1Z",
            "State": {
                "Status": "exited", "Running": false, "Pid": 0, "ExitCode": 137, "Error": "",
                "StartedAt": "2026-11-15T18:42:04.25Z", "FinishedAt": "0001-01-01T00:00:00Z", "Health": {"Status": "new"},
            },
            "Config": {"Tty": true, "Labels": {"a": "1"}},
            "NetworkSettings": {"Ports": {
                "80/tcp": [{"HostIp": "::", "HostPort": "80"}, {"HostIp": "0.0.0.0", "HostPort": "8080"}, {"HostIp": "0.0.0.0", "HostPort": "80"}],
                "443/tcp": null,
            }},
            "HostConfig": {"Runtime": "of a kind that nobody knows"},
        });
        let found = read(answer);
        assert_eq!(
            (found.id.as_str(), found.tty, found.runs.started_at.as_str()),
            ("0af", true, "2026-11-15T18:42:04.25Z")
        );
        assert_eq!(
            serde_json::to_value(&found.status).unwrap(),
            json!({
                "args": ["-f"], "createdAt": "2026-11-15T18:42:03Z", "error": "", "exitCode": 137, "image": "sha256:1",
                "labels": {"a": "1"}, "name": "web", "namespace": "moby", "path": "httpd", "pid": 0,
                "ports": [
                    {"name": "443/tcp"},
                    {"name": "80/tcp", "bindings": [
                        {"hostIP": "0.0.0.0", "hostPort": "80"}, {"hostIP": "0.0.0.0", "hostPort": "8080"}, {"hostIP": "::", "hostPort": "80"},
                    ]},
                ],
                "startedAt": "2026-11-15T18:42:04Z", "status": "exited",
            })
        );
    }

    #[test]
    fn a_name_with_a_slash_begins_with_its_namespace() {
        for (name, expected) in [
            ("/web", ("moby", "web")),
            ("web", ("moby", "web")),
            ("/k8s.io/web/1", ("k8s.io", "web/1")),
            ("", ("moby", "")),
        ] {
            assert_eq!(names(name), expected, "{name}");
        }
    }

    #[test]
    fn a_state_that_nobody_knows_is_unknown_and_null_is_nothing() {
        let found = read(json!({
            "Id": "1", "Name": null, "Args": null, "State": {"Status": "hovering", "Pid": 1_i64 << 40},
            "Config": null, "NetworkSettings": {"Ports": null},
        }));
        assert_eq!((found.state(), found.status.pid), (ContainerState::Unknown, Some(i32::MAX)));
        for word in ["created", "running", "pausing", "paused", "restarting", "removing", "exited", "dead", "unknown"] {
            assert_eq!(serde_json::to_value(state(word)).unwrap(), word);
        }
    }
}
