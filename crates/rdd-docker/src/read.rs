//! What the engine has, in structs of ours: only what is needed, and nothing that a new word could break.

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

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the engine may take to say how it is.
const SHORT: Duration = Duration::from_secs(5);
/// No list is longer than this; it is some hundred thousand containers.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// What an error may say.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// A container, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    /// All of its ID.
    pub id: String,
    /// Whether its output is a terminal's: one raw stream, instead of two that are told apart.
    pub tty: bool,
    /// When it was last started and when it ended, by which two moments of its life can be told apart.
    pub runs: Runs,
    /// What its mirror says.
    pub status: ContainerStatus,
}

/// Which run of a container this is, in the engine's own words and to the nanosecond.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Runs {
    /// When it was last started.
    pub started_at: String,
    /// When it last ended.
    pub finished_at: String,
}

impl Container {
    /// What the engine calls its state.
    pub fn state(&self) -> ContainerState {
        self.status.status
    }
}

/// An image in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageListed {
    /// Its ID.
    pub id: String,
    /// Its tags; none if it is dangling.
    pub tags: Vec<String>,
}

/// An image, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Its ID.
    pub id: String,
    /// What its mirrors say: one for each tag, or one without.
    pub statuses: Vec<ImageStatus>,
}

impl Engine {
    /// The IDs of all containers, running or not.
    ///
    /// # Errors
    /// There was no answer that could be read.
    pub async fn containers(&self) -> Result<Vec<String>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Listed {
            id: String,
        }
        let list: Vec<Listed> = self.list("list containers", "/containers/json?all=1").await?;
        Ok(list.into_iter().map(|listed| listed.id).collect())
    }

    /// A container, if there is one of this ID.
    ///
    /// # Errors
    /// There was no answer that could be read.
    pub async fn container(&self, id: &str) -> Result<Option<Container>, Error> {
        let path = format!("/containers/{}/json", name("container", id)?);
        let found: Option<map::container::Inspected> = self.get(&format!("inspect container {id}"), &path).await?;
        Ok(found.map(|found| map::container::container(&found)))
    }

    /// All images, with their tags.
    ///
    /// # Errors
    /// There was no answer that could be read.
    pub async fn images(&self) -> Result<Vec<ImageListed>, Error> {
        let list: Vec<map::image::Listed> = self.list("list images", "/images/json?all=1").await?;
        Ok(list.into_iter().map(map::image::listed).collect())
    }

    /// An image by its ID or by one of its tags.
    ///
    /// # Errors
    /// There was no answer that could be read.
    pub async fn image(&self, reference: &str) -> Result<Option<Image>, Error> {
        let path = format!("/images/{}/json", name("image", reference)?);
        let found: Option<map::image::Inspected> = self.get(&format!("inspect image {reference}"), &path).await?;
        Ok(found.map(|found| map::image::image(&found)))
    }

    /// All volumes, with what their mirrors say.
    ///
    /// # Errors
    /// There was no answer that could be read.
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

    /// A volume, if there is one of this name.
    ///
    /// # Errors
    /// There was no answer that could be read.
    pub async fn volume(&self, volume: &str) -> Result<Option<VolumeStatus>, Error> {
        let path = format!("/volumes/{}", name("volume", volume)?);
        let found: Option<map::volume::Inspected> = self.get(&format!("inspect volume {volume}"), &path).await?;
        Ok(found.as_ref().map(map::volume::volume))
    }

    /// How late the engine says it is, if it does.
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

    /// Reads an answer; `None` if the engine knows no such thing.
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

    /// The beginning of an answer that is well; `None` if the engine knows no such thing.
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

/// What an error says, if it is written as engines write errors.
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
