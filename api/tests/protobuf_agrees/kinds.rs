//! Every kind, with the struct that k8s-pb has for it and the type that k8s-openapi has.

use serde_json::Value;

/// A kind and its two other forms.
pub struct Known {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// Decodes a message with k8s-pb and encodes it again.
    pub through_k8s_pb: fn(&[u8]) -> Result<Vec<u8>, prost::DecodeError>,
    /// Reads JSON into the type of k8s-openapi and writes it again.
    pub through_k8s_openapi: fn(Value) -> serde_json::Result<Value>,
}

fn through<T: serde::de::DeserializeOwned + serde::Serialize>(value: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<T>(value)?)
}

macro_rules! known {
    ($($api_version:literal $kind:literal $message:ty, $of:ty;)*) => {
        /// All of them.
        pub fn all() -> Vec<Known> {
            vec![$(Known {
                api_version: $api_version,
                kind: $kind,
                through_k8s_pb: crate::through::<$message>,
                through_k8s_openapi: through::<$of>,
            }),*]
        }
    };
}

use k8s_openapi::List;
use k8s_openapi::api as types;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extension_types;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_types;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as registration_types;
use k8s_pb::api as pb;
use k8s_pb::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extension_pb;
use k8s_pb::apimachinery::pkg::apis::meta::v1 as meta_pb;
use k8s_pb::kube_aggregator::pkg::apis::apiregistration::v1 as registration_pb;

