//! The command line as clap types: names, flags, defaults and help texts. It contains no behaviour.

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
    // Scripts and tests of the original search for the first sentence.
    about = "RDD manages the Rancher Desktop 2 background services.\n\nRun containers and Kubernetes on this machine, \
             through a Kubernetes API of your own.",
    disable_help_subcommand = true,
    disable_version_flag = true,
    args_override_self = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Flags that every command accepts.
    #[command(flatten)]
    pub global: Global,
    /// The command; without one, help is shown.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags that every command accepts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global flags")]
pub struct Global {
    /// Lowest level of messages to show: fatal, error, warn, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL", default_value = "", hide_default_value = true)]
    pub log_level: String,
    /// Format of messages on standard error: text or json
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: String,
    /// Log verbosity
    #[arg(short = 'v', long = "v", global = true, value_name = "NUMBER", default_value = "0", value_parser = parse_int)]
    #[arg(hide_default_value = true)]
    pub v: i64,
    /// Verbosity per source file (accepted and ignored)
    #[arg(long, global = true, value_name = "PATTERN=NUMBER,…", default_value = "", hide = true)]
    pub vmodule: String,
    /// Interval between log flushes (accepted and ignored)
    #[arg(long, global = true, value_name = "DURATION", default_value = "5s", hide = true)]
    pub log_flush_frequency: GoDuration,
    /// Print the version; `raw` prints everything known about this build
    #[arg(long, global = true, value_name = "FORMAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", hide = true)]
    pub version: Option<String>,
}

/// The commands of `rdd`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, start, stop and inspect the background service
    #[command(alias = "svc", args_override_self = true, arg_required_else_help = true)]
    Service {
        /// The subcommand; without one, help is shown.
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
    /// Run kubectl commands against the service, starting it if needed
    Ctl(Passthrough),
    /// Show help for a command
    #[command(name = "help")]
    Help(Words),
    /// Run kubectl with your own kubeconfig; common commands are built in if kubectl is not on PATH
    Kubectl(Passthrough),
    /// Create, run and inspect LimaVM virtual machines
    #[command(name = "limavm", alias = "lima", hide = true, args_override_self = true, arg_required_else_help = true)]
    LimaVm {
        /// The subcommand; without one, help is shown.
        #[command(subcommand)]
        verb: Option<LimaVm>,
    },
    /// The commands of the App are commands of the root.
    #[command(flatten)]
    App(App),
    /// Print the version
    Version(Ignored),
    /// Query and edit YAML files, with yq from PATH or a built-in subset of it
    #[command(hide = true)]
    Yq(Passthrough),
}

/// Arguments that are passed to another program unparsed.
#[derive(Debug, Args)]
pub struct Passthrough {
    /// Arguments, passed on unchanged
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    pub args: Vec<OsString>,
}

/// Arguments that are accepted and ignored, because the original accepts them.
#[derive(Debug, Args)]
pub struct Ignored {
    #[arg(hide = true, num_args = 0..)]
    ignored: Vec<OsString>,
}

/// Arguments of `rdd help`.
#[derive(Debug, Args)]
pub struct Words {
    /// The command to explain
    #[arg(value_name = "COMMAND", num_args = 0..)]
    pub words: Vec<String>,
}

/// Shells with a completion script.
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

/// The commands of `rdd service`.
#[derive(Debug, Subcommand)]
pub enum Service {
    /// Back up the datastore to a file, with the service running or stopped
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
    /// Print the paths of the service's files
    Paths(Paths),
    /// Empty the datastore; settings, certificates and logs are kept
    Reset(Reset),
    /// Replace the datastore with a backup
    Restore(Restore),
    /// Run the service in the foreground
    #[command(args_override_self = true)]
    Serve(Serve),
    /// Start the service in the background, creating it if needed
    Start(Start),
    /// Show whether the service exists and is running
    Status(Status),
    /// Stop the service
    Stop(Stop),
    /// Print a unit that starts the service when you log in
    Unit(Unit),
}

