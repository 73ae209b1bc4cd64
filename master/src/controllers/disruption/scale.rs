//! Computes the expected pod count of a budget: the sum of its owners' replicas.

use std::collections::BTreeMap;

use client::{Client, Error};

use crate::controllers::informers::SharedInformers;
use crate::controllers::object::Object;
use crate::objects::OwnerReference;
use crate::objects::autoscaling::Scale;

/// The kind that manages ReplicaSets.
const DEPLOYMENT: &str = "Deployment";
/// Owners with `spec.replicas`. The replicas of other kinds are read through their scale subresource.
const BUILT_IN_OWNERS: [(&str, &str); 4] =
    [("apps", "ReplicaSet"), ("apps", DEPLOYMENT), ("apps", "StatefulSet"), ("", "ReplicationController")];

/// The expected pods of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedPods {
    /// The sum of replicas over all controllers of the pods.
    pub count: i64,
    /// Number of pods without a controller, which `count` does not include.
    pub unmanaged: usize,
}

/// Returns the expected pods, or the reason why the replicas of a controller are unknown.
///
/// # Errors
/// If the API server does not respond.
pub async fn expected_pods(
    client: &Client,
    informers: &SharedInformers,
    pods: &[&Object],
) -> Result<Result<ExpectedPods, String>, Error> {
    // Many pods share an owner, and many ReplicaSets a Deployment.
    let mut by_owner = BTreeMap::new();
    let mut by_controller = BTreeMap::new();
    let mut unmanaged = 0;
    for pod in pods {
        let Some(owner) = pod.owners.iter().find(|owner| owner.controller) else {
            unmanaged += 1;
            continue;
        };
        if by_owner.insert(owner.uid.clone(), ()).is_some() {
            continue;
        }
        match scalable_owner(client, informers, &pod.namespace, owner).await? {
            Some((uid, replicas)) => drop(by_controller.insert(uid, replicas)),
            None => return Ok(Err(format!("found no controllers for pod {:?}", pod.name))),
        }
    }
    Ok(Ok(ExpectedPods { count: by_controller.values().sum(), unmanaged }))
}

/// Returns the controller that sets the replica count, as UID and replicas.
async fn scalable_owner(
    client: &Client,
    informers: &SharedInformers,
    namespace: &str,
    owner: &OwnerReference,
) -> Result<Option<(Box<str>, i64)>, Error> {
    let Some(found) = get(client, informers, namespace, owner).await? else { return Ok(None) };
    let above = found.metadata.controller();
    match above.filter(|above| &*above.kind == DEPLOYMENT && &*owner.kind == "ReplicaSet") {
        None => Ok(Some((owner.uid.clone(), found.spec.replicas))),
        Some(above) => {
            let found = get(client, informers, namespace, above).await?;
            Ok(found.map(|found| (above.uid.clone(), found.spec.replicas)))
        }
    }
}

/// Reads a built-in owner itself, and the scale subresource of any other owner. Both contain `spec.replicas`. Returns
/// `None` if the owner does not exist, has another UID, or has no scale subresource.
async fn get(
    client: &Client,
    informers: &SharedInformers,
    namespace: &str,
    owner: &OwnerReference,
) -> Result<Option<Scale>, Error> {
    let kind = match informers.resolve_kind(&owner.api_version, &owner.kind) {
        Ok(kind) => kind,
        Err(Error::NoKind { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found: Option<Scale> = if BUILT_IN_OWNERS.contains(&(owner.group(), &*owner.kind)) {
        client.find_as(&kind, namespace, &owner.name).await?
    } else {
        client.find_subresource(&kind, namespace, &owner.name, "scale").await?
    };
    Ok(found.filter(|found| found.metadata.uid == owner.uid))
}
