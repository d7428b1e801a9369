//! Parses the command line: syntax as pflag, error texts as cobra, types as clap.
//!
//! Scripts match the original's usage errors, so a first pass parses by the original's rules, with clap's command tree as its only source.
//! It passes what it accepts to clap in one canonical form.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command, FromArgMatches, error::ContextKind, error::ContextValue, error::ErrorKind};

use crate::{
    args::Cli,
    go,
    report::{Failure, Outcome},
};

/// A parsed command line.
#[derive(Debug)]
pub enum Parsed {
    /// Run this command.
    Run(Box<Cli>),
    /// Print the help of the command with this path of names, the program's name included.
    Help(Vec<String>),
    /// Print the version in this format.
    Version(String),
}

/// Removes `--instance` from the front of the arguments; it counts only directly after the program's name.
///
/// Returns the instance, if there was one, and the other arguments.
pub fn take_instance(mut words: Vec<OsString>) -> (Option<String>, Vec<OsString>) {
    let Some(first) = words.first().and_then(|word| word.to_str()) else { return (None, words) };
    if let Some(value) = first.strip_prefix("--instance=") {
        let value = (!value.is_empty()).then(|| value.to_owned());
        words.remove(0);
        return (value, words);
    }
    if first != "--instance" {
        return (None, words);
    }
    words.remove(0);
    match words.first().map(|word| word.to_string_lossy().into_owned()) {
        Some(value) if !value.is_empty() && !value.starts_with('-') => {
            words.remove(0);
            (Some(value), words)
        }
        _ => (None, words),
    }
}

/// Parses the arguments after the program's name.
///
/// `tree` is clap's command tree, built. Flags may stand anywhere, and the last of several equal ones counts.
///
/// # Errors
///
/// A failure with cobra's or pflag's text.
pub fn parse(tree: &Command, words: Vec<OsString>) -> Outcome<Parsed> {
    let found = find(tree, words);
    let command = *found.path.last().expect("the root is always there");
    let is_root = found.path.len() == 1;
    // cobra reports an unknown command before it parses flags.
    if is_root && let Some(word) = stray_word(&found.words, command) {
        return Err(unknown_command(&word, "rdd", Some(tree)));
    }
    // Words before the name of a passthrough command can only be global flags.
    let flag_owner = if found.passed_on.is_some() { tree } else { command };
    let mut flags = match read_flags(flag_owner, found.words, is_root)? {
        Reading::Version(format) => return Ok(Parsed::Version(format)),
        Reading::Flags(flags) => flags,
    };
    let names: Vec<String> = found.path.iter().map(|command| command.get_name().to_owned()).collect();
    // A command group without a subcommand prints its help, whatever else was given.
    if flags.help || command.is_arg_required_else_help_set() {
        return Ok(Parsed::Help(names));
    }
    match found.passed_on {
        Some(words) => flags.positionals.extend(words),
        None => check_count(command, &names, &flags.positionals)?,
    }
    // After `--`, clap takes every word as a positional, so a positional that begins with a dash is safe.
    let canonical = names.into_iter().map(OsString::from).chain(flags.canonical).chain([OsString::from("--")]);
    let matches = tree.clone().try_get_matches_from(canonical.chain(flags.positionals));
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| refused(&error, command))?;
    Ok(Parsed::Run(Box::new(cli)))
}

struct Found<'t> {
    /// The commands from the root to the one that is meant.
    path: Vec<&'t Command>,
    /// The arguments without the names of commands.
    words: Vec<OsString>,
    /// The arguments after the name of a passthrough command, such as `rdd ctl`; they are not parsed here.
    passed_on: Option<Vec<OsString>>,
}

fn find(tree: &Command, mut words: Vec<OsString>) -> Found<'_> {
    let mut path = vec![tree];
    loop {
        let command = *path.last().expect("starts with the root");
        let next = first_word(&words, command)
            .and_then(|index| Some((index, command.find_subcommand(words[index].to_str()?)?)));
        let Some((index, subcommand)) = next else { return Found { path, words, passed_on: None } };
        path.push(subcommand);
        if is_passthrough(subcommand) {
            let passed_on = words.split_off(index + 1);
            words.truncate(index);
            return Found { path, words, passed_on: Some(passed_on) };
        }
        words.remove(index);
    }
}

