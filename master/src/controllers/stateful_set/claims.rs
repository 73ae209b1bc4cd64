//! The PersistentVolumeClaims of a StatefulSet's pods: which exist, and which object owns them by the retention policy.
//! Pure.

use std::collections::HashMap;

use client::Kind;

use crate::objects::{OwnerReference, StatefulSet};

/// A cached claim.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub owners: &'a [OwnerReference],
    pub is_terminating: bool,
}

/// Claims by name.
pub type Claims<'a> = HashMap<&'a str, Claim<'a>>;

/// A pod that uses claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    /// Whether scaling down deletes the pod.
    pub is_condemned: bool,
}

/// How the owner references of a claim must change. A change removes the references to the StatefulSet and the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The references are right, or belong to others.
    Keep,
    /// The claim has no owner: it is kept.
    Release,
    /// The StatefulSet owns the claim: it is deleted with the StatefulSet.
    Set,
    /// The pod owns the claim: it is deleted with the pod.
    Pod,
}

/// Decides which object owns a claim.
///
/// A claim with a reference to an earlier StatefulSet or pod of the same name is left to the garbage collector. A claim
/// that another controller manages is not taken over.
pub fn ownership(set: &StatefulSet, user: User<'_>, owners: &[OwnerReference]) -> Ownership {
    let (policy, own) = (&set.spec.persistent_volume_claim_retention_policy, &set.metadata);
    let is_set = |owner: &OwnerReference| {
        owner.group() == Kind::STATEFUL_SET.group
            && *owner.kind == *Kind::STATEFUL_SET.kind
            && owner.name == own.name
    };
    let is_earlier = |owner: &OwnerReference| {
        (is_set(owner) && owner.uid != own.uid) || (is_pod(owner, user.name) && *owner.uid != *user.uid)
    };
    if owners.iter().any(is_earlier) {
        return Ownership::Keep;
    }
    let is_ours = |owner: &&OwnerReference| owner.uid == own.uid || *owner.uid == *user.uid;
    let ours: Vec<&OwnerReference> = owners.iter().filter(is_ours).collect();
    let is_retained = !policy.deletes_with_set() && !policy.deletes_when_scaled();
    if !is_retained && owners.iter().any(|owner| owner.controller && !is_ours(&owner)) {
        return if ours.is_empty() { Ownership::Keep } else { Ownership::Release };
    }
    let wanted = if user.is_condemned && policy.deletes_when_scaled() {
        Ownership::Pod
    } else if policy.deletes_with_set() {
        Ownership::Set
    } else {
        Ownership::Release
    };
    let is_right = match (wanted, &*ours) {
        (Ownership::Release | Ownership::Keep, ours) => ours.is_empty(),
        (Ownership::Set, [owner]) => owner.uid == own.uid && owner.controller,
        (Ownership::Pod, [owner]) => *owner.uid == *user.uid && owner.controller,
        (Ownership::Set | Ownership::Pod, _) => false,
    };
    if is_right { Ownership::Keep } else { wanted }
}

/// Whether a claim belongs to an earlier pod of this name and will be deleted with it. A new pod must not use such a
/// claim.
pub fn is_stale(set: &StatefulSet, pod: &str, owners: &[OwnerReference]) -> bool {
    set.spec.persistent_volume_claim_retention_policy.deletes_when_scaled()
        && owners.iter().any(|owner| is_pod(owner, pod))
}

fn is_pod(owner: &OwnerReference, name: &str) -> bool {
    owner.group().is_empty() && *owner.kind == *Kind::POD.kind && *owner.name == *name
}
