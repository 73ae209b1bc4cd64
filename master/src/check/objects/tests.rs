//! Tests of the object checks: objects, and the lines of their findings.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod joining;
mod networks;
mod roles;
mod warnings;
mod whole;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::check::finding::Severity;

const NOW: &str = "2026-06-01T12:00:00Z";
const LONG_AGO: &str = "2026-06-01T11:00:00Z";
const JUST_NOW: &str = "2026-06-01T11:59:30Z";

/// A cluster with these objects, by plural name.
fn world(lists: &Value) -> World {
    let version = Version { text: "v1.36.0+coracle-0.1.0".to_owned() };
    let mut world = World { now: NOW.parse().unwrap(), version, ..World::default() };
    for row in ROWS {
        for object in lists.get(&*row.kind.plural).and_then(Value::as_array).into_iter().flatten() {
            if let Err(error) = world.add(row, object.as_object().unwrap()) {
                world.lack(&row.kind, Severity::Problem, error.to_string(), false);
            }
        }
        world.read.insert(row.kind.plural.to_string());
    }
    world
}

/// The findings as lines; `!` marks problems.
fn finding_lines(lists: &Value) -> Vec<String> {
    let mut report = Report::default();
    world(lists).judge(&mut report);
    let line = |finding: &Finding| {
        let mark = if finding.severity == Severity::Problem { "!" } else { "" };
        assert!(!finding.remedy.is_empty() && !finding.what.is_empty(), "{finding:?}");
        format!("{mark}{}: {}: {}", finding.subject, finding.what, finding.cause)
    };
    report.findings().into_iter().map(|(_, finding)| line(finding)).collect()
}

fn meta(name: &str, created: &str) -> Value {
    json!({"name": name, "namespace": "shop", "creationTimestamp": created})
}

fn cluster(name: &str) -> Value {
    json!({"name": name, "creationTimestamp": LONG_AGO})
}

fn node(name: &str, conditions: &Value, spec: Value) -> Value {
    json!({"metadata": cluster(name), "spec": spec, "status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.36.0"}}})
}

fn ready() -> Value {
    json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-06-01T11:58:00Z"}])
}

fn lease(name: &str, renewed: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": renewed, "leaseDurationSeconds": 40}})
}

fn pod(name: &str, created: &str, spec: Value, status: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "creationTimestamp": created, "labels": {"app": "web"}}, "spec": spec, "status": status})
}

fn container(state: Value, last: Value, restarts: i64) -> Value {
    json!({"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": restarts, "state": state, "lastState": last}]})
}

fn check(lists: Value, expected: &[&str]) {
    assert_eq!(finding_lines(&lists), expected, "{lists:#}");
}

#[test]
fn services_outside_the_service_cidr_are_findings() {
    let service = |name: &str, ips: &[&str]| json!({"metadata": meta(name, LONG_AGO), "spec": {"type": "ClusterIP", "clusterIPs": ips}});
    let range = |name: &str, cidrs: &[&str]| json!({"metadata": cluster(name), "spec": {"cidrs": cidrs}});
    let services = [
        service("in", &["10.96.0.9", "fd00::9"]),
        service("none", &["None"]),
        service("out", &["10.96.0.10", "fd01::1"]),
        service("far", &["10.0.0.1"]),
    ];
    let own = ["10.96.0.0/12", "fd00::/112"];
    let cause = "the range was different when they were created";
    let both = format!(
        "services: shop/out has fd01::1, and 1 service like it, which is outside 10.96.0.0/12, fd00::/112: {cause}"
    );
    let far = format!("services: shop/far has 10.0.0.1, which is outside 10.96.0.0/12, fd00::/112: {cause}");
    for (ranges, services, expected) in [
        (vec![], &services[..], vec![]),
        (vec![range("kubernetes", &own)], &services[..2], vec![]),
        (vec![range("kubernetes", &own)], &services[..], vec![both.as_str()]),
        // ServiceCIDRs of other creators are not used here.
        (
            vec![range("kubernetes", &own), range("more", &["10.0.0.0/16"])],
            &services[3..],
            vec![far.as_str()],
        ),
    ] {
        check(json!({"services": services, "servicecidrs": ranges}), &expected);
    }
}

#[test]
fn an_empty_cluster_is_healthy() {
    check(json!({}), &[]);
}

