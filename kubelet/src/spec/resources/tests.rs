//! Resource formulas of the stock kubelet.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::{cgroup_parent, of, oom_score_adj};
use crate::runtime::spec::Resources;
use crate::spec::{CgroupDriver, Facts};

const GI: i64 = 1 << 30;

fn spec(resources: Value) -> PodSpec {
    serde_json::from_value(json!({"containers": [{"name": "c", "resources": resources}]})).unwrap()
}

#[test]
fn resources_set_cpu_shares_quota_and_memory() {
    let facts = Facts { pids_limit: Some(100), ..Facts::default() };
    for (resources, shares, quota, memory) in [
        (json!({}), 2, None, None),
        (json!({"requests": {"cpu": "1m"}}), 2, None, None),
        (json!({"requests": {"cpu": "100m"}}), 102, None, None),
        (json!({"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}), 2, Some(100_000), None),
        (json!({"limits": {"cpu": "500m"}}), 512, Some(50_000), None),
        (json!({"limits": {"cpu": "1m"}}), 2, Some(1000), None),
        (json!({"limits": {"cpu": "0"}}), 2, None, None),
        (json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}), 1024, Some(200_000), None),
        (json!({"requests": {"cpu": "1000"}}), 262_144, None, None),
        (json!({"limits": {"memory": "64Mi"}}), 2, None, Some(64 << 20)),
        (json!({"requests": {"memory": "64Mi"}}), 2, None, None),
        (json!({"limits": {"ephemeral-storage": "1Gi"}}), 2, None, None),
    ] {
        let made = of(&spec(resources.clone()).containers[0], &facts).unwrap();
        let expected = Resources {
            cpu_shares: Some(shares),
            cpu_quota: quota,
            cpu_period: quota.map(|_| 100_000),
            memory_bytes: memory,
            pids: Some(100),
        };
        assert_eq!(made, expected, "{resources}");
    }
}

#[test]
fn resource_claims_are_rejected_and_extended_resources_are_not() {
    let container = |resources| spec(resources).containers.remove(0);
    let error = of(&container(json!({"claims": [{"name": "gpu"}]})), &Facts::default()).unwrap_err();
    assert!(error.message.contains("gpu"), "{error}");
    let extended = container(json!({"limits": {"example.com/dongle": "1"}}));
    assert_eq!(of(&extended, &Facts::default()), of(&container(json!({})), &Facts::default()));
}

#[test]
fn oom_scores_follow_qos_and_memory_request() {
    let facts = Facts { memory_bytes: 10 * GI, ..Facts::default() };
    for (resources, expected) in [
        (json!({}), 1000),
        (json!({"requests": {"cpu": "1"}}), 999),
        (json!({"requests": {"memory": "1Gi"}}), 900),
        (json!({"requests": {"memory": "1Ki"}}), 999),
        (json!({"requests": {"memory": "100Gi"}}), 3),
        (json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}), -997),
    ] {
        let spec = spec(resources.clone());
        assert_eq!(oom_score_adj(&spec, &spec.containers[0], &facts), expected, "{resources}");
    }
    let mut critical = spec(json!({}));
    critical.priority_class_name = Some("system-node-critical".into());
    assert_eq!(oom_score_adj(&critical, &critical.containers[0], &facts), -997);
}

#[test]
fn sidecar_oom_score_is_not_above_its_app_containers() {
    let facts = Facts { memory_bytes: 10 * GI, ..Facts::default() };
    let spec: PodSpec = serde_json::from_value(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}],
        "containers": [{"name": "a", "resources": {"requests": {"memory": "2Gi"}}},
                       {"name": "b", "resources": {"requests": {"memory": "1Gi"}}}]
    }))
    .unwrap();
    let init = spec.init_containers.as_ref().unwrap();
    assert_eq!(oom_score_adj(&spec, &init[0], &facts), 900);
    assert_eq!(oom_score_adj(&spec, &init[1], &facts), 999);
}

#[test]
fn cgroups() {
    let burstable = json!({"requests": {"cpu": "1"}});
    let guaranteed =
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
    for (resources, driver, root, expected) in [
        (&burstable, CgroupDriver::Cgroupfs, "", "/kubepods/burstable/poda-b"),
        (&guaranteed, CgroupDriver::Cgroupfs, "/", "/kubepods/poda-b"),
        (&json!({}), CgroupDriver::Cgroupfs, "/x", "/x/kubepods/besteffort/poda-b"),
        (&burstable, CgroupDriver::Systemd, "", "kubepods-burstable-poda_b.slice"),
        (&guaranteed, CgroupDriver::Systemd, "/", "kubepods-poda_b.slice"),
    ] {
        let facts = Facts { cgroup_driver: Some(driver), cgroup_root: root.to_owned(), ..Facts::default() };
        assert_eq!(cgroup_parent(&spec(resources.clone()), "a-b", &facts).as_deref(), Some(expected));
    }
    assert_eq!(cgroup_parent(&spec(burstable), "a-b", &Facts::default()), None);
}
