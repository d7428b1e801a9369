//! Shared helpers for tests: captured output, a user with a home folder, waits with a timeout.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rdd_instance::{Environment, Instance, Platform};
use rdd_stdx::clock::SystemClock;

use crate::{
    BuildInfo, Product, ServeOptions, World,
    context::Context,
    printer::Stream,
    record::{Format, Level, Look, Recorder},
    run_in,
};

/// A stream that keeps what is written to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub(crate) fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until the condition holds; panics after 30 seconds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) const BUILD: BuildInfo = BuildInfo {
    version: "v1.2.3",
    git_commit: "0123456",
    build_date: "2026-01-02T03:04:05Z",
    toolchain: "rustc 1.95.0",
    compiler: "rustc",
    platform: "linux/amd64",
    git_version: "v1.35.4+rdd-v1.2.3",
};

/// A user with an empty home folder.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) home: tempfile::TempDir,
    pub(crate) variables: Vec<(&'static str, String)>,
    pub(crate) executable: PathBuf,
    pub(crate) input: &'static str,
    pub(crate) terminal: bool,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The texts of its log records, in order.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.stderr
            .lines()
            .filter_map(|line| line.split_once(" msg=\"")?.1.strip_suffix('"'))
            .map(|message| message.replace("\\\"", "\""))
            .collect()
    }
}

impl User {
    pub(crate) fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            variables: vec![("RDD_LOG_LEVEL", "info".to_owned()), ("RDD_DEVELOPER_MODE", "0".to_owned())],
            executable: PathBuf::from("/nonexistent/rdd"),
            input: "",
            terminal: false,
        }
    }

    pub(crate) fn environment(&self) -> Environment {
        let home = self.home.path().as_os_str().to_owned();
        Environment::from_lookup(|name| match self.variables.iter().rev().find(|(key, _)| *key == name) {
            Some((_, value)) => Some(value.into()),
            None => (name == "HOME").then(|| home.clone()),
        })
    }

    pub(crate) fn instance(&self) -> Instance {
        Instance::resolve(&self.environment(), Platform::current()).unwrap()
    }

    pub(crate) fn run(&self, line: &str) -> Ran {
        self.run_serving(line, &|_| Ok(()))
    }

    pub(crate) fn run_serving(&self, line: &str, serve: &dyn Fn(ServeOptions) -> anyhow::Result<()>) -> Ran {
        let argv = std::iter::once("rdd").chain(line.split_whitespace()).map(OsString::from).collect();
        self.run_argv(argv, serve)
    }

    pub(crate) fn run_argv(&self, argv: Vec<OsString>, serve: &dyn Fn(ServeOptions) -> anyhow::Result<()>) -> Ran {
        let (stdout, stderr) = (Captured::default(), Captured::default());
        let world = World {
            stdout: stdout.stream(),
            stderr: stderr.stream(),
            stdin: Mutex::new(Box::new(self.input.as_bytes())),
            stdin_is_terminal: self.terminal,
            stdout_is_terminal: self.terminal,
            stderr_is_terminal: self.terminal,
            clock: SystemClock::shared(),
            executable: Some(self.executable.clone()),
        };
        let code = run_in(world, argv, self.environment(), &BUILD, Product { serve, remove_machines: &|_, _| Ok(()) });
        Ran { code, stdout: stdout.text(), stderr: stderr.text() }
    }

    /// Calls a function with the context of a command and captures its output.
    pub(crate) fn with_context(&self, act: impl FnOnce(&Context<'_>)) -> Ran {
        let (stdout, stderr) = (Captured::default(), Captured::default());
        let world = World {
            stdout: stdout.stream(),
            stderr: stderr.stream(),
            stdin: Mutex::new(Box::new(self.input.as_bytes())),
            stdin_is_terminal: self.terminal,
            stdout_is_terminal: self.terminal,
            stderr_is_terminal: self.terminal,
            clock: SystemClock::shared(),
            executable: Some(self.executable.clone()),
        };
        let record = Recorder::new(stderr.stream(), SystemClock::shared(), Look::Record(Format::Text), Level::Info);
        let product = Product { serve: &|_| Ok(()), remove_machines: &|_, _| Ok(()) };
        act(&Context::new(world, self.environment(), &BUILD, product, record));
        Ran { code: 0, stdout: stdout.text(), stderr: stderr.text() }
    }

    /// Writes an executable script and uses it as the program that `svc start` runs.
    pub(crate) fn with_executable(mut self, script: &str) -> Self {
        let path = self.home.path().join("fake-rdd");
        // Another process writes the file: a file descriptor of this process could leak into a program that another test starts at this
        // moment, and a file that is open for writing cannot be executed (ETXTBSY).
        let written = rdd_stdx::process::background("sh", Path::new("/"))
            .args(["-c", "printf '%s\\n' '#!/bin/sh' \"$1\" > \"$0\" && chmod 700 \"$0\""])
            .args([path.as_os_str(), script.as_ref()])
            .status()
            .unwrap();
        assert!(written.success());
        self.executable = path;
        self
    }
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Creates a named pipe, on which an open for reading blocks until a writer opens it.
pub(crate) fn make_pipe(path: &Path) {
    let made = rdd_stdx::process::background("mkfifo", Path::new("/")).arg(path).status().unwrap();
    assert!(made.success());
}
