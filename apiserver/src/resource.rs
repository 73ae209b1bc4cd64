//! A resource is a row: what it is called, what may be done with it, what it does beyond being stored, how it is printed.
//!
//! Rows of built-in kinds stand in [`crate::kinds`]; rows of kinds that are defined while the server runs are made the
//! same way and handed to [`crate::registry::Registry::serve`].

mod part;
mod schema;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use api::fault::Fault;
use api::shape::Shape;
use api::strategy::{self, Strategy};
use bytes::Bytes;
use serde_json::{Map, Value};

pub use self::part::{Part, Pick, Replicas, Subresource};
pub use self::schema::{Logic, Schema, View};
use crate::selector::FieldSelector;
use crate::status::Status;
use crate::store::Object;
use crate::table::Columns;

/// A name that is part of the program, or that somebody gave while it ran.
pub type Text = Cow<'static, str>;

/// The paths that field selectors may ask for (`status.phase`), beyond name and namespace.
pub type Fields = Arc<[Text]>;

/// What may be done with a resource that clients write.
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// One kind of object that is served, in one version.
#[derive(Clone)]
pub struct Resource {
    /// API group, empty for the core one.
    pub group: Text,
    /// Version.
    pub version: Text,
    /// Kind.
    pub kind: Text,
    /// Kind of a list of it.
    pub list_kind: Text,
    /// Name in paths.
    pub plural: Text,
    /// Name of one.
    pub singular: Text,
    /// Objects lie in namespaces.
    pub namespaced: bool,
    /// What people type.
    pub short_names: Vec<Text>,
    /// Groups of resources it belongs to (`all`).
    pub categories: Vec<Text>,
    /// What may be done with it.
    pub verbs: &'static [&'static str],
    /// A PUT makes the object when it is not there.
    pub made_by_update: bool,
    /// An object keeps the status it is made with; otherwise that is for its own path alone.
    pub made_with_status: bool,
    /// What is made of it is a part of an object of another resource of its group and version: the names of both.
    pub made_as: Option<(&'static str, &'static str)>,
    /// Parts of its objects with a path of their own.
    pub subresources: Vec<Subresource>,
    /// What field selectors may ask for.
    pub fields: Fields,
    /// How a table of it looks.
    pub columns: Arc<dyn Columns>,
    /// What it fills in, decides and refuses.
    pub strategy: Logic,
    /// What its fields are, where the table of all types does not know.
    pub schema: Option<Arc<dyn Schema>>,
    /// How stored objects are shown, where that is not as they are stored.
    pub view: Option<Arc<dyn View>>,
    /// Who alone may change an object: ends the sentence "... is forbidden: ".
    pub owner: fn(&Map<String, Value>) -> String,
    api_version: String,
    stored: String,
}

