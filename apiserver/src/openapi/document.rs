//! Whole documents: paths and schemas of one group and version, or of all of them.

use api::schema::all;
use serde_json::{Map, Value, json};

use super::Described;
use super::custom::{self, Custom};
use super::paths::{self, Objects, Paths, References};
use super::schema::{Dialect, Schemas, group_version_kind};

/// The document of one group and version in OpenAPI 3.0; the rows are those of that group and version.
pub(super) fn v3(rows: &[Described], version: &str) -> Value {
    let (paths, schemas) = parts(rows, Dialect::V3);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The document of everything in Swagger 2.0.
pub(super) fn v2(rows: &[Described], version: &str) -> Value {
    let (paths, schemas) = parts(rows, Dialect::V2);
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "definitions": schemas,
    })
}

fn parts(rows: &[Described], dialect: Dialect) -> (Map<String, Value>, Map<String, Value>) {
    let mut groups: Vec<String> = rows.iter().map(|row| row.resource.api_version()).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut schemas = Schemas::new(dialect, groups);
    let mut documents = Map::new();
    for row in rows {
        let references = references(row, &mut schemas, dialect);
        let paths = Paths { resource: &row.resource, references: &references, dialect };
        documents.extend(paths.main());
        for part in row.resource.subresources {
            let (api_version, kind) = paths::home(part, &row.resource);
            let objects = if kind == row.resource.kind && part.name != "log" {
                references.objects.clone()
            } else {
                let one = all().kind_of(&api_version, &kind).filter(|_| part.name != "log");
                let one = one.map(|of| schemas.refer(of.name));
                Objects { one, kind: group_version_kind(&api_version, &kind) }
            };
            let (path, document) = paths.part(part, &objects);
            documents.insert(path, document);
        }
    }
    documents.sort_keys();
    (documents, schemas.finish())
}

fn references(row: &Described, schemas: &mut Schemas, dialect: Dialect) -> References {
    let api_version = row.resource.api_version();
    let kind = row.resource.kind;
    let (one, list) = match &row.schema {
        Some(schema) => {
            let metadata = schemas.refer("meta.v1.ObjectMeta");
            let list_metadata = schemas.refer("meta.v1.ListMeta");
            let custom = Custom { resource: &row.resource, dialect };
            let one = schemas.add(&custom.name(""), custom.object(schema, metadata));
            let list = schemas.add(&custom.name("List"), custom.list(&one, list_metadata));
            (one, list)
        }
        None => {
            let mut refer = |kind: &str| match all().kind_of(&api_version, kind) {
                Some(of) => schemas.refer(of.name),
                None => custom::anything(),
            };
            (refer(kind), refer(&format!("{kind}List")))
        }
    };
    References {
        objects: Objects { one: Some(one), kind: group_version_kind(&api_version, kind) },
        list,
        delete_options: schemas.refer("meta.v1.DeleteOptions"),
        status: schemas.refer("meta.v1.Status"),
        built_in: row.schema.is_none(),
    }
}
