//! Tests of the printer columns of one object of each kind.

use serde_json::{Value, json};

use super::super::*;
use super::{CREATED, line};

/// Checks the cells of an object named `a` that is five minutes old, with the fields `rest`.
#[track_caller]
fn check(columns: Columns, rest: Value, expected: &str) {
    let mut object = json!({"metadata": {"name": "a", "creationTimestamp": CREATED}});
    for (name, value) in rest.as_object().unwrap() {
        match value.as_object().filter(|_| name == "metadata") {
            Some(more) => object["metadata"].as_object_mut().unwrap().extend(more.clone()),
            None => object[name] = value.clone(),
        }
    }
    assert_eq!(line(columns, object), expected);
}

fn template() -> Value {
    json!({"spec": {
        "nodeSelector": {"disk": "ssd"},
        "containers": [{"name": "x", "image": "i:1"}, {"name": "y", "image": "j"}],
    }})
}

fn selector() -> Value {
    json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["b", "a"]},
        {"key": "zone", "operator": "NotIn", "values": ["c"]},
        {"key": "aaa", "operator": "Exists"},
        {"key": "old", "operator": "DoesNotExist"},
    ]})
}

#[test]
fn empty_object_of_any_kind_has_a_cell_for_every_column() {
    let all = [
        NAME_AND_AGE,
        NAME_AND_CREATED,
        BINDINGS_OF_POLICIES,
        MUTATING_POLICIES,
        VALIDATING_POLICIES,
        WEBHOOK_CONFIGURATIONS,
        AUTOSCALERS,
        CRON_JOBS,
        JOBS,
        SIGNING_REQUESTS,
        LEASES,
        NAMESPACES,
        PRIORITY_CLASSES,
        RUNTIME_CLASSES,
        SERVICE_ACCOUNTS,
        CONFIG_MAPS,
        SECRETS,
        RESOURCE_CLAIMS,
        RESOURCE_SLICES,
        EVENTS,
        API_SERVICES,
        FLOW_SCHEMAS,
        PRIORITY_LEVELS,
        INGRESS_CLASSES,
        INGRESSES,
        IP_ADDRESSES,
        NETWORK_POLICIES,
        SERVICE_CIDRS,
        NODES,
        PODS,
        DISRUPTION_BUDGETS,
        RESOURCE_QUOTAS,
        ROLE_BINDINGS,
        ENDPOINT_SLICES,
        ENDPOINTS,
        SERVICES,
        ATTACHMENTS,
        ATTRIBUTES_CLASSES,
        CSI_DRIVERS,
        CSI_NODES,
        STORAGE_CAPACITIES,
        STORAGE_CLASSES,
        POD_TEMPLATES,
        VOLUME_CLAIMS,
        VOLUMES,
        CONTROLLER_REVISIONS,
        DAEMON_SETS,
        DEPLOYMENTS,
        REPLICA_SETS,
        REPLICATION_CONTROLLERS,
        STATEFUL_SETS,
    ];
    for columns in all {
        line(columns, json!({}));
        // Values of wrong types cause no panic.
        line(
            columns,
            json!({"metadata": 1, "spec": [], "status": "x", "data": 2, "subjects": {}, "webhooks": "w"}),
        );
        assert!(columns.heads.iter().all(|head| !head.description.is_empty()));
    }
}

