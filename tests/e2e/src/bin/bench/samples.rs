//! Times in milliseconds, and their quantiles.

use k8s_openapi::jiff::Timestamp;

/// Measured times, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds the time between two instants.
    pub(crate) fn add(&mut self, from: Timestamp, to: Timestamp) {
        self.0.push(to.duration_since(from).as_secs_f64() * 1000.0);
    }

    /// Adds a duration.
    pub(crate) fn add_duration(&mut self, time: std::time::Duration) {
        self.0.push(time.as_secs_f64() * 1000.0);
    }

    /// Adds the samples of another round.
    pub(crate) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// The number of samples.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest value that `percent` of the samples do not exceed; 0 without samples.
    pub(crate) fn quantile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_nearest_rank() {
        let samples = Samples((1..=200).rev().map(f64::from).collect());
        for (percent, value) in [(50, 100.0), (99, 198.0), (100, 200.0)] {
            assert!((samples.quantile(percent) - value).abs() < f64::EPSILON, "{percent}");
        }
        assert!(Samples::default().quantile(99).abs() < f64::EPSILON);
    }
}
