//! The command line and configuration files of K3s on this host.
//!
//! Everything that K3s allows to configure is the instance's own: data, kubeconfig, ports, bridge, node name, the
//! kubelet's folder. ADR 17 lists what it does not allow to configure.

use std::{
    ffi::OsString,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use rdd_instance::Engine;
use serde::{Deserialize, Serialize};

use super::parts::Arguments;
use crate::kubelet::{MINOR_WITH_CGROUP_FLAG, minor_version};

/// The container runtime of the pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pods {
    /// The instance's own Docker engine, at this socket.
    Docker(PathBuf),
    /// The containerd that is part of K3s.
    Own,
}

/// The record of a cluster's start, for the next daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    /// The release of K3s.
    pub(super) version: String,
    /// The address of the cluster's API.
    pub(super) address: SocketAddr,
    /// The time of the start, in milliseconds since the epoch; `None` in records of older versions.
    #[serde(default)]
    pub(super) at: Option<u64>,
}

/// The inputs of the command line.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) engine: &'a Engine,
    pub(super) pods: &'a Pods,
    pub(super) node: &'a str,
    /// The address of the engine's bridge: pods can reach it, other hosts cannot.
    pub(super) address: Ipv4Addr,
    /// The first port of the cluster's range.
    pub(super) ports: u16,
    /// The full version of the release.
    pub(super) version: &'a str,
    /// Whether this host uses control groups of version 1.
    pub(super) is_cgroup_v1: bool,
    pub(super) debug: bool,
}

/// The offsets of the cluster's ports in its range. K3s uses offset 1 for its API server.
#[derive(Debug, Clone, Copy)]
enum Use {
    Https = 0,
    LoadBalancer = 2,
    Kubelet = 3,
    KubeletHealth = 4,
    ProxyMetrics = 5,
    ProxyHealth = 6,
    ControllerManager = 7,
    Scheduler = 8,
    CloudController = 9,
}

/// The number of ports that must be free before a start.
const USED: u16 = 10;

impl Layout<'_> {
    fn port(&self, of: Use) -> u16 {
        self.ports + of as u16
    }

    /// The address of the cluster's API.
    pub(super) fn listens_at(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.address), self.port(Use::Https))
    }

    /// Builds the command line, without the program.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let engine = self.engine;
        let address = self.address.to_string();
        let mut arguments = Arguments::default();
        arguments.flag("server");
        // Without this flag, K3s reads the system's configuration.
        arguments.path("--config", &config_file(engine));
        arguments.path("--data-dir", &engine.k3s_root);
        arguments.path("--write-kubeconfig", &engine.k3s_config);
        arguments.text("--write-kubeconfig-mode", "600");
        arguments.text("--bind-address", address.as_str());
        arguments.text("--advertise-address", address.as_str());
        arguments.text("--node-ip", address.as_str());
        arguments.text("--tls-san", "127.0.0.1");
        arguments.text("--https-listen-port", self.port(Use::Https).to_string());
        arguments.text("--lb-server-port", self.port(Use::LoadBalancer).to_string());
        arguments.text("--node-name", self.node);
        match self.pods {
            Pods::Docker(socket) => {
                let mut endpoint = OsString::from("unix://");
                endpoint.push(socket);
                arguments.flag("--docker");
                arguments.text("--container-runtime-endpoint", endpoint);
            }
            Pods::Own => {}
        }
        // A cluster of one node needs no tunnel to other nodes, and so neither its device nor its port.
        arguments.text("--flannel-backend", "host-gw");
        arguments.text("--flannel-iface", engine.bridge.as_str());
        arguments.path("--flannel-cni-conf", &network_file(engine));
        let mut kubelet = OsString::from("root-dir=");
        kubelet.push(engine.k3s_root.join("kubelet"));
        arguments.text("--kubelet-arg", kubelet);
        // Each of these ports has a fixed default, on which two clusters on one host would collide.
        for (flag, value) in [
            ("--kubelet-arg", format!("address={address}")),
            ("--kubelet-arg", format!("port={}", self.port(Use::Kubelet))),
            ("--kubelet-arg", format!("healthz-port={}", self.port(Use::KubeletHealth))),
            ("--kubelet-arg", format!("cgroup-root={}", engine.cgroup)),
            ("--kube-proxy-arg", format!("metrics-bind-address=127.0.0.1:{}", self.port(Use::ProxyMetrics))),
            ("--kube-proxy-arg", format!("healthz-bind-address=127.0.0.1:{}", self.port(Use::ProxyHealth))),
            ("--kube-controller-manager-arg", format!("secure-port={}", self.port(Use::ControllerManager))),
            ("--kube-scheduler-arg", format!("secure-port={}", self.port(Use::Scheduler))),
            ("--kube-cloud-controller-manager-arg", format!("secure-port={}", self.port(Use::CloudController))),
        ] {
            arguments.text(flag, value);
        }
        // Newer kubelets refuse version 1 of control groups unless this flag allows it.
        if self.is_cgroup_v1 && minor_version(self.version).is_some_and(|minor| minor >= MINOR_WITH_CGROUP_FLAG) {
            arguments.text("--kubelet-arg", "fail-cgroupv1=false");
        }
        if self.debug {
            arguments.flag("--debug");
        }
        arguments.0
    }
}

