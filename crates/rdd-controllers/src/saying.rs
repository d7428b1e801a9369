//! What a condition can say: entries that the controllers set and the reference shows, so that neither knows one the other does not.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::conditions::{self, New};

/// One line of `docs/reference/conditions.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saying {
    /// The condition's type.
    pub condition: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// What the message is, or for a message that is made at run time, in angle brackets, what it tells.
    pub message: &'static str,
    /// When it is said.
    pub when: &'static str,
}

/// A condition on its way into a status: everything but who says it of which generation, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    saying: Saying,
    reason: String,
    message: String,
}

impl Saying {
    /// With the message of the table.
    pub fn say(&'static self) -> Said {
        self.quote(self.reason, self.message)
    }

    /// With a message of this moment.
    pub fn with(&'static self, message: &str) -> Said {
        self.quote(self.reason, message)
    }

    /// With what another condition gives as its reason.
    pub fn quote(&'static self, reason: &str, message: &str) -> Said {
        Said { saying: *self, reason: reason.to_owned(), message: message.to_owned() }
    }

    /// Whether this condition says it, whatever the message.
    pub fn is_said_by(&self, condition: &Condition) -> bool {
        condition.type_ == self.condition && condition.status == self.status && condition.reason == self.reason
    }
}

impl Said {
    /// Which line of the table it is.
    pub fn saying(&self) -> &Saying {
        &self.saying
    }

    /// Puts it among the conditions; the time of the last transition moves only when the status does.
    pub fn put(&self, into: &mut Vec<Condition>, generation: i64, now: Timestamp) {
        let new = New {
            kind: self.saying.condition,
            status: match self.saying.status {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            },
            reason: &self.reason,
            message: &self.message,
            generation: Some(generation),
        };
        conditions::set(into, &new, now);
    }
}
