//! Logs of the mock's containers: the labels, a fixed number of lines, or one line per second forever.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use rdd_runtime::passthrough::{Passthrough, Request, Response};
use rdd_types::containers::ContainerStatus;
use rdd_websocket::{STDOUT_CHANNEL, StreamPiece, pour};
use tokio::time::{Instant, sleep_until};

use super::fixtures;
use crate::websocket::Sockets;

/// The label of a container that selects the kind of log.
const WRITER: &str = "io.rancherdesktop.mock.logs.writer";

/// `logs/<id>`: a WebSocket with binary messages.
pub(super) fn passthrough(sockets: &Sockets) -> Passthrough {
    let sockets = sockets.clone();
    Passthrough::new("logs", move |request| {
        let answer = answer(&sockets, request);
        async move { answer }
    })
}

fn answer(sockets: &Sockets, request: Request) -> Response {
    let id = request.uri().path().trim_matches('/').to_owned();
    let Some(container) = fixtures::container(&id) else {
        let body = Full::new(Bytes::from_static(b"Container not found\n")).map_err(|never| match never {});
        let mut response = Response::new(body.boxed_unsync());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let log = log(&id, &container).map(|line| line.map(|bytes| StreamPiece { channel: STDOUT_CHANNEL, bytes }));
    sockets.accept(request, move |mut socket, protocol| async move { pour(&mut socket, protocol, log).await })
}

type Log = std::pin::Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

fn log(id: &str, container: &ContainerStatus) -> Log {
    match container.labels.get(WRITER).map(String::as_str) {
        Some("ten") => Box::pin(stream::iter(1..=10).map(line)),
        Some("hundred") => Box::pin(stream::iter(1..=100).map(line)),
        Some("loop") => Box::pin(ticking()),
        _ => Box::pin(stream::iter(labels(id, container))),
    }
}

fn line(number: u64) -> Result<Bytes, String> {
    Ok(format!("[Line {number}]\n").into())
}

fn labels(id: &str, container: &ContainerStatus) -> Vec<Result<Bytes, String>> {
    let head = format!("Logs for container {id}\n");
    let labels = container.labels.iter().map(|(label, value)| format!("Label: {label}\t{value}\n"));
    std::iter::once(head).chain(labels).map(|text| Ok(text.into())).collect()
}

/// One line at once, then one per second.
fn ticking() -> impl Stream<Item = Result<Bytes, String>> + Send {
    let begun = Instant::now();
    stream::unfold(0_u32, move |number| async move {
        sleep_until(begun + Duration::from_secs(1) * number).await;
        let number = number.saturating_add(1);
        Some((line(number.into()), number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(writer: Option<&str>) -> ContainerStatus {
        let labels = writer.map(|writer| (WRITER.to_owned(), writer.to_owned()));
        let labels = labels.into_iter().chain([("k".to_owned(), "v".to_owned())]).collect();
        ContainerStatus { labels, ..ContainerStatus::default() }
    }

    async fn all(writer: Option<&str>, at_most: usize) -> Vec<String> {
        let log = log("c1", &container(writer)).take(at_most);
        log.map(|piece| String::from_utf8(piece.unwrap().to_vec()).unwrap()).collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn the_label_picks_what_is_written() {
        assert_eq!(all(None, 99).await, ["Logs for container c1\n", "Label: k\tv\n"]);
        let ten = all(Some("ten"), 99).await;
        assert_eq!((ten.len(), ten[0].as_str(), ten[9].as_str()), (10, "[Line 1]\n", "[Line 10]\n"));
        assert_eq!(all(Some("hundred"), 999).await.len(), 100);
        let begun = Instant::now();
        assert_eq!(all(Some("loop"), 4).await[3], "[Line 4]\n");
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }
}