/// The configuration file of K3s. Created empty; the user may edit it.
pub(super) fn config_file(engine: &Engine) -> PathBuf {
    engine.folder.join("k3s-config.yaml")
}

/// The CNI configuration of pods.
pub(super) fn network_file(engine: &Engine) -> PathBuf {
    engine.folder.join("k3s-network.json")
}

/// The bridge of the pods. Its name is unique to the instance, because the default name is shared by all clusters of a
/// host.
pub(super) fn pod_bridge(engine: &Engine) -> String {
    format!("k3s-{}", engine.id)
}

/// The content of [`network_file`].
pub(super) fn network(engine: &Engine) -> String {
    let plugins = serde_json::json!([
        {"type": "flannel", "delegate": {
            "bridge": pod_bridge(engine), "hairpinMode": true, "forceAddress": true, "isDefaultGateway": true}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]);
    serde_json::json!({"name": "cbr0", "cniVersion": "1.0.0", "plugins": plugins}).to_string()
}

/// The file that records which release used the data last.
pub(super) fn version_file(engine: &Engine) -> PathBuf {
    engine.k3s_root.join("rdd-version")
}

/// The folder of the cluster's data, which K3s creates at its first start.
pub(super) fn data_folder(engine: &Engine) -> PathBuf {
    engine.k3s_root.join("server")
}

/// This file marks data that is new and that no user can have used yet. Data without it may be a user's.
pub(super) fn new_file(engine: &Engine) -> PathBuf {
    engine.k3s_root.join("rdd-new")
}

/// This file records that a reset could not remove the containers of pods, because the engine was stopped.
pub(super) fn forgotten_file(engine: &Engine) -> PathBuf {
    engine.folder.join("k3s-forgotten")
}

/// The certificate of the authority that signs K3s's server certificates.
pub(super) fn authority_file(engine: &Engine) -> PathBuf {
    engine.k3s_root.join("server/tls/server-ca.crt")
}

/// Chooses the first port range that is free now. K3s binds the ports itself: if another process takes one in between,
/// the start fails, and the next start chooses again.
pub(super) fn choose_ports(engine: &Engine, address: Ipv4Addr) -> u16 {
    let is_free = |start: &u16| {
        let free = |address: Ipv4Addr, port: u16| TcpListener::bind((address, port)).is_ok();
        free(address, *start) && (1..USED).all(|step| free(Ipv4Addr::LOCALHOST, start + step))
    };
    engine.k3s_port_ranges().find(is_free).unwrap_or(engine.k3s_ports)
}

/// The folder from which K3s loads image archives when it starts.
pub(super) fn images_folder(engine: &Engine) -> PathBuf {
    engine.k3s_root.join("agent").join("images")
}

/// The path of an archive in [`images_folder`]; `None` if the archive's path has no file name.
pub(super) fn image_target(engine: &Engine, archive: &Path) -> Option<PathBuf> {
    Some(images_folder(engine).join(archive.file_name()?))
}

#[cfg(test)]
mod tests {
    use rdd_instance::{Environment, Instance, Platform};

    use super::*;

    fn engine(instance: &str) -> Engine {
        let environment =
            Environment { home: Some("/home/ann".into()), instance: Some(instance.into()), ..Default::default() };
        Instance::resolve(&environment, Platform::Linux).unwrap().engine("rd", Path::new("/run"))
    }

    fn arguments(engine: &Engine, pods: &Pods) -> String {
        let address = Ipv4Addr::new(10, 192, 0, 1);
        let layout = Layout { node: "rancher-desktop-2", ..mk_layout(engine, pods, address) };
        assert_eq!(layout.listens_at().to_string(), "10.192.0.1:20032");
        layout.arguments().iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    fn mk_layout<'a>(engine: &'a Engine, pods: &'a Pods, address: Ipv4Addr) -> Layout<'a> {
        let version = "v1.34.6+k3s1";
        Layout { engine, pods, node: "n", address, ports: 20032, version, is_cgroup_v1: false, debug: false }
    }

    // Finding E-19
    #[test]
    fn a_kubelet_that_refuses_control_groups_of_version_1_is_told_not_to_and_an_older_one_hears_nothing() {
        let engine = engine("2");
        let tells = |version, is_cgroup_v1| {
            let layout = Layout { version, is_cgroup_v1, ..mk_layout(&engine, &Pods::Own, Ipv4Addr::LOCALHOST) };
            let arguments = layout.arguments();
            let at = arguments.iter().position(|argument| argument == "fail-cgroupv1=false");
            at.is_some_and(|at| arguments[at - 1] == "--kubelet-arg")
        };
        for (version, expected) in
            [("v1.35.0+k3s3", true), ("v1.31.0+k3s1", true), ("v1.30.14+k3s1", false), ("nonsense", false)]
        {
            assert_eq!(tells(version, true), expected, "{version}");
            assert!(!tells(version, false), "{version} on version 2");
        }
    }

    #[test]
    fn every_place_and_port_of_a_cluster_is_the_instances_own() {
        let engine = engine("2");
        let id = &engine.id;
        assert_eq!(
            arguments(&engine, &Pods::Docker("/home/ann/.rd2/docker.sock".into())),
            format!(
                "server --config /home/ann/.rd2/lima/rd/k3s-config.yaml --data-dir /home/ann/.rd2/lima/rd/k3s \
                 --write-kubeconfig /home/ann/.rd2/lima/rd/k3s/kubeconfig.yaml --write-kubeconfig-mode 600 \
                 --bind-address 10.192.0.1 --advertise-address 10.192.0.1 --node-ip 10.192.0.1 --tls-san 127.0.0.1 \
                 --https-listen-port 20032 --lb-server-port 20034 --node-name rancher-desktop-2 \
                 --docker --container-runtime-endpoint unix:///home/ann/.rd2/docker.sock \
                 --flannel-backend host-gw --flannel-iface rdd-{id} \
                 --flannel-cni-conf /home/ann/.rd2/lima/rd/k3s-network.json \
                 --kubelet-arg root-dir=/home/ann/.rd2/lima/rd/k3s/kubelet --kubelet-arg address=10.192.0.1 \
                 --kubelet-arg port=20035 --kubelet-arg healthz-port=20036 --kubelet-arg cgroup-root=/rdd-{id} \
                 --kube-proxy-arg metrics-bind-address=127.0.0.1:20037 --kube-proxy-arg healthz-bind-address=127.0.0.1:20038 \
                 --kube-controller-manager-arg secure-port=20039 --kube-scheduler-arg secure-port=20040 \
                 --kube-cloud-controller-manager-arg secure-port=20041"
            )
        );
        assert!(!arguments(&engine, &Pods::Own).contains("--docker"));
    }

    // Finding 355-D2
    #[test]
    fn a_home_with_blanks_quotes_and_dollars_is_one_argument_wherever_it_is_named() {
        let home = "/home/a b\"c'd$e\\f`g #h";
        let environment = Environment { home: Some(home.into()), instance: Some("2".into()), ..Default::default() };
        let engine = Instance::resolve(&environment, Platform::Linux).unwrap().engine("rd", Path::new("/run"));
        let pods = Pods::Docker(Path::new(home).join("docker.sock"));
        let address = Ipv4Addr::new(10, 192, 0, 1);
        let layout = mk_layout(&engine, &pods, address);
        let arguments: Vec<String> =
            layout.arguments().iter().map(|argument| argument.to_str().unwrap().to_owned()).collect();
        for (flag, value) in [
            ("--config", format!("{home}/.rd2/lima/rd/k3s-config.yaml")),
            ("--data-dir", format!("{home}/.rd2/lima/rd/k3s")),
            ("--write-kubeconfig", format!("{home}/.rd2/lima/rd/k3s/kubeconfig.yaml")),
            ("--container-runtime-endpoint", format!("unix://{home}/docker.sock")),
            ("--flannel-cni-conf", format!("{home}/.rd2/lima/rd/k3s-network.json")),
            ("--kubelet-arg", format!("root-dir={home}/.rd2/lima/rd/k3s/kubelet")),
        ] {
            let at = arguments.iter().position(|argument| argument == flag);
            assert_eq!(at.map(|at| &arguments[at + 1]), Some(&value), "{flag} in {arguments:?}");
        }
    }

    // Finding 236-S4
    #[test]
    fn two_instances_share_no_port_and_no_device() {
        let (one, other) = (engine("2"), engine("3"));
        assert!(one.k3s_ports + Engine::K3S_PORTS <= other.k3s_ports);
        assert_ne!(pod_bridge(&one), pod_bridge(&other));
        assert!(pod_bridge(&one).len() <= 15 && network(&one).contains(&pod_bridge(&one)));
        assert!(one.k3s_port_ranges().all(|start| start + Engine::K3S_PORTS <= 30_000));
    }

    #[test]
    fn a_range_with_a_taken_port_is_passed_over() {
        let engine = engine("2");
        let first = choose_ports(&engine, Ipv4Addr::LOCALHOST);
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first + Use::LoadBalancer as u16)).unwrap();
        assert_ne!(choose_ports(&engine, Ipv4Addr::LOCALHOST), first);
    }
}
