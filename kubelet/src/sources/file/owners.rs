//! Decides which file owns an object that several files define: the current owner keeps it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use api::problem::ObjectName;

use crate::sources::manifest::Named;

/// Owning file by object.
pub(super) type Owners = BTreeMap<Arc<ObjectName>, Arc<str>>;

/// The owner of each object: the previous owner while it still defines the object, otherwise the first file that does.
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
