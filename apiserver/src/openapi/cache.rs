//! Cache of generated OpenAPI documents, compressed, with their hashes.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tokio::sync::Mutex;

use crate::resource::Resource;

/// Hash that is computed at build time, and changes when the document generator changes.
const EDITION: u64 = include!(concat!(env!("OUT_DIR"), "/edition.rs"));

/// An OpenAPI document, compressed, with the hash of its inputs.
#[derive(Debug)]
pub(super) struct Made {
    hash: String,
    gzipped: Bytes,
}

impl Made {
    fn new(hash: String, document: &[u8]) -> io::Result<Self> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(document)?;
        Ok(Self { hash, gzipped: encoder.finish()?.into() })
    }

    /// Returns the document, compressed with gzip.
    pub(super) fn gzipped(&self) -> Bytes {
        self.gzipped.clone()
    }

    /// The uncompressed document, for clients that do not accept gzip.
    pub(super) fn plain(&self) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        GzDecoder::new(&*self.gzipped).read_to_end(&mut plain)?;
        Ok(plain)
    }
}

/// The latest document per path.
#[derive(Debug, Default)]
pub(super) struct Cache {
    made: Mutex<HashMap<String, Arc<Made>>>,
}

impl Cache {
    /// Returns the document for a path and hash, and generates it if it is not cached. Documents are generated one
    /// at a time, because each needs several megabytes.
    ///
    /// # Errors
    /// If compression or generation fails.
    pub(super) async fn get(
        &self,
        path: &str,
        hash: &str,
        make: impl FnOnce() -> Vec<u8> + Send + 'static,
    ) -> io::Result<Arc<Made>> {
        let mut made = self.made.lock().await;
        if let Some(made) = made.get(path).filter(|made| made.hash == hash) {
            return Ok(made.clone());
        }
        let wanted = hash.to_owned();
        let task = tokio::task::spawn_blocking(move || Made::new(wanted, &make()));
        let new = Arc::new(task.await.map_err(io::Error::other)??);
        made.insert(path.to_owned(), new.clone());
        Ok(new)
    }

    /// Drops documents of paths that no longer exist.
    pub(super) async fn retain(&self, there: impl Fn(&str) -> bool) {
        self.made.lock().await.retain(|path, _| there(path));
    }
}

/// Hash of the documents generated from these rows.
pub(super) fn hash<'a>(rows: impl Iterator<Item = &'a Arc<Resource>>, version: &str) -> String {
    let mut hasher = Fnv(EDITION);
    version.hash(&mut hasher);
    for row in rows {
        (&row.group, &row.version, &row.kind, &row.list_kind, &row.plural).hash(&mut hasher);
        (row.namespaced, row.verbs).hash(&mut hasher);
        for part in &row.subresources {
            (part.name, part.kind, part.verbs).hash(&mut hasher);
        }
        row.schema.as_ref().map(|schema| schema.edition()).hash(&mut hasher);
    }
    format!("{:016X}", hasher.finish())
}

/// FNV-1a, which is the same in every process, and not collision resistant.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
