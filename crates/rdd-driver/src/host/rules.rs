//! Generates the packet rules of one engine as input for `iptables-restore`. Pure.
//!
//! `dockerd` runs with `--iptables=false`, because engines in one network namespace empty each other's chains when they
//! start (docs/adr/0011). The rules here replace its rules, in a chain per engine in three tables: `nat` and `filter`
//! let containers reach the outside, `mangle` blocks connections into a network from outside. `mangle` comes first, so
//! no rule in another program's `filter` chains can allow them. Published ports need no rule: the engine's userland
//! proxy serves them.

use std::{collections::BTreeMap, fmt::Write as _, net::Ipv4Addr};

use rdd_instance::Pool;
use serde::Deserialize;

/// The tables, and the built-in chains from which ours is called.
pub(super) const JUMPS: [(&str, &str); 3] = [("nat", "POSTROUTING"), ("mangle", "FORWARD"), ("filter", "FORWARD")];

/// A network of containers: the fields that rules depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) bridge: String,
    pub(super) subnets: Vec<Subnet>,
    /// Whether the network has no connection to the outside.
    is_internal: bool,
    /// Whether its addresses are translated to the host's.
    is_masqueraded: bool,
}

/// An IPv4 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subnet {
    address: Ipv4Addr,
    prefix: u8,
}

impl Subnet {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let prefix = prefix.parse().ok().filter(|prefix| (1..=32).contains(prefix))?;
        Some(Self { address: address.parse().ok()?, prefix })
    }
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Network {
    /// The engine's default network, for use before the engine can list its networks.
    pub(super) fn own(bridge: &str) -> Self {
        Self { bridge: bridge.to_owned(), subnets: Vec::new(), is_internal: false, is_masqueraded: true }
    }
}

/// An entry of the engine's `GET /networks`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    driver: String,
    #[serde(default)]
    internal: bool,
    #[serde(default)]
    options: Option<BTreeMap<String, String>>,
    #[serde(rename = "IPAM", default)]
    addresses: Addresses,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Addresses {
    #[serde(default)]
    config: Option<Vec<Address>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Address {
    #[serde(default)]
    subnet: String,
}

/// The length of the prefix of a network's ID that is part of its bridge's name.
const SHORT_ID: usize = 12;

/// Parses the engine's list of networks. Skips networks that are not bridges, and names that are not valid device
/// names.
///
/// The engine reports its `own` bridge as not masqueraded, because it runs with `--iptables=false`; here it counts as
/// masqueraded.
pub(super) fn parse_networks(json: &[u8], own: &str) -> Result<Vec<Network>, serde_json::Error> {
    let listed: Vec<Listed> = serde_json::from_slice(json)?;
    let bridges = listed.into_iter().filter(|network| network.driver == "bridge");
    Ok(bridges.filter_map(|listed| network_of(listed, own)).collect())
}

fn network_of(listed: Listed, own: &str) -> Option<Network> {
    let options = listed.options.unwrap_or_default();
    let option = |name: &str| options.get(&format!("com.docker.network.bridge.{name}")).map(String::as_str);
    let bridge = match option("name") {
        Some(name) => name.to_owned(),
        None => format!("br-{}", listed.id.get(..SHORT_ID)?),
    };
    let subnets = listed.addresses.config.unwrap_or_default();
    let is_masqueraded = bridge == own || option("enable_ip_masquerade") != Some("false");
    is_device_name(&bridge).then_some(Network {
        bridge,
        subnets: subnets.iter().filter_map(|address| Subnet::parse(&address.subnet)).collect(),
        is_internal: listed.internal,
        is_masqueraded,
    })
}

fn is_device_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // IFNAMSIZ is 16, including the terminating zero.
    (1..=15).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with(['-', '.'])
}

/// The bridges that the engine created for networks without an explicit bridge name. They are removed with the engine.
pub(super) fn made_by_engine(networks: &[Network]) -> Vec<String> {
    let is_made = |bridge: &str| {
        let id = bridge.strip_prefix("br-").unwrap_or_default();
        id.len() == SHORT_ID && id.chars().all(|c| c.is_ascii_hexdigit())
    };
    networks.iter().map(|network| network.bridge.clone()).filter(|bridge| is_made(bridge)).collect()
}

const NEW: &str = "-m conntrack ! --ctstate RELATED,ESTABLISHED";

/// All rules of an engine. `iptables-restore --noflush` replaces the engine's chains with them and leaves other chains
/// alone.
pub(super) fn rules(chain: &str, pool: &Pool, networks: &[Network]) -> String {
    let mut text = String::new();
    let mut table = |name: &str, rules: Vec<String>| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "*{name}\n:{chain} - [0:0]");
        for rule in rules {
            let _ = writeln!(text, "-A {chain} {rule}");
        }
        let _ = writeln!(text, "COMMIT");
    };
    table("nat", masquerades(pool, networks));
    table("mangle", walls(pool, networks));
    table("filter", passes(pool, networks));
    text
}

fn in_pool(pool: &Pool, subnet: &Subnet) -> bool {
    pool.contains(subnet.address)
}

fn masquerades(pool: &Pool, networks: &[Network]) -> Vec<String> {
    let (hidden, open): (Vec<&Network>, Vec<&Network>) =
        networks.iter().partition(|network| network.is_masqueraded && !network.is_internal);
    let mut rules = Vec::new();
    // Must precede the rule for the pool, which would masquerade these subnets.
    for subnet in open.iter().flat_map(|network| &network.subnets) {
        rules.push(format!("-s {subnet} -j RETURN"));
    }
    // Covers the whole pool, so that a new network has access from its first packet.
    rules.push(format!("-s {pool} ! -d {pool} -j MASQUERADE"));
    for network in hidden {
        for subnet in network.subnets.iter().filter(|subnet| !in_pool(pool, subnet)) {
            rules.push(format!("-s {subnet} ! -o {} -j MASQUERADE", network.bridge));
        }
    }
    rules
}

