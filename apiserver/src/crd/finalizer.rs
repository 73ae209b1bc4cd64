//! Finalizes CustomResourceDefinitions: deletes the custom resources, then removes the finalizer.

use api::crd::{self, CLEANUP};
use api::strategy::Json;
use jiff::Timestamp;
use serde_json::Value;

use crate::registry::{Error, Registry};
use crate::resource::Resource;
use crate::watch_cache::{Object, Scope};
use crate::write::mark_deleted;

/// Deletes all objects under this storage name, and removes the finalizer when none is left. Objects with
/// finalizers stay until their owners remove these. The caller reconciles again when such an object changes.
pub(super) async fn finalize(
    registry: &Registry,
    row: &Resource,
    definition: &Object,
    kept: Option<&str>,
) -> Result<(), Error> {
    if let Some(kept) = kept {
        let rows = registry.rows();
        let of: Vec<_> = rows.all().iter().filter(|row| row.stored() == kept).collect();
        // Never deletes objects of built-in kinds, whatever the name of the definition.
        let is_defined = of.iter().all(|row| row.schema.is_some());
        if let Some(of) = of.first().filter(|_| is_defined) {
            for object in registry.cache().list(kept, &Scope::All).objects {
                ignore_changed(delete(registry, of, &object).await)?;
            }
        }
        if is_defined && !registry.cache().list(kept, &Scope::All).objects.is_empty() {
            return Ok(());
        }
    }
    ignore_changed(remove_finalizer(registry, row, definition).await)
}

/// Ignores conflicts, because the conflicting change triggers another reconciliation.
fn ignore_changed(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Changed) => Ok(()),
        result => result,
    }
}

async fn delete(registry: &Registry, row: &Resource, object: &Object) -> Result<(), Error> {
    let mut tree = object.decode();
    if finalizers(&tree).is_empty() {
        return registry.delete(row, object).await.map(drop);
    }
    if crd::is_terminating(&tree) {
        return Ok(());
    }
    mark_deleted(&mut tree, 0, Timestamp::now());
    registry.replace(row, object, &tree).await.map(drop)
}

/// Removes the finalizer, and the definition if it was the last one.
async fn remove_finalizer(registry: &Registry, row: &Resource, definition: &Object) -> Result<(), Error> {
    let mut tree = definition.decode();
    let left: Vec<Value> = finalizers(&tree).iter().filter(|name| **name != CLEANUP).cloned().collect();
    if left.is_empty() {
        return registry.delete(row, definition).await.map(drop);
    }
    if let Some(Value::Object(metadata)) = tree.get_mut("metadata") {
        metadata.insert("finalizers".to_owned(), left.into());
    }
    registry.replace(row, definition, &tree).await.map(drop)
}

fn finalizers(object: &Json) -> &[Value] {
    let metadata = object.get("metadata");
    let list = metadata.and_then(|metadata| metadata.get("finalizers")?.as_array());
    list.map(Vec::as_slice).unwrap_or_default()
}
