//! What this process knows of each VM: the job in progress, the state of its run, and failures with their next retry.
//!
//! All of it may be lost. A new process determines it again from the disk.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use rdd_driver::{Driver, Drivers, Found, LogOptions, Run, State as RunState, Stopped};
use rdd_runtime::Key;
use rdd_stdx::{backoff::Backoff, chain::Chain, clock::SharedClock, task::Group};
use tokio_util::sync::CancellationToken;

use super::observed::{Disk, Failure, Job, Machine, Phase};

/// How long VMs get to stop gracefully.
pub const STOP_GRACE: Duration = Duration::from_secs(30);
/// How long a VM gets to stop before its data is deleted.
const DELETE_GRACE: Duration = Duration::from_secs(5);

/// The backoff after failures.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The delay after the first failure; it doubles with each further failure.
    pub first: Duration,
    /// The longest delay.
    pub most: Duration,
    /// After a run of this duration, the next failure counts as the first.
    pub stable: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), most: Duration::from_mins(5), stable: Duration::from_mins(1) }
    }
}

impl Pace {
    /// The delay after this many failures in a row. A VM that had been up is restarted at once after its first failure.
    pub(super) fn wait(&self, failures: u32, had_been_up: bool) -> Duration {
        if had_been_up && failures <= 1 {
            return Duration::ZERO;
        }
        Backoff::new(self.first, self.most).after(failures.saturating_sub(u32::from(had_been_up)))
    }
}

/// What a failure applies to. When it changes, the next attempt comes at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Basis {
    /// The generation of the LimaVM.
    pub generation: i64,
    /// The text of the template.
    pub template: String,
}

/// Enqueues the LimaVM.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A job and its parameters.
#[derive(Clone)]
pub struct Order {
    /// The key of the LimaVM; the VM has its name.
    pub key: Key,
    /// What to do.
    pub job: Job,
    /// What a failure of this job applies to.
    pub basis: Basis,
    /// The template, for [`Job::Create`].
    pub template: String,
    /// Called when the state of the VM changes.
    pub wake: Wake,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("key", &self.key).field("job", &self.job).finish_non_exhaustive()
    }
}

/// The VMs of this process.
#[derive(Debug)]
pub struct Machines {
    shared: Arc<Shared>,
    tasks: Mutex<Group<()>>,
}

#[derive(Debug)]
struct Shared {
    drivers: Drivers,
    log: LogOptions,
    clock: SharedClock,
    pace: Pace,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Key, Entry>,
    /// Numbers the jobs, so that late reports of a cancelled job are ignored.
    epoch: u64,
    /// Set at the shutdown: no job starts any more.
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    epoch: u64,
    cancel: CancellationToken,
    state: State,
    basis: Basis,
    failures: u32,
    up_since: Option<Duration>,
}

