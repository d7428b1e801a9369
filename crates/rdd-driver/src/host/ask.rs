//! Queries a running engine over its socket: its health, networks, images and containers of pods.

use std::{collections::BTreeSet, fs::File, io::Read as _, path::Path, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full, Limited, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;

use super::rules::{Network, parse_networks};

/// The timeout of short requests.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum size of a response.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Checks that the Docker engine at this socket answers.
pub(super) async fn docker_answers(socket: &Path) -> Result<(), String> {
    get(socket, "/_ping").await.map(|_| ())
}

/// Lists the networks of a Docker engine whose default network uses this bridge.
pub(super) async fn networks(socket: &Path, own_bridge: &str) -> Result<Vec<Network>, String> {
    let answer = get(socket, "/networks").await?;
    parse_networks(&answer, own_bridge).map_err(|error| format!("its list of networks cannot be read: {error}"))
}

/// Follows the engine's network events and calls `changed` for each. It also calls `changed` once after it subscribed,
/// because earlier changes were missed. Returns when the stream ends.
pub(super) async fn follow_networks(socket: &Path, changed: impl Fn() + Send) -> Result<(), String> {
    // The filter is {"type":["network"]}, percent-encoded.
    let path = "/events?filters=%7B%22type%22%3A%5B%22network%22%5D%7D";
    let stream = connect(socket).await?;
    let (mut sender, connection) = within(hyper::client::conn::http1::handshake(stream)).await?;
    let exchange = async {
        let mut response = sender.send_request(request(path)).await.map_err(text)?;
        changed();
        while let Some(frame) = response.body_mut().frame().await {
            frame.map_err(text)?;
            changed();
        }
        Ok(())
    };
    tokio::select! { told = exchange => told, ended = connection => ended.map_err(text) }
}

/// The label of all containers of pods, whatever runtime shim created them.
const POD_LABEL: &str = "io.kubernetes.pod.uid";
/// How many containers are stopped or removed concurrently.
const PODS_AT_ONCE: usize = 16;
/// The grace period of a pod's container, in seconds.
const POD_GRACE: u32 = 2;

/// Stops the containers of pods and no others.
pub(super) async fn stop_pods(socket: &Path) -> Result<(), String> {
    let stops = pods(socket, false).await?.into_iter().map(|id| async move {
        ask(socket, Method::POST, &format!("/containers/{id}/stop?t={POD_GRACE}"), PODS_PATIENCE).await.map(drop)
    });
    stream::iter(stops).buffer_unordered(PODS_AT_ONCE).try_collect().await
}

/// Removes the containers of pods and no others.
pub(super) async fn remove_pods(socket: &Path) -> Result<(), String> {
    let removals = pods(socket, true).await?.into_iter().map(|id| async move {
        match ask(socket, Method::DELETE, &format!("/containers/{id}?force=true&v=true"), PODS_PATIENCE).await {
            // Another client removed it first.
            Err(why) if why.starts_with("it answers 404") => Ok(()),
            other => other.map(drop),
        }
    });
    stream::iter(removals).buffer_unordered(PODS_AT_ONCE).try_collect().await
}

/// The timeout for the engine to stop or remove a container.
const PODS_PATIENCE: Duration = Duration::from_secs(30);

async fn pods(socket: &Path, all: bool) -> Result<Vec<String>, String> {
    // The filter is {"label":["io.kubernetes.pod.uid"]}, percent-encoded.
    let path = format!("/containers/json?all={all}&filters=%7B%22label%22%3A%5B%22{POD_LABEL}%22%5D%7D");
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&get(socket, &path).await?).map_err(text)?;
    let ids = listed.iter().filter_map(|container| container["Id"].as_str());
    // The ID becomes part of a path: accept only hexadecimal digits.
    Ok(ids.filter(|id| id.chars().all(|c| c.is_ascii_hexdigit())).map(str::to_owned).collect())
}

/// The timeout for the engine to load an archive of hundreds of megabytes.
const LOAD_PATIENCE: Duration = Duration::from_mins(10);
/// The size of the chunks in which an archive is read.
const PIECE_BYTES: usize = 256 << 10;

