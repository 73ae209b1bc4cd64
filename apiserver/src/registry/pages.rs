//! Paged reads of all entries under a prefix.

use std::sync::Arc;

use crate::storage::{Entry, Error, Page, Revision, Store};

/// Entries per page.
const PAGE_ENTRIES: usize = 1000;

/// Iterates over all entries under a prefix. Pages are read at different revisions. A watch from
/// [`Pages::revision`] makes the result consistent.
pub(super) struct Pages<'a> {
    store: &'a dyn Store,
    prefix: &'a str,
    /// Revision of the first page.
    pub revision: Revision,
    ready: Option<Page>,
    after: Option<Arc<str>>,
}

impl<'a> Pages<'a> {
    /// Reads the first page.
    pub async fn of(store: &'a dyn Store, prefix: &'a str) -> Result<Self, Error> {
        let first = store.range(prefix, None, PAGE_ENTRIES).await?;
        Ok(Self { store, prefix, revision: first.revision, ready: Some(first), after: None })
    }

    /// The next entries, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        let page = match (self.ready.take(), self.after.take()) {
            (Some(page), _) => page,
            (None, Some(after)) => self.store.range(self.prefix, Some(&after), PAGE_ENTRIES).await?,
            (None, None) => return Ok(None),
        };
        if page.more {
            self.after = page.entries.last().map(|last| last.key.clone());
        }
        Ok(Some(page.entries))
    }
}
