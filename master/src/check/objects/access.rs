//! Checks role bindings that grant too much: to anonymous users, to all users, or to default service accounts. Pure.

use std::collections::HashSet;
use std::sync::LazyLock;

use apiserver::auth::rbac::bootstrap_policy;
use serde::Deserialize as _;

use super::World;
use crate::check::finding::{Finding, Severity, Subject};
use crate::objects::rbac::{self, RoleBinding};

/// User and group of unauthenticated requests.
const ANONYMOUS: &[&str] = &["system:anonymous", "system:unauthenticated"];
/// Groups of all authenticated users and of all service accounts.
const EVERYBODY: &[&str] = &["system:authenticated", "system:serviceaccounts"];
/// The role that allows everything.
const EVERYTHING: &str = "cluster-admin";
/// The role that kubeadm grants to anonymous users, so that nodes can read cluster-info.
const JOINING: (&str, &str) = ("kube-public", "kubeadm:bootstrap-signer-clusterinfo");

/// Stock roles that are bound to unauthenticated users.
static STOCK: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let objects = bootstrap_policy::objects().into_iter();
    let bindings = objects.filter_map(|(_, object)| RoleBinding::deserialize(&object).ok());
    let of_all =
        bindings.filter(|binding| binding.subjects.iter().any(|one| ANONYMOUS.contains(&&*one.name)));
    of_all.map(|binding| binding.role_ref.name.into()).collect()
});

/// Findings for all role bindings.
pub fn findings(world: &World) -> Vec<Finding> {
    let lists = &world.lists;
    let cluster_wide = lists.cluster_role_bindings.iter().map(|binding| ("ClusterRoleBinding", binding));
    let all = cluster_wide.chain(lists.role_bindings.iter().map(|binding| ("RoleBinding", binding)));
    all.flat_map(|(kind, binding)| {
        binding.subjects.iter().filter_map(move |subject| of_subject(kind, binding, subject))
    })
    .collect()
}

fn of_subject(kind: &'static str, binding: &RoleBinding, subject: &rbac::Subject) -> Option<Finding> {
    let (whose, who) = (&*subject.kind, &*subject.name);
    let (role_kind, role) = (&*binding.role_ref.kind, &*binding.role_ref.name);
    let namespace = &*binding.metadata.namespace;
    let delete =
        format!("if this is not intended, `kubectl delete {} {}`", kind.to_lowercase(), namespaced(binding));
    let found = |severity: Severity, what: String| {
        Some(Finding::problem(Subject::of(kind, &binding.metadata), what, delete.clone()).graded(severity))
    };
    if whose != "ServiceAccount" && ANONYMOUS.contains(&who) {
        let is_stock = role_kind == "ClusterRole" && STOCK.contains(role);
        let is_joining = (namespace, role) == JOINING;
        let what = format!("grants the {role_kind} {role} to unauthenticated users ({who})");
        return if is_stock || is_joining { None } else { found(Severity::Problem, what) };
    }
    if role_kind != "ClusterRole" || role != EVERYTHING || !namespace.is_empty() {
        return None;
    }
    match whose {
        "Group" if EVERYBODY.contains(&who) || who.starts_with("system:serviceaccounts:") => {
            found(Severity::Problem, format!("grants cluster-admin to all of {who}"))
        }
        "ServiceAccount" if who == "default" => {
            let namespace = &subject.namespace;
            found(
                Severity::Warning,
                format!("grants cluster-admin to all pods of {namespace} without their own service account"),
            )
        }
        _ => None,
    }
}

fn namespaced(binding: &RoleBinding) -> String {
    match &*binding.metadata.namespace {
        "" => binding.metadata.name.to_string(),
        namespace => format!("-n {namespace} {}", binding.metadata.name),
    }
}
