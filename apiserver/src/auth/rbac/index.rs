//! RBAC index: roles, and bindings by subject. Pure.
//!
//! A decision looks only at the bindings of the user and of the user's groups, cluster-wide and in one
//! namespace. Its cost does not depend on the total number of roles and bindings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Kind;
use super::rule::Rule;
use crate::auth::attributes::Attributes;
use crate::identity::Identity;

/// User name prefix of service accounts.
pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// API group of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";

/// An authorization decision with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Allowed; the reason names the binding, or is empty for `system:masters`.
    Allowed(String),
    /// Denied; the reason is empty unless a binding is broken, for example because its role is missing.
    Denied(String),
}

impl Decision {
    /// Whether the decision is to allow.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// The role that a binding refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleRef {
    /// A Role in the namespace of the binding.
    Role(String),
    /// A ClusterRole.
    ClusterRole(String),
}

/// Rules of roles, and the bindings that grant them to users and groups.
#[derive(Debug, Default)]
pub struct Index {
    /// Rules by namespace and role name. The namespace of cluster roles is empty.
    roles: HashMap<String, HashMap<String, Arc<[Rule]>>>,
    users: HashMap<String, Grants>,
    groups: HashMap<String, Grants>,
    /// Subjects of each binding, by namespace and name.
    bindings: HashMap<(String, String), BTreeSet<Subject>>,
}

/// What bindings grant to one subject, by namespace and name of the binding. The namespace of cluster role bindings
/// is empty.
type Grants = HashMap<String, BTreeMap<String, Granted>>;

/// The role that one binding grants to a subject, and the namespace in which it applies.
#[derive(Clone, Debug)]
struct Granted {
    role: RoleRef,
    /// The subject as messages show it, such as `Group "dev"`.
    to: String,
}

/// A subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    User(String),
    Group(String),
}

/// A binding that applies to a user.
#[derive(Debug)]
struct Grant<'a> {
    namespace: &'a str,
    binding: &'a str,
    granted: &'a Granted,
}

impl Index {
    /// Adds or replaces a role or a binding.
    pub fn put(&mut self, kind: Kind, object: &Map<String, Value>) {
        let (namespace, name) = (text(object, "namespace"), text(object, "name"));
        if kind.is_role() {
            let rules = Rule::all_of(object).into();
            self.roles.entry(namespace.to_owned()).or_default().insert(name.to_owned(), rules);
            return;
        }
        self.remove(kind, namespace, name);
        let Some(role) =
            role_of(object).filter(|role| !namespace.is_empty() || matches!(role, RoleRef::ClusterRole(_)))
        else {
            return;
        };
        let subjects = object.get("subjects").and_then(Value::as_array);
        let mut all = BTreeSet::new();
        for subject in subjects.into_iter().flatten() {
            let Some((subject, to)) = read_subject(subject, namespace) else { continue };
            let granted = Granted { role: role.clone(), to };
            let grants = self.grants(&subject).entry(namespace.to_owned()).or_default();
            grants.entry(name.to_owned()).or_insert(granted);
            all.insert(subject);
        }
        self.bindings.insert((namespace.to_owned(), name.to_owned()), all);
    }

