//! Kubernetes in the guest: K3s as a unit of the guest's systemd, controlled over SSH.
//!
//! One script (`k3s.sh`) performs all commands. It goes to the guest's shell by standard input, its arguments by
//! command line. The machine's template forwards a socket of the host to the port of K3s in the guest.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::Ordering,
    time::Duration,
};

use rdd_stdx::{
    file::{self, PRIVATE},
    owned,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
};

use super::{LimaDriver, Slot, events::Tail, limactl::Limactl, machine::Machine, words};
use crate::{
    Cluster, ClusterFound, Error, Found, Foundation, Health, Pending, Reporter, Run, State, Stopped, Template,
    Upstream, Wanted, identity::LIMA_MARK, kubelet, log,
};

const SCRIPT: &str = include_str!("k3s.sh");
/// The guest's folders in which the script keeps programs and images.
const PROGRAMS: &str = "/usr/local/lib/rdd";
const IMAGES: &str = "/var/lib/rancher/k3s/agent/images";

/// The timeout of a command in the guest; an emulated guest is slow.
pub(super) const QUESTION_TAKES: Duration = Duration::from_secs(60);
/// The timeout for copying a program or an archive of images into the guest.
const COPY_TAKES: Duration = Duration::from_secs(900);
/// The grace period of a cluster that is reset or replaced.
const REPLACE_GRACE: Duration = Duration::from_secs(20);
/// The additional time that the script gets beyond its grace period.
const MARGIN: Duration = Duration::from_secs(30);
/// The maximum size of a reply.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The file that records, for a guest that does not run, which release used the cluster's data last.
const RECORD: &str = "k3s-version";

/// This file marks a cluster whose reset is pending, because its guest did not run; the next start of a cluster
/// performs it.
const FORGOTTEN: &str = "k3s-forgotten";

/// The host socket in the App's template to which the port of Kubernetes is forwarded.
const SOCKET: &str = "{{.Param.HOST_KUBERNETES_SOCKET}}";

/// The guest of a running machine, and the way to run commands in it.
pub(super) struct Guest<'a> {
    pub(super) machine: &'a Machine,
    limactl: Limactl,
}

impl<'a> Guest<'a> {
    /// The guest of a machine.
    ///
    /// # Errors
    /// [`Error::NotRunning`] unless the machine is up: a guest that boots or shuts down cannot run commands.
    fn of(machine: &'a Machine) -> Result<Self, Error> {
        // A live agent is not enough: its events show whether the guest has booted.
        let is_alive = matches!(machine.look()?, Found::Running(_));
        let told = Tail::new(machine.folder.join(log::EVENTS)).latest();
        if is_alive && matches!(told, Ok(Some(State::Running(_)))) {
            return Ok(Self { machine, limactl: machine.host.limactl()? });
        }
        Err(Error::NotRunning { vm: machine.vm.clone() })
    }

    fn command(&self, words: &[&str]) -> Result<Command, Error> {
        let mut command = self.limactl.command(&self.machine.folder);
        // Without --workdir, limactl tries the host's current folder in the guest.
        command.args(["shell", "--workdir", "/", &self.machine.vm, "sudo"]).args(words);
        self.machine.launch()?.mark(&mut command, LIMA_MARK, &self.machine.folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        Ok(command)
    }

    fn failed(words: &[&str]) -> impl Fn(String) -> Error + use<> {
        let program = format!("{} in the guest", words.join(" "));
        move |message| Error::Program { program: program.clone(), message }
    }

    /// Runs the script with these arguments and returns its output.
    pub(super) async fn ask(&self, words: &[&str], takes: Duration) -> Result<String, Error> {
        let failed = Self::failed(words);
        let mut child = self.start(words).await?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let work = async { tokio::join!(read(stdout), read(stderr), child.wait()) };
        let (answer, complaint, status) =
            tokio::time::timeout(takes, work).await.map_err(|_| failed(format!("it did not end within {takes:?}")))?;
        match status.map_err(|error| failed(error.to_string()))? {
            status if status.success() => Ok(answer),
            status => Err(failed(last_line(&complaint).unwrap_or_else(|| status.to_string()))),
        }
    }

    /// Starts the script with these arguments.
    async fn start(&self, words: &[&str]) -> Result<Child, Error> {
        let failed = Self::failed(words);
        let mut command = self.command(&[&["/bin/sh", "-s", "--"], words].concat())?;
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A shell that ends without reading the script reports the reason by its status and error output.
            let _ = tokio::time::timeout(QUESTION_TAKES, stdin.write_all(SCRIPT.as_bytes())).await;
        }
        Ok(child)
    }

