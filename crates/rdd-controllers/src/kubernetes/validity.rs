//! Certificates that are of another time than this machine's, and what can be done about them.
//!
//! K3s makes its authorities at the first start, by the clock of the machine that it runs in, and keeps them with the cluster's data (files, and an
//! encrypted copy in the datastore that files are restored from). No certificate that they sign begins before they do. `k3s certificate rotate` makes new
//! certificates and keeps the authorities; `rotate-ca` makes new authorities, but asks a server for it that has to be reached over the very TLS that
//! fails, and breaks whatever trusts the old ones. So prevention is the driver's, and what is left here is: wait where that is short; make a cluster anew
//! that nobody can have used; else say what is wrong and how to mend it.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    access::{Access, Validity},
    plan::Observed,
    prober::Probe,
};

/// How long the beginning of certificates is just waited for: somebody who waits for the cluster waits as long.
const PATIENCE: Duration = Duration::from_mins(5);

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They are good so soon that it is worth waiting: what is waited for, and for how long.
    Early(String, Duration),
    /// They are of another time, and nobody can have used the cluster: why it is made anew.
    Remake(String),
    /// They are of another time: what is wrong, and what to do.
    Invalid(String),
}

/// Whether it may be for its certificates that a cluster does not answer.
pub(super) fn doubt(access: &Access, probe: Option<&Probe>, wall: Duration) -> bool {
    let is_silent = probe.is_some_and(|probe| !probe.answer.is_healthy());
    is_silent && access.whole_validity().is_some_and(|validity| wall < validity.from || wall >= validity.until)
}

/// What is wrong with a cluster that runs and does not answer; one that answers is well, whatever a clock says. Certificates that have ended may be made
/// anew by a restart: whoever could make one has, and who could not knows nothing.
pub(super) fn of_running(seen: &Observed, access: &Access, can_restart: bool) -> Option<Verdict> {
    let validity = access.whole_validity().filter(|_| doubt(access, seen.probe.as_ref(), seen.wall))?;
    let has_ended = seen.wall >= validity.from;
    (can_restart || !has_ended).then(|| judge(seen, validity))
}

/// What is wrong with a cluster that is about to be started: K3s ends soon if its authorities are not good yet. Those that have ended are its own affair,
/// until it has run.
pub(super) fn of_data(seen: &Observed) -> Option<Verdict> {
    let validity = Validity::of(seen.foundation.as_ref()?.authority.as_bytes())?;
    (seen.wall < validity.from).then(|| judge(seen, validity))
}

fn judge(seen: &Observed, validity: Validity) -> Verdict {
    let Validity { from, until } = validity;
    let left = from.saturating_sub(seen.wall);
    if !left.is_zero() && left <= PATIENCE {
        let text = format!("Waiting until the certificates of Kubernetes are valid, at {}", spell(from));
        return Verdict::Early(text, left);
    }
    let what = if left.is_zero() {
        let past = roughly(seen.wall.saturating_sub(until));
        format!(
            "the certificates of the cluster were valid until {}, {past} before what this machine's clock shows",
            spell(until)
        )
    } else {
        let ahead = roughly(left);
        format!(
            "the certificates of the cluster are valid from {}, {ahead} after what this machine's clock shows",
            spell(from)
        )
    };
    if seen.foundation.as_ref().is_some_and(|foundation| foundation.is_new) {
        return Verdict::Remake(format!("{what}; nobody has used the cluster yet, so it is made anew"));
    }
    Verdict::Invalid(format!(
        "{what}; if the clock of this machine is wrong, set it; if it is right, the clock was wrong when the cluster was made, and only a new cluster \
         helps: forget this one with `rdd reset --kubernetes`"
    ))
}

fn spell(time: Duration) -> String {
    let seconds = i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    seconds.map_or_else(|| format!("{} s after the epoch", time.as_secs()), |time| time.to_string())
}

/// A length of time that is another one only now and then: what is said of it is written each time it is news.
fn roughly(time: Duration) -> String {
    let hours = time.as_secs() / 3600;
    match hours {
        0..2 => "less than two hours".to_owned(),
        2..48 => format!("{hours} hours"),
        _ => format!("{} days", hours / 24),
    }
}
