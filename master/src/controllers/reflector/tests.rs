//! Objects that cannot be decoded.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use serde_json::json;

use super::*;

#[test]
fn an_undecodable_object_is_left_out_and_the_others_are_kept() {
    let kind = Arc::new(Kind::POD);
    let store = InformerStore::new(SharedInformers::default(), kind);
    let seed = Decoder { store: &store, kind: "Pod" };
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

#[tokio::test]
async fn a_list_with_an_undecodable_object_fills_the_cache_with_the_others() {
    let pod = |name: &str, phase: serde_json::Value| json!({"metadata": {"name": name, "namespace": "n"}, "status": {"phase": phase}});
    let items = [pod("a", json!("Running")), pod("b", json!(7)), pod("c", json!("Failed"))];
    let page = json!({"metadata": {"resourceVersion": "9"}, "items": items});
    let answer = move || {
        let page = page.clone();
        async move { axum::Json(page) }
    };
    let client = Client::in_process(axum::Router::new().fallback(answer));
    let (kind, informers) = (Arc::new(Kind::POD), SharedInformers::default());
    informers.register(&kind);
    let store = InformerStore::new(informers.clone(), kind.clone());
    let reflector = tokio::spawn(run_reflector(client, kind, store, ProblemReporter::default()));
    informers.wait_for_sync().await;
    reflector.abort();
    let names: Vec<String> = informers.list(&Kind::POD, "n").iter().map(|pod| pod.name.clone()).collect();
    assert_eq!(names, ["a", "c"]);
}
