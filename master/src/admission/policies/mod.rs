//! Admission policies: CEL expressions that administrators write to mutate or reject objects.
//!
//! Policies are compiled once per revision ([`DecodedCache`]) and matched ([`matching`]). Bindings activate them
//! with parameters ([`params`]). [`input`] provides the variables. `validating` and `mutating` apply the results. A
//! write of a policy with invalid expressions is rejected ([`validation`]).

mod authorizer;
mod compiled;
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

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use apiserver::Resource;
use apiserver::admission::AdmissionRequest;
use apiserver::auth::Auth;
use apiserver::registry::Registry;
use apiserver::watch_cache::{Scope, WatchCache};
use serde_json::Value;

use self::compiled::Policy;

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

/// The decoded objects, at most one per stored object.
pub struct DecodedCache<T> {
    resource: String,
    read: fn(&[u8]) -> T,
    by_name: Mutex<HashMap<String, (u64, Arc<T>)>>,
}

impl<T> DecodedCache<T> {
    /// Creates a cache of a resource. `read` decodes its objects.
    pub fn new(resource: String, read: fn(&[u8]) -> T) -> Self {
        Self { resource, read, by_name: Mutex::default() }
    }

    /// Whether no object is stored.
    pub fn is_empty(&self, cache: &WatchCache) -> bool {
        cache.count(&self.resource, &Scope::All) == 0
    }

    /// All decoded objects, sorted by name.
    pub fn all(&self, cache: &WatchCache) -> Vec<Arc<T>> {
        let mut objects = cache.list(&self.resource, &Scope::All).objects;
        objects.sort_by(|one, two| one.name().cmp(two.name()));
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *by_name);
        objects
            .iter()
            .map(|object| {
                let known =
                    before.remove(object.name()).filter(|(revision, _)| *revision == object.revision());
                let read = known.map_or_else(|| Arc::new((self.read)(object.json())), |(_, read)| read);
                by_name.insert(object.name().to_owned(), (object.revision(), read.clone()));
                read
            })
            .collect()
    }
}
