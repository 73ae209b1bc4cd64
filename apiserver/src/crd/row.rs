//! Builds the row of a custom resource version.

use std::sync::Arc;

use api::crd::{self, CustomResourceStrategy, Definition, Version};
use api::shape::Shape;
use api::table::{Columns, CustomColumn, JsonPath};
use serde_json::{Map, Value};

use super::DEFINITIONS;
use crate::resource::{Conversion, Field, Replicas, Resource, Schema, Subresource, Text};
use crate::watch_cache::WatchCache;

/// Builds the rows of all served versions. `cache` contains the definition, from which the OpenAPI schema is read
/// on demand.
pub(super) fn rows(name: &str, definition: &Definition, cache: &WatchCache) -> Vec<Resource> {
    definition.versions.iter().map(|version| row(name, definition, version, cache)).collect()
}

fn row(name: &str, definition: &Definition, version: &Version, cache: &WatchCache) -> Resource {
    let Definition { group, names, stored, .. } = definition;
    let schema = DefinedSchema {
        schema: version.schema.clone(),
        definition: name.to_owned(),
        version: version.name.clone(),
        edition: definition.edition,
        cache: cache.clone(),
    };
    let mut row = Resource::new(
        group.clone(),
        version.name.clone(),
        names.kind.clone(),
        names.plural.clone(),
        names.singular.clone(),
    )
    .columns(printed(version))
    .strategy(Arc::new(CustomResourceStrategy::new(version.schema.clone(), version.warning.clone())))
    .schema(Arc::new(schema));
    row.list_kind = names.list_kind.clone().into();
    row.namespaced = definition.namespaced;
    row.short_names = texts(&names.short_names).collect();
    row.categories = texts(&names.categories).collect();
    row.fields = texts(&version.selectable).map(Field::path).collect();
    if version.has_status {
        row = row.part(Subresource::status());
    }
    if let Some(scale) = &version.scale {
        let path = |path: &String| Text::from(path.trim_start_matches('.').to_owned());
        row = row.part(Subresource::scale(Replicas {
            wanted: path(&scale.spec_replicas),
            actual: path(&scale.status_replicas),
            selector: scale.selector.as_ref().map(path),
        }));
    }
    // Objects stored before a change of the definition lack new defaults.
    let fill = (definition.has_changed && version.schema.has_defaults()).then(|| version.schema.clone());
    if definition.is_mixed || version.name != *stored || fill.is_some() {
        let api_version = |version: &str| format!("{group}/{version}");
        let conversion =
            VersionConversion { shown: api_version(&version.name), stored: api_version(stored), fill };
        let qualified = row.stored().to_owned();
        row = row.stored_as(&qualified, &api_version(stored), Arc::new(conversion));
    }
    row
}

fn texts(texts: &[String]) -> impl Iterator<Item = Text> {
    texts.iter().map(|text| Text::from(text.clone()))
}

/// Schema of a custom resource version.
struct DefinedSchema {
    schema: Arc<crd::Schema>,
    definition: String,
    version: String,
    /// Hash of the definition's generation and UID, for OpenAPI cache keys.
    edition: u64,
    cache: WatchCache,
}

impl Schema for DefinedSchema {
    fn shape(&self) -> Shape<'_> {
        Shape::of(&*self.schema)
    }

    fn prune(&self, object: &mut Map<String, Value>) -> Vec<String> {
        crd::unknown_fields(&self.schema, object)
    }

    /// Decodes the schema on each use. The decoded schemas of a hundred definitions would use more memory than the
    /// rest of the server.
    fn json(&self) -> Option<Arc<Value>> {
        let definition = self.cache.get(DEFINITIONS, "", &self.definition)?.decode();
        let versions = definition.get("spec")?.get("versions")?.as_array()?;
        let version = versions.iter().find(|version| version["name"] == *self.version)?;
        version.pointer("/schema/openAPIV3Schema").cloned().map(Arc::new)
    }

    fn edition(&self) -> u64 {
        self.edition
    }
}

/// Converts objects to another version of a definition: changes `apiVersion` and applies defaults.
struct VersionConversion {
    shown: String,
    stored: String,
    fill: Option<Arc<crd::Schema>>,
}

impl Conversion for VersionConversion {
    fn to_served(&self, stored: Map<String, Value>) -> Map<String, Value> {
        let mut object = renamed(stored, &self.shown);
        // An object that would become too large is returned with the defaults that fit.
        if let Some(schema) = &self.fill
            && let Err(error) = crd::fill(schema, &mut object)
        {
            tracing::debug!(version = self.shown, %error, "an object is served without all defaults");
        }
        object
    }

    fn to_stored(&self, shown: Map<String, Value>) -> Map<String, Value> {
        renamed(shown, &self.stored)
    }
}

fn renamed(mut object: Map<String, Value>, api_version: &str) -> Map<String, Value> {
    object.insert("apiVersion".to_owned(), api_version.into());
    object
}

/// The printer columns of a version; columns with an invalid path are skipped.
fn printed(version: &Version) -> api::table::CustomColumns {
    let columns = version.columns.iter().flatten().filter_map(|column| {
        Some(CustomColumn {
            name: column.name.clone(),
            kind: column.kind.clone(),
            format: column.format.clone(),
            description: column.description.clone(),
            priority: column.priority,
            json_path: JsonPath::parse(&column.json_path).ok()?,
        })
    });
    Columns::custom(columns.collect())
}
