//! The errors of verbs, formatted like kubectl's.

use serde_json::Value;

/// Why a verb failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// An error about the command line, a file or a response.
    #[error("{0}")]
    Text(String),
    /// A message that is printed without the prefix `error:`.
    #[error("{0}")]
    Bare(String),
    /// The server returned an error.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// The server is unreachable.
    #[error("{0}")]
    Unreachable(String),
    /// Several errors.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Many(Vec<Error>),
    /// The verb has already reported everything.
    #[error("exit")]
    Silent,
}

/// The result of a verb.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The fields of a failure `Status` that are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Refusal {
    /// The HTTP code.
    pub(crate) code: u64,
    /// The reason, one word; may be empty.
    pub(crate) reason: String,
    /// The message.
    pub(crate) message: String,
    /// The details, if the server sent them.
    pub(crate) details: Option<Details>,
}

/// The details of a `Status`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Details {
    /// The kind.
    pub(crate) kind: String,
    /// The name.
    pub(crate) name: String,
    /// The causes: field and message.
    pub(crate) causes: Vec<(String, String)>,
}

impl Error {
    /// An error with this text.
    pub(crate) fn text(words: impl Into<String>) -> Self {
        Self::Text(words.into())
    }

    /// Combines errors: `Ok` for none, the error itself for one, [`Many`](Self::Many) for several.
    pub(crate) fn aggregate(mut errors: Vec<Self>) -> Result<()> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Many(errors)),
        }
    }

    /// Whether the server returned `NotFound`.
    pub(crate) fn is_not_found(&self) -> bool {
        self.is_reason("NotFound")
    }

    /// Whether the server returned this reason.
    pub(crate) fn is_reason(&self, reason: &str) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.reason == reason)
    }

    /// Prefixes the message; an error of the server stays one.
    #[must_use]
    pub(crate) fn prefixed(self, prefix: &str) -> Self {
        match self {
            Self::Refused(mut refusal) => {
                refusal.message = format!("{prefix}{}", refusal.message);
                Self::Refused(refusal)
            }
            other => Self::Text(format!("{prefix}{other}")),
        }
    }

    /// Adds the source file to the message: `error when creating "x.yaml": …`.
    #[must_use]
    pub(crate) fn when(self, doing: &str, source: &str) -> Self {
        match source {
            "" => self,
            source => self.prefixed(&format!("error when {doing} {}: ", rdd_meta::go_text::quote(source))),
        }
    }

    /// The message as one line of several.
    fn message(&self) -> String {
        match self {
            Self::Refused(refusal) => refusal.line(),
            other => other.to_string(),
        }
    }

    /// The full text to print, with the final newline.
    pub(crate) fn report(&self) -> String {
        let text = match self {
            Self::Silent => return String::new(),
            Self::Many(errors) => errors.iter().map(|error| format!("{}\n", error.message())).collect(),
            Self::Refused(refusal) if refusal.reason == "Invalid" => refusal.invalid(),
            Self::Refused(refusal) => refusal.line(),
            Self::Bare(text) | Self::Unreachable(text) => text.clone(),
            Self::Text(text) if text.starts_with("error: ") => text.clone(),
            Self::Text(text) => format!("error: {text}"),
        };
        if text.ends_with('\n') { text } else { text + "\n" }
    }
}

impl Refusal {
    /// Parses an error response; for a body that is not a `Status`, uses client-go's message for the code.
    pub(crate) fn read(code: u16, body: &[u8], verb: &str, resource: &str, name: &str) -> Self {
        let status: Option<Value> = serde_json::from_slice(body).ok();
        match status {
            Some(status) if status["kind"] == "Status" => Self::of_status(&status, code),
            _ => Self::generic(code, body, verb, resource, name),
        }
    }

    /// Converts a `Status` object.
    pub(crate) fn of_status(status: &Value, code: u16) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let details = status["details"].as_object().map(|_| Details {
            kind: text(&status["details"]["kind"]),
            name: text(&status["details"]["name"]),
            causes: status["details"]["causes"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|cause| (text(&cause["field"]), text(&cause["message"])))
                .collect(),
        });
        Self {
            code: status["code"].as_u64().unwrap_or(u64::from(code)),
            reason: text(&status["reason"]),
            message: text(&status["message"]),
            details,
        }
    }

    fn generic(code: u16, body: &[u8], verb: &str, resource: &str, name: &str) -> Self {
        let status = rdd_meta::Status::generic_response(
            code,
            verb,
            &rdd_meta::GroupResource::parse(resource),
            name,
            &String::from_utf8_lossy(body),
            0,
        );
        let value = serde_json::from_slice(&status.to_wire()).unwrap_or(Value::Null);
        Self::of_status(&value, code)
    }

    fn line(&self) -> String {
        match self.reason.as_str() {
            "Unauthorized" => format!("error: You must be logged in to the server ({})", self.message),
            "" => format!("Error from server: {}", self.message),
            reason => format!("Error from server ({reason}): {}", self.message),
        }
    }

    fn invalid(&self) -> String {
        let mut head = "The request is invalid".to_owned();
        let Some(details) = &self.details else {
            return if self.message.is_empty() { head } else { format!("{head}: {}", self.message) };
        };
        if !details.kind.is_empty() || !details.name.is_empty() {
            head = format!("The {} {} is invalid", details.kind, rdd_meta::go_text::quote(&details.name));
        } else if !self.message.is_empty() && details.causes.is_empty() {
            head = format!("{head}: {}", self.message);
        }
        let mut causes: Vec<String> = Vec::new();
        for (field, message) in &details.causes {
            let cause = format!("{field}: {message}");
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        match causes.as_slice() {
            [] => head,
            [cause] => format!("{head}: {cause}"),
            causes => format!("{head}: \n{}", causes.iter().map(|cause| format!("* {cause}\n")).collect::<String>()),
        }
    }
}
