//! Semantic versions, as in Kubernetes' `semver` library.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use rdd_meta::go_text;

use crate::value::{Fault, Outcome, Value};

/// A semantic version.
#[derive(Debug, Clone)]
pub struct Semver {
    major: u64,
    minor: u64,
    patch: u64,
    prerelease: Vec<Identifier>,
    build: Vec<String>,
}

/// A part of a prerelease. Numbers precede words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Semver {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".into());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".into());
        };
        let (major, minor) = (number(major, "Major", "major")?, number(minor, "Minor", "minor")?);
        // Build metadata first: it may contain dashes, and a prerelease may not contain a plus.
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = number(patch, "Patch", "patch")?;
        let prerelease =
            prerelease.map_or_else(|| Ok(Vec::new()), |parts| parts.split('.').map(identifier).collect())?;
        let build = build.map_or_else(|| Ok(Vec::new()), |parts| parts.split('.').map(build_part).collect())?;
        Ok(Self { major, minor, patch, prerelease, build })
    }

    /// Parses after normalization: adds missing parts, drops a leading `v` and leading zeros. `v1.02` is `1.2.0`.
    fn parse_normalized(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            // Parts can only be added at the end of a version without a suffix.
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".into());
            }
            parts.resize(3, "0".into());
        }
        Self::parse(&parts.join("."))
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                // A prerelease precedes its release.
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.prerelease.cmp(&other.prerelease),
            }
        })
    }
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.into();
    }
    let trimmed = part.trim_start_matches('0');
    // A part of zeros keeps one, also before a suffix.
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.into() } else { format!("0{trimmed}") }
}

fn number(text: &str, title: &str, name: &str) -> Result<u64, String> {
    let quoted = go_text::quote(text);
    if text.is_empty() {
        return Err(format!("strconv.ParseUint: parsing {quoted}: invalid syntax"));
    }
    if !text.bytes().all(|octet| octet.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {quoted}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {quoted}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {quoted}: value out of range"))
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-')
}

fn identifier(text: &str) -> Result<Identifier, String> {
    let quoted = go_text::quote(text);
    if text.is_empty() {
        return Err("Prerelease is empty".into());
    }
    if text.bytes().all(|octet| octet.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {quoted}"));
        }
        let number = text.parse().map_err(|_| format!("strconv.ParseUint: parsing {quoted}: value out of range"))?;
        return Ok(Identifier::Number(number));
    }
    if is_word(text) {
        Ok(Identifier::Word(text.into()))
    } else {
        Err(format!("Invalid character(s) found in prerelease {quoted}"))
    }
}

fn build_part(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("Build meta data is empty".into());
    }
    if is_word(text) {
        Ok(text.into())
    } else {
        Err(format!("Invalid character(s) found in build meta data {}", go_text::quote(text)))
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (index, part) in self.prerelease.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Word(word) => f.write_str(word)?,
            }
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build.join("."))?;
        }
        Ok(())
    }
}

fn read(args: &[Value<'_>]) -> Result<Result<Semver, String>, Fault> {
    let Value::String(text) = &args[0] else { return Err(Fault::no_such_overload()) };
    match args.get(1) {
        None | Some(Value::Bool(false)) => Ok(Semver::parse(text)),
        Some(Value::Bool(true)) => Ok(Semver::parse_normalized(text)),
        Some(_) => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn parse<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    read(args)?.map(|version| Value::Semver(Arc::new(version))).map_err(Fault::Error)
}

pub(crate) fn is_semver<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(read(args)?.is_ok()))
}

fn version<'v>(value: &'v Value<'_>) -> Result<&'v Semver, Fault> {
    match value {
        Value::Semver(version) => Ok(version),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn is_greater_than<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(version(&args[0])?.compare(version(&args[1])?).is_gt()))
}

pub(crate) fn is_less_than<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(version(&args[0])?.compare(version(&args[1])?).is_lt()))
}

pub(crate) fn compare_to<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(version(&args[0])?.compare(version(&args[1])?) as i64))
}

pub(crate) fn major<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(version(&args[0])?.major as i64))
}

pub(crate) fn minor<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(version(&args[0])?.minor as i64))
}

pub(crate) fn patch<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(version(&args[0])?.patch as i64))
}
