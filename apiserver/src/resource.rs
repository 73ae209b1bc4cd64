//! Resource rows: names, verbs, subresources, strategy and columns of each served resource version.
//!
//! [`crate::kinds`] defines the built-in rows. Custom resources are built the same way and passed to
//! [`crate::registry::Registry::serve`].

mod columns;
mod part;
mod schema;
mod status;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use api::field_error::FieldError;
use api::shape::Shape;
use api::strategy::{self, Strategy};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};

pub use self::columns::{Columns, ConvertedColumns, Head};
pub use self::part::{Part, Replicas, Subresource, UpdateFields};
pub use self::schema::{Conversion, ConvertedStrategy, Schema, StrategyRef};
use crate::object::Object;
pub use crate::object::{Field, Fields, Source, Text};
use crate::selector::FieldSelector;
use crate::status::Status;

/// Verbs of writable resources.
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// What happens by default to the dependents of a deleted object; `GarbageCollectionPolicy` of the stock
/// registries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GarbageCollection {
    /// Dependents are deleted in the background.
    #[default]
    DeleteDependents,
    /// Dependents are orphaned. A client that sets no policy gets the warning.
    OrphanDependents {
        /// Text of the `Warning` header.
        warning: Option<&'static str>,
    },
    /// Propagation policies have no effect.
    Unsupported,
}

/// A resource: one kind in one served version.
#[derive(Clone)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: Text,
    /// API version of the group.
    pub version: Text,
    /// Kind of the objects.
    pub kind: Text,
    /// Kind of a list of the objects.
    pub list_kind: Text,
    /// Plural name.
    pub plural: Text,
    /// Singular name.
    pub singular: Text,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Short names.
    pub short_names: Vec<Text>,
    /// Categories, such as `all`.
    pub categories: Vec<Text>,
    /// Supported verbs.
    pub verbs: &'static [&'static str],
    /// Whether a PUT creates a missing object.
    pub creates_on_update: bool,
    /// Whether a created object keeps its status. Otherwise only the status subresource sets the status.
    pub keeps_initial_status: bool,
    /// For a virtual resource: the resource and subresource, in the same group version, to which a create is
    /// written.
    pub creates_subresource: Option<(&'static str, &'static str)>,
    /// Whether DELETE returns the deleted object (`ReturnDeletedObject` of the stock registries) instead of a
    /// Status.
    pub returns_deleted: bool,
    /// Default propagation policy of deletes.
    pub garbage_collection: GarbageCollection,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// Selectable fields beyond name and namespace.
    pub fields: Fields,
    /// Table columns.
    pub columns: Arc<dyn Columns>,
    /// The strategy: sets defaults, prepares and validates objects.
    pub strategy: StrategyRef,
    /// The schema, for kinds that are not built in.
    pub schema: Option<Arc<dyn Schema>>,
    /// The conversion, if the served version differs from the stored one.
    pub conversion: Option<Arc<dyn Conversion>>,
    /// For a read-only server: the end of the message "... is forbidden: ", which names the owner of the object.
    pub owner: fn(&Map<String, Value>) -> String,
    api_version: String,
    stored: String,
    /// The `apiVersion` of stored objects.
    stored_version: String,
}

impl Resource {
    /// Creates a namespaced built-in resource that is stored in this version.
    pub fn new(
        group: impl Into<Text>,
        version: impl Into<Text>,
        kind: impl Into<Text>,
        plural: impl Into<Text>,
        singular: impl Into<Text>,
    ) -> Self {
        let (group, version, kind) = (group.into(), version.into(), kind.into());
        let (plural, singular) = (plural.into(), singular.into());
        let api_version = if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
        Self {
            list_kind: format!("{kind}List").into(),
            namespaced: true,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: ALL,
            creates_on_update: false,
            keeps_initial_status: false,
            creates_subresource: None,
            returns_deleted: false,
            garbage_collection: GarbageCollection::default(),
            subresources: Vec::new(),
            fields: Arc::new([]),
            columns: Arc::new(api::table::NAME_AND_AGE),
            strategy: StrategyRef::BuiltIn(strategy::of(&group, &kind)),
            schema: None,
            conversion: None,
            owner: |_| String::new(),
            stored: QualifiedName { plural: &plural, group: &group }.to_string(),
            stored_version: api_version.clone(),
            api_version,
            group,
            version,
            kind,
            plural,
            singular,
        }
    }

