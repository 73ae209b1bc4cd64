//! Subsets of Endpoints, and their limit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

fn service(spec: &Value) -> Service {
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "w", "port": 80, "targetPort": "http"}, {"name": "m", "port": 9090}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    Service::of(&serde_json::from_value(service).unwrap()).unwrap()
}

/// A numbered pod: whether it is ready, whether it is terminating, and its port.
fn pod(number: usize, ready: bool, ends: bool, port: u64) -> objects::Pod {
    let ip = format!("10.{}.{}.{}", 1 + number / 65536, number / 256 % 256, number % 256);
    let mut pod = json!({
        "metadata": {"name": format!("p{number}"), "namespace": "shop", "uid": number.to_string()},
        "spec": {"containers": [{"ports": [{"name": "http", "containerPort": port}]}]},
        "status": {"podIPs": [{"ip": ip}, {"ip": "fd00::1"}], "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    });
    if ends {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    serde_json::from_value(pod).unwrap()
}

/// For each subset: the first port, the ready and the unready addresses.
fn shape(spec: Value, pods: &[objects::Pod]) -> (Vec<(u64, usize, usize)>, bool) {
    let (subsets, is_cut) = subsets(&service(&spec), pods);
    let count = |subset: &Value, field: &str| subset[field].as_array().map_or(0, Vec::len);
    let port = |subset: &Value| {
        let ports = subset["ports"].as_array().cloned().unwrap_or_default();
        ports.iter().find(|port| port["name"] != "m").map_or(0, |port| port["port"].as_u64().unwrap())
    };
    let shape = subsets.iter().map(|it| (port(it), count(it, "addresses"), count(it, "notReadyAddresses")));
    (shape.collect(), is_cut)
}

#[test]
fn pods_with_the_same_ports_share_a_subset() {
    let pods = [
        pod(1, true, false, 80),
        pod(2, false, false, 80),
        pod(3, true, false, 81),
        pod(4, true, true, 80),
        pod(5, false, true, 80),
    ];
    for (spec, expected) in [
        (json!({}), vec![(80, 1, 1), (81, 1, 0)]),
        (json!({"publishNotReadyAddresses": true}), vec![(80, 4, 0), (81, 1, 0)]),
        (json!({"ports": [{"port": 80, "targetPort": "none"}]}), vec![]),
        (json!({"ports": []}), vec![]),
        (json!({"ports": [], "clusterIP": "None"}), vec![(0, 2, 1)]),
        (json!({"ports": [{"port": 7}]}), vec![(7, 2, 1)]),
        (json!({"ports": [{"port": 7}], "ipFamilies": ["IPv6"]}), vec![(7, 2, 1)]),
    ] {
        assert_eq!(shape(spec.clone(), &pods), (expected, false), "{spec}");
    }
}

#[test]
fn an_address_is_that_of_the_stock_controller() {
    let (told, _) = subsets(&service(&json!({"ports": [{"port": 80}]})), &[pod(1, true, false, 80)]);
    let reference = json!({"kind": "Pod", "namespace": "shop", "name": "p1", "uid": "1"});
    let expected = json!([{
        "addresses": [{"ip": "10.1.0.1", "targetRef": reference}],
        "ports": [{"port": 80, "protocol": "TCP"}],
    }]);
    assert_eq!(Value::from(told), expected);
}

#[test]
fn ready_addresses_come_first_and_every_subset_keeps_its_share() {
    let pods = |ready: [usize; 2], waiting: [usize; 2]| -> Vec<objects::Pod> {
        let kinds =
            [(80, true, ready[0]), (81, true, ready[1]), (80, false, waiting[0]), (81, false, waiting[1])];
        let each = kinds.iter().flat_map(|(port, ready, count)| (0..*count).map(|_| (*port, *ready)));
        each.enumerate().map(|(number, (port, ready))| pod(number + 1, ready, false, port)).collect()
    };
    for (ready, waiting, expected, cut) in [
        ([600, 400], [0, 0], vec![(80, 600, 0), (81, 400, 0)], false),
        ([600, 400], [1, 0], vec![(80, 600, 0), (81, 400, 0)], true),
        ([900, 600], [5, 5], vec![(80, 600, 0), (81, 400, 0)], true),
        ([500, 0], [300, 700], vec![(80, 500, 150), (81, 0, 350)], true),
        ([1, 0], [3, 1500], vec![(80, 1, 2), (81, 0, 997)], true),
    ] {
        assert_eq!(shape(json!({}), &pods(ready, waiting)), (expected, cut), "{ready:?} {waiting:?}");
    }
}
