//! Plans the steps of a Notary.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use rdd_runtime::Plan;
use rdd_types::{names::finalizer, rdd::Notary};

/// The state that the plan depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    pub(super) notary: Arc<Notary>,
    /// The ConfigMap that the Notary names.
    pub(super) map: Option<Arc<ConfigMap>>,
    /// Whether events about this generation were published.
    pub(super) is_told: bool,
}

/// The actions of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Publishes events about a new generation.
    Tell,
    /// Records the value in the ConfigMap.
    Record,
    /// Writes the status.
    Report,
    /// Publishes a warning about a failure.
    Complain {
        /// The reason, one CamelCase word.
        reason: &'static str,
        /// The complete error.
        note: String,
    },
    /// Deletes what the Notary owns.
    Sweep,
    /// Removes the finalizer.
    Release,
}

rdd_runtime::steps!(Step {
    Self::Tell => "tell",
    Self::Record => "record",
    Self::Report => "report",
    Self::Complain { .. } => "complain",
    Self::Sweep => "sweep",
    Self::Release => "release",
});

pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    let notary = &observed.notary;
    if notary.metadata.deletion_timestamp.is_some() {
        let is_held = notary.metadata.finalizers.iter().flatten().any(|one| one == finalizer::CLEANUP);
        return if is_held { Plan::of([Step::Sweep, Step::Release]) } else { Plan::nothing() };
    }
    let mut plan = Plan::nothing();
    if !observed.is_told {
        plan = plan.then(Step::Tell);
    }
    if !is_change(notary) {
        return plan;
    }
    // The process may have died after the write of the ConfigMap: then it is not written again.
    if !is_recorded(notary, observed.map.as_deref()) {
        plan = plan.then(Step::Record);
    }
    plan.then(Step::Report)
}

/// Whether the value differs from the last recorded one.
pub(super) fn is_change(notary: &Notary) -> bool {
    notary.spec.value != notary.status.as_ref().map_or("", |status| &status.last_recorded_value)
}

/// The number of recorded changes.
pub(super) fn count(notary: &Notary) -> i64 {
    notary.status.as_ref().map_or(0, |status| status.change_count)
}

/// The key of a change in the ConfigMap.
pub(super) fn change_key(count: i64) -> String {
    format!("change_{count:03}")
}

fn is_recorded(notary: &Notary, map: Option<&ConfigMap>) -> bool {
    let data = map.and_then(|map| map.data.as_ref());
    let text = data.and_then(|data| data.get(&change_key(count(notary))));
    let value = text.and_then(|text| text.split_once(",value=")).map(|(_, value)| value);
    value == Some(&notary.spec.value)
}

#[cfg(test)]
mod tests {
    use rdd_types::rdd::{NotarySpec, NotaryStatus};

    use super::*;

    fn notary(value: &str, recorded: Option<(&str, i64)>) -> Notary {
        let spec = NotarySpec { value: value.to_owned(), config_map_name: "m".to_owned() };
        let status = recorded.map(|(value, change_count)| NotaryStatus {
            last_recorded_value: value.to_owned(),
            change_count,
            ..NotaryStatus::default()
        });
        Notary { status, ..Notary::new("n", spec) }
    }

    fn check(notary: Notary, map: &[(&str, &str)], steps: &[&str]) {
        let data = map.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        let map = (!map.is_empty()).then(|| Arc::new(ConfigMap { data: Some(data), ..ConfigMap::default() }));
        let plan = plan(&Observed { notary: Arc::new(notary), map, is_told: true });
        let names: Vec<&str> = plan.steps.iter().map(rdd_runtime::Step::name).collect();
        assert_eq!(names, steps);
    }

    #[test]
    fn a_change_is_recorded_then_reported() {
        check(notary("a", None), &[], &["record", "report"]);
        check(notary("b", Some(("a", 1))), &[("change_000", "timestamp=t,value=a")], &["record", "report"]);
    }

    #[test]
    fn no_change_is_no_work_and_an_empty_first_value_is_none() {
        check(notary("a", Some(("a", 1))), &[], &[]);
        check(notary("", None), &[], &[]);
        check(notary("", Some(("a", 1))), &[], &["record", "report"]);
    }

    #[test]
    fn what_was_written_before_the_process_died_is_not_written_again() {
        check(notary("a", None), &[("change_000", "timestamp=t,value=a")], &["report"]);
        check(notary("b,value=c", None), &[("change_000", "timestamp=t,value=b,value=c")], &["report"]);
        check(notary("b", None), &[("change_000", "timestamp=t,value=a")], &["record", "report"]);
    }

    #[test]
    fn people_are_told_of_each_generation_once() {
        let observed = Observed { notary: Arc::new(notary("a", Some(("a", 1)))), map: None, is_told: false };
        assert_eq!(plan(&observed).steps, [Step::Tell]);
    }

    #[test]
    fn what_goes_is_cleaned_up_and_let_go_once() {
        let mut going = notary("a", None);
        going.metadata.deletion_timestamp = Some(rdd_types::Time(Default::default()));
        check(going.clone(), &[], &[]);
        going.metadata.finalizers = Some(vec![finalizer::CLEANUP.to_owned()]);
        check(going, &[], &["sweep", "release"]);
    }

    #[test]
    fn changes_are_numbered_from_nought_with_three_digits_or_more() {
        assert_eq!((change_key(0).as_str(), change_key(1234).as_str()), ("change_000", "change_1234"));
    }
}