/// The index of the first word that is neither a flag nor a flag's value. Whether an unknown flag takes a value is guessed as in cobra.
fn first_word(words: &[OsString], command: &Command) -> Option<usize> {
    let mut index = 0;
    while index < words.len() {
        let word = words[index].to_string_lossy();
        if word == "--" {
            return None;
        }
        index += 1;
        if takes_next_word(&word, command) {
            // The last word is then the flag's value, so no command follows; cobra's `stripFlags` has the same rule.
            if words.len() - index <= 1 {
                return None;
            }
            index += 1;
        } else if !word.is_empty() && !word.starts_with('-') {
            return Some(index - 1);
        }
    }
    None
}

fn takes_next_word(word: &str, command: &Command) -> bool {
    if word.contains('=') {
        return false;
    }
    match (word.strip_prefix("--"), word.strip_prefix('-')) {
        // An unknown flag counts as one that takes a value.
        (Some(name), _) => !long_flag(command, name).is_some_and(needs_no_value),
        (None, Some(short)) if short.chars().count() == 1 => {
            !short.chars().next().and_then(|short| short_flag(command, short)).is_some_and(needs_no_value)
        }
        _ => false,
    }
}

fn stray_word(words: &[OsString], root: &Command) -> Option<String> {
    first_word(words, root).map(|index| words[index].to_string_lossy().into_owned())
}

fn is_passthrough(command: &Command) -> bool {
    command.get_positionals().any(Arg::is_trailing_var_arg_set)
}

struct Flags {
    canonical: Vec<OsString>,
    positionals: Vec<OsString>,
    help: bool,
}

enum Reading {
    Flags(Flags),
    Version(String),
}

/// Parses flags and positionals in any order; after `--` everything is a positional.
fn read_flags(command: &Command, words: Vec<OsString>, is_root: bool) -> Outcome<Reading> {
    let mut flags = Flags { canonical: Vec::new(), positionals: Vec::new(), help: false };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            flags.positionals.extend(words);
            break;
        }
        let text = word.to_string_lossy().into_owned();
        if text == "-" || !text.starts_with('-') {
            flags.positionals.push(word);
            continue;
        }
        let settings = match text.strip_prefix("--") {
            Some(body) => vec![read_long(command, &text, body, &mut words)?],
            None => read_shorts(command, &text, &mut words)?,
        };
        for (arg, value) in settings {
            match (arg.get_id().as_str(), &value) {
                ("version", value) if is_root && *value != "false" => {
                    return Ok(Reading::Version(value.to_string_lossy().into_owned()));
                }
                // clap's help flag takes no value, but pflag's does: `--help=false`.
                ("help", value) => {
                    let value = value.to_string_lossy();
                    let wanted = go::parse_bool(&value).map_err(|error| invalid_argument(&value, arg, &error))?;
                    flags.help = wanted;
                }
                _ => flags.canonical.push(canonical(arg, &value)),
            }
        }
    }
    Ok(Reading::Flags(flags))
}

type Setting<'c> = (&'c Arg, OsString);

fn read_long<'c>(
    command: &'c Command,
    word: &str,
    body: &str,
    rest: &mut impl Iterator<Item = OsString>,
) -> Outcome<Setting<'c>> {
    let (name, value) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (body, None),
    };
    if name.is_empty() || name.starts_with('-') {
        return Err(Failure::message(format!("bad flag syntax: {word}")));
    }
    let arg = long_flag(command, name).ok_or_else(|| Failure::message(format!("unknown flag: --{name}")))?;
    let value = match value {
        Some(value) => value.into(),
        None if needs_no_value(arg) => "true".into(),
        None => rest.next().ok_or_else(|| Failure::message(format!("flag needs an argument: --{name}")))?,
    };
    Ok((arg, value))
}

fn read_shorts<'c>(
    command: &'c Command,
    word: &str,
    rest: &mut impl Iterator<Item = OsString>,
) -> Outcome<Vec<Setting<'c>>> {
    let mut settings = Vec::new();
    let mut shorts = &word[1..];
    while let Some(short) = shorts.chars().next() {
        // The error names the rest of the cluster, as pflag does.
        let cluster = shorts;
        shorts = &shorts[short.len_utf8()..];
        let arg = short_flag(command, short)
            .ok_or_else(|| Failure::message(format!("unknown shorthand flag: '{short}' in -{cluster}")))?;
        let value = if let Some(value) = shorts.strip_prefix('=') {
            shorts = "";
            value.into()
        } else if needs_no_value(arg) {
            "true".into()
        } else if !shorts.is_empty() {
            std::mem::take(&mut shorts).into()
        } else {
            let missing = || Failure::message(format!("flag needs an argument: '{short}' in -{cluster}"));
            rest.next().ok_or_else(missing)?
        };
        settings.push((arg, value));
    }
    Ok(settings)
}