/// Reports whether the engine has all of these images; `false` if it does not answer.
pub(super) async fn has_images(socket: &Path, images: &BTreeSet<String>) -> bool {
    for image in images {
        // The name becomes part of a path unescaped, because names contain slashes: accept only harmless characters.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/:.-_@".contains(c);
        if !image.chars().all(is_plain) || get(socket, &format!("/images/{image}/json")).await.is_err() {
            return false;
        }
    }
    !images.is_empty()
}

/// Loads an archive of images into the engine. Returns the names, or IDs, of the images in it.
pub(super) async fn load_images(socket: &Path, archive: &Path) -> Result<BTreeSet<String>, String> {
    let file = File::open(archive).map_err(text)?;
    let mut request = request("/images/load?quiet=1").map(|_| StreamBody::new(pieces(file)));
    *request.method_mut() = Method::POST;
    let kind = http::HeaderValue::from_static("application/x-tar");
    request.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    loaded(&exchange(socket, request, LOAD_PATIENCE).await?)
}

/// Reads a file in chunks, in blocking tasks.
fn pieces(file: File) -> impl futures::Stream<Item = std::io::Result<Frame<Bytes>>> + Send {
    let piece = |mut file: File| async move {
        let reading = move || {
            let mut bytes = vec![0; PIECE_BYTES];
            let count = file.read(&mut bytes)?;
            bytes.truncate(count);
            Ok::<_, std::io::Error>((count > 0).then(|| (Frame::data(Bytes::from(bytes)), file)))
        };
        tokio::task::spawn_blocking(reading).await.map_err(std::io::Error::other)?
    };
    Box::pin(stream::try_unfold(file, piece))
}

/// Parses the engine's response to a load: one JSON object per line, which can be an error.
fn loaded(answer: &[u8]) -> Result<BTreeSet<String>, String> {
    let mut images = BTreeSet::new();
    for said in serde_json::Deserializer::from_slice(answer).into_iter::<serde_json::Value>() {
        let said = said.map_err(text)?;
        if let Some(error) = said["error"].as_str() {
            return Err(error.trim().to_owned());
        }
        let lines = said["stream"].as_str().unwrap_or_default().lines();
        let name = |line: &str| {
            let line = line.strip_prefix("Loaded image: ").or_else(|| line.strip_prefix("Loaded image ID: "));
            line.map(|name| name.trim().to_owned())
        };
        images.extend(lines.filter_map(name));
    }
    // The engine reports success for an archive without images.
    if images.is_empty() { Err("there are no images in it".to_owned()) } else { Ok(images) }
}

async fn get(socket: &Path, path: &str) -> Result<Bytes, String> {
    ask(socket, Method::GET, path, PATIENCE).await
}

async fn ask(socket: &Path, method: Method, path: &str, patience: Duration) -> Result<Bytes, String> {
    let mut request = request(path);
    *request.method_mut() = method;
    exchange(socket, request, patience).await
}

async fn exchange<B>(socket: &Path, request: Request<B>, patience: Duration) -> Result<Bytes, String>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let path = request.uri().path().to_owned();
    let stream = connect(socket).await?;
    let (mut sender, connection) = within(hyper::client::conn::http1::handshake(stream)).await?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(text)?;
        let status = response.status();
        let body = read(response).await?;
        // 304 is the response to stopping a container that is stopped already.
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            Ok(body)
        } else {
            let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let why = said["message"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
            Err(format!("it answers {status} to {path}{why}"))
        }
    };
    let exchange = async {
        tokio::select! {
            answer = exchange => answer,
            ended = connection => Err(ended.err().map_or_else(|| "it hung up".to_owned(), text)),
        }
    };
    tokio::time::timeout(patience, exchange).await.map_err(|_| format!("no answer to {path} within {patience:?}"))?
}

/// The response of the gRPC health service for SERVING: field 1 with value 1.
const SERVING: &[u8] = &[0, 0, 0, 0, 2, 8, 1];

