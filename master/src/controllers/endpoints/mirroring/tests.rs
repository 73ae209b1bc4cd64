//! Endpoints objects of users, and their mirrored slices.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

fn planned(endpoints: Option<&Value>, service: Option<&Value>, found: Vec<Slice>) -> Changes {
    let endpoints = endpoints.map(|endpoints| Endpoints::deserialize(endpoints).unwrap());
    let service = service.map(|service| Service::deserialize(service).unwrap());
    plan(endpoints.as_ref(), service.as_ref(), found)
}

fn endpoints() -> Value {
    json!({
        "metadata": {"name": "db", "namespace": "shop", "uid": "1", "labels": {"tier": "one"}, "annotations": {"a": "b", NOT_MIRRORED[0]: "x", NOT_MIRRORED[1]: "y"}},
        "subsets": [
            {"addresses": [{"ip": "192.0.2.1", "hostname": "one"}, {"ip": "fd00:0::1"}, {"ip": "none"}], "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}]},
            {"notReadyAddresses": [{"ip": "192.0.2.2", "nodeName": "n1"}], "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}]},
            {"addresses": [{"ip": "192.0.2.3"}], "ports": [{"name": "sql", "port": 5433, "protocol": "TCP"}]},
        ],
    })
}

fn service() -> Value {
    json!({"metadata": {"name": "db"}, "spec": {"ports": [{"port": 5432}]}})
}

#[test]
fn every_subset_of_a_family_is_a_slice() {
    let changes = planned(Some(&endpoints()), Some(&service()), Vec::new());
    assert!(changes.update.is_empty() && changes.delete.is_empty());
    let told = |slice: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let all = slice["endpoints"].as_array().unwrap().iter();
        let ips = all.map(|it| (text(&it["addresses"][0]), it["conditions"]["ready"] == true));
        let ips: Vec<(String, bool)> = ips.collect();
        (text(&slice["addressType"]), slice["ports"][0]["port"].clone(), ips)
    };
    let own = |ip: &str, ready: bool| (ip.to_owned(), ready);
    let all: Vec<_> = changes.create.iter().map(told).collect();
    assert_eq!(
        all,
        [
            ("IPv4".to_owned(), json!(5432), vec![own("192.0.2.1", true), own("192.0.2.2", false)]),
            ("IPv4".to_owned(), json!(5433), vec![own("192.0.2.3", true)]),
            ("IPv6".to_owned(), json!(5432), vec![own("fd00::1", true)]),
        ]
    );
    let first = &changes.create[0];
    assert_eq!(first["metadata"]["labels"], json!({"tier": "one", SERVICE_NAME: "db", MANAGED_BY: MANAGER}));
    assert_eq!(first["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "Endpoints");
    assert_eq!(first["endpoints"][0]["hostname"], "one");
    assert_eq!(first["endpoints"][1]["nodeName"], "n1");
}

#[test]
fn slices_of_endpoints_that_are_not_mirrored_are_deleted() {
    let slice = json!({"metadata": {"name": "db-x"}, "addressType": "IPv4"});
    let found = || vec![Slice::read(slice.as_object().unwrap().clone()).unwrap()];
    let changed = |mut object: Value, path: &str, field: &str, value: Value| {
        object.pointer_mut(path).unwrap()[field] = value;
        object
    };
    let (endpoints, service) = (endpoints(), service());
    for (endpoints, service) in [
        (None, Some(service.clone())),
        (Some(endpoints.clone()), None),
        (Some(endpoints.clone()), Some(changed(service.clone(), "/spec", "selector", json!({"a": "b"})))),
        (
            Some(changed(endpoints.clone(), "/metadata/labels", SKIP_MIRROR_LABEL, json!("true"))),
            Some(service.clone()),
        ),
        (
            Some(changed(endpoints.clone(), "/metadata/annotations", LEADER_ANNOTATION, json!("{}"))),
            Some(service.clone()),
        ),
        (Some(changed(endpoints, "", "subsets", json!([]))), Some(service)),
    ] {
        let changes = planned(endpoints.as_ref(), service.as_ref(), found());
        assert_eq!(changes, Changes { delete: found(), ..Changes::default() });
    }
}
