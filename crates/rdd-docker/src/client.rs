//! The client of one engine: connecting, and actions on containers, images and volumes.

use std::{path::Path, sync::Arc, time::Duration};

use bollard::{
    API_DEFAULT_VERSION, Docker,
    query_parameters::{
        RemoveContainerOptions, RemoveContainerOptionsBuilder, RemoveImageOptions, RemoveImageOptionsBuilder,
        RemoveVolumeOptions, RemoveVolumeOptionsBuilder, RestartContainerOptions, StartContainerOptions,
        StopContainerOptions,
    },
};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Empty;
use rdd_stdx::clock::SharedClock;
use rdd_types::containers::Action;

use crate::{
    ApiVersion, EngineTime, Error, Skew,
    error::BoxError,
    transport::{HOST, LONGEST, Transport},
};

/// The timeout of a ping.
const PING: Duration = Duration::from_secs(5);

/// A connected container engine; the seam between the controllers and Docker. Cheap to clone; clones share one connection pool.
///
/// # Flow
/// [`connect`](Self::connect) pings the engine and negotiates the API version. A mirror takes [`now`](Self::now), opens
/// [`events`](Self::events) from that time, and then lists: events that happen during the list are in the stream.
///
/// # Guarantees
/// - Reads tolerate unknown fields and enum values.
/// - Removing an object that does not exist succeeds.
/// - Names that could change the path of a request are refused before anything is sent.
///
/// # Errors
/// [`Error::was_never_sent`] distinguishes requests that certainly had no effect. After [`Error::Broken`] and [`Error::TimedOut`]
/// the engine may have executed the request.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) transport: Transport,
    pub(crate) docker: Docker,
    clock: SharedClock,
}

impl Engine {
    /// Pings the engine behind `socket` and negotiates the API version.
    ///
    /// # Errors
    /// When the engine does not answer within five seconds, or supports only versions older than [`ApiVersion::OLDEST`].
    pub async fn connect(socket: &Path, clock: SharedClock) -> Result<Self, Error> {
        let transport = Transport::new(socket);
        let (newest, _) = ping(&transport).await?;
        transport.speak(ApiVersion::negotiate(newest)?);
        let own = transport.clone();
        let send = move |request: bollard::BollardRequest| {
            let transport = own.clone();
            async move { transport.send(request).await.map_err(|err| bollard::errors::Error::IOError { err }) }
        };
        let docker = Docker::connect_with_custom_transport(send, Some(HOST), LONGEST.as_secs(), API_DEFAULT_VERSION)
            .map_err(|error| Error::of("make a client", socket, error))?;
        Ok(Self { transport, docker, clock })
    }

    /// The path of the engine's socket.
    pub fn socket(&self) -> &Path {
        self.transport.socket()
    }

    /// The negotiated API version.
    pub fn version(&self) -> ApiVersion {
        self.transport.version()
    }

    /// Checks that the engine still answers.
    ///
    /// # Errors
    /// When it does not answer within five seconds.
    pub async fn ping(&self) -> Result<(), Error> {
        ping(&self.transport).await.map(drop)
    }

    /// The current time on the engine's clock, the right `since` for [`events`](Self::events) whatever this machine's clock says.
    ///
    /// # Errors
    /// When the engine reports its time neither in `/info` nor in the date of an answer.
    pub async fn now(&self) -> Result<EngineTime, Error> {
        if let Ok(Some(time)) = self.system_time().await {
            return Ok(time.floor());
        }
        // The `Date` header has whole seconds, which is precise enough.
        let (_, date) = ping(&self.transport).await?;
        date.ok_or_else(|| Error::Broken {
            what: "ask the engine for the time".to_owned(),
            source: "it does not say how late it is".into(),
        })
    }

    /// The offset of the engine's clock from this machine's, given a time that the engine has just reported.
    pub fn skew(&self, now: EngineTime) -> Skew {
        now.skew(self.clock.wall())
    }

    /// Acts on a container. Returns when the action is complete; a stop can take as long as the container's grace period.
    ///
    /// # Errors
    /// When the engine refuses, or when its answer is lost.
    pub async fn act(&self, action: Action, id: &str) -> Result<(), Error> {
        let id = name("container", id)?;
        let done = match action {
            Action::Start => self.docker.start_container(id, None::<StartContainerOptions>).await,
            Action::Stop => self.docker.stop_container(id, None::<StopContainerOptions>).await,
            Action::Pause => self.docker.pause_container(id).await,
            Action::Unpause => self.docker.unpause_container(id).await,
            Action::Restart => self.docker.restart_container(id, None::<RestartContainerOptions>).await,
        };
        done.map_err(|error| self.error(format!("{} container {id}", action.as_str()), error))
    }

