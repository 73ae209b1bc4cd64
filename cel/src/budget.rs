//! The cost budget of an evaluation. A step costs about one, and more for long strings and lists.

use crate::error::Error;

/// Bytes of text that cost one unit.
const BYTES_PER_UNIT: usize = 10;

/// The remaining cost.
#[derive(Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// Creates a budget of this cost.
    pub fn of(steps: u64) -> Self {
        Self { left: steps }
    }

    /// The remaining cost.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Charges a cost.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] if less is left.
    pub fn charge(&mut self, steps: usize) -> Result<(), Error> {
        let left = self.left.checked_sub(steps as u64);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(Error::OutOfBudget)
    }

    /// Runs a function with at most `most` of the remaining budget, and charges the cost that it used.
    pub(crate) fn with_limit<T>(&mut self, most: u64, run: impl FnOnce(&mut Self) -> T) -> T {
        let mut lent = Self::of(self.left.min(most));
        self.left -= lent.left;
        let result = run(&mut lent);
        self.left += lent.left;
        result
    }

    /// Charges the cost of reading or creating a text of this size.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] if less is left.
    pub fn charge_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.charge(bytes / BYTES_PER_UNIT + 1)
    }
}