/// Arguments of `rdd service create`, stored for every start of the daemon.
#[derive(Debug, Args)]
pub struct Create {
    /// Controllers to run, by name or group; `*` means all, a leading `-` excludes
    #[arg(long, value_name = "LIST", default_value = "*", hide = true, allow_hyphen_values = true)]
    pub controllers: String,
    /// Port of the API server
    #[arg(long, value_name = "PORT", value_parser = parse_int, hide = true, allow_hyphen_values = true)]
    pub secure_port: Option<i64>,
    /// Additional arguments for the daemon
    #[arg(hide = true, num_args = 0..)]
    pub args: Vec<OsString>,
}

/// Arguments of `rdd service start`.
#[derive(Debug, Args)]
pub struct Start {
    /// Wait until the service is ready
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set)]
    pub wait: bool,
    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "1m30s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
    /// Controllers to run until the next stop
    #[arg(long, value_name = "LIST", hide = true, allow_hyphen_values = true)]
    pub controllers: Option<String>,
    /// Port of the API server until the next stop
    #[arg(long, value_name = "PORT", value_parser = parse_int, hide = true, allow_hyphen_values = true)]
    pub secure_port: Option<i64>,
    /// Additional arguments for the daemon
    #[arg(hide = true, num_args = 0..)]
    pub args: Vec<OsString>,
}

/// Arguments of `rdd service serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// `serve options` lists every flag.
    #[command(subcommand)]
    pub verb: Option<ServeVerb>,
    /// Port of the API server; the default depends on the instance
    #[arg(long, value_name = "PORT", value_parser = parse_int, allow_hyphen_values = true)]
    pub secure_port: Option<i64>,
    /// Controllers to run, by name or group; `*` means all, a leading `-` excludes
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true)]
    pub controllers: String,
    /// Accepted and ignored: the kubeconfig is the only place of the token
    #[arg(long, value_name = "PATH", hide = true, allow_hyphen_values = true)]
    pub authentication_admin_token_path: Option<PathBuf>,
}

/// The commands of `rdd service serve`.
#[derive(Debug, Subcommand)]
pub enum ServeVerb {
    /// List every flag of `serve`
    Options(Ignored),
}

/// Arguments of `rdd service stop`.
#[derive(Debug, Args)]
pub struct Stop {
    /// Wait until the service has stopped
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set)]
    pub wait: bool,
    /// How long to wait before the service is killed; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "5m0s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
    #[command(flatten)]
    ignored: Ignored,
}

/// Arguments of `rdd service delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// How long to wait for the service to stop; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "5m0s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
    #[command(flatten)]
    ignored: Ignored,
}

/// Arguments of `rdd service reset`.
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

/// Arguments of `rdd service status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Output format on standard output: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<String>,
    #[command(flatten)]
    ignored: Ignored,
}

/// Arguments of `rdd service paths`.
#[derive(Debug, Args)]
pub struct Paths {
    /// Output format: table, json, yaml or shell
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: String,
    /// Print only this path
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
}

/// Arguments of `rdd service log`.
#[derive(Debug, Args)]
pub struct Log {
    /// Print the daemon's standard output instead of its standard error
    #[arg(short = 'o', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub stdout: bool,
    /// Follow the log, across restarts of the service
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub follow: bool,
    /// Number of lines to show from the end of the log; -1 shows all
    #[arg(long, value_name = "LINES", default_value = "-1", value_parser = parse_int, allow_hyphen_values = true)]
    pub tail: i64,
    #[command(flatten)]
    ignored: Ignored,
}

/// Arguments of `rdd service backup`.
#[derive(Debug, Args)]
pub struct Backup {
    /// File to write; the default is a new file in the current folder, named for the instance and the time
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Arguments of `rdd service restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// Backup file to read
    #[arg(value_name = "FILE", required = true)]
    pub file: PathBuf,
    /// Skip confirmation
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub yes: bool,
}

/// Arguments of `rdd service unit`.
#[derive(Debug, Args)]
pub struct Unit {
    /// Print a launchd agent instead of a systemd unit; the default on macOS
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set)]
    pub launchd: Option<bool>,
}
