//! Of several files with an object of one name, which it is of: a newcomer takes nothing from a file that has it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use api::problem::ObjectName;

use crate::sources::manifest::Named;

/// The file of each object.
pub(super) type Holders = BTreeMap<Arc<ObjectName>, Arc<str>>;

/// Who holds what now: the file that held it before for as long as it has it, else the first that has it.
pub(super) fn settle<'a>(
    before: &Holders,
    files: impl Iterator<Item = (&'a Arc<str>, &'a [Named])>,
) -> Holders {
    let mut now = Holders::new();
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
