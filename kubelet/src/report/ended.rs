//! A queue of pushed pods that have completely ended on this node, for the cleanup that deletes their objects.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::observed::PodUid;

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedPod {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// A queue of ended pods. It holds each pod once, so the number of pods of the node limits it.
#[derive(Debug, Default)]
pub struct EndedPods {
    pods: Mutex<BTreeMap<PodUid, EndedPod>>,
    added: Notify,
}

impl EndedPods {
    /// Adds a pod.
    pub fn add(&self, uid: PodUid, namespace: &str, name: &str) {
        self.lock().insert(uid, EndedPod { namespace: namespace.to_owned(), name: name.to_owned() });
        self.added.notify_one();
    }

    /// Takes all pods; waits while there are none. It is cancel safe.
    pub async fn take(&self) -> BTreeMap<PodUid, EndedPod> {
        loop {
            let pods = std::mem::take(&mut *self.lock());
            if !pods.is_empty() {
                return pods;
            }
            self.added.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, EndedPod>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the queue.

    use super::*;

    #[tokio::test]
    async fn a_taken_pod_is_not_taken_again() {
        let ended = EndedPods::default();
        ended.add(PodUid::new("1"), "shop", "web");
        ended.add(PodUid::new("1"), "shop", "web");
        assert_eq!(ended.take().await.len(), 1);
        ended.add(PodUid::new("2"), "shop", "web");
        assert!(ended.take().await.contains_key(&PodUid::new("2")));
    }
}
