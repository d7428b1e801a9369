//! The command line as types: names, flags, defaults and help, and nothing that runs.

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::{
    app::args::{App, LimaVm},
    go::{GoDuration, parse_bool, parse_int},
};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "rdd",
    // Scripts and tests of the original look for the first sentence.
    about = "RDD manages the Rancher Desktop 2 background services.\n\nRun containers and Kubernetes on this machine, \
             through a Kubernetes API of your own.",
    disable_help_subcommand = true,
    disable_version_flag = true,
    args_override_self = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command; without one, help is shown.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global flags")]
pub struct Global {
    /// Show messages down to this level: fatal, error, warn, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL", default_value = "", hide_default_value = true)]
    pub log_level: String,
    /// Format of messages on standard error: text or json
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: String,
    /// Verbosity of the log
    #[arg(short = 'v', long = "v", global = true, value_name = "NUMBER", default_value = "0", value_parser = parse_int)]
    #[arg(hide_default_value = true)]
    pub v: i64,
    /// Verbosity per source file (accepted and ignored)
    #[arg(long, global = true, value_name = "PATTERN=NUMBER,…", default_value = "", hide = true)]
    pub vmodule: String,
    /// How often the log is flushed (accepted; it is never held back)
    #[arg(long, global = true, value_name = "DURATION", default_value = "5s", hide = true)]
    pub log_flush_frequency: GoDuration,
    /// Print the version; `raw` prints everything known about this build
    #[arg(long, global = true, value_name = "FORMAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", hide = true)]
    pub version: Option<String>,
}

/// The commands of the root.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, start, stop and inspect the background service
    #[command(alias = "svc", args_override_self = true, arg_required_else_help = true)]
    Service {
        /// What to do with it; without a verb, help is shown.
        #[command(subcommand)]
        verb: Option<Service>,
    },
    /// Print a shell completion script
    #[command(args_override_self = true, arg_required_else_help = true)]
    Completion {
        /// The shell; without one, help is shown.
        #[command(subcommand)]
        shell: Option<Shell>,
    },
    /// Use the commands of kubectl with the service, starting it if needed
    Ctl(Passthrough),
    /// Show help for a command
    #[command(name = "help")]
    Help(Words),
    /// Run kubectl with your own kubeconfig; without one on PATH, its daily verbs are built in
    Kubectl(Passthrough),
    /// Create, run and inspect LimaVM virtual machines
    #[command(name = "limavm", alias = "lima", hide = true, args_override_self = true, arg_required_else_help = true)]
    LimaVm {
        /// What to do with one; without a verb, help is shown.
        #[command(subcommand)]
        verb: Option<LimaVm>,
    },
    /// What is about the App stands at the root.
    #[command(flatten)]
    App(App),
    /// Print the version
    Version(Ignored),
    /// Read and change YAML files: the yq of this machine, or a built-in part of it
    #[command(hide = true)]
    Yq(Passthrough),
}

/// Words that another program will read.
#[derive(Debug, Args)]
pub struct Passthrough {
    /// Arguments, passed on as they are
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    pub args: Vec<OsString>,
}

/// Words that mean nothing here, accepted because they always were.
#[derive(Debug, Args)]
pub struct Ignored {
    #[arg(hide = true, num_args = 0..)]
    ignored: Vec<OsString>,
}

/// Words of a command line.
#[derive(Debug, Args)]
pub struct Words {
    /// The command to explain
    #[arg(value_name = "COMMAND", num_args = 0..)]
    pub words: Vec<String>,
}

/// Shells that can be taught.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Shell {
    /// For bash
    Bash,
    /// For fish
    Fish,
    /// For PowerShell
    Powershell,
    /// For zsh
    Zsh,
}

/// What can be done with the service.
#[derive(Debug, Subcommand)]
pub enum Service {
    /// Save the datastore in a file, whether the service runs or not
    Backup(Backup),
    /// Print the kubeconfig of the service, starting it if needed
    Config,
    /// Create the service without starting it
    Create(Create),
    /// Stop the service and remove all of its data
    Delete(Delete),
    /// Print the log of the service
    #[command(alias = "logs")]
    Log(Log),
    /// Print where the service keeps its files
    Paths(Paths),
    /// Empty the datastore, keeping settings, certificates and logs
    Reset(Reset),
    /// Replace the datastore with a backup
    Restore(Restore),
    /// Run the service in the foreground
    #[command(args_override_self = true)]
    Serve(Serve),
    /// Start the service in the background, creating it if needed
    Start(Start),
    /// Show whether the service exists and runs
    Status(Status),
    /// Stop the service
    Stop(Stop),
    /// Print a unit that starts the service when you log in
    Unit(Unit),
}

