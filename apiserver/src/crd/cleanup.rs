//! The end of a definition: its objects go first, then it is let go.

use api::crd::{self, CLEANUP};
use api::strategy::Json;
use jiff::Timestamp;
use serde_json::Value;

use crate::registry::{Error, Registry};
use crate::resource::Resource;
use crate::store::{Object, Scope};
use crate::write::doomed;

/// Deletes the objects that are kept under that name, and lets the definition go once there are none. Objects with
/// finalizers wait for those who put them there; whoever calls looks again when one of them moves.
pub(super) async fn clean(
    registry: &Registry,
    row: &Resource,
    definition: &Object,
    kept: Option<&str>,
) -> Result<(), Error> {
    if let Some(kept) = kept {
        let rows = registry.rows();
        let of: Vec<_> = rows.all().iter().filter(|row| row.stored() == kept).collect();
        // Objects of a kind that no definition has made are not there to be emptied, whatever the definition is called.
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
    ignore_changed(let_go(registry, row, definition).await)
}

/// What somebody else has changed meanwhile is looked at again.
fn ignore_changed(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Changed) => Ok(()),
        result => result,
    }
}

async fn delete(registry: &Registry, row: &Resource, object: &Object) -> Result<(), Error> {
    let mut tree = object.decode();
    if finalizers(&tree).is_empty() {
        return registry.delete(row, object).await;
    }
    if crd::is_doomed(&tree) {
        return Ok(());
    }
    doomed(&mut tree, 0, Timestamp::now());
    registry.replace(row, object, &tree).await.map(drop)
}

/// Takes the finalizer off, and the definition out when it was the last.
async fn let_go(registry: &Registry, row: &Resource, definition: &Object) -> Result<(), Error> {
    let mut tree = definition.decode();
    let left: Vec<Value> = finalizers(&tree).iter().filter(|name| **name != CLEANUP).cloned().collect();
    if left.is_empty() {
        return registry.delete(row, definition).await;
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
