//! Endpoints objects that are created, kept and repaired.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

fn service(spec: &Value) -> objects::service::Service {
    let service = json!({
        "metadata": {"name": "web", "namespace": "shop", "labels": {"tier": "one"}},
        "spec": {"selector": {"app": "web"}, "clusterIP": spec["clusterIP"], "ports": [{"port": 80, "protocol": "TCP"}]},
    });
    serde_json::from_value(service).unwrap()
}

fn pods(count: usize) -> Vec<objects::Pod> {
    let pod = |number: usize| {
        let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
        let status = json!({"podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": "True"}]});
        serde_json::from_value(json!({"metadata": {"name": number.to_string()}, "status": status})).unwrap()
    };
    (0..count).map(pod).collect()
}

fn planned(found: Option<Json>, spec: &Value, count: usize) -> Plan {
    let object = service(spec);
    plan(found, &Service::of(&object).unwrap(), &object.metadata.labels, &pods(count))
}

fn ignore_existing(spec: &Value, count: usize) -> Json {
    match planned(None, spec, count) {
        Plan::Create(made) => made.as_object().unwrap().clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn endpoints_that_are_current_are_not_written() {
    let (plain, headless) = (json!({"clusterIP": "10.96.0.9"}), json!({"clusterIP": "None"}));
    for spec in [&plain, &headless] {
        for count in [0, 1, 3, 1001] {
            assert_eq!(
                planned(Some(ignore_existing(spec, count)), spec, count),
                Plan::Nothing,
                "{spec} {count}"
            );
        }
    }
    assert_eq!(ignore_existing(&plain, 1)["metadata"]["labels"], json!({"tier": "one", MANAGED_BY: MANAGER}));
    assert_eq!(ignore_existing(&headless, 1)["metadata"]["labels"][HEADLESS], "");
    assert_eq!(ignore_existing(&plain, 1001)["metadata"]["annotations"], json!({OVER_CAPACITY: TRUNCATED}));
    assert!(!ignore_existing(&plain, 0).contains_key("subsets"));
}

#[test]
fn endpoints_are_repaired_and_other_annotations_stay() {
    let spec = json!({"clusterIP": "10.96.0.9"});
    for (before, now) in [(0, 2), (2, 0), (2, 3), (1001, 2), (2, 1001)] {
        let mut found = ignore_existing(&spec, before);
        found["metadata"]["resourceVersion"] = "7".into();
        found["metadata"]["annotations"]["noted"] = "by somebody".into();
        let Plan::Update(object) = planned(Some(found), &spec, now) else { panic!("{before} {now}") };
        let mut wanted = ignore_existing(&spec, now);
        assert_eq!(object.get("subsets"), wanted.get("subsets"));
        wanted["metadata"]["annotations"]["noted"] = "by somebody".into();
        assert_eq!(object["metadata"]["annotations"], wanted["metadata"]["annotations"]);
        assert_eq!(object["metadata"]["resourceVersion"], "7", "whoever came before is not overwritten");
    }
}
