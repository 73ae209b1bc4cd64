//! How many pods there are to be: the sum of what those who keep them want.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::controllers::client::{Client, Error, Json};
use crate::controllers::object::{Object, Owner, at, text};
use crate::controllers::world::World;

/// The kind that keeps the sets of replicas.
const DEPLOYMENT: &str = "Deployment";
/// Those that say by themselves how many they want. Everything else is asked by its scale.
const SETS: [(&str, &str); 4] =
    [("apps", "ReplicaSet"), ("apps", DEPLOYMENT), ("apps", "StatefulSet"), ("", "ReplicationController")];

/// The sum over all who keep one of these pods; or why nobody can tell. Pods that nobody keeps are not counted.
///
/// # Errors
/// When the server cannot be asked.
pub async fn of_all(client: &Client, world: &World, pods: &[&Object]) -> Result<Result<i64, String>, Error> {
    // Many pods have one owner, and many sets one deployment.
    let mut by_owner = BTreeMap::new();
    let mut by_keeper = BTreeMap::new();
    for pod in pods {
        let Some(owner) = pod.owners.iter().find(|owner| owner.controls) else { continue };
        if by_owner.insert(owner.uid.clone(), ()).is_some() {
            continue;
        }
        match keeper(client, world, &pod.namespace, owner).await? {
            Some((uid, replicas)) => drop(by_keeper.insert(uid, replicas)),
            None => return Ok(Err(format!("found no controllers for pod {:?}", pod.name))),
        }
    }
    Ok(Ok(by_keeper.values().sum()))
}

/// Who says how many there are to be, and how many.
async fn keeper(
    client: &Client,
    world: &World,
    namespace: &str,
    owner: &Owner,
) -> Result<Option<(String, i64)>, Error> {
    let Some(found) = get(client, world, namespace, owner).await? else { return Ok(None) };
    let above = Object::keeping(&[], &found).owners.into_iter().find(|owner| owner.controls);
    match above.filter(|above| above.kind == DEPLOYMENT && owner.kind == "ReplicaSet") {
        None => Ok(Some((owner.uid.clone(), replicas(&found)))),
        Some(above) => {
            let found = get(client, world, namespace, &above).await?;
            Ok(found.map(|found| (above.uid.clone(), replicas(&found))))
        }
    }
}

/// An owner, or its scale; `None` when it is not there, is another one, or has none.
async fn get(client: &Client, world: &World, namespace: &str, owner: &Owner) -> Result<Option<Json>, Error> {
    let kind = match world.kind(&owner.api_version, &owner.kind) {
        Ok(kind) => kind,
        Err(Error::NoKind { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_set = SETS.contains(&(owner.group(), owner.kind.as_str()));
    let found = if is_set {
        client.find(&kind, namespace, &owner.name).await?
    } else {
        client.find_part(&kind, namespace, &owner.name, "scale").await?
    };
    Ok(found.filter(|found| text(at(found, "/metadata/uid")) == owner.uid))
}

fn replicas(found: &Json) -> i64 {
    at(found, "/spec/replicas").and_then(Value::as_i64).unwrap_or_default()
}
