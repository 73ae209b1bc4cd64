//! RBAC escalation check: the writer of a role or binding can grant only permissions that the writer has.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::aggregate::is_aggregated;
use super::index::{RBAC, role_of, text};
use super::rule::{self, Rule, quoted};
use super::{Authorizer, Kind};
use crate::auth::attributes::{Attributes, ResourceAttributes};
use crate::identity::Identity;
use crate::status::Status;

/// Maximum number of atomic permissions (verb, group, resource, name) in the rules of one role. The check compares
/// each one with every rule of the user. The largest bootstrap role has two hundred.
const MAX_PARTS: usize = 100_000;

/// Metadata that the garbage collector and the server itself change.
const GC_METADATA: [&str; 4] = ["ownerReferences", "finalizers", "managedFields", "resourceVersion"];

impl Authorizer {
    /// Checks whether a user may write this role or binding over the stored one.
    ///
    /// # Errors
    /// 403 with the missing permissions, 404 for a binding to a missing role.
    pub fn check_escalation(
        &self,
        who: &Identity,
        kind: Kind,
        before: Option<&Map<String, Value>>,
        object: &Map<String, Value>,
    ) -> Result<(), Status> {
        // The garbage collector updates roles without holding their permissions. Labels are not exempt,
        // because a label can add a role to an aggregated role.
        if who.is_master() || before.is_some_and(|before| differs_only_in_gc_metadata(before, object)) {
            return Ok(());
        }
        if kind.is_role() {
            self.check_role(who, kind, before, object)
        } else {
            self.check_binding(who, kind, object)
        }
    }

    fn check_role(
        &self,
        who: &Identity,
        kind: Kind,
        before: Option<&Map<String, Value>>,
        object: &Map<String, Value>,
    ) -> Result<(), Status> {
        let (namespace, name) = (text(object, "namespace"), text(object, "name"));
        if self.may(who, "escalate", kind.plural(), name, namespace) {
            return Ok(());
        }
        // An aggregated role may gain any rule later.
        if is_aggregated(object) || before.is_some_and(is_aggregated) {
            let any = || vec!["*".to_owned()];
            let everything = [
                Rule { verbs: any(), groups: any(), resources: any(), ..Rule::default() },
                Rule { verbs: any(), paths: any(), ..Rule::default() },
            ];
            if !self.missing(who, namespace, &everything).is_empty() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(forbidden(kind, name, why));
            }
        }
        self.check_rules(who, kind, name, namespace, &Rule::all_of(object))
    }

    fn check_binding(&self, who: &Identity, kind: Kind, object: &Map<String, Value>) -> Result<(), Status> {
        let (namespace, name) = (text(object, "namespace"), text(object, "name"));
        // The strategy rejects an invalid role reference.
        let Some(role) = role_of(object) else { return Ok(()) };
        let (resource, of) = role.resource();
        if self.may(who, "bind", resource, of, namespace) {
            return Ok(());
        }
        let rules = self.with_index(|index| index.rules(&role, namespace).map(<[Rule]>::to_vec));
        let Some(rules) = rules else {
            let details = json!({"name": of, "group": RBAC, "kind": resource});
            let missing = Status::new(StatusCode::NOT_FOUND, "NotFound", role.not_found());
            return Err(Status { details: Some(details), ..missing });
        };
        self.check_rules(who, kind, name, namespace, &rules)
    }

    fn check_rules(
        &self,
        who: &Identity,
        kind: Kind,
        name: &str,
        namespace: &str,
        rules: &[Rule],
    ) -> Result<(), Status> {
        if rules.iter().map(Rule::parts_count).fold(0, usize::saturating_add) > MAX_PARTS {
            let why = format!(
                "its rules expand to more than {MAX_PARTS} permissions: use wildcards or split the role"
            );
            return Err(forbidden(kind, name, &why));
        }
        let missing = self.missing(who, namespace, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let mut lines: Vec<String> = rule::compact(missing).iter().map(Rule::to_string).collect();
        lines.sort_unstable();
        lines.dedup();
        let why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            who.user,
            quoted(&who.groups),
            lines.join("\n")
        );
        Err(forbidden(kind, name, &why))
    }

    fn missing(&self, who: &Identity, namespace: &str, rules: &[Rule]) -> Vec<Rule> {
        let own = self.with_index(|index| index.rules_of(who, namespace));
        rule::missing(&own, rules)
    }

    fn may(&self, who: &Identity, verb: &str, resource: &str, name: &str, namespace: &str) -> bool {
        let on = ResourceAttributes {
            group: RBAC.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            ..ResourceAttributes::default()
        };
        self.decide(who, &Attributes::on(verb, on)).is_allowed()
    }
}

/// Whether an update changes only metadata that the garbage collector changes.
fn differs_only_in_gc_metadata(before: &Map<String, Value>, object: &Map<String, Value>) -> bool {
    let rest = |object: &Map<String, Value>| {
        let mut rest = object.clone();
        if let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !GC_METADATA.contains(&field.as_str()));
        }
        rest
    };
    rest(before) == rest(object)
}

fn forbidden(kind: Kind, name: &str, why: &str) -> Status {
    let message = format!("{} {name:?} is forbidden: {why}", kind.qualified());
    let details = json!({"name": name, "group": RBAC, "kind": kind.plural()});
    let refused = Status::new(StatusCode::FORBIDDEN, "Forbidden", message);
    Status { details: Some(details), ..refused }
}
