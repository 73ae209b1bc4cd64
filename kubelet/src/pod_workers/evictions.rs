//! Connects the eviction manager with pod workers: pods that can be evicted, requests to evict, and the return of pods
//! after the pressure.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::desired::{DesiredPod, SourceKind};
use crate::observed::{PodUid, Pressure, Timestamp};
use crate::plan::Eviction;

/// A request to evict a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The eviction signal, for the metric.
    pub signal: &'static str,
    /// The message of status and event.
    pub message: String,
    /// Longest grace period of the pod's containers.
    pub grace: Duration,
    /// The node pressure. `None` if the pod exceeds a limit of its own.
    pub pressure: Option<Pressure>,
}

/// An evicted pod of a local source (file, URL or the API of the node), which returns after the pressure.
#[derive(Clone, Debug)]
pub struct Evicted {
    pub pod: Arc<DesiredPod>,
    pub at: Timestamp,
}

/// Requests to evict one pod, for its worker.
pub(super) type Requests = watch::Receiver<Option<Arc<Request>>>;

/// The pods of this node that can be evicted, and those that were.
#[derive(Debug, Default)]
pub struct Evictions {
    pods: Mutex<BTreeMap<PodUid, Entry>>,
    /// Notified when an evicted pod has released its resources, or ends.
    released: Notify,
    /// Notified when a pod may return.
    returned: Notify,
}

#[derive(Debug)]
enum Entry {
    /// The pod can be evicted.
    Active { pod: Arc<DesiredPod>, requests: watch::Sender<Option<Arc<Request>>> },
    /// The pod was evicted.
    Evicted {
        pod: Arc<DesiredPod>,
        eviction: Eviction,
        /// Whether it has released its memory and disk space.
        is_released: bool,
        /// When the eviction manager let it return.
        returned_at: Option<Timestamp>,
    },
}

impl Evictions {
    /// All pods that can be evicted.
    pub fn active(&self) -> Vec<Arc<DesiredPod>> {
        let pods = self.lock();
        let active = pods.values().filter_map(|entry| match entry {
            Entry::Active { pod, .. } => Some(pod.clone()),
            Entry::Evicted { .. } => None,
        });
        active.collect()
    }

    /// Requests the eviction of a pod. Returns false if the pod has ended meanwhile.
    pub fn evict(&self, uid: &PodUid, request: Request) -> bool {
        match self.lock().get(uid) {
            Some(Entry::Active { requests, .. }) => requests.send(Some(Arc::new(request))).is_ok(),
            Some(Entry::Evicted { .. }) | None => false,
        }
    }

    /// Waits until a pod that was requested to be evicted has released its resources.
    pub async fn released(&self, uid: &PodUid) {
        loop {
            let notified = self.released.notified();
            match self.lock().get(uid) {
                Some(Entry::Evicted { is_released: false, .. } | Entry::Active { .. }) => {}
                Some(Entry::Evicted { is_released: true, .. }) | None => return,
            }
            notified.await;
        }
    }

    /// Evicted pods of local sources that wait for the end of the pressure.
    pub fn waiting(&self) -> Vec<Evicted> {
        let pods = self.lock();
        let waiting = pods.values().filter_map(|entry| match entry {
            Entry::Evicted { pod, eviction, is_released: true, returned_at: None }
                if eviction.pressure.is_some() && pod.source != SourceKind::Api =>
            {
                Some(Evicted { pod: pod.clone(), at: eviction.at })
            }
            Entry::Evicted { .. } | Entry::Active { .. } => None,
        });
        waiting.collect()
    }

    /// Lets an evicted pod start again, as soon as admission permits.
    pub fn let_return(&self, uid: &PodUid, now: Timestamp) {
        if let Some(Entry::Evicted { returned_at, eviction, .. }) = self.lock().get_mut(uid) {
            // The wall clock may have been set back since the eviction.
            let after = eviction.at.checked_add(Duration::from_nanos(1)).unwrap_or(eviction.at);
            *returned_at = Some(now.max(after));
        }
        self.returned.notify_one();
    }

    /// Pods that may return, and since when.
    pub(super) fn returning(&self) -> BTreeMap<PodUid, Timestamp> {
        let pods = self.lock();
        let returning = pods.iter().filter_map(|(uid, entry)| match entry {
            Entry::Evicted { returned_at: Some(at), .. } => Some((uid.clone(), *at)),
            Entry::Evicted { .. } | Entry::Active { .. } => None,
        });
        returning.collect()
    }