#[test]
fn duplicate_and_missing_pod_cidrs_are_findings() {
    let of = |specs: &[Value]| {
        let names = ["a", "b", "c"].into_iter();
        let nodes: Vec<Value> =
            names.zip(specs).map(|(name, spec)| node(name, &ready(), spec.clone())).collect();
        let leases: Vec<Value> = ["a", "b", "c"].map(|name| lease(name, JUST_NOW)).into();
        finding_lines(&json!({"nodes": nodes, "leases": leases}))
    };
    let has = |ranges: &[&str]| json!({"podCIDR": ranges[0], "podCIDRs": ranges});
    assert_eq!(of(&[json!({}), json!({})]), [""; 0]);
    assert_eq!(of(&[has(&["10.0.0.0/24", "fd00::/64"]), has(&["10.0.1.0/24"])]), [""; 0]);
    assert_eq!(
        of(&[has(&["10.0.1.0/24", "fd00::/64"]), has(&["10.0.0.0/16"]), has(&["10.0.9.0/24", "fd00::/64"])]),
        [
            "!nodes: the pod CIDRs of two nodes overlap: a has 10.0.1.0/24 and b has 10.0.0.0/16, and 2 pairs like it: the CIDRs were set manually, or before this master allocated them"
        ]
    );
    assert_eq!(
        of(&[has(&["10.0.1.0/24"]), json!({})]),
        ["nodes: 1 node without a pod CIDR: b: `--cluster-cidr` is exhausted"]
    );
}

#[test]
fn clock_skew_of_nodes_is_a_finding() {
    let renewed = |at: &str, revision: &str| {
        let mut lease = lease("a", at);
        lease["metadata"]["resourceVersion"] = revision.into();
        lease
    };
    // Created ten seconds ago by the server's clock, at revision 100.
    let claim = json!({"metadata": {"name": "c", "namespace": "shop", "creationTimestamp": "2026-06-01T11:59:50Z", "resourceVersion": "100"}});
    let silent = "!Node a: sends no heartbeats: its last heartbeat is 120 s old, by its own clock";
    for (lease, expected) in [
        (renewed("2026-06-01T11:59:55Z", "101"), vec![]),
        (renewed("2026-06-01T12:00:10Z", "101"), vec![]),
        (
            renewed("2026-06-01T12:00:20Z", "101"),
            vec!["Node a: its clock is 20 s ahead of the master's: its lease says 2026-06-01T12:00:20Z"],
        ),
        (
            renewed("2026-06-01T12:10:00Z", "99"),
            vec!["!Node a: its clock is 600 s ahead of the master's: its lease says 2026-06-01T12:10:00Z"],
        ),
        // Renewed after that creation, so its clock is right and it is not silent.
        (
            renewed("2026-06-01T11:58:00Z", "101"),
            vec!["!Node a: its clock is 110 s behind the master's: its lease says 2026-06-01T11:58:00Z"],
        ),
        (renewed("2026-06-01T11:58:00Z", "99"), vec![silent]),
    ] {
        let claims = json!([claim]);
        let nodes = json!([node("a", &ready(), json!({}))]);
        check(json!({"nodes": nodes, "leases": [lease], "services": claims}), &expected);
    }
}

