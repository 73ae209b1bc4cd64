//! User-facing cluster roles: `cluster-admin`, `admin`, `edit` and `view`.

use super::{Binding, Line, READ, READ_WRITE, Role, WRITE, on, paths, role, to_groups};

const fn part(name: &'static str, part_of: &'static str, rules: &'static [Line]) -> Role {
    Role { part_of, ..role(name, rules) }
}

const fn aggregated(name: &'static str, part_of: &'static str) -> Role {
    Role { part_of, is_aggregated: true, ..role(name, &[]) }
}

pub(super) const ROLES: &[Role] = &[
    role("cluster-admin", &[on("*", "*", "*"), paths("*", "*")]),
    aggregated("admin", ""),
    aggregated("edit", "admin"),
    aggregated("view", "edit"),
    part(
        "system:aggregate-to-admin",
        "admin",
        &[
            on("create", "authorization.k8s.io", "localsubjectaccessreviews"),
            on(READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
        ],
    ),
    part(
        "system:aggregate-to-edit",
        "edit",
        &[
            on(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
            on("impersonate", "core", "serviceaccounts"),
            on(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
            on("create", "core", "pods/eviction"),
            on(
                WRITE,
                "core",
                "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
                 serviceaccounts services services/proxy",
            ),
            on("create", "core", "serviceaccounts/token"),
            on(
                WRITE,
                "apps",
                "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets \
                 statefulsets/scale",
            ),
            on(WRITE, "autoscaling", "horizontalpodautoscalers"),
            on(WRITE, "batch", "cronjobs jobs"),
            on(
                WRITE,
                "extensions",
                "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets \
                 replicasets/scale replicationcontrollers/scale",
            ),
            on(WRITE, "policy", "poddisruptionbudgets"),
            on(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
            on(READ_WRITE, "coordination.k8s.io", "leases"),
            on(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
        ],
    ),
    // In stock clusters the metrics server installs this role.
    part("system:aggregated-metrics-reader", "view", &[on(READ, "metrics.k8s.io", "nodes pods")]),
    part(
        "system:aggregate-to-view",
        "view",
        &[
            on(
                READ,
                "core",
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
                 replicationcontrollers/scale serviceaccounts services services/status",
            ),
            on(
                READ,
                "core",
                "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
                 resourcequotas resourcequotas/status",
            ),
            on(READ, "core", "namespaces"),
            on(READ, "discovery.k8s.io", "endpointslices"),
            on(
                READ,
                "apps",
                "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status \
                 replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
            ),
            on(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            on(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
            on(
                READ,
                "extensions",
                "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status \
                 networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
            ),
            on(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            on(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
            on(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
        ],
    ),
];

pub(super) const BINDINGS: &[Binding] = &[to_groups("cluster-admin", "system:masters")];