    /// Makes the resource cluster-scoped.
    pub fn cluster(self) -> Self {
        Self { namespaced: false, ..self }
    }

    /// Sets the short names.
    pub fn short(self, names: &[&'static str]) -> Self {
        Self { short_names: texts(names), ..self }
    }

    /// Adds the resource to the category `all`.
    pub fn in_all(self) -> Self {
        Self { categories: texts(&["all"]), ..self }
    }

    /// Adds the resource to the category `api-extensions`.
    pub fn in_api_extensions(self) -> Self {
        Self { categories: texts(&["api-extensions"]), ..self }
    }

    /// Sets the verbs.
    pub fn verbs(self, verbs: &'static [&'static str]) -> Self {
        Self { verbs, ..self }
    }

    /// Lets a PUT create a missing object.
    pub fn creates_on_update(self) -> Self {
        Self { creates_on_update: true, ..self }
    }

    /// Lets a created object keep its status.
    pub fn keeps_initial_status(self) -> Self {
        Self { keeps_initial_status: true, ..self }
    }

    /// Lets DELETE return the deleted object.
    pub fn returns_deleted(self) -> Self {
        Self { returns_deleted: true, ..self }
    }

    /// Sets the default propagation policy.
    pub fn garbage_collection(self, policy: GarbageCollection) -> Self {
        Self { garbage_collection: policy, ..self }
    }

    /// Makes this a virtual resource. Its creates are written to a subresource of another resource.
    pub fn creates_subresource(self, plural: &'static str, part: &'static str) -> Self {
        Self { verbs: &["create"], creates_subresource: Some((plural, part)), ..self }
    }

    /// Adds a subresource.
    pub fn part(mut self, part: Subresource) -> Self {
        self.subresources.push(part);
        self
    }

    /// Adds the status subresource.
    pub fn with_status(self) -> Self {
        self.part(Subresource::status())
    }

    /// Sets the selectable fields.
    pub fn fields(self, fields: &[Field]) -> Self {
        Self { fields: fields.into(), ..self }
    }

    /// Sets the table columns.
    pub fn columns(self, columns: impl Columns + 'static) -> Self {
        Self { columns: Arc::new(columns), ..self }
    }

    /// Sets the message of Forbidden errors.
    pub fn owner(self, owner: fn(&Map<String, Value>) -> String) -> Self {
        Self { owner, ..self }
    }

    /// Sets a strategy that is built at run time.
    pub fn strategy(self, strategy: Arc<dyn Strategy>) -> Self {
        Self { strategy: StrategyRef::Own(strategy), ..self }
    }

    /// Sets a schema that is built at run time.
    pub fn schema(self, schema: Arc<dyn Schema>) -> Self {
        Self { schema: Some(schema), ..self }
    }

    /// Serves the objects of another resource or version through a conversion.
    pub fn stored_as(self, qualified: &str, api_version: &str, conversion: Arc<dyn Conversion>) -> Self {
        let (stored, stored_version) = (qualified.to_owned(), api_version.to_owned());
        Self { stored, stored_version, conversion: Some(conversion), ..self }
    }

