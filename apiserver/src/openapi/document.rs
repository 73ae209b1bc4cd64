//! Generates the OpenAPI document of one group version, or of all.

use std::sync::Arc;

use api::schema::all;
use serde_json::{Map, Value, json};

use super::custom::{self, Custom, Envelope};
use super::paths::{Objects, Paths, References};
use super::schema::{Dialect, Schemas, group_version_kind};
use crate::resource::{Part, Resource};

/// The OpenAPI 3.0 document of one group version.
pub(super) fn v3(rows: &[Arc<Resource>], version: &str) -> Value {
    let (paths, schemas) = parts(rows, Dialect::V3);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The Swagger 2.0 document of all resources.
pub(super) fn v2(rows: &[Arc<Resource>], version: &str) -> Value {
    let (paths, schemas) = parts(rows, Dialect::V2);
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "definitions": schemas,
    })
}

fn parts(rows: &[Arc<Resource>], dialect: Dialect) -> (Map<String, Value>, Map<String, Value>) {
    let mut groups: Vec<String> = rows.iter().map(|row| row.api_version().to_owned()).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut schemas = Schemas::new(dialect, groups);
    let mut documents = Map::new();
    for row in rows {
        let references = references(row, &mut schemas, dialect);
        let paths = Paths { resource: row, references: &references, dialect };
        documents.extend(paths.main());
        for part in &row.subresources {
            if matches!(part.part, Part::Stream) {
                documents.extend(paths.stream(part));
                continue;
            }
            let objects = match part.kind {
                Some((group, version, kind)) => {
                    let api_version = api_version(group, version);
                    let one = all().kind_of(&api_version, kind).map(|of| schemas.refer(of.name));
                    Objects { one, kind: group_version_kind(&api_version, kind) }
                }
                None => references.objects.clone(),
            };
            let (path, document) = paths.part(part, &objects);
            documents.insert(path, document);
        }
    }
    documents.sort_keys();
    (documents, schemas.finish())
}

fn references(row: &Resource, schemas: &mut Schemas, dialect: Dialect) -> References {
    let api_version = row.api_version();
    let (one, list) = match &row.schema {
        Some(schema) => {
            let metadata = schemas.refer("meta.v1.ObjectMeta");
            let list_metadata = schemas.refer("meta.v1.ListMeta");
            let custom = Custom { resource: row, dialect };
            let envelope = Envelope {
                api_version: schemas.description("core.v1.Pod", "apiVersion"),
                kind: schemas.description("core.v1.Pod", "kind"),
                metadata: schemas.description("core.v1.Pod", "metadata"),
            };
            let own = schema.json();
            let object = custom.object(own.as_deref(), metadata, &envelope);
            let one = schemas.add(&custom.name(&row.kind), object);
            let list = custom.list(&one, list_metadata, &envelope);
            let list = schemas.add(&custom.name(&row.list_kind), list);
            (one, list)
        }
        None => {
            let mut refer = |kind: &str| match all().kind_of(api_version, kind) {
                Some(of) => schemas.refer(of.name),
                None => custom::anything(),
            };
            (refer(&row.kind), refer(&row.list_kind))
        }
    };
    References {
        objects: Objects { one: Some(one), kind: group_version_kind(api_version, &row.kind) },
        list,
        // Reviews cannot be deleted; without a reference the schema is not included.
        delete_options: match row.verbs.contains(&"delete") {
            true => schemas.refer("meta.v1.DeleteOptions"),
            false => Value::Null,
        },
        status: schemas.refer("meta.v1.Status"),
        built_in: row.schema.is_none(),
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
