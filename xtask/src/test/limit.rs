//! The timeouts of test programs.

use std::time::Duration;

use anyhow::{Context, Result};

const DEFAULT: Duration = Duration::from_secs(600);

/// Programs with a longer timeout, by a part of their label; the first match counts. They make hundreds of thousands of writes, start many
/// daemons, or build a control plane first.
const LONGER: &[(&str, Duration)] = &[
    ("rdd-store", Duration::from_secs(1200)),
    ("rdd-e2e/kubernetes", Duration::from_secs(1800)),
    ("rdd-e2e", Duration::from_secs(1200)),
];

/// The timeouts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limits {
    /// The default, or the longer one of the table.
    Usual,
    /// The same timeout for every program.
    Fixed(Duration),
    /// No timeout, for a debugger. Interrupting the run still writes a support bundle.
    Off,
}

impl Limits {
    /// Parses `RDD_TEST_TIMEOUT`, in seconds; 0 means no timeout.
    pub(super) fn from_environment() -> Result<Self> {
        Self::parse(std::env::var("RDD_TEST_TIMEOUT").ok().as_deref())
    }

    fn parse(value: Option<&str>) -> Result<Self> {
        let Some(text) = value.filter(|text| !text.is_empty()) else { return Ok(Self::Usual) };
        let seconds = text.parse().with_context(|| format!("RDD_TEST_TIMEOUT is no number of seconds: {text:?}"))?;
        Ok(if seconds == 0 { Self::Off } else { Self::Fixed(Duration::from_secs(seconds)) })
    }

    /// The timeout of a program; `None` for none.
    pub(super) fn of(self, label: &str) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::Fixed(limit) => Some(limit),
            Self::Usual => {
                let longer = LONGER.iter().find(|(part, _)| label.contains(part)).map(|(_, limit)| *limit);
                Some(longer.unwrap_or(DEFAULT))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_replaces_the_table_and_zero_switches_it_off() {
        let usual = Limits::parse(None).unwrap();
        assert_eq!(usual, Limits::parse(Some("")).unwrap());
        assert_eq!(usual.of("rdd-cli"), Some(DEFAULT));
        assert_eq!(usual.of("rdd-store/kill"), Some(Duration::from_secs(1200)));
        assert_eq!(Limits::parse(Some("7")).unwrap().of("rdd-store"), Some(Duration::from_secs(7)));
        assert_eq!(Limits::parse(Some("0")).unwrap().of("rdd-store"), None);
        assert!(Limits::parse(Some("10m")).is_err());
    }
}
