//! A version of a definition as a row.

use std::sync::Arc;

use api::crd::{self, Custom, Definition, Version};
use api::shape::Shape;
use api::table::{Columns, CustomColumn, JsonPath};
use serde_json::{Map, Value};

use super::DEFINITIONS;
use crate::resource::{Replicas, Resource, Schema, Subresource, Text, View};
use crate::store::Memory;

/// Every version that is served; `cache` holds the definition, whose schema documents are made of.
pub(super) fn rows(name: &str, definition: &Definition, cache: &Memory) -> Vec<Resource> {
    definition.versions.iter().map(|version| row(name, definition, version, cache)).collect()
}

fn row(name: &str, definition: &Definition, version: &Version, cache: &Memory) -> Resource {
    let Definition { group, names, stored, .. } = definition;
    let schema = Own {
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
    .strategy(Arc::new(Custom::new(version.schema.clone(), version.warning.clone())))
    .schema(Arc::new(schema));
    row.list_kind = names.list_kind.clone().into();
    row.namespaced = definition.namespaced;
    row.short_names = texts(&names.short_names).collect();
    row.categories = texts(&names.categories).collect();
    row.fields = texts(&version.selectable).collect();
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
    // What was stored before the definition changed lacks defaults that came since.
    let fill = (definition.has_changed && version.schema.has_defaults()).then(|| version.schema.clone());
    if definition.is_mixed || version.name != *stored || fill.is_some() {
        let api_version = |version: &str| format!("{group}/{version}");
        let view = Versioned { shown: api_version(&version.name), stored: api_version(stored), fill };
        let qualified = row.stored().to_owned();
        row = row.stored_as(&qualified, Arc::new(view));
    }
    row
}

fn texts(texts: &[String]) -> impl Iterator<Item = Text> {
    texts.iter().map(|text| Text::from(text.clone()))
}

/// The schema of a version.
struct Own {
    schema: Arc<crd::Schema>,
    definition: String,
    version: String,
    /// The generation of the definition, and which of the name it is.
    edition: u64,
    cache: Memory,
}

impl Schema for Own {
    fn shape(&self) -> Shape<'_> {
        Shape::of(&*self.schema)
    }

    fn prune(&self, object: &mut Map<String, Value>) -> Vec<String> {
        crd::unknown_fields(&self.schema, object)
    }

    /// Read anew each time: kept as trees, the schemas of a hundred definitions would outweigh the server.
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

/// The same object under another version: its name for it differs, and what it fills in.
struct Versioned {
    shown: String,
    stored: String,
    fill: Option<Arc<crd::Schema>>,
}

impl View for Versioned {
    fn shown(&self, stored: Map<String, Value>) -> Map<String, Value> {
        let mut object = renamed(stored, &self.shown);
        if let Some(schema) = &self.fill {
            crd::fill(schema, &mut object);
        }
        object
    }

    fn stored(&self, shown: Map<String, Value>) -> Map<String, Value> {
        renamed(shown, &self.stored)
    }
}

fn renamed(mut object: Map<String, Value>, api_version: &str) -> Map<String, Value> {
    object.insert("apiVersion".to_owned(), api_version.into());
    object
}

/// The columns a version names; one whose path makes no sense is left out.
fn printed(version: &Version) -> api::table::Custom {
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
