//! Backs up an etcd at one revision, in the format of the embedded store.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Inner, translate};
use crate::storage::embedded::write_copy;
use crate::storage::{Entry, Error, Revision};

/// Entries per page.
const PAGE_ENTRIES: usize = 500;
/// How many pages are read ahead of the writes.
const PAGES_AHEAD: usize = 2;

/// Copies all entries to a new file.
pub(super) async fn backup(store: &Arc<Inner>, path: &Path) -> Result<(), Error> {
    let revision = store.revision().await?;
    let (pages, mut read) = mpsc::channel(PAGES_AHEAD);
    let reading = tokio::spawn(read_all(store.clone(), revision, pages));
    let entries = std::iter::from_fn(move || read.blocking_recv()).flat_map(|page| match page {
        Ok(entries) => entries.into_iter().map(Ok).collect::<Vec<_>>(),
        Err(error) => vec![Err(error)],
    });
    let written = write_copy(path.to_owned(), revision, entries).await;
    reading.abort();
    written
}

async fn read_all(store: Arc<Inner>, revision: Revision, pages: mpsc::Sender<Result<Vec<Entry>, Error>>) {
    let (mut key, end) = translate::bounds("", None);
    loop {
        let page = store.page(key, end.clone(), PAGE_ENTRIES, Some(revision)).await;
        let next = page.as_ref().ok().and_then(|page| page.next.clone());
        // The writer may have failed.
        if pages.send(page.map(|page| page.entries)).await.is_err() {
            return;
        }
        let Some(next): Option<Bytes> = next else { return };
        key = next;
    }
}
