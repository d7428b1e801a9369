//! Streaming responses of the fake engine: events and logs.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

use super::{
    Shared,
    journal::{Event, Heard},
    program::Output,
    query::Query,
    refusal::Refusal,
    world::{Container, Line},
};

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The polling interval of a followed log.
const LOOKS: Duration = Duration::from_millis(10);

/// A client's event filter.
#[derive(Debug)]
struct Wanted {
    filters: std::collections::BTreeMap<String, std::collections::BTreeSet<String>>,
}

const FILTERS: &[&str] = &["type", "event", "container", "image", "volume", "label", "scope", "daemon"];

impl Wanted {
    fn of(query: &Query) -> Result<Self, Refusal> {
        let filters = query.filters()?;
        match filters.keys().find(|name| !FILTERS.contains(&name.as_str())) {
            Some(name) => Err(Refusal::bad(format!("invalid filter '{name}'"))),
            None => Ok(Self { filters }),
        }
    }

    fn has(&self, event: &Event) -> bool {
        let name = event.attributes.get("name").map_or("", String::as_str);
        self.filters.iter().all(|(filter, values)| {
            let is = |text: &str| values.contains(text);
            values.is_empty()
                || match filter.as_str() {
                    "type" => is(event.kind),
                    "event" => is(event.action),
                    "container" | "image" | "volume" => event.kind == filter && (is(&event.id) || is(name)),
                    _ => true,
                }
        })
    }
}

/// An open event stream.
struct Listening {
    past: VecDeque<Arc<Event>>,
    heard: broadcast::Receiver<Heard>,
    wanted: Wanted,
    until: Option<(Timestamp, tokio::time::Instant)>,
    minor: u32,
    silent: watch::Receiver<bool>,
    over: bool,
}

/// Streams events since a time, then live ones, until the client closes the stream or the requested end time has passed.
pub(super) fn events(shared: &Shared, query: &Query, minor: u32) -> Result<Body, Refusal> {
    let wanted = Wanted::of(query)?;
    let (since, until) = (query.time("since")?, query.time("until")?);
    let (past, heard, now) = shared.look(|world| {
        let (past, heard) = world.journal.since(since.or(until.map(|_| Timestamp::MIN)));
        (past, heard, world.time())
    });
    let until = until.map(|until| {
        let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
        (until, tokio::time::Instant::now() + left)
    });
    let silent = shared.silent.subscribe();
    let listening = Listening { past: past.into(), heard, wanted, until, minor, silent, over: false };
    let frames = stream::unfold(listening, |mut listening| async move {
        let next = listening.next().await?;
        Some((next.map(Frame::data), listening))
    });
    Ok(BodyExt::boxed_unsync(StreamBody::new(frames)))
}

