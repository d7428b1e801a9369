//! Checks the dependencies between crates: layers in one direction, and bans.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata};

/// The rules for dependencies. Every crate must have a layer; crates that are planned may have one already.
pub(super) struct Rules {
    /// The layers from the bottom up: a crate may depend on its own layer and those below.
    layers: &'static [Layer],
    /// Dependencies that are not allowed, not even indirectly.
    bans: &'static [Ban],
}

struct Layer {
    name: &'static str,
    crates: &'static [&'static str],
    reason: &'static str,
}

struct Ban {
    who: &'static [&'static str],
    never: &'static [&'static str],
    reason: &'static str,
}

const PURE: &[&str] =
    &["rdd-meta", "rdd-yaml", "rdd-yq", "rdd-cel", "rdd-schema", "rdd-patch", "rdd-builtin", "rdd-types"];

pub(super) const RULES: &Rules = &Rules {
    layers: &[
        Layer { name: "base", crates: &["rdd-stdx", "rdd-instance"], reason: "what everyone may use knows nobody" },
        Layer { name: "pure", crates: PURE, reason: "semantics are decided without the outside world" },
        Layer {
            name: "world",
            crates: &["rdd-store", "rdd-driver", "rdd-docker", "rdd-kubeconfig", "rdd-fetch"],
            reason: "each hides one outside thing behind one trait",
        },
        Layer {
            name: "wire",
            crates: &["rdd-websocket", "rdd-apiserver", "rdd-client"],
            reason: "the API is served and called without the product",
        },
        Layer {
            name: "product",
            crates: &["rdd-runtime", "rdd-controllers", "rdd-web", "rdd-ctl", "rdd-cli", "rdd"],
            reason: "the product is built on the wire",
        },
        Layer {
            name: "kits",
            crates: &["greeter", "rdd-testkit", "rdd-e2e", "rdd-bench", "rdd-fuzz", "xtask"],
            reason: "tests and tools never ship: dev-dependencies only",
        },
    ],
    bans: &[
        Ban {
            who: &["rdd-apiserver"],
            never: &["rdd-types", "rdd-cli", "rdd-controllers"],
            reason: "our kinds are CRDs to the server, like anyone's",
        },
        Ban {
            who: &["rdd-controllers", "rdd-runtime"],
            never: &["rdd-apiserver", "rdd-store"],
            reason: "controllers can run in a process of their own, against any API server",
        },
        Ban {
            who: PURE,
            never: &[
                "getrandom",
                "hyper",
                "libsqlite3-sys",
                "mio",
                "rand",
                "rdd-stdx",
                "ring",
                "rusqlite",
                "rustix",
                "rustls",
                "socket2",
                "tempfile",
                "tokio",
            ],
            reason: "pure crates have no IO, no clock and no randomness: those come in as arguments",
        },
        Ban {
            who: &["rdd-store"],
            never: &["http", "hyper", "rdd-meta", "serde", "serde_core", "serde_json"],
            reason: "the store knows keys, bytes and revisions, not objects and not the wire",
        },
    ],
};

/// The dependencies of the product: normal and build dependencies, by name. Dev-dependencies do not count.
#[derive(Debug, Default)]
pub(super) struct Graph {
    members: BTreeSet<String>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(super) fn from_metadata(metadata: &Metadata) -> Self {
        let name = |id: &cargo_metadata::PackageId| metadata[id].name.to_string();
        let mut graph = Self { members: metadata.workspace_members.iter().map(name).collect(), ..Self::default() };
        for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
            let shipped = |kinds: &[cargo_metadata::DepKindInfo]| {
                kinds.iter().any(|info| info.kind != DependencyKind::Development)
            };
            let targets = node
                .deps
                .iter()
                .filter(|dependency| shipped(&dependency.dep_kinds))
                .map(|dependency| name(&dependency.pkg));
            graph.edges.entry(name(&node.id)).or_default().extend(targets);
        }
        graph
    }

    /// The shortest path from one crate to another, including both.
    fn path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut ways = vec![vec![from.to_owned()]];
        let mut seen = BTreeSet::from([from.to_owned()]);
        // A breadth-first search finds a shortest path first.
        let mut next = 0;
        while next < ways.len() {
            let way = ways[next].clone();
            next += 1;
            for target in way.last().and_then(|last| self.edges.get(last)).into_iter().flatten() {
                if !seen.insert(target.clone()) {
                    continue;
                }
                let longer: Vec<String> = way.iter().cloned().chain([target.clone()]).collect();
                if target == to {
                    return Some(longer);
                }
                ways.push(longer);
            }
        }
        None
    }
}

