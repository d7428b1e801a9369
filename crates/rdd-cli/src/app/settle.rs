//! Waits until the App has settled, and reports progress.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rdd_types::conditions::Outlook;
use serde_json::Value;

use super::{
    api::Api,
    condition::{self, Condition},
    interrupt::Interrupt,
    names::{self, conditions},
    remedy::{self, Places},
    status::{facts, render::plain},
    watch::{self, End, Observer, Target},
};
use crate::{
    progress::Progress,
    record::{self, Recorder},
    report::{ExitCode, Failure, Outcome},
    service::deadline::Deadline,
};

/// Identifies the write that the wait is for: conditions of older generations are ignored.
#[derive(Debug, Clone)]
pub struct Written {
    /// The App's UID; an App that was deleted and created again has another.
    pub uid: String,
    /// The generation that the write produced.
    pub generation: i64,
}

impl Written {
    /// Takes UID and generation from the server's reply to the write.
    pub fn of(app: &Value) -> Self {
        Self { uid: condition::text(app, "/metadata/uid").to_owned(), generation: condition::generation(app) }
    }
}

/// The conditions that were reported so far, and the policy of the wait: which are new, which block, which end it. It does no I/O.
#[derive(Debug, Default)]
pub struct Conditions {
    told: BTreeMap<String, Condition>,
}

/// The difference that one observation of the App makes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Conditions of the written generation that are new or changed, in the order of the object.
    pub news: Vec<Condition>,
    /// Whether the App has settled.
    pub settled: bool,
    /// The condition that keeps the App from settling until a user changes something.
    pub refusal: Option<Condition>,
}

impl Conditions {
    /// Compares the App's conditions with those seen before, and keeps them.
    pub fn update(&mut self, app: &Value, written: &Written) -> Change {
        let mut change = Change::default();
        for condition in condition::conditions(app) {
            // Conditions of older generations describe older settings.
            if !condition.is_of(written.generation) {
                continue;
            }
            change.settled |= condition.kind == conditions::SETTLED && condition.is_true();
            // A new transition time alone is not worth a line.
            let words = |of: &Condition| (of.status.clone(), of.reason.clone(), of.message.clone());
            if self.told.get(&condition.kind).map(words) != Some(words(&condition)) {
                self.told.insert(condition.kind.clone(), condition.clone());
                change.news.push(condition);
            }
        }
        change.refusal = refusal(app, written);
        change
    }

    /// The condition that the wait is for: `Settled` if it failed, otherwise the open condition that changed last, otherwise `Settled`.
    pub fn holding_up(&self) -> Option<&Condition> {
        let open = || self.told.values().filter(|condition| !condition.is_true());
        let parts = open().filter(|condition| condition.kind != conditions::SETTLED && !is_unwanted(condition));
        let settled = open().find(|condition| condition.kind == conditions::SETTLED);
        settled
            .filter(|condition| condition.is_failure())
            .or_else(|| parts.max_by_key(|condition| condition.last_transition_time).or(settled))
    }
}

/// Whether a condition is not True because the settings do not ask for it.
fn is_unwanted(condition: &Condition) -> bool {
    remedy::outlook(condition) == Outlook::Unwanted
}

/// The condition that blocks the App for good. It is reported once `Settled` has a final reason and the part that the reason is about still
/// has it too.
fn refusal(app: &Value, written: &Written) -> Option<Condition> {
    let all = condition::conditions(app);
    let is_final =
        |one: &&Condition| !one.is_true() && one.is_of(written.generation) && remedy::outlook(one) == Outlook::Final;
    let settled = all.iter().filter(is_final).find(|one| one.kind == conditions::SETTLED)?;
    let is_meant = |one: &&Condition| one.kind != conditions::SETTLED && one.reason == settled.reason;
    all.iter().filter(is_final).find(is_meant).cloned()
}

