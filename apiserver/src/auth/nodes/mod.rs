//! Node authorizer: grants a node access to the objects that its pods reference.
//!
//! [`authorize`] decides by rules and, where these need it, asks the [`Index`] whether a pod of the node
//! references the object. The index follows the watch cache ([`super::synced_index`]). Access starts with the
//! first request after a binding and ends with the write that removes the last reference.

pub mod authorize;
pub mod index;
pub mod ingress;
pub mod keys;
pub mod references;
pub mod tokens;

pub use self::authorize::NodeDecision;
pub use self::index::{Index, Kind, Object};

use self::ingress::IngressIndex;
use self::keys::Keys;
use super::attributes::{Attributes, On};
use super::rbac::{Decision, Rule, bootstrap_policy};
use super::synced_index::{self, SyncedIndex};
use crate::identity::Identity;
use crate::watch_cache::{self, WatchCache};

/// API groups that contain access reviews.
const REVIEW_GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];
/// Prefix of the resource names of reviews about the requester, such as `selfsubjectaccessreviews`.
const SELF_REVIEW_PREFIX: &str = "self";
/// Group of all nodes.
pub const NODES: &str = "system:nodes";
/// User name prefix of nodes that joined with a join string.
pub const PREFIX: &str = "kubelet:";
/// User name prefix of nodes in stock Kubernetes. Both prefixes denote the same node.
pub const STOCK_PREFIX: &str = "system:node:";
/// The user name prefixes of all nodes.
pub const PREFIXES: [&str; 2] = [STOCK_PREFIX, PREFIX];

/// Node name in a user name, regardless of the groups, or `None` for other users.
pub fn name_of(user: &str) -> Option<&str> {
    PREFIXES.iter().find_map(|prefix| user.strip_prefix(prefix))
}

/// Node name of an identity in the group `system:nodes`; empty if its user name has none. `None` for other
/// identities.
pub fn node_of(who: &Identity) -> Option<&str> {
    name_of(&who.user).filter(|_| who.is_in(NODES))
}

/// The node authorizer.
#[derive(Debug)]
pub struct Nodes {
    index: SyncedIndex<Index>,
    /// Secrets of Ingresses, for nodes that serve these.
    ingresses: SyncedIndex<IngressIndex>,
    /// Registered keys, or `None` when keys are not checked.
    keys: Option<SyncedIndex<Keys>>,
    /// The rules of the role `system:node`. They apply to every node.
    rules: Vec<Rule>,
}

impl Nodes {
    /// Creates an authorizer that reads the watch cache. With `needs_keys`, it accepts only node certificates whose
    /// key is registered at the Node.
    pub fn new(store: WatchCache, needs_keys: bool) -> Self {
        let keys = needs_keys.then(|| SyncedIndex::new(store.clone()));
        let ingresses = SyncedIndex::new(store.clone());
        Self { index: SyncedIndex::new(store), ingresses, keys, rules: bootstrap_policy::node_rules() }
    }

    /// The error for a node certificate whose key is not registered, or `None` for all others.
    pub fn unregistered(&self, who: &Identity, attributes: &Attributes) -> Option<String> {
        let (keys, node, key) = (self.keys.as_ref()?, node_of(who)?, who.key.as_deref()?);
        let is_self_review = matches!(&attributes.on, On::Resource(on)
            if REVIEW_GROUPS.contains(&on.group.as_str()) && on.resource.starts_with(SELF_REVIEW_PREFIX));
        if is_self_review || keys.with_index(|keys| keys.has(node, key)) {
            return None;
        }
        Some(format!(
            "the key of this certificate is not registered for node {node:?}: request a new certificate, as a new \
             machine does, and have it approved"
        ))
    }

    /// Authorizes a request of a node. Returns `Denied` without a reason for other users.
    pub fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        let allowed = || Decision::Allowed(String::new());
        let Some(node) = node_of(who) else { return Decision::Denied(String::new()) };
        if node.is_empty() {
            return Decision::Denied(format!("unknown node for user {:?}", who.user));
        }
        match authorize::authorize(node, attributes) {
            NodeDecision::Allowed => allowed(),
            NodeDecision::Denied(why) => Decision::Denied(why),
            NodeDecision::IfReachable(object) => {
                let of_pods = self.index.with_index(|index| index.reaches(node, &object));
                if of_pods || self.ingresses.with_index(|index| index.reaches(node, &object)) {
                    return allowed();
                }
                Decision::Denied(format!("no relationship found between node '{node}' and this object"))
            }
            NodeDecision::IfPolicies => {
                if self.index.with_index(|index| index.has_policies(node)) {
                    return allowed();
                }
                Decision::Denied("can only list/watch pods with spec.nodeName field selector".to_owned())
            }
            NodeDecision::ByRules if self.rules.iter().any(|rule| rule.allows(attributes)) => allowed(),
            NodeDecision::ByRules => Decision::Denied(String::new()),
        }
    }

    /// Updates the index in the background until the future is dropped.
    pub async fn run_sync(&self) {
        let indexes = async { tokio::join!(self.index.run_sync(), self.ingresses.run_sync()) };
        match &self.keys {
            None => drop(indexes.await),
            Some(keys) => drop(tokio::join!(indexes, keys.run_sync())),
        }
    }
}

impl synced_index::Index for Index {
    type Kind = Kind;
    const KINDS: &'static [Kind] = &[Kind::Pod, Kind::Volume, Kind::Attachment, Kind::Slice, Kind::Policy];

    fn resource(kind: Kind) -> String {
        kind.resource().to_owned()
    }

    fn upsert(&mut self, kind: Kind, object: &watch_cache::Object) {
        let own = Object::new(kind, object.namespace(), object.name());
        // A pending pod belongs to no node.
        if kind == Kind::Pod && object.field("spec.nodeName") == Some("") {
            return self.remove(&own);
        }
        // Most pod updates change no reference; those are not decoded.
        let reference_hash = if kind == Kind::Pod { references::reference_hash(object.json()) } else { None };
        if reference_hash.is_some_and(|reference_hash| self.is_unchanged(&own, reference_hash)) {
            return;
        }
        self.put(kind, &object.decode_without_managed_fields());
        if let Some(reference_hash) = reference_hash {
            self.set_hash(&own, reference_hash);
        }
    }

    fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.remove(&Object::new(kind, namespace, name));
    }
}

#[cfg(test)]
mod tests;
