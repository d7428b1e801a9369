//! Answers that go on: events and logs.

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

/// How often a log that is followed is looked at.
const LOOKS: Duration = Duration::from_millis(10);

/// Which events a client wants.
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

/// A stream of events from here on.
struct Listening {
    past: VecDeque<Arc<Event>>,
    heard: broadcast::Receiver<Heard>,
    wanted: Wanted,
    until: Option<(Timestamp, tokio::time::Instant)>,
    minor: u32,
    silent: watch::Receiver<bool>,
    over: bool,
}

/// What happened since a time, and what happens, until the client or the engine has enough.
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
            // What is withheld is sent once the engine speaks again.
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

    /// The next thing that happens; `None` when the time is up.
    async fn hear(&mut self) -> Option<Heard> {
        loop {
            let heard = match self.until {
                None => self.heard.recv().await,
                Some((_, end)) => tokio::time::timeout_at(end, self.heard.recv()).await.ok()?,
            };
            match heard {
                Ok(heard) => return Some(heard),
                // As dockerd: who is too slow misses what was too much, and is not told.
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// Which lines of a log a client wants.
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
        // A terminal has one stream only.
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

/// What a container wrote, and with `follow` what it writes until it ends. Returns whether it has a terminal as well.
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

/// A log that is being read.
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

    /// Takes what was written since the last look; whether there may be more.
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