    /// Waits until a pod may return.
    pub(super) async fn may_return(&self) {
        self.returned.notified().await;
    }

    /// Adds a pod that can be evicted, or replaces its version.
    pub(super) fn add(&self, pod: &Arc<DesiredPod>) -> Requests {
        let mut pods = self.lock();
        let (requests, received) = match pods.remove(&pod.uid) {
            Some(Entry::Active { requests, .. }) => {
                let received = requests.subscribe();
                (requests, received)
            }
            Some(Entry::Evicted { .. }) | None => watch::channel(None),
        };
        pods.insert(pod.uid.clone(), Entry::Active { pod: pod.clone(), requests });
        received
    }

    /// Records the eviction of a pod, and whether it has released its resources.
    pub(super) fn set_evicted(&self, pod: &Arc<DesiredPod>, eviction: &Eviction, is_released: bool) {
        let mut pods = self.lock();
        let returned_at = match pods.get(&pod.uid) {
            Some(Entry::Evicted { returned_at, eviction: before, .. }) if before == eviction => *returned_at,
            Some(Entry::Evicted { .. } | Entry::Active { .. }) | None => None,
        };
        let entry = Entry::Evicted { pod: pod.clone(), eviction: eviction.clone(), is_released, returned_at };
        pods.insert(pod.uid.clone(), entry);
        drop(pods);
        if is_released {
            self.released.notify_waiters();
        }
    }

    /// Removes a pod that has ended or is terminating.
    pub(super) fn remove(&self, uid: &PodUid) {
        self.lock().remove(uid);
        self.released.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, Entry>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of pods between eviction and return.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use k8s_openapi::api::core::v1::Pod;
    use tokio::time::timeout;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn pod(source: SourceKind) -> Arc<DesiredPod> {
        Arc::new(DesiredPod { uid: PodUid::new("u"), pod: Arc::new(Pod::default()), source })
    }

    fn eviction(pressure: Option<Pressure>) -> Eviction {
        Eviction { at: NOW, grace: Duration::ZERO, pressure }
    }

    #[tokio::test(start_paused = true)]
    async fn an_evicted_pod_is_waited_for_until_it_has_released_its_resources() {
        let evictions = Evictions::default();
        let pod = pod(SourceKind::File);
        let requests = evictions.add(&pod);
        let request = Request { signal: "s", message: "m".into(), grace: Duration::ZERO, pressure: None };
        assert!(evictions.evict(&pod.uid, request.clone()));
        assert_eq!(requests.borrow().as_deref(), Some(&request));
        let short = Duration::from_secs(1);
        timeout(short, evictions.released(&pod.uid)).await.unwrap_err();
        evictions.set_evicted(&pod, &eviction(None), false);
        assert!(!evictions.evict(&pod.uid, request) && evictions.active().is_empty());
        timeout(short, evictions.released(&pod.uid)).await.unwrap_err();
        evictions.set_evicted(&pod, &eviction(None), true);
        evictions.released(&pod.uid).await;
        evictions.remove(&pod.uid);
        evictions.released(&pod.uid).await;
    }

    #[test]
    fn only_local_pods_return_from_pressure() {
        for (source, pressure, returns) in [
            (SourceKind::File, Some(Pressure::Memory), true),
            (SourceKind::Http, Some(Pressure::Disk), true),
            (SourceKind::Push, Some(Pressure::Disk), true),
            (SourceKind::Api, Some(Pressure::Memory), false),
            (SourceKind::File, None, false),
        ] {
            let (evictions, pod) = (Evictions::default(), pod(source));
            evictions.set_evicted(&pod, &eviction(pressure), false);
            assert!(evictions.waiting().is_empty(), "it still stops");
            evictions.set_evicted(&pod, &eviction(pressure), true);
            assert_eq!(evictions.waiting().len(), usize::from(returns));
            evictions.let_return(&pod.uid, NOW);
            evictions.set_evicted(&pod, &eviction(pressure), true);
            assert!(evictions.waiting().is_empty(), "it returns already");
            assert!(
                evictions.returning()[&pod.uid] > NOW,
                "later than the eviction, whatever the clock says"
            );
            evictions.add(&pod);
            assert!(evictions.returning().is_empty() && evictions.active().len() == 1);
        }
    }
}
