//! Decides what to do about certificates that are not valid at the current time.
//!
//! K3s creates its authorities at the first start, by the clock of its machine, and keeps them with the cluster's data (files, and an
//! encrypted copy in the datastore from which the files are restored). No certificate that they sign is valid earlier than they are. `k3s
//! certificate rotate` creates new certificates and keeps the authorities. `rotate-ca` creates new authorities, but it needs a server
//! that is reachable over the very TLS that fails, and breaks every client that trusts the old ones. Prevention is therefore the driver's
//! task. This module waits where that is short, recreates a cluster that no user can have used, and otherwise reports the problem and its
//! remedy.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    access::{Access, Validity},
    plan::Observed,
    prober::Probe,
};

/// How long to wait for certificates to become valid; a command that waits for the cluster waits as long.
const PATIENCE: Duration = Duration::from_mins(5);

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Wait for this time, with this message: the certificates become valid soon.
    Early(String, Duration),
    /// Recreate the cluster, for this reason: no user can have used it.
    Remake(String),
    /// Report this problem and its remedy.
    Invalid(String),
}

/// Whether a silent cluster may be silent because of its certificates.
pub(super) fn doubt(access: &Access, probe: Option<&Probe>, wall: Duration) -> bool {
    let is_silent = probe.is_some_and(|probe| !probe.answer.is_healthy());
    is_silent && access.whole_validity().is_some_and(|validity| wall < validity.from || wall >= validity.until)
}

/// Decides about a cluster that runs and does not answer; one that answers is fine, whatever the clock shows. If a restart is possible,
/// expired certificates are reported, because the restart has been tried; otherwise it is unknown whether a restart would renew them.
pub(super) fn of_running(seen: &Observed, access: &Access, can_restart: bool) -> Option<Verdict> {
    let validity = access.whole_validity().filter(|_| doubt(access, seen.probe.as_ref(), seen.wall))?;
    let has_ended = seen.wall >= validity.from;
    (can_restart || !has_ended).then(|| judge(seen, validity))
}

/// Decides about a cluster that is about to start: K3s ends soon if its authorities are not valid yet. Expired certificates are left to
/// K3s until it has run.
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

/// A duration in coarse units, because each change of the message is written to the status.
fn roughly(time: Duration) -> String {
    let hours = time.as_secs() / 3600;
    match hours {
        0..2 => "less than two hours".to_owned(),
        2..48 => format!("{hours} hours"),
        _ => format!("{} days", hours / 24),
    }
}
