//! Shows the progress of a wait: a spinner line on a terminal, log records elsewhere.

use std::{
    io::Write,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{
    printer::Stream,
    record::{Look, Recorder, visible},
};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The time between two frames; the first frame is drawn at once.
const FRAME_TIME: Duration = Duration::from_millis(100);
/// The minimum width, for terminals that report none or an absurd one.
const COLUMNS_MIN: usize = 40;
const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// Shows progress until it is dropped; then the line is removed.
#[derive(Debug)]
pub struct Progress {
    record: Recorder,
    spinner: Option<Spinner>,
}

#[derive(Debug)]
struct Spinner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    phase: String,
    done: bool,
}

impl Progress {
    /// Starts to show `phase`. Where no line can be drawn over, it is logged instead.
    pub fn start(record: &Recorder, phase: &str) -> Self {
        let Look::Terminal { redraw: true, .. } = record.look() else {
            record.info(phase);
            return Self { record: record.clone(), spinner: None };
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(State { phase: phase.to_owned(), done: false }),
            changed: Condvar::new(),
        });
        let (stream, watched) = (record.stream().clone(), Arc::clone(&shared));
        // If the thread cannot be started, only the animation is missing.
        let thread =
            std::thread::Builder::new().name("progress".to_owned()).spawn(move || draw(&watched, &stream)).ok();
        Self { record: record.clone(), spinner: Some(Spinner { shared, thread }) }
    }

    /// Like [`Progress::start`], but only on a terminal that can redraw: for waits whose log records must not change, since scripts compare
    /// them.
    pub fn on_terminal(record: &Recorder, phase: &str) -> Option<Self> {
        matches!(record.look(), Look::Terminal { redraw: true, .. }).then(|| Self::start(record, phase))
    }

    /// Prints a permanent line above the progress line: with a check mark if `done`, otherwise as a warning.
    pub fn note(&self, text: &str, done: bool) {
        // The lock keeps the thread from drawing a frame in between.
        let _still = self.spinner.as_ref().map(|spinner| {
            let state = spinner.shared.lock();
            put(self.record.stream(), CLEAR_LINE);
            state
        });
        if done { self.record.success(text) } else { self.record.warn(text) }
    }

    /// Sets the phase; where there is no progress line, logs it.
    pub fn phase(&self, phase: &str) {
        match &self.spinner {
            Some(spinner) => {
                phase.clone_into(&mut spinner.shared.lock().phase);
                spinner.shared.changed.notify_all();
            }
            None => self.record.info(phase),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(spinner) = &mut self.spinner else { return };
        spinner.shared.lock().done = true;
        spinner.shared.changed.notify_all();
        if let Some(thread) = spinner.thread.take() {
            // A thread that panicked has stopped drawing; nothing more is needed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn draw(shared: &Shared, stream: &Stream) {
    let began = Instant::now();
    let mut frame = 0;
    let mut state = shared.lock();
    while !state.done {
        // Messages come from the daemon: no control characters, and no second line.
        let phase = visible(&state.phase).replace(['\n', '\t'], " ");
        let text = format!("{} {phase}", FRAMES[frame % FRAMES.len()]);
        let elapsed = format!(" ({}s)", began.elapsed().as_secs());
        put(stream, &format!("{CLEAR_LINE}{}{elapsed}", fit(&text, columns().saturating_sub(elapsed.len()))));
        frame += 1;
        // Wakes up early when the phase changes or the wait ends.
        state = shared.changed.wait_timeout(state, FRAME_TIME).unwrap_or_else(PoisonError::into_inner).0;
    }
    put(stream, CLEAR_LINE);
}

/// Truncates the text to one line: a line that wraps cannot be drawn over.
fn fit(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns.saturating_sub(1)) {
        Some((end, _)) if text.chars().count() >= columns => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.map_or(0, |size| usize::from(size.ws_col)).max(COLUMNS_MIN)
}

fn put(stream: &Stream, text: &str) {
    let mut stream = stream.lock();
    // A failed write must not end the wait.
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{Format, Level},
        testing::{Captured, eventually},
    };
    use rdd_stdx::clock::SystemClock;

    fn recorder(look: Look) -> (Recorder, Captured) {
        let captured = Captured::default();
        (Recorder::new(captured.stream(), SystemClock::shared(), look, Level::Info), captured)
    }

    #[test]
    fn a_terminal_shows_the_phase_at_once_and_is_clean_afterwards() {
        let (record, captured) = recorder(Look::Terminal { color: true, redraw: true });
        let progress = Progress::start(&record, "starting");
        eventually("the first frame", || captured.text().contains("starting (0s)"));
        progress.phase("waiting for API server");
        eventually("the next phase", || captured.text().contains("waiting for API server (0s)"));
        drop(progress);
        assert!(captured.text().ends_with(CLEAR_LINE), "the line is cleared");
        assert!(!captured.text().contains('\n'));
    }

    #[test]
    fn a_note_stays_above_the_line_that_is_drawn_over() {
        let (record, captured) = recorder(Look::Terminal { color: false, redraw: true });
        let progress = Progress::start(&record, "starting");
        eventually("the first frame", || captured.text().contains("starting (0s)"));
        progress.note("created", true);
        progress.note("slow", false);
        drop(progress);
        let text = captured.text();
        assert!(text.contains(&format!("{CLEAR_LINE}✓ created\n")), "{text:?}");
        assert!(text.contains(&format!("{CLEAR_LINE}Warning: slow\n")), "{text:?}");
    }

    #[test]
    fn a_line_never_wraps() {
        for (text, columns, expected) in [
            ("short", 10, "short"),
            ("exactly ten", 11, "exactly te…"),
            ("exactly te", 11, "exactly te"),
            ("ümläute", 4, "üml…"),
        ] {
            assert_eq!(fit(text, columns), expected, "{columns}");
        }
    }

    #[test]
    fn a_pipe_gets_one_record_per_phase_and_no_animation() {
        let (record, captured) = recorder(Look::Record(Format::Text));
        let progress = Progress::start(&record, "starting");
        progress.phase("waiting");
        drop(progress);
        let text = captured.text();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
