//! What the class of Burstable pods weighs: the sum of what they ask for.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::LEAST_SHARES;
use crate::observed::PodUid;

/// Shares of the Burstable pods.
#[derive(Default)]
pub(super) struct Burstable {
    shares: Mutex<Shares>,
}

#[derive(Default)]
struct Shares {
    of_pods: BTreeMap<PodUid, i64>,
    told: Told,
}

/// What the class has been given.
#[derive(Clone, Copy, Default)]
enum Told {
    /// Nothing by this kubelet.
    #[default]
    Nothing,
    /// This sum.
    Sum(i64),
    /// What cannot be known: it was refused.
    Unknown,
}

impl Burstable {
    /// Notes the shares of a pod, or forgets them, and gives the class the sum if it has another. One at a time: of two sums
    /// the newer must be told last.
    ///
    /// # Errors
    /// What `tell` says; the next call tells again.
    pub fn weigh(
        &self,
        uid: &PodUid,
        shares: Option<i64>,
        tell: impl FnOnce(i64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut all = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changed = match shares {
            Some(shares) => all.of_pods.insert(uid.clone(), shares) != Some(shares),
            None => all.of_pods.remove(uid).is_some(),
        };
        let sum = all.of_pods.values().sum::<i64>().max(LEAST_SHARES);
        let is_due = match all.told {
            Told::Nothing => is_changed,
            Told::Sum(told) => told != sum,
            Told::Unknown => true,
        };
        if is_due {
            all.told = Told::Unknown;
            tell(sum)?;
            all.told = Told::Sum(sum);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