/// Waits until the App has settled at the written generation.
///
/// # Errors
///
/// A failure with the code `Denied` if the App cannot settle without a change, a deadline failure after `bound`, a failure with the code
/// `Interrupted` after Ctrl-C, and a failure if the App is deleted. In none of these cases is the write undone.
pub fn wait(api: &Api<'_>, written: &Written, bound: Option<Duration>, interrupt: &mut Interrupt) -> Outcome {
    let target = Target { collection: names::APPS.to_owned(), name: names::APP.to_owned() };
    let mut waiting = Waiting::begin(api, written);
    let end = watch::follow(api, &target, Deadline::after(bound), interrupt, &mut waiting)?;
    let holding_up = waiting.conditions.holding_up().map(ToString::to_string);
    let elapsed = waiting.began.elapsed();
    // Scripts have the record of the Settled condition; people get a closing line instead of the progress line.
    let drawn = waiting.teller.progress.is_some();
    // Whether the App runs on the host is known only from the App that was watched.
    let places = Places { is_host: waiting.is_host, ..facts::places(api.plane) };
    // Removes the progress line before anything else is printed.
    drop(waiting);
    match end {
        End::Found(Some(why)) => Err(refused(&why, &places)),
        End::Found(None) => {
            if drawn {
                api.record().success(&format!("App has reached the desired state ({})", short(elapsed)));
            }
            Ok(())
        }
        End::Deadline => Err(timed_out(holding_up)),
        End::Interrupted => Err(interrupted("stopped waiting for App to settle")),
    }
}

/// The failure of an App that cannot settle, with the exit code of rejected writes: only another value, or what the hints name, helps.
fn refused(why: &Condition, places: &Places) -> Failure {
    let failure = Failure::message(format!("App cannot reach the desired state: {why}"))
        .code(ExitCode::Denied)
        .hint(format!("what may help: {}", remedy::help(why, places)));
    let failure = remedy::last_resort(why).into_iter().fold(failure, Failure::hint);
    failure.hint("the change is stored, and is tried again when something of this has changed; see how it goes: rdd status --watch")
}

/// The failure after the timeout. The exit code does not depend on the condition that was open.
fn timed_out(holding_up: Option<String>) -> Failure {
    let what = holding_up.unwrap_or_else(|| "no condition of the change has been reported yet".to_owned());
    Failure::deadline(format!("timed out waiting for App state: {what}"))
        .hint("the change is stored, and is being worked on; see how it goes: rdd status --watch")
        .hint("or wait longer: --timeout=15m")
}

/// The failure after Ctrl-C. The write is complete, and the controllers continue to work on it.
pub fn interrupted(what: &str) -> Failure {
    Failure::message(what)
        .code(ExitCode::Interrupted)
        .hint("the change is stored, and goes on without this command; see how it goes: rdd status --watch")
}

struct Waiting<'a> {
    written: &'a Written,
    conditions: Conditions,
    teller: Teller<'a>,
    began: Instant,
    /// Whether the App runs on the host; then logs are files on this machine.
    is_host: bool,
}

impl<'a> Waiting<'a> {
    fn begin(api: &'a Api<'_>, written: &'a Written) -> Self {
        let began = Instant::now();
        let now = record::timestamp(api.plane.context.clock().as_ref());
        let teller = Teller::begin(api.record(), "Waiting for App to settle", began, now);
        Self { written, conditions: Conditions::default(), teller, began, is_host: false }
    }
}

impl Observer for Waiting<'_> {
    /// The blocking condition; `None` if the App has settled.
    type Found = Option<Condition>;

    fn see(&mut self, app: Option<&Value>) -> Outcome<Option<Self::Found>> {
        let is_ours = |app: &&Value| condition::text(app, "/metadata/uid") == self.written.uid;
        let Some(app) = app.filter(is_ours) else {
            return Err(Failure::message("App was deleted while waiting for it to settle"));
        };
        if condition::is_deleting(app) {
            return Err(
                Failure::message("App is being deleted, and will not settle").hint("see when it is gone: rdd status")
            );
        }
        self.is_host = condition::text(app, "/spec/backend") == "host";
        let change = self.conditions.update(app, self.written);
        change.news.iter().for_each(|condition| self.teller.tell(condition));
        if let Some(condition) = self.conditions.holding_up() {
            self.teller.phase(&condition.message);
        }
        Ok(if change.settled { Some(None) } else { change.refusal.map(Some) })
    }

    fn lost(&mut self) {
        self.teller.phase("waiting for the control plane to come back");
    }
}

/// Reports progress: log records for scripts; for people, a progress line and a permanent line for each finished part.
struct Teller<'a> {
    record: &'a Recorder,
    progress: Option<Progress>,
    began: Instant,
    /// The start of the wait; older conditions are not shown on a terminal.
    since: Timestamp,
    /// Messages that already have a permanent line.
    done: BTreeSet<String>,
}

impl<'a> Teller<'a> {
    fn begin(record: &'a Recorder, what: &str, began: Instant, since: Timestamp) -> Self {
        let progress = Progress::on_terminal(record, what);
        if progress.is_none() {
            record.info(what);
        }
        Self { record, progress, began, since, done: BTreeSet::new() }
    }

