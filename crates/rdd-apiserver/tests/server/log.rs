//! Captures the log of this process, so that tests can check that secrets are not in it.

use std::{
    fmt::{Debug, Write},
    sync::{Mutex, Once},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context, SubscriberExt},
};

static LINES: Mutex<String> = Mutex::new(String::new());
static INSTALLED: Once = Once::new();

/// Starts capturing the log, at every level.
pub(crate) fn keep() {
    INSTALLED.call_once(|| {
        tracing::subscriber::set_global_default(Registry::default().with(Keeper)).unwrap();
    });
}

/// The log so far.
pub(crate) fn text() -> String {
    LINES.lock().unwrap().clone()
}

struct Keeper;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

fn keep_line(fill: impl FnOnce(&mut Line)) {
    let mut line = Line(String::new());
    fill(&mut line);
    writeln!(LINES.lock().unwrap(), "{}", line.0).unwrap();
}

impl<S: Subscriber> Layer<S> for Keeper {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        keep_line(|line| attributes.record(line));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        keep_line(|line| values.record(line));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        keep_line(|line| event.record(line));
    }
}