known! {
    "admissionregistration.k8s.io/v1" "MutatingAdmissionPolicy" pb::admissionregistration::v1beta1::MutatingAdmissionPolicy, types::admissionregistration::v1::MutatingAdmissionPolicy;
    "admissionregistration.k8s.io/v1" "MutatingAdmissionPolicyBinding" pb::admissionregistration::v1beta1::MutatingAdmissionPolicyBinding, types::admissionregistration::v1::MutatingAdmissionPolicyBinding;
    "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" pb::admissionregistration::v1::MutatingWebhookConfiguration, types::admissionregistration::v1::MutatingWebhookConfiguration;
    "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" pb::admissionregistration::v1::ValidatingAdmissionPolicy, types::admissionregistration::v1::ValidatingAdmissionPolicy;
    "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicyBinding" pb::admissionregistration::v1::ValidatingAdmissionPolicyBinding, types::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
    "admissionregistration.k8s.io/v1" "ValidatingWebhookConfiguration" pb::admissionregistration::v1::ValidatingWebhookConfiguration, types::admissionregistration::v1::ValidatingWebhookConfiguration;
    "apiextensions.k8s.io/v1" "CustomResourceDefinition" extension_pb::CustomResourceDefinition, extension_types::CustomResourceDefinition;
    "apiregistration.k8s.io/v1" "APIService" registration_pb::APIService, registration_types::APIService;
    "apps/v1" "ControllerRevision" pb::apps::v1::ControllerRevision, types::apps::v1::ControllerRevision;
    "apps/v1" "DaemonSet" pb::apps::v1::DaemonSet, types::apps::v1::DaemonSet;
    "apps/v1" "Deployment" pb::apps::v1::Deployment, types::apps::v1::Deployment;
    "apps/v1" "ReplicaSet" pb::apps::v1::ReplicaSet, types::apps::v1::ReplicaSet;
    "apps/v1" "StatefulSet" pb::apps::v1::StatefulSet, types::apps::v1::StatefulSet;
    "authentication.k8s.io/v1" "SelfSubjectReview" pb::authentication::v1::SelfSubjectReview, types::authentication::v1::SelfSubjectReview;
    "authentication.k8s.io/v1" "TokenRequest" pb::authentication::v1::TokenRequest, types::authentication::v1::TokenRequest;
    "authentication.k8s.io/v1" "TokenReview" pb::authentication::v1::TokenReview, types::authentication::v1::TokenReview;
    "authorization.k8s.io/v1" "LocalSubjectAccessReview" pb::authorization::v1::LocalSubjectAccessReview, types::authorization::v1::LocalSubjectAccessReview;
    "authorization.k8s.io/v1" "SelfSubjectAccessReview" pb::authorization::v1::SelfSubjectAccessReview, types::authorization::v1::SelfSubjectAccessReview;
    "authorization.k8s.io/v1" "SelfSubjectRulesReview" pb::authorization::v1::SelfSubjectRulesReview, types::authorization::v1::SelfSubjectRulesReview;
    "authorization.k8s.io/v1" "SubjectAccessReview" pb::authorization::v1::SubjectAccessReview, types::authorization::v1::SubjectAccessReview;
    "autoscaling/v1" "HorizontalPodAutoscaler" pb::autoscaling::v1::HorizontalPodAutoscaler, types::autoscaling::v1::HorizontalPodAutoscaler;
    "autoscaling/v1" "Scale" pb::autoscaling::v1::Scale, types::autoscaling::v1::Scale;
    "autoscaling/v2" "HorizontalPodAutoscaler" pb::autoscaling::v2::HorizontalPodAutoscaler, types::autoscaling::v2::HorizontalPodAutoscaler;
    "batch/v1" "CronJob" pb::batch::v1::CronJob, types::batch::v1::CronJob;
    "batch/v1" "Job" pb::batch::v1::Job, types::batch::v1::Job;
    "certificates.k8s.io/v1" "CertificateSigningRequest" pb::certificates::v1::CertificateSigningRequest, types::certificates::v1::CertificateSigningRequest;
    "certificates.k8s.io/v1" "ClusterTrustBundle" pb::certificates::v1beta1::ClusterTrustBundle, types::certificates::v1::ClusterTrustBundle;
    "certificates.k8s.io/v1" "PodCertificateRequest" pb::certificates::v1beta1::PodCertificateRequest, types::certificates::v1::PodCertificateRequest;
    "coordination.k8s.io/v1" "Lease" pb::coordination::v1::Lease, types::coordination::v1::Lease;
    "v1" "Binding" pb::core::v1::Binding, types::core::v1::Binding;
    "v1" "ComponentStatus" pb::core::v1::ComponentStatus, types::core::v1::ComponentStatus;
    "v1" "ConfigMap" pb::core::v1::ConfigMap, types::core::v1::ConfigMap;
    "v1" "Endpoints" pb::core::v1::Endpoints, types::core::v1::Endpoints;
    "v1" "Event" pb::core::v1::Event, types::core::v1::Event;
    "v1" "LimitRange" pb::core::v1::LimitRange, types::core::v1::LimitRange;
    "v1" "Namespace" pb::core::v1::Namespace, types::core::v1::Namespace;
    "v1" "Node" pb::core::v1::Node, types::core::v1::Node;
    "v1" "PersistentVolume" pb::core::v1::PersistentVolume, types::core::v1::PersistentVolume;
    "v1" "PersistentVolumeClaim" pb::core::v1::PersistentVolumeClaim, types::core::v1::PersistentVolumeClaim;
    "v1" "Pod" pb::core::v1::Pod, types::core::v1::Pod;
    "v1" "PodList" pb::core::v1::PodList, List<types::core::v1::Pod>;
    "v1" "PodTemplate" pb::core::v1::PodTemplate, types::core::v1::PodTemplate;
    "v1" "ReplicationController" pb::core::v1::ReplicationController, types::core::v1::ReplicationController;
    "v1" "ResourceQuota" pb::core::v1::ResourceQuota, types::core::v1::ResourceQuota;
    "v1" "Secret" pb::core::v1::Secret, types::core::v1::Secret;
    "v1" "SecretList" pb::core::v1::SecretList, List<types::core::v1::Secret>;
    "v1" "Service" pb::core::v1::Service, types::core::v1::Service;
    "v1" "ServiceAccount" pb::core::v1::ServiceAccount, types::core::v1::ServiceAccount;
    "discovery.k8s.io/v1" "EndpointSlice" pb::discovery::v1::EndpointSlice, types::discovery::v1::EndpointSlice;
    "events.k8s.io/v1" "Event" pb::events::v1::Event, types::events::v1::Event;
    "flowcontrol.apiserver.k8s.io/v1" "FlowSchema" pb::flowcontrol::v1::FlowSchema, types::flowcontrol::v1::FlowSchema;
    "flowcontrol.apiserver.k8s.io/v1" "PriorityLevelConfiguration" pb::flowcontrol::v1::PriorityLevelConfiguration, types::flowcontrol::v1::PriorityLevelConfiguration;
    "v1" "DeleteOptions" meta_pb::DeleteOptions, meta_types::DeleteOptions;
    "v1" "Status" meta_pb::Status, meta_types::Status;
    "networking.k8s.io/v1" "IPAddress" pb::networking::v1::IPAddress, types::networking::v1::IPAddress;
    "networking.k8s.io/v1" "Ingress" pb::networking::v1::Ingress, types::networking::v1::Ingress;
    "networking.k8s.io/v1" "IngressClass" pb::networking::v1::IngressClass, types::networking::v1::IngressClass;
    "networking.k8s.io/v1" "NetworkPolicy" pb::networking::v1::NetworkPolicy, types::networking::v1::NetworkPolicy;
    "networking.k8s.io/v1" "ServiceCIDR" pb::networking::v1::ServiceCIDR, types::networking::v1::ServiceCIDR;
    "node.k8s.io/v1" "RuntimeClass" pb::node::v1::RuntimeClass, types::node::v1::RuntimeClass;
    "policy/v1" "Eviction" pb::policy::v1::Eviction, types::policy::v1::Eviction;
    "policy/v1" "PodDisruptionBudget" pb::policy::v1::PodDisruptionBudget, types::policy::v1::PodDisruptionBudget;
    "rbac.authorization.k8s.io/v1" "ClusterRole" pb::rbac::v1::ClusterRole, types::rbac::v1::ClusterRole;
    "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" pb::rbac::v1::ClusterRoleBinding, types::rbac::v1::ClusterRoleBinding;
    "rbac.authorization.k8s.io/v1" "Role" pb::rbac::v1::Role, types::rbac::v1::Role;
    "rbac.authorization.k8s.io/v1" "RoleBinding" pb::rbac::v1::RoleBinding, types::rbac::v1::RoleBinding;
    "resource.k8s.io/v1" "DeviceClass" pb::resource::v1::DeviceClass, types::resource::v1::DeviceClass;
    "resource.k8s.io/v1" "ResourceClaim" pb::resource::v1::ResourceClaim, types::resource::v1::ResourceClaim;
    "resource.k8s.io/v1" "ResourceClaimTemplate" pb::resource::v1::ResourceClaimTemplate, types::resource::v1::ResourceClaimTemplate;
    "resource.k8s.io/v1" "ResourceSlice" pb::resource::v1::ResourceSlice, types::resource::v1::ResourceSlice;
    "scheduling.k8s.io/v1" "PriorityClass" pb::scheduling::v1::PriorityClass, types::scheduling::v1::PriorityClass;
    "storage.k8s.io/v1" "CSIDriver" pb::storage::v1::CSIDriver, types::storage::v1::CSIDriver;
    "storage.k8s.io/v1" "CSINode" pb::storage::v1::CSINode, types::storage::v1::CSINode;
    "storage.k8s.io/v1" "CSIStorageCapacity" pb::storage::v1::CSIStorageCapacity, types::storage::v1::CSIStorageCapacity;
    "storage.k8s.io/v1" "StorageClass" pb::storage::v1::StorageClass, types::storage::v1::StorageClass;
    "storage.k8s.io/v1" "VolumeAttachment" pb::storage::v1::VolumeAttachment, types::storage::v1::VolumeAttachment;
    "storage.k8s.io/v1" "VolumeAttributesClass" pb::storage::v1::VolumeAttributesClass, types::storage::v1::VolumeAttributesClass;
}
