//! Pod admission.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use api::quantity::Quantity;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde_json::{Value, json};

use super::{Admission, Decision, Node, matches_node_affinity};
use crate::desired::{Desired, DesiredPod, SourceKind};
use crate::observed::PodUid;
use crate::spec::Facts;

/// A pod `name` with these fields in its container; fields under `spec.` belong to the pod.
fn pod(name: &str, fields: Value) -> Arc<DesiredPod> {
    let mut container = json!({"name": "main", "image": "x"});
    let mut spec = json!({});
    for (key, value) in fields.as_object().unwrap() {
        match key.strip_prefix("spec.") {
            Some(key) => spec[key] = value.clone(),
            None => container[key] = value.clone(),
        }
    }
    spec["containers"] = json!([container]);
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    Arc::new(DesiredPod { uid: PodUid::new(name), pod: Arc::new(pod), source: SourceKind::File })
}

fn port(name: &str, port: u16) -> Arc<DesiredPod> {
    pod(name, json!({"ports": [{"containerPort": 80, "hostPort": port}]}))
}

fn cpu(name: &str, cpu: &str) -> Arc<DesiredPod> {
    pod(name, json!({"resources": {"requests": {"cpu": cpu}}}))
}

fn desired(pods: &[Arc<DesiredPod>]) -> Desired {
    Desired {
        pods: pods.iter().map(|pod| (pod.uid.clone(), pod.clone())).collect(),
        order: pods.iter().map(|pod| pod.uid.clone()).collect(),
        ..Desired::default()
    }
}

fn node() -> Node {
    let amount = |text: &str| {
        Quantity::of(&k8s_openapi::apimachinery::pkg::api::resource::Quantity(text.to_owned())).unwrap()
    };
    Node {
        labels: Some([("zone".to_owned(), "a".to_owned()), ("cores".to_owned(), "4".to_owned())].into()),
        max_pods: Some(3),
        allocatable: [("cpu".to_owned(), amount("2")), ("memory".to_owned(), amount("1Gi"))].into(),
        extended: [("example.com/dongle".to_owned(), amount("4"))].into(),
        facts: Arc::new(Facts { app_armor: Some(false), ..Facts::default() }),
        pressures: Vec::new(),
    }
}

/// Admitted pods, and rejected pods with reasons.
fn shown(decision: &Decision) -> (String, BTreeMap<String, String>) {
    let run: Vec<&str> = decision.run.keys().map(PodUid::as_str).collect();
    let rejected = decision.rejected.iter();
    let rejected = rejected.map(|(uid, why)| (uid.to_string(), format!("{}: {}", why.reason, why.message)));
    (run.join(" "), rejected.collect())
}

fn decided(pods: &[Arc<DesiredPod>]) -> (String, BTreeMap<String, String>) {
    shown(&Admission::default().decide(&desired(pods), &node()))
}

#[test]
fn admission_rejects_pods_with_the_stock_messages() {
    for (pods, run, rejected, expected) in [
        (
            vec![cpu("a", "9")],
            "",
            "a",
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 2000",
        ),
        (
            vec![cpu("b", "1500m"), cpu("a", "600m")],
            "b",
            "a",
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000",
        ),
        (
            vec![pod("a", json!({"resources": {"requests": {"memory": "2Gi"}}}))],
            "",
            "a",
            "OutOfmemory: Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824",
        ),
        (
            vec![cpu("a", "0"), cpu("b", "0"), cpu("c", "0"), cpu("d", "0")],
            "a b c",
            "d",
            "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
        ),
        (
            vec![port("b", 8080), port("a", 8080)],
            "b",
            "a",
            "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: TCP 8080 \
             is taken by the pod default/b",
        ),
        (
            vec![pod("a", json!({"spec.nodeSelector": {"zone": "b"}}))],
            "",
            "a",
            "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            vec![pod("a", json!({"spec.os": {"name": "windows"}}))],
            "",
            "a",
            "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS: spec.os.name is \"windows\", \
             the node runs linux",
        ),
        (
            vec![pod(
                "a",
                json!({"spec.securityContext": {"sysctls": [{"name": "kernel.panic", "value": "1"}]}}),
            )],
            "",
            "a",
            "SysctlForbidden: forbidden sysctl: \"kernel.panic\": it is not safe, and the node's allowedUnsafeSysctls \
             does not list it",
        ),
        (
            vec![pod("a", json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}))],
            "",
            "a",
            "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host",
        ),
    ] {
        let expected = BTreeMap::from([(rejected.to_owned(), expected.to_owned())]);
        assert_eq!(decided(&pods), (run.to_owned(), expected));
    }
}

