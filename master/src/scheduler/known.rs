//! What is known of what pods want: most of what is heard of a pod is of other things, and does not have that read anew.

use std::collections::{HashMap, HashSet};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pod::{Pod, Wants};
use super::read::text_at;
use crate::controllers::Json;

/// What pods want, by their identities, each with what tells whether it is the same still.
#[derive(Debug, Default)]
pub struct Known {
    all: Mutex<HashMap<String, (u64, Arc<Wants>)>>,
    hashes: RandomState,
}

impl Known {
    /// Reads a Pod.
    pub fn pod(&self, object: &Json) -> Pod {
        let (uid, mark) = (text_at(object, "metadata.uid"), Wants::mark(object, &self.hashes));
        let known = self.all().get(&uid).filter(|(known, _)| *known == mark).map(|(_, wants)| wants.clone());
        let wants = known.unwrap_or_else(|| {
            let wants = Arc::new(Wants::of(object));
            self.all().insert(uid, (mark, wants.clone()));
            wants
        });
        Pod::with(object, wants)
    }

    /// Forgets a pod that is gone.
    pub fn forget(&self, pod: &Pod) {
        self.all().remove(&pod.uid);
    }

    /// Forgets all but these, and those of them that are over.
    pub fn keep(&self, pods: &[Pod]) {
        let there: HashSet<&str> =
            pods.iter().filter(|pod| !pod.is_over).map(|pod| pod.uid.as_str()).collect();
        self.all().retain(|uid, _| there.contains(uid.as_str()));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, (u64, Arc<Wants>)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! What is read anew, and what is not.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_a_pod_wants_is_read_anew_when_it_is_something_else() {
        let known = Known::default();
        let first = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        });
        let read = |object: &Value| known.pod(object.as_object().unwrap());
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
            assert_eq!(Arc::ptr_eq(&now.wants, &before.wants), is_same, "{object}");
            assert_eq!(now, Pod::of(object.as_object().unwrap()), "{object}");
            known.forget(&now);
            let mark = Wants::mark(first.as_object().unwrap(), &known.hashes);
            known.all().insert("u".to_owned(), (mark, before.wants.clone()));
        }
        known.keep(&[]);
        assert!(known.all().is_empty());
    }
}
