//! Endpoints of services and pods.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A service with a selector and these fields.
fn service(spec: Value) -> Service {
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    Service::of(&serde_json::from_value(service).unwrap()).unwrap()
}

/// A ready pod with a change.
fn pod(change: impl Fn(&mut Value)) -> objects::Pod {
    serde_json::from_value(changed_pod(change)).unwrap()
}

fn changed_pod(change: impl Fn(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
        "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "http", "containerPort": 8081}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]}]},
        "status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}], "conditions": [{"type": "Ready", "status": "True"}]},
    });
    change(&mut pod);
    pod
}

fn zone(node: &str) -> String {
    if node == "n1" { "east".to_owned() } else { String::new() }
}

/// The only endpoint of a service with one pod.
fn endpoint(spec: Value, change: impl Fn(&mut Value)) -> Value {
    let groups = groups(&service(spec), &[pod(change)], zone);
    assert_eq!((groups.len(), groups[0].endpoints.len()), (1, 1), "{groups:?}");
    groups[0].endpoints[0].clone()
}

#[test]
fn the_endpoint_of_a_pod_is_that_of_the_stock_controller() {
    let whole = endpoint(json!({}), |_| {});
    assert_eq!(
        whole,
        json!({
            "addresses": ["10.1.0.1"], "nodeName": "n1", "zone": "east",
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": "a", "uid": "1"},
        })
    );
    let unready = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = "False".into();
    let ending = |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let both = |pod: &mut Value| [unready, ending].iter().for_each(|change| change(pod));
    let all = json!({"publishNotReadyAddresses": true});
    type Change<'a> = &'a dyn Fn(&mut Value);
    for (spec, change, conditions) in [
        (json!({}), &unready as Change<'_>, [false, false, false]),
        (json!({}), &ending, [false, true, true]),
        (json!({}), &both, [false, false, true]),
        (all.clone(), &unready, [true, false, false]),
        (all, &both, [true, false, true]),
    ] {
        let told = &endpoint(spec, change)["conditions"];
        assert_eq!(["ready", "serving", "terminating"].map(|name| told[name] == true), conditions);
    }
    let named = |pod: &mut Value| {
        pod["spec"]["hostname"] = "first".into();
        pod["spec"]["subdomain"] = "web".into();
    };
    assert_eq!(endpoint(json!({}), named)["hostname"], "first");
    let elsewhere = |pod: &mut Value| {
        named(pod);
        pod["spec"]["subdomain"] = "other".into();
    };
    assert_eq!(endpoint(json!({}), elsewhere)["hostname"], Value::Null);
}

#[test]
fn traffic_distribution_sets_zone_hints() {
    let (zones, nodes) = (json!([{"name": "east"}]), json!([{"name": "n1"}]));
    for (traffic_distribution, hints) in [
        ("PreferClose", json!({"forZones": zones})),
        ("PreferSameZone", json!({"forZones": zones})),
        ("PreferSameNode", json!({"forZones": zones, "forNodes": nodes})),
        ("", Value::Null),
    ] {
        assert_eq!(
            endpoint(json!({"trafficDistribution": traffic_distribution}), |_| {})["hints"],
            hints,
            "{traffic_distribution}"
        );
    }
    let far = |pod: &mut Value| pod["spec"]["nodeName"] = "n2".into();
    let told = endpoint(json!({"trafficDistribution": "PreferSameZone"}), far);
    assert_eq!(
        (&told["hints"], &told["zone"]),
        (&Value::Null, &Value::Null),
        "the zone of that node is not known"
    );
}

#[test]
fn a_terminated_pod_and_one_without_address_has_no_endpoint() {
    for (path, value) in [
        ("/status/phase", json!("Succeeded")),
        ("/status/phase", json!("Failed")),
        ("/status/podIPs", json!([{"ip": "127.0.0.1"}])),
        ("/status/podIPs", json!([{"ip": "none"}])),
        ("/status/podIPs", json!([{"ip": "fd00::1"}])),
    ] {
        let pod = pod(|pod| *pod.pointer_mut(path).unwrap() = value.clone());
        let groups = groups(&service(json!({})), &[pod], zone);
        assert!(
            groups.iter().all(|group| group.endpoints.is_empty() && group.ports.is_empty()),
            "{value}: {groups:?}"
        );
        assert_eq!(groups.len(), 1, "clients see that there is none");
    }
}

#[test]
fn target_ports_are_resolved_to_container_ports() {
    let ports = |ports: Value, change: &dyn Fn(&mut Value)| -> Vec<Value> {
        let groups = groups(&service(json!({"ports": ports})), &[pod(change)], zone);
        groups[0].ports.iter().map(Port::json).collect()
    };
    let as_it_is: &dyn Fn(&mut Value) = &|_| {};
    for (given, told) in [
        (json!([{"port": 80, "targetPort": 8080}]), json!([{"name": "", "protocol": "TCP", "port": 8080}])),
        (json!([{"port": 80}]), json!([{"name": "", "protocol": "TCP", "port": 80}])),
        (
            json!([{"name": "w", "port": 80, "targetPort": "http", "appProtocol": "h2c"}]),
            json!([{"name": "w", "protocol": "TCP", "port": 8081, "appProtocol": "h2c"}]),
        ),
        (
            json!([{"port": 53, "targetPort": "dns", "protocol": "UDP"}]),
            json!([{"name": "", "protocol": "UDP", "port": 53}]),
        ),
        (json!([{"port": 53, "targetPort": "dns", "protocol": "TCP"}]), json!([])),
    ] {
        assert_eq!(Value::from(ports(given.clone(), as_it_is)), told, "{given}");
    }
    let side = |policy: &'static str| {
        move |pod: &mut Value| {
            pod["spec"]["initContainers"] =
                json!([{"restartPolicy": policy, "ports": [{"name": "side", "containerPort": 9}]}]);
        }
    };
    let by_name = json!([{"port": 80, "targetPort": "side"}]);
    assert_eq!(ports(by_name.clone(), &side("Always"))[0]["port"], 9);
    assert!(ports(by_name, &side("Never")).is_empty());
}

