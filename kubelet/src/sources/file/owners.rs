//! Decides which file owns an object that several files define: the current owner keeps the object.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use api::problem::ObjectName;

use crate::sources::manifest::Named;

/// The owning file of each object.
pub(super) type Owners = BTreeMap<Arc<ObjectName>, Arc<str>>;

/// The owner of each object. It is the previous owner while that still defines the object, otherwise the first file
/// that does.
pub(super) fn resolve<'a>(
    before: &Owners,
    files: impl Iterator<Item = (&'a Arc<str>, &'a [Named])>,
) -> Owners {
    let mut now = Owners::new();
    for (origin, objects) in files {
        for named in objects {
            match now.entry(named.name.clone()) {
                Entry::Vacant(free) => drop(free.insert(origin.clone())),
                Entry::Occupied(mut taken) if before.get(&named.name) == Some(origin) => {
                    taken.insert(origin.clone());
                }
                Entry::Occupied(_) => {}
            }
        }
    }
    now
}
