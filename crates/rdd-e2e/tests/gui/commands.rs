//! Tests the commands that the GUI's own tests and its smoke test call.

use rdd_testkit::Sandbox;

use crate::client::Gui;

#[test]
fn definitions_are_there_as_soon_as_the_service_is() {
    let gui = Gui::connect();
    let names = gui.daemon.rdd(&["ctl", "get", "crds", "--output=name"]).expect_success().stdout;
    for plural in ["apps.app", "containers.containers", "images.containers", "volumes.containers", "hostinfos.rdd"] {
        let name = format!("customresourcedefinition.apiextensions.k8s.io/{plural}.rancherdesktop.io");
        assert!(names.contains(&name), "{name} in {names}");
    }
}

#[test]
fn the_app_is_switched_off_without_waiting_and_the_service_goes() {
    let gui = Gui::connect();
    gui.create_app();
    gui.daemon.rdd(&["set", "running=false", "--wait=false"]).expect_success();
    gui.daemon.rdd(&["service", "delete"]).expect_success();
    assert!(gui.daemon.processes().iter().all(|process| process.is_zombie()));
}

#[test]
fn a_service_without_controllers_starts_without_waiting() {
    let sandbox = Sandbox::new();
    sandbox.rdd(&["service", "start", "--controllers=", "--wait=false"]).expect_success();
    sandbox.rdd(&["service", "delete"]).expect_success();
}