#[test]
fn each_family_and_set_of_ports_is_a_group() {
    let both = |pod: &mut Value| pod["status"]["podIPs"] = json!([{"ip": "10.1.0.1"}, {"ip": "fd00:0:0::1"}]);
    let other = |pod: &mut Value| {
        pod["metadata"]["name"] = "b".into();
        pod["status"]["podIPs"] = json!([{"ip": "10.1.0.2"}]);
        pod["spec"]["containers"][0]["ports"][0]["containerPort"] = 9000.into();
    };
    let spec = json!({"ipFamilies": ["IPv4", "IPv6"], "ports": [{"port": 80, "targetPort": "http"}]});
    let shape = |spec: Value, pods: &[objects::Pod]| -> Vec<(Family, Option<u64>, Vec<String>)> {
        let groups = groups(&service(spec), pods, zone);
        let ip = |endpoint: &Value| endpoint["addresses"][0].as_str().unwrap().to_owned();
        let shape = groups.iter().map(|group| {
            let port = group.ports.first().and_then(|port| port.number);
            (group.family, port, group.endpoints.iter().map(ip).collect())
        });
        shape.collect()
    };
    let own = |ip: &str| vec![ip.to_owned()];
    assert_eq!(
        shape(spec.clone(), &[pod(both), pod(other)]),
        [
            (Family::V4, Some(8081), own("10.1.0.1")),
            (Family::V4, Some(9000), own("10.1.0.2")),
            (Family::V6, Some(8081), own("fd00::1")),
        ]
    );
    assert_eq!(
        shape(spec, &[pod(other)]),
        [(Family::V4, Some(9000), own("10.1.0.2")), (Family::V6, None, Vec::new())]
    );
    // If the service has no IP families, the pods' families are used.
    let open = json!({"ipFamilies": [], "clusterIP": "None", "ports": []});
    let families = |pods: &[objects::Pod]| {
        shape(open.clone(), pods).iter().map(|(family, ..)| *family).collect::<Vec<_>>()
    };
    assert_eq!(families(&[]), [Family::V4]);
    assert_eq!(families(&[pod(both)]), [Family::V4, Family::V6]);
}

#[test]
fn a_service_without_a_selector_is_ignored() {
    for spec in [json!({}), json!({"selector": {}}), json!({"selector": {"a": "b"}, "type": "ExternalName"})]
    {
        let service = serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
        assert!(Service::of(&service).is_none());
    }
}

#[test]
fn slices_copy_the_labels_of_their_service_except_reserved_ones() {
    let labels = json!({"a": "b", MANAGED_BY: "me", HEADLESS: "x"});
    let object = serde_json::from_value(json!({"name": "web", "uid": "7", "labels": labels})).unwrap();
    let labels = |spec: Value| json!(head(&service(spec), &object).labels);
    let whole = json!({"a": "b", SERVICE_NAME: "web", MANAGED_BY: MANAGER});
    assert_eq!(labels(json!({})), whole);
    let mut headless = whole;
    headless[HEADLESS] = "".into();
    assert_eq!(labels(json!({"clusterIP": "None"})), headless);
    assert_eq!(&*head(&service(json!({})), &object).owner.uid, "7");
}

proptest! {
    #[test]
    fn odd_pods_and_services_cause_no_panic(field in "(spec|status|metadata)", name in "(podIPs|conditions|containers|hostname|uid)", value in "(1|\"x\"|\\[\\]|\\[1\\]|\\[\\{\"ip\":1\\}\\]|\\{\\}|null)") {
        let value: Value = serde_json::from_str(&value).unwrap();
        let odd = changed_pod(|pod| pod[&field][&name] = value.clone());
        if let Ok(odd) = serde_json::from_value(odd) {
            let _ = groups(&service(json!({"ports": [{"port": 1, "targetPort": "http"}]})), &[odd], zone);
        }
        let odd = json!({"spec": {"selector": {"a": "b"}, "ports": value, "ipFamilies": value}});
        let _ = serde_json::from_value(odd).map(|odd| Service::of(&odd));
    }
}
