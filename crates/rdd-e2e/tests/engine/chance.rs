//! Chance that can be repeated: all of it follows from a seed, which is printed.

use std::time::{SystemTime, UNIX_EPOCH};

/// A generator of numbers (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

/// Names the seed of a run that is to be repeated.
const VARIABLE: &str = "RDD_TEST_SEED";

impl Chance {
    /// One of the seed that the environment names, or of a new one. It is printed, so that a failure says which.
    pub(crate) fn new(test: &str) -> Self {
        let given = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        #[expect(clippy::disallowed_methods, reason = "any number will do, as long as it is printed")]
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64 % 1_000_000);
        let seed = given.unwrap_or_else(now);
        eprintln!("{test}: {VARIABLE}={seed} repeats it");
        Self(seed)
    }

    /// Another one, which follows from this.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let at = self.below(of.len());
        of.get(at)
    }
}