/// Checks that the containerd at this socket reports itself as healthy.
pub(super) async fn containerd_answers(socket: &Path) -> Result<(), String> {
    let stream = connect(socket).await?;
    let (mut sender, connection) = within(hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)).await?;
    let exchange = async {
        let request = Request::builder()
            .method(Method::POST)
            .uri("http://localhost/grpc.health.v1.Health/Check")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            // An empty gRPC message: no compression, length 0.
            .body(Full::new(Bytes::from_static(&[0; 5])))
            .map_err(text)?;
        let answer = read(sender.send_request(request).await.map_err(text)?).await?;
        if answer == SERVING { Ok(()) } else { Err("it says that it is not healthy".to_owned()) }
    };
    let exchange = async {
        tokio::select! {
            answer = exchange => answer,
            ended = connection => Err(ended.err().map_or_else(|| "it hung up".to_owned(), text)),
        }
    };
    tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| format!("no answer within {PATIENCE:?}"))?
}

async fn connect(socket: &Path) -> Result<TokioIo<UnixStream>, String> {
    let stream = within(UnixStream::connect(socket)).await?;
    Ok(TokioIo::new(stream))
}

async fn within<T, E: std::error::Error>(step: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, step).await {
        Ok(done) => done.map_err(text),
        Err(_) => Err(format!("no connection within {PATIENCE:?}")),
    }
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = path.parse().unwrap_or_default();
    request.headers_mut().insert(http::header::HOST, http::HeaderValue::from_static("localhost"));
    request
}

async fn read(response: Response<Incoming>) -> Result<Bytes, String> {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    body.collect().await.map(http_body_util::Collected::to_bytes).map_err(|error| error.to_string())
}

fn text(error: impl std::error::Error) -> String {
    rdd_stdx::chain::Chain(&error).to_string()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::UnixListener,
    };

    use super::*;

    /// Answers one request with these bytes, and leaves the connection open.
    async fn answer_once(listener: UnixListener, answer: &str) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 4096];
        let count = stream.read(&mut asked).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let _ = stream.read(&mut asked[count..]).await;
        String::from_utf8_lossy(&asked[..count]).into_owned()
    }

    async fn ping(answer: &str) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let (answered, asked) = tokio::join!(docker_answers(&socket), answer_once(listener, answer));
        assert!(asked.starts_with("GET /_ping HTTP/1.1\r\nhost: localhost\r\n"), "{asked}");
        answered
    }

    #[test]
    fn what_an_engine_says_of_an_archive_is_read_with_its_errors() {
        let said = b"{\"stream\":\"Loaded image: rancher/mirrored-pause:3.6\\n\"}\n{\"stream\":\"Loaded image ID: sha256:ab\\n\"}\n";
        assert_eq!(loaded(said), Ok(["rancher/mirrored-pause:3.6", "sha256:ab"].map(str::to_owned).into()));
        let failed = b"{\"stream\":\"x\"}{\"errorDetail\":{\"message\":\"no space\"},\"error\":\"no space\"}";
        assert_eq!(loaded(failed), Err("no space".to_owned()));
        assert_eq!(loaded(b""), Err("there are no images in it".to_owned()));
        assert!(loaded(b"nonsense").is_err());
    }

    #[tokio::test]
    async fn an_engine_answers_or_it_is_told_why_not() {
        assert_eq!(ping("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK").await, Ok(()));
        let broken = ping("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n").await.unwrap_err();
        assert_eq!(broken, "it answers 500 Internal Server Error to /_ping");
        assert!(ping("no HTTP at all\r\n\r\n").await.is_err());
        let nobody = docker_answers(Path::new("/nonexistent/docker.sock")).await.unwrap_err();
        assert!(nobody.contains("No such file"), "{nobody}");
        assert!(containerd_answers(Path::new("/nonexistent/c.sock")).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_hangs_does_not_hang_us() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let _silent = UnixListener::bind(&socket).unwrap();
        assert_eq!(docker_answers(&socket).await, Err("no answer to /_ping within 5s".to_owned()));
        assert!(containerd_answers(&socket).await.is_err());
    }
}
