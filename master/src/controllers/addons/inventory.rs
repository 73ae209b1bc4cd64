//! The inventory: the objects that this master applied from its directory, with their UIDs. Only these may be pruned.
//!
//! It is a file in the data directory, because a client that can write ConfigMaps must not decide what is deleted. Each
//! master has its own, so that masters with different directories do not prune objects of each other.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::ObjectKey;
use super::report::Status;
use crate::pki::files;

/// Name of the file in the data directory.
const FILE: &str = "addons.json";
/// Extension of an inventory that cannot be read, and of one that is no longer used. Both are for people.
const DAMAGED: &str = "json.damaged";
const UNUSED: &str = "json.unused";
/// The version of the format. Another one may mean something else.
const VERSION: u32 = 1;

/// An applied object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// UID of the object. An object with another UID is not the one that was applied.
    pub uid: String,
    /// The file that named it last.
    pub file: String,
    /// Whether it existed before the add-ons applied it.
    pub is_adopted: bool,
}

/// What this master last published in the ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub status: Status,
    /// Whether no other master can have applied objects that are only in this inventory.
    pub is_trusted: bool,
}

/// The objects that were applied from one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    pub directory: PathBuf,
    pub objects: BTreeMap<ObjectKey, Applied>,
    /// `None` if nothing was published.
    pub record: Option<Record>,
}

impl Inventory {
    /// An inventory without objects.
    pub fn empty(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..Self::default() }
    }
}

/// The inventory as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    directory: PathBuf,
    record: Option<Record>,
    objects: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    object: ObjectKey,
    uid: String,
    file: String,
    is_adopted: bool,
}

/// An inventory that was read, and why it has fewer objects than the file.
#[derive(Debug, PartialEq)]
pub struct Loaded {
    pub inventory: Inventory,
    pub notice: Option<String>,
}

/// The path of the inventory below a data directory.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Renames the inventory of a data directory, if there is one. A master that starts without add-ons calls this: users
/// may use the objects before the master has add-ons again, so these must not be pruned then.
pub fn set_aside(data_dir: &Path) {
    let path = path(data_dir);
    match std::fs::rename(&path, path.with_extension(UNUSED)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot rename the inventory of the add-ons");
        }
        _ => {}
    }
}

/// Reads the inventory of a directory. It is empty if the file is missing or damaged, or describes another directory.
/// Objects that only the file names then remain in the cluster. A damaged file is renamed.
///
/// # Errors
/// If it is unknown what the file contains. The caller retries.
pub fn load(path: &Path, directory: &Path) -> Result<Loaded, String> {
    let mut inventory = Inventory::empty(directory);
    let shown = path.display();
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Loaded { inventory, notice: None }),
        Err(error) => return Err(format!("cannot read the inventory {shown}: {error}")),
    };
    let stored = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
    let stored = stored.and_then(|stored: Stored| match stored.version {
        VERSION => Ok(stored),
        other => Err(format!("version {other} is unknown")),
    });
    let stored = match stored {
        Ok(stored) => stored,
        Err(why) => {
            let damaged = path.with_extension(DAMAGED);
            std::fs::rename(path, &damaged)
                .map_err(|error| format!("cannot rename {shown}, which is damaged ({why}): {error}"))?;
            let notice = format!(
                "the inventory is damaged ({why}) and now {}; objects that left the directory remain",
                damaged.display()
            );
            return Ok(Loaded { inventory, notice: Some(notice) });
        }
    };
    let mut notice = None;
    if stored.directory == directory {
        let row = |Row { object, uid, file, is_adopted }| (object, Applied { uid, file, is_adopted });
        inventory.objects = stored.objects.into_iter().map(row).collect();
        inventory.record = stored.record;
    } else if !stored.objects.is_empty() {
        let (count, earlier) = (stored.objects.len(), stored.directory.display());
        notice = Some(format!(
            "objects of the earlier directory {earlier} are not pruned ({count}); those without a manifest here remain"
        ));
    }
    Ok(Loaded { inventory, notice })
}

/// Writes the inventory.
///
/// # Errors
/// If the file cannot be written. Nothing may be pruned then.
pub fn save(path: &Path, inventory: &Inventory) -> Result<(), String> {
    let row = |(object, applied): (&ObjectKey, &Applied)| {
        let Applied { uid, file, is_adopted } = applied.clone();
        Row { object: object.clone(), uid, file, is_adopted }
    };
    let Inventory { directory, objects, record } = inventory;
    let objects = objects.iter().map(row).collect();
    let stored = Stored { version: VERSION, directory: directory.clone(), record: record.clone(), objects };
    let bytes = serde_json::to_vec(&stored).map_err(|error| error.to_string())?;
    files::write(path, &bytes, files::SECRET).map_err(|error| error.to_string())
}
