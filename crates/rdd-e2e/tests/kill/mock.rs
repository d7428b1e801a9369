//! Kill scenarios of the mock controller, in its own process next to a daemon without controllers.

use rdd_controllers::mock;
use serde_json::json;

use crate::{
    Scenario,
    life::{Life, Program, object, says},
};

const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
const HOST: &str = "/apis/rdd.rancherdesktop.io/v1alpha1/hostinfos/system";
const HERE: &str = "/apis/containers.rancherdesktop.io/v1alpha1/namespaces/rancher-desktop";
const VERSIONS: &str = "/api/v1/namespaces/rancher-desktop/configmaps/k3s-versions";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![Scenario {
        name: "there is something of every kind, and an App is settled as soon as it asks",
        controller: mock::NAME,
        steps: &["make-namespace", "put", "make-host", "report-host", "settle", "write-versions"],
        program: Program::Beside("mock-controller"),
        live,
        ..Scenario::PLAIN
    }]
}

fn live(life: &mut Life<'_>) {
    life.until("what it makes", |api| {
        for (kind, count) in [("containers", 4), ("images", 4), ("volumes", 2), ("containernamespaces", 1)] {
            let list = api.get(&format!("{HERE}/{kind}"))?;
            let found = list["items"].as_array().map_or(0, Vec::len);
            if found != count {
                return Err(format!("{found} {kind}"));
            }
        }
        let host = api.get(HOST)?;
        if host["status"]["cpus"] == 32 { Ok(()) } else { Err(host.to_string()) }
    });
    life.make(
        APPS,
        &object("app.rancherdesktop.io", "App", "app", &json!({"running": true, "namespace": "rancher-desktop"})),
    );
    life.until("the App to settle", |api| says(&api.get(&format!("{APPS}/app"))?, "Settled", "True"));
    life.until("the list of versions", |api| api.get(VERSIONS));
    life.mark("settled");
    life.delete(&format!("{APPS}/app"));
    life.until("the end of the list", |api| api.is_gone(VERSIONS));
}
