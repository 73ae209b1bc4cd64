//! Cache of parsed scheduling specs. Most pod updates only change the status, so the spec is not parsed again.

use std::collections::{HashMap, HashSet};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pod::{Pod, SchedulingSpec};
use crate::objects;

/// Parsed specs by pod UID, each with the fingerprint of its source.
#[derive(Debug, Default)]
pub struct SpecCache {
    all: Mutex<HashMap<String, (u64, Arc<SchedulingSpec>)>>,
    hasher: RandomState,
}

impl SpecCache {
    /// Parses a Pod. Uses the cached spec if its fingerprint is unchanged.
    pub fn pod(&self, mut object: objects::Pod) -> Pod {
        let fingerprint = SchedulingSpec::fingerprint(&mut object, &self.hasher);
        let uid = &*object.metadata.uid;
        let cached =
            self.all().get(uid).filter(|(cached, _)| *cached == fingerprint).map(|(_, spec)| spec.clone());
        let spec = cached.unwrap_or_else(|| {
            let spec = Arc::new(SchedulingSpec::of(&object));
            self.all().insert(uid.to_owned(), (fingerprint, spec.clone()));
            spec
        });
        Pod::with(object, spec)
    }

    /// Drops the spec of a pod.
    pub fn forget(&self, pod: &Pod) {
        self.all().remove(&pod.uid);
    }

    /// Drops the specs of all pods except the given ones. Also drops those of terminated pods.
    pub fn retain(&self, pods: &[Pod]) {
        let there: HashSet<&str> =
            pods.iter().filter(|pod| !pod.is_terminal).map(|pod| pod.uid.as_str()).collect();
        self.all().retain(|uid, _| there.contains(uid.as_str()));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, (u64, Arc<SchedulingSpec>)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of hits and misses of the cache.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde::Deserialize as _;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn spec_cache_parses_a_changed_spec_again() {
        let cached = SpecCache::default();
        let first = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        });
        let parse = |object: &Value| objects::Pod::deserialize(object).unwrap();
        let read = |object: &Value| cached.pod(parse(object));
        let before = read(&first);
        let with = |path: &str, value: Value| {
            let mut object = first.clone();
            let (parent, field) = path.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value;
            object
        };
        let had = json!({"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]});
        for (object, is_same) in [
            (with("/metadata/resourceVersion", json!("2")), true),
            (with("/spec/nodeName", json!("a")), true),
            (with("/status", json!({"phase": "Running", "containerStatuses": [{"name": "c"}]})), true),
            (with("/metadata/labels", json!({"app": "db"})), false),
            (with("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")), false),
            (with("/spec/tolerations", json!([{"operator": "Exists"}])), false),
            (with("/spec/containers", json!([])), false),
            (with("/status", had), false),
        ] {
            let now = read(&object);
            assert_eq!(Arc::ptr_eq(&now.spec, &before.spec), is_same, "{object}");
            assert_eq!(now, Pod::of(parse(&object)), "{object}");
            cached.forget(&now);
            let fingerprint = SchedulingSpec::fingerprint(&mut parse(&first), &cached.hasher);
            cached.all().insert("u".to_owned(), (fingerprint, before.spec.clone()));
        }
        cached.retain(&[]);
        assert!(cached.all().is_empty());
    }
}
