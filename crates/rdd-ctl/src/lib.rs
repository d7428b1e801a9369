//! The most used verbs of kubectl, built in, with kubectl's flags, output and exit codes.
//!
//! [`read`] parses a command line: a built-in verb, a request for help, or a command for kubectl itself. [`Command::run`]
//! executes a verb against a daemon (`rdd ctl`) or the cluster of the user's kubeconfigs (`rdd kubectl`). There is no discovery
//! cache on disk: each command fetches only the discovery documents that it needs.

mod api;
mod capture;
mod cluster;
mod context;
mod describe;
mod discovery;
mod error;
mod flags;
mod help;
mod jsonpath;
mod merge;
mod plugin;
mod print;
mod selection;
mod sort;
mod source;
mod table;
mod verbs;
mod wrap;
mod write;

use std::time::Duration;

use rdd_client::http::Client;
use rdd_kubeconfig::client_config::ConfigFiles;
use rdd_stdx::clock::SharedClock;

use api::Api;
pub use cluster::ClusterEnvironment;
use cluster::{ClientSource, ClusterSource};
use context::Ctl;
pub use context::Streams;
use flags::Flags;
use table::Verb;

/// The result of parsing a command line.
#[derive(Debug)]
pub enum Asked {
    /// A built-in verb.
    Native(Command),
    /// Output that needs no server, such as help.
    Text(String),
    /// A usage error of a kubectl verb, formatted like kubectl's, with the final newline.
    Wrong(String),
    /// A usage error of a verb of our own, which the caller reports like its other errors.
    Failed(String),
    /// A command that only kubectl supports, with the words of its verb, such as `create deployment`; empty without a verb.
    Other(String),
}

/// The program that the user called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `rdd ctl`: the server is the daemon; commands with flags for another server go to kubectl.
    Ctl,
    /// `rdd kubectl`: the kubeconfigs and flags determine the server.
    Kubectl,
}

impl Program {
    /// The name as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ctl => "rdd ctl",
            Self::Kubectl => "rdd kubectl",
        }
    }
}

/// The server that a command runs against.
#[derive(Debug)]
pub enum Target {
    /// A daemon.
    Service {
        /// A client of the daemon.
        client: Box<Client>,
        /// The daemon's kubeconfig, which the `config` verbs use.
        files: ConfigFiles,
    },
    /// The cluster of the user's kubeconfigs and flags.
    Cluster(ClusterEnvironment),
}

/// The outcome of a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Success.
    Well,
    /// Failure, already reported like kubectl does: exit code 1.
    Told,
    /// Failure of a verb of our own, with the message that the caller has to report.
    Failed(String),
}

/// A parsed verb with its flags.
#[derive(Debug)]
pub struct Command {
    verb: &'static Verb,
    flags: Flags,
}

/// Parses the words after `ctl` or `kubectl`.
pub fn read(words: Vec<String>, program: Program) -> Asked {
    table::read(words, program)
}

/// Whether a verb is built in, whatever its flags.
pub fn is_built_in(verb: &str) -> bool {
    table::is_built_in(verb)
}

/// The error of `rdd kubectl` for a verb that is not built in when kubectl is not installed.
pub fn explain_missing(verb: &str) -> String {
    let error = match verb {
        "" => error::Error::text(
            "these words need kubectl itself\nhint: install kubectl (https://kubernetes.io/docs/tasks/tools): \
             `rdd kubectl` runs the one on PATH",
        ),
        verb if table::is_known_elsewhere(verb) => verbs::elsewhere(&format!("kubectl {verb}")),
        verb => {
            let quote = rdd_meta::go_text::quote;
            error::Error::text(match verb.split_once(' ') {
                None => format!("unknown command {} for \"kubectl\"", quote(verb)),
                Some((group, word)) => {
                    format!("unknown command {}\nSee 'kubectl {group} -h' for help and examples", quote(word))
                }
            })
        }
    };
    error.report()
}

impl Command {
    /// The kubeconfig context to use; `None` for the current one.
    pub fn context(&self) -> Option<&str> {
        self.flags.given("context")
    }

    /// Executes the verb.
    pub fn run(self, target: Target, clock: SharedClock, streams: Streams<'_>) -> Ended {
        let prepared = match self.prepare(target, &clock) {
            Ok(prepared) => prepared,
            Err(error) => {
                // A failure to write is ignored: there is no other place to report it.
                let _ = streams.err.write_all(error.report().as_bytes());
                return Ended::Told;
            }
        };
        let command = format!("kubectl {}", self.verb.path);
        let mut ctl = Ctl::new(prepared.api, prepared.files, self.flags, command, clock, streams);
        ctl.context_namespace = prepared.namespace;
        ctl.program = prepared.program.name();
        match (self.verb.run)(&ctl) {
            Ok(()) => Ended::Well,
            Err(error::Error::Silent) if ctl.is_reader_gone() => Ended::Well,
            Err(error) if self.verb.is_ours() => Ended::Failed(error.to_string()),
            Err(error) => {
                ctl.tell(&error.report());
                Ended::Told
            }
        }
    }

    fn prepare(&self, target: Target, clock: &SharedClock) -> Result<Prepared, error::Error> {
        let timeout = request_timeout(self.flags.text("request-timeout"))?;
        let (source, files, namespace, program) = match target {
            Target::Service { client, files } => (ClientSource::Fixed(client), files, None, Program::Ctl),
            Target::Cluster(mut environment) => {
                if let Some(path) = self.flags.given("kubeconfig") {
                    environment.files = environment.files.with_explicit(path);
                }
                let files = environment.files.clone();
                if self.verb.needs_no_server() {
                    (ClientSource::Nowhere, files, None, Program::Kubectl)
                } else {
                    let cluster = ClusterSource::resolve(&self.flags, environment, clock.clone())?;
                    let namespace = cluster.namespace().map(str::to_owned);
                    (ClientSource::Cluster(Box::new(cluster)), files, namespace, Program::Kubectl)
                }
            }
        };
        Ok(Prepared { api: Api::new(source, timeout)?, files, namespace, program })
    }
}

/// The prepared parts of a command.
struct Prepared {
    api: Api,
    files: ConfigFiles,
    namespace: Option<String>,
    program: Program,
}

/// Parses `--request-timeout`: `0` means no timeout, a plain number is in seconds.
fn request_timeout(text: &str) -> Result<Option<Duration>, error::Error> {
    let invalid = || {
        error::Error::text(
            "Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by a corresponding time unit (e.g. 1s | 2m | 3h)",
        )
    };
    let nanoseconds = match text.parse::<i64>() {
        Ok(seconds) => seconds.saturating_mul(1_000_000_000),
        Err(_) => rdd_meta::go_duration::parse(text).map_err(|_| invalid())?,
    };
    Ok((nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds.unsigned_abs())))
}
