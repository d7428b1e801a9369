//! A small seeded random number generator: the same seed gives the same test cases on every machine.

/// A SplitMix64 generator.
///
/// The variable `RDD_ORACLE_SEED` shifts all seeds of a run; another value gives other cases.
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// Creates a generator whose sequence depends only on `seed` and `RDD_ORACLE_SEED`.
    pub fn new(seed: u64) -> Self {
        let moved: u64 = std::env::var("RDD_ORACLE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        Self(seed.wrapping_add(moved.wrapping_mul(0x5851_f42d_4c95_7f2d)))
    }

    /// Any 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next_u64() % (limit.max(1) as u64)).expect("smaller than a usize")
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// True in `per_mille` of 1000 cases.
    pub fn per_mille(&mut self, per_mille: usize) -> bool {
        self.below(1000) < per_mille
    }

    /// True in one of `chances` cases.
    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// One of the items.
    ///
    /// # Panics
    ///
    /// If there is no item.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_cases_and_another_seed_has_others() {
        let draw = |seed| -> Vec<usize> {
            let mut random = SeededRandom::new(seed);
            (0..8).map(|_| random.below(1000)).collect()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let mut items: Vec<u8> = (0..20).collect();
        SeededRandom::new(1).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert_eq!(items, (0..20).collect::<Vec<_>>());
    }
}