#[test]
fn unreachable_unhealthy_and_cordoned_nodes_are_findings() {
    let not = |kind: &str, status: &str, reason: &str| json!([{"type": kind, "status": status, "reason": reason, "message": "m."}, {"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}]);
    for (nodes, leases, expected) in [
        (json!([node("a", &ready(), json!({}))]), json!([]), vec![]),
        (json!([node("a", &ready(), json!({}))]), json!([lease("a", JUST_NOW)]), vec![]),
        (
            json!([node("a", &ready(), json!({}))]),
            json!([lease("a", "2026-06-01T11:58:00Z")]),
            vec!["!Node a: sends no heartbeats: its last heartbeat is 120 s old, by its own clock"],
        ),
        (
            json!([node("a", &not("Ready", "False", "Down"), json!({}))]),
            json!([]),
            vec!["!Node a: is not ready: Down: m"],
        ),
        (
            json!([node("a", &not("Ready", "Unknown", "NodeStatusUnknown"), json!({}))]),
            json!([]),
            vec!["!Node a: sends no heartbeats: NodeStatusUnknown: m"],
        ),
        (
            json!([{"metadata": cluster("a")}]),
            json!([]),
            vec!["!Node a: has never reported a status: no kubelet has reported a status"],
        ),
        (
            json!([node("a", &not("DiskPressure", "True", "Full"), json!({}))]),
            json!([]),
            vec!["!Node a: is short of disk: Full: m"],
        ),
        (
            json!([node("a", &ready(), json!({"unschedulable": true})), node("b", &ready(), json!({}))]),
            json!([]),
            vec!["Node a: accepts no new pods: it is cordoned"],
        ),
        (
            json!([node("a", &ready(), json!({"taints": [{"key": "mine", "effect": "NoSchedule"}]}))]),
            json!([]),
            vec!["nodes: none accepts pods without tolerations: every node is cordoned or has a taint"],
        ),
    ] {
        check(json!({"nodes": nodes, "leases": leases}), &expected);
    }
    let old = |version: &str| {
        let mut node = node("a", &ready(), json!({}));
        node["status"]["nodeInfo"]["kubeletVersion"] = version.into();
        finding_lines(&json!({"nodes": [node]})).join("\n")
    };
    assert!(old("v1.37.1").contains("must not be newer"), "{}", old("v1.37.1"));
    assert!(old("v1.32.0").contains("at most 3 minor versions older"), "{}", old("v1.32.0"));
    assert_eq!((old("v1.33.9"), old("1.2"), old("")), (String::new(), String::new(), String::new()));
}

#[test]
fn pending_crashing_failed_and_stuck_pods_are_findings() {
    let unschedulable = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]});
    let crash = container(
        json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": LONG_AGO}}),
        7,
    );
    let pull = container(
        json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
        json!({}),
        0,
    );
    let often = |ended: &str| {
        container(
            json!({"running": {}}),
            json!({"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": ended}}),
            5,
        )
    };
    let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": LONG_AGO}]});
    let mut gone = pod("p", LONG_AGO, json!({"nodeName": "n"}), json!({"phase": "Running"}));
    gone["metadata"]["deletionTimestamp"] = LONG_AGO.into();
    for (pod, expected) in [
        (pod("p", LONG_AGO, json!({}), json!({"phase": "Succeeded"})), ""),
        (pod("p", JUST_NOW, json!({}), json!({"phase": "Pending"})), ""),
        (pod("p", JUST_NOW, json!({}), unschedulable), "!Pod shop/p: is Pending: Unschedulable: 0/3 nodes"),
        (
            pod("p", LONG_AGO, json!({}), json!({"phase": "Pending"})),
            "!Pod shop/p: is Pending: no scheduler has processed it",
        ),
        (pod("p", LONG_AGO, json!({}), json!({})), "!Pod shop/p: is Pending: no scheduler has processed it"),
        (
            pod("p", LONG_AGO, json!({"schedulingGates": [{"name": "g/a"}]}), json!({"phase": "Pending"})),
            "!Pod shop/p: is Pending: it is gated by g/a",
        ),
        (
            pod("p", LONG_AGO, json!({"nodeName": "m"}), json!({"phase": "Pending"})),
            "!Pod shop/p: is Pending: its node m does not exist",
        ),
        (
            pod("p", LONG_AGO, json!({"nodeName": "n"}), json!({"phase": "Pending"})),
            "!Pod shop/p: is Pending: n has not reported its status",
        ),
        (
            pod("p", LONG_AGO, json!({"nodeName": "n"}), crash),
            "!Pod shop/p: the container c crashes repeatedly (7 restarts): it exited with code 137, OOMKilled",
        ),
        (
            pod("p", LONG_AGO, json!({"nodeName": "n"}), pull),
            "!Pod shop/p: the container c has no image: ImagePullBackOff: no such image",
        ),
        (
            pod("p", LONG_AGO, json!({"nodeName": "n"}), often(JUST_NOW)),
            "Pod shop/p: the container c was restarted 5 times: it exited with code 1",
        ),
        (pod("p", LONG_AGO, json!({"nodeName": "n"}), often("2026-05-01T00:00:00Z")), ""),
        (
            pod("p", LONG_AGO, json!({"nodeName": "n"}), json!({"phase": "Failed", "reason": "Evicted"})),
            "Pod shop/p: has failed: Evicted",
        ),
        (
            pod("p", LONG_AGO, json!({"nodeName": "n"}), unready),
            "Pod shop/p: has not been ready for 60 min: ContainersNotReady",
        ),
        (gone.clone(), "!Pod shop/p: is stuck in deletion: n has not reported its termination"),
    ] {
        let expected: Vec<&str> = if expected.is_empty() { vec![] } else { vec![expected] };
        check(json!({"nodes": [node("n", &ready(), json!({}))], "pods": [pod]}), &expected);
    }
    check(json!({"pods": [gone]}), &["!Pod shop/p: is stuck in deletion: its node n does not exist"]);
}

