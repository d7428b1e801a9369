//! Tests the contract of drivers with the real `limactl`: rules without a boot, and one rule about a whole life with a boot.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rdd_driver::{
    Driver,
    lima::{LimaDriver, template_cases},
    suite::Subject,
};
use rdd_instance::{Environment, Instance, Platform};
use rdd_stdx::process::{Process, Signal};
use rdd_testkit::processes::Table;

use crate::guest::{BOOT, User, finish};

/// Set in the process that runs the rules.
const RUNS_RULES: &str = "RDD_VM_CONTRACT";
/// The rules that are worth their time here. The others take several boots each; the scenario covers them with a real VM, and `rdd-driver`
/// runs each of them with a stand-in.
const RULES: &[&str] = &[
    "a_machine_is_made_started_stopped_and_deleted_and_leaves_nothing",
    "what_is_absent_can_be_stopped_and_deleted_but_not_started",
    "a_name_that_is_no_name_is_refused_everywhere",
    "a_half_made_machine_is_known_and_made_anew",
    "a_bad_template_is_refused_with_reasons_and_changes_nothing",
];

/// Runs this test program again as the user, because `limactl` refuses to run as root.
pub(crate) fn the_driver_keeps_its_contract(user: &User) {
    let program = user.home.join("contract");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for rule in RULES {
        let mut command = user.command(&program);
        command.args(["--exact", &format!("contract::{rule}"), "--nocapture"]).env(RUNS_RULES, "1");
        // Another instance, so that the scenario finds nothing of it.
        let output = finish(command.env("RDD_INSTANCE", "c"));
        let passed = output.code == Some(0) && output.stdout.contains("1 passed");
        assert!(passed, "{rule}\n{}\n{}", output.stdout, output.stderr);
    }
    fs::remove_file(program).unwrap();
    limactl_judges_templates_as_we_do(user);
}

/// Finding E-2: rdd's own check of templates accepts and rejects what the `limactl` of this repository does; with Lima 2, also with the
/// same text.
fn limactl_judges_templates_as_we_do(user: &User) {
    let version = user.bare_limactl(&["--version"]).expect_success().stdout;
    let is_lima_1 = version.starts_with("limactl version 1.");
    let path = user.home.join("case.yaml");
    // Files that some of the templates name.
    for (name, text) in [("p.sh", "#!/bin/sh\necho $PARAM_A\n"), ("p.yaml", "- hosts: all\n")] {
        fs::write(user.home.join(name), text).unwrap();
    }
    let validate = |lines: &str| {
        fs::write(&path, format!("{}{lines}\n", template_cases::IMAGES)).unwrap();
        user.bare_limactl(&["template", "validate", &path.to_string_lossy()])
    };
    let mut differences = Vec::new();
    for lines in template_cases::ACCEPTED {
        let output = validate(lines);
        if output.code != Some(0) {
            differences.push(format!("{lines}\n  is refused: {}", output.stderr));
        }
    }
    for (lines, words) in template_cases::REFUSED {
        let output = validate(lines);
        // Log records escape quotes. The text may differ in the version.
        let answer = output.stderr.replace("\\\"", "\"").replace("\\\\", "\\");
        let words = words.split("; this is only ").next().unwrap_or_default();
        let is_known = is_lima_1 && template_cases::ACCEPTED_BY_LIMA_1.contains(lines);
        if (output.code == Some(0)) != is_known {
            differences.push(format!("{lines}\n  ends with {:?}: {answer}", output.code));
        } else if !is_lima_1 && !answer.contains(words) {
            differences.push(format!("{lines}\n  should be refused with {words}, and is with {answer}"));
        }
    }
    assert!(differences.is_empty(), "{version}{}", differences.join("\n"));
    for name in ["case.yaml", "p.sh", "p.yaml"] {
        fs::remove_file(user.home.join(name)).unwrap();
    }
}

rdd_driver::contract!(RealLima::for_rule);

/// The VMs of an instance of this process's user.
struct RealLima {
    instance: Instance,
    environment: Environment,
    image: String,
}

impl RealLima {
    /// `None` in a process that the scenario did not start; the scenario runs these rules in a process of its own.
    fn for_rule(name: &str) -> Option<Self> {
        env::var_os(RUNS_RULES)?;
        assert!(RULES.contains(&name), "{name} is not run with a real machine");
        let environment = Environment::of_process();
        let instance = Instance::resolve(&environment, Platform::Linux).unwrap();
        let image = fs::read_to_string(env::var_os("RDD_VM_IMAGE").expect("the scenario names it")).unwrap();
        Some(Self { instance, environment, image })
    }

    fn folder(&self, vm: &str) -> PathBuf {
        self.instance.paths.lima_home.join(vm)
    }

    /// The folder with the driver's own files.
    fn own_folder(&self) -> PathBuf {
        self.instance.paths.lima_home.join(".rdd")
    }

    fn signal(&self, vm: &str, file: &str, signal: Signal) {
        let text = fs::read_to_string(self.folder(vm).join(file)).unwrap();
        let process = Process::open(text.trim().parse().unwrap()).unwrap().expect("it runs");
        process.signal(signal).unwrap();
    }
}

impl Subject for RealLima {
    fn driver(&self) -> Arc<dyn Driver> {
        // Without hardware acceleration, the product starts QEMU with its own arguments.
        let product = Path::new(&self.environment.home.clone().unwrap()).join("rdd");
        Arc::new(LimaDriver::new(&self.instance, &self.environment, Some(product)))
    }

    fn template(&self, number: u32) -> String {
        let Self { image, .. } = self;
        format!(
            "vmType: qemu\ncpus: {number}\nmemory: 1GiB\nmounts: []\ncontainerd: {{system: false, user: false}}\n\
             ssh: {{loadDotSSHPubKeys: false}}\n{image}"
        )
    }

    fn bad_template(&self) -> String {
        "vmType: qemu\ncpus: 2\n".to_owned()
    }

    fn crash(&self, vm: &str) {
        self.signal(vm, "ha.pid", Signal::KILL);
        self.signal(vm, "qemu.pid", Signal::KILL);
    }

    fn hang(&self, vm: &str) {
        self.signal(vm, "qemu.pid", Signal::STOP);
    }

    fn half_make(&self, vm: &str) {
        fs::create_dir_all(self.own_folder()).unwrap();
        fs::write(self.own_folder().join(format!("{vm}.preparing")), "").unwrap();
        fs::create_dir_all(self.folder(vm)).unwrap();
        fs::write(self.folder(vm).join("lima.yaml"), self.template(1)).unwrap();
    }

    fn maim(&self, vm: &str) {
        self.signal(vm, "ha.pid", Signal::KILL);
    }

    fn leftovers(&self, vm: &str) -> Vec<String> {
        let own = self.own_folder();
        let files = [self.folder(vm), own.join(format!("{vm}.preparing")), own.join(format!("{vm}.launch.json"))];
        let mut left: Vec<_> =
            files.iter().filter(|path| path.exists()).map(|path| path.display().to_string()).collect();
        let folder = self.folder(vm).display().to_string();
        let table = Table::read().expect("the processes can be listed");
        let processes = table.iter().map(|process| process.arguments.join(" "));
        left.extend(processes.filter(|words| words.contains(&folder)));
        left
    }

    fn patience(&self) -> Duration {
        BOOT
    }

    fn grace(&self) -> Duration {
        BOOT
    }
}
