//! The packet rules of one engine, as text for `iptables-restore`: pure.
//!
//! `dockerd` runs with `--iptables=false`, because engines in one network namespace empty each other's chains when they
//! start (docs/adr/0011). What it would have done is done here, in a chain of the engine's own name in three tables:
//! containers reach out (`nat`, `filter`), and nobody reaches into a network from outside of it (`mangle`, which comes
//! before anyone's `filter` can say yes). Published ports need no rule: they are served by the engine's own proxy.

use std::{collections::BTreeMap, fmt::Write as _, net::Ipv4Addr};

use rdd_instance::Pool;
use serde::Deserialize;

/// Where our chain is called from.
pub(super) const JUMPS: [(&str, &str); 3] = [("nat", "POSTROUTING"), ("mangle", "FORWARD"), ("filter", "FORWARD")];

/// A network of containers, as far as rules need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) bridge: String,
    pub(super) subnets: Vec<Subnet>,
    /// Nothing leaves it.
    is_internal: bool,
    /// Its addresses are hidden behind the host's.
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
    /// The engine's own bridge, before the engine could tell of any network.
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

/// The length of the part of a network's ID that its bridge is named after.
const SHORT_ID: usize = 12;

/// Reads the engine's list of networks. What is no bridge needs no rules; a name that no device can have is left out.
///
/// The engine says of its `own` bridge that it is not masqueraded, because it was told to leave the rules to us.
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
    (1..=15).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with(['-', '.'])
}

/// The bridges that the engine made for networks that did not name one: those end with the engine.
pub(super) fn made_by_engine(networks: &[Network]) -> Vec<String> {
    let is_made = |bridge: &str| {
        let id = bridge.strip_prefix("br-").unwrap_or_default();
        id.len() == SHORT_ID && id.chars().all(|c| c.is_ascii_hexdigit())
    };
    networks.iter().map(|network| network.bridge.clone()).filter(|bridge| is_made(bridge)).collect()
}

const NEW: &str = "-m conntrack ! --ctstate RELATED,ESTABLISHED";

/// All rules of an engine. Restored with `--noflush` they replace those of the chain and touch no other.
pub(super) fn rules(chain: &str, pool: &Pool, networks: &[Network]) -> String {
    let mut text = String::new();
    let mut table = |name: &str, rules: Vec<String>| {
        // Writing to a text does not fail.
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
    for subnet in open.iter().flat_map(|network| &network.subnets) {
        rules.push(format!("-s {subnet} -j RETURN"));
    }
    // All of the pool at once, so that a new network reaches out from its first packet on.
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
