//! One run of a scenario: a daemon, or a manager next to one, dies at one point and is started again.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

use rdd_instance::{Environment, Instance, Platform};
use rdd_stdx::process::{Process, Signal, background};
use rdd_testkit::{
    Daemon, Probe, Sandbox,
    api::{Ask, Reply, Wire},
    eventually,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Scenario, remains,
    snapshot::{Places, Snapshot},
};

/// The variable with the kill point at which a process dies. Test builds read it.
const VARIABLE: &str = "RDD_TEST_KILL_AT";
/// The log message of a process that dies at its kill point.
const LAST_WORDS: &str = "dying as told";
/// A timeout that is long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// The number of equal snapshots in a row after which the state counts as stable.
const LOOKS_AT_REST: u32 = 4;

/// The snapshot at each mark.
pub(crate) type Marks = BTreeMap<&'static str, Snapshot>;

/// The program that runs the controllers and is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The daemon.
    Daemon,
    /// A program of this name, next to a daemon without controllers.
    Beside(&'static str),
}

/// The process that is killed.
enum Mortal {
    Daemon(Process),
    Beside(Child),
}

impl Mortal {
    fn is_alive(&mut self) -> bool {
        match self {
            Self::Daemon(process) => !process.wait(Duration::ZERO).unwrap(),
            Self::Beside(child) => child.try_wait().unwrap().is_none(),
        }
    }
}

/// A run in progress.
pub(crate) struct Life<'a> {
    scenario: &'a Scenario,
    point: Option<&'a str>,
    /// Whether the kill point has not been reached yet.
    is_armed: bool,
    unhurt: &'a Marks,
    marks: Marks,
    places: Option<Places>,
    api: Option<Api>,
    mortal: Option<Mortal>,
    instance: Instance,
    daemon: Daemon,
    /// Dropped last, because a running cluster's program is in it.
    releases: Option<TempDir>,
}

impl<'a> Life<'a> {
    /// Starts the daemon, which will die at this point.
    pub(crate) fn begin(scenario: &'a Scenario, point: Option<&'a str>, unhurt: &'a Marks) -> Self {
        let releases = scenario.has_releases.then(|| tempfile::Builder::new().prefix("rdd-k3s").tempdir().unwrap());
        let mut builder = Sandbox::builder();
        if let Some(folder) = &releases {
            builder = builder.env("RDD_K3S_DIR", folder.path());
        }
        let sandbox = builder.build();
        let environment = Environment {
            home: Some(sandbox.home().into()),
            instance: Some(sandbox.instance().to_owned()),
            ..Environment::default()
        };
        let mut life = Self {
            scenario,
            point,
            is_armed: point.is_some(),
            unhurt,
            marks: Marks::new(),
            places: None,
            api: None,
            mortal: None,
            instance: Instance::resolve(&environment, Platform::current()).unwrap(),
            daemon: Daemon::of(sandbox),
            releases,
        };
        life.prepare();
        life.start();
        life
    }

    /// Creates the objects that the scenario needs before any controller runs.
    fn prepare(&mut self) {
        let Some(prepare) = self.scenario.prepare else { return };
        self.daemon.rdd(&["svc", "start", "--controllers="]).expect_success();
        let api = Api(Wire::of(&self.daemon));
        eventually("what there is before", SOON, || prepare(&api));
        self.daemon.rdd(&["svc", "stop"]).expect_success();
    }

    /// The folder with Kubernetes releases.
    pub(crate) fn releases(&self) -> &Path {
        self.releases.as_ref().expect("the scenario has releases").path()
    }

    /// The socket path of the instance's engine. Its folder exists.
    pub(crate) fn docker_socket(&self) -> PathBuf {
        let socket = self.instance.paths.docker_socket.clone();
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        socket
    }

    fn arm(&self, command: &mut Command) {
        if let Some(point) = self.point.filter(|_| self.is_armed) {
            command.env(VARIABLE, point);
        }
    }

    fn start(&mut self) {
        match self.scenario.program {
            Program::Daemon => self.start_daemon(),
            Program::Beside(name) => self.start_beside(name),
        }
    }

