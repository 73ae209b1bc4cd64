//! The target of an autoscaler: reads and updates its scale, and lists its pods with their metrics.

use std::sync::Arc;

use client::{Client, Error, Json, Kind, Scope, Typed};
use http::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::metric::Samples;
use crate::controllers::informers::SharedInformers;
use crate::controllers::workloads::requests::message;
use crate::objects::Pod;
use crate::objects::autoscaling::{CrossVersionObjectReference, PodMetrics, Scale};

/// The scale of a target.
#[derive(Clone, Debug)]
pub struct Target {
    kind: Arc<Kind>,
    /// The scale as the API server sent it. Its resource version prevents lost updates.
    json: Json,
    pub scale: Scale,
}

/// Reads the scale of the object to which an autoscaler refers.
///
/// # Errors
/// The message for users, if the kind is not served, the object does not exist, or it has no scale.
pub async fn find(
    client: &Client,
    informers: &SharedInformers,
    namespace: &str,
    reference: &CrossVersionObjectReference,
) -> Result<Target, String> {
    let kind = informers.resolve_kind(&reference.api_version, &reference.kind).map_err(|error| {
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        match error {
            Error::NoKind { kind, .. } => format!("no matches for kind {kind:?} in group {group:?}"),
            other => message(&other),
        }
    })?;
    // The permissions of an autoscaler's author end at its namespace.
    if !kind.namespaced {
        return Err(format!(
            "{} is cluster-scoped: an autoscaler scales only objects of its namespace",
            kind.kind
        ));
    }
    let path = format!("{}/scale", kind.path(namespace, &reference.name));
    let json: Json = client.request(Method::GET, &path, None).await.map_err(|error| message(&error))?;
    let scale = Scale::deserialize(&json).map_err(|error| format!("the scale cannot be read: {error}"))?;
    Ok(Target { kind, json, scale })
}

impl Target {
    /// Sets the replicas.
    ///
    /// # Errors
    /// The message for users, if the scale changed meanwhile or the API server rejects the number.
    pub async fn rescale(&self, client: &Client, replicas: i64) -> Result<(), String> {
        let mut scale = self.json.clone();
        match scale.get_mut("spec").and_then(Value::as_object_mut) {
            Some(spec) => drop(spec.insert("replicas".to_owned(), replicas.into())),
            None => drop(scale.insert("spec".to_owned(), json!({"replicas": replicas}))),
        }
        client.update(&self.kind, "scale", scale).await.map(drop).map_err(|error| message(&error))
    }
}

/// The pods of a target cannot be selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSelector(pub String);

/// Lists the pods that a selector matches, and their metrics.
///
/// They are not taken from the informers. These would have to keep the requests of every pod in the cluster, and few
/// pods have an autoscaler.
///
/// # Errors
/// If the selector is invalid.
pub async fn samples(client: &Client, namespace: &str, selector: &str) -> Result<Samples, InvalidSelector> {
    let scope = Scope { labels: selector.to_owned(), ..Scope::namespace(namespace) };
    let mut pods = Vec::new();
    let listed = client.list_with(&Kind::POD, &scope, Typed::<Pod>::default(), |pod| pods.push(pod)).await;
    let pods = match listed {
        Ok(_) => Ok(pods),
        Err(error) if error.has_code(400) => {
            let why = message(&error);
            let message =
                format!("couldn't convert selector into a corresponding internal selector object: {why}");
            return Err(InvalidSelector(message));
        }
        Err(error) => Err(message(&error)),
    };
    let mut metrics = Vec::new();
    let seed = Typed::<PodMetrics>::default();
    let listed = client.list_with(&Kind::POD_METRICS, &scope, seed, |pod| metrics.push(pod)).await;
    Ok(Samples { pods, metrics: listed.map(|_| metrics).map_err(|error| message(&error)) })
}
