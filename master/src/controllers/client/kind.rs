//! What a client needs to know of a kind: its names, and where its objects are.

use std::borrow::Cow;

/// One kind in the version a client speaks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for the core one.
    pub group: Cow<'static, str>,
    /// Version.
    pub version: Cow<'static, str>,
    /// Kind.
    pub kind: Cow<'static, str>,
    /// Name in paths.
    pub plural: Cow<'static, str>,
    /// Objects lie in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// Namespaces.
    pub const NAMESPACE: Self = Self::core("Namespace", "namespaces", false);
    /// Service accounts.
    pub const SERVICE_ACCOUNT: Self = Self::core("ServiceAccount", "serviceaccounts", true);
    /// Secrets.
    pub const SECRET: Self = Self::core("Secret", "secrets", true);
    /// Configuration.
    pub const CONFIG_MAP: Self = Self::core("ConfigMap", "configmaps", true);
    /// Events.
    pub const EVENT: Self = Self::core("Event", "events", true);
    /// Pods.
    pub const POD: Self = Self::core("Pod", "pods", true);
    /// Nodes.
    pub const NODE: Self = Self::core("Node", "nodes", false);
    /// Services.
    pub const SERVICE: Self = Self::core("Service", "services", true);
    /// What stands behind a service, in one object.
    pub const ENDPOINTS: Self = Self::core("Endpoints", "endpoints", true);
    /// Quotas.
    pub const RESOURCE_QUOTA: Self = Self::core("ResourceQuota", "resourcequotas", true);
    /// Jobs.
    pub const JOB: Self = Self::of("batch", "Job", "jobs", true);
    /// Who holds what for how long.
    pub const LEASE: Self = Self::of("coordination.k8s.io", "Lease", "leases", true);
    /// How many pods may be disrupted.
    pub const DISRUPTION_BUDGET: Self =
        Self::of("policy", "PodDisruptionBudget", "poddisruptionbudgets", true);
    /// A part of what stands behind a service.
    pub const ENDPOINT_SLICE: Self = Self::of("discovery.k8s.io", "EndpointSlice", "endpointslices", true);

    const fn core(kind: &'static str, plural: &'static str, namespaced: bool) -> Self {
        Self::of("", kind, plural, namespaced)
    }

    /// A kind in version `v1` of its group.
    pub const fn of(group: &'static str, kind: &'static str, plural: &'static str, namespaced: bool) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed("v1"),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            namespaced,
        }
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `pods` or `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// True for that resource, whatever the version.
    pub fn is(&self, other: &Self) -> bool {
        self.plural == other.plural && self.group == other.group
    }

    /// The path of an object, or of all in a namespace, or of all.
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
    //! Paths.
    use super::Kind;

    #[test]
    fn objects_are_where_clients_look() {
        assert_eq!(Kind::NAMESPACE.path("", "shop"), "/api/v1/namespaces/shop");
        assert_eq!(Kind::POD.path("shop", "a"), "/api/v1/namespaces/shop/pods/a");
        assert_eq!(Kind::JOB.path("", ""), "/apis/batch/v1/jobs");
        assert_eq!(
            (Kind::JOB.api_version(), Kind::JOB.qualified()),
            ("batch/v1".into(), "jobs.batch".into())
        );
    }
}
