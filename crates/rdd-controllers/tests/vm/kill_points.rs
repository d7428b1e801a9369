//! App and LimaVM converge after a kill before or after each of their steps, and leave no orphans.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use kube::api::{DeleteParams, Patch, PatchParams};
use rdd_controllers::{app, limavm};
use rdd_driver::Found;
use rdd_runtime::{
    ENSURE_FINALIZER, Step,
    probe::{Point, Probe, Verdict, When},
};
use rdd_types::names::annotation;
use serde_json::{Value, json};

use crate::stage::{Cast, NAMESPACE, PATIENCE, Stage, condition, says};

/// Dies once, at this kill point.
#[derive(Debug)]
struct Deadly {
    controller: &'static str,
    step: &'static str,
    when: When,
    has_struck: AtomicBool,
}

impl Probe for Deadly {
    fn at(&self, point: Point<'_>) -> Verdict {
        let is_here = (point.controller, point.step, point.when) == (self.controller, self.step, self.when);
        let dies = is_here && !self.has_struck.swap(true, Ordering::SeqCst);
        if dies { Verdict::Die } else { Verdict::Go }
    }
}

/// A life cycle with every step of both controllers; killed controllers are restarted.
struct Life {
    stage: Stage,
}

impl Life {
    /// Waits until a check holds; restarts the controllers if they are killed meanwhile.
    #[track_caller]
    fn until<T>(&self, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if self.stage.is_dead() {
                self.stage.restart();
            }
            if let Some(found) = probe() {
                return found;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "waited {PATIENCE:?} for {what}: {:#?} {:#?}",
                self.stage.app(),
                self.stage.rd()
            );
            std::thread::yield_now();
        }
    }

    /// Writes to the App until it succeeds, and waits until the App is settled.
    fn settle(&self, what: &str, spec: &Value) {
        let written = self.until(what, || self.stage.try_patch_app(&json!({ "spec": spec })).ok());
        self.until(what, || {
            let app = self.stage.app()?;
            let conditions = &app.status.as_ref()?.conditions;
            let settled = condition(conditions, "Settled")?;
            (settled.status == "True" && settled.observed_generation >= written.metadata.generation).then_some(())
        });
    }

    fn live(&self) {
        let stage = &self.stage;
        stage.create_app(true);
        self.settle("the first start", &json!({"running": true}));
        self.settle("an edit", &json!({"containerEngine": {"name": "containerd"}}));
        self.until("a request for a restart", || {
            let request = json!({"metadata": {"annotations": {annotation::RESTART_REQUESTED: "now"}}});
            stage.block(stage.vms(NAMESPACE).patch("rd", &PatchParams::default(), &Patch::Merge(&request))).ok()
        });
        self.until("the request to be taken", || {
            stage.rd()?.metadata.annotations.unwrap_or_default().is_empty().then_some(())
        });
        self.until("the restart", || {
            let vm = stage.rd()?;
            (says(&vm, "Running", "True/Started") && !vm.status?.restart_needed).then_some(())
        });
        // The running VM is left behind and must be adopted.
        stage.restart();
        self.until("the adoption", || stage.world.calls_of("rd").contains(&"adopt").then_some(()));
        self.until("it to be verified", || says(&stage.rd()?, "Running", "True/Started").then_some(()));
        self.settle("a stop", &json!({"running": false}));
        assert_eq!(stage.world.found("rd"), Found::Stopped);
        self.settle("a start", &json!({"running": true}));
        assert!(matches!(stage.world.found("rd"), Found::Running(_)));
        self.until("the delete", || stage.block(stage.apps().delete("app", &DeleteParams::default())).ok());
        self.until("nothing to be left", || stage.remains().is_empty().then_some(()));
    }
}

fn enumerated() -> Vec<(&'static str, &'static str)> {
    // A LimaVM gets its finalizer at admission, so the runtime adds it to Apps only.
    let app = std::iter::once(ENSURE_FINALIZER).chain(app::plan::Step::ALL.iter().copied());
    let app = app.map(|step| (app::NAME, step));
    app.chain(limavm::plan::Step::ALL.iter().map(|step| (limavm::NAME, *step))).collect()
}

#[test]
fn killed_before_and_after_each_step_they_converge_and_leave_nothing_behind() {
    let steps = enumerated();
    let mut points = 0;
    for (controller, step) in &steps {
        for when in [When::Before, When::After] {
            let probe = Arc::new(Deadly { controller, step, when, has_struck: AtomicBool::new(false) });
            let stage = Stage::dark(Cast::Both, Arc::clone(&probe) as Arc<dyn Probe>);
            stage.start();
            Life { stage }.live();
            assert!(probe.has_struck.load(Ordering::SeqCst), "{controller}/{step} never happened");
            points += 1;
        }
    }
    println!("{points} kill points, before and after each of {} steps", steps.len());
    assert_eq!(points, 2 * steps.len());
}
