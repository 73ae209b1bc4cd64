//! Admission policies: expressions that administrators write, which complete objects or refuse them.
//!
//! A policy is compiled once a revision ([`known`]), and says for what it is meant ([`matching`]); a binding puts it into
//! force, here or there, with parameters ([`params`]). What expressions see is [`input`]; what they decide, `validating` and
//! `mutating` carry out. A policy with an expression that cannot be run is refused when it is written ([`written`]).

mod access;
mod compiled;
mod environment;
mod input;
mod known;
mod matching;
mod mutating;
mod params;
#[cfg(test)]
mod tests;
mod validating;
mod written;

use std::sync::Arc;

use apiserver::Resource;
use apiserver::admission::Attempt;
use apiserver::auth::Auth;
use apiserver::registry::Registry;
use serde_json::Value;

use self::compiled::Policy;
use self::known::Known;
pub use self::mutating::Mutating;
pub use self::validating::Validating;
pub use self::written::Written;

const GROUP: &str = "admissionregistration.k8s.io";

/// Where policies of one sort lie, and what they are decided by.
struct Policies {
    registry: Arc<Registry>,
    auth: Arc<Auth>,
    policies: Known<Policy>,
    bindings: Known<Value>,
}

/// A policy in force for a write, by one of its bindings.
struct InForce {
    policy: Arc<Policy>,
    binding: Arc<Value>,
}

impl Policies {
    fn new(registry: Arc<Registry>, auth: Arc<Auth>, policies: &str, bindings: &str) -> Self {
        let stored = |plural: &str| format!("{plural}.{GROUP}");
        Self {
            policies: Known::new(stored(policies), |object| Policy::read(&object).0),
            bindings: Known::new(stored(bindings), Value::Object),
            registry,
            auth,
        }
    }

    /// What is in force for a write, in the order of their names; with the namespace it is in, as it is now.
    fn in_force(&self, attempt: &Attempt<'_>) -> (Vec<InForce>, Option<Value>) {
        let cache = self.registry.cache();
        // Most clusters have none. Policies are not held against what would mend them.
        if self.policies.is_empty(cache) || self.bindings.is_empty(cache) || is_exempt(attempt.resource) {
            return (Vec::new(), None);
        }
        let namespace = self.namespace(attempt);
        let target = matching::Target::of(attempt, namespace.as_ref());
        let bindings = self.bindings.all(cache);
        let mut found = Vec::new();
        for policy in self.policies.all(cache) {
            if !target.matches(policy.spec.get("matchConstraints")) {
                continue;
            }
            let own = bindings.iter().filter(|binding| {
                let spec = &binding["spec"];
                spec["policyName"] == *policy.name && target.matches(spec.get("matchResources"))
            });
            found.extend(own.map(|binding| InForce { policy: policy.clone(), binding: binding.clone() }));
        }
        (found, namespace)
    }

    /// The namespace that a write is in, as it is now.
    fn namespace(&self, attempt: &Attempt<'_>) -> Option<Value> {
        let name = attempt.namespace.filter(|_| !attempt.is_of("namespaces"))?;
        let object = self.registry.cache().get("namespaces", "", name)?;
        Some(Value::Object(object.decode()))
    }
}

impl InForce {
    /// The name of the binding.
    fn name(&self) -> &str {
        self.binding["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// True for what no policy decides about: policies.
fn is_exempt(resource: &Resource) -> bool {
    let is_policy =
        |plural: &str| plural.ends_with("admissionpolicies") || plural.ends_with("admissionpolicybindings");
    resource.group == GROUP && is_policy(&resource.plural)
}
