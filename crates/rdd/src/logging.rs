//! The daemon's log: a `tracing` layer that writes one line per event in klog's text format or as JSON, with log
//! rotation.

use std::{
    fmt::{self, Write as _},
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rdd_cli::external::{LogFile, Severity};
use rdd_stdx::{clock::SharedClock, file::open_append_private, scope};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};

/// The format of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// klog's format, which tools for Kubernetes logs parse: `I1115 07:00:00.000000 4711 serve.rs:88] "message"
    /// key="value"`.
    Text,
    /// One JSON object per line.
    Json,
}

/// The size at which a log file is rotated.
const FILE_SIZE_MAX: u64 = 16 << 20;

/// The time after which the write of a line counts as blocked; Kubernetes uses the same.
const BLOCKED_AFTER: Duration = Duration::from_secs(120);

/// When the current write of a line began: milliseconds of steady time plus one; 0 if no write is in progress.
static WRITE_BEGAN: AtomicU64 = AtomicU64::new(0);

fn mark_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// The health check `log`: fails while a write is blocked, as on a pipe without a reader.
pub(crate) fn check_flow(now: Duration) -> Result<(), String> {
    judge_flow(WRITE_BEGAN.load(Ordering::Relaxed), now)
}

fn judge_flow(began: u64, now: Duration) -> Result<(), String> {
    let took = Duration::from_millis(mark_of(now).saturating_sub(began));
    let is_blocked = began != 0 && took >= BLOCKED_AFTER;
    if is_blocked { Err("logging blocked".to_owned()) } else { Ok(()) }
}

/// Rotates the log file: renames it and continues in a new file with the old name.
pub(crate) trait Rotate: Send {
    /// Renames the current file and redirects standard error to a new one.
    fn rotate(&self) -> io::Result<()>;
}

/// Installs this log as the global `tracing` subscriber. Events below `level` cost almost nothing.
pub(crate) fn install(form: Form, level: Level, clock: SharedClock, output: Output) {
    let written = output.size();
    let layer = Lines { form, level, clock, pid: std::process::id(), sink: Mutex::new(Sink { written, output }) };
    let subscriber = tracing_subscriber::registry().with(layer);
    // Only tests install a second subscriber; the first one stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
    std::panic::set_hook(Box::new(log_panic));
}

/// Logs a panic with its stack as one line. The owner of the task handles the failure.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = rdd_stdx::task::panic_message(panic.payload());
    let stack = std::backtrace::Backtrace::force_capture();
    tracing::error!(panic = message, place, %stack, "a task panicked");
}

fn size_of_stderr() -> u64 {
    rustix::fs::fstat(rustix::stdio::stderr()).map_or(0, |stat| stat.st_size.unsigned_abs())
}

struct Lines {
    form: Form,
    level: Level,
    clock: SharedClock,
    pid: u32,
    sink: Mutex<Sink>,
}

struct Sink {
    written: u64,
    output: Output,
}

impl Sink {
    /// Writes a line. Errors are ignored, because a failing log must not end the daemon.
    fn write(&mut self, level: Level, line: &str) {
        if self.output.size_max().is_some_and(|most| self.written >= most) {
            // After a failed rotation the old file grows until the next attempt, one file size later.
            let _ = self.output.rotate();
            self.written = 0;
        }
        let _ = self.output.write(level, line);
        self.written += line.len() as u64;
    }
}

/// The destination of lines.
pub(crate) enum Output {
    /// Standard error, with rotation if it is a file.
    Stderr(Option<Box<dyn Rotate>>),
    /// A file; severe lines also go to standard error.
    File(File, LogFile),
}

impl Output {
    /// Opens the file, or standard error if there is none.
    pub(crate) fn open(log_file: Option<&LogFile>) -> Result<Self, rdd_stdx::file::Error> {
        let Some(log_file) = log_file else { return Ok(Self::Stderr(None)) };
        Ok(Self::File(open_append_private(&log_file.path)?, log_file.clone()))
    }

