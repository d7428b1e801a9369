//! A wait made visible: one line that is drawn over on a terminal, records elsewhere.

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
/// Often enough to look alive; the first frame comes at once.
const FRAME_TIME: Duration = Duration::from_millis(100);
/// For terminals that do not tell their width, or claim an absurd one.
const COLUMNS_MIN: usize = 40;
const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// Shows that something is under way until it is dropped.
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
    /// Begins to show `phase`. Where lines cannot be drawn over, it is an ordinary message.
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
        // Without a thread there is no animation, and nothing else is lost.
        let thread =
            std::thread::Builder::new().name("progress".to_owned()).spawn(move || draw(&watched, &stream)).ok();
        Self { record: record.clone(), spinner: Some(Spinner { shared, thread }) }
    }

    /// As [`Progress::start`], but only a terminal shows it: for waits whose records are fixed by what scripts compare.
    pub fn on_terminal(record: &Recorder, phase: &str) -> Option<Self> {
        matches!(record.look(), Look::Terminal { redraw: true, .. }).then(|| Self::start(record, phase))
    }

    /// A line that stays, above the one that is drawn over; with a mark for what is done, or as a warning.
    pub fn note(&self, text: &str, done: bool) {
        // Held while the line is written, so that no frame comes in between.
        let _still = self.spinner.as_ref().map(|spinner| {
            let state = spinner.shared.lock();
            put(self.record.stream(), CLEAR_LINE);
            state
        });
        if done { self.record.success(text) } else { self.record.warn(text) }
    }

    /// What is being waited for now.
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
            // A spinner that panicked has stopped spinning, which is what was asked of it.
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
        let phase = visible(&state.phase).replace(['\n', '\t'], " ");
        let text = format!("{} {phase}", FRAMES[frame % FRAMES.len()]);
        let elapsed = format!(" ({}s)", began.elapsed().as_secs());
        put(stream, &format!("{CLEAR_LINE}{}{elapsed}", fit(&text, columns().saturating_sub(elapsed.len()))));
        frame += 1;
        state = shared.changed.wait_timeout(state, FRAME_TIME).unwrap_or_else(PoisonError::into_inner).0;
    }
    put(stream, CLEAR_LINE);
}

/// A line that wraps could not be drawn over.
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