    fn start_daemon(&mut self) {
        let selection = self.scenario.controllers.map(|names| format!("--controllers={names}"));
        let arguments: Vec<&str> = ["svc", "start"].into_iter().chain(selection.as_deref()).collect();
        let mut command = self.daemon.command(&arguments);
        self.arm(&mut command);
        let output = self.daemon.run(command);
        if output.code != Some(0) {
            // It died before it was ready; the start command reports that at once.
            assert!(self.is_armed && self.died_as_told(), "{}", output.stderr);
            assert_eq!(output.code, Some(1), "{}", output.stderr);
            self.mortal = None;
            return;
        }
        let pid = fs::read_to_string(&self.instance.paths.pid_file).ok().and_then(|text| text.trim().parse().ok());
        self.mortal = pid.and_then(|pid| Process::open(pid).unwrap()).map(Mortal::Daemon);
        self.api = Some(Api(Wire::of(&self.daemon)));
    }

    fn start_beside(&mut self, name: &str) {
        if self.api.is_none() {
            self.daemon.rdd(&["svc", "start", "--controllers="]).expect_success();
            self.api = Some(Api(Wire::of(&self.daemon)));
        }
        let program = self.daemon.home().join(name);
        if !program.exists() {
            symlink(self.daemon.binary(), &program).unwrap();
        }
        let mut command = background(&program, Path::new("/"));
        self.daemon.dress(&mut command);
        // This PATH has no `rdd`: the program finds it next to the link's target.
        command.env("PATH", "/nonexistent");
        self.arm(&mut command);
        command.stderr(File::create(self.log()).unwrap());
        self.mortal = Some(Mortal::Beside(command.spawn().unwrap()));
    }

    /// The log of the process that is killed.
    fn log(&self) -> PathBuf {
        match self.scenario.program {
            Program::Daemon => self.instance.paths.stderr_log.clone(),
            Program::Beside(name) => self.daemon.home().join(format!("{name}.log")),
        }
    }

    fn died_as_told(&self) -> bool {
        fs::read_to_string(self.log()).is_ok_and(|log| log.contains(LAST_WORDS))
    }

    fn is_alive(&mut self) -> bool {
        self.mortal.as_mut().is_some_and(Mortal::is_alive)
    }

    /// Starts the next process if there is none.
    fn heal(&mut self) {
        if self.is_alive() {
            return;
        }
        assert!(self.is_armed && self.died_as_told(), "it died, and not as it was told; see {}", self.log().display());
        self.is_armed = false;
        self.start();
    }

    /// Kills the process at once and starts the next one; the kill point may still follow.
    pub(crate) fn kill(&mut self) {
        self.heal();
        if let Some(Mortal::Daemon(process)) = &self.mortal {
            process.signal(Signal::KILL).unwrap();
            assert!(process.wait(SOON).unwrap());
            self.is_armed &= !self.died_as_told();
            self.start();
        }
    }

    /// Waits until a check succeeds, with whichever daemon is running.
    #[track_caller]
    pub(crate) fn until<P: Probe>(&mut self, what: &str, mut look: impl FnMut(&Api) -> P) -> P::Found {
        let what = format!("{what}, in {:?} with {}", self.scenario.name, self.point.unwrap_or("no kill"));
        eventually(&what, SOON, || {
            self.heal();
            match &self.api {
                // The error is the check's, or that no daemon runs.
                Some(api) => look(api).look(),
                None => Err("there is no daemon".to_owned()),
            }
        })
    }

    /// Creates an object unless it exists.
    #[track_caller]
    pub(crate) fn make(&mut self, path: &str, object: &Value) {
        self.until(&format!("POST {path}"), |api| api.write("POST", path, object, &[201, 409]));
    }

    /// Patches an object.
    #[track_caller]
    pub(crate) fn merge(&mut self, path: &str, patch: &Value) {
        self.until(&format!("PATCH {path}"), |api| api.write("PATCH", path, patch, &[200]));
    }

    /// Deletes an object and waits until it is gone.
    #[track_caller]
    pub(crate) fn delete(&mut self, path: &str) {
        self.until(&format!("DELETE {path}"), |api| api.write("DELETE", path, &Value::Null, &[200, 202, 404]));
        self.until(&format!("the end of {path}"), |api| api.is_gone(path));
    }

