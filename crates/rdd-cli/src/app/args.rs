//! The product's commands as types: names, flags, defaults and help, and nothing that runs.

use clap::{ArgAction, Args, Subcommand};

use crate::{
    args::Passthrough,
    go::{GoDuration, parse_bool},
};

/// The commands about the App. They stand at the root of the command line.
#[derive(Debug, Subcommand)]
pub enum App {
    /// Delete the App with its machine, containers, images and volumes
    Delete(Delete),
    /// Recreate the machine; containers, images and volumes are lost, settings stay
    Reset(Reset),
    /// Run a command with containers and Kubernetes of this instance, starting them if needed
    #[command(override_usage = "rdd run COMMAND [ARGS]...")]
    Run(Passthrough),
    /// Change settings, and wait until they are in effect
    Set(Set),
    /// Open a shell in the virtual machine, or run a command there
    #[command(override_usage = "rdd shell [COMMAND [ARGS]...]")]
    Shell(Passthrough),
    /// Start containers and, if enabled, Kubernetes
    Start(Switch),
    /// Show whether everything is ready, and if not, why and what to do
    Status(Status),
    /// Stop containers and Kubernetes; nothing is lost
    Stop(Switch),
}

/// Whether and how long to wait.
#[derive(Debug, Args)]
pub struct Waiting {
    /// Wait until it is done
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set)]
    pub wait: bool,
    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "5m0s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
}

/// What to set.
#[derive(Debug, Args)]
pub struct Set {
    /// Settings, each as PROPERTY=VALUE
    #[arg(value_name = "PROPERTY=VALUE", required = true, num_args = 1..)]
    pub properties: Vec<String>,
    /// Let the server validate the settings without changing anything
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub dry_run: bool,
    /// Whether and how long to wait.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// How to switch on or off.
#[derive(Debug, Args)]
pub struct Switch {
    /// Whether and how long to wait.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// How to delete.
#[derive(Debug, Args)]
pub struct Delete {
    /// Skip confirmation
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub yes: bool,
    /// Whether and how long to wait.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// How to make the machine anew.
#[derive(Debug, Args)]
pub struct Reset {
    /// Recreate only the Kubernetes cluster; containers, images and volumes stay
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub kubernetes: bool,
    /// Skip confirmation
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub yes: bool,
    /// Whether and how long to wait.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// What to show, and for what to wait.
#[derive(Debug, Args)]
pub struct Status {
    /// Print the state as data: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<String>,
    /// Keep showing the state as it changes, until interrupted
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub watch: bool,
    /// Wait until this is ready: engine, kubernetes or settled
    #[arg(long, value_name = "WHAT")]
    pub wait_for: Option<String>,
    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "5m0s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
}

/// What can be done with a LimaVM. Scripts and tests of the original look for the first words of most of these.
#[derive(Debug, Subcommand)]
pub enum LimaVm {
    /// Create a new LimaVM from a template, which is a file, a ConfigMap or a URL
    Create(Create),
    /// Delete a LimaVM with its virtual machine
    Delete(OneVm),
    /// Edit the template of a LimaVM
    Edit(VmName),
    /// Show LimaVM logs
    #[command(alias = "logs")]
    Log(VmLog),
    /// Show or change the parameters that a LimaVM passes to its template
    Params(Params),
    /// Recreate the virtual machine of a LimaVM from its template; its data is lost
    Reset(ResetVm),
    /// Restart a LimaVM, or start one that is stopped
    Restart(OneVm),
    /// Execute shell in Lima VM, or run a command there
    Shell(Passthrough),
    /// Start a LimaVM
    Start(OneVm),
    /// Stop a LimaVM
    Stop(OneVm),
}

/// What to create.
#[derive(Debug, Args)]
pub struct Create {
    /// The machine's name
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
    /// The name of a ConfigMap, a file (write ./NAME for one in this folder), or a URL
    #[arg(value_name = "TEMPLATE", required = true)]
    pub template: String,
    /// The namespace to create it in
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Let the server validate it without keeping anything
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub dry_run: bool,
    /// Start it at once
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub start: bool,
    /// Whether and how long to wait.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Which machine.
#[derive(Debug, Args)]
pub struct VmName {
    /// The machine's name
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
}

/// Which machine, and which values.
#[derive(Debug, Args)]
pub struct Params {
    /// The machine's name
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
    /// NAME=VALUE to set a value, NAME- to go back to the template's own; without any, all are printed
    #[arg(value_name = "CHANGE")]
    pub changes: Vec<String>,
    /// Whether and how long to wait.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Which machine to throw away, whether to ask, and whether to wait.
#[derive(Debug, Args)]
pub struct ResetVm {
    /// The machine's name
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
    /// Skip confirmation
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub yes: bool,
    /// Whether and how long to wait.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Which machine, and whether to wait.
#[derive(Debug, Args)]
pub struct OneVm {
    /// The machine's name
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
    /// Whether and how long to wait.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Which log, and how much of it.
#[derive(Debug, Args)]
pub struct VmLog {
    /// The machine's name
    #[arg(value_name = "INSTANCE", required = true)]
    pub instance: String,
    /// Print what its supervisor wrote to its standard output instead
    #[arg(short = 'o', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub stdout: bool,
    /// Keep printing what is appended, across restarts of the machine
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub follow: bool,
}
