//! Creates, checks and removes an engine's bridge and packet rules.

use std::{fs, net::Ipv4Addr, path::PathBuf};

use rdd_instance::{Engine, Pool};
use serde::{Deserialize, Serialize};

use super::{
    command::{run, run_with_input, succeeds},
    programs::Programs,
    rules::{JUMPS, Network, made_by_engine, rules},
};
use crate::Error;

/// The programs that configure the host's network.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    pub(super) ip: PathBuf,
    iptables: PathBuf,
    iptables_restore: PathBuf,
}

impl Tools {
    pub(super) fn find(programs: &Programs) -> Result<Self, Error> {
        Ok(Self {
            ip: programs.find("ip")?,
            iptables: programs.find("iptables")?,
            iptables_restore: programs.find("iptables-restore")?,
        })
    }
}

/// The record of an engine's network: its address pool while the machine exists, its bridges while the engine runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Remembered {
    /// The address pool.
    pub(super) pool: String,
    /// The bridges that the engine created; they are removed with it.
    #[serde(default)]
    pub(super) bridges: Vec<String>,
}

/// A route of this host: its device, network and mask.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    device: String,
    network: Ipv4Addr,
    mask: Ipv4Addr,
}

/// Parses `/proc/net/route`, whose addresses are hexadecimal numbers in little-endian byte order.
fn parse_routes(text: &str) -> Vec<Route> {
    let address = |field: &str| u32::from_str_radix(field, 16).ok().map(|number| Ipv4Addr::from(number.swap_bytes()));
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let device = (*fields.first()?).to_owned();
        Some(Route { device, network: address(fields.get(1)?)?, mask: address(fields.get(7)?)? })
    };
    text.lines().skip(1).filter_map(route).collect()
}

/// Chooses the last pool if its addresses are still free on this host, else the first free pool.
fn choose(engine: &Engine, last: Option<Pool>, routes: &[Route], own: &[String]) -> Result<Pool, Error> {
    let foreign = |route: &&Route| route.device != engine.bridge && !own.contains(&route.device);
    let is_free = |pool: &Pool| !routes.iter().filter(foreign).any(|route| pool.overlaps(route.network, route.mask));
    // A VPN that routes all of 10.0.0.0/8 leaves no free pool; the more specific route of our bridge takes precedence
    // over it.
    let routed_widely = |route: &&Route| u32::from(route.mask).leading_ones() <= 8;
    let is_free_but_for_wide = |pool: &Pool| {
        let narrow = routes.iter().filter(foreign).filter(|route| !routed_widely(route));
        !narrow.clone().any(|route| pool.overlaps(route.network, route.mask))
    };
    let candidates = || last.into_iter().chain(engine.pools());
    candidates().find(is_free).or_else(|| candidates().find(is_free_but_for_wide)).ok_or_else(|| Error::InTheWay {
        what: "every range of addresses that the engine could use is routed elsewhere by this host".to_owned(),
    })
}

/// The network of one engine and the tools to change it.
#[derive(Debug)]
pub(super) struct Wiring<'a> {
    pub(super) engine: &'a Engine,
    pub(super) tools: &'a Tools,
}

