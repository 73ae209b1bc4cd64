//! Backs up an etcd at one revision, in the format of the embedded store.

use std::path::Path;

use tokio::sync::mpsc;

use super::{Inner, translate};
use crate::storage::embedded::write_copy;
use crate::storage::{Entry, Error, Revision};

/// Entries per page.
const PAGE_ENTRIES: usize = 500;
/// How many pages are read ahead of the writes.
const PAGES_AHEAD: usize = 2;

/// A page of entries; `None` after the last one. A channel that closes before `None` belongs to a cancelled backup.
type ReadPage = Result<Option<Vec<Entry>>, Error>;

/// Copies all entries to a new file.
pub(super) async fn backup(store: &Inner, path: &Path) -> Result<(), Error> {
    let revision = store.revision().await?;
    let (pages, mut read) = mpsc::channel(PAGES_AHEAD);
    let entries = entries(move || read.blocking_recv().unwrap_or(Err(Error::Closed)));
    let ((), written) =
        tokio::join!(read_all(store, revision, pages), write_copy(path.to_owned(), revision, entries));
    written
}

/// The entries of all pages, or of those before the first error and that error.
fn entries(mut next_page: impl FnMut() -> ReadPage) -> impl Iterator<Item = Result<Entry, Error>> {
    let mut has_failed = false;
    let pages = std::iter::from_fn(move || {
        if has_failed {
            None
        } else {
            let page = next_page().transpose();
            has_failed = matches!(page, Some(Err(_)));
            page
        }
    });
    pages.flat_map(|page| match page {
        Ok(entries) => entries.into_iter().map(Ok).collect::<Vec<_>>(),
        Err(error) => vec![Err(error)],
    })
}

async fn read_all(store: &Inner, revision: Revision, pages: mpsc::Sender<ReadPage>) {
    let (mut key, end) = translate::bounds("", None);
    loop {
        let page = store.page(key, end.clone(), PAGE_ENTRIES, Some(revision)).await;
        let (page, next) = match page {
            Ok(page) => (Ok(Some(page.entries)), page.next),
            Err(error) => (Err(error), None),
        };
        // The writer may have failed.
        if pages.send(page).await.is_err() {
            return;
        }
        let Some(next) = next else { break };
        key = next;
    }
    // After an error the writer has stopped.
    drop(pages.send(Ok(None)).await);
}

#[cfg(test)]
mod tests {
    //! Pages that end, fail and are cancelled.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use bytes::Bytes;

    use super::*;

    fn read(pages: Vec<ReadPage>) -> Vec<Result<String, Error>> {
        let mut pages = pages.into_iter();
        let entries = entries(move || pages.next().unwrap_or(Err(Error::Closed)));
        entries.map(|entry| entry.map(|entry| entry.key.to_string())).collect()
    }

    fn page(key: &str) -> ReadPage {
        Ok(Some(vec![Entry { key: key.into(), value: Bytes::new(), created: 1, modified: 1 }]))
    }

    #[test]
    fn only_pages_with_an_end_are_complete() {
        let complete = read(vec![page("a"), Ok(Some(Vec::new())), page("b"), Ok(None)]);
        assert_eq!(complete.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), ["a", "b"]);
        let cancelled = read(vec![page("a"), page("b")]);
        assert!(matches!(&cancelled[..], [Ok(_), Ok(_), Err(Error::Closed)]));
        let failed = read(vec![page("a"), Err(Error::Unreachable { store: "etcd".to_owned() }), page("b")]);
        assert!(matches!(&failed[..], [Ok(_), Err(Error::Unreachable { .. })]));
    }
}
