//! Claims: their creation, and their owners by the retention policy.

use super::super::claims::{Ownership, User, is_stale, ownership};
use super::*;
use crate::objects::OwnerReference;

fn templates() -> (&'static str, Value) {
    ("/spec/volumeClaimTemplates", json!([{"metadata": {"name": "data"}}]))
}

fn policy(when_deleted: &str, when_scaled: &str) -> (&'static str, Value) {
    let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
    ("/spec/persistentVolumeClaimRetentionPolicy", policy)
}

fn owner(kind: &str, name: &str, uid: &str) -> OwnerReference {
    let api_version = if kind == "Pod" { "v1" } else { "apps/v1" }.into();
    let (kind, name, uid) = (kind.into(), name.into(), uid.into());
    OwnerReference { api_version, kind, name, uid, controller: true, ..OwnerReference::default() }
}

#[test]
fn claims_are_created_before_their_pod() {
    let set = set(&[templates()]);
    let claim = Claim { owners: &[], is_terminating: false };
    let ending = Claim { is_terminating: true, ..claim };
    let with = |claims: &[(&'static str, Claim<'static>)], pods: &str| {
        steps_with(&set, pods, &claims.iter().copied().collect())
    };
    assert_eq!(with(&[], ""), "create 0 new +data-web-0");
    assert_eq!(with(&[("data-web-0", claim)], ""), "create 0 new");
    assert_eq!(with(&[("data-web-0", ending)], ""), "create 0 new waits for data-web-0");
    // A claim that was deleted under a pending pod is created again.
    assert_eq!(with(&[], "0 new p"), "claims of web-0 +data-web-0");
    assert_eq!(with(&[], "0 new u"), "");
    // Claims of deleted pods stay.
    let scaled = super::set(&[templates(), replicas(0)]);
    assert_eq!(steps_with(&scaled, "0 new r", &[("data-web-0", claim)].into_iter().collect()), "delete 0");
}

#[test]
fn the_retention_policy_decides_on_the_owner() {
    use Ownership::{Keep, Pod, Release, Set};
    let (set_owner, pod_owner) = (owner("StatefulSet", "web", "s"), owner("Pod", "web-0", "p"));
    let no_controller = OwnerReference { controller: false, ..set_owner.clone() };
    let (other, earlier) = (owner("Other", "x", "o"), owner("Pod", "web-0", "q"));
    for (policy_of, is_condemned, owners, expected) in [
        (("Retain", "Retain"), false, vec![], Keep),
        (("Retain", "Retain"), true, vec![&set_owner], Release),
        (("Retain", "Retain"), false, vec![&other], Keep),
        (("Delete", "Retain"), false, vec![], Set),
        (("Delete", "Retain"), true, vec![&set_owner], Keep),
        (("Delete", "Retain"), false, vec![&no_controller], Set),
        (("Delete", "Retain"), false, vec![&pod_owner], Set),
        (("Retain", "Delete"), false, vec![], Keep),
        (("Retain", "Delete"), true, vec![], Pod),
        (("Retain", "Delete"), false, vec![&pod_owner], Release),
        (("Delete", "Delete"), false, vec![], Set),
        (("Delete", "Delete"), true, vec![&set_owner], Pod),
        (("Delete", "Delete"), true, vec![&pod_owner], Keep),
        (("Delete", "Delete"), true, vec![&set_owner, &pod_owner], Pod),
        // Claims of other controllers, and of an earlier pod of this name.
        (("Delete", "Delete"), false, vec![&other], Keep),
        (("Delete", "Delete"), false, vec![&other, &set_owner], Release),
        (("Delete", "Delete"), false, vec![&earlier], Keep),
    ] {
        let set = set(&[policy(policy_of.0, policy_of.1)]);
        let owners: Vec<OwnerReference> = owners.into_iter().cloned().collect();
        let user = User { name: "web-0", uid: "p", is_condemned };
        assert_eq!(ownership(&set, user, &owners), expected, "{policy_of:?} {is_condemned} {owners:?}");
    }
}

#[test]
fn claims_belong_to_a_pod_before_it_is_deleted_by_scaling() {
    let set = set(&[templates(), policy("Retain", "Delete"), replicas(1)]);
    let kept = Claim { owners: &[], is_terminating: false };
    let claims: Claims<'_> = [("data-web-0", kept), ("data-web-1", kept)].into_iter().collect();
    assert_eq!(
        steps_with(&set, "0 new r, 1 new r", &claims),
        "own data-web-1 condemned; delete 1",
        "the second phase starts after the first"
    );
    assert_eq!(steps_with(&set, "0 new u, 1 new r", &claims), "", "scaling waits");
}

#[test]
fn a_new_pod_does_not_use_a_claim_that_is_deleted_with_an_earlier_pod() {
    let owners = [owner("Pod", "web-0", "q")];
    let claim = Claim { owners: &owners, is_terminating: false };
    let claims: Claims<'_> = [("data-web-0", claim)].into_iter().collect();
    let with = |set: &StatefulSet| steps_with(set, "", &claims);
    assert_eq!(with(&set(&[templates(), policy("Retain", "Delete")])), "");
    assert_eq!(
        with(&parallel(&[templates(), policy("Retain", "Delete"), replicas(2)])),
        "create 1 new +data-web-1"
    );
    assert_eq!(with(&set(&[templates()])), "create 0 new");
    assert!(!is_stale(&set(&[policy("Retain", "Delete")]), "web-1", &owners));
}
