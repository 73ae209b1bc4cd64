//! Claims that wait for their first consumer: which volume they get on a node, and whether they are bound yet. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use api::quantity::Quantity;
use tokio::time::Instant;

use super::{Claim, NamespacedName, Volume, VolumeRequirements, Volumes};
use crate::objects::volume::StorageClass;
use crate::scheduler::node::Node;
use crate::scheduler::pod::Pod;

/// A claim of a pod that is bound on the node that the pod gets.
#[derive(Debug)]
pub struct UnboundClaim<'a> {
    claim: &'a Claim,
    class: &'a StorageClass,
    /// Free volumes that fit the claim, the smallest first.
    candidates: Vec<&'a Volume>,
    /// The binding that another pod with this claim has started.
    assumed: Option<&'a ClaimBinding>,
}

/// How a claim gets its volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimTarget {
    /// The scheduler reserves this volume for it.
    Volume {
        name: String,
        /// The version of the volume that was free.
        resource_version: String,
    },
    /// The scheduler writes the node into the claim, and a provisioner creates the volume.
    Provision,
    /// Another attempt has written the node. There is nothing to write.
    Started,
}

/// The decision about one claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimBinding {
    /// Namespace and name of the claim.
    pub claim: NamespacedName,
    pub claim_uid: String,
    /// Name of the node.
    pub node: String,
    pub target: ClaimTarget,
}

impl UnboundClaim<'_> {
    /// The requested size in bytes.
    pub fn requested(&self) -> Quantity {
        self.claim.unbound.as_ref().map_or(Quantity::ZERO, |claim| claim.requested())
    }

    /// The node for which a provisioner creates the volume already.
    fn selected_node(&self) -> Option<&str> {
        self.claim.unbound.as_ref()?.metadata.annotations.selected_node.as_deref()
    }

    fn target_on(&self, node: &Node, taken: &mut HashSet<String>) -> Option<ClaimTarget> {
        let started = self.assumed.map(|binding| binding.node.as_str()).or(self.selected_node());
        if let Some(started) = started {
            return (started == node.name).then_some(ClaimTarget::Started);
        }
        let reaches = |volume: &&&Volume| {
            let terms = volume.terms.as_ref();
            terms.is_none_or(|terms| terms.iter().any(|term| term.matches(&node.name, &node.labels)))
        };
        let volume = self.candidates.iter().filter(|volume| !taken.contains(&volume.name)).find(reaches);
        if let Some(object) = volume.and_then(|volume| volume.free.as_ref()) {
            let name = object.metadata.name.to_string();
            taken.insert(name.clone());
            let resource_version = object.metadata.resource_version.to_string();
            return Some(ClaimTarget::Volume { name, resource_version });
        }
        let can_provision = self.class.has_provisioner() && self.class.allows_topology(&node.labels);
        can_provision.then_some(ClaimTarget::Provision)
    }
}

impl VolumeRequirements<'_> {
    /// How the unbound claims get their volumes on a node. `None` if one of them cannot.
    pub fn bindings_on(&self, node: &Node) -> Option<Vec<ClaimBinding>> {
        let mut taken = HashSet::new();
        let binding = |unbound: &UnboundClaim<'_>| {
            Some(ClaimBinding {
                target: unbound.target_on(node, &mut taken)?,
                claim: unbound.claim.key.clone(),
                claim_uid: unbound.claim.unbound.as_ref()?.metadata.uid.to_string(),
                node: node.name.clone(),
            })
        };
        self.unbound.iter().map(binding).collect()
    }
}

impl Volumes {
    /// The claim, if it waits for its first consumer.
    pub(super) fn unbound<'a>(&'a self, claim: &'a Claim) -> Option<UnboundClaim<'a>> {
        let object = claim.unbound.as_deref().filter(|object| object.spec.volume_name.is_empty())?;
        let class = &self.classes.get(&claim.class)?.object;
        if !class.waits_for_consumer() {
            return None;
        }
        let is_taken = |volume: &Volume| {
            self.assumed.iter().any(|(other, binding)| {
                *other != claim.key
                    && matches!(&binding.target, ClaimTarget::Volume { name, .. } if *name == volume.name)
            })
        };
        let fits = |volume: &&Volume| {
            volume.free.as_ref().is_some_and(|free| free.is_available_for(object)) && !is_taken(volume)
        };
        let mut candidates: Vec<&Volume> = self.volumes.all().filter(fits).collect();
        candidates.sort_by_key(|volume| (volume.free.as_ref().map(|free| free.size()), &volume.name));
        Some(UnboundClaim { claim, class, candidates, assumed: self.assumed.get(&claim.key) })
    }

    /// Assumes the bindings of a pod's unbound claims on a node, so that other pods do not get their volumes.
    pub fn assume(&mut self, pod: &Pod, node: &Node) -> Vec<ClaimBinding> {
        let bindings = {
            let requirements = self.requirements_of(pod).unwrap_or_default();
            requirements.bindings_on(node).unwrap_or_default()
        };
        for binding in &bindings {
            self.assumed.entry(binding.claim.clone()).or_insert_with(|| binding.clone());
        }
        bindings
    }

    /// Ends the assumption of bindings.
    pub fn forget_assumed(&mut self, bindings: &[ClaimBinding]) {
        for binding in bindings.iter().filter(|binding| binding.target != ClaimTarget::Started) {
            self.assumed.remove(&binding.claim);
        }
    }
}

/// An assumed pod whose claims are being bound.
#[derive(Clone, Debug)]
pub struct ClaimWait {
    pub pod: Arc<Pod>,
    /// Name of the node.
    pub node: String,
    pub bindings: Vec<ClaimBinding>,
    /// When the wait ends without success.
    pub until: Instant,
    /// Claims that have shown the selected node.
    pub seen: HashSet<NamespacedName>,
}

/// The state of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitState {
    /// Some claims are not bound yet.
    Waiting,
    /// All claims are bound.
    Bound,
    /// A claim cannot be bound on this node. The text says why.
    Failed(String),
}

impl ClaimWait {
    /// Examines the claims.
    pub fn check(&mut self, volumes: &Volumes, now: Instant) -> WaitState {
        let mut is_bound = true;
        for binding in &self.bindings {
            let name = &binding.claim.1;
            let Some(claim) = volumes.claims.get(&binding.claim).filter(|claim| !claim.is_terminating) else {
                return WaitState::Failed(format!("persistentvolumeclaim \"{name}\" was deleted"));
            };
            if claim.is_bound {
                continue;
            }
            is_bound = false;
            let annotations = claim.unbound.as_ref().map(|claim| &claim.metadata.annotations);
            let selected = annotations.and_then(|annotations| annotations.selected_node.as_deref());
            if selected == Some(&self.node) {
                self.seen.insert(binding.claim.clone());
            } else if selected.is_some() || self.seen.contains(&binding.claim) {
                return WaitState::Failed(format!(
                    "no volume of persistentvolumeclaim \"{name}\" can be created on node \"{}\"",
                    self.node
                ));
            }
        }
        if is_bound {
            WaitState::Bound
        } else if now >= self.until {
            WaitState::Failed("timed out waiting for the claims to be bound".to_owned())
        } else {
            WaitState::Waiting
        }
    }
}