#[test]
fn stuck_namespaces_and_unestablished_crds_are_findings() {
    let namespace = |deleted: &str, held: &str| {
        json!({"metadata": {"name": "shop", "deletionTimestamp": deleted}, "spec": {"finalizers": ["kubernetes"]}, "status": {"conditions": [
            {"type": "NamespaceFinalizersRemaining", "status": held, "message": "a.example/x in 1 resource instances"},
        ]}})
    };
    let definition = |names: &str, established: &str| {
        json!({"metadata": cluster("a.b"), "status": {"conditions": [
            {"type": "NamesAccepted", "status": names, "reason": "MultipleNamesConflicts", "message": "x is in use"},
            {"type": "Established", "status": established, "reason": "NotAccepted", "message": "no"},
        ]}})
    };
    for (lists, expected) in [
        (json!({"namespaces": [{"metadata": cluster("shop")}]}), vec![]),
        (json!({"namespaces": [namespace(JUST_NOW, "False")]}), vec![]),
        (
            json!({"namespaces": [namespace(JUST_NOW, "True")]}),
            vec!["Namespace shop: is stuck in deletion: a.example/x in 1 resource instances"],
        ),
        (
            json!({"namespaces": [namespace(LONG_AGO, "True")]}),
            vec!["!Namespace shop: is stuck in deletion: a.example/x in 1 resource instances"],
        ),
        (
            json!({"namespaces": [namespace(LONG_AGO, "False")]}),
            vec!["!Namespace shop: is stuck in deletion: it waits for kubernetes"],
        ),
        (json!({"customresourcedefinitions": [definition("True", "True")]}), vec![]),
        (
            json!({"customresourcedefinitions": [definition("False", "False")]}),
            vec![
                "!CustomResourceDefinition a.b: has names that are in use: MultipleNamesConflicts: x is in use",
            ],
        ),
        (
            json!({"customresourcedefinitions": [definition("True", "False")]}),
            vec!["!CustomResourceDefinition a.b: is not served: NotAccepted: no"],
        ),
    ] {
        check(lists, &expected);
    }
}

