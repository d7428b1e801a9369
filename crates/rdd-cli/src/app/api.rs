//! Reads, writes and deletes objects over the daemon's API, one call at a time.

use std::{fmt, io, time::Duration};

use bytes::Bytes;
use http::{Method, StatusCode};
use rdd_client::{
    http::{self as wire, Client, Content, Lines, Response},
    kubeconfig::{self, Kubeconfig},
};
use rdd_meta::{Status, status::Reason};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::{interrupt::Interrupt, names::FIELD_MANAGER};
use crate::{
    record::Recorder,
    report::{ExitCode, Failure, Outcome},
    service::{self, ControlPlane, readiness},
};

/// Timeout of one call. Admission may call a webhook, which has ten seconds.
const CALL_BOUND: Duration = Duration::from_secs(30);

/// Why a call to the API failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the call with a `Status`.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The server answered with an error code and without a `Status`.
    #[error("the server answered {code}: {text}")]
    Answered {
        /// The HTTP status code.
        code: StatusCode,
        /// The beginning of the body.
        text: String,
    },
    /// No answer arrived.
    #[error(transparent)]
    Call(#[from] wire::Error),
    /// The daemon's kubeconfig is invalid.
    #[error("read the kubeconfig of the control plane")]
    Kubeconfig(#[source] kubeconfig::Error),
    /// The answer is not JSON.
    #[error("read the server's answer")]
    Malformed(#[source] serde_json::Error),
}

impl Error {
    /// Whether the server refused the change for good: a retry gets the same answer.
    pub fn is_denial(&self) -> bool {
        matches!(self, Self::Refused(status) if matches!(status.code, 400 | 403 | 422))
    }

    /// Whether the server refused with this reason.
    pub fn is(&self, reason: Reason) -> bool {
        matches!(self, Self::Refused(status) if status.reason == Some(reason))
    }

    /// Whether the kind is served but the object does not exist. A kind that is not served is a different error.
    pub fn is_absent(&self) -> bool {
        let Self::Refused(status) = self else { return false };
        status.reason == Some(Reason::NotFound)
            && status.details.as_ref().is_some_and(|details| !details.name.is_empty())
    }

    /// The failure of a command that writes the App. A denial has its own exit code.
    pub fn while_writing(self, what: &str) -> Failure {
        let code = if self.is_denial() { ExitCode::Denied } else { ExitCode::Failure };
        Failure::caused(what, self).code(code)
    }
}

/// How an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Create it in a collection (POST).
    Create,
    /// Change the given fields (JSON merge patch).
    Merge,
    /// Replace all of it (PUT).
    Replace,
}

/// A connection to the API of a running daemon, for the duration of one command.
pub struct Api<'a> {
    /// The daemon's control plane.
    pub plane: &'a ControlPlane<'a>,
    client: Client,
    runtime: Runtime,
}

impl fmt::Debug for Api<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("client", &self.client).finish_non_exhaustive()
    }
}

impl<'a> Api<'a> {
    /// Starts the daemon if needed, waits until it is ready, then connects.
    pub fn ensure(plane: &'a ControlPlane<'a>) -> Outcome<Self> {
        service::ensure_running(plane)?;
        Self::connect(plane)
    }

    /// Connects to a running daemon.
    pub fn connect(plane: &'a ControlPlane<'a>) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::caused("prepare a call to the control plane", error))?;
        Ok(Self { plane, client: client(&readiness::read_config(plane)?)?, runtime })
    }

    /// Where messages go.
    pub fn record(&self) -> &Recorder {
        self.plane.record()
    }

    /// Installs handlers for Ctrl-C and SIGTERM. From then on these signals no longer end the process by themselves.
    pub fn interrupt(&self) -> io::Result<Interrupt> {
        let _within = self.runtime.enter();
        Interrupt::listen()
    }

    /// Runs a future to completion on this connection's runtime.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Gets the JSON document at this path: an object, a list or anything else.
    pub fn get(&self, path: &str) -> Result<Value, Error> {
        self.get_within(path, CALL_BOUND)
    }

    /// Like [`Api::get`], with this timeout.
    pub fn get_within(&self, path: &str, bound: Duration) -> Result<Value, Error> {
        self.block_on(get(&self.client.clone().with_timeout(bound), path))
    }

    /// The status code and the body at this path, whatever the code is, with this timeout.
    pub fn probe(&self, path: &str, bound: Duration) -> Result<(StatusCode, String), Error> {
        let client = self.client.clone().with_timeout(bound);
        let response = self.block_on(client.get(path))?;
        Ok((response.status, String::from_utf8_lossy(&response.body).into_owned()))
    }

    /// The object at this path; `None` if its kind is served but the object does not exist.
    pub fn find(&self, path: &str) -> Result<Option<Value>, Error> {
        match self.get(path) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes an object and returns it as the server stored it. Warnings of the server are shown to the user.
    pub fn write(&self, write: Write, path: &str, object: &Value, dry_run: bool) -> Result<Value, Error> {
        let (method, kind) = match write {
            Write::Create => (Method::POST, "application/json"),
            Write::Merge => (Method::PATCH, "application/merge-patch+json"),
            Write::Replace => (Method::PUT, "application/json"),
        };
        // The server validates and defaults the object as usual, but does not store it.
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let path = format!("{path}?fieldManager={FIELD_MANAGER}{dry_run}");
        let content = Content { kind, bytes: Bytes::from(object.to_string()) };
        let client = self.client.clone().with_timeout(CALL_BOUND);
        let response = self.block_on(client.call(method, &path, Some(content)))?;
        warnings(&response).iter().for_each(|warning| self.record().warn(warning));
        read(&response)
    }

    /// Deletes the object at this path if it has this UID. Finalizers may keep it for a while.
    pub fn remove(&self, path: &str, uid: &str) -> Result<(), Error> {
        // The precondition protects an object that was created under the same name meanwhile.
        let options = serde_json::json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
        let content = Content { kind: "application/json", bytes: Bytes::from(options.to_string()) };
        let client = self.client.clone().with_timeout(CALL_BOUND);
        read(&self.block_on(client.call(Method::DELETE, path, Some(content)))?).map(drop)
    }
}

