//! When a run of equal results becomes a verdict.

/// How many results in a row decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    /// Successes in a row.
    pub success: u32,
    /// Failures in a row.
    pub failure: u32,
}

/// The results of one probe so far: the last one and how often it came in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    last: Option<bool>,
    length: u32,
}

impl Run {
    /// Counts a result; `Some` is the verdict once the run is as long as its threshold, and ever after.
    pub fn count(&mut self, success: bool, thresholds: Thresholds) -> Option<bool> {
        if self.last == Some(success) {
            self.length = self.length.saturating_add(1);
        } else {
            *self = Self { last: Some(success), length: 1 };
        }
        let needed = if success { thresholds.success } else { thresholds.failure };
        (self.length >= needed).then_some(success)
    }
}