    /// Removes a role or a binding.
    pub fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        if kind.is_role() {
            if let Some(roles) = self.roles.get_mut(namespace) {
                roles.remove(name);
            }
            return;
        }
        let subjects = self.bindings.remove(&(namespace.to_owned(), name.to_owned()));
        for subject in subjects.into_iter().flatten() {
            let grants = self.grants(&subject);
            if let Some(bindings) = grants.get_mut(namespace) {
                bindings.remove(name);
                if bindings.is_empty() {
                    grants.remove(namespace);
                }
            }
            if grants.is_empty() {
                match &subject {
                    Subject::User(name) => drop(self.users.remove(name)),
                    Subject::Group(name) => drop(self.groups.remove(name)),
                }
            }
        }
    }

    /// Decides whether a user may send a request with these attributes.
    pub fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        if who.is_master() {
            return Decision::Allowed(String::new());
        }
        let mut missing_roles = Vec::new();
        for grant in self.grants_of(who, attributes.namespace()) {
            match self.rules(&grant.granted.role, grant.namespace) {
                Some(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Decision::Allowed(grant.reason());
                }
                Some(_) => {}
                None => missing_roles.push(grant.granted.role.not_found()),
            }
        }
        Decision::Denied(match missing_roles.len() {
            0 => String::new(),
            1 => format!("RBAC: {}", missing_roles.concat()),
            _ => format!("RBAC: [{}]", missing_roles.join(", ")),
        })
    }

    /// Returns all rules that apply to a user in a namespace. An empty namespace selects only cluster-wide rules.
    pub fn rules_of(&self, who: &Identity, namespace: &str) -> Vec<Rule> {
        let mut all = Vec::new();
        if who.is_master() {
            let any = || vec!["*".to_owned()];
            all.push(Rule { verbs: any(), groups: any(), resources: any(), ..Rule::default() });
            all.push(Rule { verbs: any(), paths: any(), ..Rule::default() });
        }
        for grant in self.grants_of(who, namespace) {
            all.extend(self.rules(&grant.granted.role, grant.namespace).into_iter().flatten().cloned());
        }
        all
    }

    /// The rules of a role, or `None` if the role does not exist.
    pub fn rules(&self, role: &RoleRef, namespace: &str) -> Option<&[Rule]> {
        let (namespace, name) = match role {
            RoleRef::ClusterRole(name) => ("", name),
            RoleRef::Role(name) => (namespace, name),
        };
        self.roles.get(namespace)?.get(name).map(AsRef::as_ref)
    }

    /// Returns the bindings that apply to a user, cluster role bindings first.
    fn grants_of<'a>(&'a self, who: &'a Identity, namespace: &'a str) -> impl Iterator<Item = Grant<'a>> {
        let namespaces = [Some(""), Some(namespace).filter(|namespace| !namespace.is_empty())];
        namespaces.into_iter().flatten().flat_map(move |namespace| {
            let user = self.users.get(&who.user);
            let groups = who.groups.iter().filter_map(|group| self.groups.get(group));
            user.into_iter().chain(groups).filter_map(move |grants| grants.get(namespace)).flat_map(
                move |bindings| {
                    bindings.iter().map(move |(binding, granted)| Grant { namespace, binding, granted })
                },
            )
        })
    }

    fn grants(&mut self, subject: &Subject) -> &mut Grants {
        match subject {
            Subject::User(name) => self.users.entry(name.clone()).or_default(),
            Subject::Group(name) => self.groups.entry(name.clone()).or_default(),
        }
    }
}

impl Grant<'_> {
    /// The reason for a decision, in kube-apiserver's words.
    fn reason(&self) -> String {
        let role = match &self.granted.role {
            RoleRef::Role(name) => format!("Role {name:?}"),
            RoleRef::ClusterRole(name) => format!("ClusterRole {name:?}"),
        };
        let (binding, to) = (self.binding, &self.granted.to);
        match self.namespace {
            "" => format!("RBAC: allowed by ClusterRoleBinding {binding:?} of {role} to {to}"),
            namespace => format!("RBAC: allowed by RoleBinding \"{binding}/{namespace}\" of {role} to {to}"),
        }
    }
}

impl RoleRef {
    /// The resource (`clusterroles` or `roles`) and the name of the role.
    pub fn resource(&self) -> (&'static str, &str) {
        match self {
            Self::Role(name) => ("roles", name),
            Self::ClusterRole(name) => ("clusterroles", name),
        }
    }

    /// The error message for a missing role.
    pub fn not_found(&self) -> String {
        match self {
            Self::Role(name) => format!("role.{RBAC} {name:?} not found"),
            Self::ClusterRole(name) => format!("clusterrole.{RBAC} {name:?} not found"),
        }
    }
}

/// The role that a binding refers to, or `None` if the reference is invalid.
pub fn role_of(binding: &Map<String, Value>) -> Option<RoleRef> {
    let part = |field: &str| binding.get("roleRef")?.get(field)?.as_str();
    match part("kind")? {
        "Role" => Some(RoleRef::Role(part("name")?.to_owned())),
        "ClusterRole" => Some(RoleRef::ClusterRole(part("name")?.to_owned())),
        _ => None,
    }
}

fn read_subject(subject: &Value, namespace: &str) -> Option<(Subject, String)> {
    let part = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
    let name = part("name");
    match part("kind") {
        "User" => Some((Subject::User(name.to_owned()), format!("User {name:?}"))),
        "Group" => Some((Subject::Group(name.to_owned()), format!("Group {name:?}"))),
        "ServiceAccount" => {
            let own = Some(part("namespace")).filter(|own| !own.is_empty()).unwrap_or(namespace);
            let user = format!("{SERVICE_ACCOUNT}{own}:{name}");
            let is_some = !own.is_empty();
            is_some.then(|| (Subject::User(user), format!("ServiceAccount \"{name}/{own}\"")))
        }
        _ => None,
    }
}

pub(crate) fn text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    let metadata = object.get("metadata").and_then(Value::as_object);
    metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