impl Resource {
    /// A row of a built-in kind that lies in namespaces and is stored, listed, watched and printed as it is.
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
            made_by_update: false,
            made_with_status: false,
            made_as: None,
            subresources: Vec::new(),
            fields: Arc::new([]),
            columns: Arc::new(api::table::NAME_AND_AGE),
            strategy: Logic::BuiltIn(strategy::of(&group, &kind)),
            schema: None,
            view: None,
            owner: |_| String::new(),
            stored: QualifiedName { plural: &plural, group: &group }.to_string(),
            api_version,
            group,
            version,
            kind,
            plural,
            singular,
        }
    }

    /// It lies in no namespace.
    pub fn cluster(self) -> Self {
        Self { namespaced: false, ..self }
    }

    /// What people type.
    pub fn short(self, names: &[&'static str]) -> Self {
        Self { short_names: texts(names), ..self }
    }

    /// `kubectl get all` shows it.
    pub fn in_all(self) -> Self {
        Self { categories: texts(&["all"]), ..self }
    }

    /// What may be done with it.
    pub fn verbs(self, verbs: &'static [&'static str]) -> Self {
        Self { verbs, ..self }
    }

    /// A PUT makes the object when it is not there.
    pub fn made_by_update(self) -> Self {
        Self { made_by_update: true, ..self }
    }

    /// An object keeps the status it is made with.
    pub fn made_with_status(self) -> Self {
        Self { made_with_status: true, ..self }
    }

    /// It can only be made, and is stored nowhere: it becomes that part of an object of another resource, which it names.
    pub fn made_as(self, plural: &'static str, part: &'static str) -> Self {
        Self { verbs: &["create"], made_as: Some((plural, part)), ..self }
    }

    /// One more part with a path of its own.
    pub fn part(mut self, part: Subresource) -> Self {
        self.subresources.push(part);
        self
    }

    /// Its objects have a status, which has a path of its own.
    pub fn with_status(self) -> Self {
        self.part(Subresource::status())
    }

    /// Field selectors may ask for these.
    pub fn fields(self, paths: &[&'static str]) -> Self {
        Self { fields: texts(paths).into(), ..self }
    }

    /// How a table of it looks.
    pub fn columns(self, columns: impl Columns + 'static) -> Self {
        Self { columns: Arc::new(columns), ..self }
    }

    /// Who alone may change an object.
    pub fn owner(self, owner: fn(&Map<String, Value>) -> String) -> Self {
        Self { owner, ..self }
    }

    /// What it fills in, decides and refuses is made at run time.
    pub fn strategy(self, strategy: Arc<dyn Strategy>) -> Self {
        Self { strategy: Logic::Own(strategy), ..self }
    }

    /// What its fields are is made at run time.
    pub fn schema(self, schema: Arc<dyn Schema>) -> Self {
        Self { schema: Some(schema), ..self }
    }

    /// Its objects are those of another resource (`pods`, `deployments.apps`), shown in another way.
    pub fn stored_as(self, qualified: &str, view: Arc<dyn View>) -> Self {
        Self { stored: qualified.to_owned(), view: Some(view), ..self }
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// `pods` or `deployments.apps`: the name in messages.
    pub fn qualified(&self) -> QualifiedName<'_> {
        QualifiedName { plural: &self.plural, group: &self.group }
    }

    /// The name in the store: the qualified one, unless it shares the objects of another resource.
    pub fn stored(&self) -> &str {
        &self.stored
    }

    /// What patches and server-side apply need to know of the kind.
    pub fn shape(&self) -> Shape<'_> {
        match &self.schema {
            Some(schema) => schema.shape(),
            None => api::schema::shape(&self.api_version, &self.kind),
        }
    }

    /// Takes out every field that the kind does not have and returns their paths.
    pub fn prune(&self, object: &mut Map<String, Value>) -> Vec<String> {
        match &self.schema {
            Some(schema) => schema.prune(object),
            None => api::schema::prune(object, &self.api_version, &self.kind),
        }
    }

    /// Brings an object into the form that is stored, and returns the values that are of another type than their field.
    pub fn fit(&self, object: &mut Map<String, Value>) -> Vec<Fault> {
        match &self.schema {
            Some(schema) => schema.fit(object),
            None => api::schema::fit(object, &self.api_version, &self.kind),
        }
    }

    /// Makes a selector ask for fields as they are stored.
    ///
    /// # Errors
    /// 400 for a field that may not be asked for.
    pub fn select(&self, selector: &mut FieldSelector) -> Result<(), Status> {
        selector.check(&self.kind, &self.fields)?;
        if let Some(view) = &self.view {
            selector.rename(|path| view.stored_field(path));
        }
        Ok(())
    }

    /// What field selectors may ask for, as it is stored.
    pub fn stored_fields(&self) -> Fields {
        match &self.view {
            None => self.fields.clone(),
            Some(view) => self.fields.iter().map(|path| view.stored_field(path).into()).collect(),
        }
    }

    /// A stored object in this version, as it is sent.
    pub fn json(&self, object: &Object) -> Bytes {
        match &self.view {
            None => object.json().clone(),
            Some(view) => serde_json::to_vec(&view.shown(object.decode())).unwrap_or_default().into(),
        }
    }

    /// A stored object in this version, as a tree.
    pub fn tree(&self, object: &Object) -> Map<String, Value> {
        let stored = object.decode();
        match &self.view {
            None => stored,
            Some(view) => view.shown(stored),
        }
    }

    /// The same without the record of its owners.
    pub(crate) fn bare(&self, object: &Object) -> Map<String, Value> {
        let stored = object.decode_bare();
        match &self.view {
            None => stored,
            Some(view) => view.shown(stored),
        }
    }

    /// The part of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|part| part.name == name)
    }

    /// True when the status has a path of its own, which alone may write it.
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

/// `pods` or `deployments.apps`.
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
