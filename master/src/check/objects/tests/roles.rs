//! Findings about roles.

use super::*;

#[test]
fn roles_bound_to_all_users_are_findings() {
    let binding = |role_kind: &str, role: &str, kind: &str, name: &str| json!({"metadata": {"name": "b"}, "roleRef": {"kind": role_kind, "name": role}, "subjects": [{"kind": kind, "name": name, "namespace": "shop"}]});
    for (binding, expected) in [
        (binding("ClusterRole", "system:public-info-viewer", "Group", "system:unauthenticated"), ""),
        (binding("ClusterRole", "cluster-admin", "Group", "system:masters"), ""),
        (binding("ClusterRole", "cluster-admin", "User", "default"), ""),
        (binding("ClusterRole", "view", "ServiceAccount", "default"), ""),
        (binding("ClusterRole", "view", "Group", "system:authenticated"), ""),
        (
            binding("ClusterRole", "view", "User", "system:anonymous"),
            "!ClusterRoleBinding b: grants the ClusterRole view to unauthenticated users (system:anonymous): ",
        ),
        (
            binding("ClusterRole", "cluster-admin", "Group", "system:unauthenticated"),
            "!ClusterRoleBinding b: grants the ClusterRole cluster-admin to unauthenticated users (system:unauthenticated): ",
        ),
        (
            binding("ClusterRole", "cluster-admin", "Group", "system:serviceaccounts:shop"),
            "!ClusterRoleBinding b: grants cluster-admin to all of system:serviceaccounts:shop: ",
        ),
        (
            binding("ClusterRole", "cluster-admin", "ServiceAccount", "default"),
            "ClusterRoleBinding b: grants cluster-admin to all pods of shop without their own service account: ",
        ),
    ] {
        let expected: Vec<&str> = if expected.is_empty() { vec![] } else { vec![expected] };
        check(json!({"clusterrolebindings": [binding]}), &expected);
    }
    let mut own = binding("Role", "kubeadm:bootstrap-signer-clusterinfo", "User", "system:anonymous");
    own["metadata"]["namespace"] = "kube-public".into();
    check(json!({"rolebindings": [own.clone()]}), &[]);
    own["metadata"]["namespace"] = "shop".into();
    assert_eq!(finding_lines(&json!({"rolebindings": [own]})).len(), 1);
}