#[derive(Debug)]
enum State {
    Idle,
    Created,
    Stopped,
    Busy(Job),
    Held(Phase),
    Failed { job: Job, message: String, retry_at: Duration },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded data changes in single assignments, so a panic leaves it consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Machines {
    /// The VMs of these drivers.
    pub fn new(drivers: Drivers, log: LogOptions, clock: SharedClock, pace: Pace) -> Self {
        let shared = Shared { drivers, log, clock, pace, table: Mutex::default() };
        Self { shared: Arc::new(shared), tasks: Mutex::default() }
    }

    /// The drivers of the VMs.
    pub fn drivers(&self) -> &Drivers {
        &self.shared.drivers
    }

    /// What this process knows of a VM. A failure that applies to another basis has no delay.
    pub fn known(&self, key: &Key, basis: &Basis) -> Machine {
        let now = self.shared.clock.steady();
        let table = lock(&self.shared.table);
        let Some(entry) = table.entries.get(key) else { return Machine::Idle };
        match &entry.state {
            State::Idle => Machine::Idle,
            State::Created => Machine::Created,
            State::Stopped => Machine::Stopped,
            State::Busy(job) => Machine::Busy(*job),
            State::Held(phase) => Machine::Held(phase.clone()),
            State::Failed { job, message, retry_at } => {
                let wait = retry_at.saturating_sub(now);
                // A failure of another basis is due at once.
                let wait = (entry.basis == *basis && !wait.is_zero()).then_some(wait);
                Machine::Failed(Failure { job: *job, message: message.clone(), wait })
            }
        }
    }

    /// Inspects a VM with each driver until one has it.
    pub async fn look(&self, vm: &str) -> Result<Disk, rdd_driver::Error> {
        // A name that is invalid for a VM cannot have one. Such a LimaVM can still be deleted.
        if rdd_driver::check_name(vm).is_err() {
            return Ok(Disk::Absent);
        }
        let Some((driver, found)) = self.shared.find(vm).await? else { return Ok(Disk::Absent) };
        Ok(match found {
            Found::Absent => Disk::Absent,
            Found::HalfMade => Disk::HalfMade,
            Found::Broken { why } => Disk::Broken { why },
            Found::Stopped => Disk::Stopped { template: driver.template(vm).await?.unwrap_or_default() },
            Found::Running(running) => {
                let template = driver.template(vm).await?.unwrap_or_default();
                Disk::Running { template, outdated: running.outdated }
            }
        })
    }

    /// What the creation of a VM is doing, for users.
    pub fn progress(&self, vm: &str) -> Option<String> {
        self.shared.drivers.iter().find_map(|driver| driver.progress(vm))
    }

    /// A known problem of the VM's environment, for users.
    pub fn warning(&self, vm: &str) -> Option<String> {
        self.shared.drivers.iter().find_map(|driver| driver.warning(vm))
    }

    /// Writes the template for the next start of a VM.
    pub async fn apply_template(&self, vm: &str, template: &str) -> Result<(), rdd_driver::Error> {
        match self.shared.find(vm).await? {
            Some((driver, _)) => driver.apply_template(vm, template).await,
            None => Err(rdd_driver::Error::Absent { vm: vm.to_owned() }),
        }
    }

    /// Starts a job in the background; its end enqueues the LimaVM. An earlier job of the same VM is cancelled.
    pub fn begin(&self, order: Order) {
        let Some((epoch, cancel)) = self.shared.enter(&order) else { return };
        let shared = Arc::clone(&self.shared);
        let mut tasks = lock(&self.tasks);
        // Reap ended tasks; their results are already in the table.
        while let Some(Some(_)) = tasks.next().now_or_never() {}
        tasks.spawn("limavm job", async move {
            let mut report = Report { shared: &shared, order: &order, epoch, is_settled: false };
            tokio::select! {
                () = cancel.cancelled() => {}
                () = shared.work(&order, &report) => {}
            }
            report.is_settled = true;
        });
    }

    /// Removes the state of a VM that is gone, and cancels its job.
    pub fn forget(&self, key: &Key) {
        if let Some(entry) = lock(&self.shared.table).entries.remove(key) {
            entry.cancel.cancel();
        }
    }

    /// Stops all VMs of this process concurrently and starts no job any more. Logs the outcome for each VM.
    pub async fn stop_all(&self, grace: Duration) {
        let runs = self.shared.close();
        join_all(runs.iter().map(|vm| self.shared.stop_at_exit(vm, grace))).await;
    }
}

impl Shared {
    /// The driver that has this VM, and the state that it found.
    async fn find(&self, vm: &str) -> Result<Option<(Arc<dyn Driver>, Found)>, rdd_driver::Error> {
        for driver in self.drivers.iter() {
            let found = driver.inspect(vm).await?;
            if found != Found::Absent {
                return Ok(Some((Arc::clone(driver), found)));
            }
        }
        Ok(None)
    }

    fn enter(&self, order: &Order) -> Option<(u64, CancellationToken)> {
        let mut table = lock(&self.table);
        if table.closed {
            return None;
        }
        table.epoch += 1;
        let (epoch, cancel) = (table.epoch, CancellationToken::new());
        let before = table.entries.remove(&order.key);
        let failures = before.map_or(0, |before| {
            before.cancel.cancel();
            // A changed object or template deserves a first attempt without delay.
            if before.basis == order.basis { before.failures } else { 0 }
        });
        let (state, basis) = (State::Busy(order.job), order.basis.clone());
        let entry = Entry { epoch, cancel: cancel.clone(), state, basis, failures, up_since: None };
        table.entries.insert(order.key.clone(), entry);
        Some((epoch, cancel))
    }

    fn close(&self) -> Vec<String> {
        let mut table = lock(&self.table);
        // From here on, `enter` refuses jobs, so no VM starts behind the shutdown.
        table.closed = true;
        let mut runs = Vec::new();
        for (key, entry) in &table.entries {
            entry.cancel.cancel();
            // A VM that is being created or deleted does not run.
            if matches!(entry.state, State::Held(_) | State::Busy(Job::Start | Job::Adopt | Job::Stop)) {
                runs.push(key.name.clone());
            }
        }
        runs
    }

    async fn stop_at_exit(&self, vm: &str, grace: Duration) {
        let stopped = match self.find(vm).await {
            Ok(Some((driver, _))) => driver.stop(vm, grace).await,
            Ok(None) => Ok(Stopped::Already),
            Err(error) => Err(error),
        };
        match stopped {
            Ok(Stopped::Graceful | Stopped::Already) => tracing::info!(vm, "stopped the VM gracefully"),
            Ok(Stopped::Forced) => tracing::warn!(vm, "stopped the VM by force: it did not stop by itself in time"),
            Err(error) => tracing::error!(vm, error = %Chain(&error), "could not stop the VM"),
        }
    }

