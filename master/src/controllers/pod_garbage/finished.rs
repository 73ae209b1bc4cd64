//! Pods that have come to their end are kept until there are too many; then the oldest go.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::agenda::Next;
use super::client::{Client, Delete, Error, Kind};
use super::object::Object;
use super::queue::{Controller, Queue};
use super::world::{Change, World};

/// Its name in `--controllers`.
pub const NAME: &str = "pod-garbage-collector-controller";
/// How many are kept; the stock controller's `--terminated-pod-gc-threshold`.
const KEPT: usize = 12_500;
/// Pods that end are gathered for so long; the stock controller looks as often.
const GATHER: Duration = Duration::from_secs(20);
/// The one thing that is looked at: all pods.
const ALL: &str = "pods";

/// The controller.
#[derive(Debug)]
pub struct Collector {
    client: Client,
    world: World,
}

impl Collector {
    /// Collects the pods of that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world }
    }
}

fn has_ended(pod: &Object) -> bool {
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

#[async_trait]
impl Controller for Collector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if change.kind.is(&Kind::POD) && change.now.as_deref().is_some_and(has_ended) {
            queue.add_in(ALL, GATHER);
        }
    }

    async fn look(&self, _: &str, _: &Queue) -> Result<Next, Error> {
        for pod in plan(self.world.list(&Kind::POD, ""), KEPT) {
            let how = Delete { uid: Some(&pod.uid), grace_seconds: Some(0), ..Delete::default() };
            match self.client.delete(&Kind::POD, &pod.namespace, &pod.name, &how).await {
                Ok(()) => {}
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Next::Change)
    }
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
