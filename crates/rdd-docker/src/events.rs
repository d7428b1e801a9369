//! The engine's event stream, from a given time on the engine's own clock.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use futures::Stream;
use hyper::body::{Body as _, Incoming};
use serde::Deserialize;

use crate::{Engine, EngineTime, Error, logs::encoded, map::or_default};

/// The maximum length of an event, which includes the object's labels.
const LINE_BYTES_MAX: usize = 16 << 20;
/// How long the engine may take to start the stream.
const PATIENCE: Duration = Duration::from_secs(10);
const WHAT: &str = "follow the engine's events";

/// The kind of object that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A container.
    Container,
    /// An image.
    Image,
    /// A volume.
    Volume,
}

/// An event of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The kind of the object.
    pub kind: EventKind,
    /// The action in the engine's terms, such as `start`.
    pub action: String,
    /// The ID of the container or image (for a pull: the reference that was pulled), or the name of the volume.
    pub id: String,
    /// The time on the engine's clock.
    pub time: Option<EngineTime>,
}

/// The stream of [`Engine::events`]. It ends when the engine closes it; dropping it closes the connection.
pub struct Events {
    body: Pin<Box<Incoming>>,
    lines: Lines,
    is_over: bool,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl Engine {
    /// Follows the events of containers, images and volumes from `since` on, a time on the engine's clock ([`Engine::now`]). Past
    /// events come first, as far as the engine remembers them (some hundreds), then live ones.
    ///
    /// # Errors
    /// When the engine refuses or does not answer.
    pub async fn events(&self, since: EngineTime) -> Result<Events, Error> {
        let filters = encoded(r#"{"type":{"container":true,"image":true,"volume":true}}"#);
        let path = format!("/events?since={since}&filters={filters}");
        let opened = tokio::time::timeout(PATIENCE, self.open(WHAT, &path)).await;
        let answer = opened.map_err(|_| Error::TimedOut { what: WHAT.to_owned(), after: PATIENCE })??;
        let answer = answer.ok_or_else(|| Error::Refused {
            what: WHAT.to_owned(),
            status: 404,
            message: "page not found".to_owned(),
        })?;
        Ok(Events { body: Box::pin(answer.into_body()), lines: Lines::default(), is_over: false })
    }
}

impl Stream for Events {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.lines.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            let ended = match self.body.as_mut().poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    self.is_over = true;
                    continue;
                }
                Poll::Ready(Some(Err(error))) => Error::Broken { what: WHAT.to_owned(), source: Box::new(error) },
                Poll::Ready(Some(Ok(frame))) => match frame.into_data().map(|bytes| self.lines.take(&bytes)) {
                    Ok(Err(error)) => error,
                    Ok(Ok(())) | Err(_) => continue,
                },
            };
            // Deliver the events before the error first; the error itself is then dropped and the stream ends.
            self.is_over = true;
            if self.lines.ready.is_empty() {
                return Poll::Ready(Some(Err(ended)));
            }
        }
    }
}

/// Splits the stream into lines, independent of where its frames end.
#[derive(Debug, Default)]
struct Lines {
    bytes: BytesMut,
    ready: VecDeque<Event>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        // The bytes before this have been searched for a newline already.
        let mut searched = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        while let Some(end) = self.bytes[searched..].iter().position(|byte| *byte == b'\n') {
            let line = self.bytes.split_to(searched + end);
            self.bytes.advance(1);
            searched = 0;
            if !line.trim_ascii().is_empty() {
                let said = serde_json::from_slice(&line);
                let said = said.map_err(|source| Error::Unreadable { what: WHAT.to_owned(), source })?;
                self.ready.extend(event(said));
            }
        }
        if self.bytes.len() > LINE_BYTES_MAX {
            return Err(Error::Broken { what: WHAT.to_owned(), source: "an event has no end".into() });
        }
        Ok(())
    }
}

/// The fields of an event that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    #[serde(rename = "Type", deserialize_with = "or_default")]
    kind: String,
    #[serde(rename = "Action", deserialize_with = "or_default")]
    action: String,
    #[serde(rename = "Actor", deserialize_with = "or_default")]
    actor: Actor,
    #[serde(rename = "timeNano")]
    time: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Actor {
    #[serde(rename = "ID", deserialize_with = "or_default")]
    id: String,
}

fn event(said: Said) -> Option<Event> {
    let kind = match said.kind.as_str() {
        "container" => EventKind::Container,
        "image" => EventKind::Image,
        "volume" => EventKind::Volume,
        _ => return None,
    };
    let Actor { id } = said.actor;
    (!id.is_empty()).then(|| Event { kind, action: said.action, id, time: said.time.map(EngineTime::from_nanoseconds) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_told_as_soon_as_its_line_is_there_wherever_the_stream_is_cut() {
        let stream = concat!(
            r#"{"status":"start","id":"a","Type":"container","Action":"start","Actor":{"ID":"a","Attributes":{"k":"v"}},"scope":"local","timeNano":1}"#,
            "\n\n",
            r#"{"Type":"of a new kind","Action":"x","Actor":{"ID":"b"}}"#,
            "\n",
            r#"{"Type":"volume","Action":"create","Actor":{"ID":"data"}}"#,
            "\n",
        );
        for part in 1..=stream.len() {
            let mut lines = Lines::default();
            stream.as_bytes().chunks(part).for_each(|bytes| lines.take(bytes).unwrap());
            let told: Vec<_> = lines.ready.iter().map(|event| (event.kind, event.id.as_str())).collect();
            assert_eq!(told, [(EventKind::Container, "a"), (EventKind::Volume, "data")], "in parts of {part}");
            assert!(lines.bytes.is_empty());
        }
    }

    #[test]
    fn what_cannot_be_read_ends_the_stream() {
        let refused = Lines::default().take(b"{]\n").unwrap_err();
        assert!(matches!(refused, Error::Unreadable { .. }), "{refused:?}");
    }
}
