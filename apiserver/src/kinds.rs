//! The table of built-in kinds, one row each.

mod autoscaling_v1;
pub mod common;
mod events;
mod field_labels;
mod pods_v1beta3;

use std::sync::Arc;

use api::crd::CustomResourceDefinitions;
use api::table;

use crate::resource::{
    ConvertedColumns, ConvertedStrategy, GarbageCollection, Replicas, Resource, Subresource,
};
use crate::write;

/// Verbs of access reviews, which are never stored.
const CREATE: &[&str] = &["create"];
/// Verbs of namespaces, which cannot be deleted as a collection.
const ONE_BY_ONE: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// Verbs of subresources that connect to a pod.
const CONNECT: &[&str] = &["create", "get"];
/// Garbage collection of v1 ReplicationControllers: their clients expect that dependents stay.
const ORPHAN: GarbageCollection = GarbageCollection::OrphanDependents { warning: None };
/// Garbage collection of Jobs: dependents stay too, with the warning of kube-apiserver.
const ORPHAN_WITH_WARNING: GarbageCollection = GarbageCollection::OrphanDependents {
    warning: Some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
         propagationPolicy=Orphan to suppress this warning",
    ),
};
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const CORE: &str = "";
const ADMISSION: &str = "admissionregistration.k8s.io";
const DEVICES: &str = "resource.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const REGISTRATION: &str = "apiregistration.k8s.io";
const APPS: &str = "apps";
const AUTOSCALING: &str = "autoscaling";
const BATCH: &str = "batch";
const CERTIFICATES: &str = "certificates.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const EVENTS: &str = "events.k8s.io";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";
const NET: &str = "networking.k8s.io";
const NODE: &str = "node.k8s.io";
const POLICY: &str = "policy";
const RBAC: &str = "rbac.authorization.k8s.io";
const SCHEDULING: &str = "scheduling.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// All built-in resources.
// rustfmt would break up the table.
#[rustfmt::skip]
pub fn all() -> Vec<Resource> {
    vec![
        common::namespaces(),
        common::nodes().with_status().keeps_initial_status().part(proxy("NodeProxyOptions")),
        common::pods().returns_deleted().with_status()
            .part(Subresource::stream("attach", "PodAttachOptions", CONNECT))
            .part(Subresource::stream("exec", "PodExecOptions", CONNECT))
            .part(Subresource::stream("log", "Pod", &["get"]))
            .part(Subresource::stream("portforward", "PodPortForwardOptions", CONNECT))
            .part(proxy("PodProxyOptions"))
            .part(Subresource::binding()).part(Subresource::eviction())
            .part(Subresource::fields("ephemeralcontainers", write::ephemeral_containers))
            .part(Subresource::fields("finalize", write::finished))
            .part(Subresource::fields("resize", write::resources)),
        Resource::new(CORE, "v1beta3", "Pod", "pods", "pod").returns_deleted().with_status()
            .fields(field_labels::POD).columns(table::PODS)
            .part(Subresource::binding()).part(Subresource::eviction())
            .strategy(Arc::new(ConvertedStrategy { group: CORE, kind: "Pod", conversion: pods_v1beta3::PodsV1beta3 })).schema(Arc::new(pods_v1beta3::Fields))
            .stored_as("pods", "v1", Arc::new(pods_v1beta3::PodsV1beta3)),
        v1(CORE, "Binding", "bindings", "binding").creates_subresource("pods", "binding"),
        common::config_maps(),
        common::secrets(),
        v1(CORE, "ComponentStatus", "componentstatuses", "componentstatus").short(&["cs"]).cluster()
            .verbs(&["get", "list"]).columns(table::COMPONENT_STATUSES),
        v1(CORE, "ServiceAccount", "serviceaccounts", "serviceaccount").returns_deleted().short(&["sa"]).part(token())
            .columns(table::SERVICE_ACCOUNTS),
        common::services().part(proxy("ServiceProxyOptions")),
        v1(CORE, "Endpoints", "endpoints", "endpoints").short(&["ep"]).creates_on_update().columns(table::ENDPOINTS),
        common::events().creates_on_update().garbage_collection(GarbageCollection::Unsupported),
        v1(EVENTS, "Event", "events", "event").garbage_collection(GarbageCollection::Unsupported).short(&["ev"]).creates_on_update().fields(field_labels::NEWER_EVENT)
            .columns(ConvertedColumns { columns: table::EVENTS, conversion: events::EventsV1 })
            .stored_as("events", "v1", Arc::new(events::EventsV1)),
        v1(CORE, "ReplicationController", "replicationcontrollers", "replicationcontroller").garbage_collection(ORPHAN)
            .short(&["rc"]).in_all().with_status().part(scale("spec.selector"))
            .fields(field_labels::REPLICATION_CONTROLLER).columns(table::REPLICATION_CONTROLLERS),
        v1(CORE, "PodTemplate", "podtemplates", "podtemplate").returns_deleted().columns(table::POD_TEMPLATES),
        v1(CORE, "LimitRange", "limitranges", "limitrange").short(&["limits"]).creates_on_update()
            .columns(table::NAME_AND_CREATED),
        v1(CORE, "ResourceQuota", "resourcequotas", "resourcequota").returns_deleted().short(&["quota"]).with_status()
            .columns(table::RESOURCE_QUOTAS),
        v1(CORE, "PersistentVolume", "persistentvolumes", "persistentvolume").returns_deleted()
            .short(&["pv"]).cluster().with_status().columns(table::VOLUMES),
        v1(CORE, "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim").returns_deleted()
            .short(&["pvc"]).with_status().columns(table::VOLUME_CLAIMS),
        v1(APPS, "Deployment", "deployments", "deployment")
            .short(&["deploy"]).in_all().with_status().part(scale("spec.selector"))
            .columns(table::DEPLOYMENTS),
        v1(APPS, "ReplicaSet", "replicasets", "replicaset")
            .short(&["rs"]).in_all().with_status().part(scale("spec.selector")).columns(table::REPLICA_SETS),
        v1(APPS, "StatefulSet", "statefulsets", "statefulset")
            .short(&["sts"]).in_all().with_status().part(scale("spec.selector"))
            .columns(table::STATEFUL_SETS),
        v1(APPS, "DaemonSet", "daemonsets", "daemonset").short(&["ds"]).in_all().with_status()
            .columns(table::DAEMON_SETS),
        v1(APPS, "ControllerRevision", "controllerrevisions", "controllerrevision")
            .columns(table::CONTROLLER_REVISIONS),
        v1(BATCH, "Job", "jobs", "job").garbage_collection(ORPHAN_WITH_WARNING).in_all().with_status().fields(field_labels::JOB).columns(table::JOBS),
        v1(BATCH, "CronJob", "cronjobs", "cronjob").short(&["cj"]).in_all().with_status()
            .columns(table::CRON_JOBS),
        v1(CERTIFICATES, "CertificateSigningRequest", "certificatesigningrequests", "certificatesigningrequest")
            .short(&["csr"]).cluster().fields(field_labels::SIGNING_REQUEST).with_status()
            .part(Subresource::fields("approval", write::approval)).columns(table::SIGNING_REQUESTS),
        v1(COORDINATION, "Lease", "leases", "lease").creates_on_update().columns(table::LEASES),
        common::endpoint_slices(),
        v1(POLICY, "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget")
            .short(&["pdb"]).with_status().columns(table::DISRUPTION_BUDGETS),
        v1(NET, "Ingress", "ingresses", "ingress").short(&["ing"]).with_status().columns(table::INGRESSES),
        v1(NET, "IngressClass", "ingressclasses", "ingressclass").cluster().columns(table::INGRESS_CLASSES),
        v1(NET, "NetworkPolicy", "networkpolicies", "networkpolicy").short(&["netpol"])
            .columns(table::NETWORK_POLICIES),
        v1(SCHEDULING, "PriorityClass", "priorityclasses", "priorityclass").short(&["pc"]).cluster()
            .columns(table::PRIORITY_CLASSES),
        v1(NODE, "RuntimeClass", "runtimeclasses", "runtimeclass").cluster().columns(table::RUNTIME_CLASSES),
        v1(STORAGE, "StorageClass", "storageclasses", "storageclass").returns_deleted().short(&["sc"]).cluster()
            .columns(table::STORAGE_CLASSES),
        v1(STORAGE, "CSIDriver", "csidrivers", "csidriver").returns_deleted().cluster().columns(table::CSI_DRIVERS),
        v1(STORAGE, "CSINode", "csinodes", "csinode").returns_deleted().cluster().with_status().columns(table::CSI_NODES),
        v1(STORAGE, "CSIStorageCapacity", "csistoragecapacities", "csistoragecapacity")
            .columns(table::STORAGE_CAPACITIES),
        v1(STORAGE, "VolumeAttachment", "volumeattachments", "volumeattachment").returns_deleted().cluster().with_status()
            .columns(table::ATTACHMENTS),
        Resource::new(AUTOSCALING, "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "horizontalpodautoscaler")
            .short(&["hpa"]).in_all().with_status().columns(table::AUTOSCALERS),
        v1(AUTOSCALING, "HorizontalPodAutoscaler", "horizontalpodautoscalers", "horizontalpodautoscaler")
            .short(&["hpa"]).in_all().with_status()
            .columns(ConvertedColumns { columns: table::AUTOSCALERS, conversion: autoscaling_v1::AutoscalersV1 })
            .strategy(Arc::new(ConvertedStrategy {
                group: AUTOSCALING, kind: "HorizontalPodAutoscaler", conversion: autoscaling_v1::AutoscalersV1,
            }))
            .stored_as("horizontalpodautoscalers.autoscaling", "autoscaling/v2", Arc::new(autoscaling_v1::AutoscalersV1)),
        v1(EXTENSIONS, "CustomResourceDefinition", "customresourcedefinitions", "customresourcedefinition")
            .short(&["crd", "crds"]).in_api_extensions().cluster().with_status().strategy(Arc::new(CustomResourceDefinitions))
            .columns(table::NAME_AND_CREATED),
        v1(RBAC, "Role", "roles", "role").creates_on_update().columns(table::NAME_AND_CREATED),
        v1(RBAC, "RoleBinding", "rolebindings", "rolebinding").creates_on_update().columns(table::ROLE_BINDINGS),
        v1(RBAC, "ClusterRole", "clusterroles", "clusterrole").cluster().creates_on_update().columns(table::NAME_AND_CREATED),
        v1(RBAC, "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding").cluster().creates_on_update()
            .columns(table::ROLE_BINDINGS),
        v1(NET, "IPAddress", "ipaddresses", "ipaddress").short(&["ip"]).cluster().columns(table::IP_ADDRESSES),
        v1(NET, "ServiceCIDR", "servicecidrs", "servicecidr").cluster().with_status().columns(table::SERVICE_CIDRS),
        v1(STORAGE, "VolumeAttributesClass", "volumeattributesclasses", "volumeattributesclass").returns_deleted().short(&["vac"]).cluster()
            .columns(table::ATTRIBUTES_CLASSES),
        v1(ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "mutatingwebhookconfiguration").in_api_extensions().cluster()
            .columns(table::WEBHOOK_CONFIGURATIONS),
        v1(ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "validatingwebhookconfiguration").in_api_extensions().cluster()
            .columns(table::WEBHOOK_CONFIGURATIONS),
        v1(ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "validatingadmissionpolicy").in_api_extensions().cluster()
            .with_status().columns(table::VALIDATING_POLICIES),
        v1(ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "validatingadmissionpolicybinding").in_api_extensions()
            .cluster().columns(table::BINDINGS_OF_POLICIES),
        v1(ADMISSION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies", "mutatingadmissionpolicy").in_api_extensions().cluster()
            .columns(table::MUTATING_POLICIES),
        v1(ADMISSION, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", "mutatingadmissionpolicybinding").in_api_extensions()
            .cluster().columns(table::BINDINGS_OF_POLICIES),
        v1(REGISTRATION, "APIService", "apiservices", "apiservice").cluster().in_api_extensions().with_status().columns(table::API_SERVICES),
        v1(FLOW, "FlowSchema", "flowschemas", "flowschema").cluster().with_status().columns(table::FLOW_SCHEMAS),
        v1(FLOW, "PriorityLevelConfiguration", "prioritylevelconfigurations", "prioritylevelconfiguration").cluster()
            .with_status().columns(table::PRIORITY_LEVELS),
        v1(DEVICES, "DeviceClass", "deviceclasses", "deviceclass").returns_deleted().cluster(),
        v1(DEVICES, "ResourceClaim", "resourceclaims", "resourceclaim").returns_deleted().with_status().columns(table::RESOURCE_CLAIMS),
        v1(DEVICES, "ResourceClaimTemplate", "resourceclaimtemplates", "resourceclaimtemplate").returns_deleted(),
        v1(DEVICES, "ResourceSlice", "resourceslices", "resourceslice").returns_deleted().cluster()
            .fields(field_labels::RESOURCE_SLICE).columns(table::RESOURCE_SLICES),
        review(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview").cluster(),
        review(AUTHENTICATION, "TokenReview", "tokenreviews", "tokenreview").cluster(),
        review(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", "localsubjectaccessreview"),
        review(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", "selfsubjectaccessreview").cluster(),
        review(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", "selfsubjectrulesreview").cluster(),
        review(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview").cluster(),
    ]
}

fn v1(group: &'static str, kind: &'static str, plural: &'static str, singular: &'static str) -> Resource {
    Resource::new(group, "v1", kind, plural, singular)
}

/// Creates the row of an access review, which [`crate::auth`] answers.
fn review(group: &'static str, kind: &'static str, plural: &'static str, singular: &'static str) -> Resource {
    v1(group, kind, plural, singular).verbs(CREATE)
}

/// Creates a proxy subresource for all methods.
fn proxy(options: &'static str) -> Subresource {
    Subresource::stream("proxy", options, &["create", "delete", "get", "patch", "update"])
}

/// Creates the token subresource of service accounts, which [`crate::auth`] answers.
fn token() -> Subresource {
    Subresource::elsewhere("token", (AUTHENTICATION, "v1", "TokenRequest"), CREATE)
}

/// Creates the scale subresource of a workload.
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
        for kind in all().into_iter().filter(|kind| kind.schema.is_none()) {
            let of = api::schema::all().kind(&kind.group, &kind.version, &kind.kind);
            assert!(of.is_some(), "{kind:?}");
            let has_status = of.and_then(|of| of.field("status")).is_some();
            // The status of a review is its answer.
            let is_question = kind.verbs == super::CREATE;
            assert_eq!(has_status && !is_question, kind.has_status(), "the status of {kind:?}");
        }
    }
}
