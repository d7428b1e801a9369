//! Finds what a deleted VM may have left on this host.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rdd_instance::{Engine, Instance};
use rdd_stdx::process::background;

/// The environment variable that marks the processes of a VM.
const MARK: &str = "RDD_HOST_ENGINE";

/// The paths and names of a VM's engine.
pub(crate) fn engine(instance: &Instance, machine: &str) -> Engine {
    instance.engine(machine, Path::new("/run"))
}

/// Everything that is left of a VM: folders, sockets, devices, packet filter rules, mounts, cgroups, processes.
pub(crate) fn of(instance: &Instance, machine: &str) -> Vec<String> {
    let engine = engine(instance, machine);
    let places = [&engine.folder, &engine.run_dir, &engine.docker_socket, &instance.paths.docker_socket];
    let places = places.into_iter().filter(|path| path.symlink_metadata().is_ok());
    let mut left: Vec<String> = places.map(|path| path.display().to_string()).collect();
    if said("ip", &["link"]).contains(&engine.bridge) {
        left.push(format!("device {}", engine.bridge));
    }
    for table in ["nat", "mangle", "filter"] {
        if said("iptables", &["--wait", "-t", table, "-S"]).contains(&engine.chain) {
            left.push(format!("rules in {table}"));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
    let ours = points.filter(|point| point.starts_with(&engine.folder) || point.starts_with(&engine.run_dir));
    left.extend(ours.map(|point| format!("mount {}", point.display())));
    let cgroups = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let groups = cgroups.chain([PathBuf::from("/sys/fs/cgroup")]);
    let groups = groups.map(|root| root.join(engine.cgroup.trim_start_matches('/')));
    left.extend(groups.filter(|group| group.exists()).map(|group| group.display().to_string()));
    left.extend(processes(&engine).into_iter().map(|(pid, name)| format!("process {pid} {name}")));
    left
}

/// The processes of a VM, with PID and program.
pub(crate) fn processes(engine: &Engine) -> Vec<(u32, String)> {
    let mark = format!("{MARK}={}", engine.folder.display());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
    pids.filter(is_ours).map(|pid| (pid, name(pid))).collect()
}

/// The names of the programs that run for a VM, sorted.
pub(crate) fn programs(engine: &Engine) -> Vec<String> {
    let mut names: Vec<String> = processes(engine).into_iter().map(|(_, name)| name).collect();
    names.sort();
    names
}

/// The output of a program; empty if it does not exist or fails.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = background(program, Path::new("/")).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}