/// Finds a flag by its long name; underscores count as hyphens.
fn long_flag<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    let name = name.replace('_', "-");
    command.get_arguments().find(|arg| arg.get_long() == Some(name.as_str()))
}

fn short_flag(command: &Command, short: char) -> Option<&Arg> {
    command.get_arguments().find(|arg| arg.get_short() == Some(short))
}

// A switch, or a flag whose value is optional after `=`.
fn needs_no_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong)
        || arg.get_num_args().is_some_and(|count| count.min_values() == 0)
}

fn canonical(arg: &Arg, value: &OsStr) -> OsString {
    let mut word = OsString::from(format!("--{}=", arg.get_long().expect("every flag has a long name")));
    word.push(value);
    word
}

/// Checks the number of positionals; the error texts are cobra's.
fn check_count(command: &Command, path: &[String], positionals: &[OsString]) -> Outcome {
    let count = positionals.len();
    let (mut least, mut most) = (0, Some(0_usize));
    for arg in command.get_positionals() {
        let many = arg.get_num_args().is_some_and(|range| range.max_values() == usize::MAX);
        least += usize::from(arg.is_required_set());
        most = if many { None } else { most.map(|most| most + 1) };
    }
    let message = match most {
        Some(0) if count > 0 => {
            return Err(unknown_command(&positionals[0].to_string_lossy(), &path.join(" "), None));
        }
        Some(most) if least == most && count != most => format!("accepts {most} arg(s), received {count}"),
        Some(most) if count > most => format!("accepts at most {most} arg(s), received {count}"),
        _ if count < least => format!("requires at least {least} arg(s), only received {count}"),
        _ => return Ok(()),
    };
    Err(Failure::message(message))
}

fn unknown_command(word: &str, path: &str, root: Option<&Command>) -> Failure {
    let mut message = format!("unknown command {} for {}", go::quote(word), go::quote(path));
    let similar: Vec<&str> = root
        .into_iter()
        .flat_map(Command::get_subcommands)
        .filter(|command| !command.is_hide_set())
        .map(Command::get_name)
        .filter(|name| is_similar(word, name))
        .collect();
    if !similar.is_empty() {
        message.push_str("\n\nDid you mean this?\n");
        similar.iter().for_each(|name| message.push_str(&format!("\t{name}\n")));
    }
    Failure::message(message)
}

fn is_similar(typed: &str, name: &str) -> bool {
    let typed = typed.to_lowercase();
    name.starts_with(&typed) || distance(&typed, name) <= 2
}

/// The Levenshtein distance of two words, as cobra computes it for suggestions.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    // One row of the table at a time.
    for (line, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..to.len() {
            let changed = diagonal + usize::from(letter != to[column]);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

/// Converts clap's error. Only values can be invalid here, since names and counts were checked before.
fn refused(error: &clap::Error, command: &Command) -> Failure {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let named = context(ContextKind::InvalidArg).and_then(|arg| {
        let name = arg.trim_start_matches('-').split([' ', '=', '[']).next()?;
        command.get_arguments().find(|arg| arg.get_long() == Some(name))
    });
    match (error.kind(), named, std::error::Error::source(error)) {
        (ErrorKind::ValueValidation, Some(arg), Some(source)) => {
            invalid_argument(context(ContextKind::InvalidValue).unwrap_or_default(), arg, source)
        }
        _ => Failure::message(error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ")),
    }
}

fn invalid_argument(value: &str, arg: &Arg, problem: &dyn std::error::Error) -> Failure {
    let long = arg.get_long().expect("every flag has a long name");
    let flag = match arg.get_short() {
        Some(short) => format!("-{short}, --{long}"),
        None => format!("--{long}"),
    };
    Failure::message(format!("invalid argument {} for \"{flag}\" flag: {problem}", go::quote(value)))
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
