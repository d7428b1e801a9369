//! Helpers that the daemon tests share.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use std::sync::Arc;

use rdd_apiserver::{
    auth::{Authenticators, Identity, Token, Tokens},
    health::Health,
    request::Nothing,
    serve::{Limits, Parts, Server, bind},
    tls::Tls,
    version::Version,
};
use rdd_client::kubeconfig::Kubeconfig;
use rdd_stdx::{clock::SystemClock, lock::ProcessLock};
use rdd_testkit::{Output, Sandbox, SandboxBuilder};

/// A timeout that is long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A sandbox whose commands log at the level info.
pub(crate) fn talkative() -> SandboxBuilder {
    Sandbox::builder().env("RDD_LOG_LEVEL", "info")
}

/// The messages of the log records on standard error, unquoted.
pub(crate) fn messages(output: &Output) -> Vec<String> {
    output
        .stderr
        .lines()
        .filter_map(|line| line.split_once(" msg=\"")?.1.strip_suffix('"'))
        .map(|message| message.replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\"))
        .collect()
}

/// Asserts the exit code, and that standard error contains each of these parts.
#[track_caller]
pub(crate) fn expect_error(output: &Output, code: i32, parts: &[&str]) {
    assert_eq!(output.code, Some(code), "stderr: {}", output.stderr);
    let said = messages(output).join("\n");
    let hints = output.stderr.lines().filter_map(|line| line.strip_prefix("hint: ")).collect::<Vec<_>>().join("\n");
    for part in parts {
        assert!(said.contains(part) || hints.contains(part), "{part:?} is missing in: {}", output.stderr);
    }
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
}

/// The instance's full name, `rancher-desktop-<instance>`.
pub(crate) fn full_name(sandbox: &Sandbox) -> String {
    format!("rancher-desktop-{}", sandbox.instance())
}

/// The instance's state folder.
pub(crate) fn dir(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join(".local/share").join(full_name(sandbox))
}

/// The daemon's log.
pub(crate) fn stderr_log(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join(".local/state").join(full_name(sandbox)).join("rdd.stderr.log")
}

/// All paths below a folder, including the folder itself; links are not followed.
pub(crate) fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    if let Ok(entries) = fs::read_dir(folder) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.extend(walk(&entry.path()));
            } else {
                found.push(entry.path());
            }
        }
    }
    found
}

/// The permission bits of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Path, size, modification time and content of all files in a folder: equal results mean that it was not touched.
pub(crate) fn fingerprint(folder: &Path) -> Vec<(PathBuf, u64, i64, i64, Vec<u8>)> {
    let mut prints: Vec<_> = walk(folder)
        .into_iter()
        .filter(|path| path.is_file())
        .map(|path| {
            let meta = fs::metadata(&path).unwrap();
            let content = fs::read(&path).unwrap();
            (path, meta.len(), meta.mtime(), meta.mtime_nsec(), content)
        })
        .collect();
    prints.sort();
    prints
}

/// The fields of `svc status -o json`.
#[track_caller]
pub(crate) fn status(sandbox: &Sandbox) -> serde_json::Value {
    let output = sandbox.rdd(&["svc", "status", "-o", "json"]).expect_success();
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

/// The server of a kubeconfig, from its first line with that key.
#[track_caller]
pub(crate) fn server_of(config: &Path) -> String {
    let text = fs::read_to_string(config).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("server:")).expect("a server");
    line.trim().trim_matches('"').to_owned()
}

/// A server of another version in the daemon's place: it holds the instance's lock and serves at the address of its kubeconfig.
pub(crate) struct Impostor {
    _lock: ProcessLock,
    _server: Server,
    _runtime: tokio::runtime::Runtime,
}

pub(crate) fn impostor(sandbox: &Sandbox, git_version: &str) -> Impostor {
    let lock = ProcessLock::acquire(&dir(sandbox).join("rdd.lock")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let clock = SystemClock::shared();
    let tls = Tls::open(&sandbox.home().join("tls"), clock.clone(), Box::new(|_| {})).unwrap();
    let token = Token::random();
    let listener = runtime.block_on(bind(0)).unwrap();
    let config = Kubeconfig::for_daemon(listener.port(), &tls.bundle(), token.reveal(), "");
    fs::write(dir(sandbox).join("config.yaml"), config.render().unwrap()).unwrap();
    let text = || String::new();
    let version = Version {
        major: "1".to_owned(),
        minor: "35".to_owned(),
        git_version: git_version.to_owned(),
        git_commit: text(),
        git_tree_state: text(),
        build_date: text(),
        go_version: text(),
        compiler: text(),
        platform: text(),
    };
    let parts = Parts {
        tls: Arc::new(tls),
        authenticators: Authenticators::standard(Tokens::new([(token, Identity::admin())])),
        health: Health::default(),
        version,
        figures: Vec::new(),
        backup: None,
        handler: Arc::new(Nothing),
        limits: Limits::default(),
        clock,
    };
    let server = {
        let _inside = runtime.enter();
        Server::start(listener, parts)
    };
    Impostor { _lock: lock, _server: server, _runtime: runtime }
}
