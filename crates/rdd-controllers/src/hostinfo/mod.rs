//! HostInfo: a single object with the CPUs and the memory of this machine, created at the start and kept up to date.

mod detect;

use std::sync::Arc;

use rdd_runtime::{Context, Declaration, Error, Plan};
use rdd_types::rdd::{HostInfo, HostInfoSpec, HostInfoStatus, SYSTEM};

pub use self::detect::{Facts, Host, detect, host, look};

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "hostinfo";
/// The controller's group in `--controllers`.
pub const GROUP: &str = "rdd";

/// The controller.
#[derive(Debug, Clone)]
pub struct Controller {
    detect: fn() -> Host,
}

impl Default for Controller {
    fn default() -> Self {
        Self { detect }
    }
}

impl Controller {
    /// A controller with this detection function; tests use their own.
    pub fn new(detect: fn() -> Host) -> Self {
        Self { detect }
    }
}

/// The state that the plan depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    object: Arc<HostInfo>,
    host: Host,
}

/// The actions of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Writes the detected resources to the status.
    Report,
}

rdd_runtime::steps!(Step {
    Self::Report => "report",
});

impl rdd_runtime::Controller for Controller {
    type Object = HostInfo;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        Declaration::new(NAME, GROUP).crds(rdd_types::crds_of(NAME))
    }

    fn seeds(&self) -> Vec<HostInfo> {
        vec![HostInfo::new(SYSTEM, HostInfoSpec::default())]
    }

    async fn observe(&self, object: Arc<HostInfo>, _: &Context) -> Result<Observed, Error> {
        Ok(Observed { object, host: (self.detect)() })
    }

    fn plan(&self, observed: &Observed) -> Plan<Step> {
        plan(observed.object.status.as_ref(), observed.object.metadata.deletion_timestamp.is_some(), observed.host)
    }

    async fn act(&self, step: &Step, observed: &Observed, cx: &Context) -> Result<(), Error> {
        match step {
            Step::Report => cx.apply_status(&*observed.object, &observed.host.status()).await.map(drop),
        }
    }
}

fn plan(told: Option<&HostInfoStatus>, is_going: bool, host: Host) -> Plan<Step> {
    if is_going || told == Some(&host.status()) { Plan::nothing() } else { Plan::of([Step::Report]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reports_what_is_not_told_yet_or_told_wrong() {
        let host = Host { cpus: 4, memory_bytes: 8 << 30 };
        let right = host.status();
        let wrong = HostInfoStatus { cpus: 64, ..right.clone() };
        assert_eq!(plan(None, false, host).steps, [Step::Report]);
        assert_eq!(plan(Some(&wrong), false, host).steps, [Step::Report]);
        assert_eq!(plan(Some(&right), false, host).steps, []);
        assert_eq!(plan(None, true, host).steps, []);
    }
}
