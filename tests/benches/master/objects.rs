//! Builds the objects that are stored in the master, and the paths of requests.

/// Number of pods that share a label: the size of a list that selects this label.
pub const PODS_A_LABEL: usize = 20;
/// Path of the pods.
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// Returns a pod as a controller creates it: with one container, and assigned to one of `nodes` nodes.
pub fn pod(number: usize, nodes: usize) -> String {
    let (set, node) = (number / PODS_A_LABEL, number % nodes.max(1));
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{number}","namespace":"default","labels":{{"app":"web","set":"s{set}"}},"annotations":{{"bench/at":"0"}}}},"spec":{{"nodeName":"node-{node}","containers":[{{"name":"app","image":"registry.example.com/team/web:1.2.3","ports":[{{"containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"MODE","value":"production"}}],"resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}},"limits":{{"memory":"128Mi"}}}},"readinessProbe":{{"httpGet":{{"path":"/ready","port":8080}},"periodSeconds":10}}}}],"terminationGracePeriodSeconds":30}}}}"#
    )
}

/// Returns an unscheduled pod.
pub fn waiting(number: usize) -> String {
    unplaced(number, "web", "")
}

/// Size of a set of pods with mutual anti-affinity.
const SET: usize = 100;

/// Returns an unscheduled pod with required anti-affinity to the other pods of its set.
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

/// Returns a Ready node with room for a hundred pods.
pub fn node(number: usize) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"node-{number}","labels":{{"kubernetes.io/hostname":"node-{number}"}}}},"spec":{{"podCIDR":"10.{}.{}.0/24"}},"status":{{"allocatable":{{"cpu":"32","memory":"64Gi","pods":"110"}},"conditions":[{{"type":"Ready","status":"True"}}]}}}}"#,
        number / 256,
        number % 256
    )
}

/// Returns a patch of a pod. It carries the send time, from which watchers compute the delay.
pub fn patch(at_micros: u128) -> String {
    format!(r#"{{"metadata":{{"annotations":{{"bench/at":"{at_micros}"}}}}}}"#)
}

/// The bytes before the send time in a watch event.
pub const AT: &[u8] = br#""bench/at":""#;
