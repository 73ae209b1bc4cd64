//! Cluster roles of controllers. Each is bound to the service account in `kube-system` that has the name of the
//! controller.

use super::{EVENTS, READ, Role, named, on, role};

const DEVICES: &str = "resource.k8s.io";

/// Name prefix of these roles.
pub(super) const PREFIX: &str = "system:controller:";

pub(super) const ROLES: &[Role] = &[
    role(
        "system:controller:attachdetach-controller",
        &[
            on("list watch", "core", "persistentvolumeclaims persistentvolumes"),
            on(READ, "core", "nodes"),
            on("patch update", "core", "nodes/status"),
            on("list watch", "core", "pods"),
            EVENTS,
            on("create delete get list watch", "storage.k8s.io", "volumeattachments"),
            on(READ, "storage.k8s.io", "csidrivers csinodes"),
        ],
    ),
    role(
        "system:controller:certificate-controller",
        &[
            on("delete get list watch", "certificates.k8s.io", "certificatesigningrequests"),
            on(
                "update",
                "certificates.k8s.io",
                "certificatesigningrequests/approval certificatesigningrequests/status",
            ),
            // Differs from stock Kubernetes: one approval covers the client and the serving certificate of a
            // node.
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
        "system:controller:device-taint-eviction-controller",
        &[
            on("delete get list watch", "core", "pods"),
            on("patch update", "core", "pods/status"),
            on(READ, DEVICES, "deviceclasses resourceclaims resourceslices"),
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
        "system:controller:ephemeral-volume-controller",
        &[
            on(READ, "core", "pods"),
            on("update", "core", "pods/finalizers"),
            on("create get list watch", "core", "persistentvolumeclaims"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:expand-controller",
        &[
            on("get list patch update watch", "core", "persistentvolumes"),
            on("patch update", "core", "persistentvolumeclaims/status"),
            on(READ, "core", "persistentvolumeclaims"),
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
        "system:controller:legacy-service-account-token-cleaner",
        &[
            named("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
            on("delete patch", "core", "secrets"),
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
        "system:controller:persistent-volume-binder",
        &[
            on("create delete get list update watch", "core", "persistentvolumes"),
            on("update", "core", "persistentvolumes/status"),
            on("get list update watch", "core", "persistentvolumeclaims"),
            on("update", "core", "persistentvolumeclaims/status"),
            on("create delete get list watch", "core", "pods"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("list watch", "core", "nodes"),
            EVENTS,
            on("watch", "core", "events"),
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
        "system:controller:pv-protection-controller",
        &[on("get list update watch", "core", "persistentvolumes"), EVENTS],
    ),
    role(
        "system:controller:pvc-protection-controller",
        &[
            on("get list update watch", "core", "persistentvolumeclaims"),
            on("update", "core", "persistentvolumeclaims/status"),
            on(READ, "core", "pods"),
            EVENTS,
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
        "system:controller:resource-claim-controller",
        &[
            on(READ, "core", "pods"),
            on("update", "core", "pods/finalizers"),
            on("create delete get list watch", DEVICES, "resourceclaims"),
            on("patch update", DEVICES, "resourceclaims resourceclaims/binding resourceclaims/status"),
            on("patch update", "core", "pods/status"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:resourcequota-controller",
        &[on("list watch", "*", "*"), on("update", "core", "resourcequotas/status"), EVENTS],
    ),
    role("system:controller:root-ca-cert-publisher", &[on("create update", "core", "configmaps"), EVENTS]),
    role(
        "system:controller:route-controller",
        &[on("list watch", "core", "nodes"), on("patch", "core", "nodes/status"), EVENTS],
    ),
    role(
        "system:controller:selinux-warning-controller",
        &[
            EVENTS,
            on(READ, "core", "persistentvolumeclaims persistentvolumes pods"),
            on(READ, "storage.k8s.io", "csidrivers"),
        ],
    ),
    role("system:controller:service-account-controller", &[on("create", "core", "serviceaccounts"), EVENTS]),
    role(
        "system:controller:service-cidrs-controller",
        &[
            on("get list patch update watch", "networking.k8s.io", "servicecidrs"),
            on("patch update", "networking.k8s.io", "servicecidrs/finalizers servicecidrs/status"),
            on(READ, "networking.k8s.io", "ipaddresses"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:service-controller",
        &[
            on(READ, "core", "services"),
            on("patch update", "core", "services/status"),
            on("list watch", "core", "nodes"),
            EVENTS,
        ],
    ),
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
    role("system:controller:ttl-controller", &[on("list patch update watch", "core", "nodes"), EVENTS]),
    role(
        "system:controller:validatingadmissionpolicy-status-controller",
        &[
            on(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
            on("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:volumeattributesclass-protection-controller",
        &[
            on(READ, "core", "persistentvolumeclaims persistentvolumes"),
            on("get list update watch", "storage.k8s.io", "volumeattributesclasses"),
            EVENTS,
        ],
    ),
];
