//! Autoscalers in two versions.

use super::*;
use crate::kinds;

const OLD: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const NEW: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

/// CPU utilization target of a v2 autoscaler.
fn share(scaler: &Value) -> &Value {
    &scaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"]
}

#[tokio::test]
async fn autoscaler_v1_and_v2_convert_cpu_utilization() {
    let server = Server::of(kinds::all(), |_| Vec::new()).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let scaler = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 70}});
    let (code, made) = server.json("POST", OLD, scaler.clone()).await;
    assert_eq!(
        (
            code,
            &made["apiVersion"],
            &made["spec"]["targetCPUUtilizationPercentage"],
            &made["spec"]["minReplicas"]
        ),
        (201, &json!("autoscaling/v1"), &json!(70), &json!(1)),
        "{made}"
    );
    let (code, new) = server.get(&format!("{NEW}/a")).await;
    assert_eq!((code, &new["apiVersion"], share(&new)), (200, &json!("autoscaling/v2"), &json!(70)), "{new}");

    // The default is 80 percent in both versions.
    let mut plain = scaler.clone();
    plain["metadata"]["name"] = "b".into();
    plain["spec"].as_object_mut().unwrap().remove("targetCPUUtilizationPercentage");
    let (_, made) = server.json("POST", OLD, plain).await;
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 80, "{made}");

    // A patch of one field in v1, and an update in v2 that v1 sees.
    let patch = json!({"spec": {"targetCPUUtilizationPercentage": 60}}).to_string();
    let (code, patched, _) = server.send_request("PATCH", &format!("{OLD}/a"), MERGE, patch).await;
    assert_eq!((code, &patched["spec"]["targetCPUUtilizationPercentage"]), (200, &json!(60)), "{patched}");
    let (_, mut new) = server.get(&format!("{NEW}/a")).await;
    assert_eq!(share(&new), 60);
    let queue = json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "30"}}});
    new["spec"]["metrics"] = json!([queue, new["spec"]["metrics"][0]]);
    new["spec"]["behavior"] = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
    let (code, new) = server.json("PUT", &format!("{NEW}/a"), new).await;
    assert_eq!(code, 200, "{new}");
    let (_, old) = server.get(&format!("{OLD}/a")).await;
    let notes = &old["metadata"]["annotations"];
    let metrics = notes["autoscaling.alpha.kubernetes.io/metrics"].as_str().unwrap();
    assert!(metrics.contains("\"metricName\":\"queue\""), "{metrics}");
    assert!(
        notes["autoscaling.alpha.kubernetes.io/behavior"].as_str().unwrap().contains("ScaleDown"),
        "{old}"
    );

    // Writing it back through v1 does not change it.
    let (code, same) = server.json("PUT", &format!("{OLD}/a"), old.clone()).await;
    assert_eq!(
        (code, &same["metadata"]["resourceVersion"]),
        (200, &old["metadata"]["resourceVersion"]),
        "{same}"
    );
    let (_, after) = server.get(&format!("{NEW}/a")).await;
    assert_eq!((&after["spec"], &after["metadata"]["annotations"]), (&new["spec"], &Value::Null), "{after}");

    let (_, list) = server.get(OLD).await;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("HorizontalPodAutoscalerList"), &json!("autoscaling/v1")),
        "{list}"
    );
    let mut wrong = scaler;
    wrong["spec"]["targetCPUUtilizationPercentage"] = 0.into();
    wrong["metadata"]["name"] = "c".into();
    refused(server.json("POST", OLD, wrong).await, 422, "Invalid", "spec.metrics[0]");
}