#[test]
fn extended_resources_and_huge_pages_are_admitted_by_allocatable() {
    let requests = |name: &str, resource: &str, amount: &str| {
        pod(name, json!({"resources": {"requests": {resource: amount}, "limits": {resource: amount}}}))
    };
    let of_api = |pod: Arc<DesiredPod>| Arc::new(DesiredPod { source: SourceKind::Api, ..(*pod).clone() });
    let out_of = |name: &str, amounts: &str| {
        format!("OutOf{name}: Node didn't have enough resource: {name}, {amounts}")
    };
    let dongles = |name: &str, amount: &str| requests(name, "example.com/dongle", amount);
    for (pods, expected) in [
        (vec![dongles("a", "4")], None),
        (
            vec![of_api(dongles("b", "2")), of_api(dongles("a", "3"))],
            Some(out_of("example.com/dongle", "requested: 3, used: 2, capacity: 4")),
        ),
        // The scheduler accounts for cluster resources that no node has.
        (vec![of_api(requests("a", "example.com/license", "1"))], None),
        (
            vec![requests("a", "example.com/license", "1")],
            Some(out_of("example.com/license", "requested: 1, used: 0, capacity: 0")),
        ),
        (
            vec![of_api(requests("a", "hugepages-2Mi", "4Mi"))],
            Some(out_of("hugepages-2Mi", "requested: 4194304, used: 0, capacity: 0")),
        ),
        (vec![requests("a", "hugepages-2Mi", "0")], None),
    ] {
        let (_, rejected) = decided(&pods);
        assert_eq!(rejected.get("a"), expected.as_ref(), "{pods:?}");
    }
}

