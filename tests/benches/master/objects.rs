//! The objects that are stored and asked for.

/// Pods that share a label, so that a list by label has so many.
pub const PODS_A_LABEL: usize = 20;
/// Where pods are.
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod as a controller makes it, of one container, on one of so many nodes.
pub fn pod(number: usize, nodes: usize) -> String {
    let (set, node) = (number / PODS_A_LABEL, number % nodes.max(1));
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{number}","namespace":"default","labels":{{"app":"web","set":"s{set}"}},"annotations":{{"bench/at":"0"}}}},"spec":{{"nodeName":"node-{node}","containers":[{{"name":"app","image":"registry.example.com/team/web:1.2.3","ports":[{{"containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"MODE","value":"production"}}],"resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}},"limits":{{"memory":"128Mi"}}}},"readinessProbe":{{"httpGet":{{"path":"/ready","port":8080}},"periodSeconds":10}}}}],"terminationGracePeriodSeconds":30}}}}"#
    )
}

/// A pod that has no node yet.
pub fn waiting(number: usize) -> String {
    unplaced(number, "web", "")
}

/// Pods of which no two of a set may be on one node.
const SET: usize = 100;

/// A pod that has no node yet and keeps apart from those of its set.
pub fn apart(number: usize) -> String {
    let set = number / SET;
    let term = format!(
        r#"{{"labelSelector":{{"matchLabels":{{"set":"s{set}"}}}},"topologyKey":"kubernetes.io/hostname"}}"#
    );
    let affinity = format!(
        r#","affinity":{{"podAntiAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{term}]}}}}"#
    );
    unplaced(number, &format!("s{set}"), &affinity)
}

fn unplaced(number: usize, set: &str, more: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{number}","namespace":"default","labels":{{"app":"web","set":"{set}"}}}},"spec":{{"containers":[{{"name":"app","image":"registry.example.com/team/web:1.2.3","resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}}}}]{more}}}}}"#
    )
}

/// A node that is ready and has room for a hundred pods.
pub fn node(number: usize) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"node-{number}","labels":{{"kubernetes.io/hostname":"node-{number}"}}}},"spec":{{"podCIDR":"10.{}.{}.0/24"}},"status":{{"allocatable":{{"cpu":"32","memory":"64Gi","pods":"110"}},"conditions":[{{"type":"Ready","status":"True"}}]}}}}"#,
        number / 256,
        number % 256
    )
}

/// What a patch of a pod says; the moment comes back to watchers.
pub fn patch(at_micros: u128) -> String {
    format!(r#"{{"metadata":{{"annotations":{{"bench/at":"{at_micros}"}}}}}}"#)
}

/// What stands before the moment in an event.
pub const AT: &[u8] = br#""bench/at":""#;