impl Wiring<'_> {
    /// Chooses the engine's address pool.
    ///
    /// # Errors
    /// [`Error::InTheWay`] if other devices route every pool.
    pub(super) fn choose_pool(&self, remembered: &Remembered) -> Result<Pool, Error> {
        let routes = parse_routes(&fs::read_to_string("/proc/net/route").unwrap_or_default());
        choose(self.engine, Pool::parse(&remembered.pool), &routes, &remembered.bridges)
    }

    /// Creates the bridge if it is missing, sets its address and brings it up.
    ///
    /// # Errors
    /// [`Error::InTheWay`] if a device of that name has another owner.
    pub(super) async fn ensure_bridge(&self, pool: &Pool) -> Result<(), Error> {
        let (bridge, ip) = (self.engine.bridge.as_str(), &self.tools.ip);
        let owner = self.engine.folder.to_string_lossy();
        match self.owner_of_bridge().await? {
            None => {
                run(ip, &["link", "add", "name", bridge, "type", "bridge"]).await?;
                run(ip, &["link", "set", "dev", bridge, "alias", &owner]).await?;
            }
            // A kill between the two commands above leaves a bridge without an alias; it is ours.
            Some(alias) if alias.is_empty() => {
                run(ip, &["link", "set", "dev", bridge, "alias", &owner]).await?;
            }
            Some(alias) if alias == owner => {}
            Some(alias) => {
                return Err(Error::InTheWay { what: format!("the network device {bridge} belongs to {alias:?}") });
            }
        }
        let address = format!("{}/{}", pool.gateway(), Pool::NETWORK_PREFIX);
        run(ip, &["-4", "addr", "flush", "dev", bridge]).await?;
        run(ip, &["addr", "add", &address, "dev", bridge]).await?;
        run(ip, &["link", "set", "dev", bridge, "up"]).await?;
        Ok(())
    }

    /// The alias of the bridge, which names its owner; `None` if there is no bridge, empty if it has no alias.
    async fn owner_of_bridge(&self) -> Result<Option<String>, Error> {
        let shown = match run(&self.tools.ip, &["-j", "link", "show", "dev", &self.engine.bridge]).await {
            Ok(shown) => shown,
            Err(Error::Program { message, .. }) if message.contains("does not exist") => return Ok(None),
            Err(error) => return Err(error),
        };
        let devices: Vec<serde_json::Value> = serde_json::from_str(&shown).unwrap_or_default();
        let alias = devices.first().and_then(|device| device.get("ifalias")).and_then(|alias| alias.as_str());
        Ok(Some(alias.unwrap_or_default().to_owned()))
    }

    /// Replaces the rules of the engine's chains by those for these networks, and inserts the jumps to the chains.
    pub(super) async fn apply_rules(&self, pool: &Pool, networks: &[Network]) -> Result<(), Error> {
        let text = rules(&self.engine.chain, pool, networks);
        run_with_input(&self.tools.iptables_restore, &["--noflush", "--wait"], &text).await?;
        for (table, parent) in JUMPS {
            if !self.is_called(table, parent).await {
                self.iptables(table, &["-I", parent, "-j", &self.engine.chain]).await?;
            }
        }
        Ok(())
    }

    /// Reports whether the jumps to our chains are in place; a firewall that restarts may have removed them.
    pub(super) async fn is_in_place(&self) -> bool {
        for (table, parent) in JUMPS {
            if !self.is_called(table, parent).await {
                return false;
            }
        }
        true
    }

    async fn is_called(&self, table: &str, parent: &str) -> bool {
        let arguments = ["--wait", "-t", table, "-C", parent, "-j", &self.engine.chain];
        succeeds(&self.tools.iptables, &arguments).await
    }

    async fn iptables(&self, table: &str, arguments: &[&str]) -> Result<String, Error> {
        run(&self.tools.iptables, &[&["--wait", "-t", table], arguments].concat()).await
    }

    /// Removes the rules and bridges. Absent ones are ignored.
    pub(super) async fn remove(&self, bridges: &[String]) -> Result<(), Error> {
        let chain = self.engine.chain.as_str();
        for (table, parent) in JUMPS {
            // No chain in this table: nothing to remove.
            if self.iptables(table, &["-S", chain]).await.is_err() {
                continue;
            }
            // Two daemons may each have inserted a jump.
            for _ in 0..8 {
                if !self.is_called(table, parent).await {
                    break;
                }
                self.iptables(table, &["-D", parent, "-j", chain]).await?;
            }
            self.iptables(table, &["-F", chain]).await?;
            self.iptables(table, &["-X", chain]).await?;
        }
        for bridge in bridges {
            if succeeds(&self.tools.ip, &["link", "show", "dev", bridge]).await {
                run(&self.tools.ip, &["link", "delete", "dev", bridge]).await?;
            }
        }
        let owner = self.engine.folder.to_string_lossy();
        if self.owner_of_bridge().await?.is_some_and(|alias| alias.is_empty() || alias == owner) {
            run(&self.tools.ip, &["link", "delete", "dev", &self.engine.bridge]).await?;
        }
        Ok(())
    }

    /// The MTU of the default route's device if it is smaller than usual, as in clouds and VPNs.
    pub(super) async fn small_mtu(&self) -> Option<u16> {
        const USUAL: u64 = 1500;
        const SMALLEST: u64 = 576;
        let routes = parse_routes(&fs::read_to_string("/proc/net/route").unwrap_or_default());
        let default = routes.into_iter().find(|route| route.mask.is_unspecified() && route.network.is_unspecified())?;
        let shown = run(&self.tools.ip, &["-j", "link", "show", "dev", &default.device]).await.ok()?;
        let devices: Vec<serde_json::Value> = serde_json::from_str(&shown).ok()?;
        let mtu = devices.first()?.get("mtu")?.as_u64()?;
        (SMALLEST..USUAL).contains(&mtu).then(|| u16::try_from(mtu).ok()).flatten()
    }
}

/// The record for these networks.
pub(super) fn remember(pool: &Pool, networks: &[Network]) -> Remembered {
    Remembered { pool: pool.to_string(), bridges: made_by_engine(networks) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rdd_instance::{Environment, Instance, Platform};

    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";

    fn engine() -> Engine {
        let environment = Environment { home: Some("/root".into()), ..Default::default() };
        Instance::resolve(&environment, Platform::Linux).unwrap().engine("rd", Path::new("/run"))
    }

    fn route(device: &str, network: [u8; 4], mask: [u8; 4]) -> Route {
        Route { device: device.to_owned(), network: network.into(), mask: mask.into() }
    }

    #[test]
    fn routes_are_read_as_the_kernel_writes_them() {
        assert_eq!(
            parse_routes(ROUTES),
            [route("eth0", [0; 4], [0; 4]), route("eth0", [172, 17, 0, 0], [255, 255, 0, 0])]
        );
        assert_eq!(parse_routes("Iface\nbroken\neth0 x y z\n"), []);
    }

    #[test]
    fn addresses_that_others_use_are_passed_over() {
        let engine = engine();
        let all: Vec<Pool> = engine.pools().collect();
        let taken = |pool: Pool, device: &str| Route {
            device: device.to_owned(),
            network: pool.gateway(),
            mask: [255, 255, 255, 0].into(),
        };
        let check = |last, routes: &[Route], own: &[String], expected: usize| {
            assert_eq!(choose(&engine, last, routes, own).unwrap(), all[expected], "{routes:?}");
        };
        check(None, &parse_routes(ROUTES), &[], 0);
        check(None, &[taken(all[0], "docker0")], &[], 1);
        check(Some(all[7]), &[], &[], 7);
        check(Some(all[7]), &[taken(all[7], "tun0")], &[], 0);
        check(Some(all[7]), &[taken(all[7], &engine.bridge)], &[], 7);
        check(Some(all[7]), &[taken(all[7], "br-0123456789ab")], &["br-0123456789ab".to_owned()], 7);
        let vpn = route("tun0", [10, 0, 0, 0], [255, 0, 0, 0]);
        check(None, &[vpn.clone(), taken(all[0], "docker0")], &[], 1);
        let everything: Vec<Route> = all.iter().map(|pool| taken(*pool, "tun0")).collect();
        assert!(choose(&engine, None, &everything, &[]).is_err());
    }
}
