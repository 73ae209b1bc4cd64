//! Access to the bytes of the store file: a file on disk, or in tests a medium that fails or loses power.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// The bytes of one store.
pub(super) trait Medium: Debug + Send + Sync + 'static {
    /// The path for messages.
    fn path(&self) -> &Path;

    /// Opens the bytes for writing.
    fn open(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// Opens the bytes read-only.
    fn open_read_only(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// Fills the disk space reserve as far as possible. Returns true if the reserve is complete.
    fn fill_reserve(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Releases the disk space reserve. Returns false if there is none.
    fn release_reserve(&self) -> io::Result<bool> {
        Ok(false)
    }
}

/// A boxed backend.
#[derive(Debug)]
pub(super) struct Boxed(pub(super) Box<dyn StorageBackend>);

// The directory lock already excludes other processes, so the backend takes no locks.
impl StorageBackend for Boxed {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

/// Size of the blocks that are copied on write.
const BLOCK_BYTES: u64 = 4096;

/// A backend that keeps changes in memory. It opens and repairs a file for inspection without modifying it.
#[derive(Debug)]
pub(super) struct Overlay {
    below: Box<dyn StorageBackend>,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    len: u64,
    /// Length up to which the underlying file is visible. It shrinks when the file is truncated.
    below_len: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn new(below: Box<dyn StorageBackend>) -> io::Result<Self> {
        let len = below.len()?;
        Ok(Self { below, changes: Mutex::new(Changes { len, below_len: len, blocks: BTreeMap::new() }) })
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a block of the underlying file, zero-filled past the end of the file.
    fn below(&self, number: u64, below_len: u64) -> io::Result<Vec<u8>> {
        let mut block = vec![0; BLOCK_BYTES as usize];
        let start = number * BLOCK_BYTES;
        let there = below_len.saturating_sub(start).min(BLOCK_BYTES) as usize;
        if there > 0 {
            self.below.read(start, &mut block[..there])?;
        }
        Ok(block)
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.lock();
        check_range(offset, out.len(), changes.len)?;
        for part in parts(offset, out.len()) {
            let below;
            let block = match changes.blocks.get(&part.block) {
                Some(block) => block,
                None => {
                    below = self.below(part.block, changes.below_len)?;
                    &below
                }
            };
            out[part.at..part.at + part.len].copy_from_slice(&block[part.within..part.within + part.len]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.lock();
        if len < changes.len {
            let (last, kept) = (len / BLOCK_BYTES, (len % BLOCK_BYTES) as usize);
            changes.blocks.retain(|number, _| *number <= last);
            if let Some(block) = changes.blocks.get_mut(&last) {
                block[kept..].fill(0);
            }
            changes.below_len = changes.below_len.min(len);
        }
        changes.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.lock();
        check_range(offset, data.len(), changes.len)?;
        for part in parts(offset, data.len()) {
            if !changes.blocks.contains_key(&part.block) {
                let block = self.below(part.block, changes.below_len)?;
                changes.blocks.insert(part.block, block);
            }
            if let Some(block) = changes.blocks.get_mut(&part.block) {
                block[part.within..part.within + part.len]
                    .copy_from_slice(&data[part.at..part.at + part.len]);
            }
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.below.close()
    }
}

/// The part of a range that lies within one block.
struct Part {
    block: u64,
    /// Offset of the part in the block.
    within: usize,
    /// Offset of the part in the range.
    at: usize,
    len: usize,
}

fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let within = (place % BLOCK_BYTES) as usize;
        let part = Part {
            block: place / BLOCK_BYTES,
            within,
            at,
            len: (BLOCK_BYTES as usize - within).min(len - at),
        };
        at += part.len;
        (part.len > 0).then_some(part)
    })
}

fn check_range(offset: u64, len: usize, end: u64) -> io::Result<()> {
    match offset.checked_add(len as u64) {
        Some(last) if last <= end => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the file")),
    }
}
