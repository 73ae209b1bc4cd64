//! Nobody gives what he does not have: the rules of a role that somebody writes, and of a role that he binds.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::aggregate::is_aggregated;
use super::index::{RBAC, role_of, text};
use super::rule::{self, Rule, quoted};
use super::{Authorizer, Kind};
use crate::auth::attributes::{Attributes, ResourceAttributes};
use crate::identity::Identity;
use crate::status::Status;

/// Most things that the rules of one role may say, each a verb on a resource of a group by a name: every one is compared with
/// every rule of the writer. The largest stock role has two hundred.
const MOST_PARTS: usize = 100_000;

/// What of an object's metadata collecting garbage changes, and what the server writes there by itself.
const GARBAGE: [&str; 4] = ["ownerReferences", "finalizers", "managedFields", "resourceVersion"];

impl Authorizer {
    /// Whether somebody may write a role or a binding with that content over what was there.
    ///
    /// # Errors
    /// 403 with what he would have to have, 404 for a binding of no role.
    pub fn check_grant(
        &self,
        who: &Identity,
        kind: Kind,
        before: Option<&Map<String, Value>>,
        object: &Map<String, Value>,
    ) -> Result<(), Status> {
        // Whoever collects garbage touches roles that he does not hold. A label is something else: it may make a role part
        // of another.
        if who.is_master() || before.is_some_and(|before| is_same_but_for_garbage(before, object)) {
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
        // An aggregated role gathers whatever others give it later.
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
        // What is no role at all is refused by whoever looks at the object.
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
        if rules.iter().map(Rule::parts_count).fold(0, usize::saturating_add) > MOST_PARTS {
            let why = format!("its rules say more than {MOST_PARTS} things: use * or several roles");
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

/// Whether an update changes nothing but who owns the object and what has to be done before it goes.
fn is_same_but_for_garbage(before: &Map<String, Value>, object: &Map<String, Value>) -> bool {
    let rest = |object: &Map<String, Value>| {
        let mut rest = object.clone();
        if let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !GARBAGE.contains(&field.as_str()));
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
