//! The kinds that [`lifecycle`](crate::lifecycle) tests, by area.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::lifecycle::{Kind, live};

const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIUU1IZ0NBUUF3RmpFVU1CSUdBMVVFQXd3TFpUSmxMV1Y0WVcxd2JHVXdXVEFUQmdjcWhrak9QUUlCQmdncQpoa2pPUFFNQkJ3TkNBQVI1Zk92bEdQd3ROZUgwWEZpb2NtdWtCamVkbkE5VG9ISjdJNUdRSEFnTThMT1VoTTlQCiszYkdheU1SWlExUFBtZVNoZitKcStFMXdkdStiZHlqWTkwb29BQXdDZ1lJS29aSXpqMEVBd0lEU0FBd1JRSWcKWEF3SVpuZ0l5Mlp5WFJUZ09VLzZ6L01hc0NhSUNtU1VxT1dkVGpDNVRBRUNJUUM1a1ZBalNxQ3RJd2djOGFscAplLzdWSVBwdGoyVVFMSXVLVzAza1ZaWmVmdz09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

/// A condition in the common format.
fn condition() -> Value {
    json!([{"type": "Checked", "status": "True", "reason": "E2E", "message": "set by a test", "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "life"}}, "spec": {"containers": [{"name": "c", "image": "registry.example/i:1"}]}})
}

#[tokio::test]
async fn core() {
    let cluster = Cluster::without_workloads().await;
    cluster.namespace("life").await;
    let kinds = vec![
        Kind::new("", "configmaps", "ConfigMap", json!({"data": {"k": "v"}})).in_namespaces(),
        Kind::new("", "secrets", "Secret", json!({"data": {"k": "dg=="}, "type": "Opaque"})).in_namespaces(),
        Kind::new("", "serviceaccounts", "ServiceAccount", json!({})).in_namespaces(),
        Kind::new("", "podtemplates", "PodTemplate", json!({"template": template()})).in_namespaces(),
        Kind::new("", "endpoints", "Endpoints", json!({"subsets": [{"addresses": [{"ip": "10.0.0.24"}], "ports": [{"name": "http", "port": 80}]}]}))
            .in_namespaces(),
        Kind::new("", "events", "Event", json!({"involvedObject": {"kind": "Pod", "namespace": "life", "name": "p"}, "reason": "Test", "message": "m", "type": "Normal"}))
            .in_namespaces(),
        Kind::new("events.k8s.io", "events", "Event", json!({"regarding": {"kind": "Pod", "namespace": "life", "name": "p"}, "reason": "Test", "note": "n", "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Do", "reportingController": "example.com/test", "reportingInstance": "test-1"}))
            .in_namespaces(),
        Kind::new("", "services", "Service", json!({"spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}], "selector": {"app": "life"}}}))
            .in_namespaces().status(json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.1", "ipMode": "VIP"}]}})),
        Kind::new("", "limitranges", "LimitRange", json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}]}}))
            .in_namespaces(),
        Kind::new("", "resourcequotas", "ResourceQuota", json!({"spec": {"hard": {"count/cronjobs.batch": "5"}}}))
            .in_namespaces(),
        Kind::new("", "replicationcontrollers", "ReplicationController", json!({"spec": {"replicas": 1, "selector": {"app": "life"}, "template": template()}}))
            .in_namespaces().status(json!({"replicas": 1})),
        Kind::new("", "nodes", "Node", json!({"spec": {"unschedulable": true}}))
            .status(json!({"conditions": [{"type": "Ready", "status": "True"}]})),
    ];
    live(&cluster, "life", kinds).await;
}

#[tokio::test]
async fn storage() {
    const GROUP: &str = "storage.k8s.io";
    // The test plays the controllers of volumes.
    let controllers = "*,-persistentvolume-binder-controller,-persistentvolumeclaim-protection-controller,\
         -persistentvolume-protection-controller";
    let flags = ["--controllers", controllers, "--disable-admission-plugins", "StorageObjectInUseProtection"];
    let mut master = tests::Master::new().with_flags(flags);
    master.start().await;
    let cluster = Cluster::of(master);
    cluster.namespace("life").await;
    let volume = json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "life",
        "csi": {"driver": "e2e.example.com", "volumeHandle": "h"}}});
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "life", "resources": {"requests": {"storage": "1Gi"}}}});
    let attachment = json!({"spec": {"attacher": "e2e.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
    let kinds = vec![
        Kind::new(
            GROUP,
            "csidrivers",
            "CSIDriver",
            json!({"spec": {"attachRequired": false, "volumeLifecycleModes": ["Persistent"]}}),
        ),
        Kind::new(
            GROUP,
            "csinodes",
            "CSINode",
            json!({"spec": {"drivers": [{"name": "e2e.example.com", "nodeID": "n", "topologyKeys": ["k"]}]}}),
        ),
        Kind::new(
            GROUP,
            "csistoragecapacities",
            "CSIStorageCapacity",
            json!({"storageClassName": "life", "capacity": "1Gi", "nodeTopology": {}}),
        )
        .in_namespaces(),
        Kind::new(
            GROUP,
            "storageclasses",
            "StorageClass",
            json!({"provisioner": "e2e.example.com", "reclaimPolicy": "Delete"}),
        ),
        Kind::new(GROUP, "volumeattachments", "VolumeAttachment", attachment)
            .status(json!({"attached": true})),
        Kind::new(
            GROUP,
            "volumeattributesclasses",
            "VolumeAttributesClass",
            json!({"driverName": "e2e.example.com", "parameters": {"iops": "1"}}),
        ),
        Kind::new("", "persistentvolumes", "PersistentVolume", volume)
            .status(json!({"phase": "Released", "message": "set by a test"})),
        Kind::new("", "persistentvolumeclaims", "PersistentVolumeClaim", claim)
            .in_namespaces()
            .status(json!({"phase": "Lost"})),
    ];
    live(&cluster, "life", kinds).await;
}

#[tokio::test]
async fn network() {
    const GROUP: &str = "networking.k8s.io";
    let cluster = Cluster::running().await;
    cluster.namespace("life").await;
    let ingress = json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
    let address = json!({"spec": {"parentRef": {"group": "", "resource": "services", "namespace": "life", "name": "s"}}});
    let kinds = vec![
        Kind::new(GROUP, "ingresses", "Ingress", ingress).in_namespaces().status(json!({"loadBalancer": {"ingress": [{"ip": "169.1.1.1"}]}})),
        Kind::new(GROUP, "ingressclasses", "IngressClass", json!({"spec": {"controller": "example.com/controller"}})),
        Kind::new(GROUP, "networkpolicies", "NetworkPolicy", json!({"spec": {"podSelector": {}}})).in_namespaces(),
        Kind::new(GROUP, "ipaddresses", "IPAddress", address).names(["192.0.2.1", "192.0.2.2", "192.0.2.3"]),
        Kind::new(GROUP, "servicecidrs", "ServiceCIDR", json!({"spec": {"cidrs": ["192.0.2.0/24"]}})).status(json!({"conditions": condition()})),
        Kind::new("discovery.k8s.io", "endpointslices", "EndpointSlice", json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}))
            .in_namespaces(),
    ];
    live(&cluster, "life", kinds).await;
}

