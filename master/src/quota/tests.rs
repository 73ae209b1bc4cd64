//! Resource amounts and quota limits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn map(value: Value) -> Json {
    value.as_object().unwrap().clone()
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn described(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
}

fn pod(change: impl Fn(&mut Value)) -> Json {
    let mut pod = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "1"}, "limits": {"cpu": "1"},
        }}]},
    });
    change(&mut pod);
    map(pod)
}

#[test]
fn quota_usage_follows_the_requests_of_objects() {
    let all = "count/pods=1 cpu=500m limits.cpu=1 memory=1Gi pods=1 requests.cpu=500m requests.example.com/gpu=1 \
               requests.memory=1Gi";
    for (resource, object, expected) in [
        ("pods", pod(|_| {}), all),
        ("pods", pod(|pod| pod["status"] = json!({"phase": "Failed"})), "count/pods=1"),
        (
            "pods",
            pod(|pod| {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
            }),
            "count/pods=1",
        ),
        ("deployments.apps", map(json!({})), "count/deployments.apps=1"),
        ("secrets", map(json!({})), "count/secrets=1 secrets=1"),
        (
            "services",
            map(json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}})),
            "count/services=1 services=1 services.loadbalancers=1 services.nodeports=2",
        ),
        (
            "services",
            map(
                json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{}]}}),
            ),
            "count/services=1 services=1 services.loadbalancers=1 services.nodeports=0",
        ),
        (
            "persistentvolumeclaims",
            map(json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}})),
            "count/persistentvolumeclaims=1 fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
             fast.storageclass.storage.k8s.io/requests.storage=5Gi persistentvolumeclaims=1 requests.storage=5Gi",
        ),
    ] {
        assert_eq!(described(&usage(resource, &object, now())), expected);
    }
}

#[test]
fn quota_error_names_the_exceeded_resources() {
    let quota = Quota::of(&map(json!({
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"}},
        "status": {"used": {"pods": "1", "requests.cpu": "600m"}},
    })));
    let of = |pod: &Json| quota.share(&usage("pods", pod, now()));
    let wanted = of(&pod(|_| {}));
    assert_eq!(described(&wanted), "pods=1 requests.cpu=500m");
    assert_eq!(
        quota.add_usage(&wanted).unwrap_err(),
        "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    let small = of(&pod(|pod| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "400m".into()));
    assert_eq!(described(&quota.add_usage(&small).unwrap()), "pods=2 requests.cpu=1");
    assert_eq!(quota.missing_requests("pods", &pod(|_| {})).unwrap(), "must specify limits.memory for: c",);
    assert_eq!(quota.uncounted("pods"), ["limits.memory"]);
    assert!(quota.counts("pods", &pod(|_| {})) && !quota.counts("secrets", &map(json!({}))));
}

#[test]
fn quota_scopes_select_pods() {
    let best = pod(|pod| pod["spec"]["containers"][0]["resources"] = json!({}));
    let classy = pod(|pod| pod["spec"]["priorityClassName"] = "high".into());
    let ends = pod(|pod| pod["spec"]["activeDeadlineSeconds"] = 5.into());
    let across = pod(|pod| {
        pod["spec"]["affinity"] = json!({"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}});
    });
    let class =
        |operator: &str| json!([{"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}]);
    for (scopes, selector, expected) in [
        (json!(["BestEffort"]), json!([]), [true, false, false, false]),
        (json!(["NotBestEffort"]), json!([]), [false, true, true, true]),
        (json!(["Terminating"]), json!([]), [false, false, true, false]),
        (json!(["NotTerminating", "NotBestEffort"]), json!([]), [false, true, false, true]),
        (json!([]), class("In"), [false, true, false, false]),
        (json!([]), class("NotIn"), [true, false, true, true]),
        (json!([]), class("Exists"), [false, true, false, false]),
        (json!(["CrossNamespacePodAffinity"]), json!([]), [false, false, false, true]),
    ] {
        let quota = json!({"spec": {"hard": {"pods": "1"}, "scopes": scopes, "scopeSelector": {"matchExpressions": selector}}});
        let quota = Quota::of(&map(quota));
        let found = [&best, &classy, &ends, &across].map(|pod| quota.counts("pods", pod));
        assert_eq!(found, expected, "{scopes} {selector}");
    }
}

proptest! {
    /// The increase of a grown amount is the difference; a smaller amount has no increase.
    #[test]
    fn quota_increase_is_the_difference_of_amounts(before in 0..1_000_000_i64, more in 1..1_000_000_i64) {
        let of = |milli: i64| Amounts::from([("cpu".to_owned(), Quantity::from_milli(milli))]);
        prop_assert_eq!(increase(&of(before + more), &of(before)), of(more));
        prop_assert_eq!(increase(&of(before), &of(before + more)), Amounts::new());
        let mut sum = of(before);
        add(&mut sum, &of(more));
        prop_assert_eq!(sum, of(before + more));
    }

    /// Admitted usage never exceeds a quota.
    #[test]
    fn quota_usage_never_exceeds_the_limit(hard in 0..50_i64, wanted in prop::collection::vec(0..10_i64, 0..30)) {
        let mut quota = Quota { hard: Amounts::from([("pods".to_owned(), Quantity::from_units(hard, api::quantity::Format::DecimalSi))]), ..Quota::default() };
        for wanted in wanted {
            let share = quota.share(&Amounts::from([("pods".to_owned(), Quantity::from_units(wanted, api::quantity::Format::DecimalSi))]));
            if let Ok(used) = quota.add_usage(&share) { quota.used = used; }
            prop_assert!(quota.used.get("pods").is_none_or(|used| *used <= quota.hard["pods"]));
        }
    }
}
