//! The fake keeps the contract, so that what is tested with it holds for real drivers.

use std::sync::Arc;

use rdd_driver::{Driver, Found, fake::World, suite::Subject};

struct FakeSubject(World);

impl Subject for FakeSubject {
    fn driver(&self) -> Arc<dyn Driver> {
        self.0.ignores_requests_to_stop(false);
        self.0.driver()
    }

    fn template(&self, number: u32) -> String {
        format!("vmType: fake\ncpus: {number}\n")
    }

    fn bad_template(&self) -> String {
        "vmType: fake\ncpus: none\n".to_owned()
    }

    fn crash(&self, vm: &str) {
        assert!(self.0.dies(vm, "killed"));
    }

    fn hang(&self, _vm: &str) {
        self.0.ignores_requests_to_stop(true);
    }

    fn half_make(&self, vm: &str) {
        self.0.half_makes(vm);
    }

    fn maim(&self, vm: &str) {
        assert!(self.0.breaks(vm, "half of it is gone"));
    }

    fn leftovers(&self, vm: &str) -> Vec<String> {
        if self.0.found(vm) == Found::Absent { Vec::new() } else { vec![vm.to_owned()] }
    }
}

fn subject(_test: &str) -> Option<FakeSubject> {
    Some(FakeSubject(World::new()))
}

rdd_driver::contract!(subject);
