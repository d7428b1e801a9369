//! The container engine of one machine on the host: its folders, sockets, device names, ports and addresses.

use std::{
    fmt,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use crate::Instance;

/// The paths and names of one machine's engine. No two machines share any, even of different instances or users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// Eight hexadecimal digits that identify the machine and its instance in short names.
    pub id: String,
    /// The folder of the machine.
    pub folder: PathBuf,
    /// The data root of `dockerd`: images, containers and volumes.
    pub data_root: PathBuf,
    /// The persistent data of `containerd`.
    pub containerd_root: PathBuf,
    /// The folder of everything that is only valid while the machine runs.
    pub run_dir: PathBuf,
    /// The runtime data of `dockerd`.
    pub exec_root: PathBuf,
    /// The runtime data of `containerd`.
    pub containerd_state: PathBuf,
    /// The socket of `containerd`.
    pub containerd_socket: PathBuf,
    /// The debug socket of `containerd`.
    pub containerd_debug_socket: PathBuf,
    /// The PID file of `dockerd`.
    pub pid_file: PathBuf,
    /// The state of the tool that sets up a rootless engine.
    pub rootless_state: PathBuf,
    /// The socket of `dockerd`, unless the template has another one.
    pub docker_socket: PathBuf,
    /// The network bridge of the containers.
    pub bridge: String,
    /// The chain of firewall rules.
    pub chain: String,
    /// The control group of the containers.
    pub cgroup: String,
    /// The persistent data of Kubernetes.
    pub k3s_root: PathBuf,
    /// The kubeconfig that Kubernetes writes.
    pub k3s_config: PathBuf,
    /// The first of the [`Engine::K3S_PORTS`] ports that Kubernetes tries first. Only Kubernetes uses them.
    pub k3s_ports: u16,
}

impl Instance {
    /// The engine of a machine, with a folder under `runtime_dir` for the data that need not survive a reboot.
    ///
    /// That folder has a short path, since the paths of sockets are limited to about a hundred bytes.
    pub fn engine(&self, vm: &str, runtime_dir: &Path) -> Engine {
        let folder = self.paths.machine(vm);
        let id = format!("{:08x}", hash(folder.as_os_str().as_encoded_bytes()));
        let run_dir = runtime_dir.join(format!("rdd-{id}"));
        Engine {
            data_root: folder.join("docker"),
            containerd_root: folder.join("containerd"),
            docker_socket: folder.join("docker.sock"),
            exec_root: run_dir.join("docker"),
            containerd_state: run_dir.join("containerd"),
            containerd_socket: run_dir.join("containerd.sock"),
            containerd_debug_socket: run_dir.join("containerd-debug.sock"),
            pid_file: run_dir.join("dockerd.pid"),
            rootless_state: run_dir.join("rootless"),
            bridge: format!("rdd-{id}"),
            chain: format!("RDD-{id}"),
            cgroup: format!("/rdd-{id}"),
            k3s_root: folder.join("k3s"),
            k3s_config: folder.join("k3s").join("kubeconfig.yaml"),
            k3s_ports: Engine::K3S_PORTS_FIRST + Engine::K3S_PORTS * self.name.index(),
            run_dir,
            folder,
            id,
        }
    }
}

impl Engine {
    /// How many ports a cluster needs for communication among its own components.
    pub const K3S_PORTS: u16 = 16;
    /// Below the ports of services (30000 and up) and the system's ephemeral ports.
    const K3S_PORTS_FIRST: u16 = 20_000;

    /// The possible first ports of a cluster's range, in the order in which to try them.
    pub fn k3s_port_ranges(&self) -> impl Iterator<Item = u16> + use<> {
        let first = self.k3s_ports;
        let others = (0..500).map(|step| Self::K3S_PORTS_FIRST + Self::K3S_PORTS * step);
        std::iter::once(first).chain(others.filter(move |start| *start != first))
    }

    /// The possible address pools of this engine, in the order in which to try them.
    pub fn pools(&self) -> impl Iterator<Item = Pool> + use<> {
        // A machine starts at its own number, so that engines rarely compete for a pool.
        let first = hash(self.id.as_bytes()) % Pool::COUNT;
        (0..Pool::COUNT).map(move |step| Pool::number((first + step) % Pool::COUNT))
    }
}

/// The addresses of one engine: 32 networks of 256 addresses each, the first of which is that of the engine's bridge.
///
/// All pools are in the upper quarter of 10.0.0.0/8. Docker's own defaults are 172.17.0.0 to 192.168.255.255; those of
/// Kubernetes are 10.42 and 10.43, or 10.96 and 10.244.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    base: u32,
}

impl Pool {
    const FIRST: u32 = u32::from_be_bytes([10, 192, 0, 0]);
    const PREFIX: u8 = 19;
    const SIZE: u32 = 1 << (32 - Self::PREFIX);
    /// The number of pools, which end before 10.244.0.0, a default of Kubernetes.
    const COUNT: u32 = (u32::from_be_bytes([10, 244, 0, 0]) - Self::FIRST) / Self::SIZE;

