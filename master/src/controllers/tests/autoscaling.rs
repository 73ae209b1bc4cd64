//! HorizontalPodAutoscalers over an in-process API with pods and metrics that the test makes up.

use std::sync::Mutex;

use axum::response::IntoResponse as _;
use axum::routing::get;

use super::*;

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods";

/// A server with the controller.
struct Bed {
    client: Client,
    /// CPU usage by pod name, or `None` if there is no metrics API.
    usage: Arc<Mutex<Option<BTreeMap<String, String>>>>,
}

impl Bed {
    async fn new() -> Self {
        let usage: Arc<Mutex<Option<BTreeMap<String, String>>>> = Arc::default();
        let shown = usage.clone();
        let metrics = get(async move || match &*shown.lock().unwrap() {
            None => axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response(),
            Some(usage) => {
                let items: Vec<Value> = usage.iter().map(|(pod, cpu)| pod_metrics(pod, cpu)).collect();
                axum::Json(json!({"kind": "PodMetricsList", "metadata": {}, "items": items})).into_response()
            }
        });
        let api = axum::Router::new().route(METRICS, metrics).fallback_service(api(Vec::new()).await);
        let client = running_on(api, Controllers::Only(vec![horizontal_pod_autoscaler::NAME.to_owned()]));
        namespace(&client, "shop").await;
        Self { client, usage }
    }

    /// Creates pods with the label `app` that have been ready for an hour and request 100m, and their usage.
    async fn pods(&self, app: &str, cpu: &[&str]) {
        for (index, cpu) in cpu.iter().enumerate() {
            let name = format!("{app}-{index}");
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
                "spec": {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
            });
            self.client.create(&Kind::POD, "shop", pod).await.unwrap();
            let start = (Timestamp::now() - jiff::SignedDuration::from_hours(1)).to_string();
            let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": start});
            let status = json!({"status": {"phase": "Running", "startTime": start, "conditions": [ready]}});
            self.client.patch_subresource(&Kind::POD, "shop", &name, "status", status).await.unwrap();
            self.usage.lock().unwrap().get_or_insert_default().insert(name, (*cpu).to_owned());
        }
    }

    async fn workload(&self, kind: &Kind, name: &str, replicas: i64) {
        let labels = json!({"app": name});
        let template =
            json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
        let selector = if kind.group.is_empty() { labels.clone() } else { json!({"matchLabels": labels}) };
        let object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        });
        self.client.create(kind, "shop", object).await.unwrap();
    }

    /// Creates an autoscaler of at most 4 replicas with a target of 50 % CPU.
    async fn scaler(&self, kind: &Kind, name: &str) {
        let target = json!({"type": "Utilization", "averageUtilization": 50});
        self.scaler_with(
            kind,
            name,
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
        )
        .await;
    }

    async fn scaler_with(&self, kind: &Kind, name: &str, metrics: Value) {
        let scaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
            "spec": {"scaleTargetRef": {"apiVersion": kind.api_version(), "kind": kind.kind, "name": name},
                "minReplicas": 1, "maxReplicas": 4, "metrics": metrics},
        });
        self.client.create(&Kind::HORIZONTAL_POD_AUTOSCALER, "shop", scaler).await.unwrap();
    }

    /// Waits until the autoscaler has a condition with this reason. Returns the autoscaler.
    async fn has_reason(&self, name: &str, kind: &str, reason: &str) -> Json {
        let key = format!("shop/{name}");
        let is_right = |found: &BTreeMap<String, Json>| {
            found
                .get(&key)
                .and_then(|scaler| condition(scaler, kind))
                .is_some_and(|it| it["reason"] == reason)
        };
        until(&self.client, &Kind::HORIZONTAL_POD_AUTOSCALER, is_right).await;
        self.client.get(&Kind::HORIZONTAL_POD_AUTOSCALER, "shop", name).await.unwrap()
    }

    async fn replicas(&self, kind: &Kind, name: &str) -> Option<i64> {
        let object = self.client.get(kind, "shop", name).await.unwrap();
        at(&object, "/spec/replicas").and_then(Value::as_i64)
    }

    /// The events about an autoscaler, as reason and message.
    async fn events(&self, name: &str) -> Vec<(String, String)> {
        let mut events = Vec::new();
        self.client
            .list(&Kind::EVENT, "shop", |event| {
                if text(at(&event, "/involvedObject/name")) == name {
                    assert_eq!(text(at(&event, "/source/component")), "horizontal-pod-autoscaler");
                    events.push((text(event.get("reason")), text(event.get("message"))));
                }
            })
            .await
            .unwrap();
        events
    }
}

fn pod_metrics(pod: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": pod, "namespace": "shop"}, "timestamp": Timestamp::now().to_string(), "window": "15s",
        "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": "1Mi"}}],
    })
}