    /// The current size of the file.
    fn size(&self) -> u64 {
        match self {
            Self::Stderr(Some(_)) => size_of_stderr(),
            Self::Stderr(None) => 0,
            Self::File(file, _) => file.metadata().map_or(0, |meta| meta.len()),
        }
    }

    fn size_max(&self) -> Option<u64> {
        match self {
            Self::Stderr(rotation) => rotation.as_ref().map(|_| FILE_SIZE_MAX),
            Self::File(_, log_file) => log_file.bytes_max,
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        match self {
            Self::Stderr(rotation) => rotation.as_ref().map_or(Ok(()), |rotation| rotation.rotate()),
            Self::File(file, log_file) => {
                *file = rdd_stdx::logfile::rotate(&log_file.path, false, None).map_err(io::Error::other)?;
                Ok(())
            }
        }
    }

    fn write(&mut self, level: Level, line: &str) -> io::Result<()> {
        if let Self::File(file, log_file) = self {
            file.write_all(line.as_bytes())?;
            if severity(level) < log_file.stderr_from {
                return Ok(());
            }
        }
        io::stderr().lock().write_all(line.as_bytes())
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        _ => Severity::Info,
    }
}

/// The fields of a span, stored in its extensions and appended to each line inside the span.
struct SpanFields(Vec<(&'static str, String)>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let target = metadata.target();
        // kube's client logs each failed request; the caller of the request logs it as well.
        if target.starts_with("kube_client") && self.level < Level::DEBUG {
            return false;
        }
        // Other libraries log every frame at debug level; their warnings suffice.
        *metadata.level() <= if target.starts_with("rdd") { self.level } else { self.level.min(Level::INFO) }
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(SpanFields(fields.values));
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = context.span(id)
            && let Some(kept) = span.extensions_mut().get_mut::<SpanFields>()
        {
            kept.0.extend(fields.values);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let now = jiff::Timestamp::from_duration(self.clock.wall().try_into().unwrap_or_default()).unwrap_or_default();
        let line = self.line(event, &context, now);
        // A poisoned lock means that a thread panicked while it wrote; the log continues.
        let mut sink = self.sink.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        WRITE_BEGAN.store(mark_of(self.clock.steady()), Ordering::Relaxed);
        sink.write(*event.metadata().level(), &line);
        WRITE_BEGAN.store(0, Ordering::Relaxed);
    }
}

impl Lines {
    /// Formats an event with the properties of its task and the fields of the enclosing spans.
    fn line<S>(&self, event: &Event<'_>, context: &Context<'_, S>, now: jiff::Timestamp) -> String
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let mut fields = Fields::default();
        event.record(&mut fields);
        scope::tell_current(&mut |key, value| fields.values.push((key, value.to_owned())));
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(kept) = span.extensions().get::<SpanFields>() {
                fields.values.extend(kept.0.iter().cloned());
            }
        }
        match self.form {
            Form::Text => text_line(event.metadata(), &fields, now, self.pid),
            Form::Json => json_line(event.metadata(), &fields, now),
        }
    }
}

/// The message and the other fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    values: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" { self.message = text } else { self.values.push((field.name(), text)) }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.values.push((field.name(), value.to_owned()));
        }
    }
}