fn walls(pool: &Pool, networks: &[Network]) -> Vec<String> {
    let mut rules = Vec::new();
    for Network { bridge, is_internal, .. } in networks {
        if *is_internal {
            // Internal networks: drop traffic in both directions, also of established connections.
            rules.push(format!("-i {bridge} ! -o {bridge} -j DROP"));
            rules.push(format!("! -i {bridge} -o {bridge} -j DROP"));
        } else {
            rules.push(format!("! -i {bridge} -o {bridge} {NEW} -j DROP"));
        }
    }
    rules.push(format!("! -s {pool} -d {pool} {NEW} -j DROP"));
    rules
}

fn passes(pool: &Pool, networks: &[Network]) -> Vec<String> {
    let mut rules = vec![format!("-s {pool} -j ACCEPT"), format!("-d {pool} -j ACCEPT")];
    for network in networks {
        if network.subnets.iter().any(|subnet| !in_pool(pool, subnet)) {
            rules.push(format!("-i {} -j ACCEPT", network.bridge));
            rules.push(format!("-o {} -j ACCEPT", network.bridge));
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        Pool::parse("10.200.0.0/19").unwrap()
    }

    const LISTED: &str = r#"[
        {"Name":"bridge","Id":"5ff641f50934aaaa","Driver":"bridge","Internal":false,
         "IPAM":{"Driver":"default","Options":null,"Config":[{"Subnet":"10.200.0.0/24","Gateway":"10.200.0.1"}]},
         "Options":{"com.docker.network.bridge.name":"rdd-0badcafe","com.docker.network.bridge.enable_ip_masquerade":"false"}},
        {"Name":"host","Id":"92f92aef27e2aaaa","Driver":"host","IPAM":{"Driver":"default","Config":[]},"Options":{}},
        {"Name":"inner","Id":"51d7b758e976aaaa","Driver":"bridge","Internal":true,
         "IPAM":{"Config":[{"Subnet":"10.200.1.0/24"}]},"Options":null},
        {"Name":"own","Id":"3613013b8090aaaa","Driver":"bridge",
         "IPAM":{"Config":[{"Subnet":"192.168.77.0/24"},{"Subnet":"fd00::/64"}]},"Options":{}},
        {"Name":"evil","Id":"666","Driver":"bridge","IPAM":{"Config":null},
         "Options":{"com.docker.network.bridge.name":"x -j ACCEPT\n-A"}}]"#;

    #[test]
    fn the_rules_of_an_engine_with_some_networks() {
        let networks = parse_networks(LISTED.as_bytes(), "rdd-0badcafe").unwrap();
        assert_eq!(made_by_engine(&networks), ["br-51d7b758e976", "br-3613013b8090"]);
        let expected = "\
*nat
:RDD-0badcafe - [0:0]
-A RDD-0badcafe -s 10.200.1.0/24 -j RETURN
-A RDD-0badcafe -s 10.200.0.0/19 ! -d 10.200.0.0/19 -j MASQUERADE
-A RDD-0badcafe -s 192.168.77.0/24 ! -o br-3613013b8090 -j MASQUERADE
COMMIT
*mangle
:RDD-0badcafe - [0:0]
-A RDD-0badcafe ! -i rdd-0badcafe -o rdd-0badcafe -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP
-A RDD-0badcafe -i br-51d7b758e976 ! -o br-51d7b758e976 -j DROP
-A RDD-0badcafe ! -i br-51d7b758e976 -o br-51d7b758e976 -j DROP
-A RDD-0badcafe ! -i br-3613013b8090 -o br-3613013b8090 -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP
-A RDD-0badcafe ! -s 10.200.0.0/19 -d 10.200.0.0/19 -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP
COMMIT
*filter
:RDD-0badcafe - [0:0]
-A RDD-0badcafe -s 10.200.0.0/19 -j ACCEPT
-A RDD-0badcafe -d 10.200.0.0/19 -j ACCEPT
-A RDD-0badcafe -i br-3613013b8090 -j ACCEPT
-A RDD-0badcafe -o br-3613013b8090 -j ACCEPT
COMMIT
";
        assert_eq!(rules("RDD-0badcafe", &pool(), &networks), expected);
    }

    #[test]
    fn before_the_engine_answers_its_whole_pool_reaches_out() {
        let text = rules("C", &pool(), &[Network::own("rdd-1")]);
        assert!(text.contains("-A C -s 10.200.0.0/19 ! -d 10.200.0.0/19 -j MASQUERADE\n"));
        assert!(text.contains("-A C ! -i rdd-1 -o rdd-1 -m conntrack"));
    }

    #[test]
    fn a_list_that_is_none_is_an_error_and_names_that_could_forge_a_rule_are_left_out() {
        assert!(parse_networks(b"{}", "rdd-1").is_err());
        assert_eq!(parse_networks(b"[]", "rdd-1").unwrap(), []);
        let names = ["", "a b", "a\nb", "-j", "sixteen-bytes-it", "a/b", "ä"];
        assert!(names.iter().all(|name| !is_device_name(name)));
        assert!(["br-3613013b8090", "docker0", "eth0.1", "a_b"].iter().all(|name| is_device_name(name)));
        for text in ["", "10.0.0.0", "10.0.0.0/0", "10.0.0.0/33", "fd00::/64", "10.0.0.0/24 -j X"] {
            assert_eq!(Subnet::parse(text), None, "{text}");
        }
    }
}
