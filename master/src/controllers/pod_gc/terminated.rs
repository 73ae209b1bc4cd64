//! Deletes the oldest terminated pods above the threshold.

use std::sync::Arc;
use std::time::Duration;

use client::{Client, DeleteOptions, Error, Kind};

use crate::controllers::informers::SharedInformers;
use crate::controllers::object::Object;
use crate::controllers::rate_limited_queue::Action;

/// Number of terminated pods to keep, the default of the stock `--terminated-pod-gc-threshold`.
pub const THRESHOLD: usize = 12_500;
/// Batch period, as the check interval in stock Kubernetes.
pub const BATCH_PERIOD: Duration = Duration::from_secs(20);

/// Returns the oldest terminated pods above the threshold.
fn plan(pods: Vec<Arc<Object>>, threshold: usize) -> Vec<Arc<Object>> {
    let mut ended: Vec<Arc<Object>> =
        pods.into_iter().filter(|pod| pod.pod().is_terminal() && !pod.is_terminating).collect();
    ended.sort_by(|a, b| {
        (&a.creation_timestamp, &a.namespace, &a.name).cmp(&(&b.creation_timestamp, &b.namespace, &b.name))
    });
    ended.truncate(ended.len().saturating_sub(threshold));
    ended
}

/// Deletes terminated pods above the threshold.
pub async fn collect(
    client: &Client,
    informers: &SharedInformers,
    threshold: usize,
) -> Result<Action, Error> {
    // A failed deletion does not stop the others, unless the API server is overloaded or unreachable.
    let mut failed = None;
    for pod in plan(informers.list(&Kind::POD, ""), threshold) {
        let how = DeleteOptions { uid: Some(&pod.uid), grace_seconds: Some(0), ..DeleteOptions::default() };
        let gone = client.delete(&Kind::POD, &pod.namespace, &pod.name, &how).await;
        match gone {
            Err(error) if error.is_server_unavailable() => return Err(error),
            Err(error) if !error.is_conflict() => failed = Some(error),
            Ok(()) | Err(_) => {}
        }
    }
    failed.map_or(Ok(Action::AwaitChange), Err)
}

#[cfg(test)]
mod tests {
    //! Tests of which terminated pods are deleted.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use http::{StatusCode, Uri};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_terminated_pods_are_deleted() {
        let pod = |name: &str, phase: &str, created: &str| {
            let pod = json!({
                "metadata": {"name": name, "creationTimestamp": created}, "status": {"phase": phase},
            });
            Arc::new(Object::decode("pods", pod.as_object().unwrap()).unwrap())
        };
        let pods = vec![
            pod("new", "Failed", "2026-01-03T00:00:00Z"),
            pod("old", "Succeeded", "2026-01-01T00:00:00Z"),
            pod("runs", "Running", "2025-01-01T00:00:00Z"),
            pod("middle", "Failed", "2026-01-02T00:00:00Z"),
        ];
        for (threshold, gone) in [(0, 3), (1, 2), (2, 1), (3, 0), (9, 0)] {
            let names: Vec<String> =
                plan(pods.clone(), threshold).iter().map(|pod| pod.name.clone()).collect();
            assert_eq!(names, ["old", "middle", "new"][..gone]);
        }
    }

    /// Returns which of the pods a, b and c remain if the server responds to deletions as given, and the number of
    /// requests.
    async fn left(answer: fn(&str) -> StatusCode) -> (Vec<String>, usize) {
        let informers = SharedInformers::default();
        let kind = Arc::new(Kind::POD);
        informers.register(&kind);
        for name in ["a", "b", "c"] {
            let pod = json!({"metadata": {"namespace": "n", "name": name}, "status": {"phase": "Failed"}});
            informers.put(&kind, Object::decode("pods", pod.as_object().unwrap()).unwrap());
        }
        let (gone, asked) = (informers.clone(), Arc::new(AtomicUsize::new(0)));
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
        let client = Client::in_process(Router::new().fallback(delete));
        assert!(collect(&client, &informers, 0).await.is_err(), "it is tried again");
        let left = informers.list(&Kind::POD, "").iter().map(|pod| pod.name.clone()).collect();
        (left, asked.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_failed_deletion_does_not_stop_the_others_but_an_overloaded_server_does() {
        let one = |name: &str| if name == "a" { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
        assert_eq!(left(one).await, (vec!["a".to_owned()], 3));
        let (all, asked) = left(|_| StatusCode::TOO_MANY_REQUESTS).await;
        assert_eq!((all.len(), asked), (3, 1));
    }
}
