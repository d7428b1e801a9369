//! `rdd yq …`: runs the yq on PATH, or the built-in subset of its language.

mod flags;

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use rdd_stdx::file::write_atomic;
use rdd_yq::{Expression, InputFormat, LANGUAGE_VERSION, OutputFormat, OutputOptions, Program};

use self::flags::{Mode, Request, Words};
use crate::{
    commands::program,
    context::Context,
    report::{ExitCode, Failure, Outcome},
};

/// The maximum size of a file or of standard input, in bytes.
const INPUT_BYTES_MAX: u64 = 256 << 20;
const STANDARD_INPUT: &str = "-";

/// Replaces this process with the yq on PATH; without one, evaluates the expression natively. Errors have yq's form.
pub fn run(context: &Context<'_>, args: &[OsString]) -> Outcome {
    // The yq on PATH may be another copy of this program; the variable keeps it from searching again.
    if !context.environment.builtin_yq
        && let Some(other) = program::locate(context, "yq")?
    {
        return program::become_program(context, &other, args, &[("RDD_YQ", OsStr::new("builtin"))]);
    }
    let words = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let asked = flags::parse(words);
    match asked {
        Ok(Words::Help) => Ok(context.printer.text(flags::HELP)?),
        Ok(Words::Version) => Ok(context.printer.text(&version(context.build.version))?),
        Ok(Words::Request(request)) => match evaluate(context, *request) {
            Ok(()) => Ok(()),
            Err(Ended::Failure(failure)) => Err(failure),
            Err(Ended::Words(words)) => tell(context, &words),
        },
        Err(words) => tell(context, &words),
    }
}

fn version(rdd: &str) -> String {
    format!(
        "yq (https://github.com/mikefarah/yq/) version v{LANGUAGE_VERSION}, the everyday part of its language, built into rdd {rdd}\n"
    )
}

/// Prints an error as yq does and fails silently.
fn tell(context: &Context<'_>, words: &str) -> Outcome {
    let text = format!("Error: {words}\n");
    // There is nowhere to report a failed write to standard error.
    let _ = context.with_streams(|streams| streams.err.write_all(text.as_bytes()));
    Err(Failure::silent(ExitCode::Failure))
}

/// Why an evaluation ended early.
enum Ended {
    /// An error that is printed in yq's form.
    Words(String),
    /// A failure of `rdd` itself.
    Failure(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

fn words(error: impl std::fmt::Display) -> Ended {
    Ended::Words(error.to_string())
}

fn evaluate(context: &Context<'_>, mut request: Request) -> Result<(), Ended> {
    let is_file = |name: &str| fs::metadata(name).is_ok_and(|meta| !meta.is_dir());
    request.take_expression(is_file);
    // yq reads standard input if it has no file and standard input is not a terminal.
    let reads_input = request.files.is_empty() && !request.null_input && !context.stdin_is_terminal();
    if reads_input {
        request.files.push(STANDARD_INPUT.to_owned());
    }
    request.validate().map_err(Ended::Words)?;
    if request.files.is_empty() && !request.null_input {
        return Ok(context.printer.text(flags::HELP).map_err(Failure::from)?);
    }
    let expression = match &request.expression_file {
        Some(file) => read_file(file)?.replace("\r\n", "\n"),
        None => request.expression.clone().unwrap_or_default(),
    };
    let expression = Expression::parse(&expression).map_err(words)?;
    let input = request.input_format().map_err(Ended::Words)?;
    let options = OutputOptions {
        format: request.output_format(input).map_err(Ended::Words)?,
        indent: request.indent,
        unwrap_scalars: request.unwrap_scalars,
        separators: request.separators,
        pretty: request.pretty,
    };
    let mut program = Program::new(|name| std::env::var(name).ok());
    for file in &request.files {
        let text = if file == STANDARD_INPUT { read_input(context)? } else { read_file(file)? };
        let traits = program.add_file(file, &text, input).map_err(words)?;
        if request.in_place {
            refuse_loss(file, traits)?;
        }
        if request.in_place {
            // yq changes only the first file in place and ignores the others.
            break;
        }
    }
    let results = match (request.null_input, request.mode) {
        (true, _) => program.evaluate_new(&expression),
        (false, Mode::Each) => program.evaluate(&expression),
        (false, Mode::All) => program.evaluate_all(&expression),
    };
    let results = results.map_err(words)?;
    let text = program.write(&results, &options).map_err(words)?;
    match request.files.first().filter(|_| request.in_place) {
        Some(file) => write_file(file, &text)?,
        None => context.printer.text(&text).map_err(Failure::from)?,
    }
    if request.exit_status && !program.has_match(&results) {
        return Err(Ended::Words("no matches found".to_owned()));
    }
    Ok(())
}

/// Refuses to write a file that contains comments or anchors, which the built-in yq would lose.
fn refuse_loss(file: &str, traits: rdd_yq::FileTraits) -> Result<(), Ended> {
    let lost = match (traits.has_comments, traits.has_anchors) {
        (true, _) => "comments",
        (false, true) => "anchors",
        (false, false) => return Ok(()),
    };
    Err(Ended::Words(format!(
        "{file} has {lost}, which the built-in yq would lose: nothing was changed. Install yq v4 (https://github.com/mikefarah/yq), which keeps \
         them, or print the result without -i"
    )))
}

fn read_input(context: &Context<'_>) -> Result<String, Ended> {
    // One byte more than allowed, to detect input that is too large.
    let mut text = String::new();
    let read = context.with_streams(|streams| streams.input.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| words(format!("read standard input: {error}")))?;
    bounded("standard input", text)
}

fn read_file(name: &str) -> Result<String, Ended> {
    let read = fs::File::open(name).and_then(|file| {
        let mut text = String::new();
        file.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    });
    let text = read.map_err(|error| words(format!("open {name}: {}", plain_reason(&error))))?;
    bounded(name, text)
}

fn bounded(name: &str, text: String) -> Result<String, Ended> {
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(words(format!("{name} is larger than {} MiB", INPUT_BYTES_MAX >> 20)));
    }
    Ok(text)
}

/// The operating system's error as Go formats it.
fn plain_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// Replaces a file atomically and keeps its mode. A symbolic link stays; its target is replaced.
fn write_file(name: &str, text: &str) -> Result<(), Ended> {
    let path = fs::canonicalize(name).map_err(|error| words(format!("open {name}: {}", plain_reason(&error))))?;
    // The new file gets the mode of the old one.
    let mode = fs::metadata(&path).map_or(0o600, |meta| meta.permissions().mode() & 0o7777);
    write_atomic(Path::new(&path), text.as_bytes(), mode).map_err(|error| words(rdd_stdx::chain::Chain(&error)))
}

/// The input format for a file name's extension.
fn format_by_name(name: &str) -> InputFormat {
    match Path::new(name).extension().and_then(OsStr::to_str) {
        Some("json" | "JSON") => InputFormat::Json,
        _ => InputFormat::Yaml,
    }
}

/// The output format that corresponds to the input format.
fn same_format(input: InputFormat) -> OutputFormat {
    match input {
        InputFormat::Yaml => OutputFormat::Yaml,
        InputFormat::Json => OutputFormat::Json,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