#[test]
fn pending_csrs_full_quotas_budgets_and_claims_are_findings() {
    let request = |created: &str, status: Value| json!({"metadata": {"name": "r", "creationTimestamp": created}, "spec": {"username": "joe", "signerName": "s/x"}, "status": status});
    let conditions = |of: &str| json!({"conditions": [{"type": of, "status": "True", "reason": "Why"}]});
    let quota = |hard: &str, used: &str| json!({"metadata": meta("q", LONG_AGO), "status": {"hard": {"pods": hard, "cpu": "2"}, "used": {"pods": used, "cpu": "1999m"}}});
    let budget =
        |spec: Value, status: Value| json!({"metadata": meta("b", LONG_AGO), "spec": spec, "status": status});
    let claim = |created: &str, class: &str, phase: &str| json!({"metadata": meta("c", created), "spec": {"storageClassName": class}, "status": {"phase": phase}});
    let classes = json!([
        {"metadata": cluster("late"), "volumeBindingMode": "WaitForFirstConsumer", "provisioner": "p"},
        {"metadata": cluster("now"), "volumeBindingMode": "Immediate", "provisioner": "p"},
    ]);
    for (plural, object, expected) in [
        ("certificatesigningrequests", request(JUST_NOW, json!({})), ""),
        ("certificatesigningrequests", request(LONG_AGO, conditions("Denied")), ""),
        ("certificatesigningrequests", request(LONG_AGO, json!({"certificate": "x"})), ""),
        (
            "certificatesigningrequests",
            request(LONG_AGO, json!({})),
            "CertificateSigningRequest r: is pending approval: joe asks s/x with a request that cannot be read",
        ),
        ("certificatesigningrequests", request("2026-06-01T11:59:00Z", json!({})), ""),
        ("certificatesigningrequests", request("2026-06-01T11:59:00Z", conditions("Approved")), ""),
        (
            "certificatesigningrequests",
            request(LONG_AGO, conditions("Approved")),
            "CertificateSigningRequest r: is approved but not signed: ",
        ),
        ("resourcequotas", quota("3", "2"), ""),
        ("resourcequotas", quota("0", "0"), ""),
        ("resourcequotas", quota("2", "2"), "ResourceQuota shop/q: is exhausted: pods 2 of 2"),
        (
            "poddisruptionbudgets",
            budget(json!({"minAvailable": 1}), json!({"expectedPods": 3, "disruptionsAllowed": 2})),
            "",
        ),
        ("poddisruptionbudgets", budget(json!({"minAvailable": 1}), json!({})), ""),
        (
            "poddisruptionbudgets",
            budget(json!({"maxUnavailable": 0}), json!({})),
            "PodDisruptionBudget shop/b: allows no eviction, so that a drain never ends: its spec allows none for any number of pods",
        ),
        (
            "poddisruptionbudgets",
            budget(
                json!({"minAvailable": 2}),
                json!({"expectedPods": 2, "currentHealthy": 2, "desiredHealthy": 2, "disruptionsAllowed": 0}),
            ),
            "PodDisruptionBudget shop/b: allows no eviction, so that a drain never ends: 2 of 2 pods must be healthy",
        ),
        // Servers may omit zeros.
        (
            "poddisruptionbudgets",
            budget(
                json!({"minAvailable": 3}),
                json!({"expectedPods": 3, "currentHealthy": 3, "desiredHealthy": 3}),
            ),
            "PodDisruptionBudget shop/b: allows no eviction, so that a drain never ends: 3 of 3 pods must be healthy",
        ),
        (
            "poddisruptionbudgets",
            budget(
                json!({"maxUnavailable": 1}),
                json!({"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "found no controllers"}]}),
            ),
            "PodDisruptionBudget shop/b: allows no eviction, so that a drain never ends: SyncFailed: found no controllers",
        ),
        (
            "poddisruptionbudgets",
            budget(
                json!({"minAvailable": 1}),
                json!({"expectedPods": 2, "currentHealthy": 0, "desiredHealthy": 1, "disruptionsAllowed": 0}),
            ),
            "PodDisruptionBudget shop/b: allows no eviction, so that a drain never ends: 0 of its pods are healthy, and 1 must be",
        ),
        ("persistentvolumeclaims", claim(LONG_AGO, "now", "Bound"), ""),
        ("persistentvolumeclaims", claim(LONG_AGO, "late", "Pending"), ""),
        ("persistentvolumeclaims", claim(JUST_NOW, "now", "Pending"), ""),
        (
            "persistentvolumeclaims",
            claim(LONG_AGO, "now", "Pending"),
            "!PersistentVolumeClaim shop/c: is Pending: p of the class now has created no volume",
        ),
        (
            "persistentvolumeclaims",
            claim(JUST_NOW, "fast", "Pending"),
            "!PersistentVolumeClaim shop/c: is Pending: there is no storage class fast",
        ),
        (
            "persistentvolumeclaims",
            claim(JUST_NOW, "now", "Lost"),
            "!PersistentVolumeClaim shop/c: has lost its volume: ",
        ),
    ] {
        let expected: Vec<&str> = if expected.is_empty() { vec![] } else { vec![expected] };
        check(json!({plural: [object], "storageclasses": classes}), &expected);
    }
}

#[test]
fn services_without_ready_endpoints_are_findings() {
    let service = |created: &str, selector: Value| json!({"metadata": meta("web", created), "spec": {"selector": selector}});
    let slice = |is_ready: bool| json!({"metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}}, "endpoints": [{"conditions": {"ready": is_ready}}]});
    let running = |status: &str| {
        pod(
            "p",
            LONG_AGO,
            json!({"nodeName": "n"}),
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": JUST_NOW}]}),
        )
    };
    let web = json!({"app": "web"});
    for (service, slices, pods, expected) in [
        (service(LONG_AGO, web.clone()), json!([slice(true)]), json!([]), ""),
        (service(LONG_AGO, Value::Null), json!([]), json!([]), ""),
        (service(LONG_AGO, json!({})), json!([]), json!([]), ""),
        (
            service(JUST_NOW, web.clone()),
            json!([]),
            json!([]),
            "Service shop/web: has no ready endpoints: no pod matches the selector app=web",
        ),
        (service(JUST_NOW, web.clone()), json!([]), json!([running("False")]), ""),
        (
            service(LONG_AGO, web.clone()),
            json!([slice(false)]),
            json!([running("False")]),
            "!Service shop/web: has no ready endpoints: none of the 1 pod that match app=web is ready",
        ),
        (
            service(LONG_AGO, web.clone()),
            json!([]),
            json!([running("True")]),
            "!Service shop/web: has no ready endpoints: 1 pod ready, but without endpoints",
        ),
    ] {
        let expected: Vec<&str> = if expected.is_empty() { vec![] } else { vec![expected] };
        let nodes = json!([node("n", &ready(), json!({}))]);
        check(
            json!({"nodes": nodes, "services": [service], "endpointslices": slices, "pods": pods}),
            &expected,
        );
    }
}

#[test]
fn stored_webhooks_are_one_finding_and_each_missing_service_is_another() {
    let hooks = |policy: &str, service: &str| json!({"metadata": cluster("h"), "webhooks": [{"name": "w.x", "failurePolicy": policy, "clientConfig": {"service": {"namespace": "shop", "name": service}}}]});
    let services = json!([{"metadata": meta("there", LONG_AGO)}]);
    let lists = json!({
        "services": services,
        "validatingwebhookconfigurations": [hooks("Fail", "gone"), hooks("Fail", "there")],
        "mutatingwebhookconfigurations": [hooks("Ignore", "gone")],
    });
    let finding_lines = finding_lines(&lists);
    assert_eq!(
        finding_lines,
        [
            "ValidatingWebhookConfiguration h: the webhook w.x has no service: the service shop/gone does not exist",
            "MutatingWebhookConfiguration h: the webhook w.x has no service: the service shop/gone does not exist",
            "webhooks: 3 configurations stored, but none is called: this master does not call webhooks yet",
        ]
    );
    let mut stock = world(&lists);
    stock.version.text = "v1.36.0".to_owned();
    let found = extensions::webhook_findings(&stock);
    assert_eq!(found.iter().map(|f| f.severity).collect::<Vec<_>>(), [Severity::Problem, Severity::Warning]);
}

#[test]
fn unenforced_pod_security_levels_are_findings() {
    let namespace = |name: &str, level: &str| json!({"metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": level}}});
    let lists = |namespaces: Value| json!({"namespaces": namespaces});
    let why = "for pod security, but no pod is rejected: this master does not enforce pod-security.kubernetes.io/enforce yet";
    check(lists(json!([namespace("a", "privileged"), {"metadata": cluster("b")}])), &[]);
    check(lists(json!([namespace("a", "baseline")])), &[format!("namespaces: a asks {why}").as_str()]);
    let two = lists(json!([namespace("a", "restricted"), namespace("b", "baseline")]));
    check(two.clone(), &[format!("namespaces: a and 1 other ask {why}").as_str()]);
    let mut stock = world(&two);
    stock.version.text = "v1.36.0".to_owned();
    assert!(namespaces::findings(&stock).is_empty());
}

#[test]
fn unreadable_resources_are_reported_and_not_guessed() {
    let mut world = world(&json!({}));
    world.read.remove("pods");
    world.lack(&Kind::POD, Severity::Problem, "503 Unavailable: no".to_owned(), false);
    let mut report = Report::default();
    world.judge(&mut report);
    assert!(report.checks.iter().all(|check| check.name != "pods" && check.name != "services"));
    let findings = report.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].0, findings[0].1.severity), ("reading", Severity::Problem));
    assert!(findings[0].1.cause.contains("503"), "{findings:?}");
    assert!(findings[0].1.remedy.contains("ask again"), "{findings:?}");
    assert!(!report.is_healthy(), "the state is unknown");
}

/// Arbitrary values, as a foreign server may send them.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z:/.0-9-]{0,24}".prop_map(Value::from),
        Just(Value::from(NOW)),
        Just(Value::from("True")),
    ];
    let field = prop::sample::select(vec![
        "type",
        "status",
        "reason",
        "name",
        "conditions",
        "finalizers",
        "taints",
        "spec",
        "state",
        "waiting",
        "hard",
        "used",
        "subjects",
    ]);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(field.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn checks_survive_arbitrary_objects(spec in anything(), status in anything(), more in anything(), row in 0..ROWS.len()) {
        let object = json!({
            "metadata": {"name": "x", "namespace": "n", "deletionTimestamp": more, "labels": more}, "spec": spec, "status": status,
            "webhooks": more, "subjects": more, "roleRef": more, "endpoints": more, "type": "Warning", "eventTime": NOW, "involvedObject": more,
        });
        let plural = ROWS[row].kind.plural.to_string();
        finding_lines(&json!({plural: [object]}));
    }
}
