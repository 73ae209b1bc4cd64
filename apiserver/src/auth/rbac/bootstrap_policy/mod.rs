//! The bootstrap RBAC policy of kube-apiserver as data, and the objects built from it.
//!
//! Strings list words separated by spaces; `core` denotes the API group with the empty name.

mod controllers;
mod namespaced;
mod system;
mod user_facing;

use serde_json::{Map, Value, json};

use super::Kind;
use super::index::RBAC;
use super::rule::Rule;

/// Label prefix by which aggregated roles select their parts.
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// Annotation that enables or disables reconciliation of a role or binding.
pub const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const READ_WRITE: &str = "create delete deletecollection get list patch update watch";
const EVENTS: Line = on("create patch update", "core events.k8s.io", "events");

/// A rule: verbs, groups, resources, names and paths.
type Line = [&'static str; 5];

/// Name and rules of a bootstrap role.
struct Role {
    name: &'static str,
    /// The aggregated role to which this role contributes; may be empty.
    part_of: &'static str,
    /// Whether the rules are those of the roles that this role aggregates.
    is_aggregated: bool,
    rules: &'static [Line],
}

/// A binding. It has the name of its role, unless another name is given.
struct Binding {
    role: &'static str,
    users: &'static str,
    groups: &'static str,
    /// Service accounts in `kube-system`.
    accounts: &'static str,
}

/// Creates a rule on resources.
const fn on(verbs: &'static str, groups: &'static str, resources: &'static str) -> Line {
    [verbs, groups, resources, "", ""]
}

/// Creates a rule on named resources.
const fn named(
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
) -> Line {
    [verbs, groups, resources, names, ""]
}

/// Creates a rule on non-resource paths.
const fn paths(verbs: &'static str, paths: &'static str) -> Line {
    [verbs, "", "", "", paths]
}

const fn role(name: &'static str, rules: &'static [Line]) -> Role {
    Role { name, part_of: "", is_aggregated: false, rules }
}

const fn to_groups(role: &'static str, groups: &'static str) -> Binding {
    Binding { role, users: "", groups, accounts: "" }
}

const fn to_users(role: &'static str, users: &'static str) -> Binding {
    Binding { role, users, groups: "", accounts: "" }
}

const fn to_accounts(role: &'static str, accounts: &'static str) -> Binding {
    Binding { role, users: "", groups: "", accounts }
}

/// Rules of role `system:node`.
pub fn node_rules() -> Vec<Rule> {
    system::node_rules()
}

/// All bootstrap roles and bindings, roles first.
pub fn objects() -> Vec<(Kind, Map<String, Value>)> {
    let cluster = user_facing::ROLES.iter().chain(system::ROLES).chain(controllers::ROLES);
    let mut all: Vec<_> = cluster.map(|role| (Kind::ClusterRole, role.object(""))).collect();
    all.extend(namespaced::ROLES.iter().map(|(namespace, role)| (Kind::Role, role.object(namespace))));
    let bindings = user_facing::BINDINGS.iter().chain(system::BINDINGS);
    all.extend(
        bindings.map(|binding| (Kind::ClusterRoleBinding, binding.object("", binding.role, "ClusterRole"))),
    );
    for role in controllers::ROLES {
        let account = role.name.trim_start_matches(controllers::PREFIX);
        let binding = to_accounts(role.name, account);
        all.push((Kind::ClusterRoleBinding, binding.object("", role.name, "ClusterRole")));
    }
    for (namespace, name, binding) in namespaced::BINDINGS {
        all.push((Kind::RoleBinding, binding.object(namespace, name, "Role")));
    }
    all
}

impl Role {
    fn object(&self, namespace: &str) -> Map<String, Value> {
        let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
        let mut object = head(kind, namespace, self.name);
        if !self.part_of.is_empty() {
            object["metadata"]["labels"][format!("{AGGREGATE}{}", self.part_of)] = "true".into();
        }
        if self.is_aggregated {
            let labels = json!({format!("{AGGREGATE}{}", self.name): "true"});
            object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
        }
        object["rules"] = self.rules.iter().map(|line| rule(line).json()).collect();
        into_map(object)
    }
}

impl Binding {
    fn object(&self, namespace: &str, name: &str, role_kind: &str) -> Map<String, Value> {
        let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        let mut object = head(kind, namespace, name);
        object["roleRef"] = json!({"apiGroup": RBAC, "kind": role_kind, "name": self.role});
        let named = |kind: &str, names: &'static str| -> Vec<Value> {
            words(names).map(|name| json!({"apiGroup": RBAC, "kind": kind, "name": name})).collect()
        };
        let mut subjects = named("User", self.users);
        subjects.extend(named("Group", self.groups));
        let account = |name| json!({"kind": "ServiceAccount", "name": name, "namespace": "kube-system"});
        subjects.extend(words(self.accounts).map(account));
        if !subjects.is_empty() {
            object["subjects"] = subjects.into();
        }
        into_map(object)
    }
}

fn head(kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {AUTO_UPDATE: "true"},
        },
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn rule(line: &Line) -> Rule {
    let [verbs, groups, resources, names, paths] = line.map(|text| words(text).map(str::to_owned).collect());
    let groups: Vec<String> = groups;
    let groups = groups.into_iter().map(|group| if group == "core" { String::new() } else { group });
    Rule { verbs, groups: groups.collect(), resources, names, paths }
}

fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_ascii_whitespace()
}

fn into_map(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
