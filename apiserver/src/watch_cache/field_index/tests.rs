//! Subscribers of a field value get exactly the matching changes of the history.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;
use crate::resource::{Field, Fields};
use crate::watch_cache::{Draft, Scope, TooOld, WatchCache};

const NODE: &str = "spec.nodeName";

fn draft(name: &str, node: &str, color: usize) -> Draft {
    let object =
        json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"nodeName": node, "color": color}});
    Draft::new(object.as_object().unwrap(), &Fields::from([Field::path(NODE)]))
}

fn field_value(value: &str) -> FieldValue {
    FieldValue { path: NODE.to_owned(), value: value.to_owned() }
}

fn revisions(changes: &[Arc<Change>]) -> Vec<u64> {
    changes.iter().map(|change| change.revision).collect()
}

/// All matching changes so far.
fn of_history(store: &WatchCache, field_value: &FieldValue, after: u64) -> Vec<u64> {
    let mut all = store.watch("pods", Scope::All, after).unwrap();
    let mut found = Vec::new();
    loop {
        let changes = all.ready().unwrap();
        if changes.is_empty() {
            return found;
        }
        found.extend(
            changes.iter().filter(|change| matches(field_value, change)).map(|change| change.revision),
        );
    }
}

#[test]
fn an_indexed_watch_receives_the_events_of_its_value() {
    let mut random = fastrand::Rng::with_seed(7);
    let store = WatchCache::new(0);
    let change = |random: &mut fastrand::Rng| {
        let name = format!("p{}", random.usize(..6));
        match random.usize(..4) {
            0 => drop(store.delete("pods", "a", &name)),
            _ => drop(store.put("pods", &draft(&name, ["", "m", "n"][random.usize(..3)], random.usize(..)))),
        }
    };
    for value in ["", "m", "n", "nobody"] {
        let field_value = field_value(value);
        let after = store.revision();
        for _ in 0..20 {
            change(&mut random);
        }
        // Starts in the past and gets new changes.
        let mut watcher = store.watch_field("pods", Scope::All, field_value.clone(), after).unwrap();
        let mut received = Vec::new();
        for _ in 0..100 {
            change(&mut random);
            if random.usize(..5) == 0 {
                received.extend(revisions(&watcher.ready().unwrap()));
            }
        }
        received.extend(revisions(&watcher.ready().unwrap()));
        assert_eq!(received, of_history(&store, &field_value, after), "{value:?}");
        assert!(!watcher.has_changes() && watcher.bookmark_revision() == store.revision(), "{value:?}");
    }
}

#[tokio::test]
async fn changes_of_other_objects_do_not_wake_or_expire_a_watcher() {
    let store = WatchCache::new(0);
    let mut watcher = store.watch_field("pods", Scope::All, field_value("m"), 0).unwrap();
    for round in 0..=HISTORY_CHANGES {
        store.put("pods", &draft("other", "n", round));
    }
    assert!(!watcher.has_changes());
    assert_eq!(watcher.bookmark_revision(), store.revision());
    let waiting = tokio::spawn(async move { watcher.next().await.map(|changes| revisions(&changes)) });
    tokio::task::yield_now().await;
    let revision = store.put("pods", &draft("own", "m", 0)).object().revision();
    assert_eq!(waiting.await.unwrap().unwrap(), [revision]);
    assert!(
        store.watch_field("pods", Scope::All, field_value("m"), 0).is_err(),
        "the history does not go back that far"
    );
}

#[test]
fn stalled_watcher_is_closed_and_releases_its_memory() {
    let store = WatchCache::new(0);
    let mut slow = store.watch_field("pods", Scope::All, field_value("m"), 0).unwrap();
    let mut other = store.watch_field("pods", Scope::All, field_value("m"), 0).unwrap();
    for round in 0..=QUEUE_CHANGES {
        store.put("pods", &draft("x", "m", round));
        assert!(!other.ready().unwrap().is_empty());
    }
    let now = store.revision();
    assert_eq!(slow.ready().unwrap_err(), TooOld { requested: 0, oldest: now });
    // A replaced resource has new subscribers; those of the old one are closed.
    store.replace_resource("pods", Vec::new(), now);
    let mut third = store.watch_field("pods", Scope::All, field_value("m"), now).unwrap();
    drop((slow, other));
    store.put("pods", &draft("x", "m", 0));
    assert_eq!(third.ready().unwrap().len(), 1);
    drop(third);
    assert!(store.lock().table_mut("pods").unwrap().has_no_subscribers());
}

#[test]
fn changes_of_one_revision_are_delivered_together() {
    let store = WatchCache::new(0);
    for at in 0..300 {
        store.put("pods", &draft(&format!("p{at:03}"), "m", 0));
    }
    let mut watcher = store.watch_field("pods", Scope::All, field_value("m"), 300).unwrap();
    let gone = |at| crate::watch_cache::StorageEvent::Delete {
        resource: "pods".to_owned(),
        namespace: "a".to_owned(),
        name: format!("p{at:03}"),
    };
    store.apply(301, (0..300).map(gone));
    assert_eq!(watcher.ready().unwrap().len(), 300);
}
