//! Maintains the stock FlowSchemas and PriorityLevelConfigurations: creates missing ones and repairs them as a
//! stock server does. It also maintains the condition `Dangling` of every FlowSchema.
//!
//! The objects describe a stock server. The limits of this server are fixed (`apiserver::flowcontrol`), and do not
//! depend on them.

mod dangling;
mod objects;

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use apiserver::registry::Registry;
use apiserver::watch_cache::Scope;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use self::dangling::FlowSchema;
use self::objects::{Object, Role};
use crate::controllers::{ActAs as _, Client, Error, Json, Kind};
use crate::objects::{AnnotatedObject, PartialObject};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
static FLOW_SCHEMA: Kind = Kind::of(GROUP, "FlowSchema", "flowschemas", false);
static PRIORITY_LEVEL: Kind =
    Kind::of(GROUP, "PriorityLevelConfiguration", "prioritylevelconfigurations", false);
/// The annotation by which an administrator takes over a suggested object. With `false`, the server does not change
/// its spec.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// Pause between two reconciliations, so that two servers of different versions do not overwrite each other without
/// end.
const PAUSE: Duration = Duration::from_secs(1);

/// The write that an object needs.
#[derive(Debug, PartialEq)]
enum Step {
    Nothing,
    Create(Value),
    Update(Json),
}

/// Maintains the objects until the registry is gone or this master stops.
pub async fn keep(registry: Weak<Registry>, client: Client, mut stopped: watch::Receiver<bool>) {
    let client = client.as_master();
    loop {
        // From before the pass, so that no change is missed.
        let Some(changed) = changed(&registry) else { return };
        let settled = reconcile(&client).await;
        if let Err(error) = &settled {
            tracing::warn!(%error, "FlowSchemas and PriorityLevelConfigurations cannot be written; retrying");
        }
        tokio::select! {
            () = changed, if settled.is_ok() => {}
            () = sleep(PAUSE), if settled.is_err() => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

/// Completes when an object of either kind changes.
fn changed(registry: &Weak<Registry>) -> Option<impl Future<Output = ()> + use<>> {
    let registry = registry.upgrade()?;
    let cache = registry.cache();
    let watch = |kind: &Kind| cache.watch(&kind.qualified(), Scope::All, cache.revision()).ok();
    let (mut schemas, mut levels) = (watch(&FLOW_SCHEMA)?, watch(&PRIORITY_LEVEL)?);
    Some(async move {
        // A watch that fails has missed changes: that calls for a pass as well.
        tokio::select! { _ = schemas.next() => {}, _ = levels.next() => {} }
    })
}

async fn reconcile(client: &Client) -> Result<(), Error> {
    for object in objects::all() {
        let found = client.find(object.kind, "", object.name).await?;
        let written = match plan(found.as_ref(), &object) {
            Step::Nothing => Ok(()),
            Step::Create(created) => client.create(object.kind, "", created).await.map(drop),
            Step::Update(updated) => client.update(object.kind, "", updated).await.map(drop),
        };
        match written {
            // Another writer was first: that is a change, and the watch brings it here.
            Err(error) if error.exists() || error.is_conflict() || error.is_not_found() => {}
            written => written?,
        }
    }
    update_conditions(client).await
}

/// Updates the condition of every FlowSchema, including those that users create.
async fn update_conditions(api: &Client) -> Result<(), Error> {
    let (mut schemas, mut levels) = (Vec::new(), Vec::new());
    let scope = client::Scope::namespace("");
    let seed = client::Typed::<FlowSchema>::default();
    api.list_with(&FLOW_SCHEMA, &scope, seed, |schema| schemas.push(schema)).await?;
    let seed = client::Typed::<PartialObject>::default();
    api.list_with(&PRIORITY_LEVEL, &scope, seed, |level| levels.push(level.metadata.name)).await?;
    let levels: BTreeSet<_> = levels.into_iter().collect();
    for schema in &schemas {
        let Some(patch) = dangling::patch(schema, &levels, Timestamp::now()) else { continue };
        match api.patch_subresource(&FLOW_SCHEMA, "", &schema.metadata.name, "status", patch).await {
            // Another writer was first, as above.
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            written => drop(written?),
        }
    }
    Ok(())
}

/// Plans the write of an object. A mandatory object always has the stock spec. A suggested one does unless an
/// administrator has taken it over.
fn plan(found: Option<&Json>, object: &Object) -> Step {
    let Some(found) = found else { return Step::Create(object.json()) };
    let AnnotatedObject { metadata } = crate::objects::read(found);
    let is_ours = object.role == Role::Mandatory || metadata.annotations.get(AUTO_UPDATE) == Some("true");
    if !is_ours || found.get("spec") == Some(&object.spec) {
        return Step::Nothing;
    }
    let mut updated = found.clone();
    updated.insert("spec".to_owned(), object.spec.clone());
    Step::Update(updated)
}

#[cfg(test)]
mod tests;
