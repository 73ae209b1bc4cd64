//! Documents that were made, compressed, and the hashes by which clients know them.

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

/// Changes whenever the program makes other documents of the same rows.
const EDITION: u64 = include!(concat!(env!("OUT_DIR"), "/edition.rs"));

/// A document.
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

    /// The document, compressed.
    pub(super) fn gzipped(&self) -> Bytes {
        self.gzipped.clone()
    }

    /// The document itself, for the few clients that cannot unpack it.
    pub(super) fn plain(&self) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        GzDecoder::new(&*self.gzipped).read_to_end(&mut plain)?;
        Ok(plain)
    }
}

/// Every document by its path: one of each, the latest.
#[derive(Debug, Default)]
pub(super) struct Cache {
    made: Mutex<HashMap<String, Arc<Made>>>,
}

impl Cache {
    /// The document of that path and hash, made unless it is there. One is made at a time: each takes a few megabytes
    /// while it is.
    ///
    /// # Errors
    /// When it cannot be compressed or its maker fails.
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

    /// Forgets documents of paths that are no more.
    pub(super) async fn retain(&self, there: impl Fn(&str) -> bool) {
        self.made.lock().await.retain(|path, _| there(path));
    }
}

/// The hash of documents that are made from these rows.
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

/// FNV-1a: the same in every process, and it keeps nobody out.
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
