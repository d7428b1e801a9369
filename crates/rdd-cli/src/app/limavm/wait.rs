//! Waits until a LimaVM has reached a goal.

use std::time::Duration;

use serde_json::Value;

use super::Vm;
use crate::{
    app::{
        api::Api,
        condition::{self, Condition},
        interrupt::Interrupt,
        names::{self, conditions},
        watch::{self, End, Observer, Target},
    },
    progress::Progress,
    report::{ExitCode, Failure, Outcome},
    service::deadline::Deadline,
};

/// The state that a command waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// It runs; conditions of older generations do not count.
    Running(i64),
    /// It has stopped, at this generation or later. A VM that is still starting has not.
    Stopped(i64),
    /// Its restart count exceeds this number.
    Restarted(i64),
    /// It matches its spec at this generation: running or stopped, and without a pending restart.
    InEffect(i64),
    /// It was recreated, and runs if it should.
    Renewed,
    /// It is gone.
    Gone,
}

impl Wish {
    /// Whether the LimaVM, which exists, has reached the goal. Pure.
    fn is_met(self, vm: &Value) -> bool {
        let running = |holds: fn(&Condition) -> bool, generation| {
            condition::condition(vm, conditions::RUNNING)
                .is_some_and(|condition| condition.may_be_of(generation) && holds(&condition))
        };
        match self {
            Self::Running(generation) => running(Condition::is_true, generation),
            Self::Stopped(generation) => running(|condition| condition.reason == conditions::STOPPED, generation),
            Self::Restarted(before) => restart_count(vm) > before,
            Self::InEffect(generation) => {
                // A running VM gets new parameters only with a restart.
                let needs_restart = vm.pointer("/status/restartNeeded") == Some(&Value::Bool(true));
                !needs_restart && Self::as_it_should(vm, generation).is_met(vm)
            }
            Self::Renewed => {
                let annotations = vm.pointer("/metadata/annotations");
                let is_requested = annotations.is_some_and(|all| all.get(names::RESET_REQUESTED).is_some());
                let is_created = condition::condition(vm, conditions::CREATED).is_some_and(|made| made.is_true());
                !is_requested && is_created && Self::as_it_should(vm, condition::generation(vm)).is_met(vm)
            }
            Self::Gone => false,
        }
    }

    /// The goal that `spec.running` implies.
    fn as_it_should(vm: &Value, generation: i64) -> Self {
        let should_run = vm.pointer("/spec/running") == Some(&Value::Bool(true));
        if should_run { Self::Running(generation) } else { Self::Stopped(generation) }
    }
}

/// `status.restartCount`; 0 if absent.
pub(super) fn restart_count(vm: &Value) -> i64 {
    vm.pointer("/status/restartCount").and_then(Value::as_i64).unwrap_or_default()
}

/// Waits until the LimaVM has reached the goal. On a terminal `phase` is shown meanwhile; an error begins with `what`.
///
/// It fails at the timeout (exit code 4), when the user interrupts it, and when the LimaVM is deleted or replaced.
pub(super) fn until(
    api: &Api<'_>,
    vm: &Vm,
    wish: Wish,
    bound: Option<Duration>,
    interrupt: &mut Interrupt,
    (phase, what): (&str, &str),
) -> Outcome {
    let target = Target { collection: names::vms_in(&vm.namespace), name: vm.name.clone() };
    let progress = Progress::on_terminal(api.record(), phase);
    let mut waiting = Waiting { vm, wish, progress, phase: String::new() };
    let end = watch::follow(api, &target, Deadline::after(bound), interrupt, &mut waiting);
    // Taken before the drop, which removes the progress line.
    let last = std::mem::take(&mut waiting.phase);
    drop(waiting);
    match end.map_err(|failure| Failure::message(format!("{what}: {}", failure.text())))? {
        End::Found(()) => Ok(()),
        End::Deadline => {
            let failure = Failure::deadline(what);
            Err(if last.is_empty() { failure } else { failure.hint(format!("last state: {last}")) })
        }
        End::Interrupted => Err(Failure::message(format!("{what}: interrupted"))
            .code(ExitCode::Interrupted)
            .hint("the request is stored and continues in the background")),
    }
}

struct Waiting<'a> {
    vm: &'a Vm,
    wish: Wish,
    progress: Option<Progress>,
    phase: String,
}

impl Observer for Waiting<'_> {
    type Found = ();

    fn see(&mut self, vm: Option<&Value>) -> Outcome<Option<()>> {
        let Some(vm) = vm.filter(|vm| condition::text(vm, "/metadata/uid") == self.vm.uid()) else {
            if self.wish == Wish::Gone {
                return Ok(Some(()));
            }
            return Err(Failure::message(format!("LimaVM {:?} was deleted while waiting", self.vm.name)));
        };
        if let Some(condition) = condition::condition(vm, conditions::RUNNING) {
            self.phase = condition.to_string();
            if let Some(progress) = self.progress.as_ref().filter(|_| !condition.message.is_empty()) {
                progress.phase(&condition.message);
            }
        }
        Ok(self.wish.is_met(vm).then_some(()))
    }

    fn lost(&mut self) {
        if let Some(progress) = &self.progress {
            progress.phase("waiting for the control plane to respond");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn vm(status: &str, reason: &str, generation: Option<i64>) -> Value {
        json!({"metadata": {"generation": 2}, "status": {"restartCount": 3, "conditions": [
            {"type": "Running", "status": status, "reason": reason, "message": "m", "observedGeneration": generation}]}})
    }

    #[test]
    fn wishes_come_true_at_the_generation_that_was_written() {
        for (wish, status, reason, generation, expected) in [
            (Wish::Running(2), "True", "Started", Some(2), true),
            (Wish::Running(2), "True", "Started", Some(1), false),
            (Wish::Running(2), "True", "Started", None, true),
            (Wish::Running(2), "False", "Starting", Some(2), false),
            (Wish::Stopped(2), "False", "Stopped", Some(2), true),
            (Wish::Stopped(2), "False", "Starting", Some(2), false),
            (Wish::Stopped(2), "False", "StopFailed", Some(2), false),
            (Wish::Restarted(2), "False", "Starting", None, true),
            (Wish::Restarted(3), "True", "Started", None, false),
            (Wish::Gone, "True", "Started", None, false),
        ] {
            assert_eq!(wish.is_met(&vm(status, reason, generation)), expected, "{wish:?} {reason} {generation:?}");
        }
        assert!(!Wish::Running(0).is_met(&json!({})), "what has not reported does not run");
    }

    #[test]
    fn params_are_in_effect_and_a_machine_is_renewed_when_nothing_is_left_to_do() {
        let mut seen = vm("True", "Started", Some(2));
        seen["spec"]["running"] = true.into();
        assert!(Wish::InEffect(2).is_met(&seen));
        assert!(!Wish::Renewed.is_met(&seen), "it was not said that it is made");
        seen["status"]["restartNeeded"] = true.into();
        assert!(!Wish::InEffect(2).is_met(&seen));
        seen["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": "Created", "status": "True"}));
        assert!(Wish::Renewed.is_met(&seen));
        seen["metadata"]["annotations"][names::RESET_REQUESTED] = "now".into();
        assert!(!Wish::Renewed.is_met(&seen), "it was not even begun");
        let mut stopped = vm("False", "Stopped", Some(2));
        stopped["spec"]["running"] = false.into();
        assert!(Wish::InEffect(2).is_met(&stopped));
        stopped["spec"]["running"] = true.into();
        assert!(!Wish::InEffect(2).is_met(&stopped));
    }
}