    fn tell(&mut self, condition: &Condition) {
        // Scripts get every new condition as a record.
        let Some(progress) = &self.progress else {
            self.record.info(&condition.to_string());
            return;
        };
        if condition.is_failure() {
            // Settled copies the message of the part that failed; it is printed once.
            if self.done.insert(condition.message.clone()) {
                progress.note(&plain(&condition.message), false);
            }
        } else if is_news(condition, self.since) && self.done.insert(condition.message.clone()) {
            progress.note(&format!("{} ({})", plain(&condition.message), short(self.began.elapsed())), true);
        }
    }

    fn phase(&self, text: &str) {
        if let Some(progress) = self.progress.as_ref().filter(|_| !text.is_empty()) {
            progress.phase(text);
        }
    }
}

/// Whether a part has reached its goal since that time. Compares whole seconds, the precision of conditions.
fn is_news(condition: &Condition, since: Timestamp) -> bool {
    let got_there = condition.is_true() || condition.reason == conditions::STOPPED;
    let recent = condition.last_transition_time.is_some_and(|time| time.as_second() >= since.as_second());
    got_there && recent && condition.kind != conditions::SETTLED
}

/// A duration in the style of kubectl's ages, such as `2m05s`.
pub fn short(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds @ 3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        seconds => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn app(conditions: &[(&str, &str, &str, i64)]) -> Value {
        let list: Vec<Value> = conditions
            .iter()
            .enumerate()
            .map(|(second, (kind, status, reason, generation))| {
                json!({"type": kind, "status": status, "reason": reason, "message": format!("{kind} is {reason}"),
                       "observedGeneration": generation,
                       "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z")})
            })
            .collect();
        json!({"metadata": {"uid": "u", "generation": 2}, "status": {"conditions": list}})
    }

    fn written() -> Written {
        Written { uid: "u".to_owned(), generation: 2 }
    }

    fn lines(change: &Change) -> Vec<String> {
        change.news.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_news_about_the_written_generation_is_told_and_counts() {
        let mut conditions = Conditions::default();
        let old = conditions.update(&app(&[("Settled", "True", "Settled", 1)]), &written());
        assert_eq!(old, Change::default(), "it was settled at what was before");
        let change = conditions
            .update(&app(&[("Running", "False", "Starting", 2), ("Settled", "False", "Starting", 2)]), &written());
        assert_eq!(
            lines(&change),
            ["Running=False: Running is Starting (Starting)", "Settled=False: Settled is Starting (Starting)"]
        );
        assert!(!change.settled);
        let same = conditions
            .update(&app(&[("Running", "False", "Starting", 2), ("Settled", "False", "Starting", 2)]), &written());
        assert_eq!(same, Change::default());
        let done = conditions
            .update(&app(&[("Running", "True", "Started", 2), ("Settled", "True", "Settled", 3)]), &written());
        assert_eq!(
            lines(&done),
            ["Running=True: Running is Started (Started)", "Settled=True: Settled is Settled (Settled)"]
        );
        assert!(done.settled, "a later generation settled too");
    }

    #[test]
    fn what_holds_it_up_is_the_newest_open_condition_and_a_failure_before_all() {
        let held = |rows: &[(&str, &str, &str, i64)]| {
            let mut conditions = Conditions::default();
            conditions.update(&app(rows), &written());
            conditions.holding_up().map(|condition| condition.kind.clone())
        };
        let row = |kind: &'static str, status: &'static str, reason: &'static str| (kind, status, reason, 2_i64);
        assert_eq!(held(&[]), None);
        assert_eq!(
            held(&[row("Created", "Unknown", "Pending"), row("Running", "False", "Starting")]).as_deref(),
            Some("Running")
        );
        assert_eq!(
            held(&[row("Running", "False", "Starting"), row("Created", "True", "Created")]).as_deref(),
            Some("Running")
        );
        assert_eq!(
            held(&[
                row("Running", "True", "Started"),
                row("KubernetesReady", "False", "NotApplicable"),
                row("Settled", "False", "EngineStale")
            ])
            .as_deref(),
            Some("Settled")
        );
        assert_eq!(
            held(&[row("Settled", "False", "StartFailed"), row("Running", "False", "StartFailed")]).as_deref(),
            Some("Settled")
        );
        assert_eq!(held(&[row("Settled", "True", "Settled")]), None);
    }

    // Issue 7: the wait does not continue for a condition that only a user can change.
    #[test]
    fn a_refusal_ends_the_wait_once_it_is_all_that_is_left_and_of_this_generation() {
        let refusal = |rows: &[(&str, &str, &str, i64)]| {
            let change = Conditions::default().update(&app(rows), &written());
            assert!(!change.settled);
            change.refusal.map(|condition| condition.to_string())
        };
        // Finding E-22: CrashLoopBackOff
        for reason in ["DowngradeRefused", "CertificatesInvalid", "Unsupported", "CrashLoopBackOff"] {
            let part = ("KubernetesReady", "False", reason, 2);
            let said = format!("KubernetesReady=False: KubernetesReady is {reason} ({reason})");
            assert_eq!(refusal(&[part, ("Settled", "False", reason, 2)]), Some(said));
            assert_eq!(refusal(&[part, ("Settled", "False", "Starting", 2)]), None, "the machine is still on its way");
            assert_eq!(refusal(&[part, ("Settled", "False", reason, 1)]), None, "that was said before the change");
            let old = ("KubernetesReady", "False", reason, 1);
            assert_eq!(refusal(&[old, ("Settled", "False", reason, 2)]), None);
            let reset = ("KubernetesReady", "False", "Probing", 2);
            assert_eq!(refusal(&[reset, ("Settled", "False", reason, 2)]), None, "it was reset a moment ago");
        }
        for reason in ["StartFailed", "MergeFailed", "DownloadFailed", "Probing"] {
            let rows = [("KubernetesReady", "False", reason, 2), ("Settled", "False", reason, 2)];
            assert_eq!(refusal(&rows), None, "{reason} is tried again");
        }
    }

    #[test]
    fn a_refusal_has_the_code_of_refusals_and_names_the_fix() {
        let app = app(&[("KubernetesReady", "False", "DowngradeRefused", 2)]);
        let failure = refused(&condition::condition(&app, "KubernetesReady").unwrap(), &Places::default());
        assert_eq!(failure.exit_code().number(), 3);
        assert!(failure.text().starts_with("App cannot reach the desired state: KubernetesReady=False: "));
        let hints = failure.hints().join("\n");
        assert!(hints.contains("rdd set kubernetes.version=") && hints.contains("rdd reset --kubernetes"), "{hints}");
    }

    // Finding E-22
    #[test]
    fn a_cluster_that_ends_again_and_again_has_the_code_of_refusals_and_names_its_log() {
        let app = app(&[("KubernetesReady", "False", "CrashLoopBackOff", 2)]);
        let places = Places { is_host: true, cluster_log: "/rd/k3s.log".to_owned(), ..Places::default() };
        let failure = refused(&condition::condition(&app, "KubernetesReady").unwrap(), &places);
        let hints = failure.hints().join("\n");
        assert_eq!(failure.exit_code().number(), 3);
        assert!(hints.contains("tail -n 50 /rd/k3s.log") && hints.contains("once the cause is mended"), "{hints}");
    }

    // Finding O-10: whatever the wait was for.
    #[test]
    fn a_wait_that_times_out_says_what_it_waited_for_and_has_its_code() {
        for (holding_up, text) in [
            (
                None,
                "timed out waiting for App state: no condition of the change has been reported yet: context deadline exceeded",
            ),
            (
                Some("Running=False: x (Starting)"),
                "timed out waiting for App state: Running=False: x (Starting): context deadline exceeded",
            ),
        ] {
            let failure = timed_out(holding_up.map(str::to_owned));
            assert_eq!((failure.text().as_str(), failure.exit_code().number()), (text, 4));
        }
    }

    #[test]
    fn only_what_happened_during_the_wait_is_news_to_a_person() {
        let app = app(&[
            ("Created", "True", "Created", 2),
            ("Running", "True", "Started", 2),
            ("Other", "False", "Starting", 2),
            ("Running", "False", "Stopped", 2),
            ("Settled", "True", "Settled", 2),
        ]);
        let since: Timestamp = "2026-01-01T00:00:01.9Z".parse().unwrap();
        let news: Vec<bool> = condition::conditions(&app).iter().map(|condition| is_news(condition, since)).collect();
        assert_eq!(news, [false, true, false, true, false], "Settled has a line of its own at the end");
    }

    #[test]
    fn lengths_of_time_are_short() {
        let said = |seconds| short(Duration::from_secs(seconds));
        assert_eq!(
            [said(0), said(59), said(60), said(3599), said(3600), said(90_000)],
            ["0s", "59s", "1m00s", "59m59s", "1h00m", "1d01h"]
        );
    }
}
