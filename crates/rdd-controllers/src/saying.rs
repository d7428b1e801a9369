//! The conditions that controllers can set, as tables that the reference page shows too: code and docs cannot disagree.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::conditions::{self, New};

/// A condition that a controller can set: one line of `docs/reference/conditions.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saying {
    /// The condition's type.
    pub condition: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// The message; for a message made at run time, a description of it in angle brackets.
    pub message: &'static str,
    /// When the controller sets it.
    pub when: &'static str,
}

/// A condition that is ready to be set: all but the generation it is about and its transition time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    saying: Saying,
    reason: String,
    message: String,
}

impl Saying {
    /// With the message from the table.
    pub fn say(&'static self) -> Said {
        self.quote(self.reason, self.message)
    }

    /// With a message made at run time.
    pub fn with(&'static self, message: &str) -> Said {
        self.quote(self.reason, message)
    }

    /// With a message and a reason made at run time, such as those of another condition.
    pub fn quote(&'static self, reason: &str, message: &str) -> Said {
        Said { saying: *self, reason: reason.to_owned(), message: message.to_owned() }
    }

    /// Whether this condition has the type, status and reason of the spec, with any message.
    pub fn is_said_by(&self, condition: &Condition) -> bool {
        condition.type_ == self.condition && condition.status == self.status && condition.reason == self.reason
    }
}

impl Said {
    /// The line of the table that it was made from.
    pub fn saying(&self) -> &Saying {
        &self.saying
    }

    /// Sets it in a list of conditions; the last transition time changes only with the status.
    pub fn put(&self, list: &mut Vec<Condition>, generation: i64, now: Timestamp) {
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
        conditions::set(list, &new, now);
    }
}
