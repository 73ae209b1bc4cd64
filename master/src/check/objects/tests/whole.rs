//! Tests of budgets, leader election and the control plane.

use super::*;

#[test]
fn budget_that_blocks_a_drain_is_a_finding() {
    let budget = |healthy: i64| {
        json!({"metadata": meta("b", LONG_AGO), "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"expectedPods": 2, "currentHealthy": healthy, "desiredHealthy": 2}})
    };
    let on = |name: &str, node: &str| {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}]});
        pod(name, LONG_AGO, json!({"nodeName": node}), status)
    };
    let budgets = |budget: Value, pods: Value| -> Vec<String> {
        let cordoned = ["a", "b"].map(|name| node(name, &ready(), json!({"unschedulable": true})));
        let nodes = json!([cordoned[0], cordoned[1], node("c", &ready(), json!({}))]);
        let finding_lines =
            finding_lines(&json!({"nodes": nodes, "pods": pods, "poddisruptionbudgets": [budget]}));
        finding_lines.into_iter().filter(|line| line.contains("PodDisruptionBudget")).collect()
    };
    let all = "2 of 2 pods must be healthy";
    let wide = format!("PodDisruptionBudget shop/b: allows no eviction, so that a drain never ends: {all}");
    assert_eq!(budgets(budget(2), json!([on("p", "c")])), [wide]);
    let held = |who: &str| {
        format!(
            "PodDisruptionBudget shop/b: allows no eviction, and {who}, which is cordoned, cannot be evicted"
        )
    };
    assert_eq!(
        budgets(budget(2), json!([on("p", "a"), on("q", "c")])),
        [format!("!{}: {all}", held("1 pod on a"))]
    );
    let several = [format!("!{}: {all}", held("2 pods on a and 1 other"))];
    assert_eq!(budgets(budget(2), json!([on("p", "a"), on("q", "b")])), several);
    let mends = format!("{}: 1 of its pods are healthy, and 2 must be", held("1 pod on a"));
    assert_eq!(budgets(budget(1), json!([on("p", "a")])), [mends]);
    let few = format!("!{}: 3 pods must be healthy, and there are 2", held("1 pod on a"));
    let mut wants_more = budget(2);
    wants_more["status"]["desiredHealthy"] = 3.into();
    assert_eq!(budgets(wants_more, json!([on("p", "a")])), [few]);
    // Pods without a controller only count for a number.
    let spares_one = |spec: Value| {
        let status = json!({"expectedPods": 0, "currentHealthy": 0, "desiredHealthy": 0});
        json!({"metadata": meta("b", LONG_AGO), "spec": spec, "status": status})
    };
    let selector = json!({"matchLabels": {"app": "web"}});
    let uncounted = format!(
        "!{}: 1 of its pods is without a controller (such as a ReplicaSet), and maxUnavailable and percentages only count pods with one",
        held("1 pod on a")
    );
    let spec = json!({"maxUnavailable": 1, "selector": selector.clone()});
    assert_eq!(budgets(spares_one(spec.clone()), json!([on("p", "a")])), [uncounted]);
    assert!(budgets(spares_one(spec), json!([])).is_empty());
    let spec = json!({"minAvailable": 1, "selector": selector});
    assert!(budgets(spares_one(spec), json!([on("p", "a")])).is_empty());
}

#[test]
fn missed_heartbeats_before_the_server_start_are_no_finding() {
    let lists = json!({
        "nodes": [node("a", &ready(), json!({}))],
        "leases": [lease("a", "2026-06-01T11:50:00Z"), leader("kube-scheduler", "s1", "2026-06-01T11:50:00Z")],
    });
    let found = |started: Option<&str>| {
        let mut world = world(&lists);
        world.started = started.map(|time| time.parse().unwrap());
        nodes::findings(&world).len() + plane::leader_findings(&world).len()
    };
    assert_eq!(found(None), 2);
    assert_eq!(found(Some("2026-06-01T11:00:00Z")), 2);
    assert_eq!(found(Some("2026-06-01T11:59:56Z")), 0);
}

fn leader(name: &str, holder: &str, renewed: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"renewTime": renewed, "leaseDurationSeconds": 15, "holderIdentity": holder}})
}

#[test]
fn check_reports_expired_leader_leases() {
    for (lease, expected) in [
        (leader("kube-scheduler", "s1", JUST_NOW), vec![]),
        (leader("kube-scheduler", "", LONG_AGO), vec![]),
        (leader("someone-elses", "x", LONG_AGO), vec![]),
        (
            leader("kube-scheduler", "s1", LONG_AGO),
            vec![
                "!Lease kube-system/kube-scheduler: no scheduler is active: s1 holds the lease and has not renewed it for 3600 s",
            ],
        ),
        (
            leader("kube-controller-manager", "m2", LONG_AGO),
            vec![
                "!Lease kube-system/kube-controller-manager: no controllers are active: m2 holds the lease and has not renewed it for 3600 s",
            ],
        ),
    ] {
        check(json!({"leases": [lease]}), &expected);
    }
}

#[test]
fn unready_control_plane_pods_are_findings() {
    let of = |name: &str, component: &str, status: &str, since: &str| {
        json!({"metadata": {"name": name, "namespace": "kube-system", "creationTimestamp": LONG_AGO, "labels": {"tier": "control-plane", "component": component}},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status, "reason": "Down", "lastTransitionTime": since}]}})
    };
    let etcd = |name: &str, status: &str| of(name, "etcd", status, JUST_NOW);
    let nodes = json!([node("n", &ready(), json!({}))]);
    for (pods, expected) in [
        (json!([etcd("a", "True"), etcd("b", "True"), etcd("c", "True")]), vec![]),
        (json!([etcd("a", "False")]), vec![]),
        (
            json!([etcd("a", "True"), etcd("b", "True"), etcd("c", "False")]),
            vec!["etcd: 2 of 3 members are ready, and 2 must be: with one less, the cluster is read-only"],
        ),
        (json!([of("m", "master", "False", JUST_NOW)]), vec![]),
        (
            json!([of("m", "master", "False", "2026-06-01T11:58:00Z")]),
            vec!["!Pod kube-system/m: belongs to the control plane and has not been ready for 2 min: Down"],
        ),
    ] {
        check(json!({"nodes": nodes, "pods": pods}), &expected);
    }
}