fn text_line(metadata: &Metadata<'_>, fields: &Fields, now: jiff::Timestamp, pid: u32) -> String {
    let letter = match *metadata.level() {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let local = now.to_zoned(jiff::tz::TimeZone::system());
    let file = metadata.file().and_then(|path| path.rsplit('/').next()).unwrap_or("unknown");
    let mut line = format!(
        "{letter}{} {pid:>7} {file}:{}] {:?}",
        local.strftime("%m%d %H:%M:%S.%6f"),
        metadata.line().unwrap_or(0),
        fields.message
    );
    for (key, value) in &fields.values {
        // Debug quoting escapes line ends and control characters, so hostile text cannot forge a line.
        write!(line, " {key}={value:?}").expect("a string takes everything");
    }
    line.push('\n');
    line
}

fn json_line(metadata: &Metadata<'_>, fields: &Fields, now: jiff::Timestamp) -> String {
    let mut object = serde_json::Map::new();
    for (key, value) in &fields.values {
        object.insert((*key).to_owned(), value.as_str().into());
    }
    object.insert("ts".to_owned(), now.to_string().into());
    object.insert("level".to_owned(), metadata.level().as_str().to_ascii_lowercase().into());
    object.insert("target".to_owned(), metadata.target().into());
    object.insert("msg".to_owned(), fields.message.as_str().into());
    format!("{}\n", serde_json::Value::Object(object))
}

/// Rotates standard error while the daemon runs, if it is a log file, like `svc start` at each start.
#[derive(Debug)]
pub(crate) struct RotateStderr {
    path: PathBuf,
    keep_all: bool,
}

impl RotateStderr {
    /// Returns a rotation if standard error is the file at `path`.
    pub(crate) fn for_log(path: PathBuf, keep_all: bool) -> Option<Self> {
        let (ours, named) = (rustix::fs::fstat(rustix::stdio::stderr()).ok()?, rustix::fs::stat(&path).ok()?);
        ((ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)).then_some(Self { path, keep_all })
    }
}

impl Rotate for RotateStderr {
    fn rotate(&self) -> io::Result<()> {
        let fresh = rdd_cli::service::logfile::rotate(&self.path, self.keep_all, None)
            .map_err(|failure| io::Error::other(failure.text()))?;
        rustix::stdio::dup2_stderr(&fresh)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    // Finding E-18
    #[test]
    fn a_line_that_takes_two_minutes_is_blocked() {
        let at = Duration::from_secs;
        assert_eq!(judge_flow(0, at(1_000)), Ok(()), "none is being written");
        assert_eq!(judge_flow(mark_of(at(0)), at(119)), Ok(()));
        assert_eq!(judge_flow(mark_of(at(0)), at(120)), Err("logging blocked".to_owned()));
        assert_eq!(judge_flow(mark_of(at(500)), at(499)), Ok(()));
    }

    fn metadata_of(line: &str) -> &str {
        line.split_once("] ").expect("a header").1
    }

    /// Runs `body` with a subscriber that collects its lines.
    fn lines(form: Form, level: Level, body: impl FnOnce()) -> Vec<String> {
        struct Keep(Arc<Mutex<Vec<String>>>, Lines);
        impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Keep {
            fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
                Layer::<S>::enabled(&self.1, metadata, context)
            }
            fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
                self.1.on_new_span(attributes, id, context);
            }
            fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
                let line = self.1.line(event, &context, jiff::Timestamp::UNIX_EPOCH);
                self.0.lock().unwrap().push(line);
            }
        }
        let kept = Arc::new(Mutex::new(Vec::new()));
        let clock = rdd_stdx::clock::SystemClock::shared();
        let sink = Mutex::new(Sink { written: 0, output: Output::Stderr(None) });
        let layer = Keep(kept.clone(), Lines { form, level, clock, pid: 7, sink });
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), body);
        Arc::into_inner(kept).unwrap().into_inner().unwrap()
    }

    #[test]
    fn a_text_line_has_klogs_header_and_quoted_fields() {
        let lines = lines(Form::Text, Level::INFO, || {
            tracing::info!(port = 6445, name = "a\"b\nI0101 forged", "apiserver is up")
        });
        assert!(lines[0].starts_with('I') && lines[0].contains("       7 logging.rs:"), "{}", lines[0]);
        assert_eq!(metadata_of(&lines[0]), "\"apiserver is up\" port=\"6445\" name=\"a\\\"b\\nI0101 forged\"\n");
    }

    #[test]
    fn fields_of_the_enclosing_span_follow() {
        let lines = lines(Form::Text, Level::DEBUG, || {
            tracing::info_span!("request", path = "/readyz").in_scope(|| tracing::debug!(code = 200, "served"));
        });
        assert_eq!(metadata_of(&lines[0]), "\"served\" code=\"200\" path=\"/readyz\"\n");
    }

    #[test]
    fn what_the_task_is_about_follows_and_is_quoted() {
        struct Request;
        impl scope::Subject for Request {
            fn tell(&self, each: &mut dyn FnMut(&'static str, &str)) {
                each("path", "/readyz\nI0101 forged");
            }
        }
        let request: Arc<dyn scope::Subject> = Arc::new(Request);
        let lines = lines(Form::Text, Level::INFO, || scope::within(&request, || tracing::warn!(code = 500, "failed")));
        assert_eq!(metadata_of(&lines[0]), "\"failed\" code=\"500\" path=\"/readyz\\nI0101 forged\"\n");
    }

    #[test]
    fn json_lines_are_objects() {
        let lines = lines(Form::Json, Level::INFO, || tracing::warn!(attempt = 2, "late"));
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!((&line["level"], &line["msg"], &line["attempt"]), (&"warn".into(), &"late".into(), &"2".into()));
    }

    #[test]
    fn what_is_below_the_level_is_not_written() {
        assert!(lines(Form::Text, Level::INFO, || tracing::debug!("quiet")).is_empty());
    }

    /// The variable that makes the child process of a test panic.
    const PANIC_HERE: &str = "RDD_LOGGING_TEST_PANICS";

    #[inline(never)]
    fn task_of_the_watcher() {
        panic!("out of {}", "luck");
    }

    /// Finding 295-I1. Runs in its own process, because the panic hook is global.
    #[test]
    fn a_panic_is_one_line_with_its_text_its_place_and_a_stack_that_names_the_function() {
        if std::env::var_os(PANIC_HERE).is_some() {
            install(Form::Text, Level::INFO, rdd_stdx::clock::SystemClock::shared(), Output::Stderr(None));
            std::thread::spawn(task_of_the_watcher).join().unwrap_err();
            return;
        }
        let mut child = rdd_stdx::process::foreground(std::env::current_exe().unwrap());
        let name = "logging::tests::a_panic_is_one_line_with_its_text_its_place_and_a_stack_that_names_the_function";
        let output = child.args(["--exact", name, "--nocapture"]).env(PANIC_HERE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text.lines().find(|line| line.contains("\"a task panicked\"")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("panic=\"out of luck\""), "{line}");
        assert!(line.contains("place=\"crates/rdd/src/logging.rs:"), "{line}");
        let (_, stack) = line.split_once(" stack=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(stack.contains("task_of_the_watcher"), "{stack}");
    }

    #[test]
    fn a_full_file_is_set_aside_once_per_length() {
        struct Count(Arc<Mutex<u32>>);
        impl Rotate for Count {
            fn rotate(&self) -> io::Result<()> {
                *self.0.lock().unwrap() += 1;
                Ok(())
            }
        }
        let count = Arc::new(Mutex::new(0));
        let output = Output::Stderr(Some(Box::new(Count(count.clone()))));
        let mut sink = Sink { written: FILE_SIZE_MAX, output };
        sink.write(Level::INFO, "");
        sink.write(Level::INFO, "");
        assert_eq!(*count.lock().unwrap(), 1);
    }

    // Finding A-13
    #[test]
    fn a_log_file_gets_every_line_and_is_set_aside_when_it_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mock.log");
        let log_file = LogFile { path: path.clone(), bytes_max: Some(8), stderr_from: Severity::Error };
        let output = Output::open(Some(&log_file)).unwrap();
        let mut sink = Sink { written: output.size(), output };
        for line in ["one\n", "two\n", "three\n"] {
            sink.write(Level::INFO, line);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(std::fs::read_to_string(folder.path().join("mock.1.log")).unwrap(), "one\ntwo\n");
        let missing = LogFile { path: folder.path().join("none/x.log"), ..log_file };
        let error = Output::open(Some(&missing)).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("none/x.log")), "it names the file");
    }
}
