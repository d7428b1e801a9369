//! The faults and gates that a test plans for operations of the fake.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use tokio::sync::watch;

use super::world::{Inner, lock};

/// A method of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// [`Driver::inspect`](crate::Driver::inspect)
    Inspect,
    /// [`Driver::template`](crate::Driver::template)
    Template,
    /// [`Driver::create`](crate::Driver::create)
    Create,
    /// [`Driver::start`](crate::Driver::start)
    Start,
    /// [`Driver::adopt`](crate::Driver::adopt)
    Adopt,
    /// [`Driver::stop`](crate::Driver::stop)
    Stop,
    /// [`Driver::apply_template`](crate::Driver::apply_template)
    ApplyTemplate,
    /// [`Driver::delete`](crate::Driver::delete)
    Delete,
    /// [`Cluster::start`](crate::Cluster::start)
    ClusterStart,
    /// [`Cluster::stop`](crate::Cluster::stop)
    ClusterStop,
    /// [`Cluster::reset`](crate::Cluster::reset)
    ClusterReset,
    /// [`Cluster::confirm`](crate::Cluster::confirm)
    ClusterConfirm,
    /// All methods of [`Cluster`](crate::Cluster) that only read.
    ClusterLook,
}

impl Op {
    /// The method's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Template => "template",
            Self::Create => "create",
            Self::Start => "start",
            Self::Adopt => "adopt",
            Self::Stop => "stop",
            Self::ApplyTemplate => "apply_template",
            Self::Delete => "delete",
            Self::ClusterStart => "cluster_start",
            Self::ClusterStop => "cluster_stop",
            Self::ClusterReset => "cluster_reset",
            Self::ClusterConfirm => "cluster_confirm",
            Self::ClusterLook => "cluster_look",
        }
    }

    /// Whether the method only reads.
    pub const fn only_looks(self) -> bool {
        matches!(self, Self::Inspect | Self::Template | Self::ClusterLook)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The failure of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(super) message: String,
    pub(super) when: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Before,
    Halfway,
    After,
}

impl Fault {
    /// Fails without effect.
    pub fn before(message: &str) -> Self {
        Self { message: message.to_owned(), when: When::Before }
    }

    /// Fails halfway: a creation or deletion leaves a half-made machine, a start leaves a broken one. Other operations
    /// have no effect.
    pub fn halfway(message: &str) -> Self {
        Self { message: message.to_owned(), when: When::Halfway }
    }

    /// Fails after the full effect.
    pub fn after(message: &str) -> Self {
        Self { message: message.to_owned(), when: When::After }
    }
}

/// The plans for each kind of operation.
#[derive(Debug, Default)]
pub(super) struct Script {
    faults: BTreeMap<Op, (Fault, Option<u32>)>,
    gates: BTreeMap<Op, Vec<watch::Receiver<bool>>>,
}

impl Script {
    pub(super) fn plan(&mut self, op: Op, fault: Fault) {
        self.faults.insert(op, (fault, None));
    }

    pub(super) fn limit(&mut self, op: Op, times: u32) {
        if let Some((_, left)) = self.faults.get_mut(&op) {
            *left = Some(times);
        }
    }

    pub(super) fn forget(&mut self, op: Op) {
        self.faults.remove(&op);
    }

    /// Takes the fault for the next operation of this kind, and counts it as used.
    pub(super) fn take(&mut self, op: Op) -> Option<Fault> {
        let (fault, left) = self.faults.get_mut(&op)?;
        let fault = fault.clone();
        match left {
            // The plan stays in the map, so that a later limit applies to it.
            Some(0) => return None,
            Some(left) => *left -= 1,
            None => {}
        }
        Some(fault)
    }

    pub(super) fn gate(&mut self, op: Op) -> Gate {
        let (opened, gate) = watch::channel(false);
        self.gates.entry(op).or_default().push(gate);
        Gate { opened }
    }

    /// The gates that an operation of this kind has to pass.
    pub(super) fn gates(&self, op: Op) -> Vec<watch::Receiver<bool>> {
        self.gates.get(&op).cloned().unwrap_or_default()
    }
}

/// Blocks operations of one kind until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it lets everything pass"]
pub struct Gate {
    opened: watch::Sender<bool>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.opened.send_replace(true);
    }
}

/// Waits until the gate is opened or dropped.
pub(super) async fn pass(mut gate: watch::Receiver<bool>) {
    // An error means that the sender was dropped, which opens the gate as well.
    let _ = gate.wait_for(|open| *open).await;
}

/// A planned fault. By default it repeats without limit.
#[derive(Debug)]
pub struct Planned {
    pub(super) world: Arc<Mutex<Inner>>,
    pub(super) op: Op,
}

impl Planned {
    /// Limits the fault to this many operations.
    pub fn times(self, times: u32) {
        lock(&self.world).script.limit(self.op, times);
    }

    /// Limits the fault to the next operation.
    pub fn once(self) {
        self.times(1);
    }
}
