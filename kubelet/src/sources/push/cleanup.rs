//! Completes deletions of pushed objects: pods that have ended, and the content of terminating namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Api;
use apiserver::watch_cache::Object;
use axum::Router;
use axum::body::Body;
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::store::PushedObjects;
use super::{CONFIG_MAPS, NAMESPACES, PODS, SECRETS};
use crate::observed::PodUid;
use crate::report::{EndedPod, EndedPods};

/// Delay after a failed deletion, for example with a full disk.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Deletes what has ended, through the API of the node.
pub struct Cleanup {
    router: Router,
    store: PushedObjects,
    ended: Arc<EndedPods>,
    /// Pods of which nothing is left on this node.
    waiting: BTreeMap<PodUid, EndedPod>,
}

impl Cleanup {
    /// Creates the cleanup of the pods that end.
    pub fn new(api: &Arc<Api>, store: PushedObjects, ended: Arc<EndedPods>) -> Self {
        Self { router: api.router(), store, ended, waiting: BTreeMap::new() }
    }

    /// Runs until the task is aborted.
    pub async fn run(mut self) {
        let mut snapshots = self.store.snapshots();
        loop {
            snapshots.mark_unchanged();
            let pods = self.delete_ended().await;
            let namespaces = self.delete_namespaces().await;
            let retry = async {
                match (pods, namespaces) {
                    (Ok(()), Ok(())) => std::future::pending().await,
                    (Err(why), _) | (_, Err(why)) => {
                        tracing::warn!("cannot complete the deletion of a pushed object, retrying: {why}");
                        tokio::time::sleep(RETRY_INTERVAL).await;
                    }
                }
            };
            tokio::select! {
                ended = self.ended.take() => self.waiting.extend(ended),
                changed = snapshots.changed() => if changed.is_err() { return },
                () = retry => {}
            }
        }
    }

    /// Deletes terminating pods that have ended. An ended pod without a deletion timestamp stays, as in Kubernetes.
    async fn delete_ended(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        for (uid, pod) in std::mem::take(&mut self.waiting) {
            let object = self.store.cache().get(PODS, &pod.namespace, &pod.name);
            if object.is_none_or(|object| object.uid() != uid.as_str() || !object.is_terminating()) {
                continue;
            }
            let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
            let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid.as_str()}});
            let deleted = self.send(Method::DELETE, &path, &options).await;
            if let Err(why) = deleted {
                result = Err(why);
                self.waiting.insert(uid, pod);
            }
        }
        result
    }

    /// Deletes the pushed objects of terminating namespaces, and then these namespaces.
    async fn delete_namespaces(&self) -> Result<(), String> {
        let mut result = Ok(());
        for namespace in self.store.names(NAMESPACES, "") {
            let object = self.store.cache().get(NAMESPACES, "", &namespace);
            if let Some(object) = object.filter(Object::is_terminating)
                && let Err(why) = self.delete_namespace(&namespace, &object).await
            {
                result = Err(why);
            }
        }
        result
    }

    async fn delete_namespace(&self, namespace: &str, object: &Object) -> Result<(), String> {
        let mut is_empty = true;
        for resource in [PODS, CONFIG_MAPS, SECRETS] {
            for name in self.store.names(resource, namespace) {
                is_empty = false;
                let there = self.store.cache().get(resource, namespace, &name);
                if there.is_some_and(|there| !there.is_terminating()) {
                    let path = format!("/api/v1/namespaces/{namespace}/{resource}/{name}");
                    self.send(Method::DELETE, &path, &json!({})).await?;
                }
            }
        }
        if !is_empty {
            return Ok(()); // The commit of the last deletion wakes this task again.
        }
        let mut finalized = Value::Object(object.decode());
        finalized["spec"]["finalizers"] = json!([]);
        self.send(Method::PUT, &format!("/api/v1/namespaces/{namespace}/finalize"), &finalized).await
    }

    /// Sends a request. An object that is already gone is no error.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<(), String> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "kubelet")
            .body(Body::from(body.to_string()))
            .map_err(|error| error.to_string())?;
        let Ok(answer) = self.router.clone().oneshot(request).await;
        let code: StatusCode = answer.status();
        if code.is_success() || code == StatusCode::NOT_FOUND {
            Ok(())
        } else {
            Err(format!("{path}: {code}"))
        }
    }
}
