//! All kinds with their types in k8s-pb and k8s-openapi.

use k8s_openapi::List;
use k8s_openapi::api as types;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extension_types;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_types;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as registration_types;
use k8s_pb::api as pb;
use k8s_pb::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extension_pb;
use k8s_pb::apimachinery::pkg::apis::meta::v1 as meta_pb;
use k8s_pb::kube_aggregator::pkg::apis::apiregistration::v1 as registration_pb;
use serde_json::Value;

/// A kind and its two other representations.
pub struct Known {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// Decodes a message with k8s-pb and encodes it again.
    pub through_k8s_pb: fn(&[u8]) -> Result<Vec<u8>, prost::DecodeError>,
    /// Deserializes JSON with k8s-openapi and serializes it again.
    pub through_k8s_openapi: fn(Value) -> serde_json::Result<Value>,
}

fn through<T: serde::de::DeserializeOwned + serde::Serialize>(value: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<T>(value)?)
}

/// A row: the kind and its two types.
macro_rules! row {
    ($api_version:literal, $kind:expr, $message:ty, $of:ty) => {
        Known {
            api_version: $api_version,
            kind: $kind,
            through_k8s_pb: crate::protobuf_agrees::through::<$message>,
            through_k8s_openapi: through::<$of>,
        }
    };
}

/// A row for a kind that has the same name in both modules.
macro_rules! named {
    ($api_version:literal, [$($message:tt)*], [$($of:tt)*], $kind:ident) => {
        row!($api_version, stringify!($kind), $($message)*::$kind, $($of)*::$kind)
    };
}

macro_rules! known {
    ($($api_version:literal $messages:tt $types:tt $($kind:ident)*;)*) => {
        /// All kinds.
        pub fn all() -> Vec<Known> {
            vec![
                $($(named!($api_version, $messages, $types, $kind),)*)*
                row!("v1", "PodList", pb::core::v1::PodList, List<types::core::v1::Pod>),
                row!("v1", "SecretList", pb::core::v1::SecretList, List<types::core::v1::Secret>),
            ]
        }
    };
}

known! {
    "admissionregistration.k8s.io/v1" [pb::admissionregistration::v1beta1] [types::admissionregistration::v1]
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding;
    "admissionregistration.k8s.io/v1" [pb::admissionregistration::v1] [types::admissionregistration::v1]
        MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
        ValidatingWebhookConfiguration;
    "apiextensions.k8s.io/v1" [extension_pb] [extension_types] CustomResourceDefinition;
    "apiregistration.k8s.io/v1" [registration_pb] [registration_types] APIService;
    "apps/v1" [pb::apps::v1] [types::apps::v1] ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
    "authentication.k8s.io/v1" [pb::authentication::v1] [types::authentication::v1]
        SelfSubjectReview TokenRequest TokenReview;
    "authorization.k8s.io/v1" [pb::authorization::v1] [types::authorization::v1]
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview;
    "autoscaling/v1" [pb::autoscaling::v1] [types::autoscaling::v1] HorizontalPodAutoscaler Scale;
    "autoscaling/v2" [pb::autoscaling::v2] [types::autoscaling::v2] HorizontalPodAutoscaler;
    "batch/v1" [pb::batch::v1] [types::batch::v1] CronJob Job;
    "certificates.k8s.io/v1" [pb::certificates::v1] [types::certificates::v1] CertificateSigningRequest;
    "certificates.k8s.io/v1" [pb::certificates::v1beta1] [types::certificates::v1]
        ClusterTrustBundle PodCertificateRequest;
    "coordination.k8s.io/v1" [pb::coordination::v1] [types::coordination::v1] Lease;
    "v1" [pb::core::v1] [types::core::v1]
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service
        ServiceAccount;
    "discovery.k8s.io/v1" [pb::discovery::v1] [types::discovery::v1] EndpointSlice;
    "events.k8s.io/v1" [pb::events::v1] [types::events::v1] Event;
    "flowcontrol.apiserver.k8s.io/v1" [pb::flowcontrol::v1] [types::flowcontrol::v1]
        FlowSchema PriorityLevelConfiguration;
    "v1" [meta_pb] [meta_types] DeleteOptions Status;
    "networking.k8s.io/v1" [pb::networking::v1] [types::networking::v1]
        IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR;
    "node.k8s.io/v1" [pb::node::v1] [types::node::v1] RuntimeClass;
    "policy/v1" [pb::policy::v1] [types::policy::v1] Eviction PodDisruptionBudget;
    "rbac.authorization.k8s.io/v1" [pb::rbac::v1] [types::rbac::v1]
        ClusterRole ClusterRoleBinding Role RoleBinding;
    "resource.k8s.io/v1" [pb::resource::v1] [types::resource::v1]
        DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice;
    "scheduling.k8s.io/v1" [pb::scheduling::v1] [types::scheduling::v1] PriorityClass;
    "storage.k8s.io/v1" [pb::storage::v1] [types::storage::v1]
        CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass;
}
