//! Medians and percentiles.

/// The median of the values; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The nearest-rank percentile: the smallest value that is at least as large as `percent` percent of all values; `None` without values.
pub(crate) fn percentile(values: &[f64], percent: u8) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * usize::from(percent.min(100))).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn a_percentile_is_a_value_that_occurred() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let table = [(0, 1.0), (1, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)];
        for (percent, expected) in table {
            assert_eq!(percentile(&hundred, percent), Some(expected), "{percent}");
        }
        assert_eq!(percentile(&[3.0], 99), Some(3.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
