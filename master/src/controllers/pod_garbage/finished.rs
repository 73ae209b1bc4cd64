//! Pods that have come to their end are kept until there are too many; then the oldest go.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::controllers::agenda::Next;
use crate::controllers::client::{Client, Delete, Error, Kind};
use crate::controllers::object::Object;
use crate::controllers::world::World;

/// How many are kept; the stock controller's `--terminated-pod-gc-threshold`.
pub const KEPT: usize = 12_500;
/// Pods that end are gathered for so long; the stock controller looks as often.
pub const GATHER: Duration = Duration::from_secs(20);

/// Whether a pod has come to its end.
pub fn has_ended(pod: &Object) -> bool {
    matches!(pod.kept("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"))
}

/// The oldest of those that have ended, beyond how many are kept.
fn plan(pods: Vec<Arc<Object>>, kept: usize) -> Vec<Arc<Object>> {
    let mut ended: Vec<Arc<Object>> =
        pods.into_iter().filter(|pod| has_ended(pod) && !pod.is_ending).collect();
    ended.sort_by(|a, b| (&a.created, &a.namespace, &a.name).cmp(&(&b.created, &b.namespace, &b.name)));
    ended.truncate(ended.len().saturating_sub(kept));
    ended
}

/// Takes away what is too much of those that have ended.
pub async fn collect(client: &Client, world: &World, kept: usize) -> Result<Next, Error> {
    // One that cannot be taken away keeps no other; a server that is in trouble is not asked for all of them.
    let mut failed = None;
    for pod in plan(world.list(&Kind::POD, ""), kept) {
        let how = Delete { uid: Some(&pod.uid), grace_seconds: Some(0), ..Delete::default() };
        let gone = client.delete(&Kind::POD, &pod.namespace, &pod.name, &how).await;
        match gone {
            Err(error) if error.is_of_the_server() => return Err(error),
            Err(error) if !error.is_conflict() => failed = Some(error),
            Ok(()) | Err(_) => {}
        }
    }
    failed.map_or(Ok(Next::Change), Err)
}

#[cfg(test)]
mod tests {
    //! Who goes.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use http::{StatusCode, Uri};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_of_those_that_ended_go() {
        let pod = |name: &str, phase: &str, created: &str| {
            let pod = json!({
                "metadata": {"name": name, "creationTimestamp": created}, "status": {"phase": phase},
            });
            Arc::new(Object::of("pods", pod.as_object().unwrap()))
        };
        let pods = vec![
            pod("new", "Failed", "2026-01-03T00:00:00Z"),
            pod("old", "Succeeded", "2026-01-01T00:00:00Z"),
            pod("runs", "Running", "2025-01-01T00:00:00Z"),
            pod("middle", "Failed", "2026-01-02T00:00:00Z"),
        ];
        for (kept, gone) in [(0, 3), (1, 2), (2, 1), (3, 0), (9, 0)] {
            let names: Vec<String> = plan(pods.clone(), kept).iter().map(|pod| pod.name.clone()).collect();
            assert_eq!(names, ["old", "middle", "new"][..gone]);
        }
    }

    /// What is left of a, b and c, of which the server lets go as it answers, and of how many it was asked.
    async fn left(answer: fn(&str) -> StatusCode) -> (Vec<String>, usize) {
        let world = World::default();
        let kind = Arc::new(Kind::POD);
        world.open(&kind);
        for name in ["a", "b", "c"] {
            let pod = json!({"metadata": {"namespace": "n", "name": name}, "status": {"phase": "Failed"}});
            world.put(&kind, Object::of("pods", pod.as_object().unwrap()));
        }
        let (gone, asked) = (world.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = asked.clone();
        let delete = move |uri: Uri| async move {
            counted.fetch_add(1, Ordering::Relaxed);
            let name = uri.path().rsplit('/').next().unwrap().to_owned();
            let answer = answer(&name);
            if answer == StatusCode::OK {
                gone.remove(&Kind::POD, "n", &name);
            }
            (answer, "{}")
        };
        let client = Client::inside(Router::new().fallback(delete));
        assert!(collect(&client, &world, 0).await.is_err(), "it is tried again");
        let left = world.list(&Kind::POD, "").iter().map(|pod| pod.name.clone()).collect();
        (left, asked.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn one_that_cannot_go_keeps_no_other_and_a_server_in_trouble_is_left_alone() {
        let one = |name: &str| if name == "a" { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
        assert_eq!(left(one).await, (vec!["a".to_owned()], 3));
        let (all, asked) = left(|_| StatusCode::TOO_MANY_REQUESTS).await;
        assert_eq!((all.len(), asked), (3, 1));
    }
}