    /// Copies a file of the host into the guest.
    async fn copy(&self, from: &Path, to: &str) -> Result<(), Error> {
        let failed = Self::failed(&["copying a file"]);
        let source = File::open(from).map_err(Error::at("open", from))?;
        let place = format!("of={to}");
        let mut command = self.command(&["dd", &place, "bs=1M", "status=none"])?;
        let child = command.stdin(source).spawn().map_err(|error| failed(error.to_string()))?;
        let output = tokio::time::timeout(COPY_TAKES, child.wait_with_output())
            .await
            .map_err(|_| failed(format!("it did not end within {COPY_TAKES:?}")))?;
        let output = output.map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        Err(failed(last_line(&complaint).unwrap_or_else(|| output.status.to_string())))
    }

    async fn forget(&self) -> Result<(), Error> {
        self.ask(&["reset"], QUESTION_TAKES + MARGIN).await.map(drop)
    }

    /// Reads the state of the cluster, and stores in the slot whether there is something to warn about.
    async fn find(&self, slot: &Slot) -> Result<ClusterFound, Error> {
        let status = parse_status(&self.ask(&["status"], QUESTION_TAKES).await?)
            .ok_or_else(|| Self::failed(&["status"])("it gave no answer".to_owned()))?;
        slot.has_cgroup_v1.store(status.has_cgroup_v1, Ordering::Relaxed);
        Ok(status.cluster)
    }

    /// Copies the program and the images of a release into the guest, unless they are there.
    async fn install(&self, wanted: &Wanted, engine: &str) -> Result<(), Error> {
        let bytes = std::fs::metadata(&wanted.program).map_err(Error::at("look at", &wanted.program))?.len();
        self.ask(&["prepare"], QUESTION_TAKES).await?;
        let has = self.ask(&["has", &wanted.version, &bytes.to_string()], QUESTION_TAKES).await?;
        // The guest has no copy of this release, or one of another size.
        if has.trim() != "yes" {
            self.copy(&wanted.program, &format!("{PROGRAMS}/k3s-{}.new", wanted.version)).await?;
            self.ask(&["install", &wanted.version], QUESTION_TAKES).await?;
        }
        self.bring(&wanted.images, engine).await
    }