/// The violations, each with the reason of the rule.
pub(super) fn check(graph: &Graph, rules: &Rules) -> Vec<String> {
    let mut problems = Vec::new();
    let layer_of = |name: &str| rules.layers.iter().position(|layer| layer.crates.contains(&name));
    for member in &graph.members {
        let Some(own) = layer_of(member) else {
            problems.push(format!("crate {member} has no layer: put it into the table in xtask/src/tidy/layers.rs"));
            continue;
        };
        for target in graph.edges.get(member).into_iter().flatten() {
            if let Some(other) = layer_of(target).filter(|other| *other > own) {
                let (own, other) = (&rules.layers[own], &rules.layers[other]);
                problems
                    .push(format!("{member} ({}) depends on {target} ({}): {}", own.name, other.name, other.reason));
            }
        }
    }
    for ban in rules.bans {
        for who in ban.who.iter().filter(|who| graph.members.contains(**who)) {
            for never in ban.never {
                if let Some(way) = graph.path(who, never) {
                    problems.push(format!("{who} reaches {never} ({}): {}", way.join(" → "), ban.reason));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(members: &[&str], edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph { members: members.iter().map(|name| (*name).to_owned()).collect(), ..Graph::default() };
        for (from, to) in edges {
            graph.edges.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    }

    #[track_caller]
    fn finds(members: &[&str], edges: &[(&str, &str)], expected: &str) {
        let problems = check(&graph(members, edges), RULES);
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected:?} not in {problems:?}");
    }

    #[test]
    fn a_graph_that_goes_downwards_passes() {
        let edges = [
            ("rdd", "rdd-cli"),
            ("rdd", "rdd-apiserver"),
            ("rdd-cli", "rdd-client"),
            ("rdd-apiserver", "rdd-store"),
            ("rdd-store", "tokio"),
        ];
        assert_eq!(
            check(&graph(&["rdd", "rdd-cli", "rdd-client", "rdd-apiserver", "rdd-store"], &edges), RULES),
            [""; 0]
        );
    }

    #[test]
    fn a_lower_layer_that_knows_a_higher_one_is_found() {
        finds(
            &["rdd-store", "rdd-client"],
            &[("rdd-store", "rdd-client")],
            "rdd-store (world) depends on rdd-client (wire)",
        );
    }

    #[test]
    fn a_kit_in_what_is_shipped_is_found() {
        finds(&["rdd", "rdd-testkit"], &[("rdd", "rdd-testkit")], "dev-dependencies only");
    }

    #[test]
    fn each_ban_is_found_through_others_and_the_way_is_shown() {
        finds(&["rdd-apiserver"], &[("rdd-apiserver", "x"), ("x", "rdd-types")], "rdd-apiserver → x → rdd-types");
        finds(
            &["rdd-controllers"],
            &[("rdd-controllers", "rdd-runtime"), ("rdd-runtime", "rdd-store")],
            "rdd-controllers reaches rdd-store",
        );
        finds(&["rdd-meta"], &[("rdd-meta", "tokio")], "pure crates have no IO");
        finds(&["rdd-store"], &[("rdd-store", "serde_json")], "the store knows keys");
    }

    #[test]
    fn a_crate_without_a_layer_fails_until_it_has_one() {
        finds(&["rdd-new"], &[], "crate rdd-new has no layer");
    }

    #[test]
    fn no_crate_has_two_layers_and_every_banned_one_has_one() {
        let all: Vec<&str> = RULES.layers.iter().flat_map(|layer| layer.crates).copied().collect();
        let unique: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), unique.len());
        for who in RULES.bans.iter().flat_map(|ban| ban.who) {
            assert!(unique.contains(who), "{who} is banned from something but has no layer");
        }
    }
}
