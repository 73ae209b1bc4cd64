//! The kinds of Kubernetes that a master serves, a row each.

use api::table;

use crate::resource::{Replicas, Resource, Subresource};
use crate::write;

const CORE: &str = "";
const APPS: &str = "apps";
const BATCH: &str = "batch";
const CERTIFICATES: &str = "certificates.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";
const NET: &str = "networking.k8s.io";
const NODE: &str = "node.k8s.io";
const POLICY: &str = "policy";
const RBAC: &str = "rbac.authorization.k8s.io";
const SCHEDULING: &str = "scheduling.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// What field selectors may ask of a pod.
const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.hostNetwork",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];
/// What field selectors may ask of an event.
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// Everything that is served.
// A table is read by its columns.
#[rustfmt::skip]
pub fn all() -> Vec<Resource> {
    vec![
        v1(CORE, "Namespace", "namespaces", "namespace").short(&["ns"]).cluster().with_status()
            .part(Subresource { verbs: &["update"], ..Subresource::fields("finalize", write::finalizers) }),
        v1(CORE, "Node", "nodes", "node").short(&["no"]).cluster().with_status()
            .fields(&["spec.unschedulable"]).columns(table::NODES),
        v1(CORE, "Pod", "pods", "pod").short(&["po"]).in_all().with_status()
            .fields(POD_FIELDS).columns(table::PODS)
            .part(Subresource::binding()).part(Subresource::eviction())
            .part(Subresource::fields("ephemeralcontainers", write::ephemeral_containers))
            .part(Subresource::fields("resize", write::resources)),
        v1(CORE, "Binding", "bindings", "binding").verbs(&["create"]),
        v1(CORE, "ConfigMap", "configmaps", "configmap").short(&["cm"]).columns(table::CONFIG_MAPS),
        v1(CORE, "Secret", "secrets", "secret").fields(&["type"]).columns(table::SECRETS),
        v1(CORE, "ServiceAccount", "serviceaccounts", "serviceaccount").short(&["sa"]),
        v1(CORE, "Service", "services", "service").short(&["svc"]).in_all().with_status(),
        v1(CORE, "Endpoints", "endpoints", "endpoints").short(&["ep"]),
        v1(CORE, "Event", "events", "event").short(&["ev"]).fields(EVENT_FIELDS).columns(table::EVENTS),
        v1(CORE, "ReplicationController", "replicationcontrollers", "replicationcontroller")
            .short(&["rc"]).in_all().with_status().part(scale("spec.selector")),
        v1(CORE, "PodTemplate", "podtemplates", "podtemplate"),
        v1(CORE, "LimitRange", "limitranges", "limitrange").short(&["limits"]),
        v1(CORE, "ResourceQuota", "resourcequotas", "resourcequota").short(&["quota"]).with_status(),
        v1(CORE, "PersistentVolume", "persistentvolumes", "persistentvolume")
            .short(&["pv"]).cluster().with_status(),
        v1(CORE, "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim")
            .short(&["pvc"]).with_status(),
        v1(APPS, "Deployment", "deployments", "deployment")
            .short(&["deploy"]).in_all().with_status().part(scale("spec.selector")),
        v1(APPS, "ReplicaSet", "replicasets", "replicaset")
            .short(&["rs"]).in_all().with_status().part(scale("spec.selector")),
        v1(APPS, "StatefulSet", "statefulsets", "statefulset")
            .short(&["sts"]).in_all().with_status().part(scale("spec.selector")),
        v1(APPS, "DaemonSet", "daemonsets", "daemonset").short(&["ds"]).in_all().with_status(),
        v1(APPS, "ControllerRevision", "controllerrevisions", "controllerrevision"),
        v1(BATCH, "Job", "jobs", "job").in_all().with_status(),
        v1(BATCH, "CronJob", "cronjobs", "cronjob").short(&["cj"]).in_all().with_status(),
        v1(CERTIFICATES, "CertificateSigningRequest", "certificatesigningrequests", "certificatesigningrequest")
            .short(&["csr"]).cluster().fields(&["spec.signerName"]).with_status()
            .part(Subresource::fields("approval", write::approval)),
        v1(COORDINATION, "Lease", "leases", "lease"),
        v1(DISCOVERY, "EndpointSlice", "endpointslices", "endpointslice"),
        v1(POLICY, "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget")
            .short(&["pdb"]).with_status(),
        v1(NET, "Ingress", "ingresses", "ingress").short(&["ing"]).with_status(),
        v1(NET, "IngressClass", "ingressclasses", "ingressclass").cluster(),
        v1(NET, "NetworkPolicy", "networkpolicies", "networkpolicy").short(&["netpol"]),
        v1(SCHEDULING, "PriorityClass", "priorityclasses", "priorityclass").short(&["pc"]).cluster(),
        v1(NODE, "RuntimeClass", "runtimeclasses", "runtimeclass").cluster(),
        v1(STORAGE, "StorageClass", "storageclasses", "storageclass").short(&["sc"]).cluster(),
        v1(STORAGE, "CSIDriver", "csidrivers", "csidriver").cluster(),
        v1(STORAGE, "CSINode", "csinodes", "csinode").cluster().with_status(),
        v1(STORAGE, "CSIStorageCapacity", "csistoragecapacities", "csistoragecapacity"),
        v1(STORAGE, "VolumeAttachment", "volumeattachments", "volumeattachment").cluster().with_status(),
        Resource::new("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "horizontalpodautoscaler")
            .short(&["hpa"]).with_status(),
        v1(RBAC, "Role", "roles", "role"),
        v1(RBAC, "RoleBinding", "rolebindings", "rolebinding"),
        v1(RBAC, "ClusterRole", "clusterroles", "clusterrole").cluster(),
        v1(RBAC, "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding").cluster(),
    ]
}

fn v1(group: &'static str, kind: &'static str, plural: &'static str, singular: &'static str) -> Resource {
    Resource::new(group, "v1", kind, plural, singular)
}

/// The numbers of what makes pods of a template.
fn scale(selector: &'static str) -> Subresource {
    Subresource::scale(Replicas {
        wanted: "spec.replicas".into(),
        actual: "status.replicas".into(),
        selector: Some(selector.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn every_kind_is_known_to_the_table_of_types() {
        for kind in all() {
            let of = api::schema::all().kind(&kind.group, &kind.version, &kind.kind);
            assert!(of.is_some(), "{kind:?}");
            let has_status = of.and_then(|of| of.field("status")).is_some();
            assert_eq!(has_status, kind.has_status(), "the status of {kind:?}");
        }
    }
}
