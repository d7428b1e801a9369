//! What happens in the engine, as it tells it, from a moment of its own clock on.

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

/// No event is longer than this: its labels are in it.
const LINE_BYTES_MAX: usize = 16 << 20;
/// How long the engine may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
const WHAT: &str = "follow the engine's events";

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A container.
    Container,
    /// An image.
    Image,
    /// A volume.
    Volume,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// To what.
    pub kind: EventKind,
    /// In the engine's words, such as `start`.
    pub action: String,
    /// The ID of the container or image (for a pull: the reference that was pulled), the name of the volume.
    pub id: String,
    /// When, by the engine's clock.
    pub time: Option<EngineTime>,
}

/// The stream of [`Engine::events`]. It ends when the engine does; dropping it hangs up.
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
    /// What happens to containers, images and volumes from `since` on, which is a moment of the engine's clock ([`Engine::now`]). What has happened
    /// since then comes first, as far as the engine remembers it (some hundreds of events).
    ///
    /// # Errors
    /// The engine refused, or did not answer.
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
            // What came before it is told first.
            self.is_over = true;
            if self.lines.ready.is_empty() {
                return Poll::Ready(Some(Err(ended)));
            }
        }
    }
}

/// Bytes as they come, until they are lines.
#[derive(Debug, Default)]
struct Lines {
    bytes: BytesMut,
    ready: VecDeque<Event>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
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

/// What is read of an event.
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