/// What the daemon is to run and where it listens.
#[derive(Debug, Args)]
pub struct Create {
    /// Controllers to run, by name or group; `*` means all, a leading `-` excludes
    #[arg(long, value_name = "LIST", default_value = "*", hide = true, allow_hyphen_values = true)]
    pub controllers: String,
    /// Port of the API server
    #[arg(long, value_name = "PORT", value_parser = parse_int, hide = true, allow_hyphen_values = true)]
    pub secure_port: Option<i64>,
    /// Further arguments of the daemon
    #[arg(hide = true, num_args = 0..)]
    pub args: Vec<OsString>,
}

/// How to start.
#[derive(Debug, Args)]
pub struct Start {
    /// Wait until the service can be used
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set)]
    pub wait: bool,
    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "1m30s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
    /// Controllers to run this time
    #[arg(long, value_name = "LIST", hide = true, allow_hyphen_values = true)]
    pub controllers: Option<String>,
    /// Port of the API server this time
    #[arg(long, value_name = "PORT", value_parser = parse_int, hide = true, allow_hyphen_values = true)]
    pub secure_port: Option<i64>,
    /// Further arguments of the daemon
    #[arg(hide = true, num_args = 0..)]
    pub args: Vec<OsString>,
}

/// How to serve.
#[derive(Debug, Args)]
pub struct Serve {
    /// `serve options` lists every flag.
    #[command(subcommand)]
    pub verb: Option<ServeVerb>,
    /// Port of the API server; default depends on the instance
    #[arg(long, value_name = "PORT", value_parser = parse_int, allow_hyphen_values = true)]
    pub secure_port: Option<i64>,
    /// Controllers to run, by name or group; `*` means all, a leading `-` excludes
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true)]
    pub controllers: String,
    /// Accepted and ignored: the token is only in the kubeconfig
    #[arg(long, value_name = "PATH", hide = true, allow_hyphen_values = true)]
    pub authentication_admin_token_path: Option<PathBuf>,
}

/// What `serve` can tell.
#[derive(Debug, Subcommand)]
pub enum ServeVerb {
    /// List every flag of `serve`
    Options(Ignored),
}

/// How to stop.
#[derive(Debug, Args)]
pub struct Stop {
    /// Wait until the service has stopped
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set)]
    pub wait: bool,
    /// How long to wait before it is killed; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "5m0s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
    #[command(flatten)]
    ignored: Ignored,
}

/// How to delete.
#[derive(Debug, Args)]
pub struct Delete {
    /// How long to wait for the service to stop; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "5m0s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
    #[command(flatten)]
    ignored: Ignored,
}

/// How to empty the datastore.
#[derive(Debug, Args)]
pub struct Reset {
    /// Skip confirmation
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub yes: bool,
    /// How long to wait for the service to stop; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "5m0s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
}

/// What to show of the state.
#[derive(Debug, Args)]
pub struct Status {
    /// Print the state as data to standard output: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<String>,
    #[command(flatten)]
    ignored: Ignored,
}

/// What to show of the paths.
#[derive(Debug, Args)]
pub struct Paths {
    /// Format of the output: table, json, yaml or shell
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: String,
    /// Print only this path
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
}

/// What to show of the log.
#[derive(Debug, Args)]
pub struct Log {
    /// Print what the daemon wrote to its standard output instead
    #[arg(short = 'o', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub stdout: bool,
    /// Keep printing what is appended, across restarts of the service
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub follow: bool,
    /// Begin with the last LINES lines; -1 means all
    #[arg(long, value_name = "LINES", default_value = "-1", value_parser = parse_int, allow_hyphen_values = true)]
    pub tail: i64,
    #[command(flatten)]
    ignored: Ignored,
}

/// Where to save.
#[derive(Debug, Args)]
pub struct Backup {
    /// The file to write; default: the instance and the time, in this folder
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// What to restore.
#[derive(Debug, Args)]
pub struct Restore {
    /// The backup to read
    #[arg(value_name = "FILE", required = true)]
    pub file: PathBuf,
    /// Skip confirmation
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub yes: bool,
}

/// Which unit to print.
#[derive(Debug, Args)]
pub struct Unit {
    /// Print a launchd agent instead of a systemd unit; default on macOS
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set)]
    pub launchd: Option<bool>,
}
