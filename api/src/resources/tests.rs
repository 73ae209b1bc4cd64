//! Tests of the resources of whole Pods.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::PodSpec;

use super::{ResourceList, pod_limits, pod_requests};

fn spec(text: &str) -> PodSpec {
    serde_json::from_str(text).unwrap()
}

fn messages(list: &ResourceList) -> String {
    list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn pod_requests_are_the_sum_of_containers() {
    let spec = spec(
        r#"{"containers":[
            {"name":"a","resources":{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"memory":"1Gi"}}},
            {"name":"b","resources":{"requests":{"cpu":"0.5"},"limits":{"memory":"1Gi","cpu":"2"}}}]}"#,
    );
    assert_eq!(messages(&pod_requests(&spec)), "cpu=600m memory=1Gi");
    assert_eq!(messages(&pod_limits(&spec)), "cpu=2 memory=2Gi");
}

#[test]
fn init_containers_run_one_at_a_time_beside_the_sidecars_before_them() {
    let spec = spec(
        r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}],
            "initContainers":[
              {"name":"first","resources":{"requests":{"cpu":"3","memory":"1Mi"}}},
              {"name":"side","restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},
              {"name":"last","resources":{"requests":{"cpu":"2"}}}]}"#,
    );
    // first: 3; side: 2; last with side: 4; running: 1 + 2.
    assert_eq!(messages(&pod_requests(&spec)), "cpu=4 memory=1Mi");
}

#[test]
fn overhead_is_added_only_to_existing_limits() {
    let spec = spec(
        r#"{"overhead":{"cpu":"250m","memory":"64Mi"},
            "containers":[{"name":"a","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}}]}"#,
    );
    assert_eq!(messages(&pod_requests(&spec)), "cpu=1250m memory=64Mi");
    assert_eq!(messages(&pod_limits(&spec)), "cpu=1250m");
}

#[test]
fn pod_level_resources_override() {
    let spec = spec(
        r#"{"resources":{"requests":{"cpu":"5"}},
            "containers":[{"name":"a","resources":{"requests":{"cpu":"1","memory":"1Mi"}}}]}"#,
    );
    assert_eq!(messages(&pod_requests(&spec)), "cpu=5 memory=1Mi");
}

#[test]
fn stored_and_decoded_specs_have_equal_requests() {
    let spec = serde_json::json!({
        "containers": [{"name": "a", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "2"}}}],
        "initContainers": [{"name": "b", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}, 7],
        "overhead": {"cpu": "100m"},
    });
    let spec = super::resources_spec(spec.as_object().unwrap());
    assert_eq!(super::pod_requests(&spec)["cpu"].to_string(), "1600m");
    assert_eq!(super::pod_requests(&spec)["memory"].to_string(), "1Gi");
    assert_eq!(super::pod_limits(&spec)["cpu"].to_string(), "2100m");
    assert!(super::pod_requests(&super::resources_spec(&serde_json::Map::new())).is_empty());
}
