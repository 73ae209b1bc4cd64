//! Creates, deletes and releases pods of a Job.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use client::{Error, Json, Kind};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use super::pod::JobPod;
use super::scaling::NewPod;
use super::{JobController, Live};
use crate::controllers::fields::JOB_TRACKING;
use crate::controllers::object::Object;
use crate::controllers::workloads::names;
use crate::controllers::workloads::pod_writes::{CONCURRENCY, PodToDelete, pod_of};

/// The label and annotation with the completion index of a pod.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// The environment variable with the completion index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

impl JobController {
    /// Creates pods in batches that double in size while all creations succeed. Returns false if one failed.
    pub(super) async fn create_pods(&self, live: &Live<'_>, new: &[NewPod]) -> bool {
        let template = live.json.get("spec").and_then(|spec| spec.get("template")).and_then(Value::as_object);
        let pod = |at: usize| {
            let mut pod = pod_of(template);
            complete(&mut pod, &live.job.metadata.name, new.get(at).copied().unwrap_or_default());
            pod
        };
        self.pods.create(&live.owner(), new.len(), pod).await.is_none()
    }

    /// Deletes pods. Removes their finalizers first if they must not count. Returns false if a request failed.
    pub(super) async fn delete_pods(
        &self,
        live: &Live<'_>,
        pods: &[&JobPod<'_>],
        is_uncounted: bool,
    ) -> bool {
        let (mut to_delete, mut is_done) = (Vec::new(), true);
        for part in pods.chunks(CONCURRENCY) {
            let requests = part.iter().map(async |pod| {
                if is_uncounted && pod.is_tracked {
                    // A pod that has ended meanwhile counts: the change is a conflict.
                    let version = Some(pod.resource_version);
                    self.remove_finalizer(live.namespace, pod.replica.name, pod.uid(), version).await?;
                }
                Ok::<_, Error>(PodToDelete { name: pod.replica.name, uid: pod.uid() })
            });
            let released = join_all(requests).await;
            is_done &= released.iter().all(Result::is_ok);
            to_delete.extend(released.into_iter().flatten());
        }
        self.pods.delete(&live.owner(), &to_delete).await.is_none() && is_done
    }

    /// Removes the finalizers of counted pods. Returns the UIDs of pods that have none any more, and the first failure.
    pub(super) async fn release_pods<'p>(
        &self,
        live: &Live<'_>,
        pods: &[&JobPod<'p>],
    ) -> (HashSet<&'p str>, Option<Error>) {
        let (mut released, mut failed) = (HashSet::new(), None);
        for part in pods.chunks(CONCURRENCY) {
            let requests = part
                .iter()
                .map(|pod| self.remove_finalizer(live.namespace, pod.replica.name, pod.uid(), None));
            for (pod, result) in part.iter().zip(join_all(requests).await) {
                match result {
                    Ok(()) => drop(released.insert(pod.uid())),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        (released, failed)
    }

    /// Removes the finalizer of a cached pod that no Job counts.
    pub(super) async fn release(&self, namespace: &str, pod: &Object) -> Result<(), Error> {
        if pod.has_finalizer(JOB_TRACKING) {
            self.remove_finalizer(namespace, &pod.name, &pod.uid, None).await?;
        }
        Ok(())
    }

    /// Removes the finalizer of the pod with this UID, if the pod still exists.
    ///
    /// # Errors
    /// If the pod has another resource version than the given one, or keeps its finalizer, or it is unknown whether it
    /// does. The caller retries.
    async fn remove_finalizer(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: Option<&str>,
    ) -> Result<(), Error> {
        let mut metadata = json!({"uid": uid, "$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]});
        if let Some(version) = resource_version {
            metadata["resourceVersion"] = version.into();
        }
        let patch = json!({"metadata": metadata});
        let error = match self.client.patch_strategic(&Kind::POD, namespace, name, patch).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => error,
        };
        // Another UID is a conflict, or invalid. So is a change that an admission policy denies.
        if resource_version.is_some() || !(error.is_conflict() || error.has_code(422)) {
            return Err(error);
        }
        let found: Option<Json> = self.client.find_by_list(&Kind::POD, namespace, name).await?;
        let found = found.map(|pod| Object::of(&self.client, &Kind::POD, &pod)).transpose()?;
        let is_tracked = found.is_some_and(|pod| pod.uid == uid && pod.has_finalizer(JOB_TRACKING));
        if is_tracked { Err(error) } else { Ok(()) }
    }

    /// Reads pods from the API server. A pod that does not exist is `None`.
    pub(super) async fn read_pods(
        &self,
        namespace: &str,
        names: &[String],
    ) -> Result<HashMap<String, Option<Arc<Object>>>, Error> {
        let (mut found, kind) = (HashMap::new(), &Kind::POD);
        for part in names.chunks(CONCURRENCY) {
            let requests = part.iter().map(|name| self.client.find_by_list::<Json>(kind, namespace, name));
            for (name, pod) in part.iter().zip(join_all(requests).await) {
                let pod = pod?.map(|pod| Object::of(&self.client, kind, &pod)).transpose()?;
                found.insert(name.clone(), pod.map(Arc::new));
            }
        }
        Ok(found)
    }
}

/// Adds the finalizer, and for an Indexed Job the index as part of the name, label, annotation, host name and environment
/// variable.
fn complete(pod: &mut Value, job: &str, new: NewPod) {
    let metadata = &mut pod["metadata"];
    let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == JOB_TRACKING) {
        finalizers.push(JOB_TRACKING.into());
    }
    metadata["finalizers"] = Value::Array(finalizers);
    let Some(index) = new.index else { return };
    metadata["generateName"] = names::indexed_prefix(job, index).into();
    set(metadata, "labels", COMPLETION_INDEX, index.to_string());
    set(metadata, "annotations", COMPLETION_INDEX, index.to_string());
    if let Some((counted, ignored)) = new.earlier_failures {
        set(metadata, "annotations", INDEX_FAILURES, counted.to_string());
        if ignored > 0 {
            set(metadata, "annotations", IGNORED_INDEX_FAILURES, ignored.to_string());
        }
    }
    let spec = &mut pod["spec"];
    spec["hostname"] = format!("{job}-{index}").into();
    for containers in ["initContainers", "containers"] {
        for container in spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut variables = container["env"].as_array().cloned().unwrap_or_default();
            if variables.iter().any(|variable| variable["name"] == INDEX_VARIABLE) {
                continue;
            }
            let path = format!("metadata.labels['{COMPLETION_INDEX}']");
            variables.push(json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}));
            container["env"] = Value::Array(variables);
        }
    }
}

/// Sets a label or annotation.
fn set(metadata: &mut Value, field: &str, key: &str, value: String) {
    if !metadata[field].is_object() {
        metadata[field] = Value::Object(Map::new());
    }
    metadata[field][key] = value.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_of_an_indexed_job_knows_its_index() {
        let template = || {
            json!({"metadata": {"labels": {"app": "a"}}, "spec": {"initContainers": [{"name": "i"}],
            "containers": [{"name": "c", "env": [{"name": INDEX_VARIABLE, "value": "own"}]}]}})
        };
        let mut pod = template();
        complete(&mut pod, "pi", NewPod::default());
        assert_eq!(pod["metadata"]["finalizers"], json!([JOB_TRACKING]));
        assert_eq!(pod["spec"], template()["spec"]);
        let mut pod = template();
        complete(&mut pod, "pi", NewPod { index: Some(7), earlier_failures: Some((2, 1)) });
        assert_eq!(pod["metadata"]["labels"], json!({"app": "a", COMPLETION_INDEX: "7"}));
        let annotations = json!({COMPLETION_INDEX: "7", INDEX_FAILURES: "2", IGNORED_INDEX_FAILURES: "1"});
        assert_eq!(pod["metadata"]["annotations"], annotations);
        assert_eq!(pod["spec"]["hostname"], "pi-7");
        assert_eq!(pod["spec"]["initContainers"][0]["env"][0]["name"], INDEX_VARIABLE);
        assert_eq!(pod["spec"]["containers"][0]["env"], json!([{"name": INDEX_VARIABLE, "value": "own"}]));
    }
}