#[test]
fn admission_names_an_unsupported_field() {
    let (run, rejected) =
        decided(&[pod("a", json!({"volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}]}))]);
    assert_eq!(run, "");
    assert!(
        rejected["a"].starts_with("UnsupportedField: spec.containers[0].volumeDevices is not supported"),
        "{rejected:?}"
    );
}

#[test]
fn host_ports_conflict_by_port_protocol_and_address() {
    let with = |name: &str, protocol: &str, ip: &str| {
        pod(
            name,
            json!({"ports": [{"containerPort": 80, "hostPort": 53, "protocol": protocol, "hostIP": ip}]}),
        )
    };
    for (a, b, conflict) in [
        (with("a", "TCP", ""), with("b", "UDP", ""), false),
        (with("a", "UDP", ""), with("b", "UDP", ""), true),
        (with("a", "TCP", "10.0.0.1"), with("b", "TCP", "10.0.0.2"), false),
        (with("a", "TCP", "10.0.0.1"), with("b", "TCP", "10.0.0.1"), true),
        (with("a", "TCP", "10.0.0.1"), with("b", "TCP", "0.0.0.0"), true),
        (with("a", "TCP", ""), with("b", "TCP", "10.0.0.2"), true),
    ] {
        assert_eq!(!decided(&[a.clone(), b]).1.is_empty(), conflict, "{a:?}");
    }
}

#[test]
fn admission_prefers_running_pods_to_earlier_names() {
    let mut admission = Admission::default();
    let late = port("z", 80);
    admission.decide(&desired(std::slice::from_ref(&late)), &node());
    let decision = admission.decide(&desired(&[port("a", 80), late]), &node());
    assert_eq!((shown(&decision).0.as_str(), decision.rejected.len()), ("z", 1));
}

#[test]
fn a_rejected_edit_keeps_the_running_version() {
    let mut admission = Admission::default();
    let (a, b) = (cpu("a", "1"), cpu("b", "1"));
    admission.decide(&desired(&[a.clone(), b.clone()]), &node());
    let greedy = cpu("a", "1500m");
    let decision = admission.decide(&desired(&[greedy.clone(), b.clone()]), &node());
    assert!(Arc::ptr_eq(&decision.run[&a.uid], &a) && decision.rejected.contains_key(&a.uid));
    // Resources that the edit frees count, and the pod is admitted once there is room.
    let decision = admission.decide(&desired(&[cpu("a", "500m"), b]), &node());
    assert_eq!(shown(&decision), ("a b".to_owned(), BTreeMap::new()));
    let decision = admission.decide(&desired(std::slice::from_ref(&greedy)), &node());
    assert!(decision.rejected.contains_key(&a.uid), "b is being ended, and holds what it holds");
    admission.release(&PodUid::new("b"));
    let decision = admission.decide(&desired(std::slice::from_ref(&greedy)), &node());
    assert!(Arc::ptr_eq(&decision.run[&a.uid], &greedy));
}

#[test]
fn adopted_pod_skips_admission_of_resources() {
    let mut admission = Admission::default();
    admission.adopt(cpu("big", "5"));
    let decision = admission.decide(&desired(&[cpu("small", "1"), cpu("big", "5")]), &node());
    assert_eq!(shown(&decision).0, "big");
    let decision = admission.decide(&desired(&[cpu("big", "6")]), &node());
    assert_eq!(decision.run[&PodUid::new("big")], cpu("big", "5"));
}

#[test]
fn admission_ignores_preferred_node_affinity_of_api_pods() {
    let mut given = (*pod("a", json!({"spec.nodeSelector": {"zone": "b"}}))).clone();
    given.source = SourceKind::Api;
    let decision = Admission::default().decide(&desired(&[Arc::new(given)]), &node());
    assert_eq!(shown(&decision), ("a".to_owned(), BTreeMap::new()));
}

#[test]
fn finished_pod_uses_no_resources_and_stays_admitted() {
    let mut admission = Admission::default();
    let (done, next) = (cpu("done", "2"), cpu("next", "2"));
    admission.decide(&desired(std::slice::from_ref(&done)), &node());
    admission.finish(&done.uid);
    let decision = admission.decide(&desired(&[done, next]), &node());
    assert_eq!(shown(&decision), ("done next".to_owned(), BTreeMap::new()));
}

#[test]
fn node_affinity_terms_are_ored() {
    let labels = node().labels.unwrap();
    let expression = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let term = |expressions: Value| json!({"matchExpressions": expressions});
    let is_a = expression("zone", "In", &["a", "x"]);
    let is_b = expression("zone", "In", &["b"]);
    for (terms, expected) in [
        (json!([term(json!([is_a]))]), true),
        (json!([term(json!([is_b]))]), false),
        (json!([term(json!([is_b])), term(json!([is_a]))]), true),
        (json!([term(json!([is_a, is_b]))]), false),
        (json!([term(json!([]))]), false),
        (json!([term(json!([expression("zone", "NotIn", &["a"])]))]), false),
        (json!([term(json!([expression("none", "NotIn", &["a"])]))]), true),
        (json!([term(json!([expression("zone", "Exists", &[])]))]), true),
        (json!([term(json!([expression("zone", "DoesNotExist", &[])]))]), false),
        (json!([term(json!([expression("cores", "Gt", &["3"])]))]), true),
        (json!([term(json!([expression("cores", "Lt", &["4"])]))]), false),
        (json!([term(json!([expression("zone", "Gt", &["3"])]))]), false),
        (json!([{"matchFields": [expression("metadata.name", "In", &["n"])]}]), true),
        (json!([{"matchFields": [expression("metadata.name", "In", &["m"])]}]), false),
    ] {
        let affinity = json!({"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let spec: PodSpec = serde_json::from_value(json!({"containers": [], "affinity": affinity})).unwrap();
        let pod = Pod { spec: Some(spec), ..Pod::default() };
        assert_eq!(matches_node_affinity(&pod, &labels, "n"), expected, "{terms}");
    }
}
