//! Decodes gnostic protobuf by its field numbers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::json;

use super::encode;

/// A message field.
#[derive(Clone, Debug, PartialEq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number without end")
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (inner, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(inner)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

/// All values at a path of field numbers, as text.
fn found(bytes: &[u8], path: &[u64]) -> Vec<String> {
    let (number, rest) = path.split_first().unwrap();
    let of_number = fields(bytes).into_iter().filter(|(found, _)| found == number);
    let values = of_number.flat_map(|(_, field)| match field {
        Field::Number(value) => vec![value.to_string()],
        Field::Bytes(inner) if rest.is_empty() => vec![String::from_utf8(inner.to_vec()).unwrap()],
        Field::Bytes(inner) => found(inner, rest),
    });
    values.collect()
}

#[test]
fn gnostic_fields_have_their_protobuf_numbers() {
    let schema = json!({
        "type": "object",
        "description": "A ship.",
        "required": ["name", "crew"],
        "properties": {
            "name": {"type": "string", "format": "x", "default": "Argo"},
            "crew": {"type": "array", "items": {"$ref": "#/definitions/Sailor"}},
            "flags": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "any": {"additionalProperties": true},
        },
        "x-kubernetes-group-version-kind": [{"group": "sea", "kind": "Ship", "version": "v1"}],
    });
    let patch = json!({
        "operationId": "patchShip",
        "consumes": ["a/b", "c/d"],
        "parameters": [
            {"in": "body", "name": "body", "required": true, "schema": {"type": "object"}},
            {"in": "query", "name": "dryRun", "type": "string", "uniqueItems": true},
        ],
        "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/Ship"}}},
        "x-kubernetes-action": "patch",
    });
    let parameters = json!([{"in": "path", "name": "name", "required": true, "type": "string"}]);
    let document = json!({
        "swagger": "2.0",
        "info": {"title": "Sea", "version": "v1"},
        "paths": {"/ships/{name}": {"patch": patch, "parameters": parameters}},
        "definitions": {"Ship": schema},
    });
    let bytes = encode(&document);
    let kind = "[{\"group\":\"sea\",\"kind\":\"Ship\",\"version\":\"v1\"}]";
    let schema = [9, 1, 2];
    let patch = [8, 2, 2, 8];
    let table: [(&[&[u64]], &[&str]); 24] = [
        (&[&[1]], &["2.0"]),
        (&[&[2, 1]], &["Sea"]),
        (&[&[9, 1, 1]], &["Ship"]),
        (&[&schema, &[22, 1]], &["object"]),
        (&[&schema, &[4]], &["A ship."]),
        (&[&schema, &[19]], &["name", "crew"]),
        (&[&schema, &[25, 1, 1]], &["name", "crew", "flags", "any"]),
        (&[&schema, &[25, 1, 2, 2]], &["x"]),
        (&[&schema, &[25, 1, 2, 5, 2]], &["\"Argo\""]),
        (&[&schema, &[25, 1, 2, 23, 1, 1]], &["#/definitions/Sailor"]),
        (&[&schema, &[25, 1, 2, 21, 1, 22, 1]], &["boolean"]),
        (&[&schema, &[25, 1, 2, 21, 2]], &["1"]),
        (&[&schema, &[31, 1]], &["x-kubernetes-group-version-kind"]),
        (&[&schema, &[31, 2, 2]], &[kind]),
        (&[&[8, 2, 1]], &["/ships/{name}"]),
        (&[&patch, &[5]], &["patchShip"]),
        (&[&patch, &[7]], &["a/b", "c/d"]),
        (&[&patch, &[8, 1, 1, 2]], &["body"]),
        (&[&patch, &[8, 1, 1, 4]], &["1"]),
        (&[&patch, &[8, 1, 2, 3, 4]], &["dryRun"]),
        (&[&patch, &[9, 1, 2, 1, 2, 1, 1]], &["#/definitions/Ship"]),
        (&[&patch, &[13, 2, 2]], &["\"patch\""]),
        (&[&[8, 2, 2, 9, 1, 2, 4, 4]], &["name"]),
        (&[&[8, 2, 2, 9, 1, 2, 4, 1]], &["1"]),
    ];
    for (path, expected) in table {
        assert_eq!(found(&bytes, &path.concat()), expected, "{path:?}");
    }
}