    async fn work(&self, order: &Order, report: &Report<'_>) {
        let vm = order.key.name.as_str();
        // `Start` and `Adopt` do not end here: they watch the run until it ends.
        let done = match order.job {
            Job::Create => self.create(vm, &order.template).await.map(|()| State::Created),
            Job::Stop => self.stop(vm).await.map(|()| State::Stopped),
            Job::Delete => self.delete(vm).await.map(|()| State::Idle),
            Job::Start => match self.start(vm).await {
                Ok(run) => return self.watch(run, report).await,
                Err(error) => Err(error),
            },
            Job::Adopt => match self.adopt(vm).await {
                Ok(Some(run)) => return self.watch(run, report).await,
                Ok(None) => Ok(State::Idle),
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(state) => report.settle(state),
            Err(message) => report.fail(order.job, message),
        }
    }

    async fn create(&self, vm: &str, template: &str) -> Result<(), String> {
        let driver = self.drivers.pick(template).map_err(|error| text(&error))?;
        driver.create(vm, template).await.map_err(|error| text(&error))
    }

    async fn owner(&self, vm: &str) -> Result<Arc<dyn Driver>, String> {
        let found = self.find(vm).await.map_err(|error| text(&error))?;
        found.map(|(driver, _)| driver).ok_or_else(|| text(&rdd_driver::Error::Absent { vm: vm.to_owned() }))
    }

    async fn start(&self, vm: &str) -> Result<Run, String> {
        self.owner(vm).await?.start(vm, &self.log).await.map_err(|error| text(&error))
    }

    async fn adopt(&self, vm: &str) -> Result<Option<Run>, String> {
        self.owner(vm).await?.adopt(vm).await.map_err(|error| text(&error))
    }

    async fn stop(&self, vm: &str) -> Result<(), String> {
        let driver = self.owner(vm).await?;
        let stopped = driver.stop(vm, STOP_GRACE).await.map_err(|error| text(&error))?;
        if stopped == Stopped::Forced {
            tracing::warn!(vm, "stopped the VM by force: it did not stop by itself in time");
        }
        match driver.inspect(vm).await.map_err(|error| text(&error))? {
            // The driver has reported success, but the state decides.
            Found::Running(_) => Err("instance still running after stop attempt".to_owned()),
            Found::Broken { why } => Err(why),
            _ => Ok(()),
        }
    }

    /// Deletes the VM from every driver, because no later reconcile asks them again.
    async fn delete(&self, vm: &str) -> Result<(), String> {
        for driver in self.drivers.iter() {
            if driver.inspect(vm).await.is_ok_and(|found| found == Found::Absent) {
                continue;
            }
            if let Err(error) = driver.stop(vm, DELETE_GRACE).await {
                // The deletion forces the stop and reports what it cannot do.
                tracing::debug!(vm, error = %Chain(&error), "could not stop the VM before its removal");
            }
            driver.delete(vm).await.map_err(|error| text(&error))?;
        }
        Ok(())
    }

    async fn watch(&self, mut run: Run, report: &Report<'_>) {
        while let Some(state) = run.next().await {
            match state {
                RunState::Starting => report.hold(Phase::Starting),
                RunState::Running(health) => {
                    let complaint = health.is_degraded().then(|| health.errors.join("; "));
                    report.hold(Phase::Running { complaint });
                }
                RunState::Exited { last_words } => return report.fail(Job::Start, last_words),
            }
        }
        // The driver reports no more, but the VM may still run: the next reconcile inspects it.
        report.settle(State::Idle);
    }
}

fn text(error: &rdd_driver::Error) -> String {
    Chain(error).to_string()
}

/// Writes the results of a job to the table.
struct Report<'a> {
    shared: &'a Shared,
    order: &'a Order,
    epoch: u64,
    is_settled: bool,
}

impl Report<'_> {
    /// Changes the entry and enqueues the LimaVM, unless another job has replaced this one.
    fn change(&self, change: impl FnOnce(&mut Entry)) {
        {
            let mut table = lock(&self.shared.table);
            match table.entries.get_mut(&self.order.key) {
                // A newer job has its own epoch; a late report of this one is dropped.
                Some(entry) if entry.epoch == self.epoch => change(entry),
                _ => return,
            }
        }
        (self.order.wake)();
    }

    fn settle(&self, state: State) {
        self.change(|entry| {
            entry.state = state;
            // A stop is part of a restart, so it must not reset the backoff of failing starts.
            if self.order.job != Job::Stop {
                entry.failures = 0;
            }
        });
    }

    fn hold(&self, phase: Phase) {
        let now = self.shared.clock.steady();
        self.change(|entry| {
            if matches!(phase, Phase::Running { .. }) {
                // Only the first time counts: the VM may switch between healthy and degraded.
                entry.up_since.get_or_insert(now);
            }
            entry.state = State::Held(phase);
        });
    }

    fn fail(&self, job: Job, message: String) {
        let (now, pace) = (self.shared.clock.steady(), self.shared.pace);
        self.change(|entry| {
            if entry.up_since.is_some_and(|since| now.saturating_sub(since) >= pace.stable) {
                entry.failures = 0;
            }
            entry.failures = entry.failures.saturating_add(1);
            let retry_at = now.saturating_add(pace.wait(entry.failures, entry.up_since.is_some()));
            entry.state = State::Failed { job, message, retry_at };
        });
    }
}

impl Drop for Report<'_> {
    /// Turns a panic of the job into a failure.
    fn drop(&mut self) {
        if !self.is_settled && std::thread::panicking() {
            self.fail(self.order.job, "internal error: the job panicked; the log has more".to_owned());
        }
    }
}
