//! The daily verbs of kubectl, spoken natively to one daemon or to any cluster: kubectl's words, output and exit codes.
//!
//! [`read`] says what a command line asks for: a verb of ours, help on one, or something that is left to kubectl.
//! [`Command::run`] does it, on a daemon (`rdd ctl`) or on the cluster of the user's kubeconfigs (`rdd kubectl`). Nothing
//! is kept on disk: what the server has is asked for as far as a command needs it.

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

/// What a command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// A verb of ours.
    Native(Command),
    /// Something that needs no daemon, such as help: this.
    Text(String),
    /// Wrong usage of a verb of kubectl's, told in these words, newline and all.
    Wrong(String),
    /// Wrong usage of a verb of our own, to be told as every other failure of ours.
    Failed(String),
    /// Something that only kubectl itself can do. The words of its verb, such as `create deployment`, if there is one.
    Other(String),
}

/// Which program speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `rdd ctl`: the server is known, flags that name another one are left to kubectl.
    Ctl,
    /// `rdd kubectl`: the server is that of the user's kubeconfigs and of the flags.
    Kubectl,
}

impl Program {
    /// Its words on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ctl => "rdd ctl",
            Self::Kubectl => "rdd kubectl",
        }
    }
}

/// Where a command goes.
#[derive(Debug)]
pub enum Target {
    /// To a daemon.
    Service {
        /// A client of it.
        client: Box<Client>,
        /// Its kubeconfig, which the verbs of `config` concern.
        files: ConfigFiles,
    },
    /// To the cluster that the user's kubeconfigs and the flags name.
    Cluster(ClusterEnvironment),
}

/// How a verb ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// As it should.
    Well,
    /// Not well, and that was told in kubectl's words: exit code 1.
    Told,
    /// Not well, and these words of a verb of our own are yet to be told.
    Failed(String),
}

/// A verb and what was given to it.
#[derive(Debug)]
pub struct Command {
    verb: &'static Verb,
    flags: Flags,
}

/// Reads the words after `ctl` or `kubectl`.
pub fn read(words: Vec<String>, program: Program) -> Asked {
    table::read(words, program)
}

/// Whether a verb is built in, whatever flags come with it.
pub fn is_built_in(verb: &str) -> bool {
    table::is_built_in(verb)
}

/// What `rdd kubectl` says about a verb that is not built in, where there is no kubectl to pass it on to.
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
    /// The context of the kubeconfig to use; `None` for the current one.
    pub fn context(&self) -> Option<&str> {
        self.flags.given("context")
    }

    /// Does it.
    pub fn run(self, target: Target, clock: SharedClock, streams: Streams<'_>) -> Ended {
        let prepared = match self.prepare(target, &clock) {
            Ok(prepared) => prepared,
            Err(error) => {
                // Nobody can be told that nobody can be told.
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

/// What a command needs to run.
struct Prepared {
    api: Api,
    files: ConfigFiles,
    namespace: Option<String>,
    program: Program,
}

/// `0` is no bound; a number alone is seconds.
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
