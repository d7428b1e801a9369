//! Checks the port forwards and networks of a template.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use serde_json::Value;

use super::{
    Problems, flag_of, given, is_literal, shown,
    values::{as_integer, integer_of, mac_length},
};

/// `sizeof(sockaddr_un.sun_path)` of Linux.
const UNIX_PATH_MAX: usize = 108;
const INTERFACE_BYTES_MAX: usize = 15;
/// The interface that Lima reserves.
const SLIRP_INTERFACE: &str = "eth0";
/// The only predefined network of Lima on Linux.
const USER_NETWORK: &str = "user-v2";
/// Predefined networks of Lima that exist only on macOS.
const MACOS_NETWORKS: [&str; 3] = ["shared", "bridged", "host"];

pub(super) fn check_port(field: &str, port: i64, problems: &mut Problems) {
    let problem = match port {
        ..0 => "must be > 0",
        0 => "must be set",
        22 => "must not be 22",
        65_536.. => "must be < 65536",
        _ => return,
    };
    problems.add(format!("field `{field}` {problem}"));
}

type PortRange = [i64; 2];

fn range_of(rule: &Value, name: &str) -> PortRange {
    // Absent ports count as 0, as in Go.
    let mut ports = rule.get(name).and_then(Value::as_array).into_iter().flatten();
    [(); 2].map(|()| ports.next().and_then(as_integer).unwrap_or_default())
}

fn width(range: PortRange) -> i64 {
    range[1].saturating_sub(range[0])
}

pub(super) fn check_port_forward(index: usize, rule: &Value, problems: &mut Problems) {
    let field = format!("portForwards[{index}]");
    for name in ["guestPortRange", "hostPortRange"] {
        if rule.get(name).and_then(Value::as_array).is_some_and(|ports| ports.len() > 2) {
            problems.add(format!("field `{field}.{name}` must have two ports, the first and the last one"));
            return;
        }
    }
    let (guest_socket, host_socket) = (given(rule, "guestSocket"), given(rule, "hostSocket"));
    let (guest_port, host_port) = (integer_of(rule, "guestPort"), integer_of(rule, "hostPort"));
    let [guest_range, host_range] = filled_ranges(rule, host_socket.is_some());
    // The checks follow the order of Lima's source, so that the messages come in the same order.
    if flag_of(rule, "guestIPMustBeZero").unwrap_or_default() {
        let address = given(rule, "guestIP").and_then(|address| address.parse::<IpAddr>().ok());
        // An IPv4-mapped IPv6 address counts as its IPv4 address, as in Go.
        if address.is_some_and(|address| address.to_canonical() != IpAddr::V4(Ipv4Addr::UNSPECIFIED)) {
            problems.add(format!(
                "field `{field}.guestIPMustBeZero` can only be true when field `{field}.guestIP` is 0.0.0.0"
            ));
        }
    }
    for (side, port, range, has_socket) in [
        ("guest", guest_port, guest_range, guest_socket.is_some()),
        ("host", host_port, host_range, host_socket.is_some()),
    ] {
        if port == 0 {
            continue;
        }
        if has_socket {
            problems.add(format!("field `{field}.{side}Port` must be 0 when field `{field}.{side}Socket` is set"));
        }
        if port != range[0] {
            problems.add(format!("field `{field}.{side}Port` must match field `{field}.{side}PortRange[0]`"));
        }
        check_port(&format!("{field}.{side}Port"), port, problems);
    }
    for end in 0..2 {
        // A host socket has no ports, so its range is not checked.
        check_port(&format!("{field}.guestPortRange[{end}]"), guest_range[end], problems);
        if host_socket.is_none() {
            check_port(&format!("{field}.hostPortRange[{end}]"), host_range[end], problems);
        }
    }
    for (side, range) in [("guest", guest_range), ("host", host_range)] {
        if range[0] > range[1] {
            problems.add(format!(
                "field `{field}.{side}PortRange[1]` must be greater than or equal to field `{field}.{side}PortRange[0]`"
            ));
        }
    }
    if let Some(socket) = &guest_socket {
        if is_literal(socket) && !socket.starts_with('/') {
            let shown = shown(socket);
            problems.add(format!("field `{field}.guestSocket` must be an absolute path, but is {shown}"));
        }
        if host_socket.is_none() && width(host_range) > 0 {
            problems
                .add(format!("field `{field}.guestSocket` can only be mapped to a single port or socket. not a range"));
        }
    }
    match &host_socket {
        Some(_) if guest_socket.is_none() && width(guest_range) > 0 => problems
            .add(format!("field `{field}.hostSocket` can only be mapped from a single port or socket. not a range")),
        Some(_) => {}
        None if width(guest_range) != width(host_range) => problems.add(format!(
            "field `{field}.hostPortRange` must specify the same number of ports as field `{field}.guestPortRange`"
        )),
        None => {}
    }
    if let Some(socket) = host_socket.as_ref().filter(|socket| is_literal(socket) && socket.len() >= UNIX_PATH_MAX) {
        problems.add(format!(
            "field `{field}.hostSocket` must be less than UNIX_PATH_MAX={UNIX_PATH_MAX} characters, but is {}",
            socket.len()
        ));
    }
    if given(rule, "proto").is_some_and(|proto| !["tcp", "udp", "any"].contains(&proto.as_ref())) {
        problems.add(format!("field `{field}.proto` must be \"tcp\", \"udp\", or \"any\""));
    }
    if flag_of(rule, "reverse").unwrap_or_default() {
        // Lima reports the same message once for each missing socket.
        for _ in [&guest_socket, &host_socket].into_iter().filter(|socket| socket.is_none()) {
            problems.add(format!("field `{field}.reverse` must be false"));
        }
    }
}

