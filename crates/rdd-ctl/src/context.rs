//! The context of a verb: server, flags, streams and namespace.

use std::{
    cell::RefCell,
    io::{Read, Write},
    rc::Rc,
    time::{Duration, Instant},
};

use rdd_meta::time::Timestamp;
use rdd_stdx::clock::SharedClock;

use crate::{
    api::{Api, Call},
    discovery::{Discovery, Mapping},
    error::{Error, Result},
    flags::Flags,
};
use rdd_kubeconfig::client_config::ConfigFiles;
use serde_json::Value;

/// The standard streams of a command.
pub struct Streams<'a> {
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub err: &'a mut dyn Write,
    /// Standard input.
    pub input: &'a mut dyn Read,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Streams")
    }
}

/// The context that every verb gets.
#[derive(Debug)]
pub(crate) struct Ctl<'a> {
    /// The server.
    pub(crate) api: Api,
    /// The kubeconfigs that `config` shows and changes.
    pub(crate) config: ConfigFiles,
    /// The namespace of the context.
    pub(crate) context_namespace: Option<String>,
    /// The name of the program for hints: `rdd ctl` or `rdd kubectl`.
    pub(crate) program: &'static str,
    /// The parsed command line.
    pub(crate) flags: Flags,
    /// The server's resources.
    pub(crate) discovery: Discovery,
    /// The clock.
    pub(crate) clock: SharedClock,
    /// The command for messages, such as `kubectl get`.
    pub(crate) command: String,
    streams: RefCell<Streams<'a>>,
    warned: RefCell<Vec<String>>,
    broken: RefCell<bool>,
}

impl<'a> Ctl<'a> {
    /// The context of an `rdd ctl` verb, without the namespace of a kubeconfig context.
    pub(crate) fn new(
        api: Api,
        config: ConfigFiles,
        flags: Flags,
        command: String,
        clock: SharedClock,
        streams: Streams<'a>,
    ) -> Self {
        Self {
            api,
            config,
            context_namespace: None,
            program: "rdd ctl",
            flags,
            discovery: Discovery::default(),
            clock,
            command,
            streams: RefCell::new(streams),
            warned: RefCell::default(),
            broken: RefCell::default(),
        }
    }

    /// The namespace of the command: the flag, the kubeconfig context, or `default`.
    pub(crate) fn namespace(&self) -> &str {
        self.flags.given("namespace").or(self.context_namespace.as_deref()).unwrap_or("default")
    }

    /// Whether the command line names a namespace.
    pub(crate) fn is_namespace_explicit(&self) -> bool {
        self.flags.given("namespace").is_some()
    }

    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.wall();
        Timestamp::new(i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos())
    }

    /// The instant after this time.
    pub(crate) fn after(&self, time: Duration) -> Instant {
        let now = Instant::now();
        now.checked_add(time).unwrap_or_else(|| now + Duration::from_secs(1 << 30))
    }

    /// Writes to standard output. If the reader has gone away, the verb ends silently.
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        let streams = &mut *self.streams.borrow_mut();
        match streams.out.write_all(text.as_bytes()).and_then(|()| streams.out.flush()) {
            Ok(()) => Ok(()),
            Err(_) => {
                *self.broken.borrow_mut() = true;
                Err(Error::Silent)
            }
        }
    }

    /// Whether the reader of standard output has gone away.
    pub(crate) fn is_reader_gone(&self) -> bool {
        *self.broken.borrow()
    }

    /// Writes a message to standard error. A failure is ignored: there is no other place to report it.
    pub(crate) fn tell(&self, text: &str) {
        let streams = &mut *self.streams.borrow_mut();
        let _ = streams.err.write_all(text.as_bytes()).and_then(|()| streams.err.flush());
    }

    /// Reads all of standard input.
    pub(crate) fn read_input(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let streams = &mut *self.streams.borrow_mut();
        let limited = &mut (&mut *streams.input).take(crate::source::BYTES_MAX);
        limited.read_to_end(&mut bytes).map_err(|error| Error::text(format!("error reading STDIN: {error}")))?;
        Ok(bytes)
    }

    /// Reads a line of standard input, up to a limit.
    pub(crate) fn read_line(&self) -> Result<String> {
        let mut line = Vec::new();
        let streams = &mut *self.streams.borrow_mut();
        let mut byte = [0];
        while line.len() < 1024 && streams.input.read(&mut byte).is_ok_and(|read| read == 1) && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Sends a request and prints its warnings, each warning once.
    pub(crate) fn call(&self, call: &Call) -> Result<Value> {
        let answered = self.api.call(call);
        self.pass_warnings();
        answered
    }

    /// Resolves a resource argument.
    pub(crate) fn find(&self, word: &str) -> Result<Rc<Mapping>> {
        self.discovery.find(&self.api, word, &|warning| self.warn(warning))
    }

    fn warn(&self, warning: &str) {
        if !self.warned.borrow().iter().any(|known| known == warning) {
            self.tell(&format!("Warning: {warning}\n"));
            self.warned.borrow_mut().push(warning.to_owned());
        }
    }

    /// Prints the warnings of the last responses.
    pub(crate) fn pass_warnings(&self) {
        for warning in self.api.take_warnings() {
            self.warn(&warning);
        }
    }

    /// A usage error with kubectl's hint.
    pub(crate) fn usage(&self, text: &str) -> Error {
        Error::text(format!("{text}\nSee '{} -h' for help and examples", self.command))
    }
}
