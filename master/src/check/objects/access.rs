//! Roles that everybody has and nobody should: of those who have not said who they are, and of accounts that come by themselves. Pure.

use std::collections::HashSet;
use std::sync::LazyLock;

use apiserver::auth::rbac::stock;
use serde_json::Value;

use super::World;
use super::field::{list, part, text};
use crate::check::finding::{Finding, Severity, Subject};
use crate::controllers::Object;

/// Who somebody is who has not said it: a user and a group.
const ANONYMOUS: &[&str] = &["system:anonymous", "system:unauthenticated"];
/// Groups that hold every account, or everybody with any certificate or token.
const EVERYBODY: &[&str] = &["system:authenticated", "system:serviceaccounts"];
/// The role that may do everything.
const EVERYTHING: &str = "cluster-admin";
/// What kubeadm and those who follow it give to everybody: the document that nodes join by.
const JOINING: (&str, &str) = ("kube-public", "kubeadm:bootstrap-signer-clusterinfo");

/// Roles of the stock that everybody has.
static STOCK: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let bindings = stock::objects().into_iter().map(|(_, object)| Value::Object(object));
    let of_all = bindings.filter(|binding| {
        let subjects = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
        subjects.into_iter().any(|subject| ANONYMOUS.contains(&part(subject, "name")))
    });
    of_all.map(|binding| part(&binding, "/roleRef/name").to_owned()).collect()
});

/// What is wrong with who may do what.
pub fn findings(world: &World) -> Vec<Finding> {
    let kinds = [("clusterrolebindings", "ClusterRoleBinding"), ("rolebindings", "RoleBinding")];
    let all = kinds.into_iter().flat_map(|(plural, kind)| world.of(plural).iter().map(move |of| (kind, of)));
    all.flat_map(|(kind, binding)| {
        list(binding, "/subjects").iter().filter_map(move |subject| of_subject(kind, binding, subject))
    })
    .collect()
}

fn of_subject(kind: &'static str, binding: &Object, subject: &Value) -> Option<Finding> {
    let (whose, who) = (part(subject, "kind"), part(subject, "name"));
    let (role_kind, role) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
    let delete =
        format!("if nobody meant that, `kubectl delete {} {}`", kind.to_lowercase(), namespaced(binding));
    let found = |severity: Severity, what: String| {
        Some(Finding::problem(Subject::of(kind, binding), what, delete.clone()).graded(severity))
    };
    if whose != "ServiceAccount" && ANONYMOUS.contains(&who) {
        let is_stock = role_kind == "ClusterRole" && STOCK.contains(role);
        let is_joining = (binding.namespace.as_str(), role) == JOINING;
        let what = format!("gives the {role_kind} {role} to everybody who reaches the port ({who})");
        return if is_stock || is_joining { None } else { found(Severity::Problem, what) };
    }
    if role_kind != "ClusterRole" || role != EVERYTHING || !binding.namespace.is_empty() {
        return None;
    }
    match whose {
        "Group" if EVERYBODY.contains(&who) || who.starts_with("system:serviceaccounts:") => {
            found(Severity::Problem, format!("lets everybody of {who} do everything"))
        }
        "ServiceAccount" if who == "default" => {
            let namespace = part(subject, "namespace");
            found(
                Severity::Warning,
                format!("lets every pod of {namespace} without an account of its own do everything"),
            )
        }
        _ => None,
    }
}

fn namespaced(binding: &Object) -> String {
    match binding.namespace.as_str() {
        "" => binding.name.clone(),
        namespace => format!("-n {namespace} {}", binding.name),
    }
}
