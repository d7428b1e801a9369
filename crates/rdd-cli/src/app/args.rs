//! The commands of the App and of LimaVMs as clap types: names, flags, defaults and help texts. Nothing here runs a command.

use clap::{ArgAction, Args, Subcommand};

use crate::{
    args::Passthrough,
    go::{GoDuration, parse_bool},
};

/// The commands of the App. They are commands of `rdd` itself.
#[derive(Debug, Subcommand)]
pub enum App {
    /// Delete the App with its VM, containers, images and volumes
    Delete(Delete),
    /// Recreate the VM; containers, images and volumes are lost, settings are kept
    Reset(Reset),
    /// Run a command against this instance's containers and Kubernetes, starting them if needed
    #[command(override_usage = "rdd run COMMAND [ARGS]...")]
    Run(Passthrough),
    /// Change settings and wait until they take effect
    Set(Set),
    /// Open a shell in the VM, or run a command in it
    #[command(override_usage = "rdd shell [COMMAND [ARGS]...]")]
    Shell(Passthrough),
    /// Start containers and, if enabled, Kubernetes
    Start(Switch),
    /// Show whether everything is ready, and if not, why and what to do
    Status(Status),
    /// Stop containers and Kubernetes; all data is kept
    Stop(Switch),
}

/// The `--wait` and `--timeout` flags.
#[derive(Debug, Args)]
pub struct Waiting {
    /// Wait for completion
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set)]
    pub wait: bool,
    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "5m0s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
}

/// Arguments of `rdd set`.
#[derive(Debug, Args)]
pub struct Set {
    /// Settings in the form PROPERTY=VALUE
    #[arg(value_name = "PROPERTY=VALUE", required = true, num_args = 1..)]
    pub properties: Vec<String>,
    /// Validate the settings on the server without changing anything
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub dry_run: bool,
    /// The `--wait` and `--timeout` flags.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Arguments of `rdd start` and `rdd stop`.
#[derive(Debug, Args)]
pub struct Switch {
    /// The `--wait` and `--timeout` flags.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Arguments of `rdd delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// Skip confirmation
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub yes: bool,
    /// The `--wait` and `--timeout` flags.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Arguments of `rdd reset`.
#[derive(Debug, Args)]
pub struct Reset {
    /// Recreate only the Kubernetes cluster; containers, images and volumes are kept
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub kubernetes: bool,
    /// Skip confirmation
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub yes: bool,
    /// The `--wait` and `--timeout` flags.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Arguments of `rdd status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Output format: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<String>,
    /// Show changes until interrupted
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub watch: bool,
    /// Wait until WHAT is ready: engine, kubernetes or settled
    #[arg(long, value_name = "WHAT")]
    pub wait_for: Option<String>,
    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "5m0s", allow_hyphen_values = true)]
    pub timeout: GoDuration,
}

/// The commands of `rdd limavm`. Scripts and tests of the original match on the first words of most of these texts.
#[derive(Debug, Subcommand)]
pub enum LimaVm {
    /// Create a new LimaVM from a template: a file, a ConfigMap or a URL
    Create(Create),
    /// Delete a LimaVM with its virtual machine
    Delete(OneVm),
    /// Edit the template of a LimaVM
    Edit(VmName),
    /// Show LimaVM logs
    #[command(alias = "logs")]
    Log(VmLog),
    /// Show or change the parameters of a LimaVM's template
    Params(Params),
    /// Recreate the VM of a LimaVM from its template; its data is lost
    Reset(ResetVm),
    /// Restart a LimaVM; a stopped one is started
    Restart(OneVm),
    /// Execute shell in Lima VM, or run a command in it
    Shell(Passthrough),
    /// Start a LimaVM
    Start(OneVm),
    /// Stop a LimaVM
    Stop(OneVm),
}

/// Arguments of `rdd limavm create`.
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the LimaVM
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
    /// Name of a ConfigMap, path of a file (./NAME for a file in the current folder), or a URL
    #[arg(value_name = "TEMPLATE", required = true)]
    pub template: String,
    /// Namespace of the LimaVM
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Validate on the server without creating anything
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub dry_run: bool,
    /// Start the LimaVM after creating it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub start: bool,
    /// The `--wait` and `--timeout` flags.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// The name of one LimaVM.
#[derive(Debug, Args)]
pub struct VmName {
    /// Name of the LimaVM
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
}

/// Arguments of `rdd limavm params`.
#[derive(Debug, Args)]
pub struct Params {
    /// Name of the LimaVM
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
    /// NAME=VALUE sets a parameter, NAME- resets it to the template's value; without arguments, all are printed
    #[arg(value_name = "CHANGE")]
    pub changes: Vec<String>,
    /// The `--wait` and `--timeout` flags.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Arguments of `rdd limavm reset`.
#[derive(Debug, Args)]
pub struct ResetVm {
    /// Name of the LimaVM
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
    /// Skip confirmation
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub yes: bool,
    /// The `--wait` and `--timeout` flags.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Arguments of `rdd limavm start`, `stop`, `restart` and `delete`.
#[derive(Debug, Args)]
pub struct OneVm {
    /// Name of the LimaVM
    #[arg(value_name = "NAME", required = true)]
    pub name: String,
    /// The `--wait` and `--timeout` flags.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Arguments of `rdd limavm log`.
#[derive(Debug, Args)]
pub struct VmLog {
    /// Name of the LimaVM
    #[arg(value_name = "INSTANCE", required = true)]
    pub instance: String,
    /// Print the host agent's standard output instead of its standard error
    #[arg(short = 'o', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub stdout: bool,
    /// Follow the log, across restarts of the VM
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false")]
    #[arg(default_missing_value = "true", value_parser = parse_bool, action = ArgAction::Set, hide_default_value = true)]
    pub follow: bool,
}
