//! Roles of controllers: each for the service account of that name in `kube-system`.

use super::{EVENTS, READ, Role, named, on, role};

/// What their names begin with.
pub(super) const PREFIX: &str = "system:controller:";

pub(super) const ROLES: &[Role] = &[
    role(
        "system:controller:certificate-controller",
        &[
            on("delete get list watch", "certificates.k8s.io", "certificatesigningrequests"),
            on(
                "update",
                "certificates.k8s.io",
                "certificatesigningrequests/approval certificatesigningrequests/status",
            ),
            // The second not as in the stock server: one approval covers both certificates of a node.
            named(
                "approve",
                "certificates.k8s.io",
                "signers",
                "kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving",
            ),
            named(
                "sign",
                "certificates.k8s.io",
                "signers",
                "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet \
                 kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown",
            ),
            on("create", "authorization.k8s.io", "subjectaccessreviews"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:clusterrole-aggregation-controller",
        &[on("escalate get list patch update watch", "rbac.authorization.k8s.io", "clusterroles")],
    ),
    role(
        "system:controller:cronjob-controller",
        &[
            on("get list update watch", "batch", "cronjobs"),
            on("create delete get list patch update watch", "batch", "jobs"),
            on("update", "batch", "cronjobs/status"),
            on("update", "batch", "cronjobs/finalizers"),
            on("delete list watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:daemon-set-controller",
        &[
            on(READ, "apps extensions", "daemonsets"),
            on("update", "apps extensions", "daemonsets/status"),
            on("update", "apps extensions", "daemonsets/finalizers"),
            on("list watch", "core", "nodes"),
            on("create delete list patch watch", "core", "pods"),
            on("create", "core", "pods/binding"),
            on("create delete get list patch update watch", "apps", "controllerrevisions"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:deployment-controller",
        &[
            on("get list update watch", "apps extensions", "deployments"),
            on("update", "apps extensions", "deployments/status"),
            on("update", "apps extensions", "deployments/finalizers"),
            on("create delete get list patch update watch", "apps extensions", "replicasets"),
            on("get list update watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:disruption-controller",
        &[
            on(READ, "apps extensions", "deployments"),
            on(READ, "apps extensions", "replicasets"),
            on(READ, "core", "replicationcontrollers"),
            on(READ, "policy", "poddisruptionbudgets"),
            on(READ, "apps", "statefulsets"),
            on("update", "policy", "poddisruptionbudgets/status"),
            on("patch update", "core", "pods/status"),
            on("get", "*", "*/scale"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:endpoint-controller",
        &[
            on(READ, "core", "pods services"),
            on("create delete get list update watch", "core", "endpoints"),
            on("create", "core", "endpoints/restricted"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:endpointslice-controller",
        &[
            on(READ, "core", "nodes pods services"),
            on("update", "core", "services/finalizers"),
            on("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:endpointslicemirroring-controller",
        &[
            on(READ, "core", "endpoints services"),
            on("update", "core", "services/finalizers"),
            on("update", "core", "endpoints/finalizers"),
            on("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:generic-garbage-collector",
        &[on("delete get list patch update watch", "*", "*"), EVENTS],
    ),
    role(
        "system:controller:horizontal-pod-autoscaler",
        &[
            on(READ, "autoscaling", "horizontalpodautoscalers"),
            on("update", "autoscaling", "horizontalpodautoscalers/status"),
            on("get update", "*", "*/scale"),
            on("list watch", "core", "pods"),
            on("list watch", "metrics.k8s.io", "pods"),
            on(READ, "custom.metrics.k8s.io", "*"),
            on(READ, "external.metrics.k8s.io", "*"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:job-controller",
        &[
            on("get list patch update watch", "batch", "jobs"),
            on("update", "batch", "jobs/status"),
            on("update", "batch", "jobs/finalizers"),
            on("create delete list patch watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:namespace-controller",
        &[
            on("delete get list watch", "core", "namespaces"),
            on("update", "core", "namespaces/finalize namespaces/status"),
            on("delete deletecollection get list watch", "*", "*"),
        ],
    ),
    role(
        "system:controller:node-controller",
        &[
            on("delete get list patch update watch", "core", "nodes"),
            on("patch update", "core", "nodes/status"),
            on("patch update", "core", "pods/status"),
            on("delete get list watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:pod-garbage-collector",
        &[
            on("delete list watch", "core", "pods"),
            on(READ, "core", "nodes"),
            on("patch", "core", "pods/status"),
        ],
    ),
    role(
        "system:controller:replicaset-controller",
        &[
            on("get list update watch", "apps extensions", "replicasets"),
            on("update", "apps extensions", "replicasets/status"),
            on("update", "apps extensions", "replicasets/finalizers"),
            on("create delete list patch watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:replication-controller",
        &[
            on("get list update watch", "core", "replicationcontrollers"),
            on("update", "core", "replicationcontrollers/status"),
            on("update", "core", "replicationcontrollers/finalizers"),
            on("create delete list patch watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:resourcequota-controller",
        &[on("list watch", "*", "*"), on("update", "core", "resourcequotas/status"), EVENTS],
    ),
    role("system:controller:root-ca-cert-publisher", &[on("create update", "core", "configmaps"), EVENTS]),
    role("system:controller:service-account-controller", &[on("create", "core", "serviceaccounts"), EVENTS]),
    role(
        "system:controller:statefulset-controller",
        &[
            on("list watch", "core", "pods"),
            on(READ, "apps", "statefulsets"),
            on("update", "apps", "statefulsets/status"),
            on("update", "apps", "statefulsets/finalizers"),
            on("create delete get patch update", "core", "pods"),
            on("create delete get list patch update watch", "apps", "controllerrevisions"),
            on("create get list watch", "core", "persistentvolumeclaims"),
            on("delete update", "core", "persistentvolumeclaims"),
            on("update", "core", "pods/finalizers"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:ttl-after-finished-controller",
        &[on("delete get list watch", "batch", "jobs"), EVENTS],
    ),
];