/// The port ranges of the guest and of the host, with Lima's defaults.
fn filled_ranges(rule: &Value, has_host_socket: bool) -> [PortRange; 2] {
    let fill = |name: &str, port: i64, otherwise: PortRange| match range_of(rule, name) {
        [0, 0] if port == 0 => otherwise,
        [0, 0] => [port, port],
        range => range,
    };
    let guest = fill("guestPortRange", integer_of(rule, "guestPort"), [1, 65_535]);
    let host = if has_host_socket {
        range_of(rule, "hostPortRange")
    } else {
        fill("hostPortRange", integer_of(rule, "hostPort"), guest)
    };
    [guest, host]
}

/// A network interface, merged from the entries that name it.
#[derive(Debug, Default, Clone, Copy)]
struct Network<'v> {
    lima: Option<&'v str>,
    socket: Option<&'v str>,
    mac: Option<&'v str>,
    is_vz_nat: bool,
    interface: &'v str,
}

pub(super) fn check_networks<'v>(
    networks: impl Iterator<Item = &'v Value>,
    has_own_networks: bool,
    problems: &mut Problems,
) {
    let merged = merge(networks);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, network) in merged.iter().enumerate() {
        let field = format!("networks[{index}]");
        check_connection(network, &field, has_own_networks, problems);
        if let Some(mac) = network.mac {
            let length = mac_length(mac);
            if length.is_none() {
                let shown = mac.chars().take(200).collect::<String>();
                problems.add(format!("field `vmnet.mac` invalid: address {shown}: invalid MAC address"));
            }
            if length != Some(6) {
                problems.add(format!(
                    "field `{field}.macAddress` must be a 48 bit (6 bytes) MAC address; actual length of {} is {} bytes",
                    shown(mac),
                    length.unwrap_or_default()
                ));
            }
        }
        let interface =
            // Lima's default name of an interface.
            if network.interface.is_empty() { format!("lima{index}") } else { network.interface.to_owned() };
        let shown = shown(&interface);
        if interface.len() > INTERFACE_BYTES_MAX {
            let length = interface.len();
            problems
                .add(format!("field `{field}.interface` must be less than 16 bytes, but is {length} bytes: {shown}"));
        }
        if interface.contains([' ', '\t', '\n', '/']) {
            problems.add(format!("field `{field}.interface` must not contain whitespace or slashes"));
        }
        if interface == SLIRP_INTERFACE {
            problems
                .add(format!("field `{field}.interface` must not be set to {shown} because it is reserved for slirp"));
        }
        if let Some(earlier) = seen.insert(interface, index) {
            problems.add(format!(
                "field `{field}.interface` value {shown} has already been used by field `networks[{earlier}].interface`"
            ));
        }
    }
}

/// Merges the entries of each interface; later entries take precedence.
fn merge<'v>(networks: impl Iterator<Item = &'v Value>) -> Vec<Network<'v>> {
    let mut merged: Vec<Network<'v>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in networks {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let new = Network {
            lima: text("lima"),
            socket: text("socket"),
            mac: text("macAddress"),
            is_vz_nat: flag_of(entry, "vzNAT").unwrap_or_default(),
            interface: text("interface").unwrap_or_default(),
        };
        match places.get(new.interface).and_then(|place| merged.get_mut(*place)) {
            Some(known) => {
                if new.socket.is_some() {
                    // A socket and a named network exclude each other; the later one wins.
                    (known.socket, known.lima) = (new.socket, None);
                }
                if new.lima.is_some() {
                    (known.lima, known.socket) = (new.lima, None);
                }
                known.mac = new.mac.or(known.mac);
            }
            None => {
                if !new.interface.is_empty() {
                    // Entries without an interface are never merged.
                    places.insert(new.interface, merged.len());
                }
                merged.push(new);
            }
        }
    }
    merged
}

fn check_connection(network: &Network<'_>, field: &str, has_own_networks: bool, problems: &mut Problems) {
    let Network { lima, socket, is_vz_nat, .. } = network;
    let mut exclude = |one: &str, other: &str| {
        problems.add(format!("field `{field}.{one}` and field `{field}.{other}` are mutually exclusive"));
    };
    match (lima, socket) {
        (Some(_), _) => {
            if socket.is_some() {
                exclude("lima", "socket");
            }
            if *is_vz_nat {
                exclude("lima", "vzNAT");
            }
        }
        (None, Some(_)) if *is_vz_nat => exclude("socket", "vzNAT"),
        (None, Some(_)) => {}
        (None, None) if *is_vz_nat => {
            problems.add(format!("field `{field}.vzNAT` requires `vmType` to be \"vz\""));
        }
        // Lima's message lacks the backtick.
        (None, None) => problems.add(format!("field `{field}.lima` or  field `{field}.socket must be set")),
    }
    if let Some(name) = lima.filter(|_| !has_own_networks) {
        if MACOS_NETWORKS.contains(&name) {
            problems.add(format!("field `{field}.lima` is only supported on macOS right now"));
        } else if name != USER_NETWORK {
            problems.add(format!(
                "field `{field}.lima` references network {} which is not defined in networks.yaml",
                shown(name)
            ));
        }
    }
}