impl Listening {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.over {
                return None;
            }
            // Events that are held back are sent when the engine is no longer silent.
            self.silent.wait_for(|silent| !silent).await.ok()?;
            let event = match self.past.pop_front() {
                Some(event) => event,
                None => match self.hear().await {
                    Some(Heard::Event(event)) => {
                        self.past.push_back(event);
                        continue;
                    }
                    Some(Heard::Break) => {
                        self.over = true;
                        return Some(Err(io::Error::new(io::ErrorKind::ConnectionReset, "the stream breaks")));
                    }
                    Some(Heard::End) | None => return None,
                },
            };
            let in_time = self.until.is_none_or(|(until, _)| event.at <= until);
            if in_time && self.wanted.has(&event) {
                return Some(Ok(format!("{}\n", event.to_wire(self.minor)).into()));
            }
        }
    }

    /// Waits for the next message; `None` at the end time.
    async fn hear(&mut self) -> Option<Heard> {
        loop {
            let heard = match self.until {
                None => self.heard.recv().await,
                Some((_, end)) => tokio::time::timeout_at(end, self.heard.recv()).await.ok()?,
            };
            match heard {
                Ok(heard) => return Some(heard),
                // Like dockerd: a slow listener loses events, without any notice.
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// A client's selection of log lines.
#[derive(Debug, Clone)]
struct Choice {
    stdout: bool,
    stderr: bool,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    timestamps: bool,
    tty: bool,
}

impl Choice {
    fn has(&self, line: &Line) -> bool {
        let stream = match line.output {
            Output::Stdout => self.stdout,
            Output::Stderr => self.stderr,
        };
        // A TTY has one stream only.
        (stream || (self.tty && self.stdout))
            && self.since.is_none_or(|since| line.at >= since)
            && self.until.is_none_or(|until| line.at <= until)
    }

    fn frame(&self, line: &Line) -> Bytes {
        let time = if self.timestamps { format!("{} ", line.at) } else { String::new() };
        let end = if self.tty { "\r\n" } else { "\n" };
        let text = format!("{time}{}{end}", line.text);
        if self.tty {
            return text.into();
        }
        let number = match line.output {
            Output::Stdout => 1,
            Output::Stderr => 2,
        };
        let mut frame = vec![number, 0, 0, 0];
        frame.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        frame.extend(text.into_bytes());
        frame.into()
    }
}

/// Streams a container's log, with `follow` until the container exits. Also returns whether it has a TTY.
pub(super) fn logs(shared: &Arc<Shared>, reference: &str, query: &Query) -> Result<(Body, bool), Refusal> {
    let (stdout, stderr) = (query.is_set("stdout"), query.is_set("stderr"));
    let look_up = |world: &mut super::World| -> Result<Container, Refusal> {
        let id = world.find_container(reference)?;
        world.containers.get(&id).cloned().ok_or_else(|| Refusal::no_container(reference))
    };
    let container = shared.look(look_up)?;
    if !stdout && !stderr {
        return Err(Refusal::bad("Bad parameters: you must choose at least one stream"));
    }
    let (since, until) = (query.time("since")?, query.time("until")?);
    let since = since.filter(|since| *since != Timestamp::UNIX_EPOCH);
    let until = until.filter(|until| *until != Timestamp::UNIX_EPOCH);
    let (timestamps, tty) = (query.is_set("timestamps"), container.tty);
    let choice = Choice { stdout, stderr, since, until, timestamps, tty };
    let lines: Vec<&Line> = container.log.iter().filter(|line| choice.has(line)).collect();
    let tail = query.get("tail").and_then(|tail| tail.parse::<usize>().ok()).unwrap_or(lines.len());
    let first: VecDeque<Bytes> =
        lines[lines.len().saturating_sub(tail)..].iter().map(|line| choice.frame(line)).collect();
    let reading = Reading {
        shared: Arc::clone(shared),
        id: container.id.clone(),
        choice,
        seen: container.log.len(),
        ready: first,
        follow: query.is_set("follow"),
    };
    let frames = stream::unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Some((Ok(Frame::data(next)), reading))
    });
    Ok((BodyExt::boxed_unsync(StreamBody::new(frames)), tty))
}

/// A log that is being streamed.
struct Reading {
    shared: Arc<Shared>,
    id: String,
    choice: Choice,
    seen: usize,
    ready: VecDeque<Bytes>,
    follow: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if !self.follow {
                return None;
            }
            let alive = self.look();
            if self.ready.is_empty() {
                if !alive {
                    return None;
                }
                tokio::time::sleep(LOOKS).await;
            }
        }
    }

    /// Reads the lines since the last poll; returns whether there may be more.
    fn look(&mut self) -> bool {
        let (id, seen) = (self.id.clone(), self.seen);
        let found = self.shared.look(|world| {
            let container = world.containers.get(&id)?;
            let new: Vec<Line> = container.log.get(seen..).unwrap_or_default().to_vec();
            Some((new, container.state.status.is_alive()))
        });
        let Some((new, alive)) = found else { return false };
        self.seen += new.len();
        let frames = new.iter().filter(|line| self.choice.has(line)).map(|line| self.choice.frame(line));
        self.ready.extend(frames);
        alive
    }
}
