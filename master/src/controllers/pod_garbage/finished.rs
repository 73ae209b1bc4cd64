//! Pods that have come to their end are kept until there are too many; then the oldest go.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::controllers::agenda::Next;
use crate::controllers::client::{Client, Delete, Error, Kind};
use crate::controllers::object::Object;
use crate::controllers::world::World;

/// How many are kept; the stock controller's `--terminated-pod-gc-threshold`.
const KEPT: usize = 12_500;
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

/// Takes away what is too much.
pub async fn collect(client: &Client, world: &World) -> Result<Next, Error> {
    for pod in plan(world.list(&Kind::POD, ""), KEPT) {
        let how = Delete { uid: Some(&pod.uid), grace_seconds: Some(0), ..Delete::default() };
        match client.delete(&Kind::POD, &pod.namespace, &pod.name, &how).await {
            Ok(()) => {}
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Next::Change)
}

#[cfg(test)]
mod tests {
    //! Who goes.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
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
}
