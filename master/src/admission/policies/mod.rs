//! Admission policies: CEL expressions that administrators write to mutate or reject objects.
//!
//! Policies are compiled once per revision ([`decoded_cache`]) and matched ([`matching`]). Bindings activate them
//! with parameters ([`params`]). [`input`] provides the variables. `validating` and `mutating` apply the results. A
//! write of a policy with invalid expressions is rejected ([`validation`]).

mod authorizer;
mod compiled;
mod decoded_cache;
mod environment;
mod input;
mod matching;
mod mutating;
mod objects;
mod params;
#[cfg(test)]
mod tests;
mod validating;
mod validation;

use std::sync::Arc;

use apiserver::Resource;
use apiserver::admission::AdmissionRequest;
use apiserver::auth::Auth;
use apiserver::registry::Registry;
use serde_json::Value;

use self::compiled::Policy;
use self::decoded_cache::DecodedCache;
pub use self::mutating::MutatingAdmissionPolicy;
use self::objects::PolicyBinding;
pub use self::validating::ValidatingAdmissionPolicy;
pub use self::validation::PolicyValidation;
use crate::objects::decode;

const GROUP: &str = "admissionregistration.k8s.io";

/// Policies and bindings of one type.
struct Policies {
    registry: Arc<Registry>,
    auth: Arc<Auth>,
    policies: DecodedCache<Policy>,
    bindings: DecodedCache<PolicyBinding>,
}

/// A policy that a binding activates for a request.
struct ActiveBinding {
    policy: Arc<Policy>,
    binding: Arc<PolicyBinding>,
}

impl Policies {
    fn new(registry: Arc<Registry>, auth: Arc<Auth>, policies: &str, bindings: &str) -> Self {
        let stored = |plural: &str| format!("{plural}.{GROUP}");
        Self {
            policies: DecodedCache::new(stored(policies), |json| Policy::compile(&decode(json)).0),
            bindings: DecodedCache::new(stored(bindings), decode),
            registry,
            auth,
        }
    }

    /// The active bindings for a request, sorted by policy and binding name, and the namespace of the request.
    fn active_bindings(&self, attempt: &AdmissionRequest<'_>) -> (Vec<ActiveBinding>, Option<Value>) {
        let cache = self.registry.cache();
        // Most clusters have no policies. Policies do not apply to policies, so that a wrong one can be repaired.
        if self.policies.is_empty(cache) || self.bindings.is_empty(cache) || is_exempt(attempt.resource) {
            return (Vec::new(), None);
        }
        let namespace = self.namespace(attempt);
        let target = matching::Target::of(attempt, namespace.as_ref());
        let bindings = self.bindings.all(cache);
        let mut found = Vec::new();
        for policy in self.policies.all(cache) {
            if !target.matches(policy.match_constraints.as_ref()) {
                continue;
            }
            let own = bindings.iter().filter(|binding| {
                let spec = &binding.spec;
                *spec.policy_name == *policy.name && target.matches(spec.match_resources.as_ref())
            });
            found.extend(
                own.map(|binding| ActiveBinding { policy: policy.clone(), binding: binding.clone() }),
            );
        }
        (found, namespace)
    }

    /// The current namespace of the request.
    fn namespace(&self, attempt: &AdmissionRequest<'_>) -> Option<Value> {
        let name = attempt.namespace.filter(|_| !attempt.is_of("namespaces"))?;
        let object = self.registry.cache().get("namespaces", "", name)?;
        Some(Value::Object(object.decode()))
    }
}

impl ActiveBinding {
    /// Returns the name of the binding.
    fn name(&self) -> &str {
        &self.binding.metadata.name
    }
}

/// Whether the resource is a policy or binding.
fn is_exempt(resource: &Resource) -> bool {
    let is_policy =
        |plural: &str| plural.ends_with("admissionpolicies") || plural.ends_with("admissionpolicybindings");
    resource.group == GROUP && is_policy(&resource.plural)
}
