//! What running an expression may cost: about one for each step, more for what walks long texts and lists.

use crate::error::Error;

/// How many bytes of text one step reads.
const BYTES_A_STEP: usize = 10;

/// Steps that are left.
#[derive(Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// So many steps.
    pub fn of(steps: u64) -> Self {
        Self { left: steps }
    }

    /// How many are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes steps off.
    ///
    /// # Errors
    /// When there are not as many.
    pub fn spend(&mut self, steps: usize) -> Result<(), Error> {
        let left = self.left.checked_sub(steps as u64);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(Error::OutOfBudget)
    }

    /// Does something with at most so many of the steps that are left, and takes off what that used.
    pub(crate) fn lend<T>(&mut self, most: u64, run: impl FnOnce(&mut Self) -> T) -> T {
        let mut lent = Self::of(self.left.min(most));
        self.left -= lent.left;
        let result = run(&mut lent);
        self.left += lent.left;
        result
    }

    /// Takes off what reading or making a text of that many bytes costs.
    ///
    /// # Errors
    /// When it is more than is left.
    pub fn read(&mut self, bytes: usize) -> Result<(), Error> {
        self.spend(bytes / BYTES_A_STEP + 1)
    }
}
