//! A node may what its pods need: the authorizer of nodes, beside the one of roles.
//!
//! `who: a node? -> ask: allowed, refused, or if a pod of it names that object -> index`. The index follows the pods,
//! volumes, attachments and slices in the store, see [`super::follow`]: a pod's node may read its secrets with the first
//! request after the answer to the binding, and may not after the answer to the write that took the last name away.

pub mod ask;
pub mod index;
pub mod keys;
pub mod names;
pub mod tokens;

pub use self::ask::Answer;
pub use self::index::{Index, Kind, Object};

use self::keys::Keys;
use super::attributes::{Attributes, On};
use super::follow::{self, Followed};
use super::rbac::{Decision, Rule, stock};
use crate::identity::Identity;
use crate::store::{self, Memory};

/// The groups of kinds by which anybody asks who he is and what he may.
const QUESTIONS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];
/// What the names of those kinds begin with that are about whoever asks.
const OF_ONESELF: &str = "self";
/// The group of all nodes.
pub const NODES: &str = "system:nodes";
/// What the name of a node's user begins with, by the way of join strings.
pub const PREFIX: &str = "kubelet:";
/// The same by the stock server's way: both are the same node.
pub const STOCK_PREFIX: &str = "system:node:";
/// Both.
pub const PREFIXES: [&str; 2] = [STOCK_PREFIX, PREFIX];
/// What is said to somebody with the certificate of a node at which its key is not noted, in front of the node's name.
pub const UNREGISTERED: &str = "the key of this certificate is not registered for node";

/// The node that a user is called after, whatever its groups and whatever is left of the name; `None` for all others.
pub fn name_of(user: &str) -> Option<&str> {
    PREFIXES.iter().find_map(|prefix| user.strip_prefix(prefix))
}

/// The node that somebody is, empty when it has no name; `None` for all others.
pub fn node_of(who: &Identity) -> Option<&str> {
    name_of(&who.user).filter(|_| who.is_in(NODES))
}

/// Decides for nodes by the pods in a store.
#[derive(Debug)]
pub struct Nodes {
    followed: Followed<Index>,
    /// Where nodes are known by keys that were noted at them: those.
    keys: Option<Followed<Keys>>,
    /// What every node may, whatever its pods.
    rules: Vec<Rule>,
}

impl Nodes {
    /// One that follows that store; where `needs_keys`, nobody is a node whose key is not noted at the Node of that name.
    pub fn new(store: Memory, needs_keys: bool) -> Self {
        let keys = needs_keys.then(|| Followed::new(store.clone()));
        Self { followed: Followed::new(store), keys, rules: stock::node_rules() }
    }

    /// Why somebody with the certificate of a node is a stranger all the same, whatever roles say; `None` for all others.
    pub fn stranger(&self, who: &Identity, attributes: &Attributes) -> Option<String> {
        let (keys, node, key) = (self.keys.as_ref()?, node_of(who)?, who.key.as_deref()?);
        let is_question = matches!(&attributes.on, On::Resource(on)
            if QUESTIONS.contains(&on.group.as_str()) && on.resource.starts_with(OF_ONESELF));
        if is_question || keys.with_index(|keys| keys.has(node, key)) {
            return None;
        }
        Some(format!(
            "{UNREGISTERED} {node:?}: ask for a certificate as a new machine does, and \
             have it approved"
        ))
    }

    /// Whether somebody may do something as a node; nobody else may anything here.
    pub fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        let allowed = || Decision::Allowed(String::new());
        let Some(node) = node_of(who) else { return Decision::Denied(String::new()) };
        if node.is_empty() {
            return Decision::Denied(format!("unknown node for user {:?}", who.user));
        }
        match ask::answer(node, attributes) {
            Answer::Allowed => allowed(),
            Answer::Refused(why) => Decision::Denied(why),
            Answer::IfReached(object) => {
                if self.followed.with_index(|index| index.reaches(node, &object)) {
                    return allowed();
                }
                Decision::Denied(format!("no relationship found between node '{node}' and this object"))
            }
            Answer::ByRules if self.rules.iter().any(|rule| rule.allows(attributes)) => allowed(),
            Answer::ByRules => Decision::Denied(String::new()),
        }
    }

    /// Takes in what changes when it changes, for as long as it is polled.
    pub async fn keep_up(&self) {
        match &self.keys {
            None => self.followed.keep_up().await,
            Some(keys) => drop(tokio::join!(self.followed.keep_up(), keys.keep_up())),
        }
    }
}

impl follow::Index for Index {
    type Kind = Kind;
    const KINDS: &'static [Kind] = &[Kind::Pod, Kind::Volume, Kind::Attachment, Kind::Slice];

    fn resource(kind: Kind) -> String {
        kind.resource().to_owned()
    }

    fn take_in(&mut self, kind: Kind, object: &store::Object) {
        let own = Object::new(kind, object.namespace(), object.name());
        // One that waits for a node is nobody's yet.
        if kind == Kind::Pod && object.field("spec.nodeName") == Some("") {
            return self.remove(&own);
        }
        // Of a pod hardly any write changes what it names: it is not even read then.
        let said = if kind == Kind::Pod { names::said(object.json()) } else { None };
        if said.is_some_and(|said| self.has_heard(&own, said)) {
            return;
        }
        self.put(kind, &object.decode_bare());
        if let Some(said) = said {
            self.note(&own, said);
        }
    }

    fn forget(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.remove(&Object::new(kind, namespace, name));
    }
}

#[cfg(test)]
mod tests;
