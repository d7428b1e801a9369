//! A small seeded generator.

/// SplitMix64: every seed gives the same cases on every machine.
pub(crate) struct Random(u64);

impl Random {
    /// `RDD_ORACLE_SEED` moves all seeds: another number, other cases.
    pub(crate) fn new(seed: u64) -> Self {
        let moved: u64 = std::env::var("RDD_ORACLE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        Self(seed.wrapping_add(moved.wrapping_mul(0x5851_f42d_4c95_7f2d)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).expect("smaller than a usize")
    }

    /// True in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}
