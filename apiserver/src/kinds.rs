//! The kinds of Kubernetes that a master serves, a row each.

mod as_stored;
pub mod common;
mod events;
mod old_autoscalers;
mod old_pods;

use std::sync::Arc;

use api::crd::CustomResourceDefinitions;
use api::table;

use self::as_stored::AsStored;
use crate::resource::{Replicas, Resource, Subresource};
use crate::table::Through;
use crate::write;

/// What may be done with a kind whose objects are questions: none of them is ever in the store.
const CREATE: &[&str] = &["create"];
/// What may be done with a connection to a pod.
const CONNECT: &[&str] = &["create", "get"];
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

/// Everything that is served.
// A table is read by its columns.
#[rustfmt::skip]
pub fn all() -> Vec<Resource> {
    vec![
        v1(CORE, "Namespace", "namespaces", "namespace").short(&["ns"]).cluster().with_status()
            .part(Subresource { verbs: &["update"], ..Subresource::fields("finalize", write::finalizers) })
            .fields(&["status.phase"]).columns(table::NAMESPACES),
        common::nodes().with_status().made_with_status().part(proxy("NodeProxyOptions")),
        common::pods().with_status()
            .part(Subresource::stream("attach", "PodAttachOptions", CONNECT))
            .part(Subresource::stream("exec", "PodExecOptions", CONNECT))
            .part(Subresource::stream("log", "Pod", &["get"]))
            .part(Subresource::stream("portforward", "PodPortForwardOptions", CONNECT))
            .part(proxy("PodProxyOptions"))
            .part(Subresource::binding()).part(Subresource::eviction())
            .part(Subresource::fields("ephemeralcontainers", write::ephemeral_containers))
            .part(Subresource::fields("finalize", write::finished))
            .part(Subresource::fields("resize", write::resources)),
        Resource::new(CORE, "v1beta3", "Pod", "pods", "pod").with_status()
            .fields(common::POD_FIELDS).columns(table::PODS)
            .part(Subresource::binding()).part(Subresource::eviction())
            .strategy(Arc::new(AsStored { group: CORE, kind: "Pod", view: old_pods::Hosted })).schema(Arc::new(old_pods::Fields))
            .stored_as("pods", Arc::new(old_pods::Hosted)),
        v1(CORE, "Binding", "bindings", "binding").made_as("pods", "binding"),
        common::config_maps(),
        common::secrets(),
        v1(CORE, "ServiceAccount", "serviceaccounts", "serviceaccount").short(&["sa"]).part(token())
            .columns(table::SERVICE_ACCOUNTS),
        v1(CORE, "Service", "services", "service").short(&["svc"]).made_by_update().in_all().with_status()
            .part(proxy("ServiceProxyOptions")).columns(table::SERVICES),
        v1(CORE, "Endpoints", "endpoints", "endpoints").short(&["ep"]).made_by_update().columns(table::ENDPOINTS),
        common::events().made_by_update(),
        v1(EVENTS, "Event", "events", "event").short(&["ev"]).made_by_update().fields(events::FIELDS)
            .columns(Through { columns: table::EVENTS, view: events::Newer })
            .stored_as("events", Arc::new(events::Newer)),
        v1(CORE, "ReplicationController", "replicationcontrollers", "replicationcontroller")
            .short(&["rc"]).in_all().with_status().part(scale("spec.selector"))
            .columns(table::REPLICATION_CONTROLLERS),
        v1(CORE, "PodTemplate", "podtemplates", "podtemplate").columns(table::POD_TEMPLATES),
        v1(CORE, "LimitRange", "limitranges", "limitrange").short(&["limits"]).made_by_update()
            .columns(table::NAME_AND_CREATED),
        v1(CORE, "ResourceQuota", "resourcequotas", "resourcequota").short(&["quota"]).with_status()
            .columns(table::RESOURCE_QUOTAS),
        v1(CORE, "PersistentVolume", "persistentvolumes", "persistentvolume")
            .short(&["pv"]).cluster().with_status().columns(table::VOLUMES),
        v1(CORE, "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim")
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
        v1(BATCH, "Job", "jobs", "job").in_all().with_status().columns(table::JOBS),
        v1(BATCH, "CronJob", "cronjobs", "cronjob").short(&["cj"]).in_all().with_status()
            .columns(table::CRON_JOBS),
        v1(CERTIFICATES, "CertificateSigningRequest", "certificatesigningrequests", "certificatesigningrequest")
            .short(&["csr"]).cluster().fields(&["spec.signerName"]).with_status()
            .part(Subresource::fields("approval", write::approval)).columns(table::SIGNING_REQUESTS),
        v1(COORDINATION, "Lease", "leases", "lease").made_by_update().columns(table::LEASES),
        v1(DISCOVERY, "EndpointSlice", "endpointslices", "endpointslice").columns(table::ENDPOINT_SLICES),
        v1(POLICY, "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget")
            .short(&["pdb"]).with_status().columns(table::DISRUPTION_BUDGETS),
        v1(NET, "Ingress", "ingresses", "ingress").short(&["ing"]).with_status().columns(table::INGRESSES),
        v1(NET, "IngressClass", "ingressclasses", "ingressclass").cluster().columns(table::INGRESS_CLASSES),
        v1(NET, "NetworkPolicy", "networkpolicies", "networkpolicy").short(&["netpol"])
            .columns(table::NETWORK_POLICIES),
        v1(SCHEDULING, "PriorityClass", "priorityclasses", "priorityclass").short(&["pc"]).cluster()
            .columns(table::PRIORITY_CLASSES),
        v1(NODE, "RuntimeClass", "runtimeclasses", "runtimeclass").cluster().columns(table::RUNTIME_CLASSES),
        v1(STORAGE, "StorageClass", "storageclasses", "storageclass").short(&["sc"]).cluster()
            .columns(table::STORAGE_CLASSES),
        v1(STORAGE, "CSIDriver", "csidrivers", "csidriver").cluster().columns(table::CSI_DRIVERS),
        v1(STORAGE, "CSINode", "csinodes", "csinode").cluster().with_status().columns(table::CSI_NODES),
        v1(STORAGE, "CSIStorageCapacity", "csistoragecapacities", "csistoragecapacity")
            .columns(table::STORAGE_CAPACITIES),
        v1(STORAGE, "VolumeAttachment", "volumeattachments", "volumeattachment").cluster().with_status()
            .columns(table::ATTACHMENTS),
        Resource::new(AUTOSCALING, "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "horizontalpodautoscaler")
            .short(&["hpa"]).with_status().columns(table::AUTOSCALERS),
        v1(AUTOSCALING, "HorizontalPodAutoscaler", "horizontalpodautoscalers", "horizontalpodautoscaler")
            .short(&["hpa"]).with_status()
            .columns(Through { columns: table::AUTOSCALERS, view: old_autoscalers::ByProcessor })
            .strategy(Arc::new(AsStored {
                group: AUTOSCALING, kind: "HorizontalPodAutoscaler", view: old_autoscalers::ByProcessor,
            }))
            .stored_as("horizontalpodautoscalers.autoscaling", Arc::new(old_autoscalers::ByProcessor)),
        v1(EXTENSIONS, "CustomResourceDefinition", "customresourcedefinitions", "customresourcedefinition")
            .short(&["crd", "crds"]).cluster().with_status().strategy(Arc::new(CustomResourceDefinitions))
            .columns(table::NAME_AND_CREATED),
        v1(RBAC, "Role", "roles", "role").made_by_update().columns(table::NAME_AND_CREATED),
        v1(RBAC, "RoleBinding", "rolebindings", "rolebinding").made_by_update().columns(table::ROLE_BINDINGS),
        v1(RBAC, "ClusterRole", "clusterroles", "clusterrole").cluster().made_by_update().columns(table::NAME_AND_CREATED),
        v1(RBAC, "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding").cluster().made_by_update()
            .columns(table::ROLE_BINDINGS),
        v1(NET, "IPAddress", "ipaddresses", "ipaddress").short(&["ip"]).cluster().columns(table::IP_ADDRESSES),
        v1(NET, "ServiceCIDR", "servicecidrs", "servicecidr").cluster().with_status().columns(table::SERVICE_CIDRS),
        v1(STORAGE, "VolumeAttributesClass", "volumeattributesclasses", "volumeattributesclass").short(&["vac"]).cluster()
            .columns(table::ATTRIBUTES_CLASSES),
        v1(ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "mutatingwebhookconfiguration").cluster()
            .columns(table::WEBHOOK_CONFIGURATIONS),
        v1(ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "validatingwebhookconfiguration").cluster()
            .columns(table::WEBHOOK_CONFIGURATIONS),
        v1(ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "validatingadmissionpolicy").cluster()
            .with_status().columns(table::VALIDATING_POLICIES),
        v1(ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "validatingadmissionpolicybinding")
            .cluster().columns(table::BINDINGS_OF_POLICIES),
        v1(ADMISSION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies", "mutatingadmissionpolicy").cluster()
            .columns(table::MUTATING_POLICIES),
        v1(ADMISSION, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", "mutatingadmissionpolicybinding")
            .cluster().columns(table::BINDINGS_OF_POLICIES),
        v1(REGISTRATION, "APIService", "apiservices", "apiservice").cluster().with_status().columns(table::API_SERVICES),
        v1(FLOW, "FlowSchema", "flowschemas", "flowschema").cluster().with_status().columns(table::FLOW_SCHEMAS),
        v1(FLOW, "PriorityLevelConfiguration", "prioritylevelconfigurations", "prioritylevelconfiguration").cluster()
            .with_status().columns(table::PRIORITY_LEVELS),
        v1(DEVICES, "DeviceClass", "deviceclasses", "deviceclass").cluster(),
        v1(DEVICES, "ResourceClaim", "resourceclaims", "resourceclaim").with_status().columns(table::RESOURCE_CLAIMS),
        v1(DEVICES, "ResourceClaimTemplate", "resourceclaimtemplates", "resourceclaimtemplate"),
        v1(DEVICES, "ResourceSlice", "resourceslices", "resourceslice").cluster()
            .fields(&["spec.driver", "spec.nodeName"]).columns(table::RESOURCE_SLICES),
        question(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview").cluster(),
        question(AUTHENTICATION, "TokenReview", "tokenreviews", "tokenreview").cluster(),
        question(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", "localsubjectaccessreview"),
        question(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", "selfsubjectaccessreview").cluster(),
        question(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", "selfsubjectrulesreview").cluster(),
        question(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview").cluster(),
    ]
}

fn v1(group: &'static str, kind: &'static str, plural: &'static str, singular: &'static str) -> Resource {
    Resource::new(group, "v1", kind, plural, singular)
}

/// A kind whose objects are questions, answered by [`crate::auth`].
fn question(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
) -> Resource {
    v1(group, kind, plural, singular).verbs(CREATE)
}

/// Whatever listens behind an object, asked by any method.
fn proxy(options: &'static str) -> Subresource {
    Subresource::stream("proxy", options, &["create", "delete", "get", "patch", "update"])
}

/// A token in the name of a service account, answered by [`crate::auth`].
fn token() -> Subresource {
    Subresource::elsewhere("token", (AUTHENTICATION, "v1", "TokenRequest"), CREATE)
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
        for kind in all().into_iter().filter(|kind| kind.schema.is_none()) {
            let of = api::schema::all().kind(&kind.group, &kind.version, &kind.kind);
            assert!(of.is_some(), "{kind:?}");
            let has_status = of.and_then(|of| of.field("status")).is_some();
            // The status of a question is its answer.
            let is_question = kind.verbs == super::CREATE;
            assert_eq!(has_status && !is_question, kind.has_status(), "the status of {kind:?}");
        }
    }
}
