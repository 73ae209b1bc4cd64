//! Checks that decoder and encoder match k8s-pb and k8s-openapi: random objects of each kind are converted by k8s-pb,
//! decoded, and compared with the types of k8s-openapi.

mod fill;
mod kinds;

use std::collections::BTreeSet;

use api::schema::all;
use serde_json::Value;

use self::fill::Fill;
use self::kinds::Known;

/// Objects per kind.
const OBJECTS: usize = 24;

#[test]
fn every_kind_agrees() {
    let mut filled = BTreeSet::new();
    for known in kinds::all() {
        let of = all().kind_of(known.api_version, known.kind).unwrap();
        for seed in 0..OBJECTS {
            let mut fill = Fill::new(seed as u64);
            let (raw, expected) = fill.object(of);
            check(&known, &raw, &expected, seed);
            filled.extend(fill.filled);
        }
    }
    let missed: Vec<_> = (all().names().filter_map(|name| all().get(name)))
        .filter(|of| !of.name.ends_with("List") && !of.name.contains("JSONSchemaPropsOr"))
        .flat_map(|of| of.fields().iter().map(|field| (of.name, field)))
        .filter(|(_, field)| !field.numbers.is_empty())
        .map(|(of, field)| (of, field.name))
        .filter(|field| !filled.contains(field))
        .collect();
    assert!(missed.len() <= 10, "make more objects, these fields were in none: {missed:?}");
}

fn check(known: &Known, raw: &[u8], expected: &Value, seed: usize) {
    let what = || format!("{} {}, seed {seed}", known.api_version, known.kind);
    let theirs = (known.through_k8s_pb)(raw).unwrap_or_else(|error| panic!("{}: {error}", what()));
    for raw in [raw, &theirs] {
        let decoded = api::protobuf::decode(&fill::body(known.api_version, known.kind, raw))
            .unwrap_or_else(|error| panic!("{}: {error}", what()));
        assert_eq!(
            (&decoded["apiVersion"], &decoded["kind"]),
            (&known.api_version.into(), &known.kind.into())
        );
        let mut fields = decoded.clone();
        fields.as_object_mut().unwrap().retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
        assert_eq!(&fields, expected, "{}", what());
        let mut fitted = decoded.as_object().unwrap().clone();
        let faults = api::schema::normalize(&mut fitted, known.api_version, known.kind);
        assert_eq!(faults, [], "{}: what fits the types fits the table", what());
        check_encoder(known, &decoded, &what());
        let read = (known.through_k8s_openapi)(decoded.clone());
        let read = read.unwrap_or_else(|error| panic!("{}: {error}: {decoded:#}", what()));
        assert_holds(&read, &decoded, &what());
    }
}

/// Checks that k8s-pb and the decoder read the encoder's output.
fn check_encoder(known: &Known, object: &Value, what: &str) {
    let json = object.to_string();
    let message = api::protobuf::encode::message(known.api_version, known.kind, json.as_bytes());
    let message = message.unwrap_or_else(|error| panic!("{what}: {error}: {json}")).unwrap();
    let theirs = (known.through_k8s_pb)(&message).unwrap_or_else(|error| panic!("{what}: {error}"));
    for message in [&message, &theirs] {
        let read = api::protobuf::decode(&fill::body(known.api_version, known.kind, message)).unwrap();
        assert_eq!(read, *object, "{what}");
    }
}

/// Fails unless `whole` contains `part`.
fn assert_holds(whole: &Value, part: &Value, path: &str) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, part) in part {
                let path = format!("{path}.{name}");
                let Some(whole) = whole.get(name) else { panic!("{path} is lost") };
                assert_holds(whole, part, &path);
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            assert_eq!(whole.len(), part.len(), "{path}");
            for (index, (whole, part)) in whole.iter().zip(part).enumerate() {
                assert_holds(whole, part, &format!("{path}[{index}]"));
            }
        }
        (Value::Number(whole), Value::Number(part)) => assert_eq!(whole.as_f64(), part.as_f64(), "{path}"),
        _ => assert_eq!(whole, part, "{path}"),
    }
}

#[test]
fn protobuf_covers_every_kind() {
    let known: BTreeSet<_> = kinds::all().into_iter().map(|known| (known.api_version, known.kind)).collect();
    let forgotten: Vec<_> = all()
        .kinds()
        .map(|(api_version, kind, _)| (api_version, kind))
        // All lists are alike, so two are tested. This kind is newer than k8s-pb.
        .filter(|(_, kind)| !kind.ends_with("List") && *kind != "DeviceTaintRule")
        .filter(|kind| !known.contains(kind))
        .collect();
    assert_eq!(forgotten, Vec::new());
}

#[test]
fn protobuf_decoder_never_panics() {
    let mut rng = fastrand::Rng::with_seed(1);
    for seed in 0..400 {
        let mut fill = Fill::new(seed);
        let kinds = ["Pod", "Node", "Secret", "Service"];
        let kind = kinds[rng.usize(..kinds.len())];
        let (mut raw, _) = fill.object(all().kind_of("v1", kind).unwrap());
        for _ in 0..rng.usize(1..6) {
            let Some(at) = (!raw.is_empty()).then(|| rng.usize(..raw.len())) else { break };
            match rng.u8(..3) {
                0 => raw[at] = rng.u8(..),
                1 => raw.truncate(at),
                _ => raw.insert(at, rng.u8(..)),
            }
        }
        // A list is also decoded as other kinds.
        for kind in ["Pod", "PodList", "Event"] {
            let _ = api::protobuf::decode(&fill::body("v1", kind, &raw)).map_err(|error| error.to_string());
        }
        let mut body = fill::body("v1", kind, &raw);
        let at = rng.usize(..body.len());
        body[at] = rng.u8(..);
        let _ = api::protobuf::decode(&body).map_err(|error| error.to_string());
    }
}

/// Decodes and encodes bytes with a message type.
fn through<M: prost::Message + Default>(raw: &[u8]) -> Result<Vec<u8>, prost::DecodeError> {
    M::decode(raw).map(|message| message.encode_to_vec())
}
