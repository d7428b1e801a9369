//! A random number generator whose seed is printed, so that a run can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

/// The variable with the seed of a run that is to be repeated.
const VARIABLE: &str = "RDD_TEST_SEED";

impl Chance {
    /// Creates a generator with the seed of the environment, or with a new one. The seed is printed, so that a failure shows it.
    pub(crate) fn new(test: &str) -> Self {
        let given = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        #[expect(clippy::disallowed_methods, reason = "any number will do, as long as it is printed")]
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64 % 1_000_000);
        let seed = given.unwrap_or_else(now);
        eprintln!("{test}: {VARIABLE}={seed} repeats it");
        Self(seed)
    }

    /// Another generator, seeded by this one.
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

    /// A number from 0 to `end - 1`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    /// One of these items; `None` if there are none.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let at = self.below(of.len());
        of.get(at)
    }
}
