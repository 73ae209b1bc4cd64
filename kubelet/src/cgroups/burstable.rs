//! The CPU shares of the Burstable QoS class: the sum of its pods' requests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::MIN_CPU_SHARES;
use crate::observed::PodUid;

/// CPU shares of the Burstable pods.
#[derive(Default)]
pub(super) struct Burstable {
    shares: Mutex<Shares>,
}

#[derive(Default)]
struct Shares {
    of_pods: BTreeMap<PodUid, i64>,
    written: WrittenShares,
}

/// The CPU shares that the class cgroup has.
#[derive(Clone, Copy, Default)]
enum WrittenShares {
    /// This kubelet has not written a value.
    #[default]
    None,
    /// This kubelet wrote this sum.
    Sum(i64),
    /// A write failed, so the value is unknown.
    Unknown,
}

impl Burstable {
    /// Sets or removes the CPU shares of a pod, and writes the new sum if it changed. Calls are serialized, so that
    /// the newest sum is written last.
    ///
    /// # Errors
    /// If `write` fails. The next call then writes again.
    pub fn set_shares(
        &self,
        uid: &PodUid,
        shares: Option<i64>,
        write: impl FnOnce(i64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut all = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changed = match shares {
            Some(shares) => all.of_pods.insert(uid.clone(), shares) != Some(shares),
            None => all.of_pods.remove(uid).is_some(),
        };
        let sum = all.of_pods.values().sum::<i64>().max(MIN_CPU_SHARES);
        let is_due = match all.written {
            WrittenShares::None => is_changed,
            WrittenShares::Sum(written) => written != sum,
            WrittenShares::Unknown => true,
        };
        if is_due {
            all.written = WrittenShares::Unknown;
            write(sum)?;
            all.written = WrittenShares::Sum(sum);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of CPU shares of the burstable QoS cgroup as pods are added and removed.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// One change: the pod, its shares, whether the write succeeds, and the sum that is written to the cgroup.
    type Change = (&'static str, Option<i64>, bool, Option<i64>);

    #[test]
    fn a_new_sum_is_written_until_a_write_succeeds() {
        let changes: [Change; 12] = [
            ("other", None, true, None),
            ("a", Some(2), true, Some(2)),
            ("a", Some(2), true, None),
            ("b", Some(100), false, Some(102)),
            ("b", Some(100), false, Some(102)),
            ("b", Some(100), true, Some(102)),
            ("b", Some(100), true, None),
            ("a", None, false, Some(100)),
            ("other", None, true, Some(100)),
            // A failed write may have taken effect.
            ("a", Some(2), false, Some(102)),
            ("a", None, true, Some(100)),
            ("b", None, true, Some(MIN_CPU_SHARES)),
        ];
        let class = Burstable::default();
        for (at, (pod, shares, takes, expected)) in changes.into_iter().enumerate() {
            let mut written = None;
            let result = class.set_shares(&PodUid::new(pod), shares, |sum| {
                written = Some(sum);
                if takes { Ok(()) } else { Err(io::Error::other("no")) }
            });
            assert_eq!(written, expected, "change {at}");
            assert_eq!(result.is_ok(), takes, "change {at}");
        }
    }

    #[test]
    fn after_concurrent_changes_the_last_written_value_is_the_sum() {
        let (class, written) = (Burstable::default(), Mutex::new(0));
        std::thread::scope(|scope| {
            for pod in 0..32 {
                let (class, written) = (&class, &written);
                scope.spawn(move || {
                    let write_shares = |sum| {
                        std::thread::yield_now();
                        *written.lock().unwrap() = sum;
                        Ok(())
                    };
                    class.set_shares(&PodUid::new(&pod.to_string()), Some(10), write_shares).unwrap();
                });
            }
        });
        assert_eq!(*written.lock().unwrap(), 320);
    }
}