/// Builds a client from the text of the daemon's kubeconfig.
pub(super) fn client(config: &str) -> Result<Client, Error> {
    let config = Kubeconfig::parse(config).map_err(Error::Kubeconfig)?;
    Client::from_kubeconfig(&config, None).map_err(Error::Kubeconfig)
}

/// Gets the JSON document at this path.
pub(super) async fn get(client: &Client, path: &str) -> Result<Value, Error> {
    read(&client.get(path).await?)
}

/// Opens a watch; each line is one event.
pub(super) async fn watch(client: &Client, path: &str) -> Result<Lines, Error> {
    Ok(client.lines(path).await?)
}

/// Decodes the answer: the body on success, otherwise the server's `Status` or the beginning of its text.
fn read(response: &Response) -> Result<Value, Error> {
    if response.status.is_success() {
        return serde_json::from_slice(&response.body).map_err(Error::Malformed);
    }
    Err(match Status::from_wire(&response.body) {
        Some(status) if !status.message.is_empty() => Error::Refused(Box::new(status)),
        // A path that is not served has no Status in its body.
        _ if response.status == StatusCode::NOT_FOUND => Error::Refused(Box::new(Status::not_found_path())),
        _ => {
            let text = String::from_utf8_lossy(&response.body).trim().chars().take(200).collect();
            Error::Answered { code: response.status, text }
        }
    })
}

/// The texts of `Warning` headers: `299 - "text"`.
fn warnings(response: &Response) -> Vec<String> {
    let values = response.headers.get_all(http::header::WARNING).iter();
    values.filter_map(|value| warning_text(value.to_str().ok()?)).collect()
}

fn warning_text(header: &str) -> Option<String> {
    let quoted = header.splitn(3, ' ').nth(2)?.strip_prefix('"')?;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            // A backslash quotes the next character, as in any quoted string of HTTP.
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdd_meta::GroupResource;

    fn refused(status: Status) -> Error {
        Error::Refused(Box::new(status))
    }

    #[test]
    fn an_absent_object_is_told_from_a_kind_that_is_not_served() {
        let apps = GroupResource { group: "app.rancherdesktop.io".to_owned(), resource: "apps".to_owned() };
        assert!(refused(Status::not_found(&apps, "app")).is_absent());
        assert!(!refused(Status::not_found_path()).is_absent());
        assert!(!refused(Status::forbidden("no")).is_absent());
    }

    #[test]
    fn refusals_have_an_exit_code_of_their_own() {
        for (status, code) in [
            (Status::forbidden("no"), 3),
            (Status::bad_request("no"), 3),
            (Status::invalid(&rdd_meta::GroupKind::default(), "app", &[]), 3),
            (Status::not_found_path(), 1),
            (Status::internal("no"), 1),
            (Status::service_unavailable("no"), 1),
        ] {
            let failure = refused(status.clone()).while_writing("failed to update App");
            assert_eq!(failure.exit_code().number(), code, "{status:?}");
            assert_eq!(failure.text(), format!("failed to update App: {}", status.message));
        }
    }

    #[test]
    fn warnings_are_read_from_their_headers() {
        for (header, text) in [
            (r#"299 - "spec.x is old""#, Some("spec.x is old")),
            (r#"299 - "say \"x\" \\ y" "Mon""#, Some(r#"say "x" \ y"#)),
            (r#"299 - "never closed"#, None),
            ("nonsense", None),
        ] {
            assert_eq!(warning_text(header).as_deref(), text, "{header}");
        }
    }
}
