//! Programs that run controllers in their own process: this binary under the names of the original's programs.

use std::{ffi::OsString, path::Path};

use clap::Parser;
use rdd_instance::{Environment, Instance, Platform};

pub use crate::klog::{LogFile, Severity};
use crate::{
    World, early_recorder,
    klog::{KlogFlags, rewrite_go_flags},
    record::Level,
    report::Failure,
};

/// The programs, each with the group of controllers that it runs, which is also its manager's name.
const PROGRAMS: [(&str, &str); 5] = [
    ("app-controller", "app"),
    ("containers-controller", "containers"),
    ("lima-controller", "lima"),
    ("mock-controller", "mock"),
    ("rdd-controller", "rdd"),
];

/// The options of a controller manager in its own process.
#[derive(Debug, Clone)]
pub struct ExternalOptions {
    /// The group of controllers to run.
    pub group: &'static str,
    /// The instance that the controllers belong to.
    pub instance: Instance,
    /// The first port to try for metrics.
    pub metrics_port: u16,
    /// The first port to try for health checks.
    pub health_port: u16,
    /// The verbosity from `-v`, or else from `RDD_LOG_LEVEL`.
    pub verbosity: u8,
    /// The log file; `None` logs to standard error.
    pub log_file: Option<LogFile>,
    /// The environment variables that the program reads.
    pub environment: Environment,
}

#[derive(Debug, Parser)]
#[command(about = "Run controllers of Rancher Desktop in a process of their own", disable_version_flag = true)]
struct Args {
    /// Port for metrics, over HTTPS and with a token of the API; another one if it is taken
    #[arg(long)]
    metrics_port: Option<u16>,
    /// Port that answers 200 or 503 on /healthz; another one if it is taken
    #[arg(long)]
    health_port: Option<u16>,
    #[command(flatten)]
    klog: KlogFlags,
}

/// Runs a controller manager if `argv[0]` is the name of one.
///
/// Returns the exit code, or `None` if this is another program.
pub fn run(
    argv: &[OsString],
    environment: &Environment,
    start: &dyn Fn(ExternalOptions) -> anyhow::Result<()>,
) -> Option<i32> {
    let (program, group) = program_named_by(Path::new(argv.first()?))?;
    let words = rewrite_go_flags(&argv[1..]);
    let args = match Args::try_parse_from(std::iter::once(program.into()).chain(words)) {
        Ok(args) => args,
        Err(error) => {
            // There is nowhere to report a failed write to standard error.
            let _ = error.print();
            return Some(i32::from(error.use_stderr()));
        }
    };
    let record = early_recorder(&World::of_process(), environment);
    let outcome = Instance::resolve(environment, Platform::current())
        .map_err(anyhow::Error::from)
        .and_then(|instance| start(options(program, group, instance, &args, environment)));
    Some(match outcome {
        Ok(()) => 0,
        Err(error) => {
            let failure = Failure::of(error.into());
            record.failure(&failure);
            failure.exit_code().number()
        }
    })
}

fn options(
    program: &str,
    group: &'static str,
    instance: Instance,
    args: &Args,
    environment: &Environment,
) -> ExternalOptions {
    let level = environment.log_level.as_deref().and_then(|level| Level::parse(level).ok());
    ExternalOptions {
        group,
        metrics_port: args.metrics_port.unwrap_or(instance.ports.external_metrics),
        health_port: args.health_port.unwrap_or(instance.ports.external_health),
        log_file: args.klog.log_file(program),
        verbosity: args.klog.verbosity.or_else(|| level.map(Level::verbosity)).unwrap_or(0),
        instance,
        environment: environment.clone(),
    }
}

fn program_named_by(program: &Path) -> Option<(&'static str, &'static str)> {
    let base = program.file_name()?.to_str()?;
    // `app-controller.exe` counts too, as in `multicall`.
    let stem = base.split('.').next().unwrap_or(base);
    PROGRAMS.into_iter().find(|(name, _)| *name == stem)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn ran(words: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, Option<ExternalOptions>) {
        let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
        let found = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        let started = RefCell::new(None);
        let code = run(&argv, &Environment::from_lookup(found), &|options| {
            started.replace(Some(options));
            Ok(())
        });
        (code, started.into_inner())
    }

    #[test]
    fn the_name_of_the_program_chooses_the_group() {
        let home = [("HOME", "/home/ann"), ("RDD_LOG_LEVEL", "trace")];
        for (program, group) in
            [("/x/rdd-controller", "rdd"), ("mock-controller.exe", "mock"), ("lima-controller", "lima")]
        {
            let (code, options) = ran(&[program], &home);
            let options = options.unwrap();
            assert_eq!((code, options.group, options.verbosity), (Some(0), group, 4), "{program}");
            assert_eq!((options.metrics_port, options.health_port), (8088, 8089));
        }
        for program in ["rdd", "kubectl", "controller", "rdd-controllers", ""] {
            assert_eq!(ran(&[program], &home).0, None, "{program}");
        }
    }

    #[test]
    fn flags_choose_ports_and_what_is_wrong_is_said() {
        let home = [("HOME", "/home/ann")];
        let (_, options) = ran(&["rdd-controller", "--metrics-port=1", "--health-port", "2", "-v", "3"], &home);
        let options = options.unwrap();
        assert_eq!((options.metrics_port, options.health_port, options.verbosity), (1, 2, 3));
        assert_eq!(ran(&["rdd-controller", "--nonsense"], &home).0, Some(1));
        assert_eq!(ran(&["rdd-controller", "--help"], &home).0, Some(0));
        assert_eq!(ran(&["rdd-controller"], &[]).0, Some(1), "without a home there is no instance");
    }
}
