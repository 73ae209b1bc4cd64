//! Resolves the pod and container arguments of `logs`, `exec`, `attach` and `port-forward`.

use ::client::percent_encoded;
use serde_json::Value;

use super::client::{Client, Error};
use super::get::{PODS, ResourceType, full_name, split};
use super::print::note;

/// Annotation that names the default container of a pod.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Fields of a pod's spec with containers, in the order in which kubectl prints their logs.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A container of a pod of the running kubelet.
#[derive(Clone, Debug)]
pub struct ContainerRef {
    /// Namespace of the pod.
    pub namespace: String,
    /// Full name of the pod, which includes the node's name.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// The spec of the container.
    pub spec: Value,
}

impl ContainerRef {
    /// Finds a pod by its full name or its manifest name, and its container: the named one, the annotated default,
    /// or the first.
    ///
    /// # Errors
    /// If there is no such pod, or the request fails.
    pub async fn find(
        client: &Client,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
    ) -> Result<Self, Error> {
        let (pod, object) = object(client, namespace, pod).await?;
        let container = match container {
            Some(container) => container.to_owned(),
            None => default_container(&object),
        };
        let spec = LISTS.iter().flat_map(|list| specs(&object, list)).find(|spec| name(spec) == container);
        let spec = spec.cloned().unwrap_or_default();
        Ok(Self { namespace: namespace.to_owned(), pod, container, spec })
    }

    /// Finds all containers of a pod: init containers, containers, then ephemeral containers.
    ///
    /// # Errors
    /// If there is no such pod, or the request fails.
    pub async fn all(client: &Client, namespace: &str, pod: &str) -> Result<Vec<Self>, Error> {
        let (pod, object) = object(client, namespace, pod).await?;
        let container = |spec: &Value| Self {
            namespace: namespace.to_owned(),
            pod: pod.clone(),
            container: name(spec).to_owned(),
            spec: spec.clone(),
        };
        Ok(LISTS.iter().flat_map(|list| specs(&object, list)).map(container).collect())
    }

    /// The API path of a subresource of the pod.
    pub fn path(&self, part: &str) -> String {
        format!(
            "/api/v1/namespaces/{}/pods/{}/{part}",
            percent_encoded(&self.namespace),
            percent_encoded(&self.pod)
        )
    }
}

/// Finds a pod by its full name or its manifest name, also as `pod/NAME`. Returns its full name and the object.
///
/// # Errors
/// If there is no such pod, or the request fails.
pub async fn object(client: &Client, namespace: &str, pod: &str) -> Result<(String, Value), Error> {
    let pod = full_name(client, PODS, namespace, pod_name(pod)).await?;
    let path = format!("{}/{}", PODS.path(Some(namespace)), percent_encoded(&pod));
    let object = client.json(&path, "application/json").await?;
    Ok((pod, object))
}

/// Removes the resource from `pod/web`, which is accepted for `web`.
fn pod_name(text: &str) -> &str {
    match split(text) {
        (resource, Some(name)) if ResourceType::find(resource) == Some(PODS) => name,
        _ => text,
    }
}

/// The container to use if the command names none. Prints a hint if the pod has several.
fn default_container(pod: &Value) -> String {
    let containers: Vec<&str> = specs(pod, "containers").map(name).collect();
    let annotated = pod.pointer("/metadata/annotations").and_then(|all| all.get(DEFAULT_CONTAINER));
    let annotated = annotated.and_then(Value::as_str).filter(|name| containers.contains(name));
    let chosen = annotated.or(containers.first().copied()).unwrap_or_default();
    let init = specs(pod, "initContainers").map(|spec| format!("{} (init)", name(spec)));
    let ephemeral = specs(pod, "ephemeralContainers").map(|spec| format!("{} (ephem)", name(spec)));
    let all: Vec<String> =
        containers.iter().map(|name| (*name).to_owned()).chain(ephemeral).chain(init).collect();
    if all.len() > 1 && annotated.is_none() {
        note(format_args!("Defaulted container \"{chosen}\" out of: {}", all.join(", ")));
    }
    chosen.to_owned()
}

fn specs<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod.get("spec").and_then(|spec| spec.get(list)).and_then(Value::as_array).into_iter().flatten()
}

fn name(spec: &Value) -> &str {
    spec.get("name").and_then(Value::as_str).unwrap_or_default()
}
