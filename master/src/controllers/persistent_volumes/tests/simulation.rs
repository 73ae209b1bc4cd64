//! A simulation: claims and volumes come and go, steps are carried out in any order and may be interrupted. No volume
//! ever has two claims, and in the end each claim that can be bound is bound.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::super::claim_plan::{ClaimInput, ClaimStep, plan};
use super::super::volume_plan::{self, VolumeStep};
use super::{claim, volume};
use crate::objects::volume::{ClaimReference, PersistentVolume, PersistentVolumeClaim};

#[derive(Clone, Debug)]
enum Event {
    CreateClaim(u8, u8),
    DeleteClaim(u8),
    CreateVolume(u8, u8),
    ReconcileClaim(u8),
    /// The controller stops after it has written the volume, before it writes the claim.
    InterruptClaim(u8),
    ReconcileVolume(u8),
}

#[derive(Default)]
struct World {
    claims: BTreeMap<u8, PersistentVolumeClaim>,
    volumes: BTreeMap<u8, PersistentVolume>,
    uids: u32,
}

impl World {
    fn apply(&mut self, event: &Event) {
        match *event {
            Event::CreateClaim(at, size) => {
                self.uids += 1;
                let uid = format!("c-{}", self.uids);
                let size = format!("{size}Gi");
                self.claims.entry(at).or_insert_with(|| {
                    claim(json!({
                        "metadata": {"name": at.to_string(), "uid": uid},
                        "spec": {"resources": {"requests": {"storage": size}}},
                    }))
                });
            }
            Event::DeleteClaim(at) => drop(self.claims.remove(&at)),
            Event::CreateVolume(at, size) => {
                let made =
                    volume(&at.to_string(), &format!("{size}Gi"), json!({"status": {"phase": "Pending"}}));
                self.volumes.entry(at).or_insert(made);
            }
            Event::ReconcileClaim(at) => self.reconcile_claim(at, false),
            Event::InterruptClaim(at) => self.reconcile_claim(at, true),
            Event::ReconcileVolume(at) => self.reconcile_volume(at),
        }
    }

    fn reconcile_claim(&mut self, at: u8, is_interrupted: bool) {
        let Some(claim) = self.claims.get(&at) else { return };
        let volumes: Vec<&PersistentVolume> = self.volumes.values().collect();
        let named = volumes.iter().copied().find(|volume| volume.metadata.name == claim.spec.volume_name);
        let input = ClaimInput { claim, named, volumes: &volumes, class: None, default_class: None };
        let ClaimStep::Bind(volume) = plan(&input) else { return };
        let name = volume.metadata.name.clone();
        let reference = ClaimReference {
            namespace: claim.metadata.namespace.clone(),
            name: claim.metadata.name.clone(),
            uid: claim.metadata.uid.clone(),
        };
        if let Some(volume) = self.volumes.values_mut().find(|volume| volume.metadata.name == name) {
            volume.spec.claim_ref = Some(reference);
        }
        if let Some(claim) = self.claims.get_mut(&at).filter(|_| !is_interrupted) {
            claim.spec.volume_name = name;
            claim.metadata.annotations.bind_completed = Some("yes".into());
            claim.status.phase = "Bound".into();
        }
    }

    fn reconcile_volume(&mut self, at: u8) {
        let Some(volume) = self.volumes.get(&at) else { return };
        let reference = volume.spec.claim_ref.as_ref();
        let number = reference.and_then(|reference| reference.name.parse::<u8>().ok());
        let claim = number.and_then(|number| self.claims.get(&number));
        match volume_plan::plan(volume, claim) {
            VolumeStep::Phase(phase) => {
                if let Some(volume) = self.volumes.get_mut(&at) {
                    volume.status.phase = phase.into();
                }
            }
            VolumeStep::ReconcileClaim => self.reconcile_claim(number.unwrap_or_default(), false),
            VolumeStep::Nothing
            | VolumeStep::Unbind { .. }
            | VolumeStep::Fail(_)
            | VolumeStep::DeleteLocal
            | VolumeStep::Abandon => {}
        }
    }

    fn check(&self) {
        let mut taken = BTreeMap::new();
        for (at, claim) in &self.claims {
            if claim.spec.volume_name.is_empty() {
                continue;
            }
            assert_eq!(taken.insert(claim.spec.volume_name.clone(), at), None, "two claims have a volume");
            let volume =
                self.volumes.values().find(|volume| volume.metadata.name == claim.spec.volume_name).unwrap();
            let uid = volume.spec.claim_ref.as_ref().map(|reference| &reference.uid);
            assert_eq!(uid, Some(&claim.metadata.uid), "a volume has another claim");
            assert!(volume.size() >= claim.requested());
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let (which, size) = (0..4_u8, 1..4_u8);
    prop_oneof![
        (which.clone(), size.clone()).prop_map(|(at, size)| Event::CreateClaim(at, size)),
        which.clone().prop_map(Event::DeleteClaim),
        (which.clone(), size).prop_map(|(at, size)| Event::CreateVolume(at, size)),
        which.clone().prop_map(Event::ReconcileClaim),
        which.clone().prop_map(Event::InterruptClaim),
        which.prop_map(Event::ReconcileVolume),
    ]
}

proptest! {
    #[test]
    fn no_volume_has_two_claims_and_no_claim_waits_beside_a_free_volume(events in prop::collection::vec(event(), 1..80)) {
        let mut world = World::default();
        for event in &events {
            world.apply(event);
            world.check();
        }
        for _ in 0..3 {
            for at in 0..4 {
                world.reconcile_volume(at);
                world.reconcile_claim(at, false);
            }
        }
        world.check();
        for claim in world.claims.values().filter(|claim| claim.spec.volume_name.is_empty()) {
            let free = world.volumes.values().find(|volume| volume.is_available_for(claim));
            prop_assert!(free.is_none(), "{claim:?} waits beside {free:?}");
        }
    }
}