#[tokio::test]
async fn workloads() {
    let cluster = Cluster::without_workloads().await;
    cluster.namespace("life").await;
    let selector = json!({"matchLabels": {"app": "life"}});
    let replicated = json!({"spec": {"replicas": 1, "selector": selector, "template": template()}});
    let mut job = template();
    job["spec"]["restartPolicy"] = json!("Never");
    let kinds = vec![
        Kind::new("apps", "deployments", "Deployment", replicated.clone()).in_namespaces().status(json!({"conditions": condition()})),
        Kind::new("apps", "replicasets", "ReplicaSet", replicated.clone()).in_namespaces().status(json!({"conditions": condition()})),
        Kind::new("apps", "statefulsets", "StatefulSet", replicated).in_namespaces().status(json!({"conditions": condition()})),
        Kind::new("apps", "daemonsets", "DaemonSet", json!({"spec": {"selector": selector, "template": template()}}))
            .in_namespaces().status(json!({"conditions": condition()})),
        Kind::new("apps", "controllerrevisions", "ControllerRevision", json!({"revision": 1, "data": {"spec": {}}})).in_namespaces(),
        Kind::new("batch", "cronjobs", "CronJob", json!({"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": job}}}}))
            .in_namespaces().status(json!({"lastScheduleTime": "2026-01-01T00:00:00Z"})),
        Kind::new("batch", "jobs", "Job", json!({"spec": {"suspend": true, "template": job}}))
            .in_namespaces().status(json!({"conditions": condition()})),
        Kind::new("policy", "poddisruptionbudgets", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1, "selector": selector}}))
            .in_namespaces().status(json!({"conditions": condition()})),
        Kind::new("coordination.k8s.io", "leases", "Lease", json!({"spec": {"holderIdentity": "h", "leaseDurationSeconds": 30, "acquireTime": "2026-01-01T00:00:00.000000Z"}}))
            .in_namespaces(),
        Kind::new("node.k8s.io", "runtimeclasses", "RuntimeClass", json!({"handler": "h"})),
        Kind::new("scheduling.k8s.io", "priorityclasses", "PriorityClass", json!({"value": 10})),
    ];
    live(&cluster, "life", kinds).await;
}

