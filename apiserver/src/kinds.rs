//! The kinds of Kubernetes that a master serves, a row each.
//!
//! A kind without a strategy of its own is stored, listed, watched and printed as it is.

use api::table;

use crate::resource::{Resource, Subresource};

/// What may be done with a kind that is written by clients.
const ALL: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const STATUS: &[Subresource] = &[status("")];

const fn status(kind: &'static str) -> Subresource {
    Subresource { name: "status", kind, verbs: &["get", "patch", "update"] }
}

const fn row(
    (group, version): (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short_names: &'static [&'static str],
) -> Resource {
    Resource {
        group,
        version,
        kind,
        plural,
        singular,
        namespaced: true,
        short_names,
        categories: &[],
        verbs: ALL,
        subresources: &[],
        fields: &[],
        columns: table::NAME_AND_AGE,
        owner: |_| String::new(),
    }
}

/// A kind whose objects have a status.
const fn with_status(row: Resource) -> Resource {
    Resource { subresources: STATUS, ..row }
}

/// A kind that `kubectl get all` shows.
const fn in_all(row: Resource) -> Resource {
    Resource { categories: &["all"], ..row }
}

/// A kind that lies in no namespace.
const fn cluster(row: Resource) -> Resource {
    Resource { namespaced: false, ..row }
}

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const NET: (&str, &str) = ("networking.k8s.io", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");

/// Everything that is served.
pub const KINDS: &[Resource] = &[
    Resource {
        fields: &["status.phase"],
        columns: table::NAMESPACES,
        ..cluster(with_status(row(CORE, "Namespace", "namespaces", "namespace", &["ns"])))
    },
    Resource {
        fields: &["spec.unschedulable"],
        columns: table::NODES,
        ..cluster(with_status(row(CORE, "Node", "nodes", "node", &["no"])))
    },
    Resource {
        fields: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.hostNetwork",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        columns: table::PODS,
        ..in_all(with_status(row(CORE, "Pod", "pods", "pod", &["po"])))
    },
    Resource { columns: table::CONFIG_MAPS, ..row(CORE, "ConfigMap", "configmaps", "configmap", &["cm"]) },
    Resource { fields: &["type"], columns: table::SECRETS, ..row(CORE, "Secret", "secrets", "secret", &[]) },
    Resource {
        columns: table::SERVICE_ACCOUNTS,
        ..row(CORE, "ServiceAccount", "serviceaccounts", "serviceaccount", &["sa"])
    },
    Resource {
        columns: table::SERVICES,
        ..in_all(with_status(row(CORE, "Service", "services", "service", &["svc"])))
    },
    Resource { columns: table::ENDPOINTS, ..row(CORE, "Endpoints", "endpoints", "endpoints", &["ep"]) },
    Resource {
        fields: &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        columns: table::EVENTS,
        ..row(CORE, "Event", "events", "event", &["ev"])
    },
    Resource {
        columns: table::REPLICATION_CONTROLLERS,
        ..in_all(with_status(row(
            CORE,
            "ReplicationController",
            "replicationcontrollers",
            "replicationcontroller",
            &["rc"],
        )))
    },
    Resource {
        columns: table::POD_TEMPLATES,
        ..row(CORE, "PodTemplate", "podtemplates", "podtemplate", &[])
    },
    Resource {
        columns: table::NAME_AND_CREATED,
        ..row(CORE, "LimitRange", "limitranges", "limitrange", &["limits"])
    },
    Resource {
        columns: table::RESOURCE_QUOTAS,
        ..with_status(row(CORE, "ResourceQuota", "resourcequotas", "resourcequota", &["quota"]))
    },
    Resource {
        columns: table::VOLUMES,
        ..cluster(with_status(row(
            CORE,
            "PersistentVolume",
            "persistentvolumes",
            "persistentvolume",
            &["pv"],
        )))
    },
    Resource {
        columns: table::VOLUME_CLAIMS,
        ..with_status(row(
            CORE,
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            "persistentvolumeclaim",
            &["pvc"],
        ))
    },
    Resource {
        columns: table::DEPLOYMENTS,
        ..in_all(with_status(row(APPS, "Deployment", "deployments", "deployment", &["deploy"])))
    },
    Resource {
        columns: table::REPLICA_SETS,
        ..in_all(with_status(row(APPS, "ReplicaSet", "replicasets", "replicaset", &["rs"])))
    },
    Resource {
        columns: table::STATEFUL_SETS,
        ..in_all(with_status(row(APPS, "StatefulSet", "statefulsets", "statefulset", &["sts"])))
    },
    Resource {
        columns: table::DAEMON_SETS,
        ..in_all(with_status(row(APPS, "DaemonSet", "daemonsets", "daemonset", &["ds"])))
    },
    Resource {
        columns: table::CONTROLLER_REVISIONS,
        ..row(APPS, "ControllerRevision", "controllerrevisions", "controllerrevision", &[])
    },
    Resource { columns: table::JOBS, ..in_all(with_status(row(BATCH, "Job", "jobs", "job", &[]))) },
    Resource {
        columns: table::CRON_JOBS,
        ..in_all(with_status(row(BATCH, "CronJob", "cronjobs", "cronjob", &["cj"])))
    },
    Resource {
        columns: table::LEASES,
        ..row(("coordination.k8s.io", "v1"), "Lease", "leases", "lease", &[])
    },
    Resource {
        columns: table::ENDPOINT_SLICES,
        ..row(("discovery.k8s.io", "v1"), "EndpointSlice", "endpointslices", "endpointslice", &[])
    },
    Resource {
        columns: table::DISRUPTION_BUDGETS,
        ..with_status(row(
            ("policy", "v1"),
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            "poddisruptionbudget",
            &["pdb"],
        ))
    },
    Resource {
        columns: table::INGRESSES,
        ..with_status(row(NET, "Ingress", "ingresses", "ingress", &["ing"]))
    },
    Resource {
        columns: table::INGRESS_CLASSES,
        ..cluster(row(NET, "IngressClass", "ingressclasses", "ingressclass", &[]))
    },
    Resource {
        columns: table::NETWORK_POLICIES,
        ..row(NET, "NetworkPolicy", "networkpolicies", "networkpolicy", &["netpol"])
    },
    Resource {
        columns: table::PRIORITY_CLASSES,
        ..cluster(row(
            ("scheduling.k8s.io", "v1"),
            "PriorityClass",
            "priorityclasses",
            "priorityclass",
            &["pc"],
        ))
    },
    Resource {
        columns: table::RUNTIME_CLASSES,
        ..cluster(row(("node.k8s.io", "v1"), "RuntimeClass", "runtimeclasses", "runtimeclass", &[]))
    },
    Resource {
        columns: table::STORAGE_CLASSES,
        ..cluster(row(STORAGE, "StorageClass", "storageclasses", "storageclass", &["sc"]))
    },
    Resource {
        columns: table::CSI_DRIVERS,
        ..cluster(row(STORAGE, "CSIDriver", "csidrivers", "csidriver", &[]))
    },
    Resource {
        columns: table::CSI_NODES,
        ..cluster(with_status(row(STORAGE, "CSINode", "csinodes", "csinode", &[])))
    },
    Resource {
        columns: table::STORAGE_CAPACITIES,
        ..row(STORAGE, "CSIStorageCapacity", "csistoragecapacities", "csistoragecapacity", &[])
    },
    Resource {
        columns: table::ATTACHMENTS,
        ..cluster(with_status(row(STORAGE, "VolumeAttachment", "volumeattachments", "volumeattachment", &[])))
    },
    Resource {
        columns: table::AUTOSCALERS,
        ..with_status(row(
            ("autoscaling", "v2"),
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            "horizontalpodautoscaler",
            &["hpa"],
        ))
    },
    Resource { columns: table::NAME_AND_CREATED, ..row(RBAC, "Role", "roles", "role", &[]) },
    Resource {
        columns: table::ROLE_BINDINGS,
        ..row(RBAC, "RoleBinding", "rolebindings", "rolebinding", &[])
    },
    Resource {
        columns: table::NAME_AND_CREATED,
        ..cluster(row(RBAC, "ClusterRole", "clusterroles", "clusterrole", &[]))
    },
    Resource {
        columns: table::ROLE_BINDINGS,
        ..cluster(row(RBAC, "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding", &[]))
    },
];

#[cfg(test)]
mod tests {
    use super::KINDS;

    #[test]
    fn every_kind_is_known_to_the_table_of_types() {
        for kind in KINDS {
            let of = api::schema::all().kind(kind.group, kind.version, kind.kind);
            assert!(of.is_some(), "{}/{} {}", kind.group, kind.version, kind.kind);
            let has_status = of.and_then(|of| of.field("status")).is_some();
            assert_eq!(has_status, !kind.subresources.is_empty(), "the status of {}", kind.kind);
        }
    }
}
