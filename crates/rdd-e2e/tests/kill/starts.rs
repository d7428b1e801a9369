//! Kill scenarios of the start of the daemon's own manager: register, configure, define, announce.

use rdd_runtime::manager;

use crate::{Scenario, life::Life};

const MANAGERS: &str = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "a first start",
            controller: manager::MANAGER,
            steps: &["register", "discard", "announce"],
            live,
            ..Scenario::PLAIN
        },
        Scenario {
            name: "a first start, with some of the definitions and configurations written",
            controller: manager::MANAGER,
            steps: &["configure", "define"],
            nth: 4,
            live,
            ..Scenario::PLAIN
        },
    ]
}

fn live(life: &mut Life<'_>) {
    life.until("all to be ready", |api| {
        let managers = api.get(MANAGERS)?;
        let ready = &managers["metadata"]["annotations"]["rdd.rancherdesktop.io/ready"];
        if ready == "true" { Ok(()) } else { Err(managers["metadata"].to_string()) }
    });
}
