//! Resource catalog: the built-in and custom resources that are served.
//!
//! A change replaces the set of all rows at once. A request uses the same set from start to end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::watch;

use crate::resource::{Field, Fields, Resource};

/// All served resources at one moment.
#[derive(Debug, Default)]
pub struct Rows {
    /// The rows in discovery order.
    all: Vec<Arc<Resource>>,
    /// The rows sorted by group, version and plural.
    sorted: Vec<Arc<Resource>>,
    /// Selectable fields by storage name. All versions of a kind have the same stored objects.
    stored: HashMap<String, Fields>,
}

/// The served resources. Clones share them.
#[derive(Clone, Debug)]
pub struct Catalog {
    built_in: Arc<[Arc<Resource>]>,
    now: watch::Sender<Arc<Rows>>,
}

/// Custom resources by the name of their definition.
pub(crate) type Defined = BTreeMap<String, Vec<Arc<Resource>>>;

impl Catalog {
    /// Creates a catalog of the built-in resources.
    pub fn new(rows: impl IntoIterator<Item = Resource>) -> Self {
        let built_in: Arc<[_]> = rows.into_iter().map(Arc::new).collect();
        let now = watch::Sender::new(Arc::new(Rows::of(built_in.iter().cloned())));
        Self { built_in, now }
    }

    /// The built-in resources, which custom resources cannot override.
    pub fn built_in(&self) -> &[Arc<Resource>] {
        &self.built_in
    }

    /// Returns the served resources and their groups as they are now.
    pub fn rows(&self) -> Arc<Rows> {
        self.now.borrow().clone()
    }

    /// Returns a receiver that is notified whenever the rows change.
    pub fn follow(&self) -> watch::Receiver<Arc<Rows>> {
        self.now.subscribe()
    }

    /// The rows with the custom resources of these definitions.
    pub(crate) fn with(&self, defined: &Defined) -> Rows {
        Rows::of(self.built_in.iter().chain(defined.values().flatten()).cloned())
    }

    pub(crate) fn publish(&self, rows: Arc<Rows>) {
        self.now.send_replace(rows);
    }
}

impl Rows {
    /// Creates the set of rows. If two rows have the same path, the first one wins.
    fn of(rows: impl Iterator<Item = Arc<Resource>>) -> Self {
        let mut of = Self::default();
        for row in rows {
            let Err(at) = of.position(&row.group, &row.version, &row.plural) else { continue };
            of.sorted.insert(at, row.clone());
            let declared = row.stored_fields();
            let fields = of.stored.entry(row.stored().to_owned()).or_insert_with(|| declared.clone());
            let is_known = |field: &Field| fields.iter().any(|known| known.label == field.label);
            let more: Vec<Field> = declared.iter().filter(|field| !is_known(field)).cloned().collect();
            if !more.is_empty() {
                *fields = fields.iter().cloned().chain(more).collect();
            }
            of.all.push(row);
        }
        of
    }

    /// All rows, in discovery order.
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

    /// True if objects are stored under this name, such as `deployments.apps`.
    pub fn holds(&self, stored: &str) -> bool {
        self.stored.contains_key(stored)
    }

    /// The selectable fields of a storage name.
    pub fn fields(&self, stored: &str) -> Option<&Fields> {
        self.stored.get(stored)
    }

    /// All storage names, in arbitrary order.
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
mod tests {
    //! Rows are found by path, kind and storage name, built-in or not.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::sync::Arc;

    use super::{Catalog, Defined};
    use crate::resource::{Conversion, Field, Resource};

    struct Same;

    impl Conversion for Same {
        fn to_served(
            &self,
            stored: serde_json::Map<String, serde_json::Value>,
        ) -> serde_json::Map<String, serde_json::Value> {
            stored
        }

        fn to_stored(
            &self,
            shown: serde_json::Map<String, serde_json::Value>,
        ) -> serde_json::Map<String, serde_json::Value> {
            shown
        }
    }

    fn widget(version: &'static str, kind: &'static str) -> Resource {
        Resource::new("example.com", version, kind, "widgets", "widget")
    }

    #[test]
    fn catalog_returns_the_first_row_of_a_path() {
        let catalog = Catalog::new([
            Resource::new("", "v1", "Pod", "pods", "pod"),
            widget("v1", "Widget").fields(&[Field::path("spec.color")]),
        ]);
        let other = widget("v1", "Other");
        let beta = widget("v1beta1", "Widget")
            .fields(&[Field::path("spec.color"), Field::path("spec.size")])
            .stored_as("widgets.example.com", "example.com/v1", Arc::new(Same));
        let defined = Defined::from([("me".to_owned(), vec![Arc::new(other), Arc::new(beta)])]);
        let rows = catalog.with(&defined);
        let kind = |version| rows.find("example.com", version, "widgets").map(|row| row.kind.to_string());
        assert_eq!((kind("v1").as_deref(), kind("v1beta1").as_deref()), (Some("Widget"), Some("Widget")));
        assert!(kind("v2").is_none() && rows.find("", "v1", "widgets").is_none());
        assert_eq!(rows.kind("", "v1", "Pod").unwrap().plural, "pods");
        assert_eq!(rows.all().len(), 3);
        let fields = rows.fields("widgets.example.com").unwrap();
        assert_eq!(fields.as_ref(), [Field::path("spec.color"), Field::path("spec.size")]);
        assert!(!rows.holds("gadgets.example.com"));
        assert!(!catalog.rows().all().iter().any(|row| row.version == "v1beta1"), "it is not published yet");
    }
}