#[tokio::test]
async fn workloads_of_every_kind_are_scaled() {
    let bed = Bed::new().await;
    let kinds = [Kind::DEPLOYMENT, Kind::REPLICA_SET, Kind::STATEFUL_SET, Kind::REPLICATION_CONTROLLER];
    for kind in kinds {
        let name = kind.kind.to_lowercase();
        bed.workload(&kind, &name, 2).await;
        bed.pods(&name, &["70m", "80m"]).await;
        bed.scaler(&kind, &name).await;
        let scaler = bed.has_reason(&name, "AbleToScale", "SucceededRescale").await;
        assert_eq!(bed.replicas(&kind, &name).await, Some(3), "{name}");
        let status = &scaler["status"];
        assert_eq!(
            (&status["currentReplicas"], &status["desiredReplicas"], &status["observedGeneration"]),
            (&json!(2), &json!(3), &json!(1))
        );
        assert!(status["lastScaleTime"].is_string(), "{status}");
        let current = json!({"averageUtilization": 75, "averageValue": "75m"});
        assert_eq!(
            status["currentMetrics"],
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}])
        );
        let message = "New size: 3; reason: cpu resource utilization (percentage of request) above target";
        assert_eq!(bed.events(&name).await, [("SuccessfulRescale".to_owned(), message.to_owned())]);
    }
}

#[tokio::test]
async fn a_custom_resource_is_scaled_through_its_scale_subresource() {
    let bed = Bed::new().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "farms.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Farm", "plural": "farms"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"scale": scale}}]},
    });
    let crds =
        Kind::of("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false);
    bed.client.create(&crds, "", definition).await.unwrap();
    until(&bed.client, &crds, |found| found.values().all(|crd| condition_is(crd, "Established", "True")))
        .await;
    let farm = Kind::of("example.com", "Farm", "farms", true);
    let object = json!({"apiVersion": "example.com/v1", "kind": "Farm", "metadata": {"name": "farm"},
        "spec": {"size": 1}, "status": {"size": 1, "selector": "app in (farm)"}});
    bed.client.create(&farm, "shop", object).await.unwrap();
    bed.pods("farm", &["150m"]).await;
    bed.scaler(&farm, "farm").await;
    bed.has_reason("farm", "AbleToScale", "SucceededRescale").await;
    let object = bed.client.get(&farm, "shop", "farm").await.unwrap();
    assert_eq!(at(&object, "/spec/size"), Some(&json!(3)));
}

#[tokio::test]
async fn failures_are_conditions_and_events() {
    let bed = Bed::new().await;
    bed.scaler(&Kind::DEPLOYMENT, "missing").await;
    let scaler = bed.has_reason("missing", "AbleToScale", "FailedGetScale").await;
    let message = "deployments.apps \"missing\" not found";
    assert_eq!(
        condition(&scaler, "AbleToScale").unwrap()["message"],
        format!("the HPA controller was unable to get the target's current scale: {message}")
    );
    assert_eq!(bed.events("missing").await, [("FailedGetScale".to_owned(), message.to_owned())]);

    let unknown = Kind::of("example.com", "Unknown", "unknowns", true);
    bed.scaler(&unknown, "unknown").await;
    bed.has_reason("unknown", "AbleToScale", "FailedGetScale").await;
    let message = "no matches for kind \"Unknown\" in group \"example.com\"".to_owned();
    assert_eq!(bed.events("unknown").await, [("FailedGetScale".to_owned(), message)]);

    // The permissions of an autoscaler's author end at its namespace.
    let cluster_scoped = Kind::of("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false);
    bed.scaler(&cluster_scoped, "admin").await;
    bed.has_reason("admin", "AbleToScale", "FailedGetScale").await;
    let message =
        "ClusterRole is cluster-scoped: an autoscaler scales only objects of its namespace".to_owned();
    assert_eq!(bed.events("admin").await, [("FailedGetScale".to_owned(), message)]);

    // There is no metrics API.
    bed.workload(&Kind::REPLICA_SET, "blind", 2).await;
    bed.scaler(&Kind::REPLICA_SET, "blind").await;
    let scaler = bed.has_reason("blind", "ScalingActive", "FailedGetResourceMetric").await;
    assert!(condition_is(&scaler, "ScalingActive", "False") && condition_is(&scaler, "AbleToScale", "True"));
    let reasons: Vec<String> = bed.events("blind").await.into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, ["FailedGetResourceMetric", "FailedComputeMetricsReplicas"]);
    assert_eq!(bed.replicas(&Kind::REPLICA_SET, "blind").await, Some(2));

    // Scaling is disabled, and too many replicas need no metrics.
    bed.workload(&Kind::REPLICA_SET, "off", 0).await;
    bed.scaler(&Kind::REPLICA_SET, "off").await;
    bed.has_reason("off", "ScalingActive", "ScalingDisabled").await;
    bed.workload(&Kind::REPLICA_SET, "many", 9).await;
    bed.scaler(&Kind::REPLICA_SET, "many").await;
    bed.has_reason("many", "AbleToScale", "SucceededRescale").await;
    assert_eq!(bed.replicas(&Kind::REPLICA_SET, "many").await, Some(4));
}

#[tokio::test]
async fn two_autoscalers_do_not_scale_the_same_pods() {
    let bed = Bed::new().await;
    bed.workload(&Kind::REPLICA_SET, "web", 2).await;
    bed.pods("web", &["50m", "50m"]).await;
    bed.scaler(&Kind::REPLICA_SET, "web").await;
    bed.has_reason("web", "ScalingActive", "ValidMetricFound").await;
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "again"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}, "maxReplicas": 4},
    });
    bed.client.create(&Kind::HORIZONTAL_POD_AUTOSCALER, "shop", scaler).await.unwrap();
    bed.has_reason("again", "ScalingActive", "AmbiguousSelector").await;
    let (_, message) = bed.events("again").await.swap_remove(0);
    assert_eq!(message, "pods by selector app=web are controlled by multiple HPAs: [shop/again shop/web]");
}