    /// Takes a snapshot at a mark: the run without a kill stores it, and every other run has to reach the same state.
    #[track_caller]
    pub(crate) fn mark(&mut self, name: &'static str) {
        let look = |life: &mut Self, what: &str, wanted: Option<&Snapshot>| {
            let (home, instance) = (life.daemon.home().to_owned(), life.daemon.instance().to_owned());
            let mut places = life.places.take();
            let (mut last, mut looks) = (None, 0);
            let found = life.until(what, |api| {
                if places.is_none() {
                    places = Some(Places::of(api)?);
                }
                let now = places.as_ref().expect("they were just found").look(api, &home, &instance)?;
                if let Some(wanted) = wanted {
                    return if now == *wanted { Ok(now) } else { Err(wanted.difference(&now)) };
                }
                looks = if last.as_ref() == Some(&now) { looks + 1 } else { 0 };
                last = Some(now.clone());
                if looks >= LOOKS_AT_REST { Ok(now) } else { Err("it still changes".to_owned()) }
            });
            life.places = places;
            found
        };
        let unhurt = self.unhurt;
        let found = match self.point {
            Some(_) => {
                let wanted = unhurt.get(name).expect("an unhurt life came by here");
                look(self, &format!("the mark {name:?}"), Some(wanted))
            }
            None => look(self, &format!("rest at {name:?}"), None),
        };
        self.marks.insert(name, found);
    }

    /// The paths and names of the VM's engine.
    pub(crate) fn engine(&self) -> rdd_instance::Engine {
        remains::engine(&self.instance, self.scenario.machine.expect("the scenario has a machine"))
    }

    /// Checks that the process died at its kill point and that nothing is left.
    pub(crate) fn end(mut self) -> Marks {
        if self.is_armed {
            let point = self.point.unwrap_or_default().to_owned();
            eventually(&format!("death at {point}: the life does not come by there"), Duration::from_secs(10), || {
                (!self.is_alive()).then_some(())
            });
            self.heal();
        }
        self.mark("end");
        if let Some(machine) = self.scenario.machine {
            let left = remains::of(&self.instance, machine);
            assert!(left.is_empty(), "left behind: {left:?}");
        }
        let expected = if self.scenario.program == Program::Daemon { 1 } else { 2 };
        eventually("no process but those that should be there", SOON, || {
            let found = self.daemon.processes();
            let running = found.iter().filter(|process| !process.is_zombie()).count();
            if running == expected { Ok(()) } else { Err(format!("{found:?}")) }
        });
        if let Some(Mortal::Beside(child)) = &mut self.mortal {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        self.marks
    }
}

/// A client of the API of a daemon that may be dead.
pub(crate) struct Api(Wire);

impl Api {
    pub(crate) fn ask(&self, ask: &Ask) -> Result<Reply, String> {
        self.0.try_ask(ask).map_err(|error| error.to_string())
    }

    /// The object; an error if it does not exist.
    pub(crate) fn get(&self, path: &str) -> Result<Value, String> {
        let reply = self.ask(&Ask::new("GET", path))?;
        if reply.code == 200 { Ok(reply.json()) } else { Err(format!("{path}: {} {}", reply.code, reply.text())) }
    }

    /// Succeeds if the object does not exist.
    pub(crate) fn is_gone(&self, path: &str) -> Result<(), String> {
        let reply = self.ask(&Ask::new("GET", path))?;
        if reply.code == 404 { Ok(()) } else { Err(format!("{} {}", reply.code, reply.text())) }
    }

    /// Writes; these status codes are successes.
    pub(crate) fn write(&self, method: &str, path: &str, body: &Value, codes: &[u16]) -> Result<(), String> {
        let ask = Ask::new(method, path);
        let ask = match method {
            "DELETE" => ask,
            "PATCH" => ask.body("application/merge-patch+json", body.to_string()),
            _ => ask.json(body),
        };
        let reply = self.ask(&ask)?;
        if codes.contains(&reply.code) { Ok(()) } else { Err(format!("{} {}", reply.code, reply.text())) }
    }
}

/// An object of one of the product's kinds.
pub(crate) fn object(group: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Succeeds if an object's condition has this status at the current generation.
pub(crate) fn says(object: &Value, condition: &str, status: &str) -> Result<(), String> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|one| one["type"] == condition).cloned().unwrap_or_default();
    let is_current = found["observedGeneration"] == object["metadata"]["generation"];
    if found["status"] == status && is_current { Ok(()) } else { Err(object["status"].to_string()) }
}
