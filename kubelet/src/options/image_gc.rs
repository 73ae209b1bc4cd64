//! Settings of image garbage collection.

use std::time::Duration;

/// The settings of image garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageGc {
    /// `imageGCHighThresholdPercent`: from this disk usage on, images are removed. 100 disables it.
    pub high_percent: u8,
    /// `imageGCLowThresholdPercent`: images are removed down to this disk usage.
    pub low_percent: u8,
    /// `imageMinimumGCAge`: how long an image stays at least after its pull.
    pub min_age: Duration,
    /// `imageMaximumGCAge`: unused images older than this are removed regardless of the disk. Zero disables it.
    pub max_age: Duration,
}

impl ImageGc {
    /// Mistakes in the combination of settings, as the stock kubelet checks them.
    pub fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.low_percent >= self.high_percent {
            mistakes.push(format!(
                "imageGCLowThresholdPercent: {} is not below imageGCHighThresholdPercent {}",
                self.low_percent, self.high_percent
            ));
        }
        if !self.max_age.is_zero() && self.max_age <= self.min_age {
            mistakes.push("imageMaximumGCAge is not greater than imageMinimumGCAge".to_owned());
        }
        mistakes
    }
}

impl Default for ImageGc {
    /// The defaults of the stock kubelet.
    fn default() -> Self {
        Self { high_percent: 85, low_percent: 80, min_age: Duration::from_secs(120), max_age: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of invalid combinations.
    use super::*;

    #[test]
    fn thresholds_and_ages_are_in_order() {
        let default = ImageGc::default();
        assert!(default.mistakes().is_empty());
        assert_eq!(ImageGc { high_percent: 80, ..default }.mistakes().len(), 1);
        assert_eq!(ImageGc { max_age: Duration::from_secs(120), ..default }.mistakes().len(), 1);
        assert!(ImageGc { max_age: Duration::from_secs(121), ..default }.mistakes().is_empty());
    }
}
