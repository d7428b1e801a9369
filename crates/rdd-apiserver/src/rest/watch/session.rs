//! One watch while it lasts: events, bookmarks, and all the ways in which it ends.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use rdd_meta::Status;
use rdd_stdx::clock::SharedClock;
use rdd_store::Revision;
use serde_json::json;
use tokio::{
    sync::watch::Receiver,
    time::{Instant, Sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    offload,
    registry::{Custom, Registry, ResourceDef, form},
    represent::{Encoding, Representation, Wire, frames::Gather, protobuf, shown},
    rest::{Api, Target},
    state::{Change, Error, Item, Kind, Watch},
};

/// Bookmarks come about so often, to those who asked for them.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// And once more so long before the end, so that the next watch begins where this one ended.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// How a watch began.
#[derive(Debug)]
pub(super) enum Begun {
    /// With this.
    Watching(Box<Watch>),
    /// Not at all: this is its only event.
    Failed(Status),
}

/// One watch while it lasts.
#[derive(Debug)]
pub(super) struct Session {
    target: Target,
    representation: Representation,
    clock: SharedClock,
    registry: Arc<Registry>,
    redefined: Receiver<u64>,
    /// Set when the resource is no longer served: what happened until then is told, nothing else.
    last: Option<Revision>,
    /// `None` once it has ended.
    begun: Option<Begun>,
    bookmarks: bool,
    /// Whether the end of the initial events is to be marked.
    marks_initial: bool,
    /// Whether each event is a message by itself, rather than a piece of a body.
    as_messages: bool,
    /// Whether the columns of a table have been told.
    columns_told: bool,
    deadline: Instant,
    bookmark_at: Instant,
    /// For the earlier of the two.
    timer: Pin<Box<Sleep>>,
    stopping: CancellationToken,
}

enum Wake {
    Item(Result<Item, Error>),
    Redefined,
    Time,
    Stopping,
}

impl Session {
    pub(super) fn new(api: &Api, target: Target, representation: Representation, begun: Begun) -> Self {
        let now = Instant::now();
        let mut redefined = api.registry.subscribe();
        // The target was found before, and may have gone since.
        redefined.mark_changed();
        Self {
            target,
            representation,
            clock: Arc::clone(&api.clock),
            registry: Arc::clone(&api.registry),
            redefined,
            last: None,
            begun: Some(begun),
            bookmarks: false,
            marks_initial: false,
            as_messages: false,
            columns_told: false,
            deadline: now,
            bookmark_at: now,
            timer: Box::pin(sleep_until(now)),
            stopping: CancellationToken::new(),
        }
    }

    /// Whether bookmarks are welcome, and whether one is to say that the initial events are complete.
    pub(super) fn bookmarks(mut self, wanted: bool, mark_initial: bool) -> Self {
        self.bookmarks = wanted;
        self.marks_initial = wanted && mark_initial;
        self
    }

    /// When it ends at the latest.
    pub(super) fn until(mut self, deadline: Instant, stopping: CancellationToken) -> Self {
        self.deadline = deadline;
        self.stopping = stopping;
        self.schedule_bookmark(Instant::now());
        self
    }

    /// Each event as a message by itself, which needs no length before it.
    pub(super) fn with_messages(self) -> Self {
        Self { as_messages: true, ..self }
    }

    /// Whether events are text.
    pub(super) fn is_text(&self) -> bool {
        self.representation.encoding != Encoding::Protobuf
    }

    /// Cancelled when it is to end because the server does.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Whether nothing more will come.
    pub(super) fn has_ended(&self) -> bool {
        self.begun.is_none()
    }

    /// Waits until there is something to tell, and gathers all that can be told at once, up to about a frame. If it gathers
    /// nothing, the watch has ended.
    pub(super) async fn gather(&mut self, gather: &mut Gather) {
        self.representation = self.representation.as_of(&self.clock);
        if let Some(Begun::Failed(status)) = &self.begun {
            let status = status.clone();
            return self.fail(&status, gather);
        }
        let mut told = false;
        while !self.has_ended() && !gather.is_full() {
            if self.stopping.is_cancelled() || Instant::now() >= self.deadline {
                self.begun = None;
                return;
            }
            // Before what comes next, for that may have been written under the new definition already.
            if self.redefined.has_changed().unwrap_or(false) {
                self.redefine();
                continue;
            }
            if !self.representation.sends_stored_json() {
                // Each event is parsed: other tasks have their turn after some of them.
                tokio::task::coop::consume_budget().await;
            }
            match self.try_item() {
                Ok(Some(item)) => {
                    told |= self.tell(item, gather);
                    continue;
                }
                Ok(None) if told => return,
                Ok(None) if self.has_told_last() => {
                    self.begun = None;
                    return;
                }
                Ok(None) => {}
                Err(error) => return self.end(error, gather),
            }
            match self.wait().await {
                Wake::Item(Ok(item)) => told |= self.tell(item, gather),
                Wake::Item(Err(error)) => return self.end(error, gather),
                Wake::Redefined => self.redefine(),
                Wake::Time => told |= self.time_passed(gather),
                Wake::Stopping => self.begun = None,
            }
        }
    }

    fn try_item(&mut self) -> Result<Option<Item>, Error> {
        match &mut self.begun {
            Some(Begun::Watching(watch)) => watch.try_next(),
            _ => Err(Error::Closed),
        }
    }

    async fn wait(&mut self) -> Wake {
        let Some(Begun::Watching(watch)) = &mut self.begun else { return Wake::Stopping };
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => Wake::Stopping,
            // The sender lives in the registry, which this session holds.
            _ = self.redefined.changed() => Wake::Redefined,
            () = self.timer.as_mut() => Wake::Time,
            item = watch.next() => Wake::Item(item),
        }
    }

    /// Tells an item; `false` if there was nothing to say.
    fn tell(&mut self, item: Item, gather: &mut Gather) -> bool {
        match item {
            Item::Change(change) if self.last.is_some_and(|last| change.object.revision() > last) => {
                self.begun = None;
                return false;
            }
            Item::Change(change) => self.tell_change(&change, gather),
            Item::Synced(revision) if self.marks_initial => self.bookmark(revision, true, gather),
            Item::Synced(_) => return false,
        }
        true
    }

    fn tell_change(&mut self, change: &Change, gather: &mut Gather) {
        let kind = match change.kind {
            Kind::Added => "ADDED",
            Kind::Modified => "MODIFIED",
            Kind::Deleted => "DELETED",
        };
        let work = if self.representation.sends_stored_json() { 0 } else { change.object.wire().len() };
        let shown = offload::run(work, || {
            let wire = form::wire(&self.target.def, self.target.version(), &change.object)?;
            self.shown(Wire::Bytes(wire))
        });
        match shown {
            Ok(json) => self.event(kind, json, gather),
            Err(status) => {
                tracing::error!(object = %change.object.key(), error = status.message, "a change could not be told");
                self.fail(&status, gather);
            }
        }
    }

    fn bookmark(&mut self, revision: Revision, initial_end: bool, gather: &mut Gather) {
        let api_version = self.target.def.api_version(&self.target.version().name);
        let mut object = json!({
            "apiVersion": api_version,
            "kind": self.target.def.kind,
            "metadata": { "resourceVersion": revision.to_string() },
        });
        if initial_end {
            object["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        match self.shown(Wire::Value(object)) {
            Ok(json) => self.event("BOOKMARK", json, gather),
            Err(status) => self.fail(&status, gather),
        }
    }

    fn shown(&mut self, wire: Wire) -> Result<Bytes, Status> {
        let headers = !std::mem::replace(&mut self.columns_told, true);
        shown(&self.representation, &self.target, wire, headers)
    }

    /// The deadline has come, or the time for a bookmark.
    fn time_passed(&mut self, gather: &mut Gather) -> bool {
        let now = Instant::now();
        if now >= self.deadline {
            self.begun = None;
            return false;
        }
        let progress = match &self.begun {
            Some(Begun::Watching(watch)) if self.bookmarks => watch.progress(),
            _ => None,
        };
        self.schedule_bookmark(now);
        progress.map(|revision| self.bookmark(revision, false, gather)).is_some()
    }

    fn schedule_bookmark(&mut self, now: Instant) {
        // A little off, so that many watches do not wake together.
        let regular = now + BOOKMARK_EVERY.mul_f64(0.95 + 0.1 * super::random());
        let last = self.deadline.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now);
        self.bookmark_at = last.map_or(regular, |last| last.min(regular));
        let wake = if self.bookmarks { self.bookmark_at.min(self.deadline) } else { self.deadline };
        self.timer.as_mut().reset(wake);
    }

    /// Whether the resource is no longer served, and all that happened to it before has been told.
    fn has_told_last(&self) -> bool {
        let Some(Begun::Watching(watch)) = &self.begun else { return false };
        self.last.is_some_and(|last| watch.progress().is_some_and(|progress| progress >= last))
    }

    /// The resources have changed: goes on with the new definition, or ends with the last change under the old one.
    fn redefine(&mut self) {
        self.redefined.borrow_and_update();
        // A definition that comes again is not the one that was watched.
        if self.last.is_some() {
            return;
        }
        let old = &self.target.def;
        let served = self.registry.served();
        let uid = |def: &ResourceDef| def.custom.as_ref().map(|custom| custom.uid.clone());
        let new = served.get(&old.group, &old.plural).filter(|new| uid(new) == uid(old));
        let name = &self.target.version().name;
        match new.and_then(|new| Some((new, new.versions.iter().position(|version| version.name == *name)?))) {
            Some((new, version)) => {
                self.target.version = version;
                self.target.def = Arc::clone(new);
            }
            None => {
                let withdrawn = old.custom.as_ref().and_then(Custom::withdrawn);
                let since = new.and_then(|new| new.custom.as_ref()).map(|custom| custom.revision);
                self.last = withdrawn.or(since);
                if self.last.is_none() {
                    self.begun = None;
                }
            }
        }
    }

    fn end(&mut self, error: Error, gather: &mut Gather) {
        match error {
            Error::Closed => self.begun = None,
            Error::Expired { wanted, oldest } => self.fail(&Status::expired_watch(wanted.0, oldest.0), gather),
            other => self.fail(&Status::internal(other.to_string()), gather),
        }
    }

    /// Tells what went wrong, as the last event.
    fn fail(&mut self, status: &Status, gather: &mut Gather) {
        let mut json = status.to_wire();
        json.pop();
        self.event("ERROR", json.into(), gather);
        self.begun = None;
    }

    fn event(&self, kind: &str, object: Bytes, gather: &mut Gather) {
        if self.representation.encoding == Encoding::Protobuf {
            let event = protobuf::event(kind, &object);
            if self.as_messages {
                return gather.message(event.slice(protobuf::FRAME_LENGTH_BYTES..));
            }
            return gather.shared(event);
        }
        if self.as_messages {
            return gather
                .message([&br#"{"type":""#[..], kind.as_bytes(), br#"","object":"#, &object, b"}\n"].concat().into());
        }
        gather.text(br#"{"type":""#);
        gather.text(kind.as_bytes());
        gather.text(br#"","object":"#);
        gather.shared(object);
        gather.text(b"}\n");
    }
}
