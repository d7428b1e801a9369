//! The processes' part of a support bundle: the tree, stacks, open files and sockets.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use rdd_stdx::process::background;

use super::{output_or_reason, read_or_reason};
use crate::processes::Info;

/// Formats the processes as a tree, with the names of their environment variables; the only value shown is the instance's name.
pub(super) fn tree(processes: &[Info]) -> String {
    let known: BTreeSet<u32> = processes.iter().map(|process| process.pid).collect();
    let mut text = String::new();
    for root in processes.iter().filter(|process| !known.contains(&process.parent)) {
        branch(processes, root, 0, &mut text);
    }
    if text.is_empty() { "(none)\n".to_owned() } else { text }
}

fn branch(processes: &[Info], process: &Info, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    text.push_str(&format!("{indent}{process} parent {}\n", process.parent));
    text.push_str(&format!("{indent}  environment: {}\n", process.variable_names().join(" ")));
    for child in processes.iter().filter(|child| child.parent == process.pid) {
        branch(processes, child, depth + 1, text);
    }
}

/// The user stacks of all threads and, per thread, the kernel function it waits in.
pub(super) fn stacks(pid: u32) -> String {
    let mut text = output_or_reason(background("eu-stack", Path::new("/")).args(["-p", &pid.to_string()]));
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let Ok(entries) = fs::read_dir(&tasks) else { return text + "(ended)\n" };
    for task in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let file = |name: &str| read_or_reason(task.join(name));
        let thread = task.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text.push_str(&format!("\nthread {thread} {}", file("comm")));
        text.push_str(&format!("waits in {}\n{}", file("wchan"), file("stack")));
    }
    text + "\n" + &read_or_reason(format!("/proc/{pid}/status"))
}

/// Lists each file descriptor with its target.
pub(super) fn open_files(processes: &[Info]) -> String {
    let mut text = String::new();
    for process in processes {
        text.push_str(&format!("{process}\n"));
        for (descriptor, target) in descriptors(process.pid) {
            text.push_str(&format!("  {descriptor} -> {}\n", target.display()));
        }
    }
    text
}

fn descriptors(pid: u32) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let open = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        Some((path.file_name()?.to_str()?.parse().ok()?, fs::read_link(&path).ok()?))
    });
    let mut open: Vec<_> = open.collect();
    open.sort();
    open
}

/// The entries of the kernel's socket tables that belong to these processes.
pub(super) fn sockets(processes: &[Info]) -> String {
    let inodes: BTreeSet<String> = processes
        .iter()
        .flat_map(|process| descriptors(process.pid))
        .filter_map(|(_, target)| socket_inode(&target))
        .collect();
    let mut text = String::new();
    for table in ["tcp", "tcp6", "udp", "unix"] {
        let path = format!("/proc/net/{table}");
        text.push_str(&format!("{path}\n"));
        let content = read_or_reason(&path);
        let ours = |line: &&str| line.split_whitespace().any(|word| inodes.contains(word));
        for line in content.lines().take(1).chain(content.lines().skip(1).filter(ours)) {
            text.push_str(&format!("{line}\n"));
        }
    }
    text
}

fn socket_inode(target: &Path) -> Option<String> {
    Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
}