    /// Removes a container, running or not, but not its volumes. Succeeds if it does not exist.
    ///
    /// # Errors
    /// When the container still exists, or when that is unknown.
    pub async fn remove_container(&self, id: &str) -> Result<(), Error> {
        let id = name("container", id)?;
        let options: RemoveContainerOptions = RemoveContainerOptionsBuilder::default().force(true).v(false).build();
        let done = self.docker.remove_container(id, Some(options)).await;
        gone(done.map_err(|error| self.error(format!("remove container {id}"), error)))
    }

    /// Removes a tag of an image; the last tag, or the ID, removes the image itself. Succeeds if it does not exist.
    ///
    /// # Errors
    /// When it still exists, or when that is unknown; [`Error::is_conflict`] if a container uses it.
    pub async fn remove_image(&self, reference: &str) -> Result<(), Error> {
        let reference = name("image", reference)?;
        let options: RemoveImageOptions = RemoveImageOptionsBuilder::default().force(false).noprune(true).build();
        let done = self.docker.remove_image(reference, Some(options), None).await.map(drop);
        gone(done.map_err(|error| self.error(format!("remove image {reference}"), error)))
    }

    /// Removes a volume with its data. Succeeds if it does not exist.
    ///
    /// # Errors
    /// When it still exists, or when that is unknown; [`Error::is_conflict`] if a container uses it.
    pub async fn remove_volume(&self, volume: &str) -> Result<(), Error> {
        let volume = name("volume", volume)?;
        let options: RemoveVolumeOptions = RemoveVolumeOptionsBuilder::default().force(true).build();
        let done = self.docker.remove_volume(volume, Some(options)).await;
        gone(done.map_err(|error| self.error(format!("remove volume {volume}"), error)))
    }

    pub(crate) fn error(&self, what: String, error: bollard::errors::Error) -> Error {
        Error::of(what, self.socket(), error)
    }
}

fn gone(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// Checks that a name can be part of a path without escaping. All names from an engine can; an object written by hand may contain
/// any text.
pub(crate) fn name<'a>(kind: &'static str, text: &'a str) -> Result<&'a str, Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-:/@+".contains(&byte);
    let fits = !text.is_empty()
        && text.bytes().all(is_plain)
        && text.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if fits { Ok(text) } else { Err(Error::Name { kind, name: text.to_owned() }) }
}

/// Pings the engine. Returns the newest API version and the time that it reports, as far as it does.
async fn ping(transport: &Transport) -> Result<(Option<ApiVersion>, Option<EngineTime>), Error> {
    let what = || "ping the engine".to_owned();
    let request = Request::builder().method(Method::GET).uri(format!("{HOST}/_ping")).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| Error::Broken { what: what(), source: Box::new(error) })?;
    let answer = tokio::time::timeout(PING, transport.send(request)).await;
    let answer = answer.map_err(|_| Error::TimedOut { what: what(), after: PING })?;
    let answer = answer.map_err(|error| sending(what(), transport, error))?;
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
    if !answer.status().is_success() {
        let message = format!("it answers {}", answer.status());
        return Err(Error::Refused { what: what(), status: answer.status().as_u16(), message });
    }
    let version = header("api-version").and_then(ApiVersion::parse);
    let date = header("date").and_then(|text| httpdate::parse_http_date(text).ok());
    let since_epoch = date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok());
    let time = since_epoch.and_then(|time| i64::try_from(time.as_secs()).ok());
    Ok((version, time.map(|seconds| EngineTime { seconds, nanoseconds: 0 })))
}

/// Converts an error of the transport.
pub(crate) fn sending(what: String, transport: &Transport, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotConnected => {
            Error::Connect { what, socket: transport.socket().to_owned(), source: BoxError::from(error) }
        }
        _ => Error::Broken { what, source: error.into() },
    }
}

/// Asserts at compile time that an engine can be shared between tasks.
const _: fn() = || {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Arc<Engine>>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_lead_elsewhere_is_no_name() {
        for text in ["abc", "docker.io/library/alpine:3.20", "sha256:0af", "a@sha256:0", "my_volume-1.2", "a/b+c"] {
            assert_eq!(name("image", text).unwrap(), text);
        }
        for text in
            ["", "..", "../containers/x", "a/../b", "a//b", "/a", "a/", ".", "a?force=1", "a#b", "a%2fb", "a b", "é"]
        {
            let refused = name("volume", text).unwrap_err();
            assert!(refused.was_never_sent() && refused.to_string().contains("is no name of a volume"), "{text}");
        }
    }
}
