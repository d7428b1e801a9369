//! A client of the engine's own API, independent of the product, like a user's docker client.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use bytes::Bytes;
use http::Method;
use rdd_docker::suite::ask::{Answer, Ask};
use rdd_stdx::process::background;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// A client of the engine behind a socket. Each thread uses its own.
pub(crate) struct Docker {
    socket: PathBuf,
    ask: Ask,
    runtime: Runtime,
}

impl Docker {
    pub(crate) fn at(socket: &Path) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { socket: socket.to_owned(), ask: Ask::new(socket).speaking(""), runtime }
    }

    pub(crate) fn another(&self) -> Self {
        Self::at(&self.socket)
    }

    /// The engine's reply. An error is one of the connection.
    pub(crate) fn try_send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, String> {
        let (kind, body) = body.map_or(("", Bytes::new()), |body| ("application/json", body.to_string().into()));
        self.runtime.block_on(self.ask.try_send(method.parse().unwrap(), path, kind, body))
    }

    #[track_caller]
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.try_send(method, path, body).unwrap()
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str) -> Answer {
        self.send("POST", path, None)
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    /// Creates an image that differs from all others, with or without a tag.
    pub(crate) fn try_import(&self, tag: &str) -> Result<Answer, String> {
        let (repository, tag) = tag.split_once(':').unwrap_or((tag, ""));
        let path = format!("/images/create?fromSrc=-&repo={repository}&tag={tag}");
        let sent = self.ask.try_send(Method::POST, &path, "application/x-tar", archive());
        self.runtime.block_on(sent)
    }

    #[track_caller]
    pub(crate) fn import(&self, tag: &str) -> String {
        let answer = self.try_import(tag).unwrap().expect(200);
        answer.json["status"].as_str().unwrap().to_owned()
    }

    /// Creates a container that sleeps, and that ends at once when it is stopped.
    pub(crate) fn try_create(&self, name: &str, image: &str, more: &Value) -> Result<Answer, String> {
        let mut body = json!({
            "Image": image, "Cmd": ["sleep", "600"], "StopSignal": "SIGKILL", "HostConfig": {"NetworkMode": "none"},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        self.try_send("POST", &format!("/containers/create?name={name}"), Some(&body))
    }

    #[track_caller]
    pub(crate) fn create(&self, name: &str, image: &str) -> String {
        let answer = self.try_create(name, image, &json!({})).unwrap().expect(201);
        answer.json["Id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn run(&self, name: &str, image: &str) -> String {
        let id = self.create(name, image);
        self.post(&format!("/containers/{id}/start")).expect(204);
        id
    }

    /// Calls a function with every event since a time, until the stream ends or the function returns false.
    pub(crate) fn follow(&self, since: &str, mut heard: impl FnMut(Value) -> bool) -> Result<(), String> {
        self.runtime.block_on(async {
            let mut events = self.ask.try_stream(&format!("/events?since={since}")).await?;
            while let Some(event) = events.next().await {
                if !heard(event) {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// A tar archive of a root folder with only a static busybox under two names.
fn archive() -> Bytes {
    static ARCHIVE: OnceLock<Bytes> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().unwrap();
        let script = "mkdir bin && cp \"$(command -v busybox)\" bin/busybox && ln -s busybox bin/sh && ln -s busybox bin/sleep \
                      && tar -cf - bin";
        let output = background("sh", folder.path()).args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Bytes::from(output.stdout)
    };
    ARCHIVE.get_or_init(make).clone()
}