    /// Makes the guest's images folder contain exactly these archives, and loads them into the runtime of the pods.
    async fn bring(&self, archives: &[PathBuf], engine: &str) -> Result<(), Error> {
        let mut words = vec!["images".to_owned(), engine.to_owned()];
        for archive in archives {
            let bytes = std::fs::metadata(archive).map_err(Error::at("look at", archive))?.len().to_string();
            let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if self.ask(&["holds", &name, &bytes], QUESTION_TAKES).await?.trim() != "yes" {
                self.copy(archive, &format!("{IMAGES}/{name}")).await?;
            }
            words.push(name);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.ask(&words, COPY_TAKES).await.map(drop)
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // After an error, the part that was read is the output.
        let _ = from.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn last_line(text: &str) -> Option<String> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(words::fit)
}

/// The reply to `status`.
#[derive(Debug, PartialEq, Eq)]
struct GuestStatus {
    cluster: ClusterFound,
    has_cgroup_v1: bool,
}

fn parse_status(answer: &str) -> Option<GuestStatus> {
    let mut lines = answer.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next()?;
    let cluster = match line.split_once(' ') {
        None if line == "absent" => ClusterFound::Absent,
        Some(("stopped", version)) => ClusterFound::Stopped { version: version.to_owned() },
        Some(("running", version)) => ClusterFound::Running { version: version.to_owned() },
        _ => return None,
    };
    Some(GuestStatus { cluster, has_cgroup_v1: lines.any(|line| line == "control-groups v1") })
}

fn parse_foundation(said: &str) -> Option<Foundation> {
    let (word, authority) = said.trim_start().split_once('\n')?;
    let authority = Some(authority.to_owned()).filter(|text| !text.trim().is_empty())?;
    // Anything but "new" means that a user may have used the data.
    Some(Foundation { authority, is_new: word.trim() == "new" })
}

/// Parses the start time. The guest reports whole seconds, so round up: files of that second may be older than the
/// start.
fn parse_start(said: &str) -> Option<Duration> {
    said.trim().parse::<u64>().ok().map(|seconds| Duration::from_secs(seconds + 1))
}

/// The guest port that this template forwards to the socket of Kubernetes.
fn guest_port(template: &str) -> Option<u16> {
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed: Value = serde_saphyr::from_str_with_options(template, options).ok()?;
    let rule = parsed["portForwards"].as_array()?.iter().find(|rule| rule["hostSocket"].as_str() == Some(SOCKET))?;
    rule["guestPort"].as_u64().and_then(|port| u16::try_from(port).ok())
}

impl Machine {
    fn record(&self) -> PathBuf {
        self.folder.join(RECORD)
    }

    fn forgotten(&self) -> PathBuf {
        self.folder.join(FORGOTTEN)
    }

    /// The recorded state of the cluster, without asking the guest.
    fn recorded_cluster(&self) -> ClusterFound {
        match owned::read_to_string(&self.record()) {
            Ok(version) => ClusterFound::Stopped { version: version.trim().to_owned() },
            Err(_) => ClusterFound::Absent,
        }
    }

    /// The guest port of the cluster: the one that the running template forwards to the instance's socket. It does not
    /// depend on the published port.
    fn guest_port(&self) -> Option<u16> {
        guest_port(&self.started_with().ok().flatten()?)
    }

    /// The engine in the guest, from the template.
    fn engine_name(&self) -> String {
        let template = self.started_with().ok().flatten().and_then(|text| Template::parse(&text).ok());
        template
            .and_then(|template| template.param.get("CONTAINER_ENGINE").cloned())
            .unwrap_or_else(|| "moby".to_owned())
    }
}

impl Slot {
    fn cluster_warning(&self, version: &str) -> Option<String> {
        let has_cgroup_v1 = self.has_cgroup_v1.load(Ordering::Relaxed);
        kubelet::warn_of_cgroup_v1(version, "the virtual machine").filter(|_| has_cgroup_v1)
    }
}

impl LimaDriver {
    async fn start_cluster(&self, machine: &Machine, slot: &Slot, wanted: &Wanted) -> Result<Run, Error> {
        let guest = Guest::of(machine)?;
        // A reset while the guest was stopped could not remove the data: do it now.
        if machine.forgotten().symlink_metadata().is_ok() {
            guest.forget().await?;
            file::remove_if_present(&machine.forgotten())?;
        }
        let found = guest.find(slot).await?;
        // The right release runs already: keep its watch, or begin a new one after a restart of the daemon.
        if found == (ClusterFound::Running { version: wanted.version.clone() }) {
            return match slot.cluster.under_way() {
                Some(run) => Ok(run),
                None => Self::watch_cluster(machine, slot).await,
            };
        }
        // Another release runs: replace it.
        if found.is_running() {
            self.end_cluster(machine, slot, REPLACE_GRACE, "replaced").await?;
        }
        let engine = machine.engine_name();
        guest.install(wanted, &engine).await?;
        // Record before the start: from now on the guest may have data of this release.
        file::write_atomic(&machine.record(), wanted.version.as_bytes(), PRIVATE)?;
        let node = format!("lima-{}", machine.vm);
        let port = machine.guest_port().unwrap_or(wanted.port).to_string();
        // Last: copying takes a while, and nothing may come between setting the clock and starting K3s.
        guest.set_clock_right(&*self.clock).await?;
        let words = ["start", &wanted.version, &port, &node, &engine];
        guest.ask(&words, QUESTION_TAKES).await?;
        if let Some(warning) = slot.cluster_warning(&wanted.version) {
            tracing::warn!(vm = machine.vm, warning, "Kubernetes was started on what it does not support");
        }
        tracing::info!(
            vm = machine.vm,
            version = wanted.version,
            "started Kubernetes; its log is the journal of rdd-k3s"
        );
        Self::watch_cluster(machine, slot).await
    }

    async fn watch_cluster(machine: &Machine, slot: &Slot) -> Result<Run, Error> {
        slot.cluster.end().await;
        let mut child = Guest::of(machine)?.start(&["watch"]).await?;
        Ok(slot.cluster.begin("k3s", |reporter| Box::pin(async move { supervise(&mut child, reporter).await })))
    }

    async fn end_cluster(&self, machine: &Machine, slot: &Slot, grace: Duration, word: &str) -> Result<Stopped, Error> {
        let reporter = slot.cluster.end().await;
        let stopped = match Guest::of(machine) {
            Ok(guest) => {
                let said = guest.ask(&["stop", &grace.as_secs().max(1).to_string()], grace + MARGIN).await?;
                match said.trim() {
                    "graceful" => Stopped::Graceful,
                    "forced" => Stopped::Forced,
                    _ => Stopped::Already,
                }
            }
            // The cluster stopped with its machine.
            Err(Error::NotRunning { .. }) => Stopped::Already,
            Err(error) => return Err(error),
        };
        if let Some(reporter) = reporter {
            reporter.report(stopped.exited(word));
        }
        Ok(stopped)
    }
}

/// Reports the lines of the script's `watch` until it ends.
async fn supervise(child: &mut Child, reporter: &Reporter) {
    let mut last_words = "the connection to the guest has ended".to_owned();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match line.trim() {
                "up" => reporter.report(State::Running(Health::GOOD)),
                said => {
                    if let Some(line) = said.strip_prefix("ended") {
                        let cause = log::find_cause(line).unwrap_or_else(|| "it left no word".to_owned());
                        last_words = format!("k3s has ended: {}", words::fit(&cause));
                    }
                }
            }
        }
    }
    // Reap the connection; its status adds nothing to the script's output.
    let _ = child.wait().await;
    reporter.report(State::Exited { last_words });
}