    /// The prefix length of each network in the pool.
    pub const NETWORK_PREFIX: u8 = 24;

    const fn number(number: u32) -> Self {
        Self { base: Self::FIRST + number * Self::SIZE }
    }

    /// Parses the format of [`Display`](fmt::Display). `None` if the text is not one of the pools.
    pub fn parse(text: &str) -> Option<Self> {
        let (base, prefix) = text.split_once('/')?;
        let base = u32::from(base.parse::<Ipv4Addr>().ok()?);
        let is_ours = base >= Self::FIRST && (base - Self::FIRST) % Self::SIZE == 0;
        (prefix == Self::PREFIX.to_string() && is_ours && (base - Self::FIRST) / Self::SIZE < Self::COUNT)
            .then_some(Self { base })
    }

    /// The address of the engine's bridge.
    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    /// Whether the pool contains an address.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        u32::from(address) & Self::MASK == self.base
    }

    /// Whether the pool and a network have addresses in common. The default route (mask 0) never overlaps.
    pub fn overlaps(&self, network: Ipv4Addr, mask: Ipv4Addr) -> bool {
        let (network, mask) = (u32::from(network), u32::from(mask));
        let common = mask & Self::MASK;
        mask != 0 && network & common == self.base & common
    }

    const MASK: u32 = !(Self::SIZE - 1);
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), Self::PREFIX)
    }
}

/// FNV-1a, folded to 32 bits. It must stay the same on every machine and in every version of this program, since the
/// names of existing folders and devices contain it.
fn hash(bytes: &[u8]) -> u32 {
    let long = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    u32::try_from((long >> 32) ^ (long & 0xffff_ffff)).expect("both halves have 32 bits")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Environment, Platform};

    fn engine(home: &str, instance: &str, vm: &str) -> Engine {
        let environment =
            Environment { home: Some(home.into()), instance: Some(instance.into()), ..Default::default() };
        Instance::resolve(&environment, Platform::Linux).unwrap().engine(vm, Path::new("/run"))
    }

    #[test]
    fn an_engine_has_short_names_and_all_its_own() {
        let engine = engine("/home/ann", "2", "rd");
        assert_eq!(engine.folder.to_str(), Some("/home/ann/.rd2/lima/rd"));
        assert_eq!(engine.data_root.to_str(), Some("/home/ann/.rd2/lima/rd/docker"));
        assert!(engine.bridge.len() <= 15, "the kernel's limit for devices");
        assert!(engine.chain.len() <= 28, "and for chains");
        assert_eq!(engine.containerd_socket, Path::new("/run").join(&engine.bridge).join("containerd.sock"));
    }

    // Finding 236-S4
    #[test]
    fn no_two_machines_share_a_name() {
        let mut seen = BTreeSet::new();
        for home in ["/root", "/home/ann", "/home/bob"] {
            for instance in ["2", "3", "bats", "bats-app"] {
                for vm in ["rd", "rd-app", "other"] {
                    let engine = engine(home, instance, vm);
                    assert!(seen.insert((engine.bridge, engine.chain, engine.cgroup, engine.run_dir)));
                }
            }
        }
    }

    #[test]
    fn pools_lie_apart_and_all_of_them_are_offered_once() {
        let pools: Vec<Pool> = engine("/root", "2", "rd").pools().collect();
        let bases: BTreeSet<u32> = pools.iter().map(|pool| pool.base).collect();
        assert_eq!((bases.len(), pools.len()), (416, 416));
        assert_eq!(bases.first().copied().map(Ipv4Addr::from), Some(Ipv4Addr::new(10, 192, 0, 0)));
        assert_eq!(bases.last().copied().map(Ipv4Addr::from), Some(Ipv4Addr::new(10, 243, 224, 0)));
        assert_ne!(engine("/root", "3", "rd").pools().next(), Some(pools[0]));
    }

    #[test]
    fn a_pool_knows_whom_it_overlaps() {
        let pool = Pool::parse("10.192.32.0/19").unwrap();
        assert_eq!((pool.to_string().as_str(), pool.gateway()), ("10.192.32.0/19", Ipv4Addr::new(10, 192, 32, 1)));
        for (network, mask, overlaps) in [
            ([10, 192, 32, 0], [255, 255, 255, 0], true),
            ([10, 192, 63, 0], [255, 255, 255, 0], true),
            ([10, 192, 64, 0], [255, 255, 255, 0], false),
            ([10, 0, 0, 0], [255, 0, 0, 0], true),
            ([192, 168, 0, 0], [255, 255, 0, 0], false),
            ([0, 0, 0, 0], [0, 0, 0, 0], false),
        ] {
            assert_eq!(pool.overlaps(network.into(), mask.into()), overlaps, "{network:?}");
        }
        assert!(pool.contains(Ipv4Addr::new(10, 192, 63, 255)) && !pool.contains(Ipv4Addr::new(10, 192, 64, 0)));
        for text in ["", "10.192.32.0", "10.192.32.0/24", "10.192.33.0/19", "172.17.0.0/19", "10.244.0.0/19"] {
            assert_eq!(Pool::parse(text), None, "{text}");
        }
    }
}
