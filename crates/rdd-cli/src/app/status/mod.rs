//! `rdd status`: shows the state of every part of an instance, or waits for one. It never starts anything.

pub mod facts;
pub mod render;
pub mod tree;

use std::time::Duration;

use super::args::Status;
use crate::{
    context::Context,
    go,
    progress::Progress,
    report::{ExitCode, Failure, Outcome},
    service::{ControlPlane, deadline::Deadline},
};
use facts::Facts;
use render::{Look, Width};
use tree::{Report, State};

/// How often the state is observed. Polling, because the lock and the socket do not report changes; only the API has watches.
const TURN: Duration = Duration::from_millis(250);

/// What `--wait-for` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    Engine,
    Kubernetes,
    Settled,
}

impl Goal {
    fn parse(text: &str) -> Outcome<Self> {
        Ok(match text {
            "engine" => Self::Engine,
            "kubernetes" => Self::Kubernetes,
            "settled" => Self::Settled,
            _ => {
                let text = go::quote(text);
                let message = format!("cannot wait for {text}; valid values: engine, kubernetes, or settled");
                return Err(Failure::message(message));
            }
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Kubernetes => "kubernetes",
            Self::Settled => "settled",
        }
    }

    fn is_met(self, report: &Report) -> bool {
        match self {
            Self::Settled => report.settled,
            part => report.node(part.name()).is_some_and(|node| node.state == State::Ready),
        }
    }

    /// What keeps the goal from being met, in one sentence.
    fn obstacle(self, report: &Report) -> String {
        let own = match self {
            Self::Settled => "app",
            part => part.name(),
        };
        // The lowest part that is not ready blocks the parts that depend on it. A part that is off blocks only if the goal itself is off.
        let is_off = report.node(own).is_some_and(|node| node.state == State::Off);
        let blocking = tree::nodes(&report.tree).into_iter().find(|node| match node.state {
            State::Ready => false,
            state => node.id == own || (is_under(own, node.id) && (!is_off || state == State::Off)),
        });
        blocking.map_or_else(
            || "it is not settled".to_owned(),
            |node| format!("{} is {}: {}", node.title, node.state.word(), render::plain(&node.message)),
        )
    }
}

/// Whether `part` depends on `ground`.
fn is_under(part: &str, ground: &str) -> bool {
    match part {
        "app" => ground == "daemon",
        _ => matches!(ground, "daemon" | "machine"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Yaml,
}

impl Format {
    fn parse(text: Option<&str>) -> Outcome<Self> {
        match text {
            None => Ok(Self::Text),
            Some("json") => Ok(Self::Json),
            Some("yaml") => Ok(Self::Yaml),
            Some(other) => {
                let other = go::quote(other);
                Err(Failure::message(format!("unknown output format {other}; valid formats: json or yaml")))
            }
        }
    }
}

/// Prints the state of the instance: once, after every change with `--watch`, or at the end of a wait with `--wait-for`.
///
/// # Errors
///
/// A silent failure with the exit code `NotReady` if the instance is not ready, a deadline failure if the timeout of `--wait-for` passes,
/// and a failure for an unknown goal or format.
pub fn run(context: &Context<'_>, args: &Status) -> Outcome {
    let format = Format::parse(args.output.as_deref())?;
    let goal = args.wait_for.as_deref().map(Goal::parse).transpose()?;
    let plane = ControlPlane::of(context)?;
    let show = Show { context, format, watch: args.watch };
    let Some(goal) = goal else {
        return if args.watch { watch(&plane, show) } else { once(&plane, show) };
    };
    wait(&plane, show, goal, Deadline::after(args.timeout.as_bound()))
}

fn once(plane: &ControlPlane<'_>, show: Show<'_>) -> Outcome {
    let facts = facts::gather(plane)?;
    let report = tree::judge(&facts);
    show.print(&facts, &report, &mut Shown::default())?;
    if report.ready { Ok(()) } else { Err(Failure::silent(ExitCode::NotReady)) }
}

fn watch(plane: &ControlPlane<'_>, show: Show<'_>) -> Outcome {
    let mut shown = Shown::default();
    loop {
        let facts = facts::gather(plane)?;
        show.print(&facts, &tree::judge(&facts), &mut shown)?;
        std::thread::sleep(TURN);
    }
}

fn wait(plane: &ControlPlane<'_>, show: Show<'_>, goal: Goal, deadline: Deadline) -> Outcome {
    let mut shown = Shown::default();
    let what = format!("Waiting for {}", goal.name());
    let progress = (!show.watch).then(|| Progress::on_terminal(plane.record(), &what)).flatten();
    loop {
        let facts = facts::gather(plane)?;
        let report = tree::judge(&facts);
        let (met, over) = (goal.is_met(&report), deadline.has_passed());
        // The progress line is removed before the report is printed over it.
        if met || over {
            drop(progress);
            show.print(&facts, &report, &mut shown)?;
            let obstacle = goal.obstacle(&report);
            return if met { Ok(()) } else { Err(timed_out(goal, &obstacle, report.next)) };
        }
        if show.watch {
            show.print(&facts, &report, &mut shown)?;
        } else if let Some(progress) = &progress {
            progress.phase(&format!("{what}: {}", goal.obstacle(&report)));
        }
        std::thread::sleep(deadline.left_up_to(TURN));
    }
}

fn timed_out(goal: Goal, obstacle: &str, next: Option<String>) -> Failure {
    let failure = Failure::deadline(format!("timed out waiting for {}: {obstacle}", goal.name()));
    next.into_iter().fold(failure, |failure, next| failure.hint(format!("what may help: {next}")))
}

/// The output settings of one run.
#[derive(Debug, Clone, Copy)]
struct Show<'a> {
    context: &'a Context<'a>,
    format: Format,
    watch: bool,
}

/// What the last print showed.
#[derive(Debug, Default)]
struct Shown {
    report: Option<Report>,
    lines: Vec<String>,
}

impl Show<'_> {
    fn print(&self, facts: &Facts, report: &Report, shown: &mut Shown) -> Outcome {
        let terminal = self.context.stdout_terminal();
        let is_news = shown.report.as_ref() != Some(report);
        let first = shown.report.is_none();
        shown.report = Some(report.clone());
        let printer = &self.context.printer;
        match self.format {
            // Scripts that read JSON or YAML get one document per change.
            Format::Json | Format::Yaml if !is_news => {}
            Format::Json if self.watch => printer.line(serde_json::to_string(report)?)?,
            Format::Json => printer.line(serde_json::to_string_pretty(report)?)?,
            Format::Yaml => {
                let text = serde_saphyr::to_string(report)?;
                printer.text(&if first { text } else { format!("---\n{text}") })?;
            }
            Format::Text => {
                let symbols = terminal.is_some();
                // Without a terminal, lines stay whole, so that scripts can search them.
                let width = match terminal {
                    None => Width::Any,
                    Some(columns) if self.watch => Width::Cut(columns),
                    Some(columns) => Width::Wrap(columns),
                };
                let look = Look { symbols, color: self.context.stdout_is_colorful(), width };
                let lines = render::lines(report, facts.now, look);
                self.print_lines(lines, is_news, first, shown)?;
            }
        }
        Ok(())
    }

    /// On a terminal, draws over the old lines, so that ages advance; elsewhere, prints only if the report has changed.
    fn print_lines(&self, lines: Vec<String>, is_news: bool, first: bool, shown: &mut Shown) -> Outcome {
        let text = lines.join("\n") + "\n";
        let printer = &self.context.printer;
        if self.watch && self.context.stdout_terminal().is_some() {
            if lines == shown.lines {
                return Ok(());
            }
            // A wrapped line holds newlines, so it takes more than one row of the terminal.
            let drawn: usize = shown.lines.iter().map(|line| line.matches('\n').count() + 1).sum();
            let up = if drawn > 0 { format!("\u{1b}[{drawn}A\u{1b}[J") } else { String::new() };
            printer.text(&format!("{up}{text}"))?;
            shown.lines = lines;
        } else if is_news {
            printer.text(&if first { text } else { format!("\n{text}") })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    #[test]
    fn a_goal_is_met_by_its_part_and_says_what_is_in_the_way() {
        let mut facts = tree::tests::running();
        let report = tree::judge(&facts);
        assert!(Goal::Engine.is_met(&report) && Goal::Settled.is_met(&report));
        assert!(!Goal::Kubernetes.is_met(&report), "what is off is not ready");
        assert_eq!(Goal::Kubernetes.obstacle(&report), "Kubernetes is off: not enabled");
        facts.engine = Some(Err("refused".to_owned()));
        let report = tree::judge(&facts);
        assert_eq!(
            Goal::Engine.obstacle(&report),
            "engine is starting: unix:///run/docker.sock does not answer: refused"
        );
        facts.daemon = facts::Daemon::Stopped;
        assert_eq!(Goal::Engine.obstacle(&tree::judge(&facts)), "control plane is off: stopped");
        let failure = timed_out(Goal::Engine, "x", Some("rdd start".to_owned()));
        assert_eq!(failure.text(), "timed out waiting for engine: x: context deadline exceeded");
        assert_eq!((failure.exit_code().number(), failure.hints()), (4, vec!["what may help: rdd start".to_owned()]));
    }

    #[test]
    fn an_instance_that_does_not_exist_is_shown_and_not_made() {
        let user = User::new();
        let ran = user.run("status");
        assert_eq!((ran.code, ran.stderr.as_str()), (2, ""), "{}", ran.stderr);
        assert!(
            ran.stdout.starts_with("rancher-desktop-2: off\ncontrol plane     off    not created\n"),
            "{}",
            ran.stdout
        );
        assert!(ran.stdout.ends_with("next: rdd start\n"), "{}", ran.stdout);
        assert_eq!(std::fs::read_dir(user.home.path()).unwrap().count(), 0, "and nothing is made");
        let data: serde_json::Value = serde_json::from_str(&user.run("status -o json").stdout).unwrap();
        assert_eq!(
            (&data["ready"], &data["state"], &data["tree"]["id"]),
            (&false.into(), &"off".into(), &"daemon".into())
        );
        assert!(user.run("status -o yaml").stdout.contains("name: rancher-desktop-2\n"));
    }

    #[test]
    fn a_wait_ends_at_its_bound_with_its_code() {
        let ran = User::new().run("status --wait-for=engine --timeout=1ms");
        assert_eq!(ran.code, 4);
        let expected = "timed out waiting for engine: control plane is off: not created: context deadline exceeded";
        assert_eq!(ran.messages(), [expected]);
        assert!(ran.stderr.contains("hint: what may help: rdd start"), "{}", ran.stderr);
        assert!(ran.stdout.contains("not created"), "{}", ran.stdout);
    }

    #[test]
    fn wrong_values_are_refused() {
        let user = User::new();
        for (line, message) in [
            ("status -o xml", "unknown output format \"xml\"; valid formats: json or yaml"),
            ("status --wait-for=lunch", "cannot wait for \"lunch\"; valid values: engine, kubernetes, or settled"),
            ("status now", "unknown command \"now\" for \"rdd status\""),
        ] {
            let ran = user.run(line);
            assert_eq!((ran.code, ran.messages()), (1, vec![message.to_owned()]), "{line}");
        }
    }

    #[test]
    fn with_json_records_the_code_is_in_the_record() {
        let ran = User::new().run("status --log-format=json");
        let record: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!((&record["exit-code"], &record["msg"]), (&2.into(), &"".into()));
    }
}
