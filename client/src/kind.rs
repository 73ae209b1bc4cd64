//! A kind as the API client needs it: group, version, names, and the paths of its objects.

use std::borrow::Cow;

/// A kind in the version that the client uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The API version without its group, such as `v1`.
    pub version: Cow<'static, str>,
    /// The kind, such as `Pod`.
    pub kind: Cow<'static, str>,
    /// The plural name in paths.
    pub plural: Cow<'static, str>,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
}

impl Kind {
    /// The kind `Namespace`.
    pub const NAMESPACE: Self = Self::core("Namespace", "namespaces", false);
    /// The kind `ServiceAccount`.
    pub const SERVICE_ACCOUNT: Self = Self::core("ServiceAccount", "serviceaccounts", true);
    /// The kind `Secret`.
    pub const SECRET: Self = Self::core("Secret", "secrets", true);
    /// The kind `ConfigMap`.
    pub const CONFIG_MAP: Self = Self::core("ConfigMap", "configmaps", true);
    /// The kind `Event` of the core group.
    pub const EVENT: Self = Self::core("Event", "events", true);
    /// The kind `Pod`.
    pub const POD: Self = Self::core("Pod", "pods", true);
    /// The kind `Node`.
    pub const NODE: Self = Self::core("Node", "nodes", false);
    /// The kind `Service`.
    pub const SERVICE: Self = Self::core("Service", "services", true);
    /// The kind `Endpoints`, the older form of EndpointSlices.
    pub const ENDPOINTS: Self = Self::core("Endpoints", "endpoints", true);
    /// The kind `PersistentVolumeClaim`.
    pub const PERSISTENT_VOLUME_CLAIM: Self =
        Self::core("PersistentVolumeClaim", "persistentvolumeclaims", true);
    /// The kind `ResourceQuota`.
    pub const RESOURCE_QUOTA: Self = Self::core("ResourceQuota", "resourcequotas", true);
    /// The kind `ReplicationController`.
    pub const REPLICATION_CONTROLLER: Self =
        Self::core("ReplicationController", "replicationcontrollers", true);
    /// The kind `ReplicaSet`.
    pub const REPLICA_SET: Self = Self::of("apps", "ReplicaSet", "replicasets", true);
    /// The kind `DaemonSet`.
    pub const DAEMON_SET: Self = Self::of("apps", "DaemonSet", "daemonsets", true);
    /// The kind `Deployment`.
    pub const DEPLOYMENT: Self = Self::of("apps", "Deployment", "deployments", true);
    /// The kind `StatefulSet`.
    pub const STATEFUL_SET: Self = Self::of("apps", "StatefulSet", "statefulsets", true);
    /// The kind `ControllerRevision`.
    pub const CONTROLLER_REVISION: Self = Self::of("apps", "ControllerRevision", "controllerrevisions", true);
    /// The kind `Job`.
    pub const JOB: Self = Self::of("batch", "Job", "jobs", true);
    /// The kind `CronJob`.
    pub const CRON_JOB: Self = Self::of("batch", "CronJob", "cronjobs", true);
    /// The kind `HorizontalPodAutoscaler`.
    pub const HORIZONTAL_POD_AUTOSCALER: Self =
        Self::in_version("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers");
    /// The kind `PodMetrics`: the resource usage of pods.
    pub const POD_METRICS: Self = Self::in_version("metrics.k8s.io", "v1beta1", "PodMetrics", "pods");
    /// The kind `Lease`.
    pub const LEASE: Self = Self::of("coordination.k8s.io", "Lease", "leases", true);
    /// The kind `CertificateSigningRequest`.
    pub const CERTIFICATE_SIGNING_REQUEST: Self =
        Self::of("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", false);
    /// The kind `PodDisruptionBudget`.
    pub const DISRUPTION_BUDGET: Self =
        Self::of("policy", "PodDisruptionBudget", "poddisruptionbudgets", true);
    /// The kind `NetworkPolicy`.
    pub const NETWORK_POLICY: Self = Self::of("networking.k8s.io", "NetworkPolicy", "networkpolicies", true);
    /// The kind `Ingress`.
    pub const INGRESS: Self = Self::of("networking.k8s.io", "Ingress", "ingresses", true);
    /// The kind `EndpointSlice`.
    pub const ENDPOINT_SLICE: Self = Self::of("discovery.k8s.io", "EndpointSlice", "endpointslices", true);

    const fn core(kind: &'static str, plural: &'static str, namespaced: bool) -> Self {
        Self::of("", kind, plural, namespaced)
    }

    /// Creates a kind in version `v1` of its group.
    pub const fn of(group: &'static str, kind: &'static str, plural: &'static str, namespaced: bool) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed("v1"),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            namespaced,
        }
    }

    /// Creates a namespaced kind in another version than `v1`.
    const fn in_version(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            namespaced: true,
        }
    }

    /// The API version, such as `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The qualified resource name, such as `pods` or `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Whether both are the same resource, even in different versions.
    pub fn is(&self, other: &Self) -> bool {
        self.plural == other.plural && self.group == other.group
    }

    /// The path of an object. If `name` is empty, it is the path of the namespace's objects; if both are empty,
    /// that of all objects.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let mut path = match self.group.as_ref() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if self.namespaced && !namespace.is_empty() {
            path = format!("{path}/namespaces/{namespace}");
        }
        path = format!("{path}/{}", self.plural);
        if !name.is_empty() {
            path = format!("{path}/{name}");
        }
        path
    }
}

#[cfg(test)]
mod tests {
    //! Tests of API paths of kinds.
    use super::Kind;

    #[test]
    fn object_paths_equal_those_of_the_api() {
        assert_eq!(Kind::NAMESPACE.path("", "shop"), "/api/v1/namespaces/shop");
        assert_eq!(Kind::POD.path("shop", "a"), "/api/v1/namespaces/shop/pods/a");
        assert_eq!(Kind::JOB.path("", ""), "/apis/batch/v1/jobs");
        assert_eq!(
            (Kind::JOB.api_version(), Kind::JOB.qualified()),
            ("batch/v1".into(), "jobs.batch".into())
        );
    }
}
