//! Arithmetic with timestamps, and their parts in a time zone.

use std::sync::LazyLock;

use jiff::tz::TimeZoneDatabase;

use rdd_meta::go_text;

use crate::go::{self, Civil};
use crate::value::{Fault, Outcome, Timestamp, Value};

/// 0001-01-01T00:00:00Z
pub(crate) const SECONDS_MIN: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z
pub(crate) const SECONDS_MAX: i64 = 253_402_300_799;
const NANOS: i128 = 1_000_000_000;

/// Adds nanoseconds to a timestamp.
pub(crate) fn shift(moment: Timestamp, nanos: i128) -> Result<Timestamp, Fault> {
    let total = i128::from(moment.seconds) * NANOS + i128::from(moment.nanos) + nanos;
    let seconds = total.div_euclid(NANOS);
    if seconds < i128::from(SECONDS_MIN) || seconds > i128::from(SECONDS_MAX) {
        return Err(Fault::error("timestamp overflow"));
    }
    Ok(Timestamp { seconds: seconds as i64, nanos: total.rem_euclid(NANOS) as u32, ..moment })
}

/// The nanoseconds from `earlier` to `later`; `None` if they overflow. As in cel-go, the whole seconds alone must not overflow
/// either.
pub(crate) fn between(later: Timestamp, earlier: Timestamp) -> Option<i64> {
    let seconds = later.seconds.checked_sub(earlier.seconds)?.checked_mul(1_000_000_000)?;
    seconds.checked_add(i64::from(later.nanos) - i64::from(earlier.nanos))
}

/// The parts of the timestamp in the first argument, in the time zone of the second or in UTC.
fn parts(args: &[Value<'_>]) -> Result<(Civil, u32), Fault> {
    let Value::Timestamp(moment) = &args[0] else { return Err(Fault::no_such_overload()) };
    let offset = match args.get(1) {
        None => 0,
        Some(Value::String(zone)) => offset_of(zone, *moment)?,
        Some(_) => return Err(Fault::no_such_overload()),
    };
    Ok((go::civil(moment.seconds + offset), moment.nanos))
}

/// The offset of a time zone in seconds: `hours:minutes`, or a name.
fn offset_of(zone: &str, moment: Timestamp) -> Result<i64, Fault> {
    let Some((hours, minutes)) = zone.split_once(':') else { return named_offset(zone, moment) };
    let number = |text: &str| {
        text.parse::<i64>()
            .map_err(|_| Fault::error(format!("strconv.Atoi: parsing {}: invalid syntax", go_text::quote(text))))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = hours.saturating_mul(60);
    let total = if zone.starts_with('-') { total.saturating_sub(minutes) } else { total.saturating_add(minutes) };
    // Far beyond any calendar. The limit keeps sums of seconds from overflowing.
    Ok(total.clamp(-1_000_000_000, 1_000_000_000) * 60)
}

fn named_offset(zone: &str, moment: Timestamp) -> Result<i64, Fault> {
    // The time zones are part of the binary, so that a rule has the same meaning on every machine.
    static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
    // The server's own zone must not influence a rule, so `Local` is UTC.
    if matches!(zone, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Err(Fault::error("time: invalid location name"));
    }
    let unknown = || Fault::error(format!("unknown time zone {zone}"));
    let found = ZONES.get(zone).map_err(|_| unknown())?;
    // Go reads time zones from files, so their names are case-sensitive.
    let zone = if found.iana_name() == Some(zone) { found } else { return Err(unknown()) };
    let at = jiff::Timestamp::from_second(moment.seconds).map_err(|_| unknown())?;
    Ok(i64::from(zone.to_offset(at).seconds()))
}

fn part<'a>(args: &[Value<'a>], of: fn(Civil) -> i64) -> Outcome<'a> {
    parts(args).map(|(civil, _)| Value::Int(of(civil)))
}

pub(crate) fn year<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |civil| civil.year)
}

pub(crate) fn month<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    // CEL counts months from 0.
    part(args, |civil| i64::from(civil.month) - 1)
}

pub(crate) fn day_of_year<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |civil| i64::from(civil.day_of_year))
}

pub(crate) fn day_of_month<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    // `getDayOfMonth` counts from 0, `getDate` from 1.
    part(args, |civil| i64::from(civil.day) - 1)
}

pub(crate) fn date<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |civil| i64::from(civil.day))
}

pub(crate) fn day_of_week<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    part(args, |civil| i64::from(civil.weekday))
}

pub(crate) fn hours<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Duration(nanos) => Ok(Value::Int(nanos / 3_600_000_000_000)),
        _ => part(args, |civil| i64::from(civil.hour)),
    }
}

pub(crate) fn minutes<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Duration(nanos) => Ok(Value::Int(nanos / 60_000_000_000)),
        _ => part(args, |civil| i64::from(civil.minute)),
    }
}

pub(crate) fn seconds<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Duration(nanos) => Ok(Value::Int(nanos / 1_000_000_000)),
        _ => part(args, |civil| i64::from(civil.second)),
    }
}

pub(crate) fn milliseconds<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Duration(nanos) => Ok(Value::Int(nanos / 1_000_000)),
        _ => parts(args).map(|(_, nanos)| Value::Int(i64::from(nanos / 1_000_000))),
    }
}