#[tokio::test]
async fn devices() {
    const GROUP: &str = "resource.k8s.io";
    let cluster = Cluster::running().await;
    cluster.namespace("life").await;
    let devices = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}});
    let allocation = json!({"allocation": {"devices": {"results": [{"request": "r", "driver": "e2e.example.com", "pool": "p", "device": "d"}]}}});
    let slice = json!({"spec": {"driver": "e2e.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "d"}]}});
    let kinds = vec![
        Kind::new(GROUP, "deviceclasses", "DeviceClass", json!({"spec": {}})),
        Kind::new(GROUP, "resourceclaims", "ResourceClaim", json!({"spec": devices}))
            .in_namespaces()
            .status(allocation),
        Kind::new(
            GROUP,
            "resourceclaimtemplates",
            "ResourceClaimTemplate",
            json!({"spec": {"spec": devices}}),
        )
        .in_namespaces(),
        Kind::new(GROUP, "resourceslices", "ResourceSlice", slice),
    ];
    live(&cluster, "life", kinds).await;
}

#[tokio::test]
async fn control() {
    const ADMISSION: &str = "admissionregistration.k8s.io";
    const FLOW: &str = "flowcontrol.apiserver.k8s.io";
    let cluster = Cluster::running().await;
    let on = json!({"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]});
    let hooks = json!({"webhooks": [{"name": "h.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/h"}, "failurePolicy": "Ignore",
        "objectSelector": {"matchLabels": {"never": "there"}}}]});
    let validating = json!({"spec": {"matchConstraints": on, "validations": [{"expression": "object.spec.replicas <= 5"}]}});
    let mutating = json!({"spec": {"matchConstraints": on, "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]}});
    let flow = json!({"spec": {"matchingPrecedence": 10000, "priorityLevelConfiguration": {"name": "exempt"},
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "e2e"}}], "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/healthz"]}]}]}});
    let level = json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 2, "limitResponse": {"type": "Reject"}}}});
    let request = json!({"spec": {"request": REQUEST, "signerName": "e2e.example.com/signer", "usages": ["digital signature"]}});
    let kinds = vec![
        Kind::new(ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", hooks.clone()),
        Kind::new(ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", hooks),
        Kind::new(ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", validating).status(json!({"conditions": condition()})),
        Kind::new(ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", json!({"spec": {"policyName": "none", "validationActions": ["Deny"]}})),
        Kind::new(ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", mutating),
        Kind::new(ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", json!({"spec": {"policyName": "none"}})),
        Kind::new(FLOW, "flowschemas", "FlowSchema", flow)
            // The condition Dangling belongs to the master, which restores its reason.
            .status(json!({"conditions": [{"type": "Checked", "status": "True", "reason": "E2E", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})),
        Kind::new(FLOW, "prioritylevelconfigurations", "PriorityLevelConfiguration", level)
            .status(json!({"conditions": [{"type": "Checked", "status": "True", "reason": "E2E", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})),
        Kind::new("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest", request)
            .status(json!({"conditions": [{"type": "Failed", "status": "True", "reason": "E2E", "message": "set by a test"}]})),
        Kind::new("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})),
    ];
    live(&cluster, "", kinds).await;
}
