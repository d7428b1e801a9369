//! Times on the engine's own clock, the only clock that its event stream understands.

use std::{fmt, time::Duration};

use jiff::Timestamp;

/// A time on the engine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineTime {
    /// Whole seconds since the Unix epoch.
    pub seconds: i64,
    /// The nanoseconds within the second.
    pub nanoseconds: u32,
}

/// The offset of the engine's clock from this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skew {
    /// The engine is ahead by this much.
    Ahead(Duration),
    /// The engine is behind by this much.
    Behind(Duration),
}

impl EngineTime {
    /// Parses the engine's format, as in `2026-11-15T18:42:03.123456789Z`.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<Timestamp>().ok().map(Self::from)
    }

    /// From nanoseconds since the epoch, as in events.
    pub(crate) fn from_nanoseconds(nanoseconds: i64) -> Self {
        let (seconds, rest) = (nanoseconds.div_euclid(1_000_000_000), nanoseconds.rem_euclid(1_000_000_000));
        Self { seconds, nanoseconds: u32::try_from(rest).unwrap_or(0) }
    }

    /// Rounds down to the whole second, so that an event stream from there misses nothing.
    pub(crate) fn floor(self) -> Self {
        Self { nanoseconds: 0, ..self }
    }

    /// The offset from a time of this machine, given since the Unix epoch.
    pub fn skew(self, wall: Duration) -> Skew {
        let theirs = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds);
        let ours = i128::try_from(wall.as_nanos()).unwrap_or(i128::MAX);
        let distance = theirs.saturating_sub(ours);
        let size = Duration::from_nanos(u64::try_from(distance.unsigned_abs()).unwrap_or(u64::MAX));
        if distance < 0 { Skew::Behind(size) } else { Skew::Ahead(size) }
    }
}

impl From<Timestamp> for EngineTime {
    fn from(time: Timestamp) -> Self {
        Self::from_nanoseconds(i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX))
    }
}

/// The format of the `since` parameter.
impl fmt::Display for EngineTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.seconds, self.nanoseconds)
    }
}

impl Skew {
    /// The size of the offset in either direction.
    pub fn size(self) -> Duration {
        match self {
            Self::Ahead(size) | Self::Behind(size) => size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_the_engine_writes_it_and_written_as_it_reads_it() {
        let time = EngineTime::parse("2026-11-15T18:42:03.000000042Z").unwrap();
        assert_eq!(time.to_string(), "1794768123.000000042");
        assert_eq!(time.floor().to_string(), "1794768123.000000000");
        let zoned = EngineTime::parse("2026-11-15T19:42:03.000000042+01:00").unwrap();
        assert_eq!(zoned, time);
        assert_eq!(EngineTime::from_nanoseconds(1_794_768_123_000_000_042), time);
        assert_eq!(EngineTime::parse("yesterday"), None);
    }

    #[test]
    fn skew_is_told_in_either_direction() {
        let time = EngineTime { seconds: 1000, nanoseconds: 0 };
        assert_eq!(time.skew(Duration::from_secs(400)), Skew::Ahead(Duration::from_mins(10)));
        assert_eq!(time.skew(Duration::from_secs(8200)), Skew::Behind(Duration::from_hours(2)));
        assert_eq!(time.skew(Duration::from_secs(1000)).size(), Duration::ZERO);
    }
}
