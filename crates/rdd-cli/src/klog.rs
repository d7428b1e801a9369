//! Parses the log flags of Kubernetes programs (klog) in the syntax of Go's `flag` package, with one dash or two.

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgAction, Args, builder::BoolishValueParser};

/// klog's flags, each with whether it is a boolean; a boolean takes a value only after `=`.
const FLAGS: [(&str, bool); 14] = [
    ("add_dir_header", true),
    ("alsologtostderr", true),
    ("legacy_stderr_threshold_behavior", true),
    ("log_backtrace_at", false),
    ("log_dir", false),
    ("log_file", false),
    ("log_file_max_size", false),
    ("logtostderr", true),
    ("one_output", true),
    ("skip_headers", true),
    ("skip_log_headers", true),
    ("stderrthreshold", false),
    ("v", false),
    ("vmodule", false),
];

/// Flags that only change the form of klog's lines. They are accepted without effect.
const IGNORED: [&str; 7] = [
    "add_dir_header",
    "legacy_stderr_threshold_behavior",
    "log_backtrace_at",
    "one_output",
    "skip_headers",
    "skip_log_headers",
    "vmodule",
];

/// klog's flags, without those that have no effect.
#[derive(Debug, Clone, Args)]
pub(crate) struct KlogFlags {
    /// Number for the log level verbosity
    #[arg(short = 'v', long = "v", value_name = "LEVEL")]
    pub(crate) verbosity: Option<u8>,
    /// Log to standard error instead of files
    #[arg(long = "logtostderr", value_name = "BOOL", default_value = "true")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    #[arg(value_parser = BoolishValueParser::new())]
    log_to_stderr: bool,
    /// Log to standard error as well as files; without effect unless --logtostderr=false
    #[arg(long = "alsologtostderr", value_name = "BOOL", default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    #[arg(value_parser = BoolishValueParser::new())]
    also_log_to_stderr: bool,
    /// Log to this file; without effect unless --logtostderr=false
    #[arg(long = "log_file", value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Log to a file in this folder; without effect unless --logtostderr=false
    #[arg(long = "log_dir", value_name = "FOLDER")]
    log_dir: Option<PathBuf>,
    /// Begin a new log file after this many megabytes; 0 means never
    #[arg(long = "log_file_max_size", value_name = "MB", default_value = "1800")]
    log_file_max_size: u64,
    /// Lines of this severity and above go to standard error as well as to files
    #[arg(long = "stderrthreshold", value_name = "SEVERITY", default_value = "ERROR")]
    #[arg(value_parser = parse_severity)]
    stderr_threshold: Severity,
}

/// The severities of klog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Every message below a warning.
    Info,
    /// A warning.
    Warning,
    /// An error.
    Error,
}

fn parse_severity(text: &str) -> Result<Severity, String> {
    match text.to_ascii_uppercase().as_str() {
        "INFO" | "0" => Ok(Severity::Info),
        "WARNING" | "1" => Ok(Severity::Warning),
        // No message here is fatal: an error that ends the program is logged as an error.
        "ERROR" | "2" | "FATAL" | "3" => Ok(Severity::Error),
        _ => Err("expected INFO, WARNING, ERROR or FATAL".to_owned()),
    }
}

/// A log file of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Its path. Lines are appended.
    pub path: PathBuf,
    /// The size at which the file is rotated; `None` never rotates it.
    pub bytes_max: Option<u64>,
    /// Lines of this severity and above also go to standard error.
    pub stderr_from: Severity,
}

impl KlogFlags {
    /// The file to log to; `None` means standard error.
    ///
    /// Without `-log_file` and `-log_dir`, klog creates files with predictable names in the temporary folder, which is unsafe; this uses
    /// standard error instead.
    pub(crate) fn log_file(&self, program: &str) -> Option<LogFile> {
        let in_folder = || self.log_dir.as_ref().map(|folder| folder.join(format!("{program}.log")));
        let path = self.log_file.clone().or_else(in_folder).filter(|_| !self.log_to_stderr)?;
        Some(LogFile {
            path,
            bytes_max: Some(self.log_file_max_size.saturating_mul(1 << 20)).filter(|bytes| *bytes > 0),
            stderr_from: if self.also_log_to_stderr { Severity::Info } else { self.stderr_threshold },
        })
    }
}

