//! System cluster roles: discovery, nodes, scheduler, controller manager and monitoring.

use super::{Binding, EVENTS, READ, Role, Rule, named, on, paths, role, rule, to_groups, to_users};

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";

const NODE: &str = "system:node";

/// Rules of role `system:node`.
pub(super) fn node_rules() -> Vec<Rule> {
    let of_node = ROLES.iter().filter(|role| role.name == NODE);
    of_node.flat_map(|role| role.rules.iter().map(rule)).collect()
}

pub(super) const ROLES: &[Role] = &[
    role(
        "system:basic-user",
        &[
            on("create", AUTHORIZATION, "selfsubjectaccessreviews selfsubjectrulesreviews"),
            on("create", AUTHENTICATION, "selfsubjectreviews"),
        ],
    ),
    role(
        "system:discovery",
        &[paths(
            "get",
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
        )],
    ),
    role("system:public-info-viewer", &[paths("get", "/healthz /livez /readyz /version /version/")]),
    // Not in stock Kubernetes: lets unauthenticated nodes read cluster-info before they trust a CA.
    role("system:bootstrap-info-viewer", &[paths("get", "/bootstrap/v1/cluster-info")]),
    role(
        "system:monitoring",
        &[paths("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*")],
    ),
    role(
        "system:service-account-issuer-discovery",
        &[paths(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
    role(
        "system:auth-delegator",
        &[on("create", AUTHENTICATION, "tokenreviews"), on("create", AUTHORIZATION, "subjectaccessreviews")],
    ),
    role(
        "system:heapster",
        &[on(READ, "core", "events namespaces nodes pods"), on(READ, "extensions", "deployments")],
    ),
    role("system:kube-aggregator", &[on(READ, "core", "endpoints services")]),
    role(
        "system:kube-dns",
        &[
            on("list watch", "core", "endpoints services"),
            on("list watch", "discovery.k8s.io", "endpointslices"),
        ],
    ),
    role(
        NODE,
        &[
            on("create", AUTHENTICATION, "tokenreviews"),
            on("create", AUTHORIZATION, "localsubjectaccessreviews subjectaccessreviews"),
            on(READ, "core", "services"),
            on("create get list watch", "core", "nodes"),
            on("patch update", "core", "nodes/status"),
            on("patch update", "core", "nodes"),
            on("create patch update", "core events.k8s.io", "events"),
            on(READ, "core", "pods"),
            on("create delete", "core", "pods"),
            on("patch update", "core", "pods/status"),
            on("create", "core", "pods/eviction"),
            on(READ, "core", "configmaps secrets"),
            on("get", "core", "persistentvolumeclaims persistentvolumes"),
            on("get", "core", "endpoints"),
            on("create get list watch", CERTIFICATES, REQUESTS),
            on("create delete get patch update", "coordination.k8s.io", "leases"),
            on("get", "storage.k8s.io", "volumeattachments"),
            on("create", "core", "serviceaccounts/token"),
            on("get patch update", "core", "persistentvolumeclaims/status"),
            on(READ, "storage.k8s.io", "csidrivers"),
            on("create delete get patch update", "storage.k8s.io", "csinodes"),
            on(READ, "node.k8s.io", "runtimeclasses"),
            on("get", "resource.k8s.io", "resourceclaims"),
            on("deletecollection", "resource.k8s.io", "resourceslices"),
            on("get", "core", "serviceaccounts"),
        ],
    ),
    role("system:node-bootstrapper", &[on("create get list watch", CERTIFICATES, REQUESTS)]),
    // Not in stock Kubernetes: lets a joining machine create its certificate request and poll the result.
    role("system:node-requester", &[on("create get", CERTIFICATES, REQUESTS)]),
    role(
        "system:node-proxier",
        &[
            on("list watch", "core", "endpoints services"),
            on(READ, "core", "nodes"),
            EVENTS,
            on("list watch", "discovery.k8s.io", "endpointslices"),
            on("list watch", "networking.k8s.io", "servicecidrs"),
        ],
    ),
    role(
        "system:node-problem-detector",
        &[on("get", "core", "nodes"), on("patch", "core", "nodes/status"), EVENTS],
    ),
    role(
        "system:kubelet-api-admin",
        &[
            on(READ, "core", "nodes"),
            on("proxy", "core", "nodes"),
            on(
                "*",
                "core",
                "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats",
            ),
        ],
    ),
    role(
        "system:kube-controller-manager",
        &[
            EVENTS,
            on("create", "coordination.k8s.io", "leases"),
            named("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
            on("create", "core", "secrets serviceaccounts"),
            on("delete", "core", "secrets"),
            on("get", "core", "configmaps namespaces secrets serviceaccounts"),
            on("update", "core", "secrets serviceaccounts"),
            on("create", AUTHENTICATION, "tokenreviews"),
            on("create", AUTHORIZATION, "subjectaccessreviews"),
            on("list watch", "*", "*"),
            on("create", "core", "serviceaccounts/token"),
        ],
    ),
    role(
        "system:kube-scheduler",
        &[
            EVENTS,
            on("create", "coordination.k8s.io", "leases"),
            on("list watch", "coordination.k8s.io", "leases"),
            named("get update", "coordination.k8s.io", "leases", "kube-scheduler"),
            on(READ, "core", "nodes"),
            on("delete get list watch", "core", "pods"),
            on("create", "core", "bindings pods/binding"),
            on("patch update", "core", "pods/status"),
            on(READ, "core", "replicationcontrollers services"),
            on(READ, "apps extensions", "replicasets"),
            on(READ, "apps", "statefulsets"),
            on(READ, "policy", "poddisruptionbudgets"),
            on(READ, "core", "persistentvolumeclaims persistentvolumes"),
            on("create", AUTHENTICATION, "tokenreviews"),
            on("create", AUTHORIZATION, "subjectaccessreviews"),
            on(READ, "storage.k8s.io", "csinodes csidrivers csistoragecapacities volumeattachments"),
            on(READ, "core", "namespaces"),
            on(READ, "resource.k8s.io", "deviceclasses resourceslices"),
            on("get list patch update watch", "resource.k8s.io", "resourceclaims resourceclaims/status"),
            on("patch update", "resource.k8s.io", "resourceclaims/binding"),
            on("get list patch update watch", "core", "pods/finalizers"),
        ],
    ),
    role(
        "system:volume-scheduler",
        &[
            on("get list patch update watch", "core", "persistentvolumes"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("get list patch update watch", "core", "persistentvolumeclaims"),
        ],
    ),
    role(
        "system:persistent-volume-provisioner",
        &[
            on("create delete get list watch", "core", "persistentvolumes"),
            on("get list update watch", "core", "persistentvolumeclaims"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("watch", "core", "events"),
            EVENTS,
        ],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[on("create", CERTIFICATES, "certificatesigningrequests/nodeclient")],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[on("create", CERTIFICATES, "certificatesigningrequests/selfnodeclient")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[named("approve", CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[named("approve", CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client-kubelet")],
    ),
    role(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[named("approve", CERTIFICATES, "signers", "kubernetes.io/kubelet-serving")],
    ),
    role(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[named("approve", CERTIFICATES, "signers", "kubernetes.io/legacy-unknown")],
    ),
];

pub(super) const BINDINGS: &[Binding] = &[
    to_groups("system:basic-user", "system:authenticated"),
    to_groups("system:discovery", "system:authenticated"),
    to_groups("system:public-info-viewer", "system:authenticated system:unauthenticated"),
    to_groups("system:bootstrap-info-viewer", "system:authenticated system:unauthenticated"),
    to_groups("system:node-requester", "system:unauthenticated"),
    // Created by kubeadm in stock clusters. The second group is `identity::BESIDE_MASTER`.
    to_groups("system:node-bootstrapper", "system:bootstrappers coracle:beside-master"),
    to_groups("system:monitoring", "system:monitoring"),
    to_groups("system:service-account-issuer-discovery", "system:serviceaccounts"),
    // Bound to no subject, as in stock Kubernetes: RBAC cannot restrict a node to the Secrets of its pods,
    // the node authorizer can.
    to_groups(NODE, ""),
    to_users("system:node-proxier", "system:kube-proxy"),
    to_users("system:kube-controller-manager", "system:kube-controller-manager"),
    Binding { accounts: "kube-dns", ..to_users("system:kube-dns", "") },
    to_users("system:kube-scheduler", "system:kube-scheduler"),
    to_users("system:volume-scheduler", "system:kube-scheduler"),
];
