//! Who may do what: roles and bindings by whom they are for. Pure.
//!
//! A decision looks at the bindings of the user and of each of his groups, in the cluster and in one namespace, and at no
//! others: what it costs does not grow with the roles and bindings of everybody else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Kind;
use super::rule::Rule;
use crate::auth::attributes::Attributes;
use crate::identity::Identity;

/// What the names of users begin with that are service accounts.
pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The group of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";

/// Whether something may be done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes; by what, or empty for those who may do everything.
    Allowed(String),
    /// No; empty unless something is broken, such as a binding of a role that is not there.
    Denied(String),
}

impl Decision {
    /// Whether it may be done.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// The role that a binding is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleRef {
    /// One of the binding's namespace.
    Role(String),
    /// One of the cluster.
    ClusterRole(String),
}

/// Roles and bindings.
#[derive(Debug, Default)]
pub struct Index {
    /// By namespace, empty for those of the cluster, and name.
    roles: HashMap<String, HashMap<String, Arc<[Rule]>>>,
    users: HashMap<String, Grants>,
    groups: HashMap<String, Grants>,
    /// Whom a binding is for, by namespace and name.
    bindings: HashMap<(String, String), BTreeSet<Subject>>,
}

/// By the binding's namespace, empty for those of the cluster, and its name.
type Grants = HashMap<String, BTreeMap<String, Granted>>;

/// What somebody has by one binding.
#[derive(Clone, Debug)]
struct Granted {
    role: RoleRef,
    /// As whom, for people to read: `Group "dev"`.
    to: String,
}

/// Whom a binding is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    User(String),
    Group(String),
}

/// A binding that applies to somebody.
#[derive(Debug)]
struct Grant<'a> {
    namespace: &'a str,
    binding: &'a str,
    granted: &'a Granted,
}

impl Index {
    /// Takes in a role or a binding, in place of what was there under its name.
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

    /// Forgets a role or a binding.
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

    /// Whether somebody may do something.
    pub fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        if who.is_master() {
            return Decision::Allowed(String::new());
        }
        let mut absent = Vec::new();
        for grant in self.grants_of(who, attributes.namespace()) {
            match self.rules(&grant.granted.role, grant.namespace) {
                Some(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Decision::Allowed(grant.told());
                }
                Some(_) => {}
                None => absent.push(grant.granted.role.not_found()),
            }
        }
        Decision::Denied(match absent.len() {
            0 => String::new(),
            1 => format!("RBAC: {}", absent.concat()),
            _ => format!("RBAC: [{}]", absent.join(", ")),
        })
    }

    /// Every rule that holds for somebody in a namespace, or in the cluster when that is empty.
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

    /// The rules of a role; `None` when there is no such role.
    pub fn rules(&self, role: &RoleRef, namespace: &str) -> Option<&[Rule]> {
        let (namespace, name) = match role {
            RoleRef::ClusterRole(name) => ("", name),
            RoleRef::Role(name) => (namespace, name),
        };
        self.roles.get(namespace)?.get(name).map(AsRef::as_ref)
    }

    /// The bindings that apply to somebody, those of the cluster first.
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
    /// By what something is allowed, as the stock server tells it.
    fn told(&self) -> String {
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
    /// `clusterroles` or `roles`, and the name.
    pub fn resource(&self) -> (&'static str, &str) {
        match self {
            Self::Role(name) => ("roles", name),
            Self::ClusterRole(name) => ("clusterroles", name),
        }
    }

    /// That there is no such role.
    pub fn not_found(&self) -> String {
        match self {
            Self::Role(name) => format!("role.{RBAC} {name:?} not found"),
            Self::ClusterRole(name) => format!("clusterrole.{RBAC} {name:?} not found"),
        }
    }
}

/// The role that a binding is of; `None` when that is none that could be.
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
