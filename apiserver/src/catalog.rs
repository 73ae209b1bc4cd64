//! Which resources are served: those of the program, and those that are defined while it runs.
//!
//! A picture of all rows is swapped as a whole; who reads takes the picture and keeps it for as long as a request lasts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::watch;

use crate::resource::{Fields, Resource, Text};

/// All rows at one moment.
#[derive(Debug, Default)]
pub struct Rows {
    /// In the order in which discovery names them.
    all: Vec<Arc<Resource>>,
    /// The same, sorted by group, version and plural.
    sorted: Vec<Arc<Resource>>,
    /// What field selectors may ask for, by the name in the store: versions of a kind share their objects.
    stored: HashMap<String, Fields>,
}

/// The resources that are served; clones share them.
#[derive(Clone, Debug)]
pub struct Catalog {
    built_in: Arc<[Arc<Resource>]>,
    now: watch::Sender<Arc<Rows>>,
}

/// Rows that are defined while the server runs, by who defined them.
pub(crate) type Defined = BTreeMap<String, Vec<Arc<Resource>>>;

impl Catalog {
    /// The resources of the program.
    pub fn new(rows: impl IntoIterator<Item = Resource>) -> Self {
        let built_in: Arc<[_]> = rows.into_iter().map(Arc::new).collect();
        let now = watch::Sender::new(Arc::new(Rows::of(built_in.iter().cloned())));
        Self { built_in, now }
    }

    /// The rows of the program, which no definition takes the place of.
    pub fn built_in(&self) -> &[Arc<Resource>] {
        &self.built_in
    }

    /// All rows as they are now.
    pub fn rows(&self) -> Arc<Rows> {
        self.now.borrow().clone()
    }

    /// All rows as they are now and will be: wakes whenever one comes or goes.
    pub fn follow(&self) -> watch::Receiver<Arc<Rows>> {
        self.now.subscribe()
    }

    /// What there would be with these rows defined.
    pub(crate) fn with(&self, defined: &Defined) -> Rows {
        Rows::of(self.built_in.iter().chain(defined.values().flatten()).cloned())
    }

    pub(crate) fn publish(&self, rows: Arc<Rows>) {
        self.now.send_replace(rows);
    }
}

impl Rows {
    /// Where two rows have one path, the first counts.
    fn of(rows: impl Iterator<Item = Arc<Resource>>) -> Self {
        let mut of = Self::default();
        for row in rows {
            let Err(at) = of.position(&row.group, &row.version, &row.plural) else { continue };
            of.sorted.insert(at, row.clone());
            let asked = row.stored_fields();
            let fields = of.stored.entry(row.stored().to_owned()).or_insert_with(|| asked.clone());
            let more: Vec<Text> = asked.iter().filter(|path| !fields.contains(path)).cloned().collect();
            if !more.is_empty() {
                *fields = fields.iter().cloned().chain(more).collect();
            }
            of.all.push(row);
        }
        of
    }

    /// Every row, in the order in which discovery names them.
    pub fn all(&self) -> &[Arc<Resource>] {
        &self.all
    }

    /// The row of a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.sorted.get(self.position(group, version, plural).ok()?)
    }

    /// The row of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.all.iter().find(|row| row.kind == kind && row.group == group && row.version == version)
    }

    /// True when objects are kept under that name (`deployments.apps`).
    pub fn holds(&self, stored: &str) -> bool {
        self.stored.contains_key(stored)
    }

    /// What field selectors may ask for of objects under that name in the store.
    pub fn fields(&self, stored: &str) -> Option<&Fields> {
        self.stored.get(stored)
    }

    /// Every name in the store, in no order.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (&str, &Fields)> {
        self.stored.iter().map(|(name, fields)| (name.as_str(), fields))
    }

    fn position(&self, group: &str, version: &str, plural: &str) -> Result<usize, usize> {
        self.sorted.binary_search_by(|row| {
            (row.group.as_ref(), row.version.as_ref(), row.plural.as_ref()).cmp(&(group, version, plural))
        })
    }
}

#[cfg(test)]
mod tests;
