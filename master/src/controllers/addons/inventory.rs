//! The inventory: the objects that this master applied from its directory, with their UIDs. Only these may be pruned.
//!
//! It is a file in the data directory, because a client that can write ConfigMaps must not decide what is deleted. Each
//! master has its own, so that masters with different directories do not prune objects of each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::ObjectKey;
use crate::pki::files;

/// Name of the file in the data directory.
const FILE: &str = "addons.json";

/// An applied object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// UID of the object. An object with another UID is not the one that was applied.
    pub uid: String,
    /// The file that named it last.
    pub file: String,
}

/// The objects that were applied from one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    pub directory: PathBuf,
    pub objects: BTreeMap<ObjectKey, Applied>,
}

/// The inventory as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    directory: PathBuf,
    objects: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    key: ObjectKey,
    uid: String,
    file: String,
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

/// Reads the inventory of a directory. It is empty if the file is missing or damaged, or describes another directory.
/// Objects that only the file names then remain in the cluster.
///
/// # Errors
/// If it is unknown what the file contains. The caller retries.
pub fn load(path: &Path, directory: &Path) -> Result<Loaded, String> {
    let mut inventory = Inventory { directory: directory.to_owned(), objects: BTreeMap::new() };
    let shown = path.display();
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Loaded { inventory, notice: None });
        }
        Err(error) => return Err(format!("cannot read the inventory {shown}: {error}")),
    };
    let stored: Stored = match serde_json::from_slice(&bytes) {
        Ok(stored) => stored,
        Err(error) => {
            let notice =
                format!("the inventory {shown} is damaged ({error}); objects that left the directory remain");
            return Ok(Loaded { inventory, notice: Some(notice) });
        }
    };
    let mut notice = None;
    if stored.directory == directory {
        let rows = stored.objects.into_iter();
        inventory.objects = rows.map(|Row { key, uid, file }| (key, Applied { uid, file })).collect();
    } else if !stored.objects.is_empty() {
        let (count, earlier) = (stored.objects.len(), stored.directory.display());
        notice = Some(format!(
            "{count} objects of the earlier directory {earlier} are not pruned; those without a manifest here remain"
        ));
    }
    Ok(Loaded { inventory, notice })
}

/// Writes the inventory.
///
/// # Errors
/// If the file cannot be written. Nothing may be pruned then.
pub fn save(path: &Path, inventory: &Inventory) -> Result<(), String> {
    let row = |(key, applied): (&ObjectKey, &Applied)| {
        let Applied { uid, file } = applied.clone();
        Row { key: key.clone(), uid, file }
    };
    let objects = inventory.objects.iter().map(row).collect();
    let stored = Stored { directory: inventory.directory.clone(), objects };
    let bytes = serde_json::to_vec(&stored).map_err(|error| error.to_string())?;
    files::write(path, &bytes, files::SECRET).map_err(|error| error.to_string())
}