    /// The API version, such as `v1` or `apps/v1`.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The resource name in messages, such as `pods` or `deployments.apps`.
    pub fn qualified(&self) -> QualifiedName<'_> {
        QualifiedName { plural: &self.plural, group: &self.group }
    }

    /// The storage name. It is the qualified name, unless another resource stores the objects.
    pub fn stored(&self) -> &str {
        &self.stored
    }

    /// Whether the resource supports no writes.
    pub fn is_read_only(&self) -> bool {
        self.verbs.iter().all(|verb| matches!(*verb, "get" | "list" | "watch"))
    }

    /// The hash of the storage version, which storage migrators compare. `None` for resources that are not stored.
    pub fn storage_version_hash(&self) -> Option<String> {
        // As in kube-apiserver: the first eight bytes of a SHA-256.
        const BYTES: usize = 8;
        if !self.verbs.contains(&"create") || !self.verbs.contains(&"list") {
            return None;
        }
        let (group, version) = self.stored_version.split_once('/').unwrap_or(("", &self.stored_version));
        let name = format!("{group}/{version}/{}", self.kind);
        let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
        Some(STANDARD.encode(digest.as_ref().get(..BYTES)?))
    }

    /// The merge and ownership rules for patches and server-side apply.
    pub fn shape(&self) -> Shape<'_> {
        match &self.schema {
            Some(schema) => schema.shape(),
            None => api::schema::shape(&self.api_version, &self.kind),
        }
    }

    /// Removes unknown fields and returns their paths.
    pub fn prune(&self, object: &mut Map<String, Value>) -> Vec<String> {
        match &self.schema {
            Some(schema) => schema.prune(object),
            None => api::schema::prune(object, &self.api_version, &self.kind),
        }
    }

    /// Normalizes values to their stored form, and returns errors for values of the wrong type.
    pub fn fit(&self, object: &mut Map<String, Value>) -> Vec<FieldError> {
        match &self.schema {
            Some(schema) => schema.fit(object),
            None => api::schema::normalize(object, &self.api_version, &self.kind),
        }
    }

    /// Translates field labels of this version to the stored labels.
    ///
    /// # Errors
    /// 400 with the message of kube-apiserver for an unsupported label.
    pub fn select(&self, selector: &mut FieldSelector) -> Result<(), Status> {
        selector.rename(|label| match label {
            "metadata.name" => Ok(label.to_owned()),
            "metadata.namespace" if self.namespaced || self.has_default_labels() => Ok(label.to_owned()),
            _ => match self.fields.iter().find(|field| field.label == label) {
                Some(field) => Ok(field.stored_label().to_owned()),
                None => Err(Status::bad_request(self.unknown_label(label))),
            },
        })
    }

    /// True for built-in kinds without field labels of their own. They support the labels for name and namespace
    /// even if they are cluster-scoped.
    fn has_default_labels(&self) -> bool {
        self.fields.is_empty() && self.schema.is_none()
    }

    fn unknown_label(&self, label: &str) -> String {
        if self.has_default_labels() {
            format!(r#""{label}" is not a known field selector: only "metadata.name", "metadata.namespace""#)
        } else if self.kind == "ResourceSlice" {
            format!("field label not supported for {}, Kind={}: {label}", self.api_version, self.kind)
        } else {
            format!("field label not supported: {label}")
        }
    }

    /// Field labels whose values are indexed.
    pub fn stored_fields(&self) -> Fields {
        let is_stored = |field: &&Field| !matches!(field.source, Source::Alias(_));
        if self.fields.iter().all(|field| is_stored(&field)) {
            self.fields.clone()
        } else {
            self.fields.iter().filter(is_stored).cloned().collect()
        }
    }

    /// Returns the object in this version, as JSON.
    pub fn json(&self, object: &Object) -> Bytes {
        match &self.conversion {
            None => object.json().clone(),
            Some(conversion) => {
                serde_json::to_vec(&conversion.to_served(object.decode())).unwrap_or_default().into()
            }
        }
    }

    /// Returns the object as a list item. Items of built-in kinds have no `apiVersion` and `kind`.
    pub fn item_json(&self, object: &Object) -> Bytes {
        match (&self.schema, &self.conversion) {
            (None, None) => object.json_without_type().into(),
            (None, Some(_)) => {
                let mut item = self.tree(object);
                item.shift_remove("apiVersion");
                item.shift_remove("kind");
                serde_json::to_vec(&item).unwrap_or_default().into()
            }
            (Some(_), _) => self.json(object),
        }
    }

    /// Returns the object in this version, decoded.
    pub fn tree(&self, object: &Object) -> Map<String, Value> {
        let stored = object.decode();
        match &self.conversion {
            None => stored,
            Some(conversion) => conversion.to_served(stored),
        }
    }

    /// Does the same as [`Self::tree`], without managed fields.
    pub(crate) fn tree_without_managed_fields(&self, object: &Object) -> Map<String, Value> {
        let stored = object.decode_without_managed_fields();
        match &self.conversion {
            None => stored,
            Some(conversion) => conversion.to_served(stored),
        }
    }

    /// Returns the subresource with the given name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|part| part.name == name)
    }

    /// Whether there is a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresources.iter().any(|part| matches!(part.part, Part::Status))
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.stored, self.version)
    }
}

fn texts(names: &[&'static str]) -> Vec<Text> {
    names.iter().map(|name| Cow::Borrowed(*name)).collect()
}

/// A resource name with its group, such as `pods` or `deployments.apps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QualifiedName<'a> {
    plural: &'a str,
    group: &'a str,
}

impl fmt::Display for QualifiedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}