/// Rewrites klog's flags from Go's syntax to clap's: `-log_file=x` and `-log_file x` become `--log_file=x`. Flags without effect are
/// removed.
pub(crate) fn rewrite_go_flags(words: &[OsString]) -> Vec<OsString> {
    let mut rewritten = Vec::with_capacity(words.len());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        // Words that are not klog flags are left to clap.
        let Some((name, value, is_switch)) = word.to_str().and_then(parse_go_flag) else {
            rewritten.push(word.clone());
            continue;
        };
        let value = match value {
            Some(value) => Some(OsString::from(value)),
            None if is_switch => None,
            // Go's flag package takes the next word as the value, whatever it looks like.
            None => words.next().cloned(),
        };
        if IGNORED.contains(&name) {
            continue;
        }
        let mut flag = OsString::from(format!("--{name}"));
        if let Some(value) = value {
            flag.push("=");
            flag.push(value);
        }
        rewritten.push(flag);
    }
    rewritten
}

/// Parses a word as a klog flag: its name, its value if it has one, and whether it is a boolean.
fn parse_go_flag(word: &str) -> Option<(&'static str, Option<&str>, bool)> {
    let flag = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
    let (known, is_switch) = FLAGS.into_iter().find(|(known, _)| *known == name)?;
    Some((known, value, is_switch))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        klog: KlogFlags,
    }

    fn parse(words: &[&str]) -> Result<KlogFlags, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let parsed = Program::try_parse_from(std::iter::once("x".into()).chain(rewrite_go_flags(&words)));
        parsed.map(|program| program.klog).map_err(|error| error.to_string())
    }

    fn log_file(words: &[&str]) -> Option<LogFile> {
        parse(words).unwrap().log_file("mock-controller")
    }

    // Finding A-13
    #[test]
    fn the_command_line_of_the_gui_logs_to_its_file() {
        let words = ["-v", "2", "--logtostderr=false", "-log_file=/tmp/mock.log"];
        assert_eq!(parse(&words).unwrap().verbosity, Some(2));
        let file = LogFile { path: "/tmp/mock.log".into(), bytes_max: Some(1800 << 20), stderr_from: Severity::Error };
        assert_eq!(log_file(&words), Some(file));
    }

    #[test]
    fn flags_have_one_dash_or_two_and_values_after_a_blank_or_an_equals_sign() {
        for words in [
            &["-log_file", "/l", "-logtostderr=false"][..],
            &["--log_file=/l", "--logtostderr=0"],
            &["-log_file=/l", "-logtostderr=F"],
        ] {
            assert_eq!(log_file(words).map(|file| file.path), Some("/l".into()), "{words:?}");
        }
        assert_eq!(parse(&["-v=3"]).unwrap().verbosity, Some(3));
        assert_eq!(parse(&["--v", "4"]).unwrap().verbosity, Some(4));
    }

    #[test]
    fn a_file_is_used_only_where_klog_would_use_one() {
        assert_eq!(log_file(&["-log_file=/l"]), None, "standard error is the default");
        assert_eq!(log_file(&["-logtostderr", "-log_file=/l"]), None);
        assert_eq!(log_file(&["-logtostderr=false"]), None, "no file has been named");
        let in_folder = log_file(&["-logtostderr=false", "-log_dir=/logs"]).unwrap();
        assert_eq!(in_folder.path, PathBuf::from("/logs/mock-controller.log"));
        let words = ["-logtostderr=false", "-log_file=/l", "-alsologtostderr", "-log_file_max_size=0"];
        let file = log_file(&words).unwrap();
        assert_eq!((file.bytes_max, file.stderr_from), (None, Severity::Info));
        let words = ["-logtostderr=false", "-log_file=/l", "-stderrthreshold=WARNING"];
        assert_eq!(log_file(&words).unwrap().stderr_from, Severity::Warning);
    }

    #[test]
    fn every_flag_of_klog_is_accepted_and_a_wrong_value_is_not() {
        let words = FLAGS.map(|(name, is_switch)| match name {
            "stderrthreshold" => format!("-{name}=INFO"),
            _ if is_switch => format!("-{name}"),
            _ => format!("-{name}=1"),
        });
        parse(&words.each_ref().map(String::as_str)).unwrap();
        for wrong in ["-logtostderr=maybe", "-v=x", "-log_file_max_size=-1", "-stderrthreshold=loud", "-log_files=x"] {
            parse(&[wrong]).expect_err(wrong);
        }
    }
}