#[test]
fn workloads() {
    check(
        DEPLOYMENTS,
        json!({"spec": {"replicas": 3, "template": template(), "selector": selector()},
            "status": {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2}}),
        "a | 2/3 | 1 | 2 | 5m | x,y | i:1,j | aaa,app=web,!old,tier in (a,b),zone notin (c)",
    );
    check(
        REPLICA_SETS,
        json!({"spec": {"replicas": 3, "template": template(), "selector": {"matchLabels": {"app": "web"}}},
            "status": {"replicas": 2, "readyReplicas": 1}}),
        "a | 3 | 2 | 1 | 5m | x,y | i:1,j | app=web",
    );
    check(
        REPLICATION_CONTROLLERS,
        json!({"spec": {"replicas": 1, "template": template(), "selector": {"b": "2", "a": "1"}}}),
        "a | 1 | 0 | 0 | 5m | x,y | i:1,j | a=1,b=2",
    );
    check(
        STATEFUL_SETS,
        json!({"spec": {"replicas": 2, "template": template()}}),
        "a | 0/2 | 5m | x,y | i:1,j",
    );
    check(
        DAEMON_SETS,
        json!({"spec": {"template": template(), "selector": {}}, "status": {"desiredNumberScheduled": 5,
            "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1}}),
        "a | 5 | 4 | 3 | 2 | 1 | disk=ssd | 5m | x,y | i:1,j | <none>",
    );
    check(
        CONTROLLER_REVISIONS,
        json!({"metadata": {"ownerReferences": [{"kind": "X", "name": "x", "apiVersion": "v1"},
            {"kind": "DaemonSet", "name": "logs", "apiVersion": "apps/v1", "controller": true}]}, "revision": 7}),
        "a | daemonset.apps/logs | 7 | 5m",
    );
    check(
        POD_TEMPLATES,
        json!({"template": {"metadata": {"labels": {"app": "w"}}, "spec": template()["spec"]}}),
        "a | x,y | i:1,j | app=w",
    );
}

#[test]
fn jobs() {
    let job = |spec: Value, status: Value| {
        let mut object = json!({"spec": spec, "status": status});
        object["spec"]["template"] = template();
        object
    };
    let holds = |of: &str| json!([{"type": of, "status": "True"}]);
    let rest = "x,y | i:1,j | <none>";
    check(
        JOBS,
        job(json!({"completions": 3}), json!({"succeeded": 1, "startTime": "2026-01-01T11:59:00Z"})),
        &format!("a | Running | 1/3 | 60s | 5m | {rest}"),
    );
    check(
        JOBS,
        job(
            json!({"parallelism": 2}),
            json!({"succeeded": 1, "startTime": "2026-01-01T11:50:00Z", "completionTime": "2026-01-01T11:50:07Z",
                "conditions": holds("Complete")}),
        ),
        &format!("a | Complete | 1/1 of 2 | 7s | 5m | {rest}"),
    );
    for state in ["Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"] {
        check(
            JOBS,
            job(json!({}), json!({"conditions": holds(state)})),
            &format!("a | {state} | 0/1 |  | 5m | {rest}"),
        );
    }
    let cron =
        json!({"schedule": "* * * * *", "suspend": true, "jobTemplate": {"spec": {"template": template()}}});
    check(
        CRON_JOBS,
        json!({"spec": cron, "status": {"active": [{}, {}], "lastScheduleTime": "2026-01-01T11:59:30Z"}}),
        &format!("a | * * * * * | <none> | True | 2 | 30s | 5m | {rest}"),
    );
}

#[test]
fn services_and_endpoints() {
    let port = json!([{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]);
    check(
        SERVICES,
        json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}],
            "selector": {"app": "web"}}}),
        "a | ClusterIP | 10.0.0.1 | <none> | 80/TCP | 5m | app=web",
    );
    check(
        SERVICES,
        json!({"spec": {"type": "NodePort", "clusterIP": "None", "externalIPs": ["1.2.3.4"], "ports": port}}),
        "a | NodePort | None | 1.2.3.4 | 80:30080/TCP,53/UDP | 5m | <none>",
    );
    check(
        SERVICES,
        json!({"spec": {"type": "LoadBalancer"}}),
        "a | LoadBalancer | <none> | <pending> | <none> | 5m | <none>",
    );
    check(
        SERVICES,
        json!({"spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "z"}, {"ip": "5.5.5.5"}, {"hostname": "z"}]}}}),
        "a | LoadBalancer | <none> | 5.5.5.5,z,9.9.9.9 | <none> | 5m | <none>",
    );
    check(
        SERVICES,
        json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}),
        "a | ExternalName | <none> | example.com | <none> | 5m | <none>",
    );
    let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
    check(
        ENDPOINTS,
        json!({"subsets": [{"addresses": addresses, "ports": [{"port": 80}, {"port": 81}]}]}),
        "a | 10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more... | 5m",
    );
    check(
        ENDPOINT_SLICES,
        json!({"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["1.1.1.1"]}, {"addresses": ["2.2.2.2"]}]}),
        "a | IPv4 | 80 | 1.1.1.1,2.2.2.2 | 5m",
    );
    check(ENDPOINT_SLICES, json!({"addressType": "FQDN"}), "a | FQDN | <unset> | <unset> | 5m");
    check(
        INGRESSES,
        json!({"spec": {"ingressClassName": "nginx", "rules": [{"host": "x"}, {}], "tls": [{}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}),
        "a | nginx | x | 1.1.1.1 | 80, 443 | 5m",
    );
    check(INGRESSES, json!({"spec": {}}), "a | <none> | * |  | 80 | 5m");
    check(
        INGRESS_CLASSES,
        json!({"spec": {"controller": "c/d", "parameters": {"apiGroup": "k.io", "kind": "P", "name": "p"}}}),
        "a | c/d | P.k.io/p | 5m",
    );
    check(NETWORK_POLICIES, json!({"spec": {"podSelector": {}}}), "a | <none> | 5m");
    check(
        IP_ADDRESSES,
        json!({"spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}}),
        "a | services/n/s",
    );
    check(
        SERVICE_CIDRS,
        json!({"spec": {"cidrs": ["10.0.0.0/8", "fd00::/64"]}}),
        "a | 10.0.0.0/8,fd00::/64 | 5m",
    );
}

#[test]
fn volumes_and_storage() {
    check(
        VOLUMES,
        json!({"spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "storageClassName": "fast",
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"}, "volumeMode": "Filesystem"},
            "status": {"phase": "Bound"}}),
        "a | 5Gi | RWO,RWX | Retain | Bound | n/c | fast | <unset> |  | 5m | Filesystem",
    );
    let claim = json!({"accessModes": ["ReadWriteOncePod"], "storageClassName": "fast"});
    check(
        VOLUME_CLAIMS,
        json!({"spec": claim, "status": {"phase": "Pending", "capacity": {"storage": "1Gi"}}}),
        "a | Pending |  |  |  | fast | <unset> | 5m | <unset>",
    );
    check(
        VOLUME_CLAIMS,
        json!({"metadata": {"deletionTimestamp": CREATED}, "spec": {"volumeName": "v"},
            "status": {"phase": "Bound", "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}}}),
        "a | Terminating | v | 1Gi | RWOP |  | <unset> | 5m | <unset>",
    );
    check(
        STORAGE_CLASSES,
        json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"}),
        "a (default) | p | Delete | Immediate | false | 5m",
    );
    check(ATTRIBUTES_CLASSES, json!({"driverName": "d"}), "a | d | 5m");
    check(CSI_NODES, json!({"spec": {"drivers": [{}, {}]}}), "a | 2 | 5m");
    check(
        CSI_DRIVERS,
        json!({"spec": {"podInfoOnMount": true, "tokenRequests": [{"audience": "x"}]}}),
        "a | true | true | false | x | false | Persistent | 5m",
    );
    check(STORAGE_CAPACITIES, json!({"storageClassName": "s", "capacity": "1Gi"}), "a | s | 1Gi");
    check(
        ATTACHMENTS,
        json!({"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}, "status": {"attached": true}}),
        "a | d | v | n | true | 5m",
    );
}

#[test]
fn limits_and_numbers() {
    check(
        RESOURCE_QUOTAS,
        json!({"status": {"hard": {"pods": "10", "limits.cpu": "2", "requests.cpu": "1"}, "used": {"pods": "3"}}}),
        "a | pods: 3/10, requests.cpu: 0/1 | limits.cpu: 0/2 | 5m",
    );
    check(
        DISRUPTION_BUDGETS,
        json!({"spec": {"maxUnavailable": "25%"}, "status": {"disruptionsAllowed": 2}}),
        "a | N/A | 25% | 2 | 5m",
    );
    let target = json!({"kind": "Deployment", "name": "web"});
    let metrics = json!([
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
        {"type": "Pods", "pods": {"target": {"averageValue": "10"}}},
        {"type": "External", "external": {"target": {"value": "5"}}},
    ]);
    check(
        AUTOSCALERS,
        json!({"spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, "metrics": metrics},
            "status": {"currentReplicas": 4, "currentMetrics": [{"resource": {"current": {"averageUtilization": 40}}}]}}),
        "a | Deployment/web | cpu: 40%/80%, <unknown>/10 + 1 more... | 1 | 9 | 4 | 5m",
    );
    check(PRIORITY_CLASSES, json!({"value": 1000}), "a | 1000 | false | 5m | ");
    check(RUNTIME_CLASSES, json!({"handler": "kata"}), "a | kata | 5m");
    check(LEASES, json!({"spec": {"holderIdentity": "n1"}}), "a | n1 | 5m");
    check(NAMESPACES, json!({"status": {"phase": "Active"}}), "a | Active | 5m");
    check(SERVICE_ACCOUNTS, json!({"secrets": [{}]}), "a | 1 | 5m");
    check(NAME_AND_CREATED, json!({}), &format!("a | {CREATED}"));
}

#[test]
fn rbac_and_webhooks() {
    let subjects = json!([{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "User", "name": "v"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]);
    check(
        ROLE_BINDINGS,
        json!({"roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": subjects}),
        "a | ClusterRole/admin | 5m | u, v | g | n/s",
    );
    let request = json!({"signerName": "s/t", "username": "u", "expirationSeconds": 3600});
    check(SIGNING_REQUESTS, json!({"spec": request}), "a | 5m | s/t | u | 60m | Pending");
    check(
        SIGNING_REQUESTS,
        json!({"spec": {}, "status": {"conditions": [{"type": "Approved", "status": "True"}], "certificate": "eA=="}}),
        "a | 5m |  |  | <none> | Approved,Issued",
    );
    check(WEBHOOK_CONFIGURATIONS, json!({"webhooks": [{}, {}]}), "a | 2 | 5m");
    check(
        VALIDATING_POLICIES,
        json!({"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}}),
        "a | 1 | v1/ConfigMap | 5m",
    );
    check(MUTATING_POLICIES, json!({"spec": {"mutations": [{}]}}), "a | 1 | <unset> | 5m");
    check(
        BINDINGS_OF_POLICIES,
        json!({"spec": {"policyName": "p", "paramRef": {"name": "x", "namespace": "n"}}}),
        "a | p | n/x | 5m",
    );
    check(API_SERVICES, json!({"spec": {}}), "a | Local | Unknown | 5m");
    check(
        API_SERVICES,
        json!({"spec": {"service": {"namespace": "n", "name": "m"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]}}),
        "a | n/m | False (Gone) | 5m",
    );
    check(
        FLOW_SCHEMAS,
        json!({"spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5, "distinguisherMethod": {"type": "ByUser"}},
            "status": {"conditions": [{"type": "Dangling", "status": "False"}]}}),
        "a | p | 5 | ByUser | 5m | False",
    );
    check(
        PRIORITY_LEVELS,
        json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 30,
            "limitResponse": {"queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50}}}}}),
        "a | Limited | 30 | 64 | 6 | 50 | 5m",
    );
    check(
        RESOURCE_CLAIMS,
        json!({"status": {"allocation": {}, "reservedFor": [{}]}}),
        "a | allocated,reserved | 5m",
    );
    check(
        RESOURCE_SLICES,
        json!({"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}}),
        "a | n | d | p | 5m",
    );
}
