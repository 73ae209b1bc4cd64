//! Saves the last good version of each manifest, so that an invalid edit stops no pod even after a restart.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::problem::ObjectName;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::manifest::Named;
use crate::desired::{SourceKind, SourceObject};

/// The directory of one source. It has one file per manifest, named by a hash of the manifest's origin.
#[derive(Clone, Debug)]
pub struct LastGood {
    directory: PathBuf,
}

impl LastGood {
    /// The saved versions of a source, in the root directory.
    pub fn new(root_dir: &Path, source: SourceKind) -> Self {
        Self { directory: root_dir.join("sources").join(source.as_str()) }
    }

    /// Loads the objects of all manifests. Unreadable files are logged and skipped.
    pub fn load(&self) -> BTreeMap<String, Vec<Named>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return BTreeMap::new(),
            Err(error) => {
                let path = self.directory.display();
                tracing::warn!(%path, %error, "cannot read the saved manifests; continuing without them");
                return BTreeMap::new();
            }
        };
        let paths = entries.flatten().map(|entry| entry.path());
        let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths
            .filter_map(|path| {
                let read = fs::read(&path).and_then(|bytes| decode(&bytes).ok_or_else(damaged));
                read.map_err(|error| {
                    let path = path.display();
                    tracing::warn!(%path, %error, "cannot read a saved manifest; continuing without it");
                })
                .ok()
            })
            .collect()
    }

    /// Saves the objects of a manifest atomically. If there are none, removes the file.
    ///
    /// # Errors
    /// If the directory or file cannot be written, for example because the disk is full.
    pub fn save(&self, origin: &str, objects: &[Named]) -> io::Result<()> {
        let path = self.path(origin);
        if objects.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        // The objects may include Secrets.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let partial = path.with_extension("tmp");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(&encode(origin, objects)?)?;
        drop(file);
        fs::rename(&partial, &path)
    }

    fn path(&self, origin: &str) -> PathBuf {
        let name = hex::encode(&Sha256::digest(origin)[..16]);
        self.directory.join(name).with_extension("json")
    }
}

fn encode(origin: &str, objects: &[Named]) -> io::Result<Vec<u8>> {
    let objects: Result<Vec<Value>, serde_json::Error> = objects
        .iter()
        .map(|named| Ok(json!({"manifestName": named.name.name, "object": named.object.json()?})))
        .collect();
    Ok(serde_json::to_vec(&json!({"origin": origin, "objects": objects?}))?)
}

fn decode(bytes: &[u8]) -> Option<(String, Vec<Named>)> {
    let mut file: Value = serde_json::from_slice(bytes).ok()?;
    let origin = file["origin"].as_str()?.to_owned();
    let Value::Array(objects) = file["objects"].take() else { return None };
    let objects: Option<Vec<Named>> = objects
        .into_iter()
        .map(|mut entry| {
            let name = entry["manifestName"].as_str()?.to_owned();
            let object = entry["object"].take();
            let object = match object["kind"].as_str()? {
                "Pod" => SourceObject::Pod(Arc::new(Deserialize::deserialize(&object).ok()?)),
                "ConfigMap" => SourceObject::ConfigMap(Arc::new(Deserialize::deserialize(&object).ok()?)),
                "Secret" => SourceObject::Secret(Arc::new(Deserialize::deserialize(&object).ok()?)),
                "Service" => SourceObject::Service(Arc::new(Deserialize::deserialize(&object).ok()?)),
                _ => return None,
            };
            Some(Named { name: Arc::new(ObjectName { name, ..object.object_name() }), object })
        })
        .collect();
    Some((origin, objects?))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is damaged")
}