impl Cluster for LimaDriver {
    /// Checks only that the machine is complete: the guest's image has everything, and the K3s in a guest is always a
    /// release.
    fn check<'a>(&'a self, vm: &'a str, _program: Option<&'a Path>) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move { self.machine(vm)?.expect_whole() })
    }

    fn used_release(&self, vm: &str) -> Option<String> {
        self.machine(vm).ok()?.recorded_cluster().version().map(str::to_owned)
    }

    fn warning(&self, vm: &str, version: &str) -> Option<String> {
        self.slot(vm).cluster_warning(version)
    }

    fn started_at<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Duration>, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            match Guest::of(&machine) {
                Ok(guest) => Ok(parse_start(&guest.ask(&["started"], QUESTION_TAKES).await?)),
                Err(Error::NotRunning { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn inspect<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<ClusterFound, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            match Guest::of(&machine) {
                // A machine without a record never had a cluster, so the guest need not be asked.
                Ok(guest) if machine.recorded_cluster() != ClusterFound::Absent => guest.find(&self.slot(vm)).await,
                Ok(_) => Ok(ClusterFound::Absent),
                Err(Error::NotRunning { .. }) => Ok(machine.recorded_cluster()),
                Err(error) => Err(error),
            }
        })
    }

    fn start<'a>(&'a self, vm: &'a str, wanted: &'a Wanted) -> Pending<'a, Result<Run, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.cluster_turn.lock().await;
            machine.expect_whole()?;
            self.start_cluster(&machine, &slot, wanted).await
        })
    }

    fn stop<'a>(&'a self, vm: &'a str, grace: Duration) -> Pending<'a, Result<Stopped, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.cluster_turn.lock().await;
            self.end_cluster(&machine, &slot, grace, "stopped").await
        })
    }

    fn kubeconfig<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<String>, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            match Guest::of(&machine) {
                Ok(guest) => {
                    let text = guest.ask(&["config"], QUESTION_TAKES).await?;
                    Ok(Some(text).filter(|text| !text.trim().is_empty()))
                }
                Err(Error::NotRunning { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn upstream<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Upstream>, Error>> {
        Box::pin(async move {
            let socket = &self.instance.paths.kubernetes_socket;
            let found = Cluster::inspect(self, vm).await?;
            Ok(found.is_running().then(|| Upstream::unix(socket)))
        })
    }

    fn foundation<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Foundation>, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            match Guest::of(&machine) {
                Ok(guest) => Ok(parse_foundation(&guest.ask(&["foundation"], QUESTION_TAKES).await?)),
                Err(Error::NotRunning { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn confirm<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            Guest::of(&machine)?.ask(&["confirm"], QUESTION_TAKES).await.map(drop)
        })
    }

    fn reset<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.cluster_turn.lock().await;
            if machine.recorded_cluster() == ClusterFound::Absent {
                return Ok(());
            }
            self.end_cluster(&machine, &slot, REPLACE_GRACE, "forgotten").await?;
            match Guest::of(&machine) {
                Ok(guest) => guest.forget().await?,
                // The disk of a stopped machine is not reachable; the next start performs the reset.
                Err(Error::NotRunning { .. }) => file::write_atomic(&machine.forgotten(), b"", PRIVATE)?,
                Err(error) => return Err(error),
            }
            Ok(file::remove_if_present(&machine.record())?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_listens_where_the_template_of_the_machine_leads() {
        let rules = |port: &str| {
            format!(
                "portForwards:\n- guestPort: 1\n  hostSocket: /x\n- guestPort: {port}\n  hostSocket: \"{SOCKET}\"\n"
            )
        };
        assert_eq!(guest_port(&rules("7443")), Some(7443));
        for other in ["", "[", "portForwards: 1", &rules("0x"), &rules("99999")] {
            assert_eq!(guest_port(other), None, "{other}");
        }
    }

    #[test]
    fn a_start_is_the_second_after_the_file_that_it_wrote() {
        assert_eq!(parse_start("1700000000\n"), Some(Duration::from_secs(1_700_000_001)));
        assert_eq!(parse_start(""), None);
    }

    #[test]
    fn only_what_the_guest_calls_new_is_new() {
        let found = |is_new| Some(Foundation { authority: "-----BEGIN\n".to_owned(), is_new });
        for (said, expected) in [
            ("new\n-----BEGIN\n", found(true)),
            ("used\n-----BEGIN\n", found(false)),
            ("newer\n-----BEGIN\n", found(false)),
            ("new\n", None),
            ("", None),
        ] {
            assert_eq!(parse_foundation(said), expected, "{said:?}");
        }
    }

    #[test]
    fn what_the_guest_says_of_its_cluster_is_understood() {
        let status = |cluster, has_cgroup_v1| Some(GuestStatus { cluster, has_cgroup_v1 });
        let running = || ClusterFound::Running { version: "v1.34.6+k3s1".to_owned() };
        for (said, found) in [
            ("absent\n", status(ClusterFound::Absent, false)),
            ("stopped v1.34.6+k3s1\n", status(ClusterFound::Stopped { version: "v1.34.6+k3s1".to_owned() }, false)),
            ("\nrunning v1.34.6+k3s1\n", status(running(), false)),
            ("running v1.34.6+k3s1\ncontrol-groups v1\n", status(running(), true)),
            ("", None),
            ("walking v1", None),
        ] {
            assert_eq!(parse_status(said), found, "{said:?}");
        }
    }
}
