//! Objects that cannot be decoded.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use serde_json::json;

use super::*;

#[test]
fn an_undecodable_object_is_left_out_and_the_others_are_kept() {
    let kind = Arc::new(Kind::POD);
    let (store, problems) =
        (InformerStore::new(SharedInformers::default(), kind), ProblemReporter::default());
    let seed = Decoder { store: &store, resource: "pods", problems: &problems };
    let decode = |object: serde_json::Value| {
        let text = object.to_string();
        let decoded = seed.deserialize(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        (decoded.resource_version, decoded.object.map(|object| object.name))
    };
    let metadata = json!({"name": "a", "namespace": "n", "resourceVersion": "7"});
    for (object, expected) in [
        (json!({"metadata": metadata, "status": {"phase": "Running"}}), ("7", Some("a"))),
        (json!({"metadata": metadata, "status": {"phase": 7}}), ("7", None)),
        (json!({"metadata": metadata, "spec": [true]}), ("7", None)),
        (json!({"metadata": {"name": "a", "resourceVersion": 7}}), ("", None)),
        (json!("a"), ("", None)),
    ] {
        let (version, name) = decode(object.clone());
        assert_eq!((version.as_str(), name.as_deref()), expected, "{object}");
    }
}
