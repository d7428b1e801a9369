//! Listing and inspecting objects, with lenient parsing: only the fields that are needed, and unknown values are tolerated.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use rdd_types::containers::{ContainerState, ContainerStatus, ImageStatus, VolumeStatus};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    Engine, EngineTime, Error,
    client::{name, sending},
    map,
    transport::HOST,
};

/// The timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The timeout of `GET /info`.
const SHORT: Duration = Duration::from_secs(5);
/// The maximum size of an answer: a list of some hundred thousand containers.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The maximum size of an error message.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The inspected state of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    /// The full ID.
    pub id: String,
    /// Whether it has a TTY: its output is one raw stream instead of multiplexed stdout and stderr.
    pub tty: bool,
    /// The start and end times of its last run, which distinguish one run from another.
    pub runs: Runs,
    /// The status of its mirror.
    pub status: ContainerStatus,
}

/// Identifies one run of a container, with the timestamps as the engine writes them, to the nanosecond.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Runs {
    /// When it last started.
    pub started_at: String,
    /// When it last finished.
    pub finished_at: String,
}

impl Container {
    /// The engine's state of the container.
    pub fn state(&self) -> ContainerState {
        self.status.status
    }
}

/// An image in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageListed {
    /// The image's ID.
    pub id: String,
    /// The image's tags; empty if it is dangling.
    pub tags: Vec<String>,
}

/// The inspected state of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// The image's ID.
    pub id: String,
    /// The statuses of its mirrors: one per tag, or one without a tag.
    pub statuses: Vec<ImageStatus>,
}

impl Engine {
    /// Lists the IDs of all containers, running or not.
    ///
    /// # Errors
    /// When the engine does not answer, refuses, or sends an invalid answer.
    pub async fn containers(&self) -> Result<Vec<String>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Listed {
            id: String,
        }
        let list: Vec<Listed> = self.list("list containers", "/containers/json?all=1").await?;
        Ok(list.into_iter().map(|listed| listed.id).collect())
    }

    /// Inspects a container; `None` if it does not exist.
    ///
    /// # Errors
    /// When the engine does not answer, refuses, or sends an invalid answer.
    pub async fn container(&self, id: &str) -> Result<Option<Container>, Error> {
        let path = format!("/containers/{}/json", name("container", id)?);
        let found: Option<map::container::Inspected> = self.get(&format!("inspect container {id}"), &path).await?;
        Ok(found.map(|found| map::container::container(&found)))
    }

    /// Lists all images with their tags.
    ///
    /// # Errors
    /// When the engine does not answer, refuses, or sends an invalid answer.
    pub async fn images(&self) -> Result<Vec<ImageListed>, Error> {
        let list: Vec<map::image::Listed> = self.list("list images", "/images/json?all=1").await?;
        Ok(list.into_iter().map(map::image::listed).collect())
    }

    /// Inspects an image, given its ID or a tag; `None` if it does not exist.
    ///
    /// # Errors
    /// When the engine does not answer, refuses, or sends an invalid answer.
    pub async fn image(&self, reference: &str) -> Result<Option<Image>, Error> {
        let path = format!("/images/{}/json", name("image", reference)?);
        let found: Option<map::image::Inspected> = self.get(&format!("inspect image {reference}"), &path).await?;
        Ok(found.map(|found| map::image::image(&found)))
    }

    /// Lists all volumes with the statuses of their mirrors.
    ///
    /// # Errors
    /// When the engine does not answer, refuses, or sends an invalid answer.
    pub async fn volumes(&self) -> Result<Vec<VolumeStatus>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Listed {
            #[serde(default)]
            volumes: Option<Vec<map::volume::Inspected>>,
        }
        let what = "list volumes";
        let list: Listed = self.get(what, "/volumes").await?.ok_or_else(|| missing(what))?;
        Ok(list.volumes.unwrap_or_default().iter().map(map::volume::volume).collect())
    }

    /// Inspects a volume by name; `None` if it does not exist.
    ///
    /// # Errors
    /// When the engine does not answer, refuses, or sends an invalid answer.
    pub async fn volume(&self, volume: &str) -> Result<Option<VolumeStatus>, Error> {
        let path = format!("/volumes/{}", name("volume", volume)?);
        let found: Option<map::volume::Inspected> = self.get(&format!("inspect volume {volume}"), &path).await?;
        Ok(found.as_ref().map(map::volume::volume))
    }

    /// The engine's clock from `GET /info`, if the engine reports it.
    pub(crate) async fn system_time(&self) -> Result<Option<EngineTime>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Info {
            #[serde(default)]
            system_time: Option<String>,
        }
        let what = "ask the engine how it is";
        let asked = tokio::time::timeout(SHORT, self.get::<Info>(what, "/info")).await;
        let info = asked.map_err(|_| Error::TimedOut { what: what.to_owned(), after: SHORT })??;
        Ok(info.and_then(|info| info.system_time).as_deref().and_then(EngineTime::parse))
    }

    async fn list<T: DeserializeOwned>(&self, what: &str, path: &str) -> Result<Vec<T>, Error> {
        // Some engines write an empty list as null.
        let list: Option<Option<Vec<T>>> = self.get(what, path).await?;
        Ok(list.ok_or_else(|| missing(what))?.unwrap_or_default())
    }

    /// Sends a GET request and parses the answer; `None` if the engine answers 404.
    async fn get<T: DeserializeOwned>(&self, what: &str, path: &str) -> Result<Option<T>, Error> {
        let reading = async {
            let Some(answer) = self.open(what, path).await? else { return Ok(None) };
            let body = whole(what, answer, ANSWER_BYTES_MAX).await?;
            let read = serde_json::from_slice(&body);
            read.map(Some).map_err(|source| Error::Unreadable { what: what.to_owned(), source })
        };
        let read = tokio::time::timeout(PATIENCE, reading).await;
        read.map_err(|_| Error::TimedOut { what: what.to_owned(), after: PATIENCE })?
    }

    /// Sends a GET request and returns the successful response, before its body; `None` if the engine answers 404.
    pub(crate) async fn open(&self, what: &str, path: &str) -> Result<Option<Response<Incoming>>, Error> {
        let request = Request::builder().method(Method::GET).uri(format!("{HOST}{path}")).body(Empty::<Bytes>::new());
        let request = request.map_err(|error| Error::Broken { what: what.to_owned(), source: Box::new(error) })?;
        let sent = self.transport.send(request).await;
        let answer = sent.map_err(|error| sending(what.to_owned(), &self.transport, error))?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(answer)),
            status => {
                let body = whole(what, answer, MESSAGE_BYTES_MAX).await.unwrap_or_default();
                Err(Error::Refused { what: what.to_owned(), status: status.as_u16(), message: message(&body) })
            }
        }
    }
}

/// The message of an error response: Docker's JSON field, or the body as text.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Said {
        message: String,
    }
    let said = serde_json::from_slice::<Said>(body).map(|said| said.message);
    said.unwrap_or_else(|_| String::from_utf8_lossy(body).trim().to_owned())
}

async fn whole(what: &str, answer: Response<Incoming>, bytes_max: usize) -> Result<Bytes, Error> {
    let body = Limited::new(answer.into_body(), bytes_max).collect().await;
    body.map(|body| body.to_bytes()).map_err(|source| Error::Broken { what: what.to_owned(), source })
}

fn missing(what: &str) -> Error {
    Error::Refused { what: what.to_owned(), status: 404, message: "page not found".to_owned() }
}
